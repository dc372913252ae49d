//! The table for the terminal.

use super::ColumnsReport;
use crate::terminal::{draw, number};

/// The comparison of all runs.
pub(super) fn table(report: &ColumnsReport) -> String {
    let mut header: Vec<String> = vec!["run".to_owned()];
    header.extend(report.axes.iter().map(|(_, label)| label.clone()));
    header.extend(
        ["mean ms", "p50", "p95", "max", "bound ms", "x bound", "copies", "MB up", "incomplete"]
            .map(str::to_owned),
    );
    let best = report.rows.iter().map(|row| row.mean).fold(f64::INFINITY, f64::min);
    let rows: Vec<Vec<String>> = report
        .rows
        .iter()
        .map(|row| {
            let mark =
                if row.mean == best && report.axes.is_empty() && report.rows.len() > 1 { " *" } else { "" };
            let mut cells = vec![format!("{}{mark}", row.run)];
            cells.extend(row.point.iter().cloned());
            let mean = if row.seeds > 1 {
                format!("{:.0} ± {:.0}", row.mean, row.confidence)
            } else {
                format!("{:.0}", row.mean)
            };
            cells.extend([
                mean,
                format!("{:.0}", row.p50),
                format!("{:.0}", row.p95),
                format!("{:.0}", row.max),
                format!("{:.0}", row.bound),
                format!("{:.2}", row.over_bound()),
                format!("{:.2}", row.copies),
                format!("{:.2}", row.bytes_up / 1e6),
                number(row.incomplete),
            ]);
            cells
        })
        .collect();
    let mut text = format!(
        "{}\nTime to custody: from the publication until a node has all its columns.\n",
        report.about.title
    );
    text += &draw(&header, &rows, 1 + report.axes.len());
    text
}
