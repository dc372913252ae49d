//! Reads the table of paths of a results directory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use samara_sim::{Cause, Compact, Parts};
use serde::Deserialize;
use serde_json::{Map, Value};

use samara_scenario::OTHER_NODES;

use super::{PATHS, PathRow};
use crate::results::columns::Rows;
use crate::results::tables::CLASS;
use crate::results::{read_json, run_directories};

/// The explained deliveries of a run in a results directory.
#[derive(Clone, Debug)]
pub struct SavedPaths {
    pub run: String,
    /// The parameters that distinguish it.
    pub parameters: Map<String, Value>,
    /// What is delivered, such as "message".
    pub item: String,
    /// One of this many items is explained.
    pub every: u64,
    /// The names of the nodes, by number; empty if their names are numbers.
    pub names: Vec<String>,
    /// The class of each node with deliveries; empty without classes.
    pub classes: BTreeMap<u32, String>,
    pub rows: Vec<PathRow>,
}

#[derive(Deserialize)]
struct RunFile {
    name: String,
    parameters: Map<String, Value>,
    explained: Option<MeansFile>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct MeansFile {
    #[serde(default = "any_item")]
    item: String,
    every: u64,
    causes: Vec<String>,
}

fn any_item() -> String {
    "item".to_owned()
}

impl SavedPaths {
    /// Returns the name of a node.
    pub fn node(&self, number: u32) -> String {
        self.names.get(number as usize).cloned().unwrap_or_else(|| number.to_string())
    }

    /// Returns the number of a node by its name. Without names, these are the numbers.
    pub fn find(&self, name: &str) -> Option<u32> {
        if self.names.is_empty() {
            return name.parse().ok();
        }
        self.names.iter().position(|own| own == name).map(|number| number as u32)
    }

    /// Returns the class of a node; `None` without classes.
    pub fn class(&self, node: u32) -> Option<&str> {
        self.classes.get(&node).map(String::as_str)
    }

    /// Reads the paths of all runs of a results directory, or of those with this name.
    pub fn read(directory: &Path, run: Option<&str>) -> Result<Vec<Self>, String> {
        let paths = run_directories(directory).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::NotFound if directory.is_dir() => "has no results".to_owned(),
                _ => error.to_string(),
            };
            let path = directory.display();
            if directory.join("sweep.parquet").exists() {
                return format!("{path}: a sweep has only metrics; samara run of its scenario keeps paths");
            }
            format!("{path}: {why}; expected a results directory of samara run")
        })?;
        let (mut found, mut names, mut reason) = (Vec::new(), Vec::new(), None);
        for path in paths {
            let one: RunFile = read_json(&path.join("run.json"))?;
            names.push(one.name.clone());
            if run.is_some_and(|run| run != one.name) {
                continue;
            }
            reason = reason.or(one.absent.get(PATHS).cloned());
            if let Some(means) = &one.explained {
                let table = path.join(PATHS).with_extension("parquet");
                let (rows, classes) = (rows(&table, means)?, classes_of_nodes(&table)?);
                let names = names_of_nodes(&path.join("nodes.parquet"))?;
                let (item, every) = (means.item.clone(), means.every);
                let (run, parameters) = (one.name, one.parameters);
                found.push(Self { run, parameters, item, every, names, classes, rows });
            }
        }
        names.dedup();
        match run {
            Some(run) if !names.iter().any(|name| name == run) => {
                Err(format!("there is no run \"{run}\"; the runs are {}", names.join(", ")))
            }
            _ if found.is_empty() => {
                let reason = reason.unwrap_or_else(|| {
                    "run it again with --explain all (in Python: tables=[\"paths\"])".to_owned()
                });
                Err(format!("{}: no run has paths; {reason}", directory.display()))
            }
            _ => Ok(found),
        }
    }
}

/// Reads the names of nodes. There are none if the table is missing, or only has regions.
fn names_of_nodes(path: &Path) -> Result<Vec<String>, String> {
    let mut all: Vec<Option<String>> = Vec::new();
    if path.is_file() {
        Rows::read(path, &["name"], |rows| {
            all.extend(rows.cells::<String>("name")?.map(Option::<&String>::cloned));
            Some(())
        })?;
    }
    Ok(all.into_iter().collect::<Option<_>>().unwrap_or_default())
}

/// Reads the class of each node with deliveries. Nodes without one are [`OTHER_NODES`].
fn classes_of_nodes(path: &Path) -> Result<BTreeMap<u32, String>, String> {
    let mut classes = BTreeMap::new();
    if Rows::has_column(path, CLASS)? {
        Rows::read(path, &["node", CLASS], |rows| {
            let nodes = rows.cells::<u32>("node")?.flatten();
            for (node, class) in nodes.zip(rows.cells::<String>(CLASS)?) {
                classes.entry(*node).or_insert_with(|| class.map_or(OTHER_NODES, String::as_str).to_owned());
            }
            Some(())
        })?;
    }
    Ok(classes)
}

fn rows(path: &Path, means: &MeansFile) -> Result<Vec<PathRow>, String> {
    let causes: Vec<Cause> = means.causes.iter().filter_map(|label| Cause::of_label(label)).collect();
    let flags = ["is_delivery", "is_last"];
    let fixed = ["item", "node", "publisher", "from", "hops", "delivery_latency_ns", "hop_since_ns"];
    let of_causes = causes.iter().flat_map(|cause| cause.columns());
    let names: Vec<&str> = fixed.into_iter().chain(flags).chain(of_causes).collect();
    let mut all = Vec::new();
    Rows::read(path, &names, |rows| {
        let numbers = |name: &str| -> Option<Vec<u64>> {
            Some(rows.cells::<u64>(name)?.map(|cell| cell.copied().unwrap_or(0)).collect())
        };
        let small = |name: &str| -> Option<Vec<u32>> {
            Some(rows.cells::<u32>(name)?.map(|cell| cell.copied().unwrap_or(0)).collect())
        };
        let parts = |place: usize| -> Option<Vec<Parts>> {
            let mut all = vec![Parts::default(); rows.count];
            for cause in &causes {
                let nanos = numbers(cause.columns()[place])?;
                all.iter_mut().zip(nanos).for_each(|(parts, nanos)| parts.add(*cause, nanos));
            }
            Some(all)
        };
        let (items, nanos, since) =
            (numbers("item")?, numbers("delivery_latency_ns")?, numbers("hop_since_ns")?);
        let [nodes, publishers, from, hops] = ["node", "publisher", "from", "hops"].map(small);
        let (nodes, publishers, from, hops) = (nodes?, publishers?, from?, hops?);
        let [is_delivery, is_last] = flags.map(|name| -> Option<Vec<bool>> {
            Some(rows.cells::<bool>(name)?.map(|cell| cell.copied().unwrap_or(false)).collect())
        });
        let (is_delivery, is_last) = (is_delivery?, is_last?);
        let (whole, of_hop) = (parts(0)?, parts(1)?);
        all.extend((0..rows.count).map(|at| PathRow {
            item: items[at],
            node: nodes[at],
            publisher: publishers[at],
            from: from[at],
            hops: hops[at],
            is_delivery: is_delivery[at],
            is_last: is_last[at],
            nanos: nanos[at],
            since_nanos: since[at],
            parts: Compact::from(&whole[at]),
            hop: Compact::from(&of_hop[at]),
        }));
        Some(())
    })?;
    Ok(all)
}
