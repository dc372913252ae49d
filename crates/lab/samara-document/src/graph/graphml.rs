//! GraphML of NetworkX, igraph and Gephi.

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};

use super::{Attributes, Builder, Direction, GraphFile, LATENCIES, LOSSES, Link, Owner};
use crate::hosts::is_column;
use crate::latency::unit_of;
use crate::text;

/// Maximum size of XML in bytes. In memory it needs about ten times as much.
const XML_BYTES_MAX: usize = 256 << 20;
/// Maximum number of attributes of an element, and of namespaces: the parser compares all of them
/// with each other.
const XML_ATTRIBUTES_MAX: usize = 256;

/// Attributes that name nodes, if each node has a different value.
const NAMES: [&str; 2] = ["name", "label"];
/// Attributes of XML elements that GraphML defines.
const OWN: [&str; 6] = ["id", "source", "target", "directed", "sourceport", "targetport"];

/// A key of GraphML, which `<data>` elements refer to.
struct Key<'a> {
    name: &'a str,
    default: Option<&'a str>,
    of: &'a str,
}

type Keys<'a> = BTreeMap<&'a str, Key<'a>>;

pub(super) fn read(file: &str, text: &str) -> Result<GraphFile, String> {
    if text.len() > XML_BYTES_MAX {
        return Err(format!("{file}: has more than {} MiB of XML; use an edge list", XML_BYTES_MAX >> 20));
    }
    within_bounds(file, text)?;
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
    let keys: Keys<'_> = named(root, "key")
        .map(|key| {
            let default = named(key, "default").next().and_then(|default| default.text());
            let attribute = |name| key.attribute(name).unwrap_or_default();
            (attribute("id"), Key { name: attribute("attr.name"), default, of: attribute("for") })
        })
        .collect();
    let mut builder = Builder::new(file);
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    let mut unknown = BTreeMap::new();
    let labels = NAMES.map(|name| labels(graph, name, &keys));
    let own_names = labels.iter().position(|labels| is_unique(labels));
    let (mut nodes, mut links) = (Vec::new(), Vec::new());
    for (place, node) in named(graph, "node").enumerate() {
        let id = node.attribute("id").ok_or_else(|| wrong(node, "a <node> has no id".to_owned()))?;
        if named(node, "graph").next().is_some() {
            return Err(wrong(node, format!("node {id} contains a graph; nested graphs are not supported")));
        }
        let name = own_names.and_then(|names| labels[names][place]).unwrap_or(id);
        let number = builder.node(line(node), name)?;
        if number as usize != nodes.len() || ids.insert(id, number).is_some() {
            return Err(wrong(node, format!("duplicate node `{id}`")));
        }
        let of_node = attributes(node, line(node), Owner::Node, &keys, &mut unknown);
        nodes.push(of_node.map_err(|why| wrong(node, why))?);
    }
    let is_directed = graph.attribute("edgedefault") == Some("directed");
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
                let is_directed = match edge.attribute("directed") {
                    Some(own) => matches!(own, "true" | "1"),
                    None => is_directed,
                };
                let direction = if is_directed { Direction::Forward } else { Direction::None };
                builder.edge(line(edge), from, to, direction)?;
                let attributes = attributes(edge, line(edge), Owner::Edge, &keys, &mut unknown)
                    .map_err(|why| wrong(edge, why))?;
                links.push(Link { from, to, is_directed, attributes });
            }
            "hyperedge" => {
                return Err(wrong(edge, "found a <hyperedge>; a link has two ends".to_owned()));
            }
            other => {
                lower_case(other, &["node", "edge", "hyperedge", "data"]).map_err(|why| wrong(edge, why))?
            }
        }
    }
    attributes(graph, line(graph), Owner::Graph, &keys, &mut unknown).map_err(|why| wrong(graph, why))?;
    let mut read = builder.finish();
    (read.nodes, read.links, read.unknown) = (nodes, links, unknown);
    if let (None, Some(shown)) = (own_names, labels.iter().find(|labels| labels.iter().any(Option::is_some)))
    {
        read.labels = shown.iter().map(|label| label.map(str::to_owned)).collect();
        read.notes.push(format!(
            "{file}: labels are missing or the same for several nodes; the names of nodes are their ids"
        ));
    }
    Ok(read)
}

/// Rejects an element that is known by its name in lower case: XML distinguishes it, and its content
/// would have no effect.
fn lower_case(name: &str, known: &[&str]) -> Result<(), String> {
    let meant = known.iter().find(|known| **known != name && known.eq_ignore_ascii_case(name));
    meant.map_or(Ok(()), |meant| Err(format!("found <{name}>, expected <{meant}>")))
}

/// Checks what the parser would take quadratic time for.
fn within_bounds(file: &str, text: &str) -> Result<(), String> {
    let (mut at, mut namespaces) = (0, 0);
    while let Some(begin) = text[at..].find('<').map(|found| at + found) {
        let rest = &text[begin..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].into_iter();
        if let Some((_, end)) = skipped.into_iter().find(|(start, _)| rest.starts_with(start)) {
            at = rest.find(end).map_or(text.len(), |found| begin + found + end.len());
            continue;
        }
        let (mut quote, mut attributes) = (None, 0);
        let mut end = text.len();
        for (place, byte) in rest.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), _) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => attributes += 1,
                (None, b'>') => {
                    end = begin + place + 1;
                    break;
                }
                (None, _) => {}
            }
        }
        namespaces += text[begin..end].matches("xmlns").count();
        for (count, what) in [(attributes, "attributes of an element"), (namespaces, "namespaces")] {
            if count > XML_ATTRIBUTES_MAX {
                let line = 1 + text[..begin].bytes().filter(|byte| *byte == b'\n').count();
                return Err(format!("{file}:{line}: more than {XML_ATTRIBUTES_MAX} {what}"));
            }
        }
        at = end;
    }
    Ok(())
}

/// The values of an attribute that may name nodes. An attribute with values of several types has
/// several keys in files of NetworkX.
fn labels<'a>(graph: Node<'a, 'a>, wanted: &str, keys: &Keys<'a>) -> Vec<Option<&'a str>> {
    let is_wanted = |id: &&'a str| {
        let key = keys.get(id);
        key.is_some_and(|key| key.name.eq_ignore_ascii_case(wanted) && (key.of == "node" || key.of == "all"))
    };
    let of = |node: Node<'a, 'a>| {
        let data = named(node, "data").find(|data| data.attribute("key").as_ref().is_some_and(is_wanted))?;
        data.text().map(str::trim).filter(|label| !label.is_empty())
    };
    named(graph, "node").map(of).collect()
}

fn is_unique(labels: &[Option<&str>]) -> bool {
    let unique: BTreeSet<&str> = labels.iter().copied().flatten().collect();
    !labels.is_empty() && unique.len() == labels.len()
}

/// Returns the supported attributes of an element, and counts the others.
fn attributes(
    element: Node<'_, '_>,
    line: u32,
    owner: Owner,
    keys: &Keys<'_>,
    unknown: &mut BTreeMap<(Owner, String), usize>,
) -> Result<Attributes, String> {
    let of = match owner {
        Owner::Graph => "graph",
        Owner::Node => "node",
        Owner::Edge => "edge",
    };
    for child in element.children().filter(Node::is_element) {
        lower_case(child.tag_name().name(), &["data"])?;
    }
    let own = named(element, "data").filter_map(|data| {
        let key = data.attribute("key")?;
        let name = keys.get(key).map_or(key, |key| key.name);
        // An empty loss is not the absence of one.
        let empty = LOSSES.contains(&name.to_ascii_lowercase().as_str()).then_some("");
        Some((name, data.text().or(empty)?, true))
    });
    let applies = |key: &&Key<'_>| key.of == of || key.of == "all";
    let defaults = keys.values().filter(applies).filter_map(|key| Some((key.name, key.default?, false)));
    let (mut values, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let mut count = |name: &str| *unknown.entry((owner, name.to_owned())).or_default() += 1;
    // The first value of a name is used, since defaults come last.
    for (name, value, is_own) in own.chain(defaults) {
        let lower = name.to_ascii_lowercase();
        if !seen.insert(lower.clone()) {
            if is_own && is_known(owner, &lower) {
                return Err(format!("duplicate attribute `{lower}`"));
            }
            continue;
        }
        if is_known(owner, &lower) {
            if let Some(why) = text::control_of_name(value.trim()) {
                return Err(format!("the attribute `{lower}` {why}"));
            }
            values.insert(lower, value.trim().to_owned());
        } else if owner != Owner::Node || !NAMES.contains(&lower.as_str()) {
            count(name);
        }
    }
    if owner != Owner::Graph {
        let of_xml = element.attributes().filter(|attribute| attribute.namespace().is_none());
        of_xml
            .filter(|attribute| !OWN.contains(&attribute.name()))
            .for_each(|attribute| count(attribute.name()));
    }
    Ok(Attributes { line, values })
}

/// Returns true if a reader uses an attribute, by its name in lower case.
fn is_known(owner: Owner, name: &str) -> bool {
    match owner {
        Owner::Graph => false,
        Owner::Node => is_column(name),
        Owner::Edge => {
            let (base, _) = unit_of(name);
            LATENCIES.contains(&base.strip_suffix("_reverse").unwrap_or(base)) || LOSSES.contains(&name)
        }
    }
}

fn named<'a, 'd>(parent: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
