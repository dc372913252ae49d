//! Figures of all runs of a relay side by side, or over a sweep.

use super::{RelayReport, Row, Value, bars, rounds, timeline};
use crate::draw::{Swept, Unit};
use crate::lines::{Line, LinePlot};
use crate::parts::Figure;
use crate::words::short_ms;

/// Figures that belong together.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) figures: Vec<Figure>,
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
pub(super) fn all(report: &RelayReport) -> Vec<Section> {
    if !report.axes.is_empty() {
        return vec![Section { heading: "Over the sweep".to_owned(), figures: over_the_sweep(report) }];
    }
    let section = |(series, rows): (String, Vec<&Row>)| {
        let figures = if rows.iter().all(|row| row.first.harm.is_empty()) {
            let caption =
                "With as many rounds in flight as there can be; behind it the gain over the first run.";
            let svg = bars::throughput("payloads a second", &rows);
            let name = slug(&format!("throughput-{series}"));
            [Figure::new(name, caption, svg)].into_iter().chain(timelines(&rows)).collect()
        } else {
            rows.iter().map(|row| fates(row)).collect()
        };
        Section { heading: heading(&series), figures }
    };
    series(&report.rows).into_iter().map(section).collect()
}

/// A series as a heading.
fn heading(series: &str) -> String {
    let mut letters = series.chars();
    letters.next().map_or_else(
        || "Side by side".to_owned(),
        |first| format!("{}{}", first.to_uppercase(), letters.as_str()),
    )
}

/// A name that every file system takes.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let all: String = name.chars().map(plain).collect();
    all.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Runs by the series that they are drawn with.
pub(super) fn series(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
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
        let caption = format!(
            "Work of each node, and slots on their way to the next one, for {}: a round of \"{}\" and a little more.",
            short_ms(nanos as f64 / 1e6),
            base.label
        );
        let svg = timeline::drawing(&row.first, &row.label, stretch);
        Some(Figure::new(format!("timeline-{}", row.run), caption, svg))
    };
    rows.iter().filter_map(figure).collect()
}

fn fates(row: &Row) -> Figure {
    let caption = "Every round, from its making to its end, by team; a team is drawn anew after a failure.";
    Figure::new(format!("rounds-{}", row.run), caption, rounds::drawing(&row.first, &row.label))
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
            let name = slug(&format!("sweep-{}-{place}", shown.name));
            figures.push(Figure::new(name, shown.caption, plot.svg()));
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
