//! The text of a scenario, and the values that nobody has set and that follow others: notes that say
//! so, and their place in the text.

use std::collections::{BTreeMap, BTreeSet};

use samara_document::keys::{get, is_within, remove, set_key};
use samara_document::{Network, Topology};

use crate::family::Followers;
use crate::layers::replaced;
use crate::{Point, Scenario};

/// Limits a number of links that the scenario does not set to that of the other hosts. Returns a note
/// if it was larger.
pub(crate) fn limit_links(scenario: &mut Scenario, given: &toml::Table) -> Option<String> {
    let nodes = scenario.network.nodes;
    if !scenario.family().has_topology() {
        return None;
    }
    let (key, value) = scenario.network.topology.links()?;
    let (key, most) = (format!("network.topology.{key}"), nodes.saturating_sub(1).max(1));
    if *value <= most || get(given, &key).is_some() {
        return None;
    }
    let before = std::mem::replace(value, most);
    Some(format!("{key} is {most} in place of {before}: there are {nodes} nodes"))
}

/// The keys of links that follow the number of nodes, with their defaults.
const LINKS: [(&str, u32); 3] =
    [("degree", Topology::DEGREE), ("dials", Topology::DIALS), ("attachments", Topology::ATTACHMENTS)];

/// Puts the limited numbers of links of the points into the table of their scenario. If points have
/// different ones, the table has none, so that each point finds its own again.
fn write_links(written: &mut toml::Table, points: &[Point]) {
    for (name, default) in LINKS {
        let key = format!("network.topology.{name}");
        if get(written, &key).and_then(toml::Value::as_integer) != Some(default.into()) {
            continue;
        }
        let value = |point: &Point| {
            let mut topology = point.scenario.network.topology.clone();
            topology.links().filter(|(own, _)| *own == name).map(|(_, value)| *value)
        };
        let of_points: BTreeSet<Option<u32>> = points.iter().map(value).collect();
        match of_points.first().copied().flatten() {
            Some(one) if of_points.len() == 1 => drop(set_key(written, &key, i64::from(one).into())),
            _ => remove(written, &key),
        }
    }
}

/// The keys of `[protocol]` that follow others, with their values: `degree_low = 9, degree_out = 3`.
fn followers(scenario: &Scenario) -> Option<(String, String)> {
    let Followers { cause, values } = (scenario.selected.protocol_kind().followers)(scenario)?;
    let values: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    (!values.is_empty()).then(|| (cause, values.join(", ")))
}

/// Says which values of a protocol follow those that the scenario sets.
pub(crate) fn moved_sizes(scenario: &Scenario) -> Option<String> {
    followers(scenario).map(|(cause, values)| format!("{cause}: {values}"))
}

/// Other names of files, by the key and the name that a scenario has.
pub type FileNames = BTreeMap<(&'static str, String), String>;

/// Gives the files in the table of a scenario other names: in its sections, runs and axes of a sweep.
fn rename(written: &mut toml::Table, names: &FileNames) {
    for (section, value) in written.iter_mut() {
        match (section.as_str(), value) {
            ("run", toml::Value::Array(runs)) => {
                let sets = runs.iter_mut().filter_map(|run| run.get_mut("set")?.as_table_mut());
                sets.flatten().for_each(|(key, value)| rename_below(key, value, names));
            }
            ("sweep", value) => {
                let axes = value.get_mut("axis").and_then(toml::Value::as_array_mut);
                for axis in axes.into_iter().flatten() {
                    let key = axis.get("key").and_then(toml::Value::as_str).unwrap_or_default().to_owned();
                    let values = axis.get_mut("values").and_then(toml::Value::as_array_mut);
                    values.into_iter().flatten().for_each(|value| rename_below(&key, value, names));
                }
            }
            (section, value) => rename_below(section, value, names),
        }
    }
}

fn rename_below(key: &str, value: &mut toml::Value, names: &FileNames) {
    match value {
        toml::Value::String(text) => {
            // The key of a table of latencies stands for its `file`.
            let is_key = |own: &str| key == own || key.strip_suffix(".file") == Some(own);
            let found = names.iter().find(|((own, name), _)| is_key(own) && name == text);
            if let Some((_, new)) = found {
                text.clone_from(new);
            }
        }
        toml::Value::Table(table) => {
            for (name, value) in table.iter_mut() {
                rename_below(&format!("{key}.{name}"), value, names);
            }
        }
        _ => {}
    }
}

/// Renders a scenario as TOML without keys that have no effect. Defaults of keys that the files of its
/// points replace are omitted, so that the text can be read again. Files have other names where `names`
/// has one.
pub(crate) fn written(scenario: &Scenario, points: &[Point], names: &FileNames) -> Result<String, String> {
    let files: BTreeSet<&str> =
        points.iter().flat_map(|point| point.scenario.files()).map(|(key, _)| key).collect();
    let mut written = scenario.to_toml()?;
    let family = scenario.family();
    family.unused.iter().for_each(|(key, _)| remove(&mut written, key));
    if !files.is_empty() {
        let (network, selected) = (Network::default(), scenario.selected.defaults());
        let defaults = Scenario { network, selected, ..scenario.clone() }.to_toml()?;
        let read = replaced(family).filter(|(file, _)| files.contains(file));
        let of_network = files.iter().any(|file| file.starts_with("network.")).then_some(&"network.nodes");
        let of_family = files.iter().any(|file| !file.starts_with("network."));
        let left_out = family.files.left_out.iter().filter(|_| of_family);
        for key in read.flat_map(|(_, keys)| keys).chain(of_network).chain(left_out) {
            if get(&written, key) == get(&defaults, key) {
                remove(&mut written, key);
            }
        }
    }
    // The latencies of regions are those of all pairs, in every run: none can be without regions.
    if scenario.network.regions.is_some() && scenario.network.latency == Network::default().latency {
        remove(&mut written, "network.latency");
    }
    write_links(&mut written, points);
    rename(&mut written, names);
    text(written, scenario, points).map_err(|error| error.to_string())
}

/// The dotted keys with the values in effect.
type InEffect = BTreeMap<String, toml::Value>;

/// Returns the values of the protocol that are in effect, with those of its preset, and the values of
/// other sections that follow from it.
pub(crate) fn in_effect(scenario: &Scenario) -> InEffect {
    fn add(values: &mut InEffect, key: &str, value: &toml::Value) {
        match value {
            toml::Value::Table(table) if !table.contains_key("kind") => {
                table.iter().for_each(|(below, value)| add(values, &format!("{key}.{below}"), value));
            }
            value => drop(values.insert(key.to_owned(), value.clone())),
        }
    }
    let mut values = InEffect::new();
    let protocol = (scenario.selected.protocol_kind().in_effect)(scenario).unwrap_or_default();
    protocol.iter().for_each(|(key, value)| add(&mut values, &format!("protocol.{key}"), value));
    for (key, value) in (scenario.family().in_effect)(scenario) {
        add(&mut values, key, &value);
    }
    values
}

/// Returns the values in effect that all points of each run share, and the keys in which they differ.
fn of_runs(points: &[Point]) -> (BTreeMap<&str, InEffect>, BTreeSet<String>) {
    let mut runs: BTreeMap<&str, InEffect> = BTreeMap::new();
    let mut varying = BTreeSet::new();
    // Seeds change no key.
    let seed = points.first().map(|point| point.seed);
    for point in points.iter().filter(|point| Some(point.seed) == seed) {
        let own = in_effect(&point.scenario);
        match runs.get_mut(point.run.as_str()) {
            None => drop(runs.insert(&point.run, own)),
            Some(shared) => shared.retain(|key, value| {
                let is_shared = own.get(key) == Some(value);
                if !is_shared {
                    varying.insert(key.clone());
                }
                is_shared
            }),
        }
    }
    (runs, varying)
}

/// Renders values in effect as comments that stand before the keys of a section.
fn comments<'a>(values: impl Iterator<Item = (&'a String, &'a toml::Value)>) -> String {
    let lines: String = values.map(|(key, value)| format!("# {key} = {value}\n")).collect();
    if lines.is_empty() { lines } else { format!("# Also in effect:\n{lines}") }
}

/// Renders the table of a scenario section by section. Comments before a section have the values in
/// effect that it does not set; comments before a run those that differ from the scenario's.
fn text(written: toml::Table, scenario: &Scenario, points: &[Point]) -> Result<String, toml::ser::Error> {
    let (runs, varying) = of_runs(points);
    let mut own = in_effect(scenario);
    own.retain(|key, _| !varying.contains(key));
    let of_section = |section: &str| {
        let unset = own.iter().filter(|(key, _)| is_within(key, section) && get(&written, key).is_none());
        comments(unset)
    };
    let of_run = |run: &toml::Value| {
        let values = run.get("name").and_then(toml::Value::as_str).and_then(|name| runs.get(name));
        let set = run.get("set").and_then(toml::Value::as_table);
        let is_set = |key: &str| set.is_some_and(|set| set.keys().any(|own| is_within(key, own)));
        let values = values.into_iter().flatten();
        let differing = values.filter(|(key, value)| own.get(*key) != Some(*value) && !is_set(key));
        comments(differing)
    };
    let mut chunks = Vec::new();
    for (section, value) in &written {
        match value {
            toml::Value::Array(runs) if section == "run" => {
                let chunk = |run: &toml::Value| (of_run(run), toml::Value::Array(vec![run.clone()]));
                chunks.extend(runs.iter().map(chunk).map(|(comment, run)| (section, comment, run)));
            }
            value => chunks.push((section, of_section(section), value.clone())),
        }
    }
    let mut text = String::new();
    for (section, comment, value) in chunks {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &comment;
        text += &toml::to_string(&toml::Table::from_iter([(section.clone(), value)]))?;
    }
    Ok(text)
}
