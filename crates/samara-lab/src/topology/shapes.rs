//! Graphs of a regular shape, and random ones.

use samara_engine::NodeRng;

use super::graph::Graph;
use super::pairing::Links;

/// A random graph that is not connected, or not simple, is thrown away; after so many the parameters are at fault.
const ATTEMPTS: usize = 200;

fn graph(nodes: u32, edges: Vec<(u32, u32)>) -> Graph {
    Graph::new(nodes, edges).expect("edges were made between different nodes, each once")
}

/// Every node linked to every other; the higher number dials.
pub fn full_mesh(nodes: u32) -> Graph {
    graph(
        nodes,
        (0..nodes)
            .flat_map(|listener| (listener + 1..nodes).map(move |dialler| (dialler, listener)))
            .collect(),
    )
}

/// Every node linked to the next one, the last one to the first; each dials the next.
pub fn ring(nodes: u32) -> Graph {
    let edges = match nodes {
        0 | 1 => Vec::new(),
        2 => vec![(0, 1)],
        _ => (0..nodes).map(|node| (node, (node + 1) % nodes)).collect(),
    };
    graph(nodes, edges)
}

/// A connected random graph in which every node has `degree` links; `None` if there is no such graph (see the rules of
/// `network.topology.degree`), or none was found.
///
/// Ends are paired at random; the last few that do not fit are fitted in by switching. More than half of all possible links
/// are drawn as those that are missing.
pub fn random_regular(nodes: u32, degree: u32, rng: &mut NodeRng) -> Option<Graph> {
    let possible = degree < nodes && u64::from(nodes) * u64::from(degree) % 2 == 0;
    if !possible || (degree < 2 && nodes > degree + 1) {
        return None;
    }
    if degree == 2 {
        // Most random graphs of this degree fall apart into several rings: draw one ring.
        let mut order: Vec<u32> = (0..nodes).collect();
        rng.shuffle(&mut order);
        let mut links = Links::default();
        for (index, node) in order.iter().enumerate() {
            links.add(*node, order[(index + 1) % order.len()]);
        }
        return Some(graph(nodes, links.dialled(rng)));
    }
    let drawn = (0..ATTEMPTS).filter_map(|_| {
        let missing = nodes - 1 - degree;
        let links = if missing < degree {
            complement(nodes, &regular(nodes, missing, rng)?)
        } else {
            regular(nodes, degree, rng)?
        };
        Some(graph(nodes, links.dialled(rng)))
    });
    drawn.into_iter().find(Graph::is_connected)
}

fn regular(nodes: u32, degree: u32, rng: &mut NodeRng) -> Option<Links> {
    let mut links = Links::default();
    let ends = (0..nodes).flat_map(|node| std::iter::repeat_n(node, degree as usize)).collect();
    let left = links.pair(ends, rng, |_, _| true);
    let fits =
        left.chunks_exact(2).all(|pair| links.add(pair[0], pair[1]) || links.fit_in(pair[0], pair[1], rng));
    fits.then_some(links)
}

fn complement(nodes: u32, links: &Links) -> Links {
    let mut others = Links::default();
    for a in 0..nodes {
        for b in a + 1..nodes {
            if !links.contains(a, b) {
                others.add(a, b);
            }
        }
    }
    others
}

/// A connected random graph of `degree` links per node on average, of which the part `local` stays within the node's region.
///
/// Where a region is too small or too large for that, the rest of its links go where there is room. Parts that are still not
/// connected get a link to the part of node 0.
pub fn regional(region_of: &[u16], degree: u32, local: f64, rng: &mut NodeRng) -> Graph {
    let nodes = region_of.len() as u32;
    let degree = degree.min(nodes.saturating_sub(1));
    let mut links = Links::default();
    let inside = (f64::from(degree) * local).round() as usize;
    let regions = region_of.iter().copied().max().map_or(0, |last| last + 1);
    let mut left: Vec<u32> =
        (0..nodes).flat_map(|node| std::iter::repeat_n(node, degree as usize - inside)).collect();
    for region in 0..regions {
        let members = (0..nodes).filter(|node| region_of[*node as usize] == region);
        let ends: Vec<u32> = members.flat_map(|node| std::iter::repeat_n(node, inside)).collect();
        left.extend(links.pair(ends, rng, |_, _| true));
    }
    let left = links.pair(left, rng, |a, b| region_of[a as usize] != region_of[b as usize]);
    links.pair(left, rng, |_, _| true);
    let mut edges = links.dialled(rng);
    loop {
        let drawn = graph(nodes, edges.clone());
        let apart = if nodes == 0 { Vec::new() } else { drawn.unreachable_from(0) };
        let Some(node) = rng.choose(&apart).copied() else { return drawn };
        let reached: Vec<u32> = (0..nodes).filter(|other| apart.binary_search(other).is_err()).collect();
        let other = rng.choose(&reached).copied().expect("node 0 reaches itself");
        edges.push((node, other));
    }
}
