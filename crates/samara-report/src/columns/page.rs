//! The page of blocks of columns.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use samara_lab::results::{ColumnsData, Outcome};
use serde::Serialize;

use super::figures::{all, first_seeds};
use super::words::headline;
use super::{ColumnsReport, Row};
use crate::draw::COLOURS;
use crate::page::{self, inline, text};
use crate::terminal::number;
use crate::words::{fixed, ms, signed_percent};

/// So many curves at most are drawn for nodes; of more, every so manieth is taken.
const NODE_CURVES_MAX: usize = 1000;

/// The time of a column that never came, in the packed form.
const NEVER: u32 = 0x00ff_ffff;

/// Deliveries of a run's first slot, packed for the page.
#[derive(Serialize)]
struct Panel {
    run: String,
    label: String,
    description: String,
    /// Of its line where runs are compared.
    colour: &'static str,
    /// Columns of a block.
    columns: u32,
    /// Nodes, and the step between those that are there.
    nodes: usize,
    every: usize,
    /// The nodes, and how many records each has.
    node: Vec<(u32, u32)>,
    /// Base64 of records, node by node: column (u16) and time in quarters of a millisecond (u24; all ones if never), both
    /// little-endian.
    data: String,
    /// The last arrival in milliseconds.
    last_ms: f64,
}

/// The page.
pub(crate) fn page(report: &ColumnsReport) -> String {
    let mut body = String::new();
    if !report.axes.is_empty() {
        sweep(report, &mut body);
    }
    comparison(report, &mut body);
    references(report, &mut body);
    page::expectations(&report.about, &mut body);
    page::real_nodes(&report.about, &mut body);
    let panels: Vec<Panel> = if report.axes.is_empty() {
        first_seeds(&report.results).iter().enumerate().map(|(i, result)| panel(i, result)).collect()
    } else {
        Vec::new()
    };
    if !panels.is_empty() {
        curves(&panels, &mut body);
    }
    traffic(report, &mut body);
    let data = serde_json::to_string(&panels).unwrap_or_default().replace('<', "\\u003c");
    let script = format!(
        "<script type=\"application/json\" id=\"panels\">{data}</script><script>{}</script>",
        include_str!("curves.js")
    );
    page::document(&report.about, &headline(report), &body, &script)
}

fn sweep(report: &ColumnsReport, body: &mut String) {
    let seeds = report.rows.iter().map(|row| row.seeds).max().unwrap_or(1);
    let intervals = if seeds > 1 {
        format!(" Means over {seeds} seeds, with 95 % confidence intervals.")
    } else {
        String::new()
    };
    let _ = write!(body, "<section><h2>Over the sweep</h2><p>{intervals}</p><div class=\"sweep\">");
    for (_, svg) in all(report) {
        let _ = write!(body, "<figure class=\"static\">{}</figure>", inline(&svg));
    }
    body.push_str("</div></section>");
}

fn comparison(report: &ColumnsReport, body: &mut String) {
    body.push_str("<section><h2>Time to custody</h2><p>From the publication until a node has all its columns. The bound is \
                   what no schedule can beat on average over all nodes: one copy of every column through the publisher's uplink, the last of a \
                   node's columns, and the fastest possible spread.</p><div class=\"scroll\"><table><thead><tr><th>Run</th>");
    for (_, label) in &report.axes {
        let _ = write!(body, "<th>{}</th>", text(label));
    }
    body.push_str("<th class=\"bars\">Mean, bound (line), and 95th percentile (thin)</th><th class=\"n\">Mean</th><th class=\"n\">p50</th>\
                   <th class=\"n\">p95</th><th class=\"n\">p99</th><th class=\"n\">Max</th><th class=\"n\">× bound</th><th class=\"n\">Incomplete</th></tr></thead><tbody>");
    let ends = |row: &Row| [row.mean, row.p95, row.bound];
    let top = report.rows.iter().flat_map(ends).filter(|ms| ms.is_finite()).fold(1.0, f64::max);
    for row in &report.rows {
        let class = if report.is_best(row) { " class=\"best\"" } else { "" };
        let _ = write!(body, "<tr{class}><th scope=\"row\">{}</th>", text(&row.label));
        for value in &row.point {
            let _ = write!(body, "<td>{}</td>", text(value));
        }
        let _ = write!(body, "<td class=\"bars\">{}</td>", bar(row, top));
        let mean = if row.seeds > 1 && row.mean.is_finite() {
            format!("{} <small>± {}</small>", ms(row.mean), ms(row.confidence))
        } else {
            ms(row.mean)
        };
        let _ = write!(body, "<td class=\"n\">{mean}</td>");
        for value in [row.p50, row.p95, row.p99, row.max] {
            let _ = write!(body, "<td class=\"n\">{}</td>", ms(value));
        }
        let _ = write!(
            body,
            "<td class=\"n strong\">{}</td><td class=\"n\">{}</td></tr>",
            fixed(row.over_bound(), 2),
            number(row.incomplete)
        );
    }
    body.push_str("</tbody></table></div></section>");
}

fn bar(row: &Row, top: f64) -> String {
    let percent = |value: f64| if value.is_finite() { (value / top * 100.0).clamp(0.0, 100.0) } else { 0.0 };
    format!(
        "<span class=\"bar\" role=\"img\" aria-label=\"mean {}, bound {}\"><i class=\"p95\" style=\"width:{:.2}%\"></i>\
         <i class=\"mean\" style=\"width:{:.2}%\"></i><i class=\"bound\" style=\"left:{:.2}%\"></i></span>",
        ms(row.mean),
        ms(row.bound),
        percent(row.p95),
        percent(row.mean),
        percent(row.bound)
    )
}

fn references(report: &ColumnsReport, body: &mut String) {
    if report.comparisons.is_empty() {
        return;
    }
    body.push_str("<section><h2>Beside what was measured</h2><div class=\"scroll\"><table><thead><tr><th>Run</th><th></th><th class=\"n\">Runs</th>\
                   <th class=\"n\">Mean</th><th class=\"n\">p50</th><th class=\"n\">p95</th><th class=\"n\">Max</th><th class=\"n\">Copies</th></tr></thead><tbody>");
    for comparison in &report.comparisons {
        for (side, statistics, copies, runs) in [
            ("measured", &comparison.reference_ms, comparison.copies.1, comparison.runs.1),
            ("simulated", &comparison.ours_ms, comparison.copies.0, comparison.runs.0),
        ] {
            let _ = write!(
                body,
                "<tr><th scope=\"row\">{}</th><td>{side}</td><td class=\"n\">{runs}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                text(&comparison.label),
                ms(statistics.mean),
                ms(statistics.p50),
                ms(statistics.p95),
                ms(statistics.max),
                fixed(copies, 2)
            );
        }
        let _ = write!(
            body,
            "<tr class=\"difference\"><th></th><td>difference</td><td></td><td class=\"n\">{}</td><td></td><td class=\"n\">{}</td><td></td><td></td></tr>",
            signed_percent(comparison.mean_deviation()),
            signed_percent(comparison.p95_deviation())
        );
    }
    body.push_str("</tbody></table></div></section>");
}

fn panel(index: usize, result: &Outcome<ColumnsData>) -> Panel {
    let mut hosts: Vec<u32> = result.deliveries.iter().map(|delivery| delivery.host).collect();
    hosts.dedup();
    let every = hosts.len().div_ceil(NODE_CURVES_MAX).max(1);
    let kept: std::collections::BTreeSet<u32> = hosts.iter().copied().step_by(every).collect();
    let mut bytes = Vec::new();
    let mut node: Vec<(u32, u32)> = Vec::new();
    let mut last = 0.0_f64;
    for delivery in
        result.deliveries.iter().filter(|delivery| delivery.slot == 0 && kept.contains(&delivery.host))
    {
        let quarters = if delivery.delivered() {
            let nanos = delivery.at - result.published[0];
            last = last.max(nanos as f64 / 1e6);
            (nanos / 250_000).min(u64::from(NEVER - 1)) as u32
        } else {
            NEVER
        };
        match node.last_mut() {
            Some((host, count)) if *host == delivery.host => *count += 1,
            _ => node.push((delivery.host, 1)),
        }
        bytes.extend((delivery.column as u16).to_le_bytes());
        bytes.extend(&quarters.to_le_bytes()[..3]);
    }
    Panel {
        run: result.run.name.clone(),
        label: result.label.clone(),
        description: result.description.clone(),
        colour: COLOURS[index % COLOURS.len()],
        columns: result.columns,
        nodes: kept.len(),
        every,
        node,
        data: STANDARD.encode(bytes),
        last_ms: last,
    }
}

fn curves(panels: &[Panel], body: &mut String) {
    body.push_str(
        "<section id=\"curves\"><h2>When nodes are done</h2>\
         <p>The share of nodes that have all their columns, for each run. Move over a curve to see which it is; click to keep it. \
         With the keyboard: arrows, Enter and Escape.</p><div class=\"controls\"><label><input type=\"checkbox\" id=\"same\" checked> same time scale</label> \
         <label>column <input type=\"number\" id=\"column\" min=\"0\"></label> <label>node <input type=\"number\" id=\"node\" min=\"0\"></label> \
         <button id=\"clear\" type=\"button\">clear</button> <output id=\"told\" aria-live=\"polite\"></output></div>\
         <canvas data-kind=\"runs\" tabindex=\"0\" role=\"img\" aria-label=\"a curve for each run\"></canvas><ul class=\"key\">",
    );
    for panel in panels {
        let _ = write!(body, "<li><i style=\"background:{}\"></i>{}</li>", panel.colour, text(&panel.label));
    }
    body.push_str(
        "</ul><h2>How columns spread, and how custody fills</h2><p>Left, a curve for each column: the share of its subscribers that \
         have it. Right, a curve for each node: the share of its columns that it has. In the first slot, with the first seed.</p>\
         <ul class=\"key\"><li><i class=\"rank\"></i>first to be complete … last</li><li><i class=\"middle\"></i>median</li>\
         <li><i class=\"range\"></i>5 % and 95 %</li></ul>",
    );
    for (i, panel) in panels.iter().enumerate() {
        let sample =
            if panel.every > 1 { format!(" One node in {} is drawn.", panel.every) } else { String::new() };
        let _ = write!(
            body,
            "<article class=\"pair\"><h3>{}</h3><p>{}{sample}</p><div class=\"panels\">",
            text(&panel.label),
            text(&panel.description)
        );
        for (kind, caption, count, each) in [
            ("columns", "Columns: share of their subscribers", panel.columns as usize, "column"),
            ("nodes", "Nodes: share of their columns", panel.nodes, "node"),
        ] {
            let _ = write!(
                body,
                "<figure><figcaption>{caption}</figcaption><canvas data-panel=\"{i}\" data-kind=\"{kind}\" tabindex=\"0\" role=\"img\" \
                 aria-label=\"{}: {count} curves, one for each {each}\"></canvas></figure>",
                text(&panel.label)
            );
        }
        body.push_str("</div></article>");
    }
    body.push_str("<noscript><p>The curves are drawn by a script; the same figures are in the folder figures beside this file, as SVG and PNG.</p></noscript></section>");
}

fn traffic(report: &ColumnsReport, body: &mut String) {
    body.push_str(
        "<section><h2>What it cost</h2><p>Copies counts how often a node received a column that it got, the first copy included. \
         Bytes are on the wire.</p><div class=\"scroll\"><table><thead><tr><th>Run</th>",
    );
    for (_, label) in &report.axes {
        let _ = write!(body, "<th>{}</th>", text(label));
    }
    body.push_str("<th class=\"n\">Copies</th><th class=\"n\">MB up per node</th><th class=\"n\">Withdrawn copies</th><th class=\"n\">Sent again</th><th class=\"n\">Queue drops</th></tr></thead><tbody>");
    for row in &report.rows {
        let _ = write!(body, "<tr><th scope=\"row\">{}</th>", text(&row.label));
        for value in &row.point {
            let _ = write!(body, "<td>{}</td>", text(value));
        }
        let counts = [row.withdrawn, row.retransmissions, row.queue_drops].map(|count| fixed(count, 0));
        for cell in [fixed(row.copies, 2), fixed(row.bytes_up / 1e6, 2)].iter().chain(&counts) {
            let _ = write!(body, "<td class=\"n\">{cell}</td>");
        }
        body.push_str("</tr>");
    }
    body.push_str("</tbody></table></div></section>");
}
