//! Remedies in errors about keys: where a key belongs, and what a required one looks like.

use samara_document::keys::{get, is_within};
use samara_document::{Mismatch, closest};
use toml::Value;

use crate::family::{self, FamilySpec, ProtocolKind, Remedy};
use crate::schema::Forms;

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
    ("fault.", "missing key `factor`", "a slow node needs one, such as factor = 0.1"),
    ("sweep", "", OF_SWEEP),
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

const OF_SWEEP: &str = "each axis is a table of its own: [[sweep.axis]] with key = \"network.uplink\" and \
                        values = [\"10 Mbit/s\", \"20 Mbit/s\"] (docs/guides/sweep.md)";
const OF_NODE: &str =
    "this key belongs to the configuration of a node, which `samara node --config FILE` runs";

/// Words of users that are no key, each with the place of the matter.
const MATTERS: [(&str, &str); 3] = [
    ("validators", "did you mean network.nodes?"),
    ("churn", "[[fault]] describes churn (docs/guides/faults.md)"),
    ("crash", "[[fault]] describes crashes (docs/guides/faults.md)"),
];

/// Adds the remedy for a wrong value or key of a scenario to its message.
pub(crate) fn with_remedy(error: Mismatch, table: &toml::Table) -> Mismatch {
    let (key, family) = (error.key.as_str(), family::of(table));
    if key == "network.nodes"
        && let (Some(family), Some((start, _))) = (family, error.message.split_once("whole number from"))
    {
        let message = format!("{start}whole number from 2 to {}", family.nodes_max);
        return Mismatch { message, ..error };
    }
    let unused = family.and_then(|family| {
        let (_, why) = family.unused.iter().find(|(unused, _)| is_within(key, unused))?;
        Some(format!("has no effect in [{}]: {why}; remove it", family.section))
    });
    if let Some(message) = unused {
        return Mismatch { message, ..error };
    }
    let of_families = family::all().into_iter().flat_map(|family| family.remedies);
    let mut remedies = REMEDIES.iter().chain(of_families);
    let declared = remedies.find(|(start, part, _)| key.starts_with(start) && error.message.contains(part));
    let forms = Forms::default();
    let remedy = match (declared, family, get(table, key).and_then(Value::as_str)) {
        (Some((.., remedy)), ..) => Some((*remedy).to_owned()),
        (_, Some(family), Some(kind)) if key == "protocol.kind" => of_kind(kind, family, &forms),
        (_, Some(family), Some(preset)) if key == "protocol.preset" => of_preset(preset, family, &forms),
        _ => of_run(key, table, &forms)
            .or_else(|| error.stray.as_ref().and_then(|name| of_stray(name, key, table, &forms))),
    };
    match remedy {
        Some(remedy) => Mismatch { message: format!("{}; {remedy}", error.message), ..error },
        None => error,
    }
}

/// Returns the remedy for a run with the key of a section: `run.1.preset`.
fn of_run(key: &str, table: &toml::Table, forms: &Forms) -> Option<String> {
    let (_, name) = key.strip_prefix("run.")?.split_once('.')?;
    if name.contains('.') || forms.has(key) {
        return None;
    }
    let place = places(name, table, forms).into_iter().next().unwrap_or_else(|| format!("section.{name}"));
    Some(format!("a run changes keys with set, such as set = {{ \"{place}\" = ... }}"))
}

/// Returns the remedy for an unknown key that resembles no known one.
fn of_stray(name: &str, key: &str, table: &toml::Table, forms: &Forms) -> Option<String> {
    let is_section = !key.contains('.');
    let is_protocol = |family: &FamilySpec| family.protocols.iter().any(|protocol| protocol.name == name);
    if is_section && family::all().into_iter().any(is_protocol) {
        return Some("did you mean `protocol`?".to_owned());
    }
    let section = get(table, key).and_then(Value::as_table).filter(|_| is_section);
    // The keys of an unknown section may be those of another one.
    let inner = section.and_then(|section| section.keys().next());
    let own = || {
        let is_own = section.is_some() && family::of(table).is_none();
        is_own.then(|| "the section of an experiment of your own needs the program that has it".to_owned())
    };
    of_place(inner.map_or(name, String::as_str), table, forms).or_else(own)
}

/// Returns the keys of the scenario's sections that have this name, or the place of the matter.
pub(crate) fn of_place(name: &str, table: &toml::Table, forms: &Forms) -> Option<String> {
    if let Some((_, place)) = MATTERS.iter().find(|(word, _)| *word == name) {
        return Some((*place).to_owned());
    }
    let places = places(name, table, forms);
    (!places.is_empty()).then(|| format!("did you mean {}?", places.join(" or ")))
}

/// Returns the dotted keys with this name in the sections of a scenario.
fn places(name: &str, table: &toml::Table, forms: &Forms) -> Vec<String> {
    let Some(family) = family::of(table) else { return Vec::new() };
    let kind = get(table, "protocol.kind").and_then(Value::as_str);
    let kind = kind.or_else(|| family.protocols.first().map(|protocol| protocol.name));
    let protocol = kind.and_then(|kind| forms.of_kind("protocol", kind));
    let in_protocol = protocol.filter(|keys| keys.contains_key(name)).map(|_| format!("protocol.{name}"));
    let keys =
        [family.section, "network", "transport", "scenario"].map(|section| format!("{section}.{name}"));
    keys.into_iter().filter(|key| forms.has(key)).chain(in_protocol).collect()
}

/// Returns the remedy for a preset that the protocol of a scenario does not have, if another protocol
/// has it.
fn of_preset(preset: &str, own: &FamilySpec, forms: &Forms) -> Option<String> {
    let has = |protocol: &&ProtocolKind| forms.presets(protocol.name).contains(&preset);
    if let Some(protocol) = own.protocols.iter().find(has) {
        return Some(format!("\"{preset}\" needs protocol.kind = \"{}\"", protocol.name));
    }
    let other = |family: &'static FamilySpec| Some((family, family.protocols.iter().find(has)?));
    let (family, protocol) = family::all().into_iter().find_map(other)?;
    Some(format!(
        "[{}] has {}, and \"{preset}\" is a preset of {}, which needs a file with [{}]",
        own.section, own.protocols[0].name, protocol.name, family.section
    ))
}

/// Returns the remedy for a kind of protocol that the experiment of a scenario does not have.
fn of_kind(kind: &str, own: &FamilySpec, forms: &Forms) -> Option<String> {
    let others = family::all().into_iter();
    let others = others.filter(|family| family.protocols.iter().any(|protocol| protocol.name == kind));
    let others: Vec<String> = others.map(|family| format!("[{}]", family.section)).collect();
    if !others.is_empty() {
        let others = others.join(" or ");
        return Some(format!(
            "\"{kind}\" needs a file with {others}, whose results `samara compare` compares"
        ));
    }
    let mut versions = own.protocols.iter().map(|protocol| (protocol.name, forms.presets(protocol.name)));
    if let Some((protocol, _)) = versions.clone().find(|(_, presets)| presets.contains(&kind)) {
        return Some(format!("\"{kind}\" is a version of {protocol}: set protocol.preset to it"));
    }
    if let Some(meant) = closest(kind, own.protocols.iter().map(|protocol| protocol.name)) {
        return Some(format!("did you mean \"{meant}\"?"));
    }
    let (protocol, presets) = versions.find(|(_, presets)| !presets.is_empty())?;
    let meant = closest(kind, presets.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let presets: Vec<String> = presets.iter().map(|preset| format!("`{preset}`")).collect();
    Some(format!("protocol.preset selects a version of {protocol}: {}{meant}", presets.join(", ")))
}
