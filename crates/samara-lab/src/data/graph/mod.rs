//! Graphs from files: edge lists, GraphML, and GML as Shadow has it.

mod attributes;
mod gml;
mod graphml;
mod list;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::hosts::{HostRow, HostTable, REGIONS_MAX};
use super::latency::{Cells, LatencyTable};
use super::{Inputs, Names};
use attributes::Attributes;

pub(super) use gml::is_gml;

/// Nodes of a graph: as many as a simulation can have.
const NODES_MAX: usize = 1 << 20;
/// Edges: 64 links of each of the most nodes.
const EDGES_MAX: usize = 1 << 26;

/// A graph as a file has it.
#[derive(Clone, Debug, Default)]
pub struct GraphFile {
    /// What its nodes are called, in the order of their first appearance.
    pub names: Arc<Names>,
    /// The ends of its edges, as numbers of names: who dials first.
    pub edges: Vec<(u32, u32)>,
    /// The line of each edge.
    pub lines: Vec<u32>,
    /// Whether it is a table of hosts' numbers with the header `dialer,listener`.
    pub is_table: bool,
    /// What was done with it that whoever wrote it may not expect.
    pub notes: Vec<String>,
    /// By node; empty for edge lists.
    nodes: Vec<Attributes>,
    /// By edge, those left out of `edges` included; empty for edge lists.
    links: Vec<(u32, u32, Attributes)>,
}

impl GraphFile {
    /// Reads a graph in any of the formats.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong; the message names file and line.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("graph {file}"), || Self::parse(file, &inputs.read(file)?))
    }

    fn parse(file: &str, text: &str) -> Result<Self, String> {
        let text = text.trim_start_matches('\u{feff}');
        let graph = if text.trim_start().starts_with('<') {
            graphml::read(file, text)?
        } else if is_gml(text) {
            gml::read(file, text)?
        } else {
            list::read(file, text)?
        };
        if graph.edges.is_empty() {
            return Err(format!("{file}: has no edges"));
        }
        Ok(graph)
    }

    /// Whether edges have latencies.
    pub fn has_latencies(&self) -> bool {
        self.links.iter().any(|(.., attributes)| attributes.has_latency())
    }

    /// Whether nodes have rates.
    pub fn has_rates(&self) -> bool {
        self.nodes.iter().any(Attributes::has_rates)
    }
}

/// Puts a graph together from nodes and edges in the order of a file.
struct Builder<'a> {
    file: &'a str,
    names: Names,
    edges: Vec<(u32, u32)>,
    lines: Vec<u32>,
    /// Which of both directions are there.
    present: FxHashMap<(u32, u32), [bool; 2]>,
    loops: usize,
    reversed: usize,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str) -> Self {
        Self {
            file,
            names: Names::default(),
            edges: Vec::new(),
            lines: Vec::new(),
            present: FxHashMap::default(),
            loops: 0,
            reversed: 0,
        }
    }

    fn wrong(&self, line: u32, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.file)
    }

    fn node(&mut self, line: u32, name: &str) -> Result<u32, String> {
        let number = self.names.number(name);
        if self.names.len() > NODES_MAX {
            return Err(self.wrong(line, format_args!("more than {NODES_MAX} nodes")));
        }
        Ok(number)
    }

    /// Adds an edge; one that is there in the other direction already, or leads back to its node, is counted and left out.
    fn edge(&mut self, line: u32, from: u32, to: u32) -> Result<(), String> {
        if from == to {
            self.loops += 1;
            return Ok(());
        }
        let known = self.present.entry((from.min(to), from.max(to))).or_default();
        let is_other = known[usize::from(from < to)];
        if std::mem::replace(&mut known[usize::from(from > to)], true) {
            let (from, to) = (&self.names.all()[from as usize], &self.names.all()[to as usize]);
            return Err(self.wrong(
                line,
                format_args!(
                    "the edge between {from} and {to} is there twice; between two hosts there is one link"
                ),
            ));
        }
        if is_other {
            self.reversed += 1;
            return Ok(());
        }
        if self.edges.len() == EDGES_MAX {
            return Err(self.wrong(line, format_args!("more than {EDGES_MAX} edges")));
        }
        self.edges.push((from, to));
        self.lines.push(line);
        Ok(())
    }

    fn finish(self) -> GraphFile {
        let mut notes = Vec::new();
        if self.reversed > 0 {
            notes.push(format!(
                "{}: {} edges are there in both directions; they are one link each, dialled as the first says",
                self.file, self.reversed
            ));
        }
        if self.loops > 0 {
            notes.push(format!("{}: {} edges from a node to itself are no links", self.file, self.loops));
        }
        GraphFile {
            names: Arc::new(self.names),
            edges: self.edges,
            lines: self.lines,
            notes,
            ..GraphFile::default()
        }
    }
}

/// The hosts that the nodes of a graph describe.
pub(super) fn hosts(file: &str, inputs: &Inputs) -> Result<HostTable, String> {
    let graph = GraphFile::read(file, inputs)?;
    if graph.nodes.is_empty() {
        return Err(format!("{file}: an edge list says nothing of hosts; use GraphML, GML, or a table"));
    }
    let mut regions = Names::default();
    let rows = graph.names.all().iter().zip(&graph.nodes).map(|(name, node)| {
        let at = |why: String| format!("{file}: node {name}: {why}");
        Ok(HostRow {
            uplink: node.uplink().map_err(at)?,
            downlink: node.downlink().map_err(at)?,
            region: node.region().map(|region| regions.number(region) as u16),
            validation: node.validation().map_err(at)?,
        })
    });
    let rows: Vec<HostRow> = rows.collect::<Result<_, String>>()?;
    if regions.len() > REGIONS_MAX {
        return Err(format!("{file}: more than {REGIONS_MAX} regions"));
    }
    // A column is there for all or for none.
    let some_lack = |has: fn(&HostRow) -> bool| {
        let having = rows.iter().filter(|row| has(row)).count();
        having > 0 && having < rows.len()
    };
    type Column = (&'static str, fn(&HostRow) -> bool);
    let columns: [Column; 4] = [
        ("uplink", |row| row.uplink.is_some()),
        ("downlink", |row| row.downlink.is_some()),
        ("region", |row| row.region.is_some()),
        ("validation_time", |row| row.validation.is_some()),
    ];
    if let Some((column, has)) = columns.into_iter().find(|(_, has)| some_lack(*has)) {
        let without = rows.iter().position(|row| !has(row)).unwrap_or(0);
        return Err(format!(
            "{file}: some nodes have the attribute {column}, but not {}; give it to all or to none",
            graph.names.all()[without]
        ));
    }
    if rows.iter().all(|row| columns.iter().all(|(_, has)| !has(row))) {
        return Err(format!(
            "{file}: no node has an attribute that says something of hosts; expected uplink, downlink, region or validation_time (or \
             host_bandwidth_up and host_bandwidth_down, as Shadow has them)"
        ));
    }
    Ok(HostTable::of((*graph.names).clone(), regions, rows))
}

/// The latencies that the edges of a graph have.
pub(super) fn latencies(file: &str, inputs: &Inputs, cells: &Cells) -> Result<LatencyTable, String> {
    let graph = GraphFile::read(file, inputs)?;
    let mut table = LatencyTable::of_names(file, (*graph.names).clone())?;
    let mut has_any = false;
    for (from, to, edge) in &graph.links {
        let name = |node: &u32| graph.names.all()[*node as usize].as_str();
        let nanos = edge.latency(cells).and_then(Cells::whole);
        let nanos =
            nanos.map_err(|why| format!("{file}: edge from {} to {}: {why}", name(from), name(to)))?;
        has_any |= nanos.is_some();
        let reverse = edge.reverse_latency(cells).and_then(Cells::whole);
        let reverse =
            reverse.map_err(|why| format!("{file}: edge from {} to {}: {why}", name(from), name(to)))?;
        table.set(*from as usize, *to as usize, nanos);
        if reverse.is_some() {
            table.set(*to as usize, *from as usize, reverse);
        }
    }
    if has_any {
        Ok(table)
    } else {
        Err(format!(
            "{file}: no edge has a latency; expected the attribute latency (with its unit, or in that of network.latency_file), or \
             latency_ms"
        ))
    }
}

#[cfg(test)]
mod tests;
