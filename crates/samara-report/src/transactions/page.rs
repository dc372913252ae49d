//! The page of transactions and their pools.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use samara_lab::results::TransactionMetrics;

use super::compare::{BYTES, races};
use super::{COLUMNS, LEGEND, TransactionsReport, Value, figures, words};
use crate::page::{self, text};
use crate::parts::{self, cell, table};
use crate::terminal::number;
use crate::words::{grouped, percent, short_ms};

/// Counters: heading and value.
type Counter = (&'static str, Value);

/// What pools and their peers sent each other.
const SENT: [Counter; 9] = [
    ("Submitted", |m| m.transactions as f64),
    ("SuccessfulTxs", |m| m.successful_txs as f64),
    ("AlreadySeenTxs", |m| m.already_seen_txs as f64),
    ("RequestedTxs", |m| m.requested_txs as f64),
    ("RerequestedTxs", |m| m.rerequested_txs as f64),
    ("Timed out", |m| m.timeouts as f64),
    ("Nobody to ask", |m| m.lost_txs as f64),
    ("Not found", |m| m.not_found as f64),
    ("Taken back", |m| m.withdrawn_bodies as f64),
];

/// What pools kept, and what they did not.
const KEPT: [Counter; 7] = [
    ("Queue full", |m| m.queue_drops as f64),
    ("Evicted", |m| m.evicted_txs as f64),
    ("Expired", |m| m.expired_txs as f64),
    ("Rejected", |m| m.rejected_txs as f64),
    ("Keys of a node, most", |m| m.keys_max as f64),
    ("Requests of a node, most", |m| m.requests_max as f64),
    ("In a pool, most", |m| m.pool_txs_max as f64),
];

/// A kind of causes: heading and counts by cause.
type Causes = (&'static str, fn(&TransactionMetrics) -> &BTreeMap<&'static str, u64>);

const CAUSES: [Causes; 3] =
    [("not taken", |m| &m.refused), ("ignored", |m| &m.ignored), ("broken rules", |m| &m.misbehaviour)];

pub(super) fn page(report: &TransactionsReport) -> String {
    let mut body = String::new();
    let heading = if report.axes.is_empty() { "Side by side" } else { "Over the sweep" };
    if report.axes.is_empty() {
        costs(report, &mut body);
        parts::drawings(heading, &figures::all(report), &mut body);
    } else {
        parts::drawings(heading, &figures::all(report), &mut body);
        turns(report, &mut body);
        costs(report, &mut body);
    }
    page::known(&report.known, &mut body);
    page::expectations(&report.about, &mut body);
    blocks(report, &mut body);
    counters(report, &mut body);
    causes(report, &mut body);
    page::document(&report.about, &report.headline(), &body, "")
}

fn costs(report: &TransactionsReport, body: &mut String) {
    let _ = write!(body, "<section><h2>What each pool costs</h2><p>{}</p>", text(LEGEND));
    table(&report.axes, &report.rows, body, COLUMNS, |row| row.cells.clone());
    body.push_str("</section>");
}

/// Where over a sweep each run needs fewer bytes than the first.
fn turns(report: &TransactionsReport, body: &mut String) {
    let [(_, axis)] = report.axes.as_slice() else { return };
    let (swept, xs) = words::swept(report);
    let [connections, wire] = BYTES.map(|(_, value)| races(report, &swept, &xs, value));
    if connections.is_empty() || connections.len() != wire.len() {
        return;
    }
    let _ = write!(
        body,
        "<section><h2>Where the trade turns</h2><p>Over {}: where a run needs fewer bytes for each node and transaction than \"{}\", announcements \
         and all else included; between measured points as on the lines of the figures.</p><div class=\"scroll\"><table><thead><tr><th>Run</th>",
        text(axis),
        text(&report.rows[0].label)
    );
    BYTES.iter().for_each(|(name, _)| cell("<th>", name, "</th>", body));
    body.push_str("</tr></thead><tbody>");
    for (connections, wire) in connections.iter().zip(&wire) {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&connections.row.label));
        for race in [connections, wire] {
            cell("<td>", &words::verdict(race, &swept), "</td>", body);
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></section>");
}

fn blocks(report: &TransactionsReport, body: &mut String) {
    if report.rows.iter().all(|row| row.mean(&|m| m.blocks as f64) == 0.0) {
        return;
    }
    let compact = report.rows.iter().any(|row| row.mean(&|m| m.compact_block_hit_rate.unwrap_or(0.0)) > 0.0);
    body.push_str("<section><h2>Blocks</h2>");
    let mut headings = vec!["Blocks", "Transactions of a block", "Until inclusion, mean", "p99"];
    if compact {
        headings.extend(["Compact: hit rate", "Until all is there, p50", "p99", "Given up"]);
    }
    table(&report.axes, &report.rows, body, headings, |row| {
        let mut cells = vec![
            number(row.mean(&|m| m.blocks as f64)),
            number(row.mean(&|m| m.block_txs.as_ref().map_or(f64::NAN, |s| s.mean))),
            short_ms(row.mean(&|m| m.time_to_inclusion_ms.as_ref().map_or(f64::NAN, |s| s.mean))),
            short_ms(row.mean(&|m| m.time_to_inclusion_ms.as_ref().map_or(f64::NAN, |s| s.p99))),
        ];
        if compact {
            let rate = row.mean(&|m| m.compact_block_hit_rate.unwrap_or(f64::NAN));
            cells.push(percent(rate, 2));
            cells.push(short_ms(row.mean(&|m| m.compact_block_ms.as_ref().map_or(f64::NAN, |s| s.p50))));
            cells.push(short_ms(row.mean(&|m| m.compact_block_ms.as_ref().map_or(f64::NAN, |s| s.p99))));
            cells.push(number(row.mean(&|m| m.compact_blocks_given_up as f64)));
        }
        cells
    });
    body.push_str("</section>");
}

fn counters(report: &TransactionsReport, body: &mut String) {
    body.push_str(
        "<section><h2>What was counted</h2><p>Over all honest nodes, in the words of the pools' own metrics. The most keys and \
         requests that a node remembered, and the most transactions of a pool, were looked at before each block.</p>",
    );
    for counters in [&SENT[..], &KEPT[..]] {
        table(&report.axes, &report.rows, body, counters.iter().map(|(heading, _)| *heading), |row| {
            counters.iter().map(|(_, value)| count(row.mean(value))).collect()
        });
    }
    body.push_str("</section>");
}

/// A number of things; of several seeds, the mean.
fn count(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value) } else { number(value) }
}

/// Everything that was turned away, by cause.
fn causes(report: &TransactionsReport, body: &mut String) {
    let mut lines = String::new();
    for row in &report.rows {
        for (kind, counts) in CAUSES {
            let mut all: BTreeMap<&str, u64> = BTreeMap::new();
            for metrics in &row.metrics {
                counts(metrics).iter().for_each(|(cause, count)| *all.entry(cause).or_default() += count);
            }
            for (cause, count) in all {
                let _ = write!(lines, "<tr><th scope=\"row\">{}</th>", text(&row.label));
                row.point.iter().for_each(|value| cell("<td>", value, "</td>", &mut lines));
                let _ = write!(
                    lines,
                    "<td>{kind}</td><td>{}</td><td class=\"n\">{}</td></tr>",
                    text(&cause.replace('_', " ")),
                    grouped(count as f64)
                );
            }
        }
    }
    if lines.is_empty() {
        return;
    }
    body.push_str("<section><h2>What was turned away</h2><details><summary>By run and cause</summary><div class=\"scroll\"><table><thead><tr><th>Run</th>");
    report.axes.iter().for_each(|(_, label)| cell("<th>", label, "</th>", body));
    let _ = write!(
        body,
        "<th>What</th><th>Cause</th><th class=\"n\">Times</th></tr></thead><tbody>{lines}</tbody></table></div></details></section>"
    );
}
