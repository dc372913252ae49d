//! Figures of all runs of a relay side by side, or over a sweep.

use super::{RelayReport, Row, Value, bars, rounds, timeline};
use crate::draw::{Swept, Unit};
use crate::lines::{Line, LinePlot};

/// A figure.
pub(super) struct Figure {
    pub(super) name: String,
    /// What it shows.
    pub(super) caption: String,
    pub(super) svg: String,
}

/// What is drawn over a sweep: its name, title and unit, what its caption says, and the value.
struct Shown {
    name: &'static str,
    title: &'static str,
    unit: Unit,
    caption: &'static str,
    value: Value,
}

const SHOWN: [Shown; 5] = [
    Shown {
        name: "throughput",
        title: "payloads a second",
        unit: Unit::Number,
        caption: "With as many rounds in flight as there can be.",
        value: |m| m.slots_per_s,
    },
    Shown {
        name: "gain",
        title: "throughput over that of the first run",
        unit: Unit::Number,
        caption: "Of the same series, with the same values of the sweep.",
        value: |m| m.gain.unwrap_or(f64::NAN),
    },
    Shown {
        name: "share",
        title: "throughput as a share of its bound",
        unit: Unit::Share,
        caption: "The bound is what the busiest processor or uplink allows.",
        value: |m| m.share_of_bound,
    },
    Shown {
        name: "latency",
        title: "median latency of a batch",
        unit: Unit::Milliseconds,
        caption: "From payloads in to payloads out at all nodes.",
        value: |m| m.batch_latency_ms.as_ref().map_or(f64::NAN, |times| times.p50),
    },
    Shown {
        name: "precomputation",
        title: "slots a second that are precomputed",
        unit: Unit::Number,
        caption: "In the steady state, with nothing else to do.",
        value: |m| m.precomputation_slots_per_s.unwrap_or(f64::NAN),
    },
];

/// A stretch of a timeline is so many periods of the first run of a series.
const PERIODS: f64 = 1.1;

/// All figures.
pub(super) fn all(report: &RelayReport) -> Vec<Figure> {
    if !report.axes.is_empty() {
        return over_the_sweep(report);
    }
    let mut figures = Vec::new();
    for (series, rows) in series(&report.rows) {
        let suffix = if series.is_empty() { String::new() } else { format!("-{series}") };
        if rows.iter().all(|row| row.first.harm.is_empty()) {
            figures.push(Figure {
                name: format!("throughput{suffix}"),
                caption: "With as many rounds in flight as there can be; behind it the gain over the first run of the series.".to_owned(),
                svg: bars::throughput("payloads a second", &rows),
            });
        }
        figures.extend(rows.iter().filter(|row| !row.first.harm.is_empty()).map(|row| fates(row)));
        if rows.iter().all(|row| row.first.harm.is_empty()) {
            figures.extend(timelines(&rows));
        }
    }
    figures
}

/// Runs by the series that they are drawn with.
fn series(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let mut all: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|(series, _)| *series == row.first.series) {
            Some((_, rows)) => rows.push(row),
            None => all.push((row.first.series.clone(), vec![row])),
        }
    }
    all
}

/// The same stretch of time of each run of a series.
fn timelines(rows: &[&Row]) -> Vec<Figure> {
    let Some(base) = rows.first() else { return Vec::new() };
    let nanos = (base.first.metrics.period_ms * PERIODS * 1e6) as u64;
    if nanos == 0 {
        return Vec::new();
    }
    let figure = |row: &&Row| {
        let stretch = timeline::middle(&row.first, nanos)?;
        Some(Figure {
            name: format!("timeline-{}", row.run),
            caption: format!(
                "Work of each node, and slots on their way to the next one, for {}: a round of \"{}\" and a little more.",
                crate::words::short_ms(nanos as f64 / 1e6),
                base.label
            ),
            svg: timeline::drawing(&row.first, &row.label, stretch),
        })
    };
    rows.iter().filter_map(figure).collect()
}

fn fates(row: &Row) -> Figure {
    Figure {
        name: format!("rounds-{}", row.run),
        caption: "Every round, from its making to its end, by team; a team is drawn anew after a failure."
            .to_owned(),
        svg: rounds::drawing(&row.first, &row.label),
    }
}

/// Lines over the last axis, a figure for each combination of the others.
fn over_the_sweep(report: &RelayReport) -> Vec<Figure> {
    let last = report.axes.len() - 1;
    let axis = &report.axes[last].1;
    let mut groups: Vec<(Vec<String>, Vec<&Row>)> = Vec::new();
    for row in &report.rows {
        let others = &row.point[..last];
        match groups.iter_mut().find(|(place, _)| place == others) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((others.to_vec(), vec![row])),
        }
    }
    let mut figures = Vec::new();
    for (place, rows) in &groups {
        let fixed = report.axes.iter().zip(place);
        let place: String = fixed.map(|((_, label), value)| format!("{label} {value}, ")).collect();
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let suffix: String = place.trim_end_matches([',', ' ']).chars().map(safe).collect();
        let values: Vec<&str> = rows.iter().map(|row| row.point[last].as_str()).collect();
        let (swept, xs) = Swept::new(&values);
        for shown in SHOWN.iter().filter(|shown| rows.iter().any(|row| row.mean(shown.value).is_finite())) {
            let plot = LinePlot {
                title: &format!("{place}{}", shown.title),
                axis,
                swept: &swept,
                unit: shown.unit,
                lines: lines(rows, &xs, shown.value),
                rings: Vec::new(),
                ring: "",
            };
            let name = format!(
                "sweep-{}{}",
                shown.name,
                if suffix.is_empty() { String::new() } else { format!("-{suffix}") }
            );
            figures.push(Figure { name, caption: shown.caption.to_owned(), svg: plot.svg() });
        }
    }
    figures
}

/// A line for each run over the places of its values.
fn lines(rows: &[&Row], xs: &[f64], value: Value) -> Vec<Line> {
    let mut lines: Vec<(&str, Line)> = Vec::new();
    for (row, x) in rows.iter().zip(xs) {
        let point = (*x, row.mean(value));
        match lines.iter_mut().find(|(run, _)| *run == row.run) {
            Some((_, line)) => line.points.push(point),
            None => {
                let line = Line {
                    label: row.label.clone(),
                    points: vec![point],
                    confidence: Vec::new(),
                    bound: false,
                };
                lines.push((&row.run, line));
            }
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}
