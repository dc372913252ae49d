//! Tables.

use std::fmt::Write;

use crate::escape::{self, prose};
use crate::model::{Align, Cell, Column, Row, Table};
use crate::number::fixed;
use crate::style::Style;

/// Writes a table.
pub(super) fn write(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n");
    if !table.caption.is_empty() {
        let _ = writeln!(out, "<caption>{}</caption>", prose(&table.caption));
    }
    out.push_str("<thead><tr>");
    table.columns.iter().for_each(|column| heading(out, column));
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut group = "";
    for (index, row) in table.rows.iter().enumerate() {
        if row.group != group {
            group = &row.group;
            let _ = writeln!(
                out,
                "<tr class=\"group\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>",
                table.columns.len(),
                prose(group)
            );
        }
        write_row(out, table, index, row);
    }
    out.push_str("</tbody></table></div>\n");
}

fn heading(out: &mut String, column: &Column) {
    let class = if column.align == Align::Right { " class=\"right\"" } else { "" };
    let help = match column.help.as_str() {
        "" => String::new(),
        help => format!(" title=\"{}\"", escape::text(help)),
    };
    let unit = match column.unit.as_str() {
        "" => String::new(),
        unit => format!("<small>{}</small>", escape::text(unit)),
    };
    let _ = write!(out, "<th scope=\"col\"{class}{help}>{}{unit}</th>", escape::text(&column.title));
}

fn write_row(out: &mut String, table: &Table, index: usize, row: &Row) {
    out.push_str("<tr>");
    for (at, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
        if at == 0 {
            let swatch = row.style.map(swatch).unwrap_or_default();
            let note = match row.note.as_str() {
                "" => String::new(),
                note => format!("<small>{}</small>", prose(note)),
            };
            let class = if column.align == Align::Right { " class=\"right\"" } else { "" };
            let _ = write!(out, "<th scope=\"row\"{class}>{swatch}{}{note}</th>", text(cell, column));
            continue;
        }
        let mut classes = Vec::new();
        if column.align == Align::Right {
            classes.push("right");
        }
        if table.is_best(index, at) {
            classes.push("best");
        }
        let class = match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        };
        let _ = write!(out, "<td{class}>{}{}</td>", bar(table, at, cell), text(cell, column));
    }
    out.push_str("</tr>\n");
}

fn text(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Missing => "–".to_owned(),
        Cell::Text(text) => prose(text),
        Cell::Number(value) => fixed(*value, column.digits),
        Cell::Interval(mean, half) if *half > 0.0 => format!(
            "{} <span class=\"half\">± {}</span>",
            fixed(*mean, column.digits),
            fixed(*half, column.digits)
        ),
        Cell::Interval(mean, _) => fixed(*mean, column.digits),
    }
}

/// How far a number is from the optimum, relative to the others.
fn bar(table: &Table, column: usize, cell: &Cell) -> String {
    let (Some(from), Some(value)) = (table.columns[column].bar_from, cell.number()) else {
        return String::new();
    };
    let values = table.rows.iter().filter_map(|row| row.cells.get(column)?.number());
    let most = values.fold(from, f64::max);
    let percent = if most > from { ((value - from) / (most - from) * 100.0).max(0.0) } else { 0.0 };
    format!("<span class=\"bar\" aria-hidden=\"true\"><i style=\"width:{percent:.1}%\"></i></span>")
}

/// How a run looks in figures.
pub(super) fn swatch(style: Style) -> String {
    let dashes: Vec<String> = style.dashes().iter().map(u8::to_string).collect();
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path d=\"M0 5H26\" stroke=\"var(--c{})\" \
         stroke-width=\"3\" stroke-dasharray=\"{}\"/></svg>",
        style.colour_index(),
        dashes.join(" ")
    )
}
