//! The page of a stream of messages, with the figures of the study for each series.

use std::cmp::Reverse;

use samara_lab::network::has_one_latency;
use samara_lab::page::{Bars, Chart, Column, Form, PageSpec, Range, Section, Swept, computed, mean, spread};
use samara_lab::report::{Results, Runs};
use samara_lab::results::Outcome;
use samara_report::words::{number, percent, plural, short_ms};
use samara_report::{Look, Part, Row as TableRow, Summary, Table};

use super::drawings::distributions;
use super::metrics::MessagesData;

/// Maximum number of listed links for a run with full queues.
const LINKS_MAX: usize = 12;
const MEAN: &str = "dissemination_ms.mean";

pub(super) static PAGE: PageSpec = PageSpec {
    sections: &[
        Section::new("Means").side_by_side().charts(&[Chart::Bars(MEANS)]),
        Section::new("Dissemination time")
            .about(
                "Time from the publication of a message until the last node has it, over the messages that reached every node. \
                 All others count as incomplete. The bound is the shortest path to the farthest node over the links of the \
                 network, each with its own latency and the time of one frame at its rates. By hops, if all pairs of nodes have \
                 one latency: the hops to that node, each with the time of one frame on the fastest links. Hops are those of the last delivery: the mean, and the maximum.",
            )
            .charts(&[Chart::Parts(|results| by_series(results, &[&TIMES[..], &BOUNDS, &DELIVERED].concat()))]),
    ],
    details: &[
        Section::new("Over the sweep")
            .in_sweep()
            .charts(&[Chart::Lines(&SWEPT, Some(("lower bound: shortest paths", "dissemination_bound_ms")))]),
        Section::drawn(distributions).side_by_side(),
        Section::items("message", |one| (&one.own::<MessagesData>().spread, &one.own::<MessagesData>().regions)),
        Section::new("Cost")
            .about(
                "Copies: number of copies of each delivered message, including the first. Requested: copies sent in answer to a \
                 request. Bytes are on the wire, per node in the whole measurement. Control is the remainder besides needed \
                 payload and duplicates: control messages, framing and acknowledgements. Interval: time between two \
                 publications. Inter-arrival: time between two deliveries at a node.",
            )
            .charts(&[Chart::Parts(|results| by_series(results, &COST))]),
        Section::new("Queue overflows")
            .about("Copies lost because the queue of a link was full, by node and peer.")
            .charts(&[Chart::Parts(overflows)]),
    ],
    findings,
    summary: Some(|results| {
        let legend = "Dissemination time: from the publication of a message until the last node has it. Copies: of each delivered \
                      message. MB up: sent by a node, from the first publication to the end of the run. Hops: of the last delivery.";
        let table = table(results, &[&SUMMARY[..], &BOUNDS].concat());
        Summary { legend: legend.to_owned(), table, ..Summary::default() }
    }),
};

const SWEPT: [Swept; 3] = [
    Swept::new("dissemination", MEAN, "mean dissemination time")
        .caption("Time from the publication of a message until the last node has it."),
    Swept::new("hops", "last_delivery_hop.mean", "mean hops of the last delivery"),
    Swept::new("copies", "duplication_factor", "copies received for each delivery")
        .caption("Includes the first copy."),
];

const MEANS: Bars = Bars {
    name: "means",
    rows_max: 20,
    title: "mean time until the last node has a message",
    metric: MEAN,
    mark: "mean over messages",
    bounds: &["dissemination_bound_ms"],
    bound: "lower bound: shortest paths",
    range: Range::Fitting,
    text: |row| match row.mean(MEAN) {
        mean if mean.is_finite() => short_ms(mean),
        _ => "no message reached every node".to_owned(),
    },
    label: |row| row.titled(),
    ..Bars::BASE
};

/// Times of messages.
const TIMES: [Column; 5] = [
    spread("mean", MEAN, Form::ShortMs),
    mean("p50", "dissemination_ms.p50", Form::ShortMs),
    mean("p99", "dissemination_ms.p99", Form::ShortMs),
    mean("max", "dissemination_ms.max", Form::ShortMs),
    mean("incomplete", "incomplete", Form::Number),
];

const BY_HOPS: Column = mean("by hops", "lower_bound_ms", Form::ShortMs);
const BOUNDS: [Column; 4] = [
    mean("bound", "dissemination_bound_ms", Form::ShortMs),
    BY_HOPS,
    mean("hops", "last_delivery_hop.mean", Form::Fixed(2)),
    mean("most hops", "last_delivery_hop.max", Form::Number),
];

const DELIVERED: [Column; 3] = [
    // Keep the digits that distinguish a share close to one from one.
    computed("delivered", |_, row| match row.mean("delivery_ratio") {
        1.0 => "100 %".to_owned(),
        share => percent(share, 4),
    }),
    mean("mean to one node", "delivery_latency_ms.mean", Form::ShortMs),
    mean("its bound", "delivery_bound_ms", Form::ShortMs),
];

/// The columns of a terminal, most important first: a narrow one leaves out the last.
const SUMMARY: [Column; 8] = [
    spread("mean", MEAN, Form::ShortMs),
    mean("p99", "dissemination_ms.p99", Form::ShortMs),
    mean("max", "dissemination_ms.max", Form::ShortMs),
    mean("incomplete", "incomplete", Form::Number),
    mean("copies", "duplication_factor", Form::Fixed(2)),
    mean("MB up", "bytes_up_per_node", Form::Mega(1)),
    mean("queue drops", "queue_drops", Form::Number),
    mean("p50", "dissemination_ms.p50", Form::ShortMs),
];

/// Returns a table without the bound by hops if latencies differ: it is that of the least latency, far
/// below the other bound.
fn table(results: &Results<'_>, columns: &[Column]) -> Table {
    let has_one = |row: &Runs<'_>| has_one_latency(&row.first().point.scenario.network);
    let is_shown = results.rows.iter().all(has_one);
    let columns: Vec<Column> =
        columns.iter().filter(|column| is_shown || column.heading != BY_HOPS.heading).copied().collect();
    results.table(&columns)
}

const COST: [Column; 13] = [
    mean("Copies", "duplication_factor", Form::Fixed(2)),
    mean("Requested", "answered_copies", Form::Number),
    mean("MB up per node", "bytes_up_per_node", Form::Mega(1)),
    mean("Needed", "payload_share", Form::Percent(1)),
    mean("Duplicates", "duplicate_share", Form::Percent(1)),
    mean("Control", "control_share", Form::Percent(1)),
    mean("MB of control", "control_bytes_up_per_node", Form::Mega(2)),
    mean("Busiest uplink", "uplink_utilisation_max", Form::Percent(1)),
    mean("Retransmissions", "retransmissions", Form::Number),
    mean("Queue drops", "queue_drops", Form::Number),
    mean("Interval", "publish_interval_ms.mean", Form::ShortMs),
    mean("Inter-arrival", "inter_arrival_ms.mean", Form::ShortMs),
    mean("p99", "inter_arrival_ms.p99", Form::ShortMs),
];

/// Returns a table with the runs of each series below its name.
fn by_series(results: &Results<'_>, columns: &[Column]) -> Vec<Part> {
    let mut table = table(results, columns);
    let mut rows = Vec::new();
    let mut series = "";
    for (shown, row) in table.rows.into_iter().zip(&results.rows) {
        if row.first().point.series != series {
            series = &row.first().point.series;
            rows.push(TableRow { look: Look::Heading, ..TableRow::new(series, Vec::new()) });
        }
        rows.push(shown);
    }
    table.rows = rows;
    vec![Part::Table(table)]
}

fn overflows(results: &Results<'_>) -> Vec<Part> {
    let row = |(row, outcome): (&Runs<'_>, &Outcome)| {
        let result = outcome.own::<MessagesData>();
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
        let counts = counts.iter().map(ToString::to_string);
        TableRow::new(row.titled(), std::iter::once(most).chain(counts).collect())
    };
    let lost = results.rows.iter().flat_map(|row| row.all.iter().map(move |outcome| (row, *outcome)));
    let lost = lost.filter(|(_, outcome)| !outcome.own::<MessagesData>().lost.is_empty());
    let rows: Vec<TableRow> = lost.map(row).collect();
    let headings = [
        "Run",
        "Links with the most lost copies: node (its links) → peer, copies",
        "Nodes",
        "Links",
        "Copies",
    ];
    if rows.is_empty() { Vec::new() } else { vec![Part::Table(Table::new(headings, 2, rows))] }
}

fn findings(results: &Results<'_>) -> Vec<String> {
    let rows = &results.rows;
    let mut sentences = Vec::new();
    let (total, missing) = (results.sum("messages"), results.sum("incomplete"));
    let incomplete = |row: &Runs<'_>| row.mean("incomplete");
    let runs = rows.len();
    if missing == 0.0 {
        let total = number(total);
        let runs = results.counted();
        sentences.push(format!("{total} messages in {runs}; all of them reached every node."));
    } else {
        let mut worst: Vec<&Runs<'_>> = rows.iter().filter(|row| incomplete(row) > 0.0).collect();
        worst.sort_by(|a, b| incomplete(b).total_cmp(&incomplete(a)));
        let some = worst.iter().take(4).map(|row| {
            let share = percent(incomplete(row) / row.mean("messages"), 2);
            format!("{} ({} of its messages)", row.quoted(), share)
        });
        let some: Vec<String> = some.collect();
        sentences.push(format!(
            "{} of {} messages did not reach every node.",
            number(missing),
            number(total)
        ));
        sentences.push(format!("Most of them in {}.", some.join(", ")));
        let is_clean = |row: &&Runs<'_>| incomplete(row) == 0.0 && row.mean("queue_drops") == 0.0;
        let clean = rows.iter().filter(is_clean).count();
        let runs = plural(runs as f64, "run");
        sentences.push(format!("{clean} of {runs} had no incomplete messages and no full queues."));
    }
    let mean = |row: &&Runs<'_>| row.mean(MEAN);
    let max = |row: &&Runs<'_>| row.mean("dissemination_ms.max");
    let timed = || rows.iter().filter(|row| mean(row).is_finite());
    let worded = |row: &Runs<'_>, value: f64| format!("{} ({})", short_ms(value), row.quoted());
    if let Some(fast) = timed().min_by(|a, b| mean(a).total_cmp(&mean(b))).filter(|_| runs > 1)
        && let Some(slow) = timed().max_by(|a, b| mean(a).total_cmp(&mean(b)))
    {
        let doubt = fast.doubt(slow, MEAN);
        let [fast, slow] = [fast, slow].map(|row| worded(row, mean(&row)));
        sentences.push(format!("Mean dissemination times range from {fast} to {slow}.{doubt}"));
    }
    if let Some(worst) = timed().max_by(|a, b| max(a).total_cmp(&max(b))) {
        sentences.push(format!("The slowest message of all took {}.", worded(worst, max(&worst))));
    }
    sentences
}
