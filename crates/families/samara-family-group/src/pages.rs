//! The page of broadcasts in a group.

use samara_lab::page::{Bars, Chart, Ecdf, Form, PageSpec, Section, Swept, computed, mean};
use samara_lab::report::{self, Results, Runs};
use samara_report::words::{fixed, listed, number, percent_range, plural, short_ms};

use super::drawings::{links, prices, schedules, uplinks};
use super::outcome::GroupData;
use crate::Group;

const CURVES_MAX: usize = 12;
pub(super) static PAGE: PageSpec = PageSpec {
    sections: &[
        THROUGHPUT.side_by_side(),
        Section::new("Side by side").side_by_side().charts(&[
            Chart::Bars(Bars {
                name: "throughput",
                title: DELIVERED.title,
                caption: "The payload that a member delivers, including its own, and the bound of all shapes with as many senders.",
                metric: DELIVERED.metric,
                bounds: &["upper_bound_mb_per_s"],
                bound: "bound of all shapes",
                text: |row| fixed(row.mean(DELIVERED.metric), 2),
                ..Bars::BASE
            }),
            Chart::Figures(|results| vec![uplinks(&results.rows)]),
            Chart::Ecdf(Ecdf {
                caption: "The share of deliveries over the time from handing in a message until another member had it",
                axis: "after it was handed in",
                points: |one| &one.own::<GroupData>().latency,
                curves_max: CURVES_MAX,
            }),
            Chart::Figures(|results| links(&results.rows).into_iter().chain(schedules(&results.rows)).collect()),
        ]),
        Section::new("Over the sweep")
            .in_sweep()
            .charts(&[Chart::Figures(prices), Chart::Lines(&SWEPT, Some(("bound of all shapes", "upper_bound_mb_per_s")))]),
        THROUGHPUT.in_sweep(),
        Section::new("Between regions")
            .about(
                "Copies: how often a message left a region, in bytes with all headers; the minimum is one for each of the other \
                 regions. Busy: share of the time from the first message to the end of the run in which the busiest direction of \
                 any gateway was busy. Dropped: packets, which TCP retransmits. Wait: the longest wait of a packet in a gateway.",
            )
            .needs("gateways.copies")
            .tables(&[&[
                mean("Copies", "gateways.copies", Form::Fixed(2)),
                mean("Busy", "gateways.utilisation_max", Form::Percent(1)),
                mean("Dropped", "gateways.drops", Form::Number),
                mean("Wait", "gateways.wait_ms_max", Form::ShortMs),
            ]]),
        Section::new("Rounds")
            .about(
                "With one sender: the time until every member had everything, in times of a message or chunk on a link; and the \
                 rounds of the schedule, in which a member sends one unit and receives one at a time.",
            )
            .needs("rounds")
            .tables(&[&[
                mean("Rounds", "rounds", Form::Number),
                mean("Of the schedule", "rounds_of_schedule", Form::Number),
            ]]),
    ],
    details: &[
        Section::items("message", |one| (&one.own::<GroupData>().spread, &one.own::<GroupData>().regions)),
        Section::new("Bytes by purpose")
            .about(
                "Bytes that a member received, for each message of another one that it delivered. Transport: headers of packets, \
                 acknowledgements, and retransmissions.",
            )
            .tables(&[&[
                mean("Content", "bytes.content", Form::Fixed(1)),
                mean("Headers", "bytes.headers", Form::Fixed(1)),
                mean("Credit", "bytes.credit", Form::Fixed(1)),
                mean("Heartbeats", "bytes.heartbeats", Form::Fixed(1)),
                mean("Views, repair", "bytes.views", Form::Fixed(1)),
                mean("Transport", "bytes.transport", Form::Fixed(1)),
                mean("All", "bytes.total", Form::Fixed(1)),
            ]]),
        Section::new("Counters")
            .about(
                "Lost: pairs of a message from a member that stays or leaves and a staying member that lacks it. Disagreements: \
                 messages of failed members that some staying members have and others lack. Missed: pairs of a message and any member \
                 that lacks it. Removed: members that held the group up, with protocol.remove_slow_after.",
            )
            .metrics(&["messages deliveries lost missed removed duplicates order_violations disagreements garbled suspicions \
                       false_suspicions views forwarded repaired idle_bytes_per_s retransmissions queue_drops frozen_ms"]),
        Section::new("Ignored frames").charts(&[Chart::Causes(&[("ignored", "ignored")])]),
    ],
    findings,
    ..PageSpec::BASE
};

const THROUGHPUT: Section = Section::new("Throughput and its bounds").about(LEGEND).tables(&[&[
    computed("S", |_, row| row.data::<GroupData>().metrics.senders.to_string()),
    mean("MB/node/s", "throughput_mb_per_s", Form::Fixed(2)),
    mean("bound", "upper_bound_mb_per_s", Form::Fixed(2)),
    mean("share", "share_of_bound", Form::Percent(1)),
    // A narrow terminal leaves out the last columns that have values other than zero.
    mean("lost", "lost", Form::Number),
    mean("wrong", FAULTS, Form::Number),
    mean("p50", "delivery_latency_ms.p50", Form::ShortMs),
    mean("p99", "delivery_latency_ms.p99", Form::ShortMs),
    mean("gap", "longest_gap_ms", Form::ShortMs),
    mean("gain", "gain", Form::Fixed(2)),
    mean("of shape", "share_of_shape_bound", Form::Percent(1)),
    computed("uplinks", |_, row| {
        percent_range(row.mean("uplink_utilisation_min"), row.mean("uplink_utilisation_max"))
    }),
]]);

const LEGEND: &str = "MB/node/s: payload that a member delivers, including its own. Bound: maximum of any shape with S senders. Gain: over the first run \
with S senders.\np50, p99: from handing in a message until another member has it. Gap: the longest time without a delivery. Wrong: duplicates and \
violations of order or agreement.";

/// Deliveries that are wrong.
const FAULTS: &str = "duplicates + order_violations + disagreements + garbled";

pub(super) const DELIVERED: Swept =
    Swept::new("throughput", "throughput_mb_per_s", "payload that a member delivers, in MB/s")
        .caption("Includes its own messages; from the first broadcast until the last delivery.");
const SWEPT: [Swept; 5] = [
    DELIVERED,
    Swept::new("share", "share_of_bound", "throughput as a share of the bound of all shapes")
        .caption("The bound is for the same number of senders, on links whose packets have headers."),
    Swept::new("gain", "gain", "throughput over that of the first run").caption(
        "With the same values of the sweep. In theory a ring gains (N-1)/S over direct sending with S < N senders, and nothing with N.",
    ),
    Swept::new("latency", "delivery_latency_ms.p50", "median time until another member has a message")
        .caption("From handing it in. If members broadcast as fast as possible, messages mostly wait in windows."),
    Swept::new("gap", "longest_gap_ms", "longest time without a delivery")
        .caption("At any member that stays, during the stream of messages."),
];

/// Returns a sentence on the times without a delivery, if there are faults.
fn gaps(results: &Results<'_>) -> Option<String> {
    let has_faults = results.all().any(|result| !result.point.scenario.faults.is_empty());
    let gap = |row: &&Runs<'_>| row.mean("longest_gap_ms");
    let worst = results.rows.iter().filter(|_| has_faults).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    // The other runs, each at its worst place.
    let others = results.rows.iter().filter(|row| row.run != worst.run);
    let others = report::grouped(others, |row| row.run.as_str());
    let most = |rows: &Vec<&Runs<'_>>| rows.iter().map(gap).fold(0.0, f64::max);
    let best = others.iter().min_by(|a, b| most(&a.1).total_cmp(&most(&b.1)))?;
    let place = best.1.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let doubt = place.doubt(worst, "longest_gap_ms");
    let [worst_gap, best_gap] = [gap(&worst), most(&best.1)].map(short_ms);
    Some(format!(
        "The longest times without a delivery range from {best_gap} (\"{}\") to {worst_gap} (\"{}\").{doubt}",
        best.1[0].label, worst.label
    ))
}

fn findings(results: &Results<'_>) -> Vec<String> {
    let rows = &results.rows;
    let is_wrong = |row: &&Runs<'_>| row.mean("lost") + row.mean(FAULTS) > 0.0;
    let mut wrong: Vec<&str> = rows.iter().filter(is_wrong).map(|row| row.label.as_str()).collect();
    wrong.dedup();
    let mut sentences = vec![if wrong.is_empty() {
        let deliveries = number(results.sum("deliveries"));
        let runs = results.counted();
        let missed = results.sum("missed");
        let whose = if missed > 0.0 { " at members that stay" } else { "" };
        format!(
            "{deliveries} deliveries in {runs}: no losses{whose}, no duplicates, and no violations of order."
        )
    } else {
        let names: Vec<String> = wrong.iter().map(|name| format!("\"{name}\"")).collect();
        format!("Messages were lost, duplicated or out of order in {}.", listed(&names))
    }];
    let missed = results.sum("missed");
    if wrong.is_empty() && missed > 0.0 {
        let missed = number(missed);
        sentences.push(format!(
            "{missed} deliveries at members that failed or were removed, or of their messages, did not take place."
        ));
    }
    let removing = rows.iter().filter(|row| row.mean("removed") > 0.0);
    let mut removing: Vec<&str> = removing.map(|row| row.label.as_str()).collect();
    removing.dedup();
    if !removing.is_empty() {
        let names: Vec<String> = removing.iter().map(|name| format!("\"{name}\"")).collect();
        let members = plural(results.sum("removed"), "member");
        sentences.push(format!("protocol.remove_slow_after removed {members} in {}.", listed(&names)));
    }
    if results.sum("unfinished_leaves") > 0.0 {
        sentences
            .push("Members had not left when they were to start again: they count as failed.".to_owned());
    }
    sentences.extend(gaps(results));
    let gain = |row: &Runs<'_>| row.mean("gain");
    let gains = rows.iter().filter(|row| gain(row) > 1.05);
    if let Some(best) = gains.max_by(|a, b| gain(a).total_cmp(&gain(b))) {
        // The throughput comes first where it is the result: not at a given rate, and not among faults.
        let scenario = &best.first().point.scenario;
        let is_result = wrong.is_empty() && missed == 0.0 && scenario.part::<Group>().rate.is_none();
        let place = if is_result { 0 } else { sentences.len() };
        sentences.insert(place, format!(
            "\"{}\" delivers {:.2} MB/node/s with {} of {} members sending, {:.2} times as much as the first run with the same number of senders, \
             and {:.1} % of the bound of all shapes.",
            best.label,
            best.mean(DELIVERED.metric),
            best.data::<GroupData>().metrics.senders,
            best.data::<GroupData>().metrics.members,
            gain(best),
            best.mean("share_of_bound") * 100.0
        ));
    }
    sentences
}
