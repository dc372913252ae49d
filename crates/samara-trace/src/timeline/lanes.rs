//! Slices of a node in lanes, so that none overlaps another one of its lane: viewers nest slices of one track.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Kind, Slice, Timeline};

/// A lane of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) node: u32,
    /// 0 for what the node published and lost; copies that came are in those from 1 on.
    pub(super) lane: u32,
}

impl Lane {
    pub(super) fn name(self) -> String {
        if self.lane == 0 { "own".to_owned() } else { format!("received {}", self.lane) }
    }
}

impl Timeline {
    /// The lane of each slice. Slices that touch do not overlap, except those without length: two of them cannot be at one place.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let mut lanes: Vec<Lane> =
            self.slices.iter().map(|slice| Lane { node: slice.node, lane: 0 }).collect();
        let mut order: Vec<usize> =
            (0..self.slices.len()).filter(|at| is_received(&self.slices[*at])).collect();
        order.sort_by_key(|at| (self.slices[*at].node, self.slices[*at].start, *at));
        // Of one node: when each lane is free again, and the lanes that are free.
        let (mut node, mut count) = (None, 0);
        let mut busy: BinaryHeap<Reverse<(i64, u32)>> = BinaryHeap::new();
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        for at in order {
            let slice = &self.slices[at];
            if node != Some(slice.node) {
                (node, count) = (Some(slice.node), 0);
                busy.clear();
                free.clear();
            }
            while busy.peek().is_some_and(|Reverse((until, _))| *until <= slice.start) {
                free.extend(busy.pop().map(|Reverse((_, lane))| Reverse(lane)));
            }
            let lane = free.pop().map_or_else(
                || {
                    count += 1;
                    count
                },
                |Reverse(lane)| lane,
            );
            // A slice without length takes its moment.
            busy.push(Reverse((slice.end.max(slice.start + 1), lane)));
            lanes[at].lane = lane;
        }
        lanes
    }
}

/// Whether a copy came to the node.
fn is_received(slice: &Slice) -> bool {
    matches!(slice.kind, Kind::First | Kind::Duplicate | Kind::Rejected)
}
