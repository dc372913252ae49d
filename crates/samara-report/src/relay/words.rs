//! What the figures say, in words: what limits.

use super::{RelayReport, Row, figures};
use crate::terminal::number;
use crate::words::{grouped, plural, short_ms};

/// The key sentences.
pub(super) fn headline(report: &RelayReport) -> Vec<String> {
    let all = |value: super::Value| report.rows.iter().map(|row| row.mean(value)).sum::<f64>();
    let (rounds, failed) = (all(|m| m.rounds as f64), all(|m| m.failed as f64));
    let bad = all(|m| m.faults() as f64) + all(|m| m.unresolved as f64);
    let mut sentences = vec![if bad == 0.0 {
        let ends = if failed == 0.0 {
            "none failed".to_owned()
        } else {
            format!("{} reported as failed", number(failed))
        };
        format!("{}: {ends}, all others came out whole, in one order at all nodes.", plural(rounds, "round"))
    } else {
        format!("{} rounds: {} payloads, orders or ends were wrong.", number(rounds), number(bad))
    }];
    sentences.extend(best(report));
    sentences.extend(faults(report));
    sentences
}

/// What pipelining is worth in each series, where it is worth most.
fn best(report: &RelayReport) -> Vec<String> {
    let mut sentences = Vec::new();
    for (_, rows) in figures::series(&report.rows) {
        let gains = rows.iter().filter(|row| row.gain().is_finite() && row.gain() > 1.05);
        let Some(best) = gains.max_by(|a, b| a.gain().total_cmp(&b.gain())) else { continue };
        let point: String = best.point.iter().map(|value| format!(" ({value})")).collect();
        let by_formula = best.mean(|m| m.gain_by_formula.unwrap_or(f64::NAN));
        let formula = if by_formula.is_finite() && best.first.metrics.limit == "processor" {
            format!(", {by_formula:.1} by formula")
        } else {
            String::new()
        };
        sentences.push(format!(
            "{}{point}: {} payloads/s, {:.1} times as many as the first run{formula}. {}",
            best.label,
            grouped(best.mean(|m| m.slots_per_s)),
            best.gain(),
            limit(best)
        ));
    }
    sentences
}

fn faults(report: &RelayReport) -> Option<String> {
    let hit: Vec<&Row> = report.rows.iter().filter(|row| !row.first.harm.is_empty()).collect();
    let gap = hit.iter().map(|row| row.mean(|m| m.longest_gap_ms)).reduce(f64::max)?;
    let service = hit.iter().map(|row| row.mean(|m| m.service_gap_ms)).fold(0.0, f64::max);
    let others: f64 = hit.iter().map(|row| row.mean(|m| m.failed_unharmed as f64)).sum();
    Some(format!(
        "With nodes lost, a team stood still for {} at most, and all teams together for {}; {} of teams that nothing was wrong with failed.",
        short_ms(gap),
        short_ms(service),
        plural(others, "round")
    ))
}

/// What limits a run, in a sentence.
pub(super) fn limit(row: &Row) -> String {
    let first = &row.first.metrics;
    let share = row.mean(|m| m.share_of_bound) * 100.0;
    match first.limit {
        "latency" => {
            let wait = row.mean(|m| 1.0 - m.cpu_utilisation) * 100.0;
            format!(
                "Rounds in flight limit it: {share:.0} % of what the busiest processor or uplink allows; processors wait {wait:.0} % of the time for slots on their way."
            )
        }
        "uplink" => format!(
            "The uplink of node {} limits it, {share:.0} % of which is used for slots.",
            first.slowest_node
        ),
        _ if row.mean(|m| m.cpu_utilisation_max) > 1.15 * row.mean(|m| m.cpu_utilisation_min) => format!(
            "The processor of node {} limits it, busy for {:.0} % of the time while another one is for {:.0} %.",
            first.slowest_node,
            row.mean(|m| m.cpu_utilisation_max) * 100.0,
            row.mean(|m| m.cpu_utilisation_min) * 100.0
        ),
        _ => format!(
            "Processors limit it: all are busy for {:.0} % of the time or more.",
            row.mean(|m| m.cpu_utilisation_min) * 100.0
        ),
    }
}
