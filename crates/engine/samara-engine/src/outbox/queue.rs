//! The queues of one link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::message::{Key, Store};
use crate::Time;

/// Stands for no copy, no group and no place.
pub(super) const NONE: u32 = u32::MAX;

/// A copy in line. The serial distinguishes it from a later copy in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) serial: u64,
    pub(super) slot: u32,
}

/// The copies of one lane on one link: a list of all copies in the order in which they were owed,
/// and a heap of those that may leave in the order in which they leave.
#[derive(Debug)]
pub(super) struct LaneQueue {
    /// Keys may be out of date (too small), and copies may be gone.
    heap: BinaryHeap<Reverse<Entry>>,
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) copies: u32,
    /// The place of this link in the lane's list of active links.
    pub(super) active: u32,
    pub(super) bytes: u64,
    /// No copy expires before this time. Without it, a full lane would look at all of its copies for
    /// each one that it refuses.
    pub(super) expires: Time,
}

impl LaneQueue {
    fn new() -> Self {
        let (heap, expires) = (BinaryHeap::new(), Time::MAX);
        Self { heap, head: NONE, tail: NONE, copies: 0, active: NONE, bytes: 0, expires }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.heap.is_empty() {
            // Most queues have one copy. There is nothing to compare, and `BinaryHeap::push` would
            // read the entry back at once in words of another size than they were written, which
            // stalls until all earlier writes have finished.
            let mut entries = std::mem::take(&mut self.heap).into_vec();
            entries.push(Reverse(entry));
            self.heap = entries.into();
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    /// Returns the first copy that may leave, with its key brought up to date.
    pub(super) fn first<F>(&mut self, store: &Store<F>) -> Option<Entry> {
        while let Some(mut top) = self.heap.peek_mut() {
            let entry = top.0;
            let Some(copy) = store.live(&entry) else {
                PeekMut::pop(top);
                continue;
            };
            // The key of a copy that was owed outside a batch never changes.
            if copy.origin.batch == NONE {
                return Some(entry);
            }
            let key = store.key(entry.slot, copy);
            if key == entry.key {
                return Some(entry);
            }
            debug_assert!(key > entry.key, "the key of a pending copy decreased");
            top.0.key = key;
        }
        None
    }

    /// Rebuilds the heap with new keys.
    pub(super) fn rekey<F>(&mut self, store: &Store<F>) {
        let entries = std::mem::take(&mut self.heap).into_vec().into_iter();
        let fresh = entries.filter_map(|Reverse(entry)| {
            store.live(&entry).map(|copy| Reverse(Entry { key: store.key(entry.slot, copy), ..entry }))
        });
        self.heap = fresh.collect();
    }

    /// Removes entries of copies that are gone, once they are the majority.
    pub(super) fn tidy<F>(&mut self, store: &Store<F>) {
        if self.copies == 0 {
            self.expires = Time::MAX;
            self.heap.clear();
            self.heap.shrink_to(HEAP_KEPT);
        } else if self.heap.len() > 2 * self.copies as usize + 16 {
            self.heap.retain(|entry| store.live(&entry.0).is_some());
        }
    }
}

/// An empty queue keeps room for this many copies.
const HEAP_KEPT: usize = 16;

/// The memory of a link with copies: the queues of all lanes, and the lane that was served last, by
/// class of equal priority.
type Queues = (Vec<LaneQueue>, Option<Box<[u8]>>);

/// The memory of links that became empty, for the next links that get copies. On most links, copies
/// come one at a time.
pub(super) type Spare = Vec<Queues>;

/// Maximum number of links whose memory is kept.
const SPARE_MAX: usize = 8;

/// One link. It owns no memory besides itself (48 bytes) while nothing is pending.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) lanes: Vec<LaneQueue>,
    /// The lane that was served last, by class of equal priority.
    turns: Option<Box<[u8]>>,
    pub(super) copies: u32,
    pub(super) touched: bool,
}

impl Link {
    pub(super) fn lane_mut(&mut self, lane: usize, lanes: usize, spare: &mut Spare) -> &mut LaneQueue {
        if self.lanes.is_empty() {
            match spare.pop() {
                Some(queues) => (self.lanes, self.turns) = queues,
                None => self.lanes = (0..lanes).map(|_| LaneQueue::new()).collect(),
            }
        }
        &mut self.lanes[lane]
    }

    pub(super) fn last_lane(&self, class: usize) -> Option<u8> {
        self.turns.as_ref().map(|turns| turns[class]).filter(|lane| *lane != u8::MAX)
    }

    pub(super) fn note_turn(&mut self, class: usize, classes: usize, lane: u8) {
        self.turns.get_or_insert_with(|| vec![u8::MAX; classes].into())[class] = lane;
    }

    #[cfg(test)]
    pub(super) fn owns_memory(&self) -> bool {
        self.lanes.capacity() > 0 || self.turns.is_some()
    }

    /// Hands the memory of an empty link to `spare`.
    pub(super) fn tidy(&mut self, spare: &mut Spare) {
        if self.copies == 0 {
            let (lanes, mut turns) = (std::mem::take(&mut self.lanes), self.turns.take());
            if spare.len() < SPARE_MAX && !lanes.is_empty() {
                turns.iter_mut().for_each(|turns| turns.fill(u8::MAX));
                spare.push((lanes, turns));
            }
        }
    }
}

/// Lanes of equal priority, in the order of their numbers.
pub(super) type Class = Vec<u8>;

/// Returns the lanes by priority, smallest first.
pub(super) fn classes(lanes: &[super::LaneConfig]) -> Vec<Class> {
    let mut priorities: Vec<u8> = lanes.iter().map(|lane| lane.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    priorities
        .into_iter()
        .map(|priority| {
            (0..lanes.len()).filter(|lane| lanes[*lane].priority == priority).map(|lane| lane as u8).collect()
        })
        .collect()
}

/// Returns the lanes of a class in turn, starting after the lane that was served last.
pub(super) fn in_turn(class: &Class, last: Option<u8>) -> impl Iterator<Item = u8> + '_ {
    let start = last.map_or(0, |last| class.partition_point(|lane| *lane <= last));
    class[start..].iter().chain(&class[..start]).copied()
}
