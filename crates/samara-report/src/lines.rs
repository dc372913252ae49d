//! A figure over a sweep: a line for each run.

use plotters::prelude::*;

use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Swept, Unit, chart, colour, drawn_with, rooms};

/// What is shown goes by powers of ten where the most is this much more than the least; else it is easier to read from zero on.
const POWERS_FROM: f64 = 20.0;

/// How much of its line's colour a confidence band has.
const BAND: f64 = 0.16;

/// Runs over one axis of a sweep.
pub(crate) struct LinePlot<'a> {
    /// What is shown.
    pub(crate) title: &'a str,
    /// What varies, and its values.
    pub(crate) axis: &'a str,
    pub(crate) swept: &'a Swept,
    /// What the values of runs are.
    pub(crate) unit: Unit,
    /// Run by run.
    pub(crate) lines: Vec<Line>,
    /// Where a ring is drawn, and what the key says about rings.
    pub(crate) rings: Vec<(f64, f64)>,
    pub(crate) ring: &'a str,
}

/// A run.
pub(crate) struct Line {
    /// What the key calls it.
    pub(crate) label: String,
    /// Value of the axis, value of the run; what is not finite is left out.
    pub(crate) points: Vec<(f64, f64)>,
    /// Half the width of a confidence interval, point by point; none if there is nothing to show.
    pub(crate) confidence: Vec<f64>,
    /// Whether it is a bound rather than a run.
    pub(crate) bound: bool,
}

/// The corners of a line's confidence band, no lower than `bottom`; nothing where there is none to see.
fn band(line: &Line, bottom: f64) -> Option<Vec<(f64, f64)>> {
    let known: Vec<((f64, f64), f64)> = line
        .points
        .iter()
        .copied()
        .zip(line.confidence.iter().copied())
        .filter(|((_, value), half)| value.is_finite() && half.is_finite())
        .collect();
    if known.len() < 2 || known.iter().all(|(_, half)| *half <= 0.0) {
        return None;
    }
    let above = known.iter().map(|((x, value), half)| (*x, value + half));
    let below = known.iter().rev().map(|((x, value), half)| (*x, (value - half).max(bottom)));
    Some(above.chain(below).collect())
}

impl LinePlot<'_> {
    /// The figure as SVG.
    pub(crate) fn svg(&self) -> String {
        let runs = self.lines.iter().enumerate().map(|(i, line)| {
            let mark = if line.bound { Mark::Dashes(BLACK) } else { Mark::Line(colour(i)) };
            (mark, line.label.clone())
        });
        let ring = (!self.rings.is_empty()).then(|| (Mark::Ring(BLACK), self.ring.to_owned()));
        let key = Key::new(runs.chain(ring), SIZE.0);
        drawn_with(&key, |area| {
            let (x, y) = (self.across(), self.upright());
            let bottom = y.ends().start;
            let mut chart = chart(area, self.title, (&x, self.axis), (&y, ""))?;
            for (i, line) in self.lines.iter().enumerate() {
                let colour = colour(i);
                let points: Vec<(f64, f64)> =
                    line.points.iter().copied().filter(|(_, value)| value.is_finite()).collect();
                if line.bound {
                    chart.draw_series(DashedLineSeries::new(points, 6, 5, BLACK.stroke_width(1)))?;
                    continue;
                }
                if let Some(band) = band(line, bottom) {
                    chart.draw_series([Polygon::new(band, colour.mix(BAND))])?;
                }
                chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
                chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
                let wide = line.points.iter().zip(&line.confidence).filter(|(_, half)| **half > 0.0);
                chart.draw_series(wide.map(|((x, value), half)| {
                    PathElement::new([(*x, (value - half).max(bottom)), (*x, value + half)], colour)
                }))?;
            }
            chart.draw_series(self.rings.iter().map(|ring| Circle::new(*ring, 8, BLACK.stroke_width(2))))?;
            Ok(())
        })
    }

    fn across(&self) -> Axis {
        let ends = self.swept.ticks.first().zip(self.swept.ticks.last());
        let (low, high) = ends.map_or((0.0, 1.0), |(first, last)| (first.0, last.0));
        let range = if self.swept.by_powers {
            let room = (high / low).powf(0.04);
            low / room..high * room
        } else {
            let room = if high > low { (high - low) * 0.04 } else { 1.0 };
            low - room..high + room
        };
        Axis::at(range, self.swept.by_powers, &self.swept.ticks, rooms(SIZE, LEFT).0)
    }

    fn upright(&self) -> Axis {
        let values = || {
            let all = self.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
            let upper = self.lines.iter().flat_map(|line| {
                line.points.iter().zip(&line.confidence).map(|((_, value), half)| value + half)
            });
            all.chain(upper).filter(|value| value.is_finite())
        };
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max).max(1e-3));
        let room = rooms(SIZE, LEFT).1;
        if least > 0.0 && most / least >= POWERS_FROM {
            Axis::powers(least / 1.3..most * 1.3, self.unit, room)
        } else {
            Axis::linear(0.0..most * 1.08, self.unit, room)
        }
    }
}
