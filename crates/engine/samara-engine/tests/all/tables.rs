//! No table may use a hash that peers can predict. The compiler cannot check this, so this test
//! reads the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Keys that [`rustc_hash`] may hash: numbers that this node assigns, and addresses, because the
/// number of connections is limited.
const OWN_KEYS: [&str; 6] = ["(PeerId, TopicIdx)", "AddressKey", "ItemId", "MessageKey", "PeerId", "u32"];

/// The crates whose tables can have keys from frames.
const CRATES: [&str; 7] = [
    "protocols/samara-baselines",
    "protocols/samara-cat",
    "engine/samara-engine",
    "protocols/samara-gossipsub",
    "protocols/samara-mix",
    "worlds/samara-net",
    "protocols/samara-ring",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects the sources below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the arguments of a generic type, on one line each; `after` is the text after the `<`.
fn arguments(after: &str) -> Vec<String> {
    let (mut depth, mut arguments) = (0, vec![String::new()]);
    for c in after.chars() {
        match c {
            '>' if depth == 0 => break,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' => depth -= 1,
            _ => {}
        }
        arguments.last_mut().expect("there is a first one").push(c);
    }
    arguments.iter().map(|one| one.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the faults of a source, each with its line.
fn faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for name in ["foldhash", "FoldHasher", "FixedState", "ahash", "fxhash"] {
        let why = "this hash has no secret key or claims no resistance; use PeerKeyed";
        faults.extend(text.match_indices(name).map(|(at, _)| (at, why.to_owned())));
    }
    for table in ["HashMap<", "HashSet<", "IndexMap<", "IndexSet<"] {
        for (at, _) in text.match_indices(table) {
            let arguments = arguments(&text[at + table.len()..]);
            let is_fast = text[..at].ends_with("Fx") || arguments.iter().any(|one| one.contains("Fx"));
            let key = &arguments[0];
            if is_fast && !OWN_KEYS.contains(&&**key) {
                faults.push((at, format!("a table of {key} uses a hash without a key; use PeerKeyed")));
            }
        }
    }
    faults.iter().map(|(at, why)| (text[..*at].matches('\n').count() + 1, why.clone())).collect()
}

#[test]
fn tables_with_keys_from_peers_have_a_secret_hash_key() {
    let (mut files, mut tables) = (Vec::new(), 0);
    for name in CRATES {
        sources(&crates().join(name).join("src"), &mut files);
    }
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source");
        tables += text.matches("PeerKeyed").count();
        let at = |(line, why): (usize, String)| format!("{}:{line}: {why}", file.display());
        found.extend(faults(&text).into_iter().map(at));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // A wrong directory or a new name of the type must not make this test check nothing.
    assert!(files.len() > 100 && tables > 20, "{} files, {tables} mentions of PeerKeyed", files.len());
}

/// The compiler sees what this test cannot, such as aliases: `clippy.toml` lists the hashes.
#[test]
fn clippy_checks_the_same_crates() {
    for name in CRATES {
        let root = crates().join(name).join("src/lib.rs");
        let text = fs::read_to_string(&root).expect("a source");
        assert!(
            text.contains("#![warn(clippy::disallowed_types)]"),
            "{} does not ask clippy",
            root.display()
        );
    }
    let list = fs::read_to_string(crates().join("../clippy.toml")).expect("clippy.toml");
    for hash in ["FxBuildHasher", "FxHashMap", "FxHashSet", "FxHasher"] {
        assert!(list.contains(&format!("\"rustc_hash::{hash}\"")), "clippy.toml does not list {hash}");
    }
}

#[test]
fn detects_tables_without_a_secret_hash_key() {
    for wrong in [
        "    hasher: FixedState,",
        "use foldhash::fast::FixedState;",
        "    by_id: FxHashMap<MessageId, u32>,",
        "    entries: HashMap<MessageId, Entry, FxBuildHasher>,",
        "    seen: FxHashSet<[u8; 32]>,",
        "    order: IndexMap<MessageId, Entry, FxBuildHasher>,",
        "    order: IndexSet<MessageId, FxBuildHasher>,",
        "    entries: HashMap<\n        MessageId,\n        Entry,\n        FxBuildHasher,\n    >,",
        "    entries: HashMap<MessageId, Entry,\n        BuildHasherDefault<FxHasher>>,",
        "    entries: HashMap<(PeerId, MessageId), Vec<(u32, u32)>, FxBuildHasher>,",
    ] {
        assert!(!faults(wrong).is_empty(), "{wrong}");
    }
    for right in [
        "use rustc_hash::{FxBuildHasher, FxHashMap};",
        "    entries: HashMap<MessageId, Entry, PeerKeyed>,",
        "    until: HashMap<(PeerId, TopicIdx), Time, FxBuildHasher>,",
        "    until: HashMap<\n        (PeerId, TopicIdx),\n        Time,\n        FxBuildHasher,\n    >,",
        "    by_key: FxHashMap<MessageKey, u32>,",
    ] {
        assert_eq!(faults(right), [], "{right}");
    }
}
