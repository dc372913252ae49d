//! The text of a scenario, and the values that nobody has set and that follow others: notes that say
//! so, and their place in the text.

use std::collections::{BTreeMap, BTreeSet};

use samara_document::keys::{get, remove, set_key};
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

fn sizes(scenario: &Scenario) -> Option<String> {
    followers(scenario).map(|(_, values)| values)
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

/// Renders the table of a scenario section by section, with the sizes of a mesh that follow others as
/// comments before `[protocol]`, and before runs that have others.
fn text(written: toml::Table, scenario: &Scenario, points: &[Point]) -> Result<String, toml::ser::Error> {
    let own = sizes(scenario);
    // The first point of each run. A search for each would take quadratic time.
    let mut first: BTreeMap<&str, &Point> = BTreeMap::new();
    for point in points {
        first.entry(&point.run).or_insert(point);
    }
    let of_run = |run: &toml::Value| {
        let point = first.get(run.get("name").and_then(toml::Value::as_str)?)?;
        sizes(&point.scenario).filter(|sizes| Some(sizes) != own.as_ref())
    };
    let mut chunks = Vec::new();
    for (section, value) in written {
        match value {
            toml::Value::Array(runs) if section == "run" => {
                chunks.extend(
                    runs.into_iter()
                        .map(|run| (section.clone(), of_run(&run), toml::Value::Array(vec![run]))),
                );
            }
            value => {
                let sizes = own.clone().filter(|_| section == "protocol");
                chunks.push((section, sizes, value));
            }
        }
    }
    let mut text = String::new();
    for (section, sizes, value) in chunks {
        if !text.is_empty() {
            text.push('\n');
        }
        if let Some(sizes) = sizes {
            text += &format!("# Also in effect: {sizes}\n");
        }
        text += &toml::to_string(&toml::Table::from_iter([(section, value)]))?;
    }
    Ok(text)
}
