//! Graphs from files, and which hosts their nodes are.

use std::sync::Arc;

use super::Graph;
use crate::data::graph::GraphFile;
use crate::data::hosts::HostTable;
use crate::data::{Inputs, Names};
use crate::scenario::Scenario;

/// The graph of a scenario's file, and what was done with it that whoever wrote it may not expect.
///
/// The nodes are the hosts that `network.hosts_file` calls so. Without it, names that are all numbers of hosts are these; other names get
/// numbers in the order of their first appearance.
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
    } else if let Some(numbers) = graph.names.as_numbers(nodes) {
        numbers
    } else if let Some(wrong) = out_of_range(&graph, nodes) {
        return Err(format!("{file}:{wrong}"));
    } else if graph.names.len() == nodes as usize {
        (0..nodes).collect()
    } else {
        return Err(format!(
            "{file}: has {} nodes, but network.nodes = {nodes}; remove that, or make them the same",
            graph.names.len()
        ));
    };
    if graph.has_latencies() && !is_used(network.latency_file.as_ref().map(|spec| spec.file.as_str()), file) {
        notes.push(format!(
            "{file}: its edges have latencies, which are not used; network.latency_file would"
        ));
    }
    if graph.has_rates() && !is_used(network.hosts_file.as_deref(), file) {
        notes.push(format!("{file}: its nodes have rates, which are not used; network.hosts_file would"));
    }
    let edges = graph.edges.iter().map(|(a, b)| (host_of[*a as usize], host_of[*b as usize]));
    Ok((Graph { nodes, edges: edges.collect() }, notes))
}

fn is_used(other: Option<&str>, file: &str) -> bool {
    other.is_some_and(|other| other == file)
}

/// The first edge of a table of numbers that has a number which no host has.
fn out_of_range(graph: &GraphFile, nodes: u32) -> Option<String> {
    let numbers = graph.names.as_numbers(u32::MAX).filter(|_| graph.is_table)?;
    let edges = graph.edges.iter().zip(&graph.lines);
    let ends = edges.map(|((a, b), line)| (numbers[*a as usize], numbers[*b as usize], line));
    let (a, b, line) = ends.into_iter().find(|(a, b, _)| *a >= nodes || *b >= nodes)?;
    Some(format!("{line}: edge {a},{b}, but network.nodes = {nodes}: hosts are numbered 0 to {}", nodes - 1))
}

/// What the file of a graph calls the hosts; `None` if by their numbers.
pub(crate) fn file_names(scenario: &Scenario, inputs: &Inputs) -> Result<Option<Arc<Names>>, String> {
    let Some(file) = &scenario.network.topology.file else { return Ok(None) };
    let graph = GraphFile::read(file, inputs)?;
    let is_named = graph.names.as_numbers(scenario.network.nodes).is_none();
    Ok(is_named.then(|| Arc::clone(&graph.names)))
}

/// How many hosts the graph of a file has.
pub(crate) fn nodes_of(file: &str, inputs: &Inputs) -> Result<u32, String> {
    let graph = GraphFile::read(file, inputs)?;
    // Of a table of numbers hosts may be missing that have no links.
    let numbers = graph.names.as_numbers(u32::MAX).filter(|_| graph.is_table);
    let largest = numbers.and_then(|numbers| numbers.into_iter().max());
    Ok(largest.map_or(graph.names.len() as u32, |largest| largest + 1))
}
