//! Smaller scenarios that break the same promise.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use samara_document::keys::{get, set_key};

use super::{Broken, Case, Checked, Violation};

const TRIES: u32 = 300;
/// Sections whose keys fall back to their defaults. The defaults of a family's own section are
/// often larger than a drawn value.
const OPTIONAL: [&str; 3] = ["protocol", "transport", "network"];
/// Keys that stay: their defaults make a large network.
const KEPT: [&str; 3] = ["network.nodes", "network.topology", "protocol.kind"];

/// Parts of keys that say how long a run waits for its nodes: a shorter wait breaks promises on its
/// own.
const WAITS: [&str; 5] = ["warm_up", "cool_down", "deadline", "patience", "interval"];

/// Makes a scenario smaller as long as it breaks the first of the broken promises.
pub(super) fn shrink(case: &Case, run: u64, broken: Vec<Broken>, stop: &AtomicBool) -> Violation {
    let promise = broken[0].promise.clone();
    let (mut best, mut found, mut tried) = (case.clone(), broken.clone(), 0);
    best.repeats = promise.contains("threads");
    'smaller: loop {
        for table in candidates(&best.table) {
            if tried >= TRIES || stop.load(Ordering::Relaxed) {
                break 'smaller;
            }
            tried += 1;
            let candidate = Case { table, ..best.clone() };
            if let Checked::Done { broken, .. } = candidate.check(stop)
                && broken.iter().any(|other| other.promise == promise)
            {
                (best, found) = (candidate, broken);
                continue 'smaller;
            }
        }
        break;
    }
    let mut table = best.table.clone();
    let list: Vec<String> = found.iter().map(|broken| format!("- {broken}")).collect();
    let about = format!("Broken promises:\n{}\n", list.join("\n"));
    let _ = set_key(&mut table, "scenario.description", about.into());
    if let Some(seed) = best.seed {
        let seeds = vec![toml::Value::Integer(seed as i64)];
        let _ = set_key(&mut table, "scenario.seeds", seeds.into());
    }
    Violation { run, broken, text: table.to_string(), smallest: found, tried }
}

/// Returns smaller scenarios, those with the largest steps first.
fn candidates(table: &toml::Table) -> Vec<toml::Table> {
    let mut all = Vec::new();
    let mut without = |change: &dyn Fn(&mut toml::Table) -> bool| {
        let mut smaller = table.clone();
        if change(&mut smaller) && smaller != *table {
            all.push(smaller);
        }
    };
    let faults = table.get("fault").and_then(toml::Value::as_array).map_or(0, Vec::len);
    if faults > 1 {
        without(&|table| table.remove("fault").is_some());
    }
    for index in 0..faults {
        without(&|table| {
            let Some(toml::Value::Array(faults)) = table.get_mut("fault") else { return false };
            faults.remove(index);
            if faults.is_empty() {
                table.remove("fault");
            }
            true
        });
    }
    let nodes = get(table, "network.nodes").and_then(toml::Value::as_integer).unwrap_or(0);
    for fewer in [nodes / 2, nodes * 3 / 4, nodes - 1] {
        if fewer >= 2 && fewer < nodes {
            without(&|table| with_nodes(table, fewer));
        }
    }
    for (section, content) in table {
        let Some(content) = content.as_table() else { continue };
        for (key, value) in content {
            let path = format!("{section}.{key}");
            if OPTIONAL.contains(&section.as_str()) && !KEPT.contains(&path.as_str()) {
                without(&|table| {
                    let section = table.get_mut(section).and_then(toml::Value::as_table_mut);
                    section.is_some_and(|section| section.remove(key).is_some())
                });
            } else if section != "scenario"
                && path != "network.nodes"
                && !WAITS.iter().any(|wait| key.contains(wait))
            {
                for smaller in less(value) {
                    without(&|table| set_key(table, &path, smaller.clone()).is_ok());
                }
            }
        }
    }
    all
}

/// Reduces the network to its first nodes. Faults of the others hit nodes that stay, except node 0,
/// which faults spare.
fn with_nodes(table: &mut toml::Table, nodes: i64) -> bool {
    let faults = table.get_mut("fault").and_then(toml::Value::as_array_mut).into_iter().flatten();
    for fault in faults.filter_map(toml::Value::as_table_mut) {
        for key in ["nodes", "peers"] {
            let Some(hit) = fault.get_mut(key).and_then(toml::Value::as_array_mut) else { continue };
            let mut kept = BTreeSet::new();
            for host in hit.iter().filter_map(toml::Value::as_integer) {
                kept.insert(if host < nodes { host } else { 1 + (host - 1) % (nodes - 1) });
            }
            *hit = kept.into_iter().map(toml::Value::Integer).collect();
        }
    }
    set_key(table, "network.nodes", nodes.into()).is_ok()
}

/// Returns smaller values: halves of numbers, and of numbers with a unit.
fn less(value: &toml::Value) -> Vec<toml::Value> {
    match value {
        toml::Value::Integer(number) if *number > 1 => vec![(number / 2).into(), (number - 1).into()],
        toml::Value::Boolean(true) => vec![false.into()],
        toml::Value::String(text) => {
            let Some((number, unit)) = text.split_once(' ') else { return Vec::new() };
            match number.parse::<f64>() {
                Ok(number) if number >= 2.0 => vec![format!("{} {unit}", (number / 2.0).floor()).into()],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}
