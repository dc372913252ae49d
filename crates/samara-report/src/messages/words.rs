//! What the figures say, in words.

use super::{MessagesReport, Row};
use crate::terminal::number;
use crate::words::{percent, short_ms};

/// The key sentences of a report.
pub(super) fn headline(report: &MessagesReport) -> Vec<String> {
    let mut sentences = Vec::new();
    let timed = || report.rows.iter().filter(|row| row.mean.is_finite());
    let total: f64 = report.rows.iter().map(|row| row.messages).sum();
    let incomplete: f64 = report.rows.iter().map(|row| row.incomplete).sum();
    let runs = report.rows.len();
    if incomplete == 0.0 {
        sentences.push(format!(
            "{} messages in {runs} runs, and every one of them reached every node.",
            number(total)
        ));
    } else {
        let worst: Vec<&Row> = {
            let mut rows: Vec<&Row> = report.rows.iter().filter(|row| row.incomplete > 0.0).collect();
            rows.sort_by(|a, b| b.incomplete.total_cmp(&a.incomplete));
            rows
        };
        let some: Vec<String> = worst
            .iter()
            .take(4)
            .map(|row| {
                format!("{} ({}, {})", name(row), number(row.incomplete), percent(1.0 - row.ratio(), 2))
            })
            .collect();
        sentences.push(format!(
            "{} of {} messages did not reach every node. Most of them in: {}.",
            number(incomplete),
            number(total),
            some.join(", ")
        ));
        let clean = report.rows.iter().filter(|row| row.incomplete == 0.0 && row.lost == 0.0).count();
        sentences.push(format!("In {clean} of {runs} runs nothing was lost, and no queue was ever full."));
    }
    if let (Some(fast), Some(slow)) =
        (timed().min_by(|a, b| a.mean.total_cmp(&b.mean)), timed().max_by(|a, b| a.mean.total_cmp(&b.mean)))
        && runs > 1
    {
        sentences.push(format!(
            "Mean dissemination times go from {} ({}) to {} ({}).",
            short_ms(fast.mean),
            name(fast),
            short_ms(slow.mean),
            name(slow)
        ));
    }
    if let Some(worst) = timed().max_by(|a, b| a.max.total_cmp(&b.max)) {
        sentences.push(format!("The slowest message of all took {} ({}).", short_ms(worst.max), name(worst)));
    }
    sentences
}

fn name(row: &Row) -> String {
    let mut name = row.label.clone();
    for value in &row.point {
        name += &format!(", {value}");
    }
    name
}
