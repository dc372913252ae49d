//! The crate graph: the floors of the house, and which crates of a floor may import each other.
//! `ARCHITECTURE.md` shows the same floors as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The floors, which are the folders of `crates/`, from the ground up. A crate imports only crates of
/// its own floor and of those below it.
const FLOORS: [&str; 6] = ["engine", "protocols", "worlds", "lab", "families", "programs"];

/// Crates that no crate of its floor imports, except those named: engines and families are equal to
/// those of other programs.
const APART: [(&str, &[&str], &[&str]); 2] = [
    ("protocols", &["samara-"], &[]),
    ("families", &["samara-family-", "samara-app-"], &["samara-families"]),
];

/// Crates that a crate must not reach, also through others: a floor, or single crates.
const NEVER_REACHED: &[(&str, &[&str])] = &[
    // The lab knows neither families nor protocols.
    ("samara-document", &["protocols", "worlds"]),
    ("samara-report", &["engine", "protocols", "worlds"]),
    ("samara-trace", &["engine", "protocols", "worlds"]),
    ("samara-bounds", &["protocols", "worlds"]),
    ("samara-scenario", &["protocols"]),
    // The simulator knows no protocol.
    ("samara-sim", &["protocols"]),
    ("samara-emulation", &["protocols"]),
    // Nodes on sockets take neither the simulator nor the lab along.
    (
        "samara-node",
        &[
            "families",
            "samara-sim",
            "samara-scenario",
            "samara-lab",
            "samara-report",
            "arrow-array",
            "parquet",
        ],
    ),
    ("samara-libp2p", &["samara-sim", "arrow-array", "parquet"]),
    ("samara-net", &["samara-sim", "arrow-array", "parquet"]),
];

/// Crates that engines must not depend on: runtimes, sockets, clocks and global random generators.
const NOT_IN_ENGINES: &[&str] =
    &["tokio", "futures", "futures-timer", "libp2p", "socket2", "getrandom", "rand", "time", "ureq"];

/// A crate of the workspace.
struct Package {
    floor: usize,
    /// All dependencies, without those of tests.
    imports: BTreeSet<String>,
}

fn packages() -> BTreeMap<String, Package> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(crates).expect("crates/ can be read") {
        let folder = entry.expect("an entry").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let floor = FLOORS.iter().position(|floor| *floor == name);
        let floor = floor.unwrap_or_else(|| panic!("crates/{name} is no floor"));
        for package in fs::read_dir(&folder).expect("a floor can be read") {
            let path = package.expect("an entry").path();
            let Ok(text) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
            let manifest: toml::Table = text.parse().expect("a manifest is TOML");
            let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
            assert!(path.ends_with(&name), "{} has the crate {name}", path.display());
            let own = manifest.get("dependencies").and_then(toml::Value::as_table);
            let imports = own.into_iter().flat_map(|table| table.keys().cloned()).collect();
            all.insert(name, Package { floor, imports });
        }
    }
    assert!(all.len() > 20, "{} crates", all.len());
    all
}

#[test]
fn crates_import_only_crates_of_their_floor_and_below() {
    let all = packages();
    for (name, package) in &all {
        for other in package.imports.iter().filter_map(|import| Some((import, all.get(import)?))) {
            let (import, other) = other;
            assert!(
                other.floor <= package.floor,
                "{name} in {} imports {import} in {}",
                FLOORS[package.floor],
                FLOORS[other.floor]
            );
        }
    }
}

#[test]
fn engines_and_families_do_not_import_each_other() {
    let all = packages();
    for (floor, prefixes, lists) in APART {
        let floor = FLOORS.iter().position(|one| *one == floor).expect("a floor");
        for (name, package) in &all {
            if package.floor != floor || lists.contains(&name.as_str()) {
                continue;
            }
            // A family imports its own application.
            let own = name.replace("-family-", "-app-");
            let wrong = package.imports.iter().find(|import| {
                prefixes.iter().any(|prefix| import.starts_with(prefix))
                    && **import != own
                    && all.get(*import).is_some_and(|other| other.floor == floor)
            });
            assert_eq!(wrong, None, "{name} imports another one of {}", FLOORS[floor]);
        }
    }
}

#[test]
fn lower_crates_do_not_reach_what_they_must_not_know() {
    let all = packages();
    for (name, forbidden) in NEVER_REACHED {
        assert!(all.contains_key(*name), "unknown crate {name}");
        let (mut reached, mut waiting) = (BTreeSet::new(), vec![(*name).to_owned()]);
        while let Some(next) = waiting.pop() {
            let imports = all.get(&next).into_iter().flat_map(|package| &package.imports);
            let new: Vec<String> =
                imports.filter(|other| reached.insert((*other).clone())).cloned().collect();
            waiting.extend(new);
        }
        let is_wrong = |reached: &&String| {
            let floor = all.get(*reached).map(|package| FLOORS[package.floor]);
            forbidden.contains(&reached.as_str()) || floor.is_some_and(|floor| forbidden.contains(&floor))
        };
        let wrong: Vec<&String> = reached.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{name} reaches {wrong:?}");
    }
}

/// The lab runs any crate's experiments: it imports no protocol, although hosts on sockets do.
#[test]
fn lab_imports_no_protocol() {
    let all = packages();
    let lab = FLOORS.iter().position(|floor| *floor == "lab").expect("a floor");
    let protocols = FLOORS.iter().position(|floor| *floor == "protocols").expect("a floor");
    for (name, package) in all.iter().filter(|(_, package)| package.floor == lab) {
        let is_protocol = |import: &&String| all.get(*import).is_some_and(|other| other.floor == protocols);
        let wrong: Vec<&String> = package.imports.iter().filter(is_protocol).collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}");
    }
}

#[test]
fn engines_do_not_depend_on_runtime_sockets_clock_or_global_rng() {
    for (name, package) in packages().iter().filter(|(_, package)| package.floor <= 1) {
        let wrong: Vec<&&str> =
            NOT_IN_ENGINES.iter().filter(|other| package.imports.contains(**other)).collect();
        assert!(wrong.is_empty(), "{name} imports {wrong:?}");
    }
}

/// The files of each crate of a family, so that one knows where to look before one opens it.
const FILES_OF_FAMILIES: [&str; 7] =
    ["README.md", "src/section.rs", "src/metrics.rs", "src/pages.rs", "src/torture.rs", "scenarios", "tests"];
/// Rooms that are a file or a folder.
const ROOMS_OF_FAMILIES: [&str; 1] = ["course"];

#[test]
fn families_have_the_same_files() {
    let families =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/").join("families");
    let mut count = 0;
    for entry in fs::read_dir(families).expect("crates/families can be read") {
        let path = entry.expect("an entry").path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("samara-family-")) {
            continue;
        }
        count += 1;
        let name = path.file_name().map(|name| name.to_string_lossy().replace("-family-", "-app-"));
        let application = path.with_file_name(name.expect("a name"));
        assert!(application.join("src/lib.rs").exists(), "there is no {}", application.display());
        for file in FILES_OF_FAMILIES {
            assert!(path.join(file).exists(), "{} has no {file}", path.display());
        }
        for room in ROOMS_OF_FAMILIES {
            let src = path.join("src");
            let is_there = src.join(room).is_dir() || src.join(format!("{room}.rs")).exists();
            assert!(is_there, "{} has no src/{room}", path.display());
        }
    }
    assert_eq!(count, 5, "the families that the test found");
}
