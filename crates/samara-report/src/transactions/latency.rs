//! How soon nodes have transactions, run by run.

use plotters::prelude::*;

use super::{Row, TransactionsReport};
use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Unit, chart, colour, drawn_with, rooms};

/// A curve: milliseconds, and the share of deliveries that took at most so long.
type Curve = [(f64, f64)];
/// Curves that are nowhere further apart than this part of the axis cannot be told from each other.
const SAME: f64 = 0.006;

/// The time by which a share of deliveries was made.
fn at(curve: &Curve, share: f64) -> f64 {
    curve.iter().find(|(_, reached)| *reached >= share).or(curve.last()).map_or(1.0, |(ms, _)| *ms)
}

fn curves(report: &TransactionsReport) -> impl Iterator<Item = (usize, &Row)> {
    report.rows.iter().enumerate().filter(|(_, row)| !row.latency.is_empty())
}

fn axis(report: &TransactionsReport) -> Axis {
    let from = curves(report).map(|(_, row)| at(&row.latency, 0.01)).fold(f64::INFINITY, f64::min).max(1e-3);
    let until = curves(report).map(|(_, row)| at(&row.latency, 0.999)).fold(1e-2, f64::max) * 1.3;
    Axis::powers(from.min(until / 2.0)..until, Unit::Milliseconds, rooms(SIZE, LEFT).0)
}

/// A curve for each run.
pub(super) fn figure(report: &TransactionsReport) -> String {
    let (x, y) = (axis(report), Axis::linear(0.0..1.02, Unit::Share, rooms(SIZE, LEFT).1));
    let key = curves(report).map(|(i, row)| (Mark::Line(colour(i)), row.label.clone()));
    drawn_with(&Key::new(key, SIZE.0), |area| {
        let title = "deliveries that were made by then";
        let mut chart = chart(area, title, (&x, "after the submission"), (&y, ""))?;
        for (i, row) in curves(report) {
            let colour = colour(i);
            let until = x.ends().end;
            let inside = row.latency.iter().copied().filter(|(ms, _)| *ms <= until);
            chart.draw_series(LineSeries::new(inside, colour.stroke_width(2)))?;
            let dots =
                [0.5, 0.99].map(|share| Circle::new((at(&row.latency, share), share), 4, colour.filled()));
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

/// Runs whose curves lie on those of others, in words; nothing if all can be seen.
pub(super) fn hidden(report: &TransactionsReport) -> String {
    let axis = axis(report);
    let near = |one: &Row, other: &Row| {
        (1..=99).all(|percent| {
            let share = f64::from(percent) / 100.0;
            (axis.share(at(&one.latency, share)) - axis.share(at(&other.latency, share))).abs() <= SAME
        })
    };
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for (_, row) in curves(report) {
        match groups.iter_mut().find(|group| near(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    let same = groups.iter().filter(|group| group.len() > 1).map(|group| {
        let names: Vec<String> = group.iter().map(|row| format!("\"{}\"", row.label)).collect();
        let [first @ .., last] = names.as_slice() else { return String::new() };
        format!(" {} and {last} lie on each other.", first.join(", "))
    });
    same.collect()
}
