//! The report on a stream of messages, with the figures of the study for each series.

use std::cmp::Reverse;

use samara_report::words::{fixed, number, percent, short_ms};
use samara_report::{
    Bar, Bars, Block, Boxes, Figure, Ink, Line, Lines, Look, Mark, Row as TableRow, Scale, Section, Style,
    Summary, Table, Unit,
};
use samara_scenario::Point;

use super::metrics::MessagesData;
use samara_lab::report::{self, Body, Column, Results, Runs, Shown, of, spread};
use samara_lab::results::Outcome;

/// Maximum number of listed links for a run with full queues.
const LINKS_MAX: usize = 12;
/// Maximum number of runs in the main figure.
const MEANS_MAX: usize = 20;
const BINS: usize = 120;
/// Height of a figure of hops in pixels.
const HOPS_PIXELS: u32 = 360;
/// Maximum number of curves in one figure; larger series have no figure.
const CURVES_MAX: usize = 12;
/// Minimum ratio for a logarithmic axis: the slowest run's 99.9th percentile over the fastest run's
/// median.
const POWERS_FROM: f64 = 40.0;

type Report<'a> = Results<'a, MessagesData>;
type Row = Runs<MessagesData>;
/// A series in a figure: the results of the first seed of each run.
type Series<'a> = [&'a Row];

const SWEPT: [Shown<MessagesData>; 3] = [
    Shown {
        name: "dissemination",
        title: "mean dissemination time",
        unit: Unit::Milliseconds,
        caption: "Time from the publication of a message until the last node has it.",
        value: |m| of(m.dissemination_ms, |s| s.mean),
    },
    Shown {
        name: "hops",
        title: "mean hops of the last delivery",
        unit: Unit::Number,
        caption: "",
        value: |m| of(m.last_delivery_hop, |s| s.mean),
    },
    Shown {
        name: "copies",
        title: "copies received for each delivery",
        unit: Unit::Number,
        caption: "Includes the first copy.",
        value: |m| m.deliveries.duplication_factor,
    },
];

pub(super) fn body(report: &Report<'_>) -> Body {
    let mut details = Vec::new();
    if report.is_sweep() {
        let mut section = Section::new("Over the sweep", "", report.over_sweep(&SWEPT, None));
        section.parts.extend(report.pivots(&SWEPT[0]));
        details.push(section);
    } else {
        for (name, series) in report::grouped(&report.rows, |row| row.first().point.series.as_str()) {
            if series.len() <= CURVES_MAX {
                let heading = if name.is_empty() { "Distributions" } else { name };
                details.push(Section::new(heading, "", figures(name, &series)));
            }
        }
    }
    details.extend(spread::section(report, "message", |data| (&data.spread, &data.regions)));
    details.push(cost(report));
    details.extend(overflows(report));
    let legend = "Dissemination time: from the publication of a message until the last node has it. Hops: of that last delivery.";
    let summary = Summary { legend: legend.to_owned(), table: summary(report), ..Summary::default() };
    Body {
        findings: findings(report),
        figure: means(report),
        summary,
        sections: vec![dissemination(report)],
        details,
    }
}

/// Draws the mean dissemination time of each run beside the bound; `None` for a sweep.
fn means(report: &Report<'_>) -> Option<Figure> {
    let mean = |row: &Row| row.mean(|m| of(m.dissemination_ms, |s| s.mean));
    let shown = || report.rows.iter().take(MEANS_MAX);
    let ends = shown().flat_map(|row| [mean(row), row.mean(|m| m.lower_bound_ms)]);
    let scale = Scale::fitting("", ends.filter(|end| *end > 0.0), Unit::Milliseconds);
    let bar = |row: &Row| {
        let (mean, bound) = (mean(row), row.mean(|m| m.lower_bound_ms));
        let series = &row.first().point.series;
        let name = if series.is_empty() { row.label.clone() } else { format!("{series}: {}", row.label) };
        let text = if mean.is_finite() { short_ms(mean) } else { "no message reached every node".to_owned() };
        // Bars of very different lengths are dots on a logarithmic axis.
        let (parts, dot) = match (mean.is_finite(), scale.is_logarithmic()) {
            (true, false) => (vec![(0.0, mean, 1)], None),
            (true, true) => (Vec::new(), Some(mean)),
            (false, _) => (Vec::new(), None),
        };
        Bar { name, parts, dot, colour: 1, bounds: vec![bound], text, ..Bar::default() }
    };
    let rows: Vec<Bar> = shown().map(bar).collect();
    let mark = if scale.is_logarithmic() { Mark::Dot(Ink::of(1)) } else { Mark::Bar(Ink::of(1)) };
    let key =
        vec![(mark, "mean over messages".to_owned()), (Mark::Dashes(Ink::BLACK), "lower bound".to_owned())];
    let caption = match report.rows.len().saturating_sub(MEANS_MAX) {
        0 => String::new(),
        more => format!("{more} more runs are in the table."),
    };
    let title = "mean time until the last node has a message".to_owned();
    let figure = Figure::new("means", caption, Bars { title, scale, rows, key });
    (!report.is_sweep() && !report.rows.is_empty()).then_some(figure)
}

/// The headings and times of a row.
const TIMES: [Column<MessagesData>; 8] = [
    ("mean", |row| row.spread(|m| of(m.dissemination_ms, |s| s.mean), short_ms)),
    ("p50", |row| short_ms(row.mean(|m| of(m.dissemination_ms, |s| s.p50)))),
    ("p99", |row| short_ms(row.mean(|m| of(m.dissemination_ms, |s| s.p99)))),
    ("max", |row| short_ms(row.mean(|m| of(m.dissemination_ms, |s| s.max)))),
    ("bound", |row| short_ms(row.mean(|m| m.lower_bound_ms))),
    ("hops", |row| fixed(row.mean(|m| of(m.last_delivery_hop, |s| s.mean)), 2)),
    ("most", |row| number(row.mean(|m| of(m.last_delivery_hop, |s| s.max)))),
    ("incomplete", |row| number(incomplete(row))),
];

/// Returns a table with the runs of each series below its name.
fn by_series(report: &Report<'_>, columns: &[Column<MessagesData>]) -> Table {
    let mut table = report.table(columns);
    let mut rows = Vec::new();
    let mut series = "";
    for (shown, row) in table.rows.into_iter().zip(&report.rows) {
        if row.first().point.series != series {
            series = &row.first().point.series;
            rows.push(TableRow { look: Look::Heading, ..TableRow::new(series, Vec::new()) });
        }
        rows.push(shown);
    }
    table.rows = rows;
    table
}

fn incomplete(row: &Row) -> f64 {
    row.mean(|m| m.incomplete as f64)
}

fn dissemination(report: &Report<'_>) -> Section {
    // Keep the digits that distinguish a share close to one from one.
    const MORE: [Column<MessagesData>; 2] = [
        ("delivered", |row| match row.mean(|m| m.deliveries.delivery_ratio) {
            1.0 => "100 %".to_owned(),
            share => percent(share, 4),
        }),
        ("mean to one node", |row| short_ms(row.mean(|m| of(m.delivery_latency_ms, |s| s.mean)))),
    ];
    let table = by_series(report, &[&TIMES[..], &MORE].concat());
    let text = "Time from the publication of a message until the last node has it, over the messages that reached every node. \
                All others count as incomplete. The bound follows from the graph: hops to the farthest node, each with the \
                least latency and the time of one frame. Hops are those of the last delivery: the mean, and the maximum.";
    Section::new("Dissemination time", text, table)
}

fn summary(report: &Report<'_>) -> Table {
    const MORE: [Column<MessagesData>; 3] = [
        ("copies", |row| fixed(row.mean(|m| m.deliveries.duplication_factor), 2)),
        ("MB up", |row| fixed(row.mean(|m| m.bytes.bytes_up_per_node) / 1e6, 1)),
        ("queue drops", |row| number(row.mean(|m| m.queue_drops as f64))),
    ];
    report.table(&[&TIMES[..], &MORE].concat())
}

fn cost(report: &Report<'_>) -> Section {
    let table = by_series(
        report,
        &[
            ("Copies", |row| fixed(row.mean(|m| m.deliveries.duplication_factor), 2)),
            ("Requested", |row| number(row.mean(|m| m.answered_copies as f64))),
            ("MB up per node", |row| fixed(row.mean(|m| m.bytes.bytes_up_per_node) / 1e6, 1)),
            ("Needed", |row| percent(row.mean(|m| m.shares.payload_share), 1)),
            ("Duplicates", |row| percent(row.mean(|m| m.shares.duplicate_share), 1)),
            ("Control", |row| percent(row.mean(|m| m.shares.control_share), 1)),
            ("Busiest uplink", |row| percent(row.mean(|m| m.uplinks.uplink_utilisation_max), 1)),
            ("Retransmissions", |row| number(row.mean(|m| m.losses.retransmissions as f64))),
            ("Queue drops", |row| number(row.mean(|m| m.queue_drops as f64))),
            ("Interval", |row| short_ms(row.mean(|m| of(m.publish_interval_ms, |s| s.mean)))),
            ("Inter-arrival", |row| short_ms(row.mean(|m| of(m.inter_arrival_ms, |s| s.mean)))),
            ("p99", |row| short_ms(row.mean(|m| of(m.inter_arrival_ms, |s| s.p99)))),
        ],
    );
    let text = "Copies: number of copies of each delivered message, including the first. Requested: copies sent in answer to a \
                request. Bytes are on the wire, per node in the whole measurement. Control is the remainder besides needed \
                payload and duplicates: control messages, framing and acknowledgements. Interval: time between two \
                publications. Inter-arrival: time between two deliveries at a node.";
    Section::new("Cost", text, table)
}

fn overflows(report: &Report<'_>) -> Option<Section> {
    let row = |result: &Outcome<MessagesData>| {
        let mut links: Vec<(&(u32, u32), &u64)> = result.lost.iter().collect();
        links.sort_by_key(|(link, copies)| (Reverse(**copies), **link));
        let mut nodes: Vec<u32> = result.lost.keys().map(|(node, _)| *node).collect();
        nodes.dedup();
        let named = links.iter().take(LINKS_MAX).map(|((node, peer), copies)| {
            let degree = result.degrees.get(*node as usize).copied().unwrap_or(0);
            format!("{node} ({degree}) → {peer}, {copies}")
        });
        let most = named.collect::<Vec<_>>().join("; ") + if links.len() > LINKS_MAX { "; …" } else { "" };
        let counts = [nodes.len() as u64, links.len() as u64, result.lost.values().sum()];
        let Point { series, label, .. } = &result.point;
        let name = if series.is_empty() { label.clone() } else { format!("{series}: {label}") };
        let counts = counts.iter().map(ToString::to_string);
        TableRow::new(name, std::iter::once(most).chain(counts).collect())
    };
    let rows: Vec<TableRow> = report.all().filter(|result| !result.lost.is_empty()).map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let headings = [
        "Run",
        "Links with the most lost copies: node (its links) → peer, copies",
        "Nodes",
        "Links",
        "Copies",
    ];
    let text = "Copies lost because the queue of a link was full, by node and peer.";
    Some(Section::new("Queue overflows", text, Table::new(headings, 2, rows)))
}

fn figures(name: &str, series: &Series<'_>) -> Vec<Figure> {
    let prefix = report::slug(&name.to_ascii_lowercase());
    let prefix = if prefix.is_empty() { prefix } else { prefix + "-" };
    let title = |what: &str| if name.is_empty() { what.to_owned() } else { format!("{name}: {what}") };
    let times: Vec<Vec<f64>> = series.iter().map(|row| complete(row.first())).collect();
    let scale = scale(&times);
    let count = |lines: &[Line]| {
        let most = lines.iter().flat_map(|line| &line.points).map(|(_, count)| *count).fold(1.0, f64::max);
        Scale::linear("messages", 0.0..most * 1.08, Unit::Count)
    };
    let bars: Vec<Line> =
        series.iter().zip(&times).map(|(row, times)| histogram(row, times, &scale)).collect();
    let shares = series.iter().zip(&times).map(|(row, times)| cumulative(row, times, &scale)).collect();
    let between: Vec<Line> =
        series.iter().map(|row| line(row, row.first().inter_arrival.clone(), Style::Shares)).collect();
    let ends = between.iter().filter_map(|line| line.points.iter().find(|(_, share)| *share >= 0.995));
    let last = ends.map(|(time, _)| *time * 1.05).fold(0.0, f64::max);
    let last = if last > 0.0 { last } else { 1.0 };
    let pauses =
        (Scale::linear("since the previous delivery", 0.0..last, Unit::Milliseconds), Scale::share());
    vec![
        Figure::new(
            format!("{prefix}dissemination"),
            "Histogram of the times until the last node had a message.",
            Lines::new(title("dissemination times"), (scale.clone(), count(&bars)), bars),
        ),
        Figure::new(
            format!("{prefix}cumulative"),
            "The share of messages that every node had after a time; dots at 50 % and 99 %.",
            Lines::new(title("cumulative dissemination times"), (scale, Scale::share()), shares),
        ),
        Figure::new(
            format!("{prefix}hops"),
            "The hops of a message's last delivery.",
            hops(series, title("hops of the last delivery")),
        ),
        Figure::new(
            format!("{prefix}inter-arrival"),
            "The cumulative share of times between two deliveries at a node.",
            Lines::new(title("times between deliveries at a node"), pauses, between),
        ),
    ]
}

fn line(row: &Row, points: Vec<(f64, f64)>, style: Style) -> Line {
    let label = row.first().point.label.clone();
    Line { label, points, style, colour: Some(row.colour), ..Line::default() }
}

/// Returns the sorted dissemination times of the messages that reached every node, in milliseconds.
fn complete(result: &Outcome<MessagesData>) -> Vec<f64> {
    let complete = result.messages.iter().filter(|row| row.delivered == result.others);
    let mut times: Vec<f64> = complete.map(|row| row.dissemination_ms()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Returns a time scale that ends at the 99.9th percentile, so that a few stragglers do not squeeze
/// the rest.
///
/// It is logarithmic if runs differ so much that the fast ones would be one line at the edge.
fn scale(all: &[Vec<f64>]) -> Scale {
    let at = |times: &Vec<f64>, share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let timed = || all.iter().filter(|times| !times.is_empty());
    let until = timed().map(|times| at(times, 0.999)).fold(0.0, f64::max).max(1e-3);
    let median = timed().map(|times| at(times, 0.5)).fold(f64::INFINITY, f64::min).max(1e-3);
    let name = "until the last node had the message";
    if until / median > POWERS_FROM {
        let from = timed().map(|times| times[0]).fold(f64::INFINITY, f64::min).max(1e-3);
        Scale::powers(name, from * 0.8..until * 1.3, Unit::Milliseconds)
    } else {
        Scale::linear(name, 0.0..until * 1.05, Unit::Milliseconds)
    }
}

fn histogram(row: &Row, times: &[f64], scale: &Scale) -> Line {
    let mut bins = vec![0.0; BINS];
    for time in times {
        if let Some(bin) = bins.get_mut((scale.share_of(*time).max(0.0) * BINS as f64) as usize) {
            *bin += 1.0;
        }
    }
    let at = |bin: usize| scale.value_at(bin as f64 / BINS as f64);
    let corners = bins.iter().enumerate().flat_map(|(bin, count)| [(at(bin), *count), (at(bin + 1), *count)]);
    line(row, corners.collect(), Style::Area)
}

fn cumulative(row: &Row, times: &[f64], scale: &Scale) -> Line {
    let published = row.first().messages.len().max(1) as f64;
    let every = (times.len() / 400).max(1);
    let some = times.iter().enumerate().step_by(every).map(|(i, time)| (*time, (i + 1) as f64 / published));
    let last = times.last().map(|time| (*time, times.len() as f64 / published));
    line(row, std::iter::once((scale.ends().start, 0.0)).chain(some).chain(last).collect(), Style::Shares)
}

fn hops(series: &Series<'_>, title: String) -> Boxes {
    let counts = |row: &&Row| {
        let result = row.first();
        let mut counts: Vec<f64> = Vec::new();
        for row in result.messages.iter().filter(|row| row.delivered == result.others) {
            let hops = usize::from(row.last_hop);
            counts.resize(counts.len().max(hops + 1), 0.0);
            counts[hops] += 1.0;
        }
        let all = counts.iter().sum::<f64>().max(1.0);
        counts.iter().map(|count| count / all).collect()
    };
    let shares: Vec<Vec<f64>> = series.iter().map(counts).collect();
    let most = shares.iter().map(Vec::len).max().unwrap_or(1).max(2);
    let is_used = |hop: &usize| shares.iter().any(|run| run.get(*hop).is_some_and(|share| *share > 0.0));
    let least = (0..most).find(is_used).unwrap_or(1) as f64;
    let width = 0.8 / shares.len() as f64;
    let mut boxes = Vec::new();
    for (i, (row, run)) in series.iter().zip(&shares).enumerate() {
        for (hop, share) in run.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let from = hop as f64 - 0.4 + width * i as f64;
            boxes.push(Block::new([(from, 0.0), (from + width, *share)], Ink::of(row.colour)));
        }
    }
    let key = series.iter().map(|row| (Mark::Bar(Ink::of(row.colour)), row.first().point.label.clone()));
    let x = Scale::linear("hops", least - 0.5..most as f64 - 0.5, Unit::Count);
    let scales = (x, Scale::share());
    Boxes { title, scales, height: HOPS_PIXELS, boxes, lines: Vec::new(), key: key.collect() }
}

fn findings(report: &Report<'_>) -> Vec<String> {
    let rows = &report.rows;
    let mut sentences = Vec::new();
    let total: f64 = rows.iter().map(|row| row.mean(|m| m.messages as f64)).sum();
    let missing: f64 = rows.iter().map(incomplete).sum();
    let runs = rows.len();
    if missing == 0.0 {
        let total = number(total);
        sentences.push(format!("{total} messages in {runs} runs; all of them reached every node."));
    } else {
        let mut worst: Vec<&Row> = rows.iter().filter(|row| incomplete(row) > 0.0).collect();
        worst.sort_by(|a, b| incomplete(b).total_cmp(&incomplete(a)));
        let some = worst.iter().take(4).map(|row| {
            let share = percent(incomplete(row) / row.mean(|m| m.messages as f64), 2);
            format!("{} ({} of its messages)", row.named(), share)
        });
        let some: Vec<String> = some.collect();
        sentences.push(format!(
            "{} of {} messages did not reach every node.",
            number(missing),
            number(total)
        ));
        sentences.push(format!("Most of them in {}.", some.join(", ")));
        let is_clean = |row: &&Row| incomplete(row) == 0.0 && row.mean(|m| m.queue_drops as f64) == 0.0;
        let clean = rows.iter().filter(is_clean).count();
        sentences.push(format!("{clean} of {runs} runs had no incomplete messages and no full queues."));
    }
    let mean = |row: &&Row| row.mean(|m| of(m.dissemination_ms, |s| s.mean));
    let max = |row: &&Row| row.mean(|m| of(m.dissemination_ms, |s| s.max));
    let timed = || rows.iter().filter(|row| mean(row).is_finite());
    let worded = |row: &Row, value: f64| format!("{} ({})", short_ms(value), row.named());
    if let Some(fast) = timed().min_by(|a, b| mean(a).total_cmp(&mean(b))).filter(|_| runs > 1)
        && let Some(slow) = timed().max_by(|a, b| mean(a).total_cmp(&mean(b)))
    {
        let [fast, slow] = [fast, slow].map(|row| worded(row, mean(&row)));
        sentences.push(format!("Mean dissemination times range from {fast} to {slow}."));
    }
    if let Some(worst) = timed().max_by(|a, b| max(a).total_cmp(&max(b))) {
        sentences.push(format!("The slowest message of all took {}.", worded(worst, max(&worst))));
    }
    sentences
}
