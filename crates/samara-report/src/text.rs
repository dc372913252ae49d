//! Tables as text: for a terminal, and as Markdown.

use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement};

use crate::section::{Page, Table};

impl Page {
    /// The title, the table and the sentences that a terminal shows.
    pub fn terminal(&self) -> String {
        let lines = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let summary = &self.summary;
        let legend = if summary.legend.is_empty() { String::new() } else { format!("{}\n", summary.legend) };
        let table = summary.table.terminal();
        let more: String = summary.more.iter().map(Table::terminal).collect();
        format!("{}{}\n{legend}{table}{}{more}", lines(&summary.before), self.title, lines(&summary.after))
    }
}

impl Table {
    /// The table for a terminal.
    pub fn terminal(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.headings);
        for row in &self.rows {
            table.add_row(std::iter::once(&row.name).chain(&row.cells));
        }
        for column in table.column_iter_mut().skip(self.texts) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }

    /// The table as Markdown, with so many rows at most.
    pub fn markdown(&self, rows_max: usize) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let ends = (0..self.headings.len()).map(|at| if at < self.texts { "---" } else { "--:" });
        let mut text = line(&mut self.headings.iter().cloned());
        let _ = writeln!(text, "|{}|", ends.collect::<Vec<_>>().join("|"));
        for row in self.rows.iter().take(rows_max) {
            text += &line(&mut std::iter::once(&row.name).chain(&row.cells).map(|cell| plain(cell)));
        }
        if self.rows.len() > rows_max {
            let _ = writeln!(text, "\n{} more rows are left out.", self.rows.len() - rows_max);
        }
        text
    }
}

/// Text that no Markdown table takes for its own.
pub fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
