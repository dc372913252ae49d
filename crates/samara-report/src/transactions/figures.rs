//! Which figures there are of transactions and their pools.

use super::compare::{BYTES, races};
use super::{TransactionsReport, Value, maps, rows, words};
use crate::draw::{SIZE, Unit};
use crate::latency::{self, Curve};
use crate::lines::{Line, LinePlot};
use crate::parts::Figure;

/// A figure over a sweep: its name, what it shows, its unit, and the value.
type Swept = (&'static str, &'static str, Unit, Value);

/// What is drawn over a sweep.
const SWEPT: [Swept; 4] = [
    ("copies", "bodies received for each node and transaction", Unit::Number, |m| m.duplication_factor),
    ("latency", "median time until a node has a transaction", Unit::Milliseconds, |m| {
        m.delivery_latency_ms.as_ref().map_or(f64::NAN, |times| times.p50)
    }),
    ("connection-bytes", "bytes in connections for each node and transaction", Unit::Bytes, BYTES[0].1),
    ("bytes", "bytes on the wire for each node and transaction", Unit::Bytes, BYTES[1].1),
];

/// What the captions of figures over one axis say.
const CAPTIONS: [&str; 4] = [
    "First copies and all further ones; the node to which a client gives a transaction needs none.",
    "From the submission until another node has it in its pool, over all nodes.",
    "Bodies, announcements, requests, and the framing of their packets, as the real pools count them.",
    "All that a node receives: with padding of sealed frames, headers, and acknowledgements.",
];

/// Runs side by side; where there is a sweep, over its axes.
pub(super) fn all(report: &TransactionsReport) -> Vec<Figure> {
    match report.axes.len() {
        0 => side_by_side(report),
        1 => (0..SWEPT.len()).map(|at| over_one_axis(report, at)).collect(),
        _ => over_more_axes(report),
    }
}

fn side_by_side(report: &TransactionsReport) -> Vec<Figure> {
    let figure =
        |name: &str, caption: String, svg| Figure { name: name.to_owned(), caption, svg, wide: false };
    let mut bytes = "What bytes a node received for each transaction, headers included.".to_owned();
    if rows::is_cut(&report.rows) {
        bytes += " Framing and padding are counted where they are written; where hostile nodes write less than honest ones, bars are cut at what was received.";
    }
    let curves: Vec<Curve<'_>> =
        report.rows.iter().map(|row| Curve { label: &row.label, points: &row.latency }).collect();
    vec![
        figure("bytes", bytes, rows::bytes(report)),
        figure(
            "copies",
            "Means over nodes and transactions. Just below 1 is enough, since the node to which a client gives a transaction needs no copy; flooding \
             sends every transaction over every link once or twice (dashes)."
                .to_owned(),
            rows::copies(report),
        ),
        figure(
            "latency",
            format!(
                "The share of deliveries by the time from the submission until a node had the transaction; dots at 50 % and 99 %.{}",
                latency::hidden(&curves)
            ),
            latency::figure(&curves, "after the submission"),
        ),
    ]
}

fn over_one_axis(report: &TransactionsReport, at: usize) -> Figure {
    let (name, what, unit, value) = SWEPT[at];
    let (swept, xs) = words::swept(report);
    let mut lines: Vec<(&str, Line)> = Vec::new();
    for (row, x) in report.rows.iter().zip(&xs) {
        let point = (*x, row.mean(&value));
        match lines.iter_mut().find(|(run, _)| *run == row.run) {
            Some((_, line)) => line.points.push(point),
            None => {
                let label = row.label.clone();
                lines.push((
                    &row.run,
                    Line { label, points: vec![point], confidence: Vec::new(), bound: false },
                ));
            }
        }
    }
    let races = if unit == Unit::Bytes { races(report, &swept, &xs, value) } else { Vec::new() };
    let crossovers = races.iter().flat_map(super::compare::Race::crossovers);
    let rings: Vec<(f64, f64)> = crossovers.map(|crossover| (crossover.at, crossover.value)).collect();
    let ring = report.rows.first().map_or_else(String::new, |row| format!("as much as {}", row.label));
    let plot = LinePlot {
        title: what,
        axis: &report.axes[0].1,
        swept: &swept,
        unit,
        lines: lines.into_iter().map(|(_, line)| line).collect(),
        rings,
        ring: &ring,
    };
    Figure { name: format!("sweep-{name}"), caption: CAPTIONS[at].to_owned(), svg: plot.svg(), wide: false }
}

/// Copies first, then the median: the two that a timer decides on.
fn over_more_axes(report: &TransactionsReport) -> Vec<Figure> {
    let shown = [
        ("bodies received for each node and transaction", "Everything that is more than 1 came in vain."),
        (
            "median time until a node has a transaction, in milliseconds",
            "From the submission until another node has it in its pool.",
        ),
    ];
    let figure = |((name, _, _, value), (title, caption)): (Swept, (&str, &str))| {
        let (svg, width) = maps::figure(report, title, value);
        let caption = format!("{caption} All fields are on one scale, by powers.");
        Figure { name: format!("map-{name}"), caption, svg, wide: width > SIZE.0 }
    };
    SWEPT.into_iter().zip(shown).map(figure).collect()
}
