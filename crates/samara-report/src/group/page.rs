//! The page of broadcasts in a group.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use samara_lab::results::GatewayFigures;

use super::{COLUMNS, GroupReport, LEGEND, Row, Value, figures};
use crate::page::{self, text};
use crate::parts::{self, cell, table};
use crate::terminal::number;
use crate::words::{MISSING, fixed, percent, short_ms};

/// Kinds of bytes: heading and value.
const BYTES: [(&str, Value); 7] = [
    ("Content", |m| m.bytes.content),
    ("Headers", |m| m.bytes.headers),
    ("Credit", |m| m.bytes.credit),
    ("Heartbeats", |m| m.bytes.heartbeats),
    ("Views, repair", |m| m.bytes.views),
    ("Transport", |m| m.bytes.transport),
    ("All", |m| m.bytes.total),
];

/// Counters: heading and value.
const COUNTERS: [(&str, Value); 15] = [
    ("Broadcast", |m| m.messages as f64),
    ("Delivered", |m| m.deliveries as f64),
    ("Lost", |m| m.lost as f64),
    ("Twice", |m| m.duplicates as f64),
    ("Out of order", |m| m.order_violations as f64),
    ("Disagreements", |m| m.disagreements as f64),
    ("Garbled", |m| m.garbled as f64),
    ("Suspicions", |m| m.suspicions as f64),
    ("False ones", |m| m.false_suspicions as f64),
    ("Views", |m| m.views as f64),
    ("Passed on", |m| m.forwarded as f64),
    ("Sent again", |m| m.repaired as f64),
    ("Bytes/s when idle", |m| m.idle_bytes_per_s),
    ("Packets sent again", |m| m.retransmissions as f64),
    ("Queue full", |m| m.queue_drops as f64),
];

pub(super) fn page(report: &GroupReport) -> String {
    let mut body = String::new();
    let heading = if report.axes.is_empty() { "Side by side" } else { "Over the sweep" };
    if report.axes.is_empty() {
        throughput(report, &mut body);
        parts::drawings(heading, &figures::all(report), &mut body);
    } else {
        parts::drawings(heading, &figures::all(report), &mut body);
        throughput(report, &mut body);
    }
    gateways(report, &mut body);
    rounds(report, &mut body);
    page::known(&report.known, &mut body);
    page::expectations(&report.about, &mut body);
    bytes(report, &mut body);
    changes(report, &mut body);
    causes(report, &mut body);
    page::document(&report.about, &report.headline(), &body, "")
}

fn throughput(report: &GroupReport, body: &mut String) {
    let _ = write!(body, "<section><h2>Throughput and its bounds</h2><p>{}</p>", text(LEGEND));
    table(&report.axes, &report.rows, body, COLUMNS, Row::cells);
    body.push_str("</section>");
}

/// What passed the gateways of regions.
fn gateways(report: &GroupReport, body: &mut String) {
    if report.rows.iter().all(|row| row.first.metrics.gateways.is_none()) {
        return;
    }
    body.push_str(
        "<section><h2>Between regions</h2><p>Copies: how often a message left a region, in bytes with all headers; once for each of the others is the \
         least. Busy: of the time from the first message until the run was over, the busiest direction of any gateway. Dropped: packets, which TCP sends again. \
         Wait: the longest of a packet in a gateway.</p>",
    );
    table(&report.axes, &report.rows, body, ["Copies", "Busy", "Dropped", "Wait"], |row| {
        let shown = |value: fn(&GatewayFigures) -> f64, show: fn(f64) -> String| {
            let all = || row.metrics.iter().filter_map(|metrics| metrics.gateways.as_ref());
            let count = all().count() as f64;
            if count == 0.0 { MISSING.to_owned() } else { show(all().map(value).sum::<f64>() / count) }
        };
        vec![
            shown(|gateways| gateways.copies, |copies| fixed(copies, 2)),
            shown(|gateways| gateways.utilisation_max, |share| percent(share, 1)),
            shown(|gateways| gateways.drops as f64, number),
            shown(|gateways| gateways.wait_ms_max, short_ms),
        ]
    });
    body.push_str("</section>");
}

fn rounds(report: &GroupReport, body: &mut String) {
    if report.rows.iter().all(|row| row.first.metrics.rounds.is_none()) {
        return;
    }
    body.push_str(
        "<section><h2>Rounds</h2><p>With one sender: the time until everybody had everything, in times of a message or chunk on a link; and the \
         rounds of the schedule, in which a member sends one and receives one at a time.</p>",
    );
    table(&report.axes, &report.rows, body, ["Rounds", "Of the schedule"], |row| {
        let shown = |value: Value| number(row.mean(value));
        vec![
            shown(|m| m.rounds.unwrap_or(f64::NAN)),
            shown(|m| m.rounds_of_schedule.map_or(f64::NAN, |rounds| rounds as f64)),
        ]
    });
    body.push_str("</section>");
}

fn bytes(report: &GroupReport, body: &mut String) {
    body.push_str(
        "<section><h2>What bytes are</h2><p>Bytes that a member received, for each message of another one that it delivered. Transport: headers \
         of packets, acknowledgements, and what was sent again.</p>",
    );
    table(&report.axes, &report.rows, body, BYTES.map(|(heading, _)| heading), |row| {
        BYTES.iter().map(|(_, value)| fixed(row.mean(*value), 1)).collect()
    });
    body.push_str("</section>");
}

fn changes(report: &GroupReport, body: &mut String) {
    body.push_str(
        "<section><h2>What was counted</h2><p>Lost: messages of members that stay or leave, and members that stay and did not get them, by pair. \
         Disagreements: messages of failed members that some of those who stay have and others lack.</p>",
    );
    let headings = COUNTERS.map(|(heading, _)| heading).into_iter().chain(["Frozen, most"]);
    table(&report.axes, &report.rows, body, headings, |row| {
        let mut cells: Vec<String> = COUNTERS.iter().map(|(_, value)| number(row.mean(*value))).collect();
        cells.push(short_ms(row.mean(|m| m.frozen_ms)));
        cells
    });
    body.push_str("</section>");
}

/// Everything that was ignored, by cause.
fn causes(report: &GroupReport, body: &mut String) {
    let mut lines = String::new();
    for row in &report.rows {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for metrics in &row.metrics {
            metrics.ignored.iter().for_each(|(cause, count)| *all.entry(cause).or_default() += count);
        }
        for (cause, count) in all {
            let _ = write!(lines, "<tr><th scope=\"row\">{}</th>", text(&row.label));
            row.point.iter().for_each(|value| cell("<td>", value, "</td>", &mut lines));
            let cause = text(&cause.replace('_', " "));
            let _ = write!(lines, "<td>{cause}</td><td class=\"n\">{}</td></tr>", number(count as f64));
        }
    }
    if lines.is_empty() {
        return;
    }
    body.push_str("<section><h2>What was ignored</h2><details><summary>By run and cause</summary><div class=\"scroll\"><table><thead><tr><th>Run</th>");
    report.axes.iter().for_each(|(_, label)| cell("<th>", label, "</th>", body));
    let _ = write!(
        body,
        "<th>Cause</th><th class=\"n\">Times</th></tr></thead><tbody>{lines}</tbody></table></div></details></section>"
    );
}
