//! The throughput of all runs below each other.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Row;
use crate::draw::{Axis, BAR, Key, LABEL_SIZE, Mark, Rows, SIZE, Unit, colour, drawn_at_with};
use crate::words::grouped;

/// A bar for each run, with what the busiest processor or uplink allows.
pub(super) fn throughput(title: &str, rows: &[&Row]) -> String {
    let frame = Rows::new(rows.iter().map(|row| row.label.as_str()));
    let ours: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.slots_per_s)).collect();
    let bounds: Vec<f64> = rows.iter().map(|row| row.mean(|m| m.upper_bound_slots_per_s)).collect();
    let most = ours.iter().chain(&bounds).copied().fold(1e-3, f64::max);
    let key = Key::new(
        [
            (Mark::Bar(colour(1)), "payloads a second".to_owned()),
            (Mark::Dashes(BLACK), "what the busiest processor or uplink allows".to_owned()),
        ],
        SIZE.0,
    );
    // Numbers stand behind bars and bounds.
    let x = Axis::linear(0.0..most * 1.3, Unit::Number, frame.room());
    drawn_at_with(frame.size(), &key, |area| {
        let mut chart = frame.chart(area, title, (&x, ""))?;
        let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        for (place, ((row, ours), bound)) in rows.iter().zip(&ours).zip(&bounds).enumerate() {
            let middle = frame.middle(place);
            let corners = [(0.0, middle - BAR / 2.0), (*ours, middle + BAR / 2.0)];
            chart.draw_series([Rectangle::new(corners, colour(1).filled())])?;
            let line = [(*bound, middle - 0.45), (*bound, middle + 0.45)];
            chart.draw_series(DashedLineSeries::new(line, 4, 3, BLACK.stroke_width(1)))?;
            let (x, y) = chart.backend_coord(&(ours.max(*bound), middle));
            let gain = if row.is_base() || !row.gain().is_finite() {
                String::new()
            } else {
                format!(", {:.1} x", row.gain())
            };
            area.draw(&Text::new(format!("{}{gain}", grouped(*ours)), (x + 10, y), style.clone()))?;
        }
        Ok(())
    })
}
