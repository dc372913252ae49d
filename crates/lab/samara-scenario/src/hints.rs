//! Remedies in errors about keys: where a key belongs, and what a required one looks like.

use samara_document::closest;
use samara_document::keys::is_within;
use serde_json::{Map, Value};

use crate::Scenario;
use crate::family::{self, FamilySpec, ProtocolKind, Remedy};

/// Remedies for keys of the common sections.
const REMEDIES: &[Remedy] = &[
    (
        "network.topology",
        "missing key `file`",
        "kind = \"file\" needs the path of an edge list, such as file = \"links.csv\"",
    ),
    ("network.latency_file", "missing key `kind`", "add kind = \"one-way\" or kind = \"round-trip\""),
    ("fault.", "missing key `kind`", "add one, such as kind = \"crash\""),
    (
        "fault.",
        "missing key `at`",
        "add the time since the start of the run, such as at = \"10 s\" (docs/guides/faults.md)",
    ),
    ("network.class.", "missing key `share`", "add one, such as share = \"20 %\""),
    ("topics", "unknown key", OF_NODE),
    ("identity", "unknown key", OF_NODE),
    ("control", "unknown key", OF_NODE),
    (
        "expect.",
        "found a table",
        "put the name of a metric in quotes: \"time_to_custody_ms.p95\" = \"< 4 s\"",
    ),
    ("expect.", "expected a text", "a limit with its sign, such as \"< 4 s\""),
];

const OF_NODE: &str =
    "this key belongs to the configuration of a node, which `samara node --config FILE` runs";

/// Words of users that are no key, each with the place of the matter.
const MATTERS: [(&str, &str); 3] = [
    ("validators", "did you mean network.nodes?"),
    ("churn", "[[fault]] describes churn (docs/guides/faults.md)"),
    ("crash", "[[fault]] describes crashes (docs/guides/faults.md)"),
];

/// Adds the remedy for a problem with a key to its message.
pub(crate) fn with_remedy(key: &str, message: String, table: &toml::Table) -> String {
    let family = || family::all().into_iter().find(|family| table.contains_key(family.section));
    if key == "network.nodes"
        && let (Some(family), Some((start, _))) = (family(), message.split_once("whole number from"))
    {
        return format!("{start}whole number from 2 to {}", family.nodes_max);
    }
    let unused = family().and_then(|family| {
        let (_, why) = family.unused.iter().find(|(unused, _)| is_within(key, unused))?;
        Some(format!("has no effect in [{}]: {why}; remove it", family.section))
    });
    if let Some(message) = unused {
        return message;
    }
    let of_families = family::all().into_iter().flat_map(|family| family.remedies);
    let remedies = REMEDIES.iter().chain(of_families);
    let mut fitting = remedies.filter(|(start, part, _)| key.starts_with(start) && message.contains(part));
    if let Some((.., remedy)) = fitting.next() {
        return format!("{message}; {remedy}");
    }
    // A run with the key of a section: `run.1.preset`.
    let mut parts = key.split('.');
    if let (Some("run"), Some(_), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        && message.starts_with("unknown key")
    {
        let without: toml::Table =
            table.clone().into_iter().filter(|(section, _)| section != "run").collect();
        let place = places(name, &without).into_iter().next().unwrap_or_else(|| format!("section.{name}"));
        return format!("{message}; a run changes keys with set, such as set = {{ \"{place}\" = ... }}");
    }
    message
}

/// Adds the keys of the scenario's sections that have this name, or the place of the matter, to a
/// message about a key without a section.
pub(crate) fn with_place(key: &str, message: String, table: &toml::Table) -> String {
    let matter = MATTERS.iter().find(|(word, _)| *word == key).map(|(_, place)| (*place).to_owned());
    let place = || {
        let places = places(key, table);
        (!places.is_empty()).then(|| format!("did you mean {}?", places.join(" or ")))
    };
    match matter.or_else(place) {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    }
}

/// Returns the dotted keys with this name in the sections of a valid scenario.
fn places(name: &str, table: &toml::Table) -> Vec<String> {
    let Ok(scenario) = Scenario::from_table(table) else { return Vec::new() };
    let (family, schema) = (scenario.family(), crate::schema());
    let has = |part: &Value| keys_of(&schema, part).is_some_and(|keys| keys.contains_key(name));
    let sections = [family.section, "network", "transport", "scenario"];
    let in_section = |section: &&str| schema["properties"].get(*section).is_some_and(has);
    let own_kind = |variant: &&Value| variant["properties"]["kind"]["const"] == scenario.selected.protocol();
    let variants = schema["properties"]["protocol"]["anyOf"].as_array().into_iter().flatten();
    let in_protocol = variants.filter(own_kind).any(has).then_some("protocol");
    let found = sections.into_iter().filter(in_section).chain(in_protocol);
    found.map(|section| format!("{section}.{name}")).collect()
}

/// Returns the keys of a part of a schema, which may be a reference.
fn keys_of<'a>(schema: &'a Value, part: &'a Value) -> Option<&'a Map<String, Value>> {
    let reference = part.get("$ref").and_then(Value::as_str);
    let part = reference.map_or(Some(part), |reference| schema.pointer(reference.trim_start_matches('#')))?;
    part.get("properties")?.as_object()
}

/// Returns the remedy for a preset that the protocol of a scenario does not have, if another protocol
/// has it.
pub(crate) fn of_preset(preset: &str, own: &FamilySpec) -> String {
    let has = |protocol: &&ProtocolKind| read_preset(protocol, preset).is_ok();
    if let Some(protocol) = own.protocols.iter().find(has) {
        return format!("; \"{preset}\" needs protocol.kind = \"{}\"", protocol.name);
    }
    let other = |family: &'static FamilySpec| Some((family, family.protocols.iter().find(has)?));
    match family::all().into_iter().find_map(other) {
        Some((family, protocol)) => format!(
            "; [{}] has {}, and \"{preset}\" is a preset of {}, which needs a file with [{}]",
            own.section, own.protocols[0].name, protocol.name, family.section
        ),
        None => String::new(),
    }
}

/// Returns the remedy for a kind of protocol that the experiment of a scenario does not have.
pub(crate) fn of_kind(kind: &str, own: &FamilySpec) -> String {
    let others = family::all().into_iter();
    let others = others.filter(|family| family.protocols.iter().any(|protocol| protocol.name == kind));
    let others: Vec<String> = others.map(|family| format!("[{}]", family.section)).collect();
    if !others.is_empty() {
        let others = others.join(" or ");
        return format!("; \"{kind}\" needs a file with {others}, whose results `samara compare` compares");
    }
    let has_preset = |protocol: &&ProtocolKind| read_preset(protocol, kind).is_ok();
    if let Some(protocol) = own.protocols.iter().find(has_preset) {
        return format!("; \"{kind}\" is a version of {}: set protocol.preset to it", protocol.name);
    }
    if let Some(meant) = closest(kind, own.protocols.iter().map(|protocol| protocol.name)) {
        return format!("; did you mean \"{meant}\"?");
    }
    let versions =
        own.protocols.iter().find_map(|protocol| Some((protocol.name, read_preset(protocol, kind).err()?.1)));
    let listed =
        versions.as_ref().and_then(|(name, message)| Some((name, message.split_once("expected one of ")?.1)));
    listed.map_or_else(String::new, |(name, versions)| {
        format!("; protocol.preset selects a version of {name}: {versions}")
    })
}

fn read_preset(protocol: &ProtocolKind, preset: &str) -> Result<(), (String, String)> {
    let table = toml::Table::from_iter([("preset".to_owned(), preset.into())]);
    (protocol.parameters.read)(&table.into()).map(drop)
}
