//! GraphML as NetworkX, igraph and Gephi write it (<http://graphml.graphdrawing.org/>).

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use super::attributes::Attributes;
use super::{Builder, GraphFile};

/// More text is taken for a mistake: in memory it is some ten times as much.
const BYTES_MAX: usize = 256 << 20;
/// Attributes that nodes are called by, if each has one of its own.
const NAMES: [&str; 2] = ["name", "label"];

/// A key that data refers to.
struct Key<'a> {
    name: &'a str,
    default: Option<&'a str>,
    of: &'a str,
}

/// Reads the first graph of a file.
pub(super) fn read(file: &str, text: &str) -> Result<GraphFile, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("{file}: has more than {} MiB of XML; use an edge list", BYTES_MAX >> 20));
    }
    let document = Document::parse(text).map_err(|error| format!("{file}:{}: {error}", error.pos().row))?;
    let root = document.root_element();
    if root.tag_name().name() != "graphml" {
        return Err(format!(
            "{file}:1: found <{}>, expected <graphml>; of XML formats only GraphML is read",
            root.tag_name().name()
        ));
    }
    let line = |node: Node<'_, '_>| document.text_pos_at(node.range().start).row;
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
            return Err(wrong(node, format!("the node {id} has a graph in it; nested graphs are not read")));
        }
        let name = own_names.as_ref().map_or(id, |names| names[place]);
        let number = builder.node(line(node), name)?;
        if number as usize != nodes.len() || ids.insert(id, number).is_some() {
            return Err(wrong(node, format!("the node {id} is there twice")));
        }
        nodes.push(attributes(node, "node", &keys));
    }
    for edge in graph.children().filter(Node::is_element) {
        match edge.tag_name().name() {
            "edge" => {
                let end = |which: &str| {
                    let id = edge
                        .attribute(which)
                        .ok_or_else(|| wrong(edge, format!("an <edge> has no {which}")))?;
                    ids.get(id).copied().ok_or_else(|| wrong(edge, format!("there is no node {id}")))
                };
                let (from, to) = (end("source")?, end("target")?);
                builder.edge(line(edge), from, to)?;
                links.push((from, to, attributes(edge, "edge", &keys)));
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

/// What nodes are called by an attribute of their own; `None` if one has none, or two have the same.
fn names<'a>(graph: Node<'a, 'a>, keys: &BTreeMap<&str, Key<'a>>) -> Option<Vec<&'a str>> {
    NAMES.into_iter().find_map(|wanted| {
        let (id, _) =
            keys.iter().find(|(_, key)| key.name == wanted && (key.of == "node" || key.of == "all"))?;
        let of = |node: Node<'a, 'a>| {
            named(node, "data").find(|data| data.attribute("key") == Some(*id))?.text().map(str::trim)
        };
        let names: Vec<&str> = named(graph, "node").map(of).collect::<Option<_>>()?;
        let unique: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        (unique.len() == names.len() && !unique.contains("")).then_some(names)
    })
}

fn attributes(node: Node<'_, '_>, of: &str, keys: &BTreeMap<&str, Key<'_>>) -> Attributes {
    let mut attributes = Attributes::default();
    for data in named(node, "data") {
        let key = data.attribute("key").and_then(|key| keys.get(key));
        if let (Some(key), Some(text)) = (key, data.text()) {
            attributes.add(key.name, text);
        }
    }
    // Found first is what counts: defaults come last.
    for key in keys.values().filter(|key| key.of == of || key.of == "all") {
        if let Some(default) = key.default {
            attributes.add(key.name, default);
        }
    }
    attributes
}

fn named<'a, 'd>(parent: Node<'a, 'd>, name: &'static str) -> impl Iterator<Item = Node<'a, 'd>> {
    parent.children().filter(move |node| node.is_element() && node.tag_name().name() == name)
}
