//! What the figures say, in words: which cause cost how much.

use super::{HandoverReport, Row, Which};
use crate::words::short_ms;

/// A cause that takes less of the time is not worth a sentence.
const PART_MIN: f64 = 0.1;

/// The key sentences: how near the figures of others are, and what the runs that are most different say.
pub(super) fn headline(report: &HandoverReport) -> Vec<String> {
    let mut sentences = Vec::new();
    let deviations = report.known.iter().map(|known| known.deviation().abs());
    let (count, within) = deviations
        .fold((0, 0), |(count, within), deviation| (count + 1, within + u32::from(deviation <= 0.1)));
    if count > 0 {
        sentences.push(format!("{within} of {count} figures that others measured are met within 10 %."));
    }
    let spread = |row: &&Row| row.mean(|m| m.later_ms);
    let size = report.rows.iter().filter_map(|row| row.metrics.first()).map(|metrics| metrics.payloads);
    let Some(size) = middle(size.collect()) else { return sentences };
    let alike = || report.rows.iter().filter(|row| row.metrics.first().is_some_and(|m| m.payloads == size));
    if let Some(base) = alike().next() {
        sentences.push(format!("{}, {size} payloads: {}", base.label, explanation(base)));
    }
    if let Some(slowest) = alike().max_by(|a, b| spread(a).total_cmp(&spread(b)))
        && let Some(fastest) = alike().min_by(|a, b| spread(a).total_cmp(&spread(b)))
        && spread(&slowest) > 1.5 * spread(&fastest)
    {
        sentences.push(format!(
            "Later batches of {size} payloads take from {} ({}) to {} ({}).",
            short_ms(spread(&fastest)),
            fastest.label,
            short_ms(spread(&slowest)),
            slowest.label
        ));
    }
    sentences
}

fn middle(mut values: Vec<u32>) -> Option<u32> {
    values.sort_unstable();
    values.dedup();
    values.get(values.len() / 2).copied()
}

/// What a run's batches waited for, in a sentence each.
pub(super) fn explanation(row: &Row) -> String {
    let told = |which: Which, name: &str| {
        let parts = row.parts(which);
        let total: f64 = parts.iter().map(|(_, ms)| ms).sum();
        let mut causes: Vec<(&str, f64)> =
            parts.into_iter().filter(|(_, ms)| *ms > PART_MIN * total && *ms > 1.0).collect();
        causes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let causes: Vec<String> =
            causes.iter().map(|(cause, ms)| format!("{} {cause}", short_ms(*ms))).collect();
        format!("{name} takes {}: {}.", short_ms(row.mean(|m| which.took(m))), causes.join(", "))
    };
    format!("{} {}", told(Which::First, "the first batch on a connection"), told(Which::Later, "A later one"))
}
