//! The table for the terminal.

use super::MessagesReport;
use crate::terminal::{draw, number};
use crate::words::{fixed, short_ms};

pub(super) fn table(report: &MessagesReport) -> String {
    let mut header: Vec<String> = vec!["run".to_owned()];
    header.extend(report.axes.iter().map(|(_, label)| label.clone()));
    header.extend(
        [
            "mean",
            "p50",
            "p99",
            "max",
            "bound",
            "hops",
            "most",
            "incomplete",
            "copies",
            "MB up",
            "queue drops",
        ]
        .map(str::to_owned),
    );
    let rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            let mut cells = vec![row.run.clone()];
            cells.extend(row.point.iter().cloned());
            cells.push(if row.seeds > 1 && row.mean.is_finite() {
                format!("{} ± {}", short_ms(row.mean), short_ms(row.confidence))
            } else {
                short_ms(row.mean)
            });
            cells.extend([row.p50, row.p99, row.max, row.bound].map(short_ms));
            cells.extend([
                fixed(row.hops, 2),
                number(row.hops_max),
                number(row.incomplete),
                fixed(row.copies, 2),
                fixed(row.bytes_up / 1e6, 1),
                number(row.lost),
            ]);
            cells
        })
        .collect();
    format!(
        "{}\nDissemination time: from the publication of a message until the last node has it. Hops: of that last delivery.\n{}",
        report.about.title,
        draw(&header, &rows, 1 + report.axes.len())
    )
}
