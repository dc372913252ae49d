//! The crate graph: the allowed imports of each crate. `ARCHITECTURE.md` shows the same layers as a
//! picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each crate with the crates of this workspace that it may import.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    // Ground layer.
    ("samara-engine", &[]),
    ("samara-scenario", &["samara-engine"]),
    // Engines, which never import each other.
    ("samara-gossipsub", &["samara-engine"]),
    ("samara-baselines", &["samara-engine"]),
    ("samara-cat", &["samara-engine"]),
    ("samara-ring", &["samara-engine"]),
    ("samara-mix", &["samara-engine"]),
    // Virtual network.
    ("samara-sim", &["samara-engine"]),
    // Real network.
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
    // Scenarios.
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
    // Hosts: simulated, and on real sockets (feature `net`).
    (
        "samara-hosts",
        &[
            "samara-engine",
            "samara-gossipsub",
            "samara-cat",
            "samara-mix",
            "samara-sim",
            "samara-libp2p",
            "samara-net",
        ],
    ),
    // Families and figures.
    (
        "samara-apps",
        &[
            "samara-hosts",
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
            "samara-bounds",
            "samara-cat",
            "samara-ring",
            "samara-mix",
            "samara-scenario",
            "samara-sim",
            "samara-spec",
            "samara-apps",
            "samara-report",
            "samara-hosts",
        ],
    ),
    ("samara-bounds", &["samara-engine"]),
    ("samara-report", &[]),
    ("samara-dashboard", &["samara-engine", "samara-trace"]),
];

/// Crates that only the command line may reach, each with crates that must not depend on it.
const NEVER_REACHED: &[(&str, &[&str])] = &[
    ("samara-node", &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"]),
    (
        "samara-libp2p",
        &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"],
    ),
    ("samara-net", &["samara-sim", "samara-spec", "samara-lab", "samara-report", "arrow-array", "parquet"]),
];

/// Crates that engines must not depend on: runtimes, sockets, clocks and global random generators.
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
        let own = all.get(*name).unwrap_or_else(|| panic!("unknown crate {name}"));
        let wrong: Vec<&String> = own
            .iter()
            .filter(|dependency| dependency.starts_with("samara") && !allowed.contains(&dependency.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}, which are not on its list");
    }
}

#[test]
fn real_nodes_do_not_depend_on_simulator_or_lab() {
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
fn engines_do_not_depend_on_runtime_sockets_clock_or_global_rng() {
    let all = dependencies();
    for name in ENGINES {
        let wrong: Vec<&&str> = NOT_IN_ENGINES.iter().filter(|other| all[*name].contains(**other)).collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}");
    }
}

/// The folders of the families in the lab.
const FAMILIES: &[&str] = &["columns", "messages", "pool", "group", "mix"];
/// The crates of engines that only families know.
const OF_FAMILIES: &[&str] =
    &["samara_gossipsub", "samara_baselines", "samara_cat", "samara_ring", "samara_mix"];
/// Files of the lab that name a family, each with what it names: the list of families, and what is
/// still to be moved into them.
const NAME_FAMILIES: &[(&str, &[&str])] = &[
    ("family.rs", FAMILIES),
    // Published figures of blocks are compared run by run.
    ("reference.rs", &["columns"]),
];

/// The runner, the results and the pages know no family: they would need a change for each new one.
#[test]
fn shared_rooms_of_the_lab_name_no_family() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").join("samara-lab/src");
    let mut waiting = vec![lab.clone()];
    let mut found = BTreeSet::new();
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).expect("the lab can be read") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&lab).expect("below the lab").to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                if !FAMILIES.contains(&&*name) {
                    waiting.push(path);
                }
                continue;
            }
            // Tests in a file of their own, or at the end of one, may use any family.
            if name.ends_with("tests.rs") || name == "lib.rs" {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source is UTF-8");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let families = FAMILIES.iter().filter(|family| {
                ["crate", "samara_spec", "samara_apps"]
                    .iter()
                    .any(|of| code.contains(&format!("{of}::{family}::")))
                    || code.lines().any(|line| {
                        line.trim_start()
                            .strip_prefix("use crate::{")
                            .is_some_and(|list| list.split([',', '}']).any(|item| item.trim() == **family))
                    })
            });
            let crates = OF_FAMILIES.iter().filter(|name| code.contains(&format!("{name}::")));
            found.extend(families.chain(crates).map(|named| (name.clone(), *named)));
        }
    }
    let allowed: BTreeSet<(String, &str)> = NAME_FAMILIES
        .iter()
        .flat_map(|(file, names)| names.iter().map(|name| ((*file).to_owned(), *name)))
        .collect();
    let wrong: Vec<_> = found.difference(&allowed).collect();
    assert!(wrong.is_empty(), "these files name families: {wrong:?}");
    let moved: Vec<_> = allowed.difference(&found).collect();
    assert!(moved.is_empty(), "these files no longer name families: {moved:?}");
}
