//! GML (Himsolt 1997), as NetworkX and igraph write it and Shadow reads it.

use std::collections::BTreeMap;

use super::attributes::Attributes;
use super::{Builder, GraphFile};

/// Whether a text is GML: it has a list called `graph`, behind comments and a creator at most.
pub(in crate::data) fn is_gml(text: &str) -> bool {
    let mut tokens = Tokens::new(text);
    for _ in 0..8 {
        match tokens.next() {
            Some((_, Token::Word("graph"))) => return matches!(tokens.next(), Some((_, Token::Open))),
            Some((_, Token::Word(_) | Token::Text(_))) => {}
            _ => return false,
        }
    }
    false
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Open,
    Close,
    /// A key or a number.
    Word(&'a str),
    /// Between quotes.
    Text(&'a str),
}

/// The pieces of a file with their lines.
struct Tokens<'a> {
    text: &'a str,
    line: u32,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, line: 1 }
    }

    /// Takes so many bytes.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.text.split_at(bytes);
        self.line += taken.matches('\n').count() as u32;
        self.text = rest;
        taken
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (u32, Token<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let blank = self.text.len() - self.text.trim_start().len();
            self.take(blank);
            if !self.text.starts_with('#') {
                break;
            }
            let end = self.text.find('\n').unwrap_or(self.text.len());
            self.take(end);
        }
        let line = self.line;
        let token = match self.text.chars().next()? {
            '[' => {
                self.take(1);
                Token::Open
            }
            ']' => {
                self.take(1);
                Token::Close
            }
            '"' => {
                let end = self.text[1..].find('"').map_or(self.text.len(), |end| end + 2);
                Token::Text(self.take(end).trim_matches('"'))
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || "[]\"".contains(c);
                let end = self.text.find(is_end).unwrap_or(self.text.len());
                Token::Word(self.take(end))
            }
        };
        Some((line, token))
    }
}

/// A node or an edge: its attributes as they are.
struct Item<'a> {
    line: u32,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Item<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|(own, _)| *own == key).map(|(_, value)| *value)
    }

    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::default();
        self.values.iter().for_each(|(key, value)| attributes.add(key, value));
        attributes
    }
}

/// Reads a graph.
pub(super) fn read(file: &str, text: &str) -> Result<GraphFile, String> {
    let (nodes, edges) = items(text).map_err(|(line, what)| format!("{file}:{line}: {what}"))?;
    let mut builder = Builder::new(file);
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    let labels: Option<Vec<&str>> = nodes.iter().map(|node| node.get("label")).collect();
    let labels = labels
        .filter(|labels| labels.iter().collect::<std::collections::BTreeSet<_>>().len() == labels.len());
    let mut attributes = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        let id = node.get("id").ok_or_else(|| builder.wrong(node.line, "a node has no id"))?;
        let number = builder.node(node.line, labels.as_ref().map_or(id, |labels| labels[place]))?;
        if number as usize != place || ids.insert(id, number).is_some() {
            return Err(builder.wrong(node.line, format_args!("the node {id} is there twice")));
        }
        attributes.push(node.attributes());
    }
    let mut links = Vec::new();
    for edge in &edges {
        let end = |which: &str| {
            let id = edge
                .get(which)
                .ok_or_else(|| builder.wrong(edge.line, format_args!("an edge has no {which}")))?;
            ids.get(id)
                .copied()
                .ok_or_else(|| builder.wrong(edge.line, format_args!("there is no node {id}")))
        };
        let (from, to) = (end("source")?, end("target")?);
        builder.edge(edge.line, from, to)?;
        links.push((from, to, edge.attributes()));
    }
    let mut graph = builder.finish();
    (graph.nodes, graph.links) = (attributes, links);
    Ok(graph)
}

type Items<'a> = (Vec<Item<'a>>, Vec<Item<'a>>);

/// The nodes and edges, with the values that are no lists.
fn items(text: &str) -> Result<Items<'_>, (u32, String)> {
    let mut tokens = Tokens::new(text);
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    // The lists around: what each is called.
    let mut path: Vec<&str> = Vec::new();
    let mut last = 1;
    while let Some((line, token)) = tokens.next() {
        last = line;
        let key = match token {
            Token::Close => {
                if path.pop().is_none() {
                    return Err((line, "found a ] without its [".to_owned()));
                }
                continue;
            }
            Token::Word(key) => key,
            Token::Open | Token::Text(_) => return Err((line, "expected a key".to_owned())),
        };
        let value = match tokens.next() {
            Some((_, Token::Open)) => {
                match (path.as_slice(), key) {
                    (["graph"], "node") => nodes.push(Item { line, values: Vec::new() }),
                    (["graph"], "edge") => edges.push(Item { line, values: Vec::new() }),
                    _ => {}
                }
                path.push(key);
                continue;
            }
            Some((_, Token::Word(value) | Token::Text(value))) => value,
            Some((line, Token::Close)) => return Err((line, format!("{key} has no value"))),
            None => return Err((line, format!("the file ends behind {key}"))),
        };
        let item = match path.as_slice() {
            ["graph", "node"] => nodes.last_mut(),
            ["graph", "edge"] => edges.last_mut(),
            _ => None,
        };
        if let Some(item) = item {
            item.values.push((key, value));
        }
    }
    match path.last() {
        Some(open) => Err((last, format!("the file ends inside of {open} [ ... ]"))),
        None => Ok((nodes, edges)),
    }
}
