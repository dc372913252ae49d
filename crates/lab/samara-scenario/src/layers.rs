//! The layers of a scenario: the file, the command line, the values of a sweep and the keys of a run.
//! Keys of a layer replace those of the layers below, and keys there that exclude them.

use samara_document::Mismatch;
use samara_document::keys::{get, get_mut, is_within, remove, set_key};

use crate::family::{self, FamilySpec};
use crate::schema::Forms;

/// Keys of files, each with the keys that it replaces. If a layer sets the file, the replaced keys of
/// those below are removed. A layer with both is an error.
const REPLACED: [(&str, &[&str]); 2] = [
    ("network.latency_file", &["network.latency", "network.regions.latency"]),
    (
        "network.nodes_file",
        &["network.bandwidth", "network.uplink", "network.downlink", "network.validation_time"],
    ),
];

/// The key that sets two others.
pub(crate) const BOTH_RATES: &str = "network.bandwidth";
pub(crate) const RATES: [&str; 2] = ["network.uplink", "network.downlink"];

/// Returns the keys of files of the network and of a family, each with the keys that it replaces.
pub(crate) fn replaced(
    family: &FamilySpec,
) -> impl Iterator<Item = (&'static str, &'static [&'static str])> + use<> {
    REPLACED.into_iter().chain(family.files.replaced.iter().copied())
}

/// Returns true if a file that the scenario names replaces the key.
pub(crate) fn is_replaced(key: &str, family: &FamilySpec, scenario: &toml::Table) -> bool {
    replaced(family).any(|(file, keys)| {
        get(scenario, file).is_some() && keys.iter().any(|replaced| is_within(key, replaced))
    })
}

/// A layer: keys and their values.
pub(crate) type Layer<'a> = Vec<(&'a str, &'a toml::Value)>;

/// Sets the keys of a layer in the table of those below. `asked` are keys of these that the user has
/// asked for: another kind of their table does not remove them, so that they are refused if it lacks them.
pub(crate) fn merge(
    table: &mut toml::Table,
    mut layer: Layer<'_>,
    asked: &[(String, String)],
    forms: &Forms,
) -> Result<(), Mismatch> {
    layer.iter().for_each(|(key, value)| clear_superseded(table, (key, value), asked, forms));
    // A table comes before its keys, and both rates before one of them.
    layer.sort_by_key(|(key, _)| (key.matches('.').count(), *key != BOTH_RATES));
    for (key, value) in layer {
        if RATES.contains(&key)
            && let Some(network) = get_mut(table, "network")
            && let Some(both) = network.remove("bandwidth")
        {
            // Keeps the value of the other rate.
            network.insert("uplink".to_owned(), both.clone());
            network.insert("downlink".to_owned(), both);
        }
        set_key(table, key, value.clone()).map_err(|message| Mismatch::of(message).below(key))?;
    }
    Ok(())
}

/// Removes keys that `key` supersedes, before it is set to `value`.
fn clear_superseded(
    table: &mut toml::Table,
    (key, value): (&str, &toml::Value),
    asked: &[(String, String)],
    forms: &Forms,
) {
    if key == BOTH_RATES {
        RATES.iter().for_each(|rate| remove(table, rate));
    }
    if key == "protocol.kind" && get(table, key) != Some(value) {
        // Another protocol has other parameters.
        table.remove("protocol");
    }
    if let Some(name) = key.strip_suffix(".kind")
        && let Some(kept) = value.as_str().and_then(|kind| forms.keys_with_kind(name, kind))
        && let Some(section) = get_mut(table, name)
    {
        let is_asked = |key: &str| asked.iter().any(|(own, _)| is_within(own, &format!("{name}.{key}")));
        section.retain(|key, _| kept.contains(key) || is_asked(key));
    }
    let files = family::all().into_iter().flat_map(replaced).filter(|(file, _)| is_within(key, file));
    files.flat_map(|(_, keys)| keys).for_each(|key| remove(table, key));
}
