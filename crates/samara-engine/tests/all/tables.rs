//! No table may use a hash that peers can predict. The compiler cannot check this, so this test
//! reads the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Keys that [`rustc_hash`] may hash: numbers that this node assigns, and addresses, because the
/// number of connections is limited.
const OWN_KEYS: [&str; 6] = ["(PeerId, TopicIdx)", "AddressKey", "ItemId", "MessageKey", "PeerId", "u32"];

/// The crates whose tables can have keys from frames.
const CRATES: [&str; 7] = [
    "samara-baselines",
    "samara-cat",
    "samara-engine",
    "samara-gossipsub",
    "samara-mix",
    "samara-net",
    "samara-ring",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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

/// Returns the first argument of a generic type; `after` is the text after the `<`.
fn first_argument(after: &str) -> &str {
    let mut depth = 0;
    let end = after.find(|c| {
        let ends = depth == 0 && matches!(c, ',' | '>');
        depth += match c {
            '(' | '<' | '[' => 1,
            ')' | '>' | ']' => -1,
            _ => 0,
        };
        ends
    });
    &after[..end.unwrap_or(after.len())]
}

/// Returns the fault of a line, if any.
fn fault(line: &str) -> Option<String> {
    if ["foldhash", "FoldHasher", "FixedState", "ahash", "fxhash"].iter().any(|name| line.contains(name)) {
        return Some("this hash has no secret key or claims no resistance; use PeerKeyed".to_owned());
    }
    let is_fast = line.contains("Fx") && !line.trim_start().starts_with("use ");
    let table = ["HashMap<", "HashSet<"].iter().find_map(|name| Some(line.find(name)? + name.len()));
    let key = first_argument(&line[table.filter(|_| is_fast)?..]);
    (!OWN_KEYS.contains(&key)).then(|| format!("a table of {key} uses a hash without a key; use PeerKeyed"))
}

#[test]
fn tables_with_keys_from_peers_have_a_secret_hash_key() {
    let (mut files, mut tables) = (Vec::new(), 0);
    for name in CRATES {
        sources(&crates().join(name).join("src"), &mut files);
    }
    let mut faults = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source");
        tables += text.matches("PeerKeyed").count();
        let at = |(line, why): (usize, String)| format!("{}:{}: {why}", file.display(), line + 1);
        faults.extend(text.lines().enumerate().filter_map(|(at, line)| Some((at, fault(line)?))).map(at));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // A wrong directory or a new name of the type must not make this test check nothing.
    assert!(files.len() > 100 && tables > 20, "{} files, {tables} mentions of PeerKeyed", files.len());
}

#[test]
fn detects_tables_without_a_secret_hash_key() {
    for wrong in [
        "    hasher: FixedState,",
        "use foldhash::fast::FixedState;",
        "    by_id: FxHashMap<MessageId, u32>,",
        "    entries: HashMap<MessageId, Entry, FxBuildHasher>,",
        "    seen: FxHashSet<[u8; 32]>,",
    ] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
    for right in [
        "use rustc_hash::{FxBuildHasher, FxHashMap};",
        "    entries: HashMap<MessageId, Entry, PeerKeyed>,",
        "    until: HashMap<(PeerId, TopicIdx), Time, FxBuildHasher>,",
        "    by_key: FxHashMap<MessageKey, u32>,",
    ] {
        assert_eq!(fault(right), None, "{right}");
    }
}
