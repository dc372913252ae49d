//! The page of teams that mix batches.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{COLUMNS, LEGEND, RelayReport, Row, Value, figures, words};
use crate::page::{self, text};
use crate::parts::{self, cell};
use crate::terminal::number;
use crate::words::{percent, short_ms};

/// Counters: heading and value.
const COUNTERS: [(&str, Value); 11] = [
    ("Rounds", |m| m.rounds as f64),
    ("Completed", |m| m.completed as f64),
    ("Failed", |m| m.failed as f64),
    ("With nothing wrong", |m| m.failed_unharmed as f64),
    ("Without an end", |m| m.unresolved as f64),
    ("Payloads wrong", |m| m.wrong as f64),
    ("Orders differ", |m| m.disagreements as f64),
    ("Not mixed", |m| m.unmixed as f64),
    ("Teams drawn", |m| m.draws as f64),
    ("Pieces sent again", |m| m.resent_frames as f64),
    ("Packets sent again", |m| m.retransmissions as f64),
];

pub(super) fn page(report: &RelayReport) -> String {
    let mut body = String::new();
    for section in figures::all(report) {
        parts::drawings(&text(&section.heading), &section.figures, &mut body);
    }
    throughput(report, &mut body);
    limits(report, &mut body);
    precomputation(report, &mut body);
    page::known(&report.known, &mut body);
    page::expectations(&report.about, &mut body);
    counted(report, &mut body);
    causes(report, &mut body);
    costs(report, &mut body);
    page::document(&report.about, &words::headline(report), &body, "")
}

fn throughput(report: &RelayReport, body: &mut String) {
    let _ = write!(body, "<section><h2>Throughput and its bounds</h2><p>{}</p>", text(LEGEND));
    table(report, COLUMNS, body, Row::cells);
    body.push_str("</section>");
}

fn limits(report: &RelayReport, body: &mut String) {
    if !report.axes.is_empty() {
        return;
    }
    body.push_str("<section><h2>What limits</h2><dl>");
    for row in &report.rows {
        let _ = write!(body, "<dt>{}</dt><dd>{}", text(&row.label), text(&words::limit(row)));
        if !row.first.description.is_empty() {
            let _ = write!(body, " {}", page::prose(&row.first.description));
        }
        body.push_str("</dd>");
    }
    body.push_str("</dl></section>");
}

fn precomputation(report: &RelayReport, body: &mut String) {
    body.push_str(
        "<section><h2>Precomputation</h2><p>Slots a second that were precomputed in the steady state, with nothing else to do, and as a share of what the busiest \
         processor or uplink allows. Every slot needs both halves: for ever, the pool could do no more than in the last column.</p>",
    );
    table(report, ["Slots/s", "Of its bound", "For ever at most"], body, |row| {
        vec![
            number(row.mean(|m| m.precomputation_slots_per_s.unwrap_or(f64::NAN))),
            percent(row.mean(|m| m.precomputation_share_of_bound.unwrap_or(f64::NAN)), 0),
            number(row.mean(|m| m.sustained_bound_slots_per_s)),
        ]
    });
    body.push_str("</section>");
}

fn counted(report: &RelayReport, body: &mut String) {
    body.push_str(
        "<section><h2>What was counted</h2><p>With nothing wrong: failed rounds whose nodes no fault hit. Without an end: rounds, or nodes of them, that \
         never said how it ended; nodes that a fault hit are excused.</p>",
    );
    let headings =
        COUNTERS.map(|(heading, _)| heading).into_iter().chain(["Latency, p95", "Most", "Gap of all teams"]);
    table(report, headings, body, |row| {
        let mut cells: Vec<String> = COUNTERS.iter().map(|(_, value)| number(row.mean(*value))).collect();
        cells.push(short_ms(row.latency(|s| s.p95)));
        cells.push(short_ms(row.latency(|s| s.max)));
        cells.push(short_ms(row.mean(|m| m.service_gap_ms)));
        cells
    });
    body.push_str("</section>");
}

/// Failures and everything that was ignored, by cause.
fn causes(report: &RelayReport, body: &mut String) {
    let mut lines = String::new();
    for row in &report.rows {
        let mut all: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for metrics in &row.metrics {
            let failed =
                metrics.failed_by_cause.iter().map(|(cause, count)| (("rounds that failed", *cause), *count));
            let ignored = metrics.ignored.iter().map(|(cause, count)| (("ignored", *cause), *count));
            failed.chain(ignored).for_each(|(cause, count)| *all.entry(cause).or_default() += count);
        }
        for ((what, cause), count) in all {
            let _ = write!(lines, "<tr><th scope=\"row\">{}</th>", text(&row.label));
            row.point.iter().for_each(|value| cell("<td>", value, "</td>", &mut lines));
            let cause = text(&cause.replace('_', " "));
            let _ = write!(
                lines,
                "<td>{what}</td><td>{cause}</td><td class=\"n\">{}</td></tr>",
                number(count as f64)
            );
        }
    }
    if lines.is_empty() {
        return;
    }
    body.push_str("<section><h2>Causes</h2><details><summary>What failed or was ignored, by run and cause</summary><div class=\"scroll\"><table><thead><tr><th>Run</th>");
    report.axes.iter().for_each(|(_, label)| cell("<th>", label, "</th>", body));
    let _ = write!(
        body,
        "<th>What</th><th>Cause</th><th class=\"n\">Times</th></tr></thead><tbody>{lines}</tbody></table></div></details></section>"
    );
}

/// What work took.
fn costs(report: &RelayReport, body: &mut String) {
    let Some(first) = report.rows.first() else { return };
    let names: Vec<&'static str> = first.first.metrics.cost_us.keys().copied().collect();
    body.push_str(
        "<section><h2>What work took</h2><p>Microseconds on one core: of a slot, but drawing the secrets of a round (generate) and raising a part of its key (share).</p>",
    );
    let headings: Vec<String> = names.iter().map(|name| name.replace('_', " ")).collect();
    table(report, headings.iter().map(String::as_str), body, |row| {
        let cost =
            |name: &&str| row.first.metrics.cost_us.get(name).map_or_else(String::new, |us| number(*us));
        names.iter().map(cost).collect()
    });
    body.push_str("</section>");
}

fn table<'a>(
    report: &RelayReport,
    headings: impl IntoIterator<Item = &'a str>,
    body: &mut String,
    cells: impl Fn(&Row) -> Vec<String>,
) {
    parts::table(&report.axes, &report.rows, body, headings, cells);
}
