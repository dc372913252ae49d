//! The throughput of all runs below each other.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{GroupReport, Row};
use crate::draw::{Axis, BAR, Key, LABEL_SIZE, Mark, Rows, SIZE, Unit, colour, drawn_at_with};
use crate::words::fixed;

/// A bar for each run, beside what others found and what no shape exceeds.
pub(super) fn throughput(report: &GroupReport) -> String {
    let rows = &report.rows;
    let frame = Rows::new(rows.iter().map(|row| row.label.as_str()));
    let known = |row: &Row| -> Vec<f64> {
        let of_run = report.known.iter().filter(|known| known.run == row.run);
        of_run.filter(|known| known.metric == "throughput_mb_per_s").map(|known| known.known).collect()
    };
    let ours: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.throughput_mb_per_s)).collect();
    let bounds: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.upper_bound_mb_per_s)).collect();
    let most = ours.iter().chain(&bounds).copied().chain(rows.iter().flat_map(&known)).fold(1e-3, f64::max);
    let mut key = vec![
        (Mark::Bar(colour(1)), "here".to_owned()),
        (Mark::Dashes(BLACK), "what no shape exceeds".to_owned()),
    ];
    if rows.iter().any(|row| !known(row).is_empty()) {
        key.push((Mark::Ring(BLACK), "published or measured by others".to_owned()));
    }
    // Numbers stand behind bars and bounds.
    let x = Axis::linear(0.0..most * 1.14, Unit::Number, frame.room());
    drawn_at_with(frame.size(), &Key::new(key, SIZE.0), |area| {
        let mut chart = frame.chart(area, "payload that a member delivers, in MB/s", (&x, ""))?;
        let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        for (place, ((row, ours), bound)) in rows.iter().zip(&ours).zip(&bounds).enumerate() {
            let middle = frame.middle(place);
            let corners = [(0.0, middle - BAR / 2.0), (*ours, middle + BAR / 2.0)];
            chart.draw_series([Rectangle::new(corners, colour(1).filled())])?;
            let line = [(*bound, middle - 0.45), (*bound, middle + 0.45)];
            chart.draw_series(DashedLineSeries::new(line, 4, 3, BLACK.stroke_width(1)))?;
            let rings = known(row);
            chart.draw_series(
                rings.iter().map(|value| Circle::new((*value, middle), 7, BLACK.stroke_width(2))),
            )?;
            let end = rings.iter().copied().fold(ours.max(*bound), f64::max);
            let (x, y) = chart.backend_coord(&(end, middle));
            area.draw(&Text::new(fixed(*ours, 1), (x + 10, y), style.clone()))?;
        }
        Ok(())
    })
}
