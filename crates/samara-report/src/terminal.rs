//! Tables for terminals.

use comfy_table::presets::{NOTHING, UTF8_HORIZONTAL_ONLY};
use comfy_table::{Attribute, Cell as Shown, CellAlignment, ContentArrangement, Table as Drawn};

use crate::escape::plain;
use crate::model::{Align, Cell, Column, Table};
use crate::number::fixed;

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Characters in a line; columns are wrapped to fit.
    pub width: Option<u16>,
    /// Whether lines and bold letters may be used. Otherwise the best are marked with "*" and columns stand apart by blanks.
    pub is_tty: bool,
}

impl Terminal {
    /// For files and pipes: plain and as wide as it needs to be.
    pub const PLAIN: Self = Self { width: None, is_tty: false };
}

/// Draws a table.
pub fn draw(table: &Table, terminal: Terminal) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(if terminal.is_tty { UTF8_HORIZONTAL_ONLY } else { NOTHING });
    // Whoever asks knows where the table goes.
    match terminal.is_tty {
        true => drawn.enforce_styling(),
        false => drawn.force_no_tty(),
    };
    match terminal.width {
        Some(width) => drawn.set_width(width).set_content_arrangement(ContentArrangement::Dynamic),
        None => drawn.set_content_arrangement(ContentArrangement::Disabled),
    };
    let heading = |column: &Column| match column.unit.as_str() {
        "" => column.title.clone(),
        unit => format!("{} {unit}", column.title),
    };
    drawn.set_header(table.columns.iter().map(heading).collect::<Vec<_>>());
    for (column, drawn) in table.columns.iter().zip(drawn.column_iter_mut()) {
        let right = CellAlignment::Right;
        drawn.set_cell_alignment(if column.align == Align::Right { right } else { CellAlignment::Left });
        if !terminal.is_tty {
            drawn.set_padding((0, 2));
        }
    }
    let mut group = "";
    for (index, row) in table.rows.iter().enumerate() {
        if row.group != group {
            group = &row.group;
            drawn.add_row(vec![bold(Shown::new(plain(group)), terminal)]);
        }
        let cell = |(column, cell): (usize, &Cell)| {
            let text = text(cell, &table.columns[column]);
            match (table.is_best(index, column), terminal.is_tty) {
                (true, true) => bold(Shown::new(text), terminal),
                (true, false) => Shown::new(format!("{text}*")),
                (false, _) => Shown::new(text),
            }
        };
        drawn.add_row(row.cells.iter().enumerate().map(cell).collect::<Vec<_>>());
    }
    // Blanks at the ends of lines help nobody.
    drawn.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn bold(cell: Shown, terminal: Terminal) -> Shown {
    if terminal.is_tty { cell.add_attribute(Attribute::Bold) } else { cell }
}

/// A cell as text.
pub(crate) fn text(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Missing => "–".to_owned(),
        Cell::Text(text) => plain(text),
        Cell::Number(value) => fixed(*value, column.digits),
        Cell::Interval(mean, half) if *half > 0.0 => {
            format!("{} ± {}", fixed(*mean, column.digits), fixed(*half, column.digits))
        }
        Cell::Interval(mean, _) => fixed(*mean, column.digits),
    }
}
