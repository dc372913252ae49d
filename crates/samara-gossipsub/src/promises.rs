//! What peers promised by IHAVE and did not send after IWANT (specification v1.1, "Spam protection measures").

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::{NodeRng, PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use crate::rpc::MessageId;

/// Promises that are open, at most `capacity` of them.
///
/// Of every batch of ids that an IWANT asks for, one is drawn at random and followed up, as go-libp2p-pubsub does: a
/// peer that breaks its word is caught in the long run, at a bounded cost. A promise is kept as soon as the message
/// arrives from anybody, since the promising peer may have been overtaken.
#[derive(Debug)]
pub struct Promises {
    follow_up: Duration,
    capacity: usize,
    by_id: HashMap<MessageId, SmallVec<[(PeerId, Time); 1]>, PeerKeyed>,
    /// In the order of expiry; entries of kept promises are skipped when their time comes.
    queue: VecDeque<(Time, PeerId, MessageId)>,
    refused: u64,
}

impl Promises {
    /// No promises yet; each must be kept within `follow_up` (3 s in all implementations).
    pub fn new(follow_up: Duration, capacity: usize, hasher: PeerKeyed) -> Self {
        Self { follow_up, capacity, by_id: HashMap::with_hasher(hasher), queue: VecDeque::new(), refused: 0 }
    }

    /// `peer` was asked for `ids` after its IHAVE: follows one of them up. Returns which.
    pub fn add<'a>(
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
    pub fn fulfil(&mut self, id: &MessageId) {
        if !self.by_id.is_empty() {
            self.by_id.remove(id);
        }
    }

    /// Forgives all that `peer` promised: this node throttled its validation, or the link is gone.
    pub fn forgive(&mut self, peer: PeerId) {
        let Self { by_id, queue, .. } = self;
        queue.retain(|(_, promising, id)| {
            if *promising == peer {
                Self::close(by_id, id, |known, _| known == peer);
            }
            *promising != peer
        });
    }

    /// The promises whose time is over, counted by peer, in the order of peers; they are forgotten.
    pub fn broken(&mut self, now: Time) -> Vec<(PeerId, u32)> {
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
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is followed up.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Batches that were not followed up because the table was full.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
