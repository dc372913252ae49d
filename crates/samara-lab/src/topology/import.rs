//! Graphs from files: CSV and GraphML.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use rustc_hash::{FxHashMap, FxHashSet};

/// A graph as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// How many nodes the file speaks of: for CSV the highest number and one more.
    pub nodes: u32,
    /// Dialler and listener.
    pub edges: Vec<(u32, u32)>,
}

/// A file is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A line of CSV is not as it should be.
    #[error("line {line} is {found:?}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        found: String,
        /// What is wrong.
        reason: String,
    },
    /// It is not XML, or not GraphML.
    #[error("it is not GraphML: {0} (byte {1})")]
    GraphMl(String, u64),
}

/// Reads CSV with the columns `dialer` and `listener`, both numbers of nodes; further columns do not matter.
///
/// # Errors
/// The first line that is not as it should be: no number, a node linked to itself, a link that was there before.
pub fn read_edges(text: &str) -> Result<Imported, ImportError> {
    let error = |line: usize, found: &str, reason: &str| ImportError::Line {
        line: line + 1,
        found: found.to_owned(),
        reason: reason.to_owned(),
    };
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (first, header) = lines.next().unwrap_or((0, ""));
    let column = |name: &str| header.split(',').position(|cell| cell.trim() == name);
    let (Some(dialler), Some(listener)) =
        (column("dialer").or_else(|| column("dialler")), column("listener"))
    else {
        return Err(error(first, header, "the columns dialer and listener are expected"));
    };
    let mut edges = Vec::new();
    let mut known = FxHashSet::default();
    for (index, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |column: usize| cells.get(column)?.parse::<u32>().ok().filter(|node| *node < 10_000_000);
        let (Some(dialler), Some(listener)) = (number(dialler), number(listener)) else {
            return Err(error(index, line, "two numbers of nodes from 0 to 9999999 are expected"));
        };
        if dialler == listener {
            return Err(error(index, line, "a node is not linked to itself"));
        }
        if !known.insert((dialler.min(listener), dialler.max(listener))) {
            return Err(error(index, line, "this link was there before"));
        }
        edges.push((dialler, listener));
    }
    let nodes = edges.iter().map(|(a, b)| a.max(b) + 1).max().unwrap_or(0);
    Ok(Imported { nodes, edges })
}

/// Reads GraphML. Nodes whose ids are the numbers from 0 are these nodes; with other ids they are numbered in the order in
/// which they are declared. The source of an edge dials its target; of two edges in opposite directions the first counts.
///
/// # Errors
/// Text that is not XML, edges between nodes that are not declared, loops, and parallel edges.
pub fn read_graphml(text: &str) -> Result<Imported, ImportError> {
    let mut reader = Reader::from_str(text);
    let (mut ids, mut pairs) = (Vec::new(), Vec::new());
    let mut graphs = 0;
    loop {
        let position = reader.buffer_position();
        let fail = |message: String| ImportError::GraphMl(message, position);
        let event = reader.read_event().map_err(|error| fail(error.to_string()))?;
        let element = match event {
            Event::Start(element) | Event::Empty(element) => element,
            Event::Eof => break,
            _ => continue,
        };
        match element.local_name().as_ref() {
            "graph" => graphs += 1,
            "node" => ids.push((attribute(&element, "id").map_err(fail)?, position)),
            "edge" => {
                let source = attribute(&element, "source").map_err(fail)?;
                pairs.push((source, attribute(&element, "target").map_err(fail)?, position));
            }
            "hyperedge" => return Err(fail("hyperedges link more than two nodes".to_owned())),
            _ => {}
        }
    }
    if graphs != 1 {
        return Err(ImportError::GraphMl(format!("there are {graphs} graphs in it, one is expected"), 0));
    }
    number(&ids, &pairs)
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<String, String> {
    let found = element.try_get_attribute(name).map_err(|error| error.to_string())?;
    let found =
        found.ok_or_else(|| format!("an element {:?} has no {name:?}", element.local_name().as_ref()))?;
    quick_xml::escape::unescape(&found.value)
        .map(|value| value.into_owned())
        .map_err(|error| error.to_string())
}

fn number(ids: &[(String, u64)], pairs: &[(String, String, u64)]) -> Result<Imported, ImportError> {
    let nodes = ids.len() as u32;
    let numbers: Option<Vec<u32>> =
        ids.iter().map(|(id, _)| id.parse().ok().filter(|node| *node < nodes)).collect();
    let mut number_of = FxHashMap::default();
    for (index, (id, position)) in ids.iter().enumerate() {
        let number = numbers.as_ref().map_or(index as u32, |numbers| numbers[index]);
        if number_of.insert(id.as_str(), number).is_some() {
            return Err(ImportError::GraphMl(format!("the node {id:?} is declared twice"), *position));
        }
    }
    let mut edges = Vec::new();
    let mut known = FxHashSet::default();
    for (source, target, position) in pairs {
        let find = |id: &str| {
            let number = number_of.get(id).copied();
            number.ok_or_else(|| ImportError::GraphMl(format!("the node {id:?} is not declared"), *position))
        };
        let (a, b) = (find(source)?, find(target)?);
        if a == b {
            return Err(ImportError::GraphMl(format!("the node {source:?} is linked to itself"), *position));
        }
        if !known.insert((a, b)) {
            let message = format!("the link from {source:?} to {target:?} was there before");
            return Err(ImportError::GraphMl(message, *position));
        }
        if !known.contains(&(b, a)) {
            edges.push((a, b));
        }
    }
    Ok(Imported { nodes, edges })
}
