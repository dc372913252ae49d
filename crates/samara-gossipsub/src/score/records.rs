//! Who delivered a message, and what became of it: needed because copies arrive before the verdict.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{MessageKey, PeerId, Time};
use smallvec::SmallVec;

/// What is known of a message (go-libp2p-pubsub `deliveryStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Being validated.
    Unknown,
    /// Accepted at this time.
    Valid(Time),
    /// Rejected: whoever sends it is penalised.
    Invalid,
    /// Ignored by the application, or validation was throttled: nobody is to blame.
    Unjudged,
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) status: Status,
    /// Who sent a copy while that mattered, sorted.
    pub(super) peers: SmallVec<[PeerId; 4]>,
}

impl Record {
    /// Notes a copy from `peer`: `false` if it sent one before, or if there is no room to remember it.
    pub(super) fn note(&mut self, peer: PeerId, peers_max: usize) -> bool {
        match self.peers.binary_search(&peer) {
            Err(at) if self.peers.len() < peers_max => {
                self.peers.insert(at, peer);
                true
            }
            _ => false,
        }
    }
}

/// The records of the messages of the last time to live, bounded in number.
#[derive(Debug)]
pub(super) struct Records {
    ttl: Duration,
    capacity: usize,
    by_key: HashMap<MessageKey, Record, FxBuildHasher>,
    /// In the order of expiry.
    queue: VecDeque<(Time, MessageKey)>,
    pub(super) evicted: u64,
}

impl Records {
    pub(super) fn new(ttl: Duration, capacity: usize) -> Self {
        Self { ttl, capacity, by_key: HashMap::default(), queue: VecDeque::new(), evicted: 0 }
    }

    /// The record of a message, made if there is none.
    pub(super) fn get_or_make(&mut self, now: Time, key: MessageKey) -> &mut Record {
        self.expire(now);
        if !self.by_key.contains_key(&key) {
            if self.queue.len() >= self.capacity
                && let Some((_, oldest)) = self.queue.pop_front()
            {
                self.by_key.remove(&oldest);
                self.evicted += 1;
            }
            self.queue.push_back((now + self.ttl, key));
        }
        let fresh = || Record { status: Status::Unknown, peers: SmallVec::new() };
        self.by_key.entry(key).or_insert_with(fresh)
    }

    /// Forgets what is over.
    pub(super) fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, key)) = self.queue.pop_front() {
                self.by_key.remove(&key);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}
