//! The fastest spread of a message when latency is longer than sending: the postal model.
//!
//! Bar-Noy and Kipnis, "Designing broadcasting algorithms in the postal model for message-passing systems" (1992): a node
//! that has the message sends a copy in every unit of time, and a copy arrives a fixed latency later. Sending at once and
//! always to a node that does not have it yet is optimal for every number of nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// From the end of sending a copy until it is received whole.
    pub latency: u64,
    /// From then until the receiver passes it on at the earliest.
    pub relay_delay: u64,
    /// How long any node but the source takes to send a copy.
    pub serialisation: u64,
}

impl Model {
    /// When the first `count` nodes have the message that descend from a single copy of the source, counted from the moment
    /// at which the source has sent that copy; in the order of these times.
    pub fn tree(&self, count: usize) -> Vec<u64> {
        // When a copy has been sent, by anybody.
        let mut sent = BinaryHeap::from([(Reverse(0), true)]);
        let mut arrivals = Vec::with_capacity(count);
        while arrivals.len() < count {
            let Some((Reverse(at), by_source)) = sent.pop() else { break };
            let arrival = at + self.latency;
            arrivals.push(arrival);
            sent.push((Reverse(arrival + self.relay_delay + self.serialisation), false));
            if !by_source {
                sent.push((Reverse(at + self.serialisation), false));
            }
        }
        arrivals
    }
}

/// The nodes that descend from one copy of the source, over time.
#[derive(Clone, Debug)]
pub struct Tree {
    /// When each is reached.
    arrivals: Vec<u64>,
    /// The sums of the first ones.
    sums: Vec<f64>,
}

impl Tree {
    /// The fastest tree of so many nodes.
    pub fn new(model: &Model, count: usize) -> Self {
        let arrivals = model.tree(count);
        let mut sums = Vec::with_capacity(count + 1);
        sums.push(0.0);
        arrivals.iter().for_each(|arrival| sums.push(sums[sums.len() - 1] + *arrival as f64));
        Self { arrivals, sums }
    }

    /// When the last node is reached.
    pub fn span(&self) -> f64 {
        self.arrivals.last().map_or(0.0, |last| *last as f64)
    }

    /// The sum of the times at which the first nodes are reached.
    pub fn total(&self, nodes: usize) -> f64 {
        self.sums[nodes]
    }

    /// How many nodes are reached by a time.
    pub fn reached(&self, time: f64) -> usize {
        self.arrivals.partition_point(|arrival| *arrival as f64 <= time)
    }

    /// The integral of [`reached`](Self::reached) from the start to a time: how much time all nodes have had the message.
    pub fn held(&self, time: f64) -> f64 {
        let reached = self.reached(time);
        reached as f64 * time - self.sums[reached]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_s_descendants_double_where_latency_is_nothing() {
        let model = Model { latency: 0, relay_delay: 0, serialisation: 1 };
        assert_eq!(model.tree(9), [0, 1, 2, 2, 3, 3, 3, 3, 4]);
        // A latency of two units: 1, 1, 1, 2, 3, 4, 6 ... nodes have it, the sequence of Bar-Noy and Kipnis.
        let model = Model { latency: 2, relay_delay: 0, serialisation: 1 };
        assert_eq!(model.tree(7), [2, 5, 6, 7, 8, 8, 9]);
    }

    #[test]
    fn sums_and_integrals_agree_with_counting() {
        let model = Model { latency: 5, relay_delay: 1, serialisation: 2 };
        let tree = Tree::new(&model, 40);
        for time in 0..60 {
            let counted: usize = (0..time).map(|at| tree.reached(f64::from(at))).sum();
            assert!((tree.held(f64::from(time)) - counted as f64).abs() < 1e-9);
        }
    }
}
