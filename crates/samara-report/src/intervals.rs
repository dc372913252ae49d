//! Means below each other, with their confidence intervals.

use plotters::prelude::*;

use crate::draw::{Axis, Key, LABEL_SIZE, Mark, Rows, SIZE, Unit, drawn_at_with};

/// Half the height of the ends of an interval, as a part of a row.
const END: f64 = 0.14;

/// Means below each other.
pub(crate) struct IntervalPlot<'a> {
    /// What is shown.
    pub(crate) title: &'a str,
    /// What its values are.
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<IntervalRow>,
    /// Whether values are changes: a line is drawn at 0, and the axis shows as much on either side as there is.
    pub(crate) is_change: bool,
    /// What colours mean.
    pub(crate) key: Vec<(Mark, String)>,
}

/// A mean with its confidence interval.
pub(crate) struct IntervalRow {
    pub(crate) name: String,
    pub(crate) mean: f64,
    /// Half the width of the interval; 0 if there is none.
    pub(crate) half: f64,
    /// Single values, which are drawn behind it.
    pub(crate) values: Vec<f64>,
    pub(crate) colour: RGBColor,
}

impl IntervalPlot<'_> {
    /// The figure as SVG.
    pub(crate) fn svg(&self) -> String {
        let frame = Rows::new(self.rows.iter().map(|row| row.name.as_str()));
        let ends = |row: &IntervalRow| [row.mean - row.half, row.mean + row.half];
        let all = || self.rows.iter().flat_map(|row| row.values.iter().copied().chain(ends(row)));
        let most = all().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let least = if self.is_change { all().filter(|v| v.is_finite()).fold(0.0, f64::min) } else { 0.0 };
        let room = ((most - least) * 0.06).max(if self.is_change { 0.005 } else { 1e-6 });
        let from = if self.is_change { least - room } else { 0.0 };
        let x = Axis::linear(from..most + room, self.unit, frame.room());
        let key = Key::new(self.key.iter().cloned(), SIZE.0);
        drawn_at_with(frame.size(), &key, |area| {
            let mut chart = frame.chart(area, self.title, (&x, ""))?;
            if self.is_change {
                let line = [(0.0, 0.0), (0.0, self.rows.len() as f64)];
                chart.draw_series(LineSeries::new(line, BLACK.mix(0.6).stroke_width(1)))?;
            }
            for (place, row) in self.rows.iter().enumerate() {
                let y = frame.middle(place);
                let values = row.values.iter().filter(|value| value.is_finite());
                chart.draw_series(
                    values.map(|value| Circle::new((*value, y), 3, row.colour.mix(0.3).filled())),
                )?;
                if !row.mean.is_finite() {
                    let at = chart.backend_coord(&(x.ends().start, y));
                    let style = ("sans-serif", LABEL_SIZE).into_text_style(area);
                    area.draw(&Text::new("from nothing", (at.0 + 6, at.1 - 8), style))?;
                    continue;
                }
                let [low, high] = ends(row).map(|end| end.max(x.ends().start));
                if row.half > 0.0 {
                    let lines = [
                        [(low, y), (high, y)],
                        [(low, y - END), (low, y + END)],
                        [(high, y - END), (high, y + END)],
                    ];
                    chart
                        .draw_series(lines.map(|line| PathElement::new(line, row.colour.stroke_width(2))))?;
                }
                chart.draw_series([Circle::new((row.mean, y), 5, row.colour.filled())])?;
            }
            Ok(())
        })
    }
}
