//! Static figures of blocks of columns.

use plotters::prelude::*;
use samara_lab::results::{ColumnsData, Outcome};

use super::{ColumnsReport, Row};
use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Swept, Unit, chart, colour, drawn, drawn_with, rooms, steps};
use crate::lines::{Line, LinePlot};

/// So many curves at most are drawn; of more, every so manieth is taken (the page has them all).
const CURVES_MAX: usize = 350;
/// All figures of a report.
pub(crate) fn all(report: &ColumnsReport) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    if report.axes.is_empty() {
        figures.push(("custody".to_owned(), comparison(&first_seeds(&report.results))));
        for result in first_seeds(&report.results) {
            figures.push((format!("{}-columns", result.run.name), curves(result, Kind::Columns)));
            figures.push((format!("{}-custody", result.run.name), curves(result, Kind::Custody)));
        }
    } else {
        figures.extend(sweeps(report));
    }
    figures
}

/// The results of the first seed of each run.
pub(crate) fn first_seeds(results: &[Outcome<ColumnsData>]) -> Vec<&Outcome<ColumnsData>> {
    let mut first: Vec<&Outcome<ColumnsData>> = Vec::new();
    for result in results {
        if !first.iter().any(|other| other.run.name == result.run.name) {
            first.push(result);
        }
    }
    first
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Columns,
    Custody,
}

/// A curve for each column (share of its subscribers reached) or for each node (share of its columns there).
fn curves(result: &Outcome<ColumnsData>, kind: Kind) -> String {
    let mut groups = groups(result, kind);
    let every = groups.len().div_ceil(CURVES_MAX).max(1);
    groups = groups.into_iter().step_by(every).collect();
    let last = groups.iter().flatten().copied().filter(|time| time.is_finite()).fold(0.0, f64::max);
    let title = match kind {
        Kind::Columns => format!("{}: share of subscribers reached, a curve for each column", result.label),
        Kind::Custody => format!("{}: share of own columns there, a curve for each node", result.label),
    };
    let (x, y) = share_over_time(last.max(1.0) * 1.03);
    drawn(|area| {
        let mut chart = chart(area, &title, (&x, PUBLISHED), (&y, ""))?;
        let count = groups.len().max(1);
        let opacity = if count > 200 { 0.25 } else { 0.4 };
        for (i, times) in groups.iter().enumerate() {
            let style = viridis(i as f64 / count as f64).mix(opacity).stroke_width(1);
            chart.draw_series(LineSeries::new(steps(times), style))?;
        }
        Ok(())
    })
}

/// What the axis of times shows.
const PUBLISHED: &str = "after the publication";

/// Axes from the publication to `last` milliseconds, and from nothing to all.
fn share_over_time(last: f64) -> (Axis, Axis) {
    let (across, upright) = rooms(SIZE, LEFT);
    (Axis::linear(0.0..last, Unit::Milliseconds, across), Axis::linear(0.0..1.0, Unit::Share, upright))
}

/// Sorted arrival times of each column's subscribers, or of each node's columns, in milliseconds of the first slot.
fn groups(result: &Outcome<ColumnsData>, kind: Kind) -> Vec<Vec<f64>> {
    let mut groups: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for delivery in result.deliveries.iter().filter(|delivery| delivery.slot == 0) {
        let key = if kind == Kind::Columns { delivery.column } else { delivery.host };
        let at = if delivery.delivered() {
            (delivery.at - result.published[0]) as f64 / 1e6
        } else {
            f64::INFINITY
        };
        groups.entry(key).or_default().push(at);
    }
    let mut groups: Vec<Vec<f64>> = groups.into_values().collect();
    for times in &mut groups {
        times.sort_by(f64::total_cmp);
    }
    // In the order in which they are complete: their colours follow it.
    groups.sort_by(|a, b| a[a.len() - 1].total_cmp(&b[b.len() - 1]));
    groups
}

/// For each run, the share of nodes that have all their columns.
fn comparison(results: &[&Outcome<ColumnsData>]) -> String {
    let done = |result: &&Outcome<ColumnsData>| -> Vec<f64> {
        groups(result, Kind::Custody).iter().map(|times| times[times.len() - 1]).collect()
    };
    let runs: Vec<(&str, Vec<f64>)> =
        results.iter().map(|result| (result.label.as_str(), done(result))).collect();
    let times = runs.iter().flat_map(|(_, times)| times).copied();
    let last = times.filter(|time| time.is_finite()).fold(1.0, f64::max) * 1.03;
    let (x, y) = share_over_time(last);
    let lines = runs.iter().enumerate().map(|(i, (label, _))| (Mark::Line(colour(i)), (*label).to_owned()));
    drawn_with(&Key::new(lines, SIZE.0), |area| {
        let mut chart = chart(area, "Share of nodes that have all their columns", (&x, PUBLISHED), (&y, ""))?;
        for (i, (_, times)) in runs.iter().enumerate() {
            chart.draw_series(LineSeries::new(steps(times), colour(i).stroke_width(2)))?;
        }
        Ok(())
    })
}

/// An approximation of the colour map viridis.
fn viridis(share: f64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 5] = [
        (68.0, 1.0, 84.0),
        (59.0, 82.0, 139.0),
        (33.0, 145.0, 140.0),
        (94.0, 201.0, 98.0),
        (210.0, 200.0, 30.0),
    ];
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let (i, part) = ((place as usize).min(STOPS.len() - 2), place.fract());
    let mix = |a: f64, b: f64| (a + (b - a) * part) as u8;
    let (a, b) = (STOPS[i], STOPS[i + 1]);
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// For each combination of the other axes' values: the mean time to custody over the last axis, a line for each run.
fn sweeps(report: &ColumnsReport) -> Vec<(String, String)> {
    let last = report.axes.len() - 1;
    let mut panels: Vec<Vec<String>> = Vec::new();
    for row in &report.rows {
        if !panels.contains(&row.point[..last].to_vec()) {
            panels.push(row.point[..last].to_vec());
        }
    }
    panels
        .iter()
        .map(|panel| {
            let rows: Vec<&Row> = report.rows.iter().filter(|row| row.point[..last] == panel[..]).collect();
            let values: Vec<String> =
                report.axes.iter().zip(panel).map(|((_, label), value)| format!("{label} {value}")).collect();
            let title = std::iter::once("Mean time to custody".to_owned())
                .chain(values)
                .collect::<Vec<_>>()
                .join(", ");
            let svg = lines(&title, &report.axes[last].1, &rows, last);
            let name = panel.iter().fold("sweep".to_owned(), |name, value| format!("{name}-{value}"));
            (name.replace([' ', '/'], "_"), svg)
        })
        .collect()
}

fn lines(title: &str, axis: &str, rows: &[&Row], last: usize) -> String {
    let (swept, xs) = Swept::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
    let mut runs: Vec<&str> = Vec::new();
    for row in rows {
        if !runs.contains(&row.run.as_str()) {
            runs.push(&row.run);
        }
    }
    let of_run = |run: &str| rows.iter().zip(&xs).filter(move |(row, _)| row.run == run).collect::<Vec<_>>();
    let mut lines: Vec<Line> = runs
        .iter()
        .map(|run| {
            let points = of_run(run);
            Line {
                label: points[0].0.label.clone(),
                points: points.iter().map(|(row, x)| (**x, row.mean)).collect(),
                confidence: points.iter().map(|(row, _)| row.confidence).collect(),
                bound: false,
            }
        })
        .collect();
    let bound = runs.first().map(|run| of_run(run)).unwrap_or_default();
    let bound: Vec<(f64, f64)> =
        bound.iter().filter(|(row, _)| row.bound > 0.0).map(|(row, x)| (**x, row.bound)).collect();
    if !bound.is_empty() {
        let label = "lower bound".to_owned();
        lines.push(Line { label, points: bound, confidence: Vec::new(), bound: true });
    }
    LinePlot { title, axis, swept: &swept, unit: Unit::Milliseconds, lines, rings: Vec::new(), ring: "" }
        .svg()
}
