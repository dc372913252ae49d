//! What the figures say, in words.

use super::compare::{BYTES, Race, base, races, saved};
use super::{Row, TransactionsReport};
use crate::draw::Swept;
use crate::words::{grouped, plural};

/// The key sentences.
pub(super) fn headline(report: &TransactionsReport) -> Vec<String> {
    let mut sentences = vec![delivered(report)];
    if report.axes.is_empty() {
        sentences.extend(savings(report));
    } else {
        sentences.extend(savings_over_sweep(report));
    }
    sentences.extend(overtaking(report));
    sentences
}

fn delivered(report: &TransactionsReport) -> String {
    let missing = |row: &Row| row.count(|m| m.incomplete);
    let total = report.rows.iter().map(|row| row.count(|m| m.transactions)).sum::<f64>();
    let incomplete = report.rows.iter().map(missing).sum::<f64>();
    if incomplete > 0.0 {
        let missed = report.rows.iter().filter(|row| missing(row) > 0.0);
        let mut runs: Vec<String> = Vec::new();
        for row in missed {
            let name = format!("\"{}\"", row.label);
            if !runs.contains(&name) {
                runs.push(name);
            }
        }
        return format!(
            "{} of {} transactions did not reach every honest node: {}.",
            grouped(incomplete),
            grouped(total),
            listed(&runs)
        );
    }
    format!(
        "{} in {}, and every valid one reached every honest node.",
        plural(total, "transaction"),
        plural(report.rows.iter().map(|row| row.metrics.len()).sum::<usize>() as f64, "run")
    )
}

/// Of the runs with the same transactions and the same network: the one with the fewest bytes beside the first of them, or, where that
/// is the first, beside the one with the most.
fn savings(report: &TransactionsReport) -> Vec<String> {
    let (rows, [(_, connections), (_, wire)]) = (&report.rows, BYTES);
    let mut groups: Vec<Vec<(&Row, f64)>> = Vec::new();
    for row in rows {
        let (Some(first), Some(factor)) = (base(rows, row), saved(rows, row, connections)) else { continue };
        match groups.iter_mut().find(|group| group[0].0.run == first.run) {
            Some(group) => group.push((row, factor)),
            None => groups.push(vec![(row, factor)]),
        }
    }
    let sentence = |group: &Vec<(&Row, f64)>| {
        let best = group.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let worst = group.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let beside = if best.0.run == group[0].0.run { worst } else { &group[0] };
        let factor = best.1 / beside.1;
        (factor > 1.05).then(|| {
            format!(
                "\"{}\" needs {} times fewer bytes in connections than \"{}\" ({} on the wire), with {:.2} bodies for each node and \
                 transaction instead of {:.2}.",
                best.0.label,
                times(factor),
                beside.0.label,
                less(beside.0.mean(&wire) / best.0.mean(&wire)),
                best.0.copies,
                beside.0.copies
            )
        })
    };
    groups.iter().filter_map(sentence).collect()
}

/// The run that saves most over all values of the axes, and the least and the most that it saves.
fn savings_over_sweep(report: &TransactionsReport) -> Option<String> {
    let value = BYTES[0].1;
    let mut runs: Vec<(&Row, Vec<(f64, &Row)>)> = Vec::new();
    for row in &report.rows {
        let Some(factor) = saved(&report.rows, row, value) else { continue };
        match runs.iter_mut().find(|(first, _)| first.run == row.run) {
            Some((_, factors)) => factors.push((factor, row)),
            None => runs.push((row, vec![(factor, row)])),
        }
    }
    let mean = |factors: &[(f64, &Row)]| {
        factors.iter().map(|(factor, _)| factor.ln()).sum::<f64>() / factors.len() as f64
    };
    let (row, factors) = runs.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))?;
    let least = factors.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = factors.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let place = |row: &Row| {
        let values = report.axes.iter().zip(&row.point).map(|((_, label), value)| format!("{label} {value}"));
        values.collect::<Vec<_>>().join(", ")
    };
    (most.0 > 1.05).then(|| {
        format!(
            "\"{}\" needs fewest bytes in connections: {} times fewer than \"{}\" at {}, {} at {}.",
            row.label,
            times(most.0),
            report.rows[0].label,
            place(most.1),
            less(least.0),
            place(least.1)
        )
    })
}

/// Where over the only axis of a sweep the first run wins, in connections and on the wire.
fn overtaking(report: &TransactionsReport) -> Vec<String> {
    let [(_, axis)] = report.axes.as_slice() else { return Vec::new() };
    let (swept, xs) = swept(report);
    let Some(first) = report.rows.first() else { return Vec::new() };
    let mut sentences = Vec::new();
    for (name, value) in BYTES {
        let races = races(report, &swept, &xs, value);
        let crossed: Vec<String> = races
            .iter()
            .filter_map(|race| {
                let crossover = race.crossovers().into_iter().next()?;
                let side = if crossover.base_loses { "below" } else { "above" };
                Some(format!("than \"{}\" {side} {}", race.row.label, swept.label(crossover.at)))
            })
            .collect();
        if !crossed.is_empty() {
            sentences.push(format!(
                "{name}, announcements included, \"{}\" needs fewer bytes {} ({axis}; interpolated).",
                first.label,
                listed(&crossed)
            ));
        } else if !races.is_empty() && races.iter().all(|race| race.factors()[0].0 > 1.0) {
            let least = races.iter().map(|race| race.factors()[0].0).fold(f64::INFINITY, f64::min);
            sentences.push(format!(
                "{name}, announcements included, \"{}\" never wins in this range of {axis}: all others need at least {} times fewer bytes.",
                first.label,
                times(least)
            ));
        }
    }
    sentences
}

/// The only axis of a sweep, and the place of each row on it.
pub(super) fn swept(report: &TransactionsReport) -> (Swept, Vec<f64>) {
    let at = |row: &Row| row.point.first().cloned().unwrap_or_default();
    let values: Vec<String> = report.rows.iter().map(at).collect();
    Swept::new(&values.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Where over the axis a run needs fewer bytes than the first.
pub(super) fn verdict(race: &Race<'_>, swept: &Swept) -> String {
    let [least, most] = race.factors();
    let crossovers = race.crossovers();
    if crossovers.is_empty() {
        return if least.0 > 1.0 {
            format!("everywhere, {} to {} times fewer", times(least.0), times(most.0))
        } else {
            format!("nowhere, {} to {} times more", times(1.0 / most.0), times(1.0 / least.0))
        };
    }
    let places = crossovers.iter().map(|crossover| {
        let side = if crossover.base_loses { "from" } else { "up to" };
        format!("{side} {}", swept.label(crossover.at))
    });
    format!(
        "{}; {} times fewer at {}, {} at {}",
        places.collect::<Vec<_>>().join(", "),
        times(most.0),
        swept.label(most.1),
        less(least.0),
        swept.label(least.1)
    )
}

/// A factor to two digits or so.
fn times(factor: f64) -> String {
    if factor >= 10.0 { format!("{factor:.0}") } else { format!("{factor:.1}") }
}

/// A factor by which something is less, or more where it is below 1.
fn less(factor: f64) -> String {
    match factor {
        _ if factor > 1.05 => format!("{} times fewer", times(factor)),
        _ if factor < 1.0 / 1.05 => format!("{} times more", times(1.0 / factor)),
        _ => "as many".to_owned(),
    }
}

/// "a", "a and b", "a, b, and c".
fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first, second] => format!("{first} and {second}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}
