//! What a node remembers of its peers for a while: backoffs, promises, and those that a mesh turned away.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use samara_engine::{NodeRng, PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use crate::engine::tables::TopicIdx;
use crate::rpc::MessageId;

/// The backoffs of one node.
///
/// Both sides of a PRUNE keep one. An entry stays in the table for `slack` longer than it lasts, and *candidates for
/// grafting* are chosen among the peers without any entry: clocks and latencies differ, and a GRAFT that arrives a
/// moment too early costs the sender score (rust-libp2p `backoff_slack`, go-libp2p-pubsub's lazy clearing).
#[derive(Debug)]
pub(crate) struct Backoffs {
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
    pub(crate) fn new(kept: bool, slack: Duration, remote_max: Duration) -> Self {
        Self { kept, slack, remote_max, until: HashMap::default(), due: BinaryHeap::new() }
    }

    /// The backoff to keep after a PRUNE that asks for `asked` (absent from v1.0 peers: then `default`).
    ///
    /// A peer can ask for any number of seconds up to `u64::MAX`; more than the maximum is cut, so that no sum with a
    /// moment can overflow (rust-libp2p 0.49.3 and 0.49.4 were advisories about just that).
    pub(crate) fn accepted(&self, asked: Option<Duration>, default: Duration) -> Duration {
        match asked {
            Some(asked) if !asked.is_zero() => asked.min(self.remote_max),
            _ => default,
        }
    }

    /// Keeps `peer` from `topic`'s mesh for `span` from `now`. Never shortens a backoff that lasts longer.
    pub(crate) fn add(&mut self, now: Time, peer: PeerId, topic: TopicIdx, span: Duration) {
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
    pub(crate) fn until(&self, peer: PeerId, topic: TopicIdx) -> Option<Time> {
        self.until.get(&(peer, topic)).copied()
    }

    /// Whether this node must not graft `peer` yet: the backoff with slack.
    pub(crate) fn is_pending(&self, now: Time, peer: PeerId, topic: TopicIdx) -> bool {
        self.until(peer, topic).is_some_and(|until| now < until + self.slack)
    }

    /// Forgets what is over, slack included. Called at each heartbeat; costs nothing while nothing is over.
    pub(crate) fn prune_expired(&mut self, now: Time) {
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
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.until.retain(|(known, _), _| *known != peer);
        self.due.retain(|Reverse((_, known, _))| *known != peer);
    }

    /// How many entries there are, lingering ones included.
    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }
}

/// Promises that are open, at most `capacity` of them.
///
/// Of every batch of ids that an IWANT asks for, one is drawn at random and followed up, as go-libp2p-pubsub does: a
/// peer that breaks its word is caught in the long run, at a bounded cost. A promise is kept as soon as the message
/// arrives from anybody, since the promising peer may have been overtaken.
#[derive(Debug)]
pub(crate) struct Promises {
    follow_up: Duration,
    capacity: usize,
    pub(crate) by_id: HashMap<MessageId, SmallVec<[(PeerId, Time); 1]>, PeerKeyed>,
    /// In the order of expiry; entries of kept promises are skipped when their time comes.
    queue: VecDeque<(Time, PeerId, MessageId)>,
    /// Promises that are not followed up, because the table was full.
    pub(crate) refused: u64,
}

impl Promises {
    /// No promises yet; each must be kept within `follow_up` (3 s in all implementations).
    pub(crate) fn new(follow_up: Duration, capacity: usize) -> Self {
        Self { follow_up, capacity, by_id: HashMap::default(), queue: VecDeque::new(), refused: 0 }
    }

    /// `peer` was asked for `ids` after its IHAVE: follows one of them up. Returns which.
    pub(crate) fn add<'a>(
        &mut self,
        now: Time,
        peer: PeerId,
        ids: &'a [MessageId],
        rng: &mut NodeRng,
    ) -> Option<&'a MessageId> {
        let id = rng.choose(ids)?;
        if self.queue.len() >= self.capacity {
            self.refused += 1;
            return None;
        }
        let until = now + self.follow_up;
        let peers = self.by_id.entry(id.clone()).or_default();
        if peers.iter().all(|(known, _)| *known != peer) {
            peers.push((peer, until));
            self.queue.push_back((until, peer, id.clone()));
        }
        Some(id)
    }

    /// The message arrived (from whomever) and begins validation, or was delivered, rejected or throttled: all promises
    /// of it are kept. Messages with a missing or wrong signature must not be reported here: their ids prove nothing.
    pub(crate) fn fulfil(&mut self, id: &MessageId) {
        if !self.by_id.is_empty() {
            self.by_id.remove(id);
        }
    }

    /// Forgives all that `peer` promised: this node throttled its validation, or the link is gone.
    pub(crate) fn forgive(&mut self, peer: PeerId) {
        let Self { by_id, queue, .. } = self;
        queue.retain(|(_, promising, id)| {
            if *promising == peer {
                Self::close(by_id, id, |known, _| known == peer);
            }
            *promising != peer
        });
    }

    /// The promises whose time is over, counted by peer, in the order of peers; they are forgotten.
    pub(crate) fn broken(&mut self, now: Time) -> Vec<(PeerId, u32)> {
        let mut broken: Vec<(PeerId, u32)> = Vec::new();
        while self.queue.front().is_some_and(|(until, ..)| *until < now) {
            let Some((until, peer, id)) = self.queue.pop_front() else { break };
            if Self::close(&mut self.by_id, &id, |known, at| known == peer && at == until) {
                match broken.binary_search_by_key(&peer, |(known, _)| *known) {
                    Ok(at) => broken[at].1 += 1,
                    Err(at) => broken.insert(at, (peer, 1)),
                }
            }
        }
        broken
    }

    /// Takes the promise that matches out of the table; whether there was one.
    fn close(
        by_id: &mut HashMap<MessageId, SmallVec<[(PeerId, Time); 1]>, PeerKeyed>,
        id: &MessageId,
        matches: impl Fn(PeerId, Time) -> bool,
    ) -> bool {
        let Some(peers) = by_id.get_mut(id) else { return false };
        let before = peers.len();
        peers.retain(|(peer, until)| !matches(*peer, *until));
        let closed = peers.len() < before;
        if peers.is_empty() {
            by_id.remove(id);
        }
        closed
    }

    /// Open promises, plus kept ones whose time has not come.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The turned-away peers of one node. At most one entry for each topic and link.
#[derive(Debug, Default)]
pub(crate) struct TurnedAway {
    until: BTreeMap<(TopicIdx, PeerId), Time>,
}

impl TurnedAway {
    /// A peer was refused, or had to leave; it is remembered until a time.
    pub(crate) fn add(&mut self, peer: PeerId, topic: TopicIdx, until: Time) {
        let known = self.until.entry((topic, peer)).or_insert(until);
        *known = until.max(*known);
    }

    /// Who is remembered for a topic; those whose time is over are forgotten.
    pub(crate) fn of(&mut self, topic: TopicIdx, now: Time) -> Vec<PeerId> {
        let of_topic = (topic, PeerId(0))..=(topic, PeerId(u32::MAX));
        let (over, peers): (Vec<_>, Vec<_>) = self
            .until
            .range(of_topic)
            .map(|((_, peer), until)| (*peer, *until))
            .partition(|(_, until)| *until < now);
        for (peer, _) in over {
            self.until.remove(&(topic, peer));
        }
        peers.into_iter().map(|(peer, _)| peer).collect()
    }

    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.until.retain(|(_, known), _| *known != peer);
    }

    pub(crate) fn forget_topic(&mut self, topic: TopicIdx) {
        self.until.retain(|(known, _), _| *known != topic);
    }
}
