//! The page of batches that one node hands to another.

use std::fmt::Write as _;

use super::{COLUMNS, HandoverReport, LEGEND, bars, words};
use crate::page::{self, inline, text};

pub(super) fn page(report: &HandoverReport) -> String {
    let mut body = String::new();
    drawings(report, &mut body);
    table(report, &mut body);
    page::known(&report.known, &mut body);
    page::expectations(&report.about, &mut body);
    explanations(report, &mut body);
    page::document(&report.about, &words::headline(report), &body, "")
}

fn drawings(report: &HandoverReport, body: &mut String) {
    body.push_str("<section><h2>What a batch waits for</h2><div class=\"sweep\">");
    for figure in bars::all(report) {
        let _ = write!(
            body,
            "<figure class=\"static\">{}<figcaption>{}</figcaption></figure>",
            inline(&figure.svg),
            text(&figure.caption)
        );
    }
    body.push_str("</div></section>");
}

fn table(report: &HandoverReport, body: &mut String) {
    let _ = write!(
        body,
        "<section><h2>All runs</h2><p>{}</p><div class=\"scroll\"><table><thead><tr><th>Run</th>",
        text(LEGEND)
    );
    let headings = report.axes.iter().map(|(_, label)| label.as_str()).chain(COLUMNS);
    headings.for_each(|heading| {
        let _ = write!(body, "<th class=\"n\">{}</th>", text(heading));
    });
    body.push_str("</tr></thead><tbody>");
    for row in &report.rows {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&row.label));
        for cell in row.point.iter().cloned().chain(row.cells()) {
            let _ = write!(body, "<td class=\"n\">{}</td>", text(&cell));
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></section>");
}

fn explanations(report: &HandoverReport, body: &mut String) {
    body.push_str("<section><h2>In words</h2><p>Each cause by how much sooner a batch would be there without it.</p><dl>");
    for row in &report.rows {
        let size = row.metrics.first().map_or(0, |metrics| metrics.payloads);
        let _ = write!(
            body,
            "<dt>{}</dt><dd>{}</dd>",
            text(
                &[vec![row.label.clone()], row.point.clone(), vec![format!("{size} payloads")]]
                    .concat()
                    .join(", ")
            ),
            text(&words::explanation(row))
        );
    }
    body.push_str("</dl></section>");
}
