//! All of a run's network, made from its scenario and a seed.

use crate::scenario::{
    Columns, Files, Latency, PlannedRun, Publisher, Scenario, ScenarioError, Topology, Workload,
};

use super::custody::{check_custody, draw_custody, read_custody, repair_custody};
use super::graph::Graph;
use super::hosts::{Host, class_names, draw_classes, draw_regions, host};
use super::latency::{LATENCY_FLOOR, LatencyModel, spans};
use super::{Stream, barabasi_albert, full_mesh, import, random_regular, regional, regions, ring};

/// Hosts, links, latencies, and who publishes and subscribes.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// All hosts.
    pub hosts: Vec<Host>,
    /// The names of classes; the first one is of hosts that are of none.
    pub classes: Vec<String>,
    /// The names of regions; empty if there are none.
    pub regions: Vec<String>,
    /// Who is linked to whom.
    pub graph: Graph,
    /// One-way latencies.
    pub latency: LatencyModel,
    /// Who publishes.
    pub publisher: u32,
    /// The node that only observes.
    pub observer: Option<u32>,
    /// The columns that each node subscribes to, sorted; all of them for an observer, and for the publisher if it subscribes
    /// to all.
    pub custody: Vec<Vec<u16>>,
    /// What had to be adapted, for people to read.
    pub notes: Vec<String>,
}

/// A network that cannot be made, or in which some cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message} (allowed: {allowed})")]
pub struct BuildError {
    /// The key of the scenario that is at fault.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
}

fn error<T>(key: &str, message: impl Into<String>, allowed: impl Into<String>) -> Result<T, BuildError> {
    Err(BuildError { key: key.to_owned(), message: message.into(), allowed: allowed.into() })
}

impl PlannedRun {
    /// The network of this run with a seed.
    ///
    /// # Errors
    /// What [`Blueprint::build`] finds, with its place in the file.
    pub fn blueprint(&self, seed: u64) -> Result<Blueprint, ScenarioError> {
        Blueprint::build(&self.scenario, self.files(), seed)
            .map_err(|error| self.problem(&error.key, error.message, error.allowed))
    }
}

impl Blueprint {
    /// Makes the network of a scenario that keeps the rules. Networks of the same seed are the same in all that their
    /// scenarios have in common.
    ///
    /// # Errors
    /// Files that cannot be read, parameters for which no network was found, and nodes that cannot be reached.
    pub fn build(scenario: &Scenario, files: &Files, seed: u64) -> Result<Self, BuildError> {
        let network = &scenario.network;
        let Workload::Columns(columns) = &scenario.workload;
        let imported = imported(&network.topology, files, network.nodes)?;
        let nodes = network.nodes.or(imported.as_ref().map(|graph| graph.nodes)).unwrap_or(0);
        check_numbers(scenario, columns, nodes)?;
        let class_of = draw_classes(nodes, &network.class, &mut Stream::Classes.rng(seed));
        let (region_of, regions, latency) = located(scenario, files, &class_of, seed)?;
        let host_of = |(class, region): (&u16, &u16)| host(network, *class, *region);
        let hosts: Vec<Host> = class_of.iter().zip(&region_of).map(host_of).collect();
        let classes = class_names(&network.class);
        let publisher = publisher(columns, &classes, &class_of, seed)?;
        let mut edges = match imported {
            Some(graph) => graph.edges,
            None => drawn(&network.topology, nodes, &region_of, seed)?.edges().to_vec(),
        };
        if let Some(observer) = columns.observer {
            if observer == publisher {
                return error(
                    "workload.observer",
                    "the publisher that was drawn cannot observe itself",
                    "a publisher that is not drawn",
                );
            }
            let link =
                |(a, b): &(u32, u32)| (*a, *b) == (observer, publisher) || (*b, *a) == (observer, publisher);
            if !edges.iter().any(link) {
                edges.push((observer, publisher));
            }
        }
        let graph = Graph::new(nodes, edges)
            .or_else(|failed| error("network.topology", failed.to_string(), "a simple graph"))?;
        check_connected(&graph, publisher)?;
        let mut notes = Vec::new();
        if latency.is_raised() {
            notes.push(format!("Latencies below {LATENCY_FLOOR:?} are raised to it."));
        }
        let custody = custody(columns, &graph, publisher, files, seed, &mut notes)?;
        let observer = columns.observer;
        Ok(Self { hosts, classes, regions, graph, latency, publisher, observer, custody, notes })
    }

    /// How many hosts there are.
    pub fn nodes(&self) -> u32 {
        self.hosts.len() as u32
    }
}

/// The graph of a file, if it comes from one.
fn imported(
    topology: &Topology,
    files: &Files,
    nodes: Option<u32>,
) -> Result<Option<import::Imported>, BuildError> {
    let Topology::File { file } = topology else { return Ok(None) };
    let key = "network.topology.file";
    let text = files.read(file).or_else(|failed| unreadable(key, &failed))?;
    let xml = text.trim_start().starts_with('<');
    let graph = if xml { import::read_graphml(&text) } else { import::read_edges(&text) };
    let graph = graph.or_else(|failed| {
        error(
            key,
            format!("{file:?} is no graph: {failed}"),
            "CSV with the columns dialer,listener, or GraphML",
        )
    })?;
    if let Some(nodes) = nodes.filter(|nodes| *nodes < graph.nodes) {
        let message = format!("{nodes} is too few: {file:?} has nodes up to {}", graph.nodes - 1);
        return error("network.nodes", message, format!("{} or more, or leave it out", graph.nodes));
    }
    Ok(Some(graph))
}

fn unreadable<T>(key: &str, failed: &crate::scenario::FileError) -> Result<T, BuildError> {
    let allowed = match failed {
        crate::scenario::FileError::NoDataSet { there_are, .. } => there_are.clone(),
        crate::scenario::FileError::Io { .. } => {
            "a file that can be read, relative to the scenario file, or \"builtin:NAME\"".to_owned()
        }
    };
    error(key, failed.to_string(), allowed)
}

/// Numbers of nodes, now that it is known how many there are.
fn check_numbers(scenario: &Scenario, columns: &Columns, nodes: u32) -> Result<(), BuildError> {
    if nodes < 2 {
        return error("network.nodes", format!("there are {nodes} nodes"), "2 or more");
    }
    let last = nodes - 1;
    let number = |key: &str, node: u32| match node < nodes {
        true => Ok(()),
        false => error(key, format!("there is no node {node}"), format!("0 to {last}")),
    };
    if let Publisher::Node(node) = columns.publisher {
        number("workload.publisher", node)?;
    }
    columns.observer.map_or(Ok(()), |node| number("workload.observer", node))?;
    for (index, fault) in scenario.fault.iter().enumerate() {
        let key = format!("fault.{index}.nodes");
        fault.nodes.iter().try_for_each(|node| number(&key, *node))?;
    }
    let counted: u64 = scenario.network.class.iter().map(|class| u64::from(class.count.unwrap_or(0))).sum();
    match counted <= u64::from(nodes) {
        true => Ok(()),
        false => error(
            "network.class",
            format!("the classes have {counted} hosts of {nodes}"),
            format!("at most {nodes} together"),
        ),
    }
}

type Located = (Vec<u16>, Vec<String>, LatencyModel);

/// The region of each host, and the latencies.
fn located(scenario: &Scenario, files: &Files, class_of: &[u16], seed: u64) -> Result<Located, BuildError> {
    let network = &scenario.network;
    if let Some(latency) = LatencyModel::plain(&network.latency) {
        return Ok((vec![0; class_of.len()], Vec::new(), latency));
    }
    let Latency::Regions(table) = &network.latency else { unreachable!("all other kinds are plain") };
    let key = "network.latency.table";
    let table = match regions::of(table, files) {
        Ok(table) => table,
        Err(regions::RegionTableError::File(failed)) => return unreadable(key, &failed),
        Err(failed) => {
            return error(
                key,
                failed.to_string(),
                "CSV with the columns region, weight and one for each region",
            );
        }
    };
    let mut fixed = vec![None];
    for (index, class) in network.class.iter().enumerate() {
        let Some(name) = &class.region else {
            fixed.push(None);
            continue;
        };
        match table.names.iter().position(|known| known == name) {
            Some(region) => fixed.push(Some(region as u16)),
            None => {
                let key = format!("network.class.{index}.region");
                return error(&key, format!("there is no region {name:?}"), table.names.join(", "));
            }
        }
    }
    let region_of = draw_regions(class_of, &fixed, &table.weights, &mut Stream::Regions.rng(seed));
    Ok((region_of, table.names, spans(&table.latency)))
}

fn publisher(columns: &Columns, classes: &[String], class_of: &[u16], seed: u64) -> Result<u32, BuildError> {
    let mut rng = Stream::Publisher.rng(seed);
    let candidates: Vec<u32> = match &columns.publisher {
        Publisher::Node(node) => return Ok(*node),
        Publisher::Random => (0..class_of.len() as u32).collect(),
        Publisher::Class(name) => {
            let class = classes.iter().skip(1).position(|class| class == name).map(|index| index as u16 + 1);
            (0..class_of.len() as u32).filter(|node| Some(class_of[*node as usize]) == class).collect()
        }
    };
    match rng.choose(&candidates) {
        Some(node) => Ok(*node),
        None => error("workload.publisher", "the class has no hosts", "a class with at least one host"),
    }
}

fn drawn(topology: &Topology, nodes: u32, region_of: &[u16], seed: u64) -> Result<Graph, BuildError> {
    let mut rng = Stream::Graph.rng(seed);
    let graph = match topology {
        Topology::RandomRegular { degree } => random_regular(nodes, *degree, &mut rng),
        Topology::BarabasiAlbert { m, seed: own } => barabasi_albert(nodes, *m, own.unwrap_or(seed)),
        Topology::FullMesh => Some(full_mesh(nodes)),
        Topology::Ring => Some(ring(nodes)),
        Topology::Regions { degree, local } => Some(regional(region_of, *degree, local.fraction(), &mut rng)),
        Topology::File { .. } => unreachable!("files are imported, not drawn"),
    };
    match graph {
        Some(graph) => Ok(graph),
        None => {
            error("network.topology", "no connected graph of this kind was found", "more links for each node")
        }
    }
}

fn check_connected(graph: &Graph, publisher: u32) -> Result<(), BuildError> {
    let apart = graph.unreachable_from(publisher);
    if apart.is_empty() {
        return Ok(());
    }
    let message =
        format!("no path leads from the publisher (node {publisher}) to {}", nodes_in_words(&apart));
    error("network.topology", message, "a connected graph")
}

fn nodes_in_words(nodes: &[u32]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<String> = nodes.iter().take(SHOWN).map(u32::to_string).collect();
    let more = nodes.len().saturating_sub(SHOWN);
    let plural = if nodes.len() == 1 { "node" } else { "nodes" };
    match more {
        0 => format!("{plural} {}", names.join(", ")),
        _ => format!("{plural} {} and {more} more", names.join(", ")),
    }
}

fn custody(
    columns: &Columns,
    graph: &Graph,
    publisher: u32,
    files: &Files,
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<Vec<Vec<u16>>, BuildError> {
    let all = || (0..columns.columns).map(|column| column as u16).collect::<Vec<u16>>();
    let key = "workload.custody_file";
    let mut rng = Stream::Custody.rng(seed);
    let mut custody = match &columns.custody_file {
        None => draw_custody(graph.nodes(), columns.columns, columns.custody, &mut rng),
        Some(file) => {
            let text = files.read(file).or_else(|failed| unreadable(key, &failed))?;
            read_custody(&text, graph.nodes(), columns.columns).or_else(|failed| {
                error(key, format!("{file:?}: {failed}"), "CSV with the columns node,column")
            })?
        }
    };
    if columns.publisher_subscribes_all {
        custody[publisher as usize] = all();
    }
    if let Some(observer) = columns.observer {
        custody[observer as usize] = all();
    }
    let idle: Vec<u32> =
        (0..graph.nodes()).filter(|node| custody[*node as usize].is_empty() && *node != publisher).collect();
    if !idle.is_empty() {
        let message = format!("{} subscribe to nothing", nodes_in_words(&idle));
        return error(key, message, "at least one column for every node");
    }
    let unreached = match columns.custody_file.is_some() {
        true => check_custody(graph, &custody, columns.columns, publisher).first().copied(),
        false => match repair_custody(graph, &mut custody, columns.columns, publisher, &mut rng) {
            Ok(0) => None,
            Ok(repaired) => {
                notes.push(format!(
                    "{repaired} of {} subscriptions were drawn again, since no path of subscribers led to them.",
                    u64::from(graph.nodes()) * u64::from(columns.custody)
                ));
                None
            }
            Err(unreached) => Some(unreached),
        },
    };
    let Some(unreached) = unreached else { return Ok(custody) };
    let message = format!(
        "column {} cannot reach node {}: no path of its subscribers leads there",
        unreached.column, unreached.node
    );
    let (key, allowed) = match columns.custody_file.is_some() {
        true => (key, "subscribers of a column that are connected among themselves"),
        false => ("workload.custody", "more columns for each node, or more links"),
    };
    error(key, message, allowed)
}
