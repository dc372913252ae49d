//! The page of a stream of messages.

use std::fmt::Write as _;

use samara_lab::results::{MessagesData, Outcome};

use super::words::headline;
use super::{MessagesReport, Row, figures};
use crate::page::{self, inline, text};
use crate::terminal::number;
use crate::words::{fixed, percent, short_ms};

/// Links of a run whose queues overflowed, at most so many of which are listed.
const LINKS_MAX: usize = 12;

pub(super) fn page(report: &MessagesReport) -> String {
    let mut body = String::new();
    times(report, &mut body);
    page::expectations(&report.about, &mut body);
    page::real_nodes(&report.about, &mut body);
    swept(report, &mut body);
    if report.axes.is_empty() {
        for series in report.series() {
            let name = if series.name.is_empty() { "Distributions" } else { series.name };
            let figures = figures::of_series(&series);
            if figures.is_empty() {
                continue;
            }
            let _ = write!(body, "<section><h2>{}</h2><div class=\"sweep\">", text(name));
            for (_, caption, svg) in figures {
                let _ = write!(
                    body,
                    "<figure class=\"static\">{}<figcaption>{}</figcaption></figure>",
                    inline(&svg),
                    text(caption)
                );
            }
            body.push_str("</div></section>");
        }
    }
    traffic(report, &mut body);
    overflows(report, &mut body);
    page::document(&report.about, &headline(report), &body, "")
}

fn swept(report: &MessagesReport, body: &mut String) {
    if report.axes.is_empty() {
        return;
    }
    body.push_str("<section><h2>Over the sweep</h2><div class=\"sweep\">");
    for (_, svg) in figures::sweeps(report) {
        let _ = write!(body, "<figure class=\"static\">{}</figure>", inline(&svg));
    }
    body.push_str("</div></section>");
}

/// The head of a table: run, the axes of a sweep, and columns of numbers.
fn head(report: &MessagesReport, columns: &[&str], body: &mut String) {
    body.push_str("<div class=\"scroll\"><table><thead><tr><th>Run</th>");
    for (_, label) in &report.axes {
        let _ = write!(body, "<th>{}</th>", text(label));
    }
    for column in columns {
        let _ = write!(body, "<th class=\"n\">{column}</th>");
    }
    body.push_str("</tr></thead><tbody>");
}

fn rows(report: &MessagesReport, columns: usize, body: &mut String, cells: impl Fn(&Row) -> Vec<String>) {
    let mut series = "";
    for row in &report.rows {
        if row.series != series {
            series = &row.series;
            let _ = write!(
                body,
                "<tr class=\"group\"><th colspan=\"{}\">{}</th></tr>",
                columns + 1 + report.axes.len(),
                text(series)
            );
        }
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&row.label));
        for value in &row.point {
            let _ = write!(body, "<td>{}</td>", text(value));
        }
        for cell in cells(row) {
            let _ = write!(body, "<td class=\"n\">{cell}</td>");
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></section>");
}

fn times(report: &MessagesReport, body: &mut String) {
    body.push_str(
        "<section><h2>Dissemination time</h2><p>From the publication of a message until the last node has it, over the messages \
         that reached every node; the others are counted as incomplete. The bound is what the graph allows: hops to the \
         farthest node, each with the least latency and the time of one frame. Hops are those of the last delivery.</p>",
    );
    let columns = [
        "Mean",
        "p50",
        "p99",
        "Max",
        "Bound",
        "Hops, mean",
        "Hops, most",
        "Incomplete",
        "Delivered",
        "Mean to one node",
    ];
    head(report, &columns, body);
    rows(report, columns.len(), body, |row| {
        let mean = if row.seeds > 1 && row.mean.is_finite() {
            format!("{} <small>± {}</small>", short_ms(row.mean), short_ms(row.confidence))
        } else {
            short_ms(row.mean)
        };
        let mut cells = vec![mean];
        cells.extend([row.p50, row.p99, row.max, row.bound].map(short_ms));
        cells.extend([
            fixed(row.hops, 2),
            number(row.hops_max),
            number(row.incomplete),
            close_to_one(row.delivery_ratio),
            short_ms(row.latency),
        ]);
        cells
    });
}

/// A share close to one keeps the digits that tell it from one.
fn close_to_one(share: f64) -> String {
    if share == 1.0 { "100 %".to_owned() } else { percent(share, 4) }
}

fn traffic(report: &MessagesReport, body: &mut String) {
    body.push_str(
        "<section><h2>What it cost</h2><p>Copies counts how often a node received a message that it got, the first copy included; \
         asked for are copies sent in answer to a request. Bytes are on the wire, of a node in the whole measurement; what is \
         neither needed payload nor duplicates is control, framing and acknowledgements. Intervals are between publications, \
         and between deliveries at a node.</p>",
    );
    let columns = [
        "Copies",
        "Asked for",
        "MB up per node",
        "Needed",
        "Duplicates",
        "Control",
        "Busiest uplink",
        "Sent again",
        "Queue drops",
        "Interval",
        "Inter-arrival",
        "p99",
    ];
    head(report, &columns, body);
    rows(report, columns.len(), body, |row| {
        let share = |share: f64| percent(share, 1);
        vec![
            fixed(row.copies, 2),
            number(row.answered),
            fixed(row.bytes_up / 1e6, 1),
            share(row.payload_share),
            share(row.duplicate_share),
            share(row.control_share),
            share(row.uplink),
            number(row.again),
            number(row.lost),
            short_ms(row.interval),
            short_ms(row.inter_arrival),
            short_ms(row.inter_arrival_p99),
        ]
    });
}

/// Where queues overflowed, by node and link.
fn overflows(report: &MessagesReport, body: &mut String) {
    let lossy: Vec<&Outcome<MessagesData>> =
        report.results.iter().filter(|result| !result.lost.is_empty()).collect();
    if lossy.is_empty() {
        return;
    }
    body.push_str(
        "<section><h2>Where queues overflowed</h2><p>Copies that found the queue of a link full, by the node that lost them and the \
         peer that they were for.</p><div class=\"scroll\"><table><thead><tr><th>Run</th><th class=\"n\">Nodes</th><th class=\"n\">Links</th>\
         <th class=\"n\">Copies</th><th>Links with most of them: node (its links) → peer, copies</th></tr></thead><tbody>",
    );
    for result in lossy {
        let mut links: Vec<(&(u32, u32), &u64)> = result.lost.iter().collect();
        links.sort_by_key(|(link, copies)| (std::cmp::Reverse(**copies), **link));
        let mut nodes: Vec<u32> = result.lost.keys().map(|(node, _)| *node).collect();
        nodes.dedup();
        let most: Vec<String> = links
            .iter()
            .take(LINKS_MAX)
            .map(|((node, peer), copies)| {
                let degree = result.degrees.get(*node as usize).copied().unwrap_or(0);
                format!("{node} ({degree}) → {peer}, {copies}")
            })
            .collect();
        let _ = write!(
            body,
            "<tr><th scope=\"row\">{}{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"wide\">{}{}</td></tr>",
            if result.series.is_empty() { String::new() } else { format!("{}: ", text(&result.series)) },
            text(&result.label),
            nodes.len(),
            links.len(),
            result.lost.values().sum::<u64>(),
            most.join("; "),
            if links.len() > LINKS_MAX { "; …" } else { "" }
        );
    }
    body.push_str("</tbody></table></div></section>");
}
