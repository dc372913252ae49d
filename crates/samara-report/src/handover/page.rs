//! The page of batches that one node hands to another.

use std::fmt::Write as _;

use super::{COLUMNS, HandoverReport, LEGEND, Row, bars, words};
use crate::page::{self, text};
use crate::parts;

pub(super) fn page(report: &HandoverReport) -> String {
    let mut body = String::new();
    parts::drawings("What a batch waits for", &bars::all(report), &mut body);
    let _ = write!(body, "<section><h2>All runs</h2><p>{}</p>", text(LEGEND));
    parts::table(&report.axes, &report.rows, &mut body, COLUMNS, Row::cells);
    body.push_str("</section>");
    page::known(&report.known, &mut body);
    page::expectations(&report.about, &mut body);
    explanations(report, &mut body);
    page::document(&report.about, &words::headline(report), &body, "")
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
