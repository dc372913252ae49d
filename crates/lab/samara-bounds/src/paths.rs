//! Shortest paths: the least time in which a message of one host can reach each other host.
//!
//! A message reaches a host over some path of links, since each host passes it on only after it has
//! it. It cannot be there before the sum of the least times of these links, and no path has a lower
//! sum than the shortest one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// For each host, its links: the other end, and the least time of a message on the link.
pub type Links = Vec<Vec<(u32, f64)>>;

/// Returns the length of the shortest path from a host to each host; infinite without a path.
///
/// Times are not negative, and the results are in their unit.
///
/// # Panics
/// If `from` or an end of a link is not among the hosts.
pub fn paths(links: &Links, from: u32) -> Vec<f64> {
    let mut path = vec![f64::INFINITY; links.len()];
    path[from as usize] = 0.0;
    let mut queue = BinaryHeap::from([Reverse((Ordered(0.0), from))]);
    while let Some(Reverse((Ordered(at), host))) = queue.pop() {
        if at > path[host as usize] {
            continue;
        }
        for (to, time) in &links[host as usize] {
            if at + time < path[*to as usize] {
                path[*to as usize] = at + time;
                queue.push(Reverse((Ordered(at + time), *to)));
            }
        }
    }
    path
}

/// A time without NaN, for an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ordered(pub(crate) f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
