//! Who must not be grafted for how long, by peer and topic (specification v1.1, "Prune backoff and peer exchange").

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{PeerId, Time};

use crate::ids::TopicIdx;

/// The backoffs of one node.
///
/// Both sides of a PRUNE keep one. An entry stays in the table for `slack` longer than it lasts, and *candidates for
/// grafting* are chosen among the peers without any entry: clocks and latencies differ, and a GRAFT that arrives a
/// moment too early costs the sender score (rust-libp2p `backoff_slack`, go-libp2p-pubsub's lazy clearing).
#[derive(Debug)]
pub struct Backoffs {
    kept: bool,
    slack: Duration,
    remote_max: Duration,
    until: HashMap<(PeerId, TopicIdx), Time, FxBuildHasher>,
    /// When to look at an entry next; entries that were prolonged meanwhile are put back.
    due: BinaryHeap<Reverse<(Time, PeerId, TopicIdx)>>,
}

impl Backoffs {
    /// A table whose entries linger for `slack`, and which believes at most `remote_max` of what peers ask for; where none are
    /// `kept`, it stays empty.
    pub fn new(kept: bool, slack: Duration, remote_max: Duration) -> Self {
        Self { kept, slack, remote_max, until: HashMap::default(), due: BinaryHeap::new() }
    }

    /// The backoff to keep after a PRUNE that asks for `asked` (absent from v1.0 peers: then `default`).
    ///
    /// A peer can ask for any number of seconds up to `u64::MAX`; more than the maximum is cut, so that no sum with a
    /// moment can overflow (rust-libp2p 0.49.3 and 0.49.4 were advisories about just that).
    pub fn accepted(&self, asked: Option<Duration>, default: Duration) -> Duration {
        match asked {
            Some(asked) if !asked.is_zero() => asked.min(self.remote_max),
            _ => default,
        }
    }

    /// Keeps `peer` from `topic`'s mesh for `span` from `now`. Never shortens a backoff that lasts longer.
    pub fn add(&mut self, now: Time, peer: PeerId, topic: TopicIdx, span: Duration) {
        if !self.kept {
            return;
        }
        let until = now + span;
        match self.until.get_mut(&(peer, topic)) {
            Some(known) => *known = until.max(*known),
            None => {
                self.until.insert((peer, topic), until);
                self.due.push(Reverse((until + self.slack, peer, topic)));
            }
        }
    }

    /// When the backoff of `peer` ends, also if it ended already but lingers.
    pub fn until(&self, peer: PeerId, topic: TopicIdx) -> Option<Time> {
        self.until.get(&(peer, topic)).copied()
    }

    /// Whether a GRAFT from `peer` comes too early: the backoff as agreed, without slack.
    pub fn is_active(&self, now: Time, peer: PeerId, topic: TopicIdx) -> bool {
        self.until(peer, topic).is_some_and(|until| now < until)
    }

    /// Whether this node must not graft `peer` yet: the backoff with slack.
    pub fn is_pending(&self, now: Time, peer: PeerId, topic: TopicIdx) -> bool {
        self.until(peer, topic).is_some_and(|until| now < until + self.slack)
    }

    /// Forgets what is over, slack included. Called at each heartbeat; costs nothing while nothing is over.
    pub fn prune_expired(&mut self, now: Time) {
        while let Some(&Reverse((due, peer, topic))) = self.due.peek() {
            if due > now {
                return;
            }
            self.due.pop();
            let Some(&until) = self.until.get(&(peer, topic)) else { continue };
            if until + self.slack <= now {
                self.until.remove(&(peer, topic));
            } else {
                self.due.push(Reverse((until + self.slack, peer, topic)));
            }
        }
    }

    /// Forgets all backoffs of a peer: its number goes to another.
    pub fn forget_peer(&mut self, peer: PeerId) {
        self.until.retain(|(known, _), _| *known != peer);
        self.due.retain(|Reverse((_, known, _))| *known != peer);
    }

    /// How many entries there are, lingering ones included.
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }
}
