//! `samara compare`.

use std::path::Path;
use std::process::ExitCode;

use samara_report::terminal;
use serde_json::Value;

/// The metrics that are set side by side: path, and whether less is better.
const METRICS: [(&str, &str); 17] = [
    ("time_to_custody_ms.mean", "mean ms"),
    ("time_to_custody_ms.p95", "p95 ms"),
    ("time_to_custody_ms.max", "max ms"),
    ("dissemination_ms.mean", "dissemination ms"),
    ("dissemination_ms.p99", "p99 ms"),
    ("delivery_latency_ms.p50", "delivery p50 ms"),
    ("delivery_latency_ms.p95", "delivery p95 ms"),
    ("last_delivery_hop.mean", "hops"),
    ("incomplete", "incomplete"),
    ("delivery_ratio", "delivered"),
    ("delivered_share", "delivered"),
    ("duplication_factor", "copies"),
    ("seen_tx", "announced"),
    ("want_tx", "requested"),
    ("bytes_up_per_node", "bytes up"),
    ("retransmissions", "sent again"),
    ("queue_drops", "queue drops"),
];

pub(crate) fn compare(a: &Path, b: &Path) -> Result<ExitCode, String> {
    let (first, second) = (read(a)?, read(b)?);
    let runs = |summary: &Value| summary["runs"].as_array().cloned().unwrap_or_default();
    let key = |run: &Value| {
        let mut parameters = run["parameters"].clone();
        // Two directories may well differ in these.
        if let Some(parameters) = parameters.as_object_mut() {
            parameters.remove("seed");
        }
        format!("{} {parameters}", run["name"])
    };
    let mut rows = Vec::new();
    let mut unmatched = Vec::new();
    let others = runs(&second);
    for run in runs(&first) {
        let Some(other) = others.iter().find(|other| key(other) == key(&run)) else {
            unmatched.push(run["name"].as_str().unwrap_or_default().to_owned());
            continue;
        };
        for (path, label) in METRICS {
            let value =
                |run: &Value| path.split('.').fold(&run["metrics"], |value, part| &value[part]).as_f64();
            if let (Some(a), Some(b)) = (value(&run), value(other)) {
                let change =
                    if a == 0.0 { String::new() } else { format!("{:+.1} %", (b / a - 1.0) * 100.0) };
                rows.push([
                    run["name"].as_str().unwrap_or_default().to_owned(),
                    label.to_owned(),
                    terminal::number(a),
                    terminal::number(b),
                    change,
                ]);
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("{} and {} have no run in common", a.display(), b.display()));
    }
    let same = first["digest"] == second["digest"];
    let mut text = terminal::plain_table(
        ["run", "metric", &a.display().to_string(), &b.display().to_string(), "change"],
        &rows,
    );
    text += if same { "the digests are equal: the runs are identical\n" } else { "the digests differ\n" };
    crate::print(&text)?;
    if !unmatched.is_empty() {
        eprintln!("samara: only in {}: {}", a.display(), unmatched.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(directory: &Path) -> Result<Value, String> {
    let path = directory.join("summary.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("{}: {error}; expected a results directory of samara run", path.display())
    })?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
