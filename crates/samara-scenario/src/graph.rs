//! Graphs from files: edge lists of NetworkX, SNAP and Gephi, and GraphML
//! (<http://graphml.graphdrawing.org/>).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roxmltree::{Document, Node};
use rustc_hash::FxHashMap;

use crate::Inputs;
use crate::latency::unit_of;
use crate::table::{Names, column_of, delimiter_or_blank, each_line};

/// Maximum number of nodes in a graph, the same as in a simulation.
const NODES_MAX: usize = 1 << 20;
/// Maximum number of edges: 64 links for each of the maximum number of nodes.
const EDGES_MAX: usize = 1 << 26;
/// Maximum size of XML in bytes. In memory it needs about ten times as much.
const XML_BYTES_MAX: usize = 256 << 20;

/// Names of the column with the dialing end in a header.
const FROM: [&str; 5] = ["dialer", "source", "from", "src", "fromnodeid"];
/// Names of the column with the other end.
const TO: [&str; 6] = ["listener", "target", "to", "dst", "destination", "tonodeid"];
/// Attributes that name nodes, if each node has a different value.
const NAMES: [&str; 2] = ["name", "label"];
/// Attributes of nodes that are rates.
const RATES: [&str; 2] = ["uplink", "downlink"];
/// Attributes of edges that are latencies. The first one present is used.
const LATENCIES: [&str; 3] = ["latency", "delay", "rtt"];

#[derive(Clone, Debug, Default)]
pub struct GraphFile {
    /// The names of its nodes, in the order of their first appearance.
    pub names: Arc<Names>,
    /// The ends of its edges, as indices of names. The first end dials.
    pub edges: Vec<(u32, u32)>,
    /// Whether the file is a table of host numbers with the header `dialer,listener`.
    pub is_table: bool,
    /// Reports of content that the reader omitted or merged.
    pub notes: Vec<String>,
    /// Attributes by node; empty for edge lists.
    pub(crate) nodes: Vec<Attributes>,
    /// Attributes by edge, including edges omitted from `edges`; empty for edge lists.
    pub(crate) links: Vec<(u32, u32, Attributes)>,
}

/// The supported attributes of a node or an edge, by their names in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) line: u32,
    pub(crate) values: BTreeMap<String, String>,
}

impl GraphFile {
    /// Reads a graph in any of the formats.
    pub fn read(file: &str, inputs: &Inputs) -> Result<Arc<Self>, String> {
        inputs.made(&format!("graph {file}"), || {
            let text = inputs.table(file)?;
            let is_xml = text.trim_start().starts_with('<');
            let graph = if is_xml { graphml(file, &text)? } else { edge_list(file, &text)? };
            if graph.edges.is_empty() {
                return Err(format!("{file}: has no edges"));
            }
            Ok(graph)
        })
    }

    pub(crate) fn latency_attribute(&self) -> Option<&str> {
        let attributes: BTreeSet<&str> =
            self.links.iter().flat_map(|(.., edge)| edge.values.keys().map(String::as_str)).collect();
        LATENCIES.iter().find_map(|wanted| attributes.iter().copied().find(|name| unit_of(name).0 == *wanted))
    }

    pub fn has_latencies(&self) -> bool {
        self.latency_attribute().is_some()
    }

    pub fn has_rates(&self) -> bool {
        let mut attributes = self.nodes.iter().flat_map(|node| node.values.keys());
        attributes.any(|name| RATES.iter().any(|rate| name.starts_with(rate)))
    }
}

/// Builds a graph from nodes and edges in the order of a file.
#[derive(Default)]
struct Builder<'a> {
    file: &'a str,
    names: Names,
    edges: Vec<(u32, u32)>,
    /// Whether the file is a table with our own header, where loops and edges in both directions
    /// are errors.
    is_table: bool,
    /// The directions in which each edge is present.
    present: FxHashMap<(u32, u32), [bool; 2]>,
    loops: usize,
    reversed: usize,
}

impl<'a> Builder<'a> {
    fn new(file: &'a str) -> Self {
        Self { file, ..Self::default() }
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

    /// Adds an edge. Loops, and edges that exist in the other direction, are counted and omitted.
    fn edge(&mut self, line: u32, from: u32, to: u32) -> Result<(), String> {
        if from == to {
            if self.is_table {
                let host = &self.names.all()[from as usize];
                return Err(self.wrong(line, format_args!("node {host} cannot have a link to itself")));
            }
            self.loops += 1;
            return Ok(());
        }
        let known = self.present.entry((from.min(to), from.max(to))).or_default();
        let is_other = known[usize::from(from < to)];
        if std::mem::replace(&mut known[usize::from(from > to)], true) || (self.is_table && is_other) {
            let (from, to) = (&self.names.all()[from as usize], &self.names.all()[to as usize]);
            return Err(self.wrong(
                line,
                format_args!("duplicate edge between {from} and {to}; between two nodes there is one link"),
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
        Ok(())
    }

    fn finish(self) -> GraphFile {
        let mut notes = Vec::new();
        if self.reversed > 0 {
            notes.push(format!(
                "{}: {} edges are listed in both directions; each is one link, dialed by the first end listed",
                self.file, self.reversed
            ));
        }
        if self.loops > 0 {
            notes.push(format!("{}: {} edges from a node to itself are ignored", self.file, self.loops));
        }
        GraphFile {
            names: Arc::new(self.names),
            edges: self.edges,
            is_table: self.is_table,
            notes,
            ..GraphFile::default()
        }
    }
}

/// Reads lines of two nodes and optional data, separated by commas, semicolons, tabs or blanks,
/// with or without a header.
fn edge_list(file: &str, text: &str) -> Result<GraphFile, String> {
    let mut builder = Builder::new(file);
    let (mut columns, mut has_data) = (None, false);
    each_line(file, text, delimiter_or_blank(text), |line, values| {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if columns.is_none()
            && let (Some(from), Some(to)) = (column_of(values, &FROM), column_of(values, &TO))
        {
            columns = Some((from, to, true));
            builder.is_table = values == ["dialer", "listener"];
            return Ok(());
        }
        let (from, to, has_header) = *columns.get_or_insert((0, 1, false));
        if builder.is_table && values.len() != 2 {
            return Err(builder.wrong(line, format_args!("\"{}\" is not a pair of nodes", values.join(","))));
        }
        // Without a header, many values are probably the neighbours of a node.
        if !has_header && values.len() > 4 && !values[2].starts_with('{') {
            return Err(builder.wrong(
                line,
                format_args!(
                    "found {} values, expected the two nodes of an edge and its data; write an edge list, not an adjacency list",
                    values.len()
                ),
            ));
        }
        let (Some(a), Some(b)) = (values.get(from), values.get(to)) else {
            let found = values.join(" ");
            let what = format_args!("found \"{found}\", expected the two nodes of an edge");
            return Err(builder.wrong(line, what));
        };
        if a.is_empty() || b.is_empty() {
            return Err(builder.wrong(line, "a node has no name; expected the two nodes of an edge"));
        }
        has_data |= values.len() > 2;
        let (a, b) = (builder.node(line, a)?, builder.node(line, b)?);
        builder.edge(line, a, b)
    })?;
    let mut graph = builder.finish();
    if has_data {
        graph.notes.push(format!("{file}: values after the two nodes of a line are ignored"));
    }
    Ok(graph)
}

/// A key of GraphML, which `<data>` elements refer to.
struct Key<'a> {
    name: &'a str,
    default: Option<&'a str>,
    of: &'a str,
}

/// Reads GraphML of NetworkX, igraph and Gephi.
fn graphml(file: &str, text: &str) -> Result<GraphFile, String> {
    if text.len() > XML_BYTES_MAX {
        return Err(format!("{file}: has more than {} MiB of XML; use an edge list", XML_BYTES_MAX >> 20));
    }
    let document = Document::parse(text).map_err(|error| format!("{file}:{}: {error}", error.pos().row))?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        return Err(format!(
            "{file}:1: found <{}>, expected <graphml>; GraphML is the only supported XML format",
            root.tag_name().name()
        ));
    }
    // `Document::text_pos_at` counts from the start of the file each time.
    let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |node: Node<'_, '_>| starts.partition_point(|at| *at < node.range().start) as u32 + 1;
    let wrong = |node: Node<'_, '_>, what: String| format!("{file}:{}: {what}", line(node));
    let mut graphs = named(root, "graph");
    let graph = graphs.next().ok_or_else(|| format!("{file}: has no <graph>"))?;
    if let Some(second) = graphs.next() {
        return Err(wrong(second, "a second <graph>; expected one".to_owned()));
    }
    let keys: BTreeMap<&str, Key<'_>> = named(root, "key")
        .map(|key| {
            let default = named(key, "default").next().and_then(|default| default.text());
            let attribute = |name| key.attribute(name).unwrap_or_default();
            (attribute("id"), Key { name: attribute("attr.name"), default, of: attribute("for") })
        })
        .collect();
    let mut builder = Builder::new(file);
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    let own_names = names(graph, &keys);
    let (mut nodes, mut links) = (Vec::new(), Vec::new());
    for (place, node) in named(graph, "node").enumerate() {
        let id = node.attribute("id").ok_or_else(|| wrong(node, "a <node> has no id".to_owned()))?;
        if named(node, "graph").next().is_some() {
            return Err(wrong(node, format!("node {id} contains a graph; nested graphs are not supported")));
        }
        let name = own_names.as_ref().map_or(id, |names| names[place]);
        let number = builder.node(line(node), name)?;
        if number as usize != nodes.len() || ids.insert(id, number).is_some() {
            return Err(wrong(node, format!("duplicate node `{id}`")));
        }
        nodes.push(attributes(node, line(node), "node", &keys));
    }
    for edge in graph.children().filter(Node::is_element) {
        match edge.tag_name().name() {
            "edge" => {
                let end = |which: &str| {
                    let id = edge
                        .attribute(which)
                        .ok_or_else(|| wrong(edge, format!("an <edge> has no {which}")))?;
                    ids.get(id).copied().ok_or_else(|| wrong(edge, format!("unknown node {id}")))
                };
                let (from, to) = (end("source")?, end("target")?);
                builder.edge(line(edge), from, to)?;
                links.push((from, to, attributes(edge, line(edge), "edge", &keys)));
            }
            "hyperedge" => {
                return Err(wrong(edge, "found a <hyperedge>; a link has two ends".to_owned()));
            }
            _ => {}
        }
    }
    let mut read = builder.finish();
    (read.nodes, read.links) = (nodes, links);
    Ok(read)
}

/// The names of nodes by an attribute. `None` if a node has none, or two nodes have the same.
fn names<'a>(graph: Node<'a, 'a>, keys: &BTreeMap<&str, Key<'a>>) -> Option<Vec<&'a str>> {
    NAMES.into_iter().find_map(|wanted| {
        let (id, _) =
            keys.iter().find(|(_, key)| key.name == wanted && (key.of == "node" || key.of == "all"))?;
        let of = |node: Node<'a, 'a>| {
            named(node, "data").find(|data| data.attribute("key") == Some(*id))?.text().map(str::trim)
        };
        let names: Vec<&str> = named(graph, "node").map(of).collect::<Option<_>>()?;
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        (unique.len() == names.len() && !unique.contains("")).then_some(names)
    })
}

fn attributes(node: Node<'_, '_>, line: u32, of: &str, keys: &BTreeMap<&str, Key<'_>>) -> Attributes {
    let own = named(node, "data").filter_map(|data| {
        let key = keys.get(data.attribute("key")?)?;
        Some((key.name, data.text()?))
    });
    let applies = |key: &&Key<'_>| key.of == of || key.of == "all";
    let defaults = keys.values().filter(applies).filter_map(|key| Some((key.name, key.default?)));
    let mut values = BTreeMap::new();
    // The first value of a name is used, since defaults come last.
    for (name, value) in own.chain(defaults) {
        let name = name.to_ascii_lowercase();
        let known = ["region", "validation_time"];
        if RATES.iter().chain(&LATENCIES).chain(&known).any(|known| name.starts_with(known)) {
            values.entry(name).or_insert_with(|| value.trim().to_owned());
        }
    }
    Attributes { line, values }
}

fn named<'a, 'd>(parent: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
