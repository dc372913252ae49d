//! Packets from the hosts of one thread to those of another.

use std::sync::{Mutex, PoisonError};

use crate::packet::Packet;

/// Packets that are handed over together, so that locks are rare.
const BUNDLE: usize = 512;

/// What came for a shard and was not taken yet.
pub(crate) type Mailbox<F> = Mutex<Vec<Packet<F>>>;

/// What a shard sends to others, and what they sent to it. The order in which packets are taken does not matter: a host sorts those of a
/// window.
pub(crate) struct Mail<'a, F> {
    own: usize,
    /// By shard.
    boxes: &'a [Mailbox<F>],
    waiting: Vec<Vec<Packet<F>>>,
    taken: Vec<Packet<F>>,
    /// To hosts of other processes.
    pub(crate) away: Vec<Packet<F>>,
}

impl<'a, F> Mail<'a, F> {
    /// That of the shard with a number.
    pub(crate) fn new(own: usize, boxes: &'a [Mailbox<F>]) -> Self {
        Self {
            own,
            boxes,
            waiting: boxes.iter().map(|_| Vec::new()).collect(),
            taken: Vec::new(),
            away: Vec::new(),
        }
    }

    /// The number of the shard.
    pub(crate) const fn own(&self) -> usize {
        self.own
    }

    /// How many shards there are.
    pub(crate) const fn shards(&self) -> usize {
        self.boxes.len()
    }

    /// Sends a packet to another shard, sooner or later.
    pub(crate) fn send(&mut self, to: usize, packet: Packet<F>) {
        self.waiting[to].push(packet);
        if self.waiting[to].len() >= BUNDLE {
            self.hand_over(to);
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) {
        (0..self.waiting.len()).for_each(|to| self.hand_over(to));
    }

    fn hand_over(&mut self, to: usize) {
        if !self.waiting[to].is_empty() {
            lock(&self.boxes[to]).append(&mut self.waiting[to]);
        }
    }

    /// What came since the last time.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, Packet<F>> {
        std::mem::swap(&mut *lock(&self.boxes[self.own]), &mut self.taken);
        self.taken.drain(..)
    }
}

/// A thread that panics ends the whole simulation, so that what it left is never read.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
