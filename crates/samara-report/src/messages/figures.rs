//! Figures of a stream of messages: those of the study, series by series.

use plotters::prelude::*;
use samara_lab::results::{MessagesData, Outcome};

use super::{MessagesReport, Row, Series};
use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Swept, Unit, chart, colour, drawn_with, rooms};
use crate::lines::{Line, LinePlot};

/// Bars of a histogram.
const BINS: usize = 120;
/// Curves of one figure; a series of more is drawn without.
const CURVES_MAX: usize = 12;

/// All figures: names and SVG.
pub(super) fn all(report: &MessagesReport) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    for series in report.series() {
        figures.extend(of_series(&series).into_iter().map(|(name, _, svg)| (name, svg)));
    }
    figures.extend(sweeps(report));
    figures
}

/// The figures of a series: name, what they show, SVG.
pub(super) fn of_series(series: &Series<'_>) -> Vec<(String, &'static str, String)> {
    if series.results.len() > CURVES_MAX {
        return Vec::new();
    }
    let prefix: String = series
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect::<String>()
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    let name = |what: &str| if prefix.is_empty() { what.to_owned() } else { format!("{prefix}-{what}") };
    vec![
        (
            name("dissemination"),
            "How many messages took how long until the last node had them.",
            histogram(series),
        ),
        (
            name("cumulative"),
            "The share of messages that every node had after a time; dots at 50 % and 99 %.",
            cumulative(series),
        ),
        (name("hops"), "The hops of a message's last delivery.", hops(series)),
        (
            name("inter-arrival"),
            "The time between two deliveries at a node: the share that is at most so long.",
            inter_arrival(series),
        ),
    ]
}

fn title(series: &Series<'_>, what: &str) -> String {
    if series.name.is_empty() { what.to_owned() } else { format!("{}: {what}", series.name) }
}

/// Sorted dissemination times of the messages that reached everybody, in milliseconds.
fn times(result: &Outcome<MessagesData>) -> Vec<f64> {
    let complete = result.messages.iter().filter(|row| row.delivered == result.others);
    let mut times: Vec<f64> = complete.map(|row| row.dissemination_ms()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The slowest run's 99.9th percentile is this much more than the fastest run's median where times go by powers of ten.
const POWERS_FROM: f64 = 40.0;

/// An axis of times: from nothing to the last of almost all, so that a few stragglers do not squeeze the rest; by powers of
/// ten where runs are so different that the fast ones would be one line at the edge.
fn times_axis(all: &[Vec<f64>]) -> Axis {
    let at = |times: &Vec<f64>, share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let timed = || all.iter().filter(|times| !times.is_empty());
    let until = timed().map(|times| at(times, 0.999)).fold(0.0, f64::max).max(1e-3);
    let median = timed().map(|times| at(times, 0.5)).fold(f64::INFINITY, f64::min).max(1e-3);
    let room = rooms(SIZE, LEFT).0;
    if until / median > POWERS_FROM {
        let from = timed().map(|times| times[0]).fold(f64::INFINITY, f64::min).max(1e-3);
        Axis::powers(from * 0.8..until * 1.3, Unit::Milliseconds, room)
    } else {
        Axis::linear(0.0..until * 1.05, Unit::Milliseconds, room)
    }
}

/// The key of a series: a line for each run.
fn lines_key(series: &Series<'_>) -> Key {
    let line = |(i, result): (usize, &&Outcome<MessagesData>)| (Mark::Line(colour(i)), result.label.clone());
    Key::new(series.results.iter().enumerate().map(line), SIZE.0)
}

/// What the axis of dissemination times shows.
const UNTIL: &str = "until the last node had it";

fn histogram(series: &Series<'_>) -> String {
    let all: Vec<Vec<f64>> = series.results.iter().map(|result| times(result)).collect();
    let axis = times_axis(&all);
    let counts: Vec<Vec<f64>> = all
        .iter()
        .map(|times| {
            let mut bins = vec![0.0; BINS];
            times.iter().for_each(|time| {
                if let Some(bin) = bins.get_mut((axis.share(*time).max(0.0) * BINS as f64) as usize) {
                    *bin += 1.0;
                }
            });
            bins
        })
        .collect();
    let top = counts.iter().flatten().copied().fold(1.0, f64::max) * 1.08;
    let upright = Axis::linear(0.0..top, Unit::Count, rooms(SIZE, LEFT).1);
    drawn_with(&lines_key(series), |area| {
        let title = title(series, "dissemination times");
        let mut chart = chart(area, &title, (&axis, UNTIL), (&upright, "messages"))?;
        for (i, bins) in counts.iter().enumerate() {
            let colour = colour(i);
            let corners = bins.iter().enumerate().flat_map(|(bin, count)| {
                let at = |bin: usize| axis.value(bin as f64 / BINS as f64);
                [(at(bin), *count), (at(bin + 1), *count)]
            });
            chart.draw_series(
                AreaSeries::new(corners, 0.0, colour.mix(0.12)).border_style(colour.stroke_width(2)),
            )?;
        }
        Ok(())
    })
}

fn cumulative(series: &Series<'_>) -> String {
    let all: Vec<Vec<f64>> = series.results.iter().map(|result| times(result)).collect();
    let axis = times_axis(&all);
    let curves: Vec<Vec<(f64, f64)>> = series
        .results
        .iter()
        .zip(&all)
        .map(|(result, times)| {
            let published = result.messages.len().max(1) as f64;
            let every = (times.len() / 400).max(1);
            let mut points = vec![(axis.ends().start, 0.0)];
            points.extend(
                times.iter().enumerate().step_by(every).map(|(i, time)| (*time, (i + 1) as f64 / published)),
            );
            points.extend(times.last().map(|time| (*time, times.len() as f64 / published)));
            points
        })
        .collect();
    shares(series, "cumulative dissemination times", &curves, &axis, UNTIL)
}

fn inter_arrival(series: &Series<'_>) -> String {
    let curves: Vec<Vec<(f64, f64)>> =
        series.results.iter().map(|result| result.inter_arrival.clone()).collect();
    let ends = curves.iter().filter_map(|curve| curve.iter().find(|(_, share)| *share >= 0.995));
    let last = ends.map(|(time, _)| *time).fold(0.0, f64::max);
    let until = if last > 0.0 { last * 1.05 } else { 1.0 };
    let axis = Axis::linear(0.0..until, Unit::Milliseconds, rooms(SIZE, LEFT).0);
    shares(series, "between two deliveries at a node", &curves, &axis, "since the one before")
}

/// Curves from nothing to all, with lines and dots at 50 and 99 %.
fn shares(series: &Series<'_>, what: &str, curves: &[Vec<(f64, f64)>], axis: &Axis, name: &str) -> String {
    let upright = Axis::linear(0.0..1.02, Unit::Share, rooms(SIZE, LEFT).1);
    let ends = axis.ends();
    drawn_with(&lines_key(series), |area| {
        let mut chart = chart(area, &title(series, what), (axis, name), (&upright, ""))?;
        for share in [0.5, 0.99] {
            let line = [(ends.start, share), (ends.end, share)];
            chart.draw_series(DashedLineSeries::new(line, 5, 5, BLACK.mix(0.5).stroke_width(1)))?;
        }
        for (i, curve) in curves.iter().enumerate() {
            let colour = colour(i);
            let inside: Vec<(f64, f64)> = curve.iter().copied().filter(|(x, _)| *x <= ends.end).collect();
            chart.draw_series(LineSeries::new(inside, colour.stroke_width(2)))?;
            let dots = [0.5, 0.99].into_iter().filter_map(|share| {
                let place = curve.iter().find(|(_, reached)| *reached >= share)?;
                (place.0 <= ends.end).then(|| Circle::new((place.0, share), 4, colour.filled()))
            });
            chart.draw_series(dots)?;
        }
        Ok(())
    })
}

fn hops(series: &Series<'_>) -> String {
    let counts: Vec<Vec<f64>> = series
        .results
        .iter()
        .map(|result| {
            let complete = result.messages.iter().filter(|row| row.delivered == result.others);
            let mut counts: Vec<f64> = Vec::new();
            for row in complete {
                let hops = usize::from(row.last_hop);
                if counts.len() <= hops {
                    counts.resize(hops + 1, 0.0);
                }
                counts[hops] += 1.0;
            }
            let all = counts.iter().sum::<f64>().max(1.0);
            counts.iter().map(|count| count / all).collect()
        })
        .collect();
    let most = counts.iter().map(Vec::len).max().unwrap_or(1).max(2);
    let least =
        (0..most).find(|hop| counts.iter().any(|run| run.get(*hop).is_some_and(|share| *share > 0.0)));
    let least = least.unwrap_or(1) as f64;
    let runs = counts.len() as f64;
    let bar = |(i, result): (usize, &&Outcome<MessagesData>)| (Mark::Bar(colour(i)), result.label.clone());
    let key = Key::new(series.results.iter().enumerate().map(bar), SIZE.0);
    let (across, upright) = rooms(SIZE, LEFT);
    let x = Axis::linear(least - 0.5..most as f64 - 0.5, Unit::Count, across);
    let y = Axis::linear(0.0..1.02, Unit::Share, upright);
    drawn_with(&key, |area| {
        let mut chart = chart(area, &title(series, "hops of the last delivery"), (&x, "hops"), (&y, ""))?;
        for (i, shares) in counts.iter().enumerate() {
            let colour = colour(i);
            let bars = shares.iter().enumerate().filter(|(_, share)| **share > 0.0).map(|(hop, share)| {
                let from = hop as f64 - 0.4 + 0.8 * i as f64 / runs;
                Rectangle::new([(from, 0.0), (from + 0.8 / runs, *share)], colour.filled())
            });
            chart.draw_series(bars)?;
        }
        Ok(())
    })
}

/// A name for files, a title, and where the value is found.
type Shown = (&'static str, &'static str, Unit, fn(&Row) -> f64);

/// What is drawn over the last axis of a sweep.
const SWEPT: [Shown; 3] = [
    ("dissemination", "mean dissemination time", Unit::Milliseconds, |row| row.mean),
    ("hops", "mean hops of the last delivery", Unit::Number, |row| row.hops),
    ("copies", "copies received for each delivery", Unit::Number, |row| row.copies),
];

/// For each combination of the other axes' values: lines over the last axis, one for each run.
pub(super) fn sweeps(report: &MessagesReport) -> Vec<(String, String)> {
    let Some(last) = report.axes.len().checked_sub(1) else { return Vec::new() };
    let mut panels: Vec<&[String]> = Vec::new();
    for row in &report.rows {
        if !panels.contains(&&row.point[..last]) {
            panels.push(&row.point[..last]);
        }
    }
    let mut figures = Vec::new();
    for panel in panels {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.point[..last] == *panel).collect();
        let values: Vec<String> =
            report.axes.iter().zip(panel).map(|((_, label), value)| format!(", {label} {value}")).collect();
        for (name, what, unit, value) in SWEPT {
            let title = format!("{what}{}", values.concat());
            let name = panel.iter().fold(format!("sweep-{name}"), |name, value| format!("{name}-{value}"));
            let mut runs: Vec<&str> = Vec::new();
            rows.iter().for_each(|row| {
                if !runs.contains(&row.run.as_str()) {
                    runs.push(&row.run);
                }
            });
            let (swept, xs) =
                Swept::new(&rows.iter().map(|row| row.point[last].as_str()).collect::<Vec<_>>());
            let lines = runs.into_iter().map(|run| {
                let of_run = || rows.iter().zip(&xs).filter(|(row, _)| row.run == run);
                let label = of_run().next().map_or_else(String::new, |(row, _)| row.label.clone());
                let points = of_run().map(|(row, x)| (*x, value(row))).collect();
                Line { label, points, confidence: Vec::new(), bound: false }
            });
            let plot = LinePlot {
                title: &title,
                axis: &report.axes[last].1,
                swept: &swept,
                unit,
                lines: lines.collect(),
                rings: Vec::new(),
                ring: "",
            };
            figures.push((name.replace([' ', '/'], "_"), plot.svg()));
        }
    }
    figures
}
