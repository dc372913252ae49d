//! What is to be done later. One timer of the driver serves all of it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use samara_engine::{PeerId, Time};

use super::items::ItemId;

/// Something to be done at its time. What has become pointless is found out then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A request may be overdue.
    Timeout { item: ItemId, peer: PeerId, serial: u32 },
    /// The window for announcements is over.
    Announce,
    /// The jitter of one announcement is over.
    AnnounceItem { item: ItemId },
    /// Whoever received the transaction has slept: it is announced, and the frames of this peer, or of all, go on.
    Wake { item: ItemId, peer: PeerId, pushed: bool },
    /// A push that was announced should have come; if not, this peer is asked.
    PushOverdue { item: ItemId, peer: PeerId },
    /// Only peers that are not relied on had announced it: if nobody else has by now, they are asked.
    NoBetter { item: ItemId },
    /// A queue was full of bodies: try again.
    Retry { peer: PeerId },
    /// A queue was full of announcements: tell the peer of everything that it is not known to have.
    Resync { peer: PeerId },
    /// The window for own transactions is over.
    Bundle,
    /// A compact block is given up unless it is complete.
    BlockOverdue { item: ItemId },
    /// What is remembered of absent transactions may be too old.
    Prune,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at: Time,
    serial: u64,
    task: Task,
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Tasks in the order of their times; those of the same time as they were entered.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Due>>,
    serial: u64,
    /// When the driver's timer fires.
    armed: Option<Time>,
}

impl Agenda {
    pub(super) fn push(&mut self, at: Time, task: Task) {
        self.serial += 1;
        self.heap.push(Reverse(Due { at, serial: self.serial, task }));
    }

    /// The first task that is due, and when it was.
    pub(super) fn pop(&mut self, now: Time) -> Option<Task> {
        self.heap.peek().filter(|due| due.0.at <= now)?;
        self.heap.pop().map(|due| due.0.task)
    }

    /// The driver's timer has fired.
    pub(super) fn fired(&mut self, now: Time) {
        if self.armed.is_some_and(|armed| armed <= now) {
            self.armed = None;
        }
    }

    /// When to set the driver's timer, if that is necessary. `is_pointless` tells tasks that need not wake anybody.
    pub(super) fn arm(&mut self, is_pointless: impl Fn(&Task) -> bool) -> Option<Time> {
        let is_in_time = |armed: Time| self.heap.peek().is_none_or(|due| armed <= due.0.at);
        if self.armed.is_some_and(is_in_time) {
            return None;
        }
        while self.heap.peek().is_some_and(|due| is_pointless(&due.0.task)) {
            self.heap.pop();
        }
        let at = self.heap.peek()?.0.at;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}
