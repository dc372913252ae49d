//! The page of transactions and their pools.

use std::fmt::Write as _;

use super::{COLUMNS, LEGEND, TransactionsReport};
use crate::page::{self, text};
use crate::terminal::number;

pub(super) fn page(report: &TransactionsReport) -> String {
    let mut body = format!("<section><h2>Runs</h2><p>{}</p>", text(LEGEND));
    let headings = report.axes.iter().map(|(_, label)| label.as_str()).chain(COLUMNS);
    table("Run", headings, &mut body);
    for row in &report.rows {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&row.label));
        cells(row.point.iter().chain(&row.cells), &mut body);
    }
    body.push_str("</tbody></table></div></section>");
    known(report, &mut body);
    page::expectations(&report.about, &mut body);
    page::document(&report.about, &report.headline(), &body, "")
}

fn known(report: &TransactionsReport, body: &mut String) {
    if report.known.is_empty() {
        return;
    }
    body.push_str("<section><h2>Beside figures of others</h2>");
    table("Source", ["Run", "Metric", "Theirs", "Ours", "Difference"], body);
    for figure in &report.known {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&figure.source));
        let difference = format!("{:+.1} %", figure.deviation() * 100.0);
        let (theirs, ours) = (number(figure.known), number(figure.ours));
        cells([&figure.run, &figure.metric, &theirs, &ours, &difference], body);
    }
    body.push_str("</tbody></table></div></section>");
}

fn table<'a>(first: &str, headings: impl IntoIterator<Item = &'a str>, body: &mut String) {
    let _ = write!(body, "<div class=\"scroll\"><table><thead><tr><th>{first}</th>");
    for heading in headings {
        let _ = write!(body, "<th class=\"n\">{}</th>", text(heading));
    }
    body.push_str("</tr></thead><tbody>");
}

fn cells<'a>(cells: impl IntoIterator<Item = &'a String>, body: &mut String) {
    for cell in cells {
        let _ = write!(body, "<td class=\"n\">{}</td>", text(cell));
    }
    body.push_str("</tr>");
}
