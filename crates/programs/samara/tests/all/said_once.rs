//! Rule 3 of the configuration: no type has a twin, and no key exists in two spellings, in scenarios
//! and in the configuration of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// Words of names that say of which quantity a value is, not what it is about.
const QUANTITIES: [&str; 4] = ["interval", "time", "throttle", "bytes"];

/// Names that look like two spellings of one thing, and are not: the peers that get announcements, and
/// the time between them.
const DIFFERENT: [[&str; 2]; 1] = [["announce", "announce_interval"]];

/// The sections of a node with the parameters of a protocol, and its kind in a scenario.
const PROTOCOLS: [(&str, &str); 4] = [
    ("protocol", "gossipsub"),
    ("pool.protocol", "cat"),
    ("group.protocol", "ring"),
    ("mix.protocol", "cmix"),
];

/// The tables of a schema: the place of each, with its keys.
fn tables(schema: &Value, place: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match schema {
        Value::Object(entries) => {
            if let Some(keys) = entries.get("properties").and_then(Value::as_object) {
                found.insert(place.to_owned(), keys.keys().cloned().collect());
            }
            entries.iter().for_each(|(name, part)| tables(part, &format!("{place}/{name}"), found));
        }
        Value::Array(parts) => {
            parts.iter().enumerate().for_each(|(at, part)| tables(part, &format!("{place}/{at}"), found));
        }
        _ => {}
    }
}

fn schema() -> Value {
    samara_families::register();
    samara_scenario::schema()
}

fn scenarios() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    tables(&schema(), "", &mut found);
    found
}

/// The documented configuration of a node with all its keys, by section.
fn node() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/node.toml");
    let text = std::fs::read_to_string(path).expect("a file");
    let (mut section, mut found) = (String::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for line in text.lines() {
        let line = line.strip_prefix('#').unwrap_or(line);
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = header.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ")
            && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            found.entry(section.clone()).or_default().insert(key.to_owned());
        }
    }
    found
}

#[test]
fn no_key_has_two_spellings() {
    let all: BTreeSet<String> = scenarios().into_values().chain(node().into_values()).flatten().collect();
    let mut spellings = BTreeMap::<Vec<&str>, Vec<&str>>::new();
    for key in &all {
        let mut words: Vec<&str> = key.split('_').filter(|word| !QUANTITIES.contains(word)).collect();
        words.sort_unstable();
        if !words.is_empty() {
            spellings.entry(words).or_default().push(key);
        }
    }
    let twice: Vec<_> = spellings
        .into_values()
        .filter(|keys| keys.len() > 1 && !DIFFERENT.iter().any(|own| own[..] == keys[..]))
        .collect();
    assert!(twice.is_empty(), "keys in two spellings: {twice:?}");
}

#[test]
fn no_type_has_a_twin() {
    let definitions: Vec<_> =
        scenarios().into_iter().filter(|(place, _)| place.matches('/').count() == 2).collect();
    for (at, (place, keys)) in definitions.iter().enumerate() {
        let twin = definitions[..at].iter().find(|(_, other)| keys.len() > 2 && other == keys);
        assert!(twin.is_none(), "{place} has the keys of {}: {keys:?}", twin.unwrap().0);
    }
}

#[test]
fn nodes_have_the_parameters_of_scenarios() {
    let (schema, nodes) = (schema(), node());
    let kinds = schema["properties"]["protocol"]["anyOf"].as_array().expect("the kinds of protocol");
    for (section, kind) in PROTOCOLS {
        let own = kinds.iter().find(|own| own["properties"]["kind"]["const"] == kind);
        let own = own.and_then(|own| own["properties"].as_object()).expect("a kind of protocol");
        let unknown: Vec<_> = nodes[section].iter().filter(|key| !own.contains_key(*key)).collect();
        assert!(unknown.is_empty(), "[{section}] has keys that scenarios do not have: {unknown:?}");
    }
    for part in ["pool", "group", "mix"] {
        assert!(nodes.contains_key(part) && schema["properties"].get(part).is_some(), "[{part}]");
    }
}

/// `SAMARA_UPDATE_DOCS=1 cargo test -p samara --test all said_once` writes the file.
#[test]
fn published_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/scenario.schema.json");
    let current = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("SAMARA_UPDATE_DOCS").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == current,
        "docs/scenario.schema.json is out of date; run: samara schema > docs/scenario.schema.json"
    );
}
