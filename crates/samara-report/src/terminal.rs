//! Tables for the terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use samara_lab::reference::{Comparison, KnownComparison};

use crate::Report;
use crate::words::{MISSING, fixed, signed_percent};

/// The comparison of all runs.
pub fn table(report: &Report) -> String {
    report.table()
}

/// Our figures beside those of references.
pub fn comparisons(comparisons: &[Comparison]) -> String {
    let header = ["run", "", "runs", "mean ms", "p50", "p95", "max", "copies"].map(str::to_owned);
    let mut rows = Vec::new();
    for comparison in comparisons {
        for (side, statistics, copies, runs) in [
            ("measured", &comparison.reference_ms, comparison.copies.1, comparison.runs.1),
            ("simulated", &comparison.ours_ms, comparison.copies.0, comparison.runs.0),
        ] {
            rows.push(vec![
                comparison.run.clone(),
                side.to_owned(),
                runs.to_string(),
                fixed(statistics.mean, 0),
                fixed(statistics.p50, 0),
                fixed(statistics.p95, 0),
                fixed(statistics.max, 0),
                fixed(copies, 2),
            ]);
        }
        let mut row = vec![comparison.run.clone(), "difference".to_owned(), String::new()];
        row.push(signed_percent(comparison.mean_deviation()));
        row.push(String::new());
        row.push(signed_percent(comparison.p95_deviation()));
        row.extend([String::new(), String::new()]);
        rows.push(row);
    }
    draw(&header, &rows, 2)
}

/// Our figures beside those that others have published or measured.
pub fn known(comparisons: &[KnownComparison]) -> String {
    let header = ["source", "run", "metric", "theirs", "ours", "difference"].map(str::to_owned);
    let rows = comparisons.iter().map(|comparison| {
        vec![
            comparison.source.clone(),
            comparison.run.clone(),
            comparison.metric.clone(),
            number(comparison.known),
            number(comparison.ours),
            signed_percent(comparison.deviation()),
        ]
    });
    draw(&header, &rows.collect::<Vec<_>>(), 3)
}

/// A table of texts; all columns but the first are aligned right.
pub fn plain_table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    draw(&header.map(str::to_owned), &rows, 2)
}

/// A number as people write it: no more digits than tell something.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        MISSING.to_owned()
    } else if value == 0.0 || (value.fract() == 0.0 && value.abs() < 1e7) {
        format!("{value:.0}")
    } else if value.abs() >= 1e6 {
        format!("{:.2} M", value / 1e6)
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

pub(crate) fn draw(header: &[String], rows: &[Vec<String>], left: usize) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}
