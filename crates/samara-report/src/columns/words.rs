//! What the figures say, in words.

use super::{ColumnsReport, Row};
use crate::words::ms;

/// The key sentences of a report.
pub(crate) fn headline(report: &ColumnsReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if report.axes.is_empty() {
        let row = |name: &str| report.rows.iter().find(|row| row.run == name);
        if let (Some(sequential), Some(batch)) = (row("sequential"), row("batch")) {
            sentences.push(format!(
                "Batch publishing brings the mean time to custody from {} to {}: {:.1} times faster.",
                ms(sequential.mean),
                ms(batch.mean),
                sequential.mean / batch.mean
            ));
        }
        if let (Some(batch), Some(node)) = (row("batch"), row("node-wide")) {
            sentences.push(format!(
                "One order over all links, in every node, brings it to {}: {:.2} times faster than the batch, {:.2} times \
                 the lower bound.",
                ms(node.mean),
                batch.mean / node.mean,
                node.over_bound()
            ));
        }
        if let Some(warm) = row("node-wide-warm") {
            sentences.push(format!(
                "On connections whose windows are open it takes {}, {:.2} times the bound.",
                ms(warm.mean),
                warm.over_bound()
            ));
        }
        if sentences.is_empty()
            && let Some(best) = report.rows.iter().min_by(|a, b| a.mean.total_cmp(&b.mean))
        {
            sentences.push(format!("The fastest run is \"{}\": {} on average.", best.label, ms(best.mean)));
        }
    }
    sentences.extend(slow_start(report));
    sentences.extend(references(report));
    let incomplete: Vec<&Row> = report.rows.iter().filter(|row| row.incomplete > 0.0).collect();
    if !incomplete.is_empty() {
        let names: Vec<&str> = incomplete.iter().map(|row| row.label.as_str()).take(4).collect();
        sentences.push(format!(
            "Not every node got all its columns in: {}. Times are those of the nodes that did.",
            names.join(", ")
        ));
    }
    sentences
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
        // Real nodes do not tell their windows.
        if times.len() < 2 || result.run.real.is_some() {
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
                "{}: the mean differs by {:+.1} %, the 95th percentile by {:+.1} % from what was measured.",
                comparison.label,
                comparison.mean_deviation() * 100.0,
                comparison.p95_deviation() * 100.0
            )
        })
        .collect()
}
