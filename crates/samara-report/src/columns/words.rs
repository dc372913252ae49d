//! What the figures say, in words.

use super::{ColumnsReport, Row};
use crate::words::{grouped, ms, plural, signed_percent, times};

/// Runs that a sentence names, and sentences about incomplete runs.
const NAMES_MAX: usize = 4;

/// The key sentences of a report.
pub(crate) fn headline(report: &ColumnsReport) -> Vec<String> {
    let missed = missed(report, |row| format!("\"{}\"", row.label));
    let mut sentences: Vec<String> = missed.iter().map(|sentence| format!("{sentence}.")).collect();
    if report.rows.iter().any(|row| row.missed.0 > 0 && row.missed.0 < row.missed.1) {
        sentences.push("Times are those of the nodes that did.".to_owned());
    }
    if report.axes.is_empty() {
        sentences.extend(fastest(report));
    }
    sentences.extend(slow_start(report));
    sentences.extend(references(report));
    sentences
}

/// How many nodes missed the deadline in which runs; `name` is how a run is called.
pub(super) fn missed(report: &ColumnsReport, name: impl Fn(&Row) -> String) -> Vec<String> {
    let mut groups: Vec<(&Row, Vec<String>)> = Vec::new();
    for row in report.rows.iter().filter(|row| row.missed.0 > 0) {
        let name = [vec![name(row)], row.point.clone()].concat().join(" ");
        let is_like = |(other, _): &&mut (&Row, Vec<String>)| {
            (other.missed, other.deadline) == (row.missed, row.deadline)
        };
        match groups.iter_mut().find(is_like) {
            Some((_, names)) => names.push(name),
            None => groups.push((row, vec![name])),
        }
    }
    let slots = report.results.iter().map(|result| result.published.len()).max().unwrap_or(0);
    let sentence = |(row, names): &(&Row, Vec<String>)| {
        let more = names.len().saturating_sub(NAMES_MAX);
        let others =
            if more > 0 { format!(" and {}", plural(more as f64, "more run")) } else { String::new() };
        let [missed, waited] = [row.missed.0, row.missed.1].map(|count| grouped(count as f64));
        let over = [(slots, "slot"), (row.seeds, "seed")].map(|(count, thing)| match count {
            0 | 1 => String::new(),
            _ => format!(", over {}", plural(count as f64, thing)),
        });
        format!(
            "{}{others}: {missed} of {waited} nodes did not finish in {}{}",
            names[..names.len() - more].join(", "),
            row.deadline,
            over.concat()
        )
    };
    let mut sentences: Vec<String> = groups.iter().take(NAMES_MAX).map(sentence).collect();
    let more: usize = groups.iter().skip(NAMES_MAX).map(|(_, names)| names.len()).sum();
    if more > 0 {
        sentences.push(format!("{}: some nodes did not finish", plural(more as f64, "more run")));
    }
    sentences
}

/// Which way of publishing is how much faster, of those with which every node is complete: means over different nodes do not
/// compare.
fn fastest(report: &ColumnsReport) -> Vec<String> {
    let mut sentences = Vec::new();
    let complete = || report.rows.iter().filter(|row| row.incomplete == 0.0 && row.mean.is_finite());
    let row = |name: &str| complete().find(|row| row.run == name);
    if let (Some(sequential), Some(batch)) = (row("sequential"), row("batch"))
        && let Some(faster) = times(sequential.mean, batch.mean)
    {
        sentences.push(format!(
            "Batch publishing brings the mean time to custody from {} to {}: {faster:.1} times faster.",
            ms(sequential.mean),
            ms(batch.mean)
        ));
    }
    if let (Some(batch), Some(node)) = (row("batch"), row("node-wide"))
        && let Some(faster) = times(batch.mean, node.mean)
    {
        sentences.push(format!(
            "One order over all links, in every node, brings the mean time to custody to {}: {faster:.2} times faster than the \
             batch{}.",
            ms(node.mean),
            beside_bound(node, "the lower bound")
        ));
    }
    if let Some(warm) = row("node-wide-warm") {
        sentences.push(format!(
            "On connections whose windows are open the mean is {}{}.",
            ms(warm.mean),
            beside_bound(warm, "the bound")
        ));
    }
    if sentences.is_empty()
        && let Some(best) = complete().min_by(|a, b| a.mean.total_cmp(&b.mean))
    {
        sentences.push(format!("The fastest run is \"{}\": {} on average.", best.label, ms(best.mean)));
    }
    sentences
}

fn beside_bound(row: &Row, bound: &str) -> String {
    let over = row.over_bound();
    if over.is_finite() { format!(", {over:.2} times {bound}") } else { String::new() }
}

/// The post's question whether TCP slow start shaped its figures: the first slot is on cold connections, the others follow
/// on connections that have carried a block.
fn slow_start(report: &ColumnsReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for result in super::figures::first_seeds(&report.results) {
        let slots = &result.metrics.slots;
        let times: Vec<f64> = slots
            .iter()
            .filter_map(|slot| slot.time_to_custody_ms.as_ref().map(|times| times.mean))
            .collect();
        // Real nodes do not report their windows. Means over different nodes say nothing about slow start.
        if times.len() < 2 || result.metrics.incomplete > 0 || result.run.real.is_some() {
            continue;
        }
        let later = times[1..].iter().sum::<f64>() / (times.len() - 1) as f64;
        sentences.push(format!(
            "{}: {} in the first slot (windows of {:.0} packets at the publisher), {} in later ones ({:.0} packets): {}.",
            result.label,
            ms(times[0]),
            slots[0].publisher_window_packets,
            ms(later),
            slots[slots.len() - 1].publisher_window_packets,
            verdict(times[0], later)
        ));
    }
    sentences
}

fn verdict(cold: f64, warm: f64) -> String {
    let gain = 1.0 - warm / cold;
    if gain > 0.05 {
        format!("slow start shapes the figure, it costs {:.0} %", gain * 100.0)
    } else if gain < -0.05 {
        format!("later slots are slower by {:.0} %", -gain * 100.0)
    } else {
        "no more than 5 % between them: here slow start does not shape the figure".to_owned()
    }
}

fn references(report: &ColumnsReport) -> Vec<String> {
    report
        .comparisons
        .iter()
        .map(|comparison| {
            format!(
                "{}: the mean differs by {}, the 95th percentile by {} from what was measured.",
                comparison.label,
                signed_percent(comparison.mean_deviation()),
                signed_percent(comparison.p95_deviation())
            )
        })
        .collect()
}
