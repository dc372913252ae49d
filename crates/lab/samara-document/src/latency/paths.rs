//! Shortest paths over the pairs of a table, as Shadow computes them for its graphs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{LatencyTable, MISSING};

/// Maximum number of rows times pairs, some seconds of work.
const STEPS_MAX: u64 = 10_000_000_000;

/// The length of a path: first its nanoseconds, then its loss in units of 2^-32. Whole numbers have
/// an order.
type Length = (u64, u64);

impl LatencyTable {
    /// Replaces the values of all pairs of different rows by those of the shortest paths. The value
    /// from a row to itself stays.
    pub(super) fn follow_paths(&mut self) -> Result<(), String> {
        let size = self.size;
        let others = |from: usize| (0..size).filter(move |to| *to != from);
        let edges: Vec<Vec<(u32, u32, f32)>> = (0..size)
            .map(|from| {
                let edge = |to: usize| Some((to as u32, self.get(from, to)?, self.loss(from, to)));
                others(from).filter_map(edge).collect()
            })
            .collect();
        let count: u64 = edges.iter().map(|of_row| of_row.len() as u64).sum();
        if count.saturating_mul(size as u64) > STEPS_MAX {
            return Err(format!(
                "{}: has {count} pairs of {size} ends, too many for shortest paths; remove paths in network.latency_file",
                self.file
            ));
        }
        for from in 0..size {
            let lengths = shortest(&edges, from);
            for to in others(from) {
                let Some((nanos, kept)) = lengths[to] else { continue };
                let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos != MISSING);
                let nanos = nanos.ok_or_else(|| {
                    let (from, to) = (self.name(from), self.name(to));
                    format!(
                        "{}: the path from {from} to {to} takes more than 4.29 s; is the unit right?",
                        self.file
                    )
                })?;
                self.set(from, to, Some(nanos));
                self.set_loss(from, to, 1.0 - kept);
            }
        }
        Ok(())
    }
}

/// The nanoseconds and the share of packets that arrive, over the shortest path to each row that one
/// leads to. Of paths with the same latency, the one with the least loss counts.
fn shortest(edges: &[Vec<(u32, u32, f32)>], from: usize) -> Vec<Option<(u64, f32)>> {
    let mut best: Vec<Option<(u64, f32)>> = vec![None; edges.len()];
    let mut queue: BinaryHeap<Reverse<(Length, usize)>> = BinaryHeap::new();
    let length =
        |nanos: u64, kept: f32| -> Length { (nanos, (f64::from(1.0 - kept) * 4_294_967_296.0) as u64) };
    best[from] = Some((0, 1.0));
    queue.push(Reverse((length(0, 1.0), from)));
    while let Some(Reverse((here, row))) = queue.pop() {
        let Some((nanos, kept)) = best[row].filter(|(nanos, kept)| length(*nanos, *kept) == here) else {
            continue;
        };
        for (to, more, loss) in &edges[row] {
            let found = (nanos + u64::from(*more), kept * (1.0 - loss));
            let known = &mut best[*to as usize];
            let reached = length(found.0, found.1);
            if known.is_none_or(|known| reached < length(known.0, known.1)) {
                *known = Some(found);
                queue.push(Reverse((reached, *to as usize)));
            }
        }
    }
    best
}
