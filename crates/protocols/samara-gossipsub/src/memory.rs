//! Temporary state about peers: backoffs, promises, and the peers that a mesh turned away.

// All tables here have keys that this node assigns, or addresses.
#![allow(clippy::disallowed_types)]

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
/// Both sides of a PRUNE keep a backoff. An entry stays in the table for `slack` longer than the
/// backoff lasts, and *candidates for grafting* are chosen among the peers without any entry.
/// Clocks and latencies differ, and a GRAFT that arrives slightly too early costs the sender score
/// (rust-libp2p `backoff_slack`, go-libp2p-pubsub's lazy clearing).
#[derive(Debug)]
pub(crate) struct Backoffs {
    kept: bool,
    slack: Duration,
    remote_max: Duration,
    until: HashMap<(PeerId, TopicIdx), Time, FxBuildHasher>,
    /// The next time to check each entry. An entry that was prolonged in the meantime is put back.
    due: BinaryHeap<Reverse<(Time, PeerId, TopicIdx)>>,
}

impl Backoffs {
    /// Creates a table whose entries linger for `slack` and which accepts requests of at most
    /// `remote_max`. If `kept` is false, the table stays empty.
    pub(crate) fn new(kept: bool, slack: Duration, remote_max: Duration) -> Self {
        Self { kept, slack, remote_max, until: HashMap::default(), due: BinaryHeap::new() }
    }

    /// Returns the backoff after a PRUNE that requests `asked`. PRUNEs of v1.0 peers request none:
    /// they get `default`.
    ///
    /// A peer can request any number of seconds up to `u64::MAX`. Longer requests are cut to the
    /// maximum, so that adding one to a time cannot overflow (the subject of the advisories about
    /// rust-libp2p 0.49.3 and 0.49.4).
    pub(crate) fn accepted(&self, asked: Option<Duration>, default: Duration) -> Duration {
        match asked {
            Some(asked) if !asked.is_zero() => asked.min(self.remote_max),
            _ => default,
        }
    }

    /// Keeps `peer` out of the mesh of `topic` for `span` from `now`. Never shortens a longer
    /// backoff.
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

    /// Returns the time at which the backoff of `peer` ends, even if it has ended and only lingers.
    pub(crate) fn until(&self, peer: PeerId, topic: TopicIdx) -> Option<Time> {
        self.until.get(&(peer, topic)).copied()
    }

    /// Returns true if this node must not graft `peer` yet, including the slack.
    pub(crate) fn is_pending(&self, now: Time, peer: PeerId, topic: TopicIdx) -> bool {
        self.until(peer, topic).is_some_and(|until| now < until + self.slack)
    }

    /// Forgets entries whose backoff and slack are over. Called at each heartbeat; cheap if none is
    /// over.
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

    /// Forgets all backoffs of a peer, because its number will be reused.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.until.retain(|(known, _), _| *known != peer);
        self.due.retain(|Reverse((_, known, _))| *known != peer);
    }

    /// Returns the number of entries, including lingering ones.
    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }
}

/// The open promises, at most `capacity` of them.
///
/// For every batch of ids that an IWANT requests, the node draws one id at random and tracks it, as
/// go-libp2p-pubsub does. This catches a peer that breaks its promises in the long run, at a
/// bounded cost. A promise is kept as soon as the message arrives from any peer, since another peer
/// may have been faster.
#[derive(Debug)]
pub(crate) struct Promises {
    follow_up: Duration,
    capacity: usize,
    pub(crate) by_id: HashMap<MessageId, SmallVec<[(PeerId, Time); 1]>, PeerKeyed>,
    /// Promises in order of expiry. Entries of kept promises are skipped when they expire.
    queue: VecDeque<(Time, PeerId, MessageId)>,
    /// Number of promises not tracked because the table was full.
    pub(crate) refused: u64,
    /// When the allowance of a peer for promises that are lost with streams is whole again.
    whole_at: BTreeMap<PeerId, Time>,
}

/// How often promises may be lost with streams of a peer, and the time until one more time is allowed,
/// in deadlines of promises. A peer decides when a stream ends: without a limit, one that begins a new
/// stream after each IHAVE would never break a promise. In the long run, two thirds of its promises
/// count. One whose streams break now and then loses no score.
const LOSSES_MAX: u32 = 3;
const LOSS_DEADLINES: u32 = 3;

impl Promises {
    /// Creates an empty table. Each promise must be kept within `follow_up` (3 s in all
    /// implementations).
    pub(crate) fn new(follow_up: Duration, capacity: usize) -> Self {
        let (by_id, queue, whole_at) = (HashMap::default(), VecDeque::new(), BTreeMap::new());
        Self { follow_up, capacity, by_id, queue, refused: 0, whole_at }
    }

    /// Tracks one of the `ids` that this node requested from `peer` after its IHAVE. Returns the
    /// tracked id.
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

    /// Marks all promises of a message as kept. Call it when the message arrives from any peer and
    /// begins validation, or is delivered, rejected or throttled. Do not call it for messages with
    /// a missing or invalid signature: their ids prove nothing.
    pub(crate) fn fulfil(&mut self, id: &MessageId) {
        if !self.by_id.is_empty() {
            self.by_id.remove(id);
        }
    }

    /// Forgives all promises of `peer`, because this node throttled its validation or the link
    /// closed. Returns true if one was open.
    pub(crate) fn forgive(&mut self, peer: PeerId) -> bool {
        let Self { by_id, queue, .. } = self;
        let mut was_open = false;
        queue.retain(|(_, promising, id)| {
            if *promising == peer {
                was_open |= Self::close(by_id, id, |known, _| known == peer);
            }
            *promising != peer
        });
        was_open
    }

    /// Forgives all promises of `peer`, whose answers may be lost with a stream, unless that has happened
    /// too often.
    pub(crate) fn forgive_lost(&mut self, now: Time, peer: PeerId) {
        let every = self.follow_up * LOSS_DEADLINES;
        let whole_at = self.whole_at.get(&peer).map_or(now, |at| now.max(*at));
        if whole_at <= now + every * (LOSSES_MAX - 1) && self.forgive(peer) {
            self.whole_at.insert(peer, whole_at + every);
        }
    }

    /// Forgets a peer whose number will be reused.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.forgive(peer);
        self.whole_at.remove(&peer);
    }

    /// Removes the expired promises, and returns their number for each peer, ordered by peer.
    pub(crate) fn broken(&mut self, now: Time) -> Vec<(PeerId, u32)> {
        let mut broken: Vec<(PeerId, u32)> = Vec::new();
        self.whole_at.retain(|_, at| now < *at);
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

    /// Removes a matching promise from the table. Returns true if there was one.
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

    /// Returns the number of open promises, plus kept ones that have not expired.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The peers that the meshes of one node pruned or refused. Holds at most one entry per topic and link.
#[derive(Debug, Default)]
pub(crate) struct PrunedPeers {
    until: BTreeMap<(TopicIdx, PeerId), Time>,
}

impl PrunedPeers {
    /// Remembers until a time that a mesh rejected or removed a peer.
    pub(crate) fn add(&mut self, peer: PeerId, topic: TopicIdx, until: Time) {
        let known = self.until.entry((topic, peer)).or_insert(until);
        *known = until.max(*known);
    }

    /// Returns the peers remembered for a topic, and forgets those whose time is over.
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
