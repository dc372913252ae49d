//! Undirected links, each of which one side dialled.

/// An undirected graph without loops or parallel links, as lists of neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Dialler and listener.
    edges: Vec<(u32, u32)>,
    /// Where each node's links begin, and the end of the last one's.
    offsets: Vec<usize>,
    /// By node, then by peer.
    links: Vec<Link>,
}

/// A link as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The other end.
    pub peer: u32,
    /// Whether this end dialled.
    pub dialled: bool,
}

/// Edges that make no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A link from a node to itself.
    #[error("node {0} is linked to itself")]
    Loop(u32),
    /// Two links between the same nodes.
    #[error("nodes {0} and {1} are linked twice")]
    Parallel(u32, u32),
    /// A node that there is not.
    #[error("there is no node {node}: nodes are 0 to {}", nodes.saturating_sub(1))]
    NoNode {
        /// Its number.
        node: u32,
        /// How many there are.
        nodes: u32,
    },
}

/// How many links nodes have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Degrees {
    /// Of the node with the fewest.
    pub min: usize,
    /// On average.
    pub mean: f64,
    /// Of the node with the most.
    pub max: usize,
}

impl Graph {
    /// A graph of so many nodes with these edges (dialler, listener).
    ///
    /// # Errors
    /// Loops, parallel edges, and nodes beyond the last one.
    pub fn new(nodes: u32, edges: Vec<(u32, u32)>) -> Result<Self, GraphError> {
        let mut offsets = vec![0usize; nodes as usize + 1];
        for (dialler, listener) in &edges {
            for node in [*dialler, *listener] {
                if node >= nodes {
                    return Err(GraphError::NoNode { node, nodes });
                }
                offsets[node as usize + 1] += 1;
            }
            if dialler == listener {
                return Err(GraphError::Loop(*dialler));
            }
        }
        for node in 0..nodes as usize {
            offsets[node + 1] += offsets[node];
        }
        let mut next = offsets.clone();
        let mut links = vec![Link { peer: 0, dialled: false }; 2 * edges.len()];
        let mut put = |node: u32, peer: u32, dialled: bool| {
            let place = &mut next[node as usize];
            links[*place] = Link { peer, dialled };
            *place += 1;
        };
        for (dialler, listener) in &edges {
            put(*dialler, *listener, true);
            put(*listener, *dialler, false);
        }
        for node in 0..nodes as usize {
            let own = &mut links[offsets[node]..offsets[node + 1]];
            own.sort_unstable();
            if let Some(pair) = own.windows(2).find(|pair| pair[0].peer == pair[1].peer) {
                return Err(GraphError::Parallel(node as u32, pair[0].peer));
            }
        }
        Ok(Self { edges, offsets, links })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// All links: dialler and listener.
    pub fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }

    /// A node's links, sorted by peer.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn links(&self, node: u32) -> &[Link] {
        &self.links[self.offsets[node as usize]..self.offsets[node as usize + 1]]
    }

    /// How many links a node has.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn degree(&self, node: u32) -> usize {
        self.links(node).len()
    }

    /// Whether two nodes are linked.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn are_linked(&self, node: u32, peer: u32) -> bool {
        self.links(node).binary_search_by_key(&peer, |link| link.peer).is_ok()
    }

    /// How many links nodes have; all 0 without nodes.
    pub fn degrees(&self) -> Degrees {
        let degrees = || (0..self.nodes()).map(|node| self.degree(node));
        let mean = if self.nodes() == 0 { 0.0 } else { self.links.len() as f64 / f64::from(self.nodes()) };
        Degrees { min: degrees().min().unwrap_or(0), mean, max: degrees().max().unwrap_or(0) }
    }

    /// The nodes that no path links to `start`, in order.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn unreachable_from(&self, start: u32) -> Vec<u32> {
        let reached = self.reachable_from(start, |_| true);
        (0..self.nodes()).filter(|node| !reached[*node as usize]).collect()
    }

    /// Which nodes paths over nodes that are `allowed` link to `start` (which need not be).
    ///
    /// # Panics
    /// If there is no such node.
    pub fn reachable_from(&self, start: u32, allowed: impl Fn(u32) -> bool) -> Vec<bool> {
        let mut reached = vec![false; self.nodes() as usize];
        let mut waiting = vec![start];
        reached[start as usize] = true;
        while let Some(node) = waiting.pop() {
            for link in self.links(node) {
                if !reached[link.peer as usize] && allowed(link.peer) {
                    reached[link.peer as usize] = true;
                    waiting.push(link.peer);
                }
            }
        }
        reached
    }

    /// Whether paths link all nodes.
    pub fn is_connected(&self) -> bool {
        self.nodes() == 0 || self.unreachable_from(0).is_empty()
    }
}
