//! Graphs from files, and which hosts their nodes are.

use std::sync::Arc;

use super::Graph;
use crate::data::graph::GraphFile;
use crate::data::hosts::HostTable;
use crate::data::{Inputs, Names};
use crate::scenario::Scenario;

/// The graph of a scenario's file, and notes on how it was read.
///
/// The nodes are the hosts of these names in `network.hosts_file`. Without it, names that are all numbers of hosts are these; other
/// names get numbers in the order of their first appearance. Of a table of numbers, the first `network.nodes` hosts are used.
pub(crate) fn read_file(scenario: &Scenario, inputs: &Inputs) -> Result<(Graph, Vec<String>), String> {
    let network = &scenario.network;
    let file = network.topology.file.as_deref().ok_or("there is no file of a graph")?;
    let (nodes, graph) = (network.nodes, GraphFile::read(file, inputs)?);
    let mut notes = graph.notes.clone();
    let host_of: Vec<u32> = if let Some(hosts) = &network.hosts_file {
        let table = HostTable::read(hosts, inputs)?;
        let find = |name: &String| {
            table
                .find(name)
                .ok_or_else(|| format!("{file}: {hosts} has no host {name}, which is a node here"))
        };
        graph.names.all().iter().map(find).collect::<Result<_, _>>()?
    } else if let Some(numbers) = host_numbers(&graph, nodes) {
        numbers
    } else if graph.names.len() == nodes as usize {
        (0..nodes).collect()
    } else {
        return Err(format!(
            "{file}: has {} nodes, but network.nodes = {nodes}; remove that, or make them the same",
            graph.names.len()
        ));
    };
    if let Some(last) = host_of.iter().max().filter(|last| **last >= nodes) {
        notes.push(format!("{file}: the first {nodes} of its {} hosts are used", last + 1));
    }
    if graph.has_latencies() && !is_used(network.latency_file.as_ref().map(|spec| spec.file.as_str()), file) {
        notes.push(format!(
            "{file}: its edges have latencies, which are not used; network.latency_file would"
        ));
    }
    if graph.has_rates() && !is_used(network.hosts_file.as_deref(), file) {
        notes.push(format!("{file}: its nodes have rates, which are not used; network.hosts_file would"));
    }
    let edges = graph.edges.iter().map(|(a, b)| (host_of[*a as usize], host_of[*b as usize]));
    let edges = edges.filter(|(a, b)| *a.max(b) < nodes).collect();
    Ok((Graph { nodes, edges }, notes))
}

fn is_used(other: Option<&str>, file: &str) -> bool {
    other.is_some_and(|other| other == file)
}

/// The hosts that the names of a graph are, if they are numbers: of any size in a table of hosts, else below `nodes`.
fn host_numbers(graph: &GraphFile, nodes: u32) -> Option<Vec<u32>> {
    graph.names.as_numbers(if graph.is_table { u32::MAX } else { nodes })
}

/// The names of hosts in the file of a graph; `None` if they are numbers.
pub(crate) fn file_names(scenario: &Scenario, inputs: &Inputs) -> Result<Option<Arc<Names>>, String> {
    let Some(file) = &scenario.network.topology.file else { return Ok(None) };
    let graph = GraphFile::read(file, inputs)?;
    let is_named = host_numbers(&graph, scenario.network.nodes).is_none();
    Ok(is_named.then(|| Arc::clone(&graph.names)))
}

/// How many hosts the graph of a file has.
pub(crate) fn nodes_of(file: &str, inputs: &Inputs) -> Result<u32, String> {
    let graph = GraphFile::read(file, inputs)?;
    // A table of numbers may lack hosts that have no links.
    let numbers = host_numbers(&graph, 0);
    let largest = numbers.and_then(|numbers| numbers.into_iter().max());
    Ok(largest.map_or(graph.names.len() as u32, |largest| largest + 1))
}
