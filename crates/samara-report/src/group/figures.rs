//! Figures of all runs of a group side by side, or over a sweep.

use super::{GroupReport, Row, Value, bars, links, price, schedule};
use crate::draw::{Swept, Unit};
use crate::latency::{self, Curve};
use crate::lines::{Line, LinePlot};
use crate::parts::Figure;

/// What is drawn over a sweep: its name, title and unit, what its caption says, and the value.
struct Shown {
    name: &'static str,
    title: &'static str,
    unit: Unit,
    caption: &'static str,
    value: Value,
    /// The bound that is drawn with it, and what the key calls it.
    bound: Option<(&'static str, Value)>,
}

const SHOWN: [Shown; 5] = [
    Shown {
        name: "throughput",
        title: "payload that a member delivers, in MB/s",
        unit: Unit::Number,
        caption: "Its own messages included; from the first broadcast until the last delivery.",
        value: |m| m.throughput_mb_per_s,
        bound: Some(("what no shape exceeds", |m| m.upper_bound_mb_per_s)),
    },
    Shown {
        name: "share",
        title: "throughput as a share of what no shape exceeds",
        unit: Unit::Share,
        caption: "The bound is that of as many senders, on links whose packets have headers.",
        value: |m| m.share_of_bound,
        bound: None,
    },
    Shown {
        name: "gain",
        title: "throughput over that of the first run",
        unit: Unit::Number,
        caption: "With the same values of the sweep. In theory a ring gains (N-1)/S over direct sending with S < N senders, and nothing with N.",
        value: |m| m.gain.unwrap_or(f64::NAN),
        bound: None,
    },
    Shown {
        name: "latency",
        title: "median time until another member has a message",
        unit: Unit::Milliseconds,
        caption: "From handing it in; with as many messages as are taken that is mostly waiting in windows.",
        value: |m| m.delivery_latency_ms.as_ref().map_or(f64::NAN, |times| times.p50),
        bound: None,
    },
    Shown {
        name: "gap",
        title: "longest time without a delivery",
        unit: Unit::Milliseconds,
        caption: "At any member that stays, while messages were being broadcast.",
        value: |m| m.longest_gap_ms,
        bound: None,
    },
];

/// The axis over which latency is drawn against throughput.
const RATE: &str = "group.rate";
/// The most curves of a figure.
const CURVES_MAX: usize = 12;

/// All figures.
pub(super) fn all(report: &GroupReport) -> Vec<Figure> {
    if !report.axes.is_empty() {
        return over_the_sweep(report);
    }
    let mut figures = vec![
        Figure::new(
            "throughput",
            "The payload that a member delivers, its own included; with what no shape can exceed with as many senders.",
            bars::throughput(report),
        ),
        Figure::new(
            "uplinks",
            "How busy the uplink of each member was: hot where one sends to everybody, even on the ring.",
            links::uplinks(&report.rows),
        ),
    ];
    if report.rows.len() <= CURVES_MAX {
        let curve = |row| -> Curve<'_> {
            let row: &Row = row;
            Curve { label: &row.label, points: &row.first.latency }
        };
        let curves: Vec<Curve<'_>> = report.rows.iter().map(curve).collect();
        let caption = format!(
            "The share of deliveries by the time from handing in a message until another member had it; dots at 50 % and 99 %.{}",
            latency::hidden(&curves)
        );
        figures.push(Figure::new("latency", caption, latency::figure(&curves, "after it was handed in")));
    }
    figures.extend(links::fields(&report.rows));
    figures.extend(schedule::all(&report.rows));
    figures
}

/// Lines over the last axis, a figure for each combination of the others; where the rate varies, latency against throughput.
fn over_the_sweep(report: &GroupReport) -> Vec<Figure> {
    let last = report.axes.len() - 1;
    let (key, axis) = &report.axes[last];
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
        let suffix =
            format!("-{place}").trim_end_matches([',', ' ', '-']).chars().map(safe).collect::<String>();
        if key == RATE {
            figures.extend(price::all(rows, &place, &suffix));
        }
        let values: Vec<&str> = rows.iter().map(|row| row.point[last].as_str()).collect();
        let (swept, xs) = Swept::new(&values);
        for shown in SHOWN.iter().filter(|shown| is_told(rows, shown)) {
            let lines = lines(rows, &xs, shown);
            let title = &format!("{place}{}", shown.title);
            let plot =
                LinePlot { title, axis, swept: &swept, unit: shown.unit, lines, rings: Vec::new(), ring: "" };
            let name = format!("sweep-{}{suffix}", shown.name);
            figures.push(Figure::new(name, shown.caption, plot.svg()));
        }
    }
    figures
}

/// Whether a figure says something: there is a value, and it is not the same everywhere.
fn is_told(rows: &[&Row], shown: &Shown) -> bool {
    let mut values = rows.iter().map(|row| row.mean(shown.value)).filter(|value| value.is_finite());
    values.next().is_some_and(|first| values.any(|value| (value - first).abs() > first.abs() * 1e-3))
}

/// A line for each run over the places of its values, and the bound where it is the same for all runs.
fn lines(rows: &[&Row], xs: &[f64], shown: &Shown) -> Vec<Line> {
    let mut lines: Vec<(&str, Line)> = Vec::new();
    let mut bound: Vec<(f64, f64)> = Vec::new();
    let mut is_one = true;
    for (row, x) in rows.iter().zip(xs) {
        let point = (*x, row.mean(shown.value));
        match lines.iter_mut().find(|(run, _)| *run == row.run) {
            Some((_, line)) => line.points.push(point),
            None => lines.push((&row.run, line(row.label.clone(), vec![point], false))),
        }
        if let Some((_, value)) = shown.bound {
            let at = row.mean(value);
            match bound.iter().find(|(other, _)| other == x) {
                Some((_, known)) => is_one &= (known - at).abs() <= at * 1e-3,
                None => bound.push((*x, at)),
            }
        }
    }
    let mut lines: Vec<Line> = lines.into_iter().map(|(_, line)| line).collect();
    if let Some((label, _)) = shown.bound.filter(|_| is_one) {
        bound.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.push(line(label.to_owned(), bound, true));
    }
    lines
}

fn line(label: String, points: Vec<(f64, f64)>, bound: bool) -> Line {
    Line { label, points, confidence: Vec::new(), bound }
}
