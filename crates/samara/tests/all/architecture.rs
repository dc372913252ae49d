//! The crate graph: who may import whom. `ARCHITECTURE.md` shows the same floors as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each crate with the crates of this workspace that it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // Ground.
    ("samara-engine", &[]),
    ("samara-scenario", &["samara-engine"]),
    // Engines: never each other.
    ("samara-gossipsub", &["samara-engine"]),
    ("samara-baselines", &["samara-engine"]),
    ("samara-cat", &["samara-engine"]),
    ("samara-ring", &["samara-engine"]),
    ("samara-mix", &["samara-engine"]),
    // Virtual.
    ("samara-sim", &["samara-engine"]),
    // Real.
    ("samara-emulation", &["samara-engine", "samara-sim"]),
    ("samara-trace", &[]),
    ("samara-net", &["samara-engine", "samara-cat", "samara-ring", "samara-mix"]),
    ("samara-libp2p", &["samara-engine", "samara-gossipsub"]),
    (
        "samara-node",
        &[
            "samara-engine",
            "samara-gossipsub",
            "samara-cat",
            "samara-ring",
            "samara-mix",
            "samara-libp2p",
            "samara-net",
            "samara-scenario",
            "samara-trace",
        ],
    ),
    // What scenarios say.
    (
        "samara-spec",
        &[
            "samara-engine",
            "samara-gossipsub",
            "samara-cat",
            "samara-ring",
            "samara-mix",
            "samara-scenario",
            "samara-sim",
        ],
    ),
    // Families and pictures.
    (
        "samara-apps",
        &[
            "samara-engine",
            "samara-gossipsub",
            "samara-baselines",
            "samara-cat",
            "samara-ring",
            "samara-mix",
            "samara-sim",
            "samara-spec",
        ],
    ),
    (
        "samara-lab",
        &[
            "samara-engine",
            "samara-gossipsub",
            "samara-baselines",
            "samara-cat",
            "samara-ring",
            "samara-mix",
            "samara-scenario",
            "samara-sim",
            "samara-spec",
            "samara-apps",
            "samara-report",
        ],
    ),
    ("samara-report", &[]),
    ("samara-dashboard", &["samara-trace"]),
];

/// Crates that nobody below the command line may reach, with what must not lead to them.
const NEVER_REACHED: &[(&str, &[&str])] = &[
    ("samara-node", &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"]),
    (
        "samara-libp2p",
        &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"],
    ),
    ("samara-net", &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"]),
];

/// An engine has no runtime, no socket, no clock and no global generator.
const NOT_IN_ENGINES: &[&str] =
    &["tokio", "futures", "futures-timer", "libp2p", "socket2", "getrandom", "rand", "time", "ureq"];
const ENGINES: &[&str] =
    &["samara-engine", "samara-gossipsub", "samara-baselines", "samara-cat", "samara-ring", "samara-mix"];

/// The dependencies of each crate of the workspace, without those of tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(crates).expect("crates/ can be read") {
        let Ok(text) = std::fs::read_to_string(entry.expect("an entry").path().join("Cargo.toml")) else {
            continue;
        };
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        let own = manifest.get("dependencies").and_then(toml::Value::as_table);
        all.insert(name, own.into_iter().flat_map(|table| table.keys().cloned()).collect());
    }
    all
}

#[test]
fn crates_import_only_crates_below_them() {
    let all = dependencies();
    for (name, allowed) in MAY_IMPORT {
        let own = all.get(*name).unwrap_or_else(|| panic!("there is no crate {name}"));
        let wrong: Vec<&String> = own
            .iter()
            .filter(|dependency| dependency.starts_with("samara") && !allowed.contains(&dependency.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}, which are not below it");
    }
}

#[test]
fn real_nodes_reach_neither_the_simulator_nor_the_lab() {
    let all = dependencies();
    for (name, forbidden) in NEVER_REACHED {
        let (mut reached, mut waiting) = (BTreeSet::new(), vec![(*name).to_owned()]);
        while let Some(next) = waiting.pop() {
            let new = all.get(&next).into_iter().flatten().filter(|other| reached.insert((*other).clone()));
            waiting.extend(new.cloned());
        }
        let wrong: Vec<&&str> = forbidden.iter().filter(|other| reached.contains(**other)).collect();
        assert!(wrong.is_empty(), "{name} reaches {wrong:?}");
    }
}

#[test]
fn engines_have_no_runtime_no_socket_no_clock_and_no_global_generator() {
    let all = dependencies();
    for name in ENGINES {
        let wrong: Vec<&&str> = NOT_IN_ENGINES.iter().filter(|other| all[*name].contains(**other)).collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}");
    }
}
