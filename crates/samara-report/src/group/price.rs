//! What throughput costs in latency, over a sweep of the rate.

use plotters::prelude::*;

use super::Row;
use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Unit, chart, colour, drawn_with, rooms};
use crate::parts::Figure;

/// Name and title of a figure, and its value.
type Price = (&'static str, &'static str, fn(&Row) -> f64);

const PRICES: [Price; 2] = [
    ("price", "median time until another member has a message", |row| row.latency(|times| times.p50)),
    ("price-p99", "99th percentile of the time until another member has a message", |row| {
        row.latency(|times| times.p99)
    }),
];

/// Room at the ends of an axis by powers.
const ROOM: f64 = 1.25;

/// Latency against throughput: a line for each run through its rates.
pub(super) fn all(rows: &[&Row], place: &str, suffix: &str) -> Vec<Figure> {
    let figure = |(name, title, value): &Price| {
        let caption = "Each dot is a rate at which messages were handed in: below what a shape can reach, throughput is the rate, and latency that of its \
                       hops; beyond, messages wait for room.";
        Figure::new(format!("{name}{suffix}"), caption, plot(rows, &format!("{place}{title}"), *value))
    };
    PRICES.iter().map(figure).collect()
}

fn plot(rows: &[&Row], title: &str, value: fn(&Row) -> f64) -> String {
    let mut lines: Vec<(&Row, Vec<(f64, f64)>)> = Vec::new();
    for row in rows {
        let point = (row.mean(|m| m.throughput_mb_per_s), value(row));
        if !(point.0 > 0.0 && point.1 > 0.0) {
            continue;
        }
        match lines.iter_mut().find(|(first, _)| first.run == row.run) {
            Some((_, points)) => points.push(point),
            None => lines.push((row, vec![point])),
        }
    }
    let all = || lines.iter().flat_map(|(_, points)| points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = all().map(of).fold(f64::INFINITY, f64::min);
        let high = all().map(of).fold(1e-3, f64::max);
        low.min(high) / ROOM..high * ROOM
    };
    let (across, upright) = rooms(SIZE, LEFT);
    let x = Axis::powers(range(|point| point.0), Unit::Number, across);
    let y = Axis::powers(range(|point| point.1), Unit::Milliseconds, upright);
    let key = lines.iter().enumerate().map(|(i, (row, _))| (Mark::Line(colour(i)), row.label.clone()));
    drawn_with(&Key::new(key, SIZE.0), |area| {
        let mut chart = chart(area, title, (&x, "payload that a member delivers, in MB/s"), (&y, ""))?;
        for (i, (_, points)) in lines.iter().enumerate() {
            let colour = colour(i);
            chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
        }
        Ok(())
    })
}
