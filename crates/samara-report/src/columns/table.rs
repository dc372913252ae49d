//! The table for the terminal.

use super::ColumnsReport;
use super::words::missed;
use crate::terminal::{draw, number};
use crate::words::fixed;

/// The comparison of all runs.
pub(super) fn table(report: &ColumnsReport) -> String {
    let mut header: Vec<String> = vec!["run".to_owned()];
    header.extend(report.axes.iter().map(|(_, label)| label.clone()));
    header.extend(
        ["mean ms", "p50", "p95", "max", "bound ms", "x bound", "copies", "MB up", "incomplete"]
            .map(str::to_owned),
    );
    let rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            let mark = if report.is_best(row) { " *" } else { "" };
            let mut cells = vec![format!("{}{mark}", row.run)];
            cells.extend(row.point.iter().cloned());
            let mean = if row.seeds > 1 && row.mean.is_finite() {
                format!("{:.0} ± {:.0}", row.mean, row.confidence)
            } else {
                fixed(row.mean, 0)
            };
            cells.extend([
                mean,
                fixed(row.p50, 0),
                fixed(row.p95, 0),
                fixed(row.max, 0),
                fixed(row.bound, 0),
                fixed(row.over_bound(), 2),
                fixed(row.copies, 2),
                fixed(row.bytes_up / 1e6, 2),
                number(row.incomplete),
            ]);
            cells
        })
        .collect();
    let mut text: String =
        missed(report, |row| row.run.clone()).iter().map(|line| format!("{line}\n")).collect();
    text += &format!(
        "{}\nTime to custody: from the publication until a node has all its columns.\n",
        report.about.title
    );
    text += &draw(&header, &rows, 1 + report.axes.len());
    text
}
