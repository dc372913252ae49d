//! Promises of every family.

use super::Broken;
use samara_sim::Compact;

use crate::explain::{Explained, PathRow};
use crate::family;
use crate::results::Outcome;
use crate::run::Audit;
use crate::sweep::flatten;

/// Tolerance of ratios that may be at most 1: times are rounded to nanoseconds, of which the shortest
/// way has some thousands.
pub const ROUNDING: f64 = 1e-4;

pub(super) fn broken(outcome: &Outcome, audit: &Audit) -> Vec<Broken> {
    let mut broken = Vec::new();
    broken.extend(Broken::unless(
        audit.unbalanced == 0,
        "every copy that an outbox took has left, was withdrawn, lost or waits",
        || format!("not so in {} lanes", audit.unbalanced),
    ));
    broken.extend(Broken::unless(
        audit.packets_received + audit.packets_dropped <= audit.packets_sent,
        "no packet arrives that nobody sent",
        || {
            let Audit { packets_received, packets_dropped, packets_sent, .. } = audit;
            format!("{packets_sent} sent, {packets_received} received, {packets_dropped} dropped")
        },
    ));
    broken.extend(Broken::unless(
        audit.frames_received + audit.frames_lost <= audit.frames_sent,
        "no frame arrives that nobody sent",
        || {
            let Audit { frames_received, frames_lost, frames_sent, .. } = audit;
            format!("{frames_sent} sent, {frames_received} received, {frames_lost} lost")
        },
    ));
    let scenario = &outcome.point.scenario;
    let family = family::of(scenario);
    // Hostile nodes that make up content can be faster than the content that they imitate.
    let is_forged = scenario.faults.iter().any(|fault| fault.kind.forges());
    for metric in family.metrics {
        // Times as multiples of their bounds, and bounds as shares of times.
        let is_multiple = metric.name.ends_with("_over_bound");
        let is_bound = metric.name.ends_with("_bound") && !is_multiple;
        let is_bounded =
            is_bound && family.has_strict_bounds && !is_forged || !is_bound && metric.unit == "share";
        let mut leaves = Vec::new();
        flatten(metric.name, &outcome.run.metrics[metric.name], &mut leaves);
        for (path, value) in leaves.into_iter().filter_map(|(path, value)| Some((path, value.as_f64()?))) {
            broken.extend(Broken::unless(
                value.is_finite() && value >= 0.0,
                "metrics are finite and not negative",
                || format!("{path} is {value}"),
            ));
            broken.extend(Broken::unless(
                !is_multiple || is_forged || value >= 1.0 - ROUNDING,
                "no result is better than its bound",
                || format!("{path} is {value}"),
            ));
            broken.extend(Broken::unless(
                !is_bounded || value <= 1.0 + ROUNDING,
                "no result is better than its bound, and no share is above 1",
                || format!("{path} is {value}"),
            ));
        }
    }
    broken
}

/// Returns a broken promise if the parts of a delivery do not add up to its time.
pub(super) fn unexplained(explained: &Explained) -> Option<Broken> {
    let total = |parts: &Compact| parts.iter().map(|(_, nanos)| nanos).sum::<u64>();
    let adds_up =
        |row: &&PathRow| total(&row.parts) == row.nanos && row.since_nanos + total(&row.hop) == row.nanos;
    let row = explained.rows.iter().find(|row| !adds_up(row))?;
    Broken::unless(false, "the parts of a delivery add up to its time", || format!("{row:?}"))
}
