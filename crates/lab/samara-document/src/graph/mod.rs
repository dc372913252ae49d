//! Graphs from files: edge lists of NetworkX, SNAP and Gephi, and GraphML
//! (<http://graphml.graphdrawing.org/>).

mod edge_list;
mod graphml;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::latency::unit_of;
use crate::table::{Names, listed};
use crate::{Inputs, Network, text};

/// Maximum number of nodes in a graph, the same as in a simulation.
const NODES_MAX: usize = 1 << 20;
/// Maximum number of edges: 64 links for each of the maximum number of nodes.
const EDGES_MAX: usize = 1 << 26;

/// Attributes of edges that are latencies. The first one present is used.
const LATENCIES: [&str; 3] = ["latency", "delay", "rtt"];
/// Attributes of edges that are shares of lost packets. The first one present is used.
pub(crate) const LOSSES: [&str; 2] = ["packet_loss", "loss"];

#[derive(Clone, Debug, Default)]
pub struct GraphFile {
    /// The names of its nodes, in the order of their first appearance.
    pub names: Arc<Names>,
    /// The ends of its edges, as indices of names. The first end dials. Two nodes have one edge.
    pub edges: Vec<(u32, u32)>,
    /// Whether the file is a table of host numbers with the header `dialer,listener`.
    pub is_table: bool,
    /// Reports of content that the reader omitted or merged.
    pub notes: Vec<String>,
    /// A report of values beside the nodes of edges, which no link uses. Latencies may use them if they
    /// come from the same file.
    pub beside: Option<String>,
    /// Attributes by node; empty for edge lists.
    pub(crate) nodes: Vec<Attributes>,
    /// All edges of the file with their attributes; empty for edge lists.
    pub(crate) links: Vec<Link>,
    /// The labels of nodes whose names are ids, since labels are missing or not unique.
    labels: Vec<Option<String>>,
    /// How many times the file has each attribute that no reader uses, by owner and name.
    unknown: BTreeMap<(Owner, String), usize>,
}

/// An edge as the file has it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Whether its attributes apply to this direction only.
    pub(crate) is_directed: bool,
    pub(crate) attributes: Attributes,
}

/// The supported attributes of a node or an edge, by their names in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) line: u32,
    pub(crate) values: BTreeMap<String, String>,
}

/// The element that an attribute belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Graph,
    Node,
    Edge,
}

impl Owner {
    fn plural(self) -> &'static str {
        match self {
            Self::Graph => "the graph",
            Self::Node => "nodes",
            Self::Edge => "edges",
        }
    }
}

impl GraphFile {
    /// Reads a graph in any of the formats.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("graph {file}"), || {
            let text = inputs.table(file)?;
            let is_xml = text.trim_start().starts_with('<');
            let graph = if is_xml { graphml::read(file, &text)? } else { edge_list::read(file, &text)? };
            if graph.edges.is_empty() {
                return Err(format!("{file}: has no edges"));
            }
            Ok(graph)
        })
    }

    /// A node for people: its name, and its label if that is not its name.
    pub(crate) fn shown(&self, node: u32) -> String {
        let name = &self.names.all()[node as usize];
        match self.labels.get(node as usize) {
            Some(Some(label)) if label != name => format!("{name} (\"{label}\")"),
            _ => name.clone(),
        }
    }

    pub(crate) fn latency_attribute(&self) -> Option<&str> {
        let attributes = self.edge_attributes();
        LATENCIES.iter().find_map(|wanted| attributes.iter().copied().find(|name| unit_of(name).0 == *wanted))
    }

    pub fn has_latencies(&self) -> bool {
        self.latency_attribute().is_some()
    }

    fn node_attributes(&self) -> BTreeSet<&str> {
        self.nodes.iter().flat_map(|node| node.values.keys().map(String::as_str)).collect()
    }

    pub(crate) fn edge_attributes(&self) -> BTreeSet<&str> {
        self.links.iter().flat_map(|link| link.attributes.values.keys().map(String::as_str)).collect()
    }
}

/// Notes on attributes of graphs that a network does not use.
pub fn unused_attributes(network: &Network, inputs: &Inputs) -> Result<Vec<String>, String> {
    let links = network.topology.file();
    let latencies = network.latency_file.as_ref();
    let named = [links, network.nodes_file.as_deref(), latencies.map(|spec| spec.file.as_str())];
    let files: BTreeSet<&str> = named.into_iter().flatten().collect();
    let mut notes = Vec::new();
    for file in files {
        if !inputs.table(file)?.trim_start().starts_with('<') {
            continue;
        }
        let graph = GraphFile::read(file, inputs)?;
        let has = |attributes: &BTreeSet<&str>, what: &str, key: &str| {
            let names = listed(attributes.iter().copied());
            format!("{file}: its {what} have {names}, which has no effect; network.{key} would use it")
        };
        let of_nodes = graph.node_attributes();
        if !of_nodes.is_empty() && network.nodes_file.as_deref() != Some(file) {
            notes.push(has(&of_nodes, "nodes", "nodes_file"));
        }
        let mut of_edges = graph.edge_attributes();
        if let Some(spec) = latencies.filter(|spec| spec.file == file) {
            if let Some(used) = graph.latency_attribute() {
                let (name, _) = unit_of(used);
                let reverse = used.replacen(name, &format!("{name}_reverse"), 1);
                of_edges.retain(|attribute| *attribute != used && *attribute != reverse);
            }
            let is_loss = |name: &str| spec.loss.as_ref().is_some_and(|loss| loss.eq_ignore_ascii_case(name));
            of_edges.retain(|attribute| !is_loss(attribute));
            let (losses, others): (BTreeSet<&str>, BTreeSet<&str>) =
                of_edges.into_iter().partition(|attribute| LOSSES.contains(attribute));
            if !losses.is_empty() {
                notes.push(has(&losses, "edges", "latency_file.loss"));
            }
            if !others.is_empty() {
                let names = listed(others.iter().copied());
                let used = graph.latency_attribute().unwrap_or_default();
                notes.push(format!("{file}: its edges have {names} beside {used}, which has no effect"));
            }
        } else if !of_edges.is_empty() {
            notes.push(has(&of_edges, "edges", "latency_file"));
        }
        for owner in [Owner::Graph, Owner::Node, Owner::Edge] {
            let of_owner = graph.unknown.iter().filter(|((of, _), _)| *of == owner);
            let names: Vec<String> = of_owner.map(|((_, name), count)| format!("{name} ({count})")).collect();
            if !names.is_empty() {
                let names = listed(names.iter().map(String::as_str));
                notes.push(format!(
                    "{file}: unknown attributes of {} have no effect: {names}",
                    owner.plural()
                ));
            }
        }
    }
    Ok(notes)
}

/// Builds a graph from nodes and edges in the order of a file.
#[derive(Default)]
struct Builder<'a> {
    file: &'a str,
    names: Names,
    edges: Vec<(u32, u32)>,
    /// The directions in which each edge is present.
    present: FxHashMap<(u32, u32), [bool; 2]>,
    /// Edges that are omitted, with the first of each kind.
    loops: Omitted,
    reversed: Omitted,
    parallel: Omitted,
}

/// Edges that are no links of their own.
#[derive(Clone, Copy, Debug, Default)]
struct Omitted {
    count: usize,
    first: Option<(u32, u32)>,
}

impl Omitted {
    fn add(&mut self, edge: (u32, u32)) {
        self.count += 1;
        self.first.get_or_insert(edge);
    }
}

/// The direction of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// The same as the edge from its second node to its first.
    None,
    /// From the first node to the second.
    Forward,
    /// The format does not state it.
    Unknown,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str) -> Self {
        Self { file, ..Self::default() }
    }

    fn wrong(&self, line: u32, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.file)
    }

    fn node(&mut self, line: u32, name: &str) -> Result<u32, String> {
        if let Some(why) = text::control_of_name(name) {
            return Err(self.wrong(line, format_args!("the name `{name}` of a node {why}")));
        }
        let number = self.names.number(name);
        if self.names.len() > NODES_MAX {
            return Err(self.wrong(line, format_args!("more than {NODES_MAX} nodes")));
        }
        Ok(number)
    }

    /// Adds an edge. Loops and further edges between the same nodes are counted and omitted.
    fn edge(&mut self, line: u32, from: u32, to: u32, direction: Direction) -> Result<(), String> {
        if from == to {
            self.loops.add((from, to));
            return Ok(());
        }
        let known = self.present.entry((from.min(to), from.max(to))).or_default();
        let is_other = known[usize::from(from < to)];
        if std::mem::replace(&mut known[usize::from(from > to)], true)
            || (is_other && direction == Direction::None)
        {
            self.parallel.add((from, to));
            return Ok(());
        }
        if is_other {
            self.reversed.add((from, to));
            return Ok(());
        }
        if self.edges.len() == EDGES_MAX {
            return Err(self.wrong(line, format_args!("more than {EDGES_MAX} edges")));
        }
        self.edges.push((from, to));
        Ok(())
    }

    fn finish(self) -> GraphFile {
        let all = [
            (
                self.parallel,
                "repeat another edge",
                "two nodes have one link, with the least latency of its edges",
            ),
            (
                self.reversed,
                "are listed in both directions",
                "each is one link, dialed by the first end listed",
            ),
            (self.loops, "from a node to itself are no links", "only their latencies can have an effect"),
        ];
        let note = |(omitted, what, then): (Omitted, &str, &str)| {
            let name = |node: u32| &self.names.all()[node as usize];
            let (from, to) = omitted.first?;
            let first = format!("the first from {} to {}", name(from), name(to));
            Some(format!("{}: {} edges {what} ({first}); {then}", self.file, omitted.count))
        };
        let notes = all.into_iter().filter_map(note).collect();
        GraphFile { names: Arc::new(self.names), edges: self.edges, notes, ..GraphFile::default() }
    }
}
