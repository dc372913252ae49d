//! Figures of a comparison: changes with their intervals, and how soon things happened in both.

use samara_lab::results::is_first;

use super::{Change, Compared, Verdict};
use crate::draw::{Mark, Unit, colour};
use crate::intervals::{IntervalPlot, IntervalRow};
use crate::latency::{Curve, hidden, titled};
use crate::parts::Figure;

/// Rows of the figure of changes.
const ROWS_MAX: usize = 36;
/// Runs whose distributions are drawn.
const RUNS_MAX: usize = 12;
/// A change beyond this would leave no room for others.
const SHARE_MAX: f64 = 3.0;

/// The changes of the most telling metrics of all runs, and how many there are no rows for; nothing if nothing has changed.
pub(super) fn changes(compared: &Compared) -> Option<(String, usize)> {
    let is_drawn =
        |change: &&Change| !change.is_same && is_first(&change.metric) && change.share().abs() <= SHARE_MAX;
    let mut drawn: Vec<&Change> = compared.changes.iter().filter(is_drawn).collect();
    let left_out = drawn.len().saturating_sub(ROWS_MAX);
    if left_out > 0 {
        // Those that mean most, in the order in which they were.
        let mut by_rank: Vec<usize> = (0..drawn.len()).collect();
        by_rank.sort_by_key(|at| {
            (drawn[*at].verdict() == Verdict::Unclear, samara_lab::results::rank(&drawn[*at].metric))
        });
        by_rank.truncate(ROWS_MAX);
        by_rank.sort_unstable();
        drawn = by_rank.into_iter().map(|at| drawn[at]).collect();
    }
    let colour_of = |verdict: Verdict| match verdict {
        Verdict::Better => colour(3),
        Verdict::Worse => colour(0),
        Verdict::Changed => colour(1),
        Verdict::Unclear | Verdict::Same => colour(8),
    };
    let rows: Vec<IntervalRow> = drawn
        .iter()
        .map(|change| IntervalRow {
            name: format!("{}: {}", change.name(), change.metric),
            mean: change.share(),
            half: change.test.map_or(0.0, |test| test.half / change.a.mean.abs()),
            values: Vec::new(),
            colour: colour_of(change.verdict()),
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let key = [Verdict::Better, Verdict::Worse, Verdict::Changed, Verdict::Unclear]
        .map(|verdict| (Mark::Dot(colour_of(verdict)), verdict.word().to_owned()));
    let [a, b] = compared.names();
    let title = format!("Change from {a} to {b}");
    let plot = IntervalPlot { title: &title, unit: Unit::Share, rows, is_change: true, key: key.to_vec() };
    Some((plot.svg(), left_out))
}

/// How soon things happened in both, run by run.
pub(super) fn distributions(compared: &Compared) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for run in &compared.a.runs {
        let Some(other) = compared.b.runs.iter().find(|other| other.key() == run.key()) else { continue };
        if names.contains(&run.key()) {
            continue;
        }
        if names.len() == RUNS_MAX {
            break;
        }
        names.push(run.key());
        let name = compared
            .changes
            .iter()
            .find(|change| change.run == run.name && change.parameters == run.parameters);
        let name = name.map_or_else(|| run.name.clone(), Change::name);
        let custody = (compared.a.time_to_custody(run)?, compared.b.time_to_custody(other)?);
        let latency = (compared.a.delivery_latency(run)?, compared.b.delivery_latency(other)?);
        for (what, both, axis) in [
            ("nodes that had all their columns", custody, "time to custody"),
            ("deliveries that were made", latency, "delivery latency"),
        ] {
            let (Some(before), Some(after)) = both else { continue };
            let [a, b] = compared.names();
            let curves = [Curve { label: &a, points: &before }, Curve { label: &b, points: &after }];
            let caption = format!("All seeds together; dots at 50 and 99 %.{}", hidden(&curves));
            let svg = titled(&format!("{name}: {what} by then"), &curves, axis);
            figures.push(Figure::new(axis, caption, svg));
        }
    }
    Ok(figures)
}
