//! The declarations of metrics, and their tables in `docs/results.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use samara_families::FAMILIES;
use samara_lab::metric::{Better, Metric, better, is_first, rank, unit};

#[test]
fn names_cover_the_paths_below_them() {
    samara_families::register();
    assert_eq!(better("time_to_custody_ms.p95"), Some(Better::Less));
    assert_eq!(better("packet_drops.random"), Some(Better::Less));
    assert_eq!(better("slots.0.incomplete"), Some(Better::Less));
    assert_eq!(better("throughput_mb_per_s"), Some(Better::More));
    for neither in
        ["mesh_size", "lower_bound_ms", "publish_interval_ms.mean", "slots.0.publisher_window_packets"]
    {
        assert_eq!(better(neither), None, "{neither}");
    }
    let units =
        ["time_to_custody_ms.p95", "slots.0.time_to_custody_ms.max", "delivery_ratio", "gain", "none"]
            .map(unit);
    assert_eq!(units, ["ms", "ms", "share", "", ""]);
    assert!(rank("time_to_custody_ms.mean") < rank("queue_drops") && !is_first("mesh_size"));
    assert_eq!(rank("mesh_size"), rank("no_such_metric"));
}

#[test]
fn names_have_one_direction_and_a_meaning() {
    let mut known = BTreeMap::new();
    for metric in FAMILIES.iter().flat_map(|family| family.metrics) {
        let first = *known.entry(metric.name).or_insert(metric.better);
        assert_eq!(first, metric.better, "{}", metric.name);
        assert!(metric.meaning.trim().split(' ').count() > 1, "{}: {}", metric.name, metric.meaning);
    }
}

/// Returns the table of a family in `docs/results.md`.
fn table(metrics: &[Metric]) -> String {
    let mut text = "| metric | unit | better | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in metrics {
        let better = match metric.better {
            Some(Better::Less) => "less",
            Some(Better::More) => "more",
            None => "",
        };
        let headline = if metric.headlines.is_empty() { "" } else { " ★" };
        let (name, unit, meaning) = (metric.name, metric.unit, metric.meaning.trim());
        let _ = writeln!(text, "| `{name}`{headline} | {unit} | {better} | {meaning} |");
    }
    text
}

/// `SAMARA_UPDATE_DOCS=1 cargo test -p samara-families --test all metrics` writes the tables.
#[test]
fn documentation_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/results.md");
    let old = std::fs::read_to_string(path).expect("docs/results.md");
    let mut new = old.clone();
    for family in FAMILIES {
        let (begin, end) =
            (format!("<!-- metrics of {} -->\n", family.spec.section), "<!-- end of metrics -->".to_owned());
        let from = new.find(&begin).unwrap_or_else(|| panic!("{begin} is missing")) + begin.len();
        let to = from + new[from..].find(&end).expect("the table has an end mark");
        new.replace_range(from..to, &format!("\n{}\n", table(family.metrics)));
    }
    if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
        std::fs::write(path, &new).expect("docs/results.md can be written");
    } else {
        assert!(old == new, "docs/results.md is out of date; set SAMARA_UPDATE_DOCS=1 to write it");
    }
}
