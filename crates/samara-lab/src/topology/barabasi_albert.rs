//! Preferential attachment.

use super::Graph;
use super::python::{PythonRandom, PythonSet};

/// The graph that `networkx.barabasi_albert_graph(nodes, m, seed)` gives (Barabási and Albert 1999): it starts from a star of
/// `m + 1` nodes, and each further node dials `m` others, drawn in proportion to the links that they have.
///
/// `None` unless `1 <= m < nodes`.
pub fn barabasi_albert(nodes: u32, m: u32, seed: u64) -> Option<Graph> {
    if m < 1 || m >= nodes {
        return None;
    }
    let mut random = PythonRandom::new(seed);
    let mut edges: Vec<(u32, u32)> = (1..=m).map(|node| (node, 0)).collect();
    // Every node as often as it has links.
    let mut ends: Vec<u32> = std::iter::repeat_n(0, m as usize).chain(1..=m).collect();
    for node in m + 1..nodes {
        let mut targets = PythonSet::new();
        while targets.len() < m as usize {
            targets.insert(ends[random.below(ends.len() as u32) as usize]);
        }
        edges.extend(targets.iter().map(|target| (node, target)));
        // The order of a set decides what later draws hit; it is that of CPython.
        ends.extend(targets.iter());
        ends.extend(std::iter::repeat_n(node, m as usize));
    }
    Some(Graph { nodes, edges })
}
