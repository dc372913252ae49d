//! Graphs of links between hosts.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use samara_engine::{NodeRng, Purpose};

use crate::table::listed;
use crate::{GraphFile, HostTable, Inputs, Names, Network, Topology, host_names};

/// An undirected graph with the dialer of each edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub nodes: u32,
    /// Edges as pairs of dialer and listener.
    pub edges: Vec<(u32, u32)>,
}

impl Graph {
    pub fn neighbours(&self) -> Vec<Vec<u32>> {
        let mut neighbours = vec![Vec::new(); self.nodes as usize];
        for (a, b) in &self.edges {
            neighbours[*a as usize].push(*b);
            neighbours[*b as usize].push(*a);
        }
        neighbours
    }

    /// The nodes outside of the largest part whose nodes are connected with each other.
    pub fn unreachable(&self) -> Vec<u32> {
        let neighbours = self.neighbours();
        let mut part_of = vec![None; neighbours.len()];
        let mut sizes: Vec<usize> = Vec::new();
        for start in 0..self.nodes {
            if part_of[start as usize].is_some() {
                continue;
            }
            let (mut stack, mut size) = (vec![start], 0);
            part_of[start as usize] = Some(sizes.len());
            while let Some(node) = stack.pop() {
                size += 1;
                for next in &neighbours[node as usize] {
                    if part_of[*next as usize].is_none() {
                        part_of[*next as usize] = Some(sizes.len());
                        stack.push(*next);
                    }
                }
            }
            sizes.push(size);
        }
        // The first of several that are equally large.
        let largest = (0..sizes.len()).rev().max_by_key(|part| sizes[*part]);
        (0..self.nodes).filter(|node| part_of[*node as usize] != largest).collect()
    }
}

/// A random regular graph. Half-edges are paired at random; loops and repeated edges are repaired
/// by switching with random other pairs. This is the usual repair of configuration models, and
/// close to uniform for small degrees.
///
/// # Panics
/// If `nodes * degree` is odd or the degree is not below the number of nodes. Scenarios are checked
/// before.
pub fn random_regular(nodes: u32, degree: u32, rng: &mut NodeRng) -> Graph {
    assert!(
        degree < nodes && (u64::from(nodes) * u64::from(degree)).is_multiple_of(2),
        "no such regular graph"
    );
    if degree > (nodes - 1) / 2 {
        // For a dense graph, draw its missing edges instead, which also form a regular graph.
        let missing = random_regular(nodes, nodes - 1 - degree, rng).edges;
        let missing: BTreeSet<(u32, u32)> = missing.into_iter().map(ordered).collect();
        let mut graph = full_mesh(nodes);
        graph.edges.retain(|edge| !missing.contains(edge));
        return graph;
    }
    loop {
        let mut half_edges: Vec<u32> =
            (0..nodes).flat_map(|node| std::iter::repeat_n(node, degree as usize)).collect();
        rng.shuffle(&mut half_edges);
        let edges = half_edges.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        if let Some(edges) = mended(edges, rng) {
            return Graph { nodes, edges };
        }
    }
}

/// Every node dials `dials` random others, independent of who dialed it. A pair that dialed each
/// other has one link.
///
/// # Panics
/// If there are fewer others. Scenarios are checked before.
pub fn random_dials(nodes: u32, dials: u32, rng: &mut NodeRng) -> Graph {
    assert!(dials < nodes, "no such graph");
    let mut present = BTreeSet::new();
    let mut edges = Vec::new();
    for node in 0..nodes {
        let mut chosen = BTreeSet::new();
        while chosen.len() < dials as usize {
            let other = rng.index(nodes as usize) as u32;
            if other != node && chosen.insert(other) && present.insert(ordered((node, other))) {
                edges.push((node, other));
            }
        }
    }
    Graph { nodes, edges }
}

/// A graph by preferential attachment (Barabási and Albert 1999). It begins as a star of `m + 1`
/// nodes. Each further node dials `m` others, drawn in proportion to their links.
///
/// # Panics
/// Unless `1 <= m < nodes`. Scenarios are checked before.
pub fn barabasi_albert(nodes: u32, m: u32, rng: &mut NodeRng) -> Graph {
    assert!(1 <= m && m < nodes, "no such graph");
    let mut edges: Vec<(u32, u32)> = (1..=m).map(|node| (node, 0)).collect();
    for node in m + 1..nodes {
        let mut targets = BTreeSet::new();
        while targets.len() < m as usize {
            // A node has as many ends of edges as links, so a random end selects it in proportion.
            let end = rng.index(2 * edges.len());
            let (dialer, listener) = edges[end / 2];
            targets.insert(if end.is_multiple_of(2) { dialer } else { listener });
        }
        edges.extend(targets.into_iter().map(|target| (node, target)));
    }
    Graph { nodes, edges }
}

/// Number of hops from a node to the farthest node that it can reach, and the mean number over all
/// nodes that it can reach.
pub fn distances(neighbours: &[Vec<u32>], node: u32) -> (u32, f64) {
    let (hops, farthest) = hops(neighbours, node);
    let others = hops.iter().flatten().count().saturating_sub(1);
    (farthest, hops.iter().flatten().sum::<u32>() as f64 / others.max(1) as f64)
}

/// Number of hops from a node to each node that it can reach, and to the farthest of them.
fn hops(neighbours: &[Vec<u32>], node: u32) -> (Vec<Option<u32>>, u32) {
    let mut hops = vec![None; neighbours.len()];
    let mut queue = VecDeque::from([(node, 0)]);
    hops[node as usize] = Some(0);
    let mut farthest = 0;
    while let Some((node, here)) = queue.pop_front() {
        farthest = here;
        for next in &neighbours[node as usize] {
            if hops[*next as usize].is_none() {
                hops[*next as usize] = Some(here + 1);
                queue.push_back((*next, here + 1));
            }
        }
    }
    (hops, farthest)
}

fn ordered((a, b): (u32, u32)) -> (u32, u32) {
    (a.min(b), a.max(b))
}

/// Switches loops and repeated edges with random other edges. `None` if an edge finds no partner in
/// many tries. In small graphs, none may exist.
fn mended(mut edges: Vec<(u32, u32)>, rng: &mut NodeRng) -> Option<Vec<(u32, u32)>> {
    let mut present = BTreeSet::new();
    let mut bad = BTreeSet::new();
    for (i, edge) in edges.iter().enumerate() {
        if edge.0 == edge.1 || !present.insert(ordered(*edge)) {
            bad.insert(i);
        }
    }
    while let Some(i) = bad.pop_last() {
        let mut tries = 20 * edges.len();
        loop {
            tries = tries.checked_sub(1)?;
            let j = rng.index(edges.len());
            let ((a, b), (c, d)) = (edges[i], edges[j]);
            let (new_i, new_j) = ((a, d), (c, b));
            let fits = i != j
                && !bad.contains(&j)
                && a != d
                && c != b
                && ordered(new_i) != ordered(new_j)
                && !present.contains(&ordered(new_i))
                && !present.contains(&ordered(new_j));
            if fits {
                present.remove(&ordered((c, d)));
                present.insert(ordered(new_i));
                present.insert(ordered(new_j));
                edges[i] = new_i;
                edges[j] = new_j;
                break;
            }
        }
    }
    Some(edges)
}

/// A graph with an edge between every two nodes, dialed by the lower number.
pub fn full_mesh(nodes: u32) -> Graph {
    let edges = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect();
    Graph { nodes, edges }
}

/// A ring, in which every node dials the next one.
pub fn ring(nodes: u32) -> Graph {
    // Two nodes have only one link.
    let links = if nodes > 2 { nodes } else { nodes.saturating_sub(1) };
    Graph { nodes, edges: (0..links).map(|node| (node, (node + 1) % nodes)).collect() }
}

/// Builds the graph of a network. The custody of each host and the number of columns matter only if
/// subscribers find peers.
pub fn build(
    network: &Network,
    (columns, custody): (u32, &[Vec<u32>]),
    inputs: &Inputs,
    seed: u64,
) -> Result<Graph, String> {
    let nodes = network.nodes;
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    let mut graph = match &network.topology {
        Topology::RandomRegular { degree, .. } => random_regular(nodes, *degree, &mut rng),
        Topology::RandomDials { dials, .. } => random_dials(nodes, *dials, &mut rng),
        Topology::FullMesh { .. } => full_mesh(nodes),
        Topology::Ring { .. } => ring(nodes),
        Topology::BarabasiAlbert { attachments, seed: own_seed, .. } => {
            let mut own = own_seed.map(|seed| NodeRng::new(seed, 0, Purpose::Topology));
            barabasi_albert(nodes, *attachments, own.as_mut().unwrap_or(&mut rng))
        }
        Topology::File { .. } => read_file(network, inputs)?.0,
    };
    let topic_peers_min = network.topology.topic_peers_min();
    if topic_peers_min > 0 {
        find_topic_peers(&mut graph, custody, columns, topic_peers_min as usize, &mut rng);
    }
    connected(&graph, network, inputs)?;
    Ok(graph)
}

/// Checks that all nodes are connected. The error names nodes as the files do.
fn connected(graph: &Graph, network: &Network, inputs: &Inputs) -> Result<(), String> {
    let unreachable = graph.unreachable();
    if unreachable.is_empty() {
        return Ok(());
    }
    let mut has_links = vec![false; graph.nodes as usize];
    for (a, b) in &graph.edges {
        has_links[*a as usize] = true;
        has_links[*b as usize] = true;
    }
    let names = host_names(network, inputs)?;
    let file = network.topology.file();
    let in_file = file.map(|file| GraphFile::read(file, inputs)).transpose()?;
    let shown = |node: &u32| {
        let name =
            names.as_ref().map_or_else(|| node.to_string(), |names| names.all()[*node as usize].clone());
        match in_file.as_ref().and_then(|graph| Some((graph, graph.names.find(&name)?))) {
            Some((graph, number)) => graph.shown(number),
            None => name,
        }
    };
    let place = file.map_or("network.topology".to_owned(), |file| format!("network.topology.file: {file}"));
    let (count, nodes) = (unreachable.len(), graph.nodes);
    let some: Vec<String> = unreachable.iter().map(shown).collect();
    let some = listed(some.iter().map(String::as_str));
    let are_alone = unreachable.iter().all(|node| !has_links[*node as usize]);
    Err(match (are_alone, count) {
        (true, 1) => format!("{place}: node {some} has no edge; add one, or use a connected graph"),
        (true, _) => format!(
            "{place}: {count} of {nodes} nodes have no edge: {some}; add edges, or use a connected graph"
        ),
        (false, _) => format!(
            "{place}: the graph is not connected: no path leads from the largest part of it to {count} of {nodes} nodes: {some}; add \
             edges, or use a connected graph"
        ),
    })
}

/// Adds links, as discovery does, until every subscriber of a column has `least` links to other
/// subscribers, or links to all of them.
fn find_topic_peers(graph: &mut Graph, custody: &[Vec<u32>], columns: u32, least: usize, rng: &mut NodeRng) {
    let mut neighbours: Vec<BTreeSet<u32>> =
        graph.neighbours().into_iter().map(|neighbours| neighbours.into_iter().collect()).collect();
    let mut subscribers = vec![Vec::new(); columns as usize];
    for (node, columns) in custody.iter().enumerate() {
        for column in columns {
            subscribers[*column as usize].push(node as u32);
        }
    }
    for subscribers in &subscribers {
        let members: BTreeSet<u32> = subscribers.iter().copied().collect();
        for node in subscribers {
            let known = neighbours[*node as usize].intersection(&members).count();
            if known >= least {
                continue;
            }
            let mut others: Vec<u32> = subscribers
                .iter()
                .copied()
                .filter(|other| other != node && !neighbours[*node as usize].contains(other))
                .collect();
            rng.shuffle(&mut others);
            for other in others.into_iter().take(least - known) {
                graph.edges.push((*node, other));
                neighbours[*node as usize].insert(other);
                neighbours[other as usize].insert(*node);
            }
        }
    }
}

/// Reads the graph of a network's file. Returns notes on how it was read.
///
/// The nodes are the hosts with these names in `network.nodes_file`. Without that file, names that
/// are all host numbers select these hosts, and other names get numbers in the order of their
/// appearance. A table of numbers may have more hosts than the network: the first `network.nodes`
/// are used.
pub fn read_file(network: &Network, inputs: &Inputs) -> Result<(Graph, Vec<String>), String> {
    let file = network.topology.file().ok_or("network.topology.file is missing")?;
    let (nodes, graph) = (network.nodes, GraphFile::read(file, inputs)?);
    // A table of latencies from the same file says which columns it does not use.
    let has_latencies = network.latency_file.as_ref().is_some_and(|spec| spec.file == file);
    let beside = graph.beside.iter().filter(|_| !has_latencies);
    let mut notes: Vec<String> = graph.notes.iter().chain(beside).cloned().collect();
    let host_of: Vec<u32> = if let Some(hosts) = &network.nodes_file {
        let table = HostTable::read(hosts, inputs)?;
        let find =
            |name: &String| table.find(name).ok_or_else(|| format!("{file}: node {name} is not in {hosts}"));
        graph.names.all().iter().map(find).collect::<Result<_, _>>()?
    } else if let Some(numbers) = host_numbers(&graph, nodes) {
        numbers
    } else if graph.names.len() == nodes as usize {
        (0..nodes).collect()
    } else {
        return Err(format!(
            "{file}: has {} nodes, but the network has {nodes}; remove network.nodes, or use the same number",
            graph.names.len()
        ));
    };
    if let Some(last) = host_of.iter().max().filter(|last| **last >= nodes) {
        notes.push(format!("{file}: uses the first {nodes} of its {} nodes", last + 1));
    }
    let edges = graph.edges.iter().map(|(a, b)| (host_of[*a as usize], host_of[*b as usize]));
    let edges = edges.filter(|(a, b)| *a.max(b) < nodes).collect();
    Ok((Graph { nodes, edges }, notes))
}

/// The hosts that the names of a graph stand for, if they are numbers: any numbers in a table of
/// hosts, otherwise below `nodes`.
fn host_numbers(graph: &GraphFile, nodes: u32) -> Option<Vec<u32>> {
    graph.names.as_numbers(if graph.is_table { u32::MAX } else { nodes })
}

/// The names of hosts in the file of a graph. `None` if they are numbers.
pub(crate) fn file_names(network: &Network, inputs: &Inputs) -> Result<Option<Arc<Names>>, String> {
    let Some(file) = network.topology.file() else { return Ok(None) };
    let graph = GraphFile::read(file, inputs)?;
    let is_named = host_numbers(&graph, network.nodes).is_none();
    Ok(is_named.then(|| Arc::clone(&graph.names)))
}

/// The number of hosts in the graph of a file.
pub fn nodes_of(file: &str, inputs: &Inputs) -> Result<u32, String> {
    let graph = GraphFile::read(file, inputs)?;
    // A table of numbers may omit hosts without links.
    let numbers = host_numbers(&graph, 0);
    let largest = numbers.and_then(|numbers| numbers.into_iter().max());
    Ok(largest.map_or(graph.names.len() as u32, |largest| largest + 1))
}
