//! What a node owes to its peers, and which copy leaves next.

mod config;
mod schedule;

use std::collections::VecDeque;

pub use config::{Counters, Dispatch, Lane, LaneConfig, OutboxConfig, Overflow, Tally};
pub use schedule::{FeedbackSource, MessageOrder, PeerOrder, Schedule, Weight};

use crate::{Frame, MessageKey, NodeRng, PeerId, Time};

/// A message that is owed to several peers.
#[derive(Clone, Debug)]
pub struct Owe<F> {
    /// The message.
    pub message: MessageKey,
    /// What to send.
    pub frame: F,
    /// To whom, each peer at most once.
    pub peers: Vec<PeerId>,
    /// A copy that has not left by then is not sent any more.
    pub deadline: Option<Time>,
}

/// One copy that leaves: a frame for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy<F> {
    /// For whom.
    pub peer: PeerId,
    /// The lane it was owed on.
    pub lane: Lane,
    /// The message that it is a copy of, if it is one.
    pub message: Option<MessageKey>,
    /// What to send.
    pub frame: F,
    /// Its encoded length.
    pub len: u32,
    /// Since when it was owed.
    pub owed_at: Time,
    /// How many copies of the message had left before this one.
    pub rank: u32,
}

/// What could not be owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// To whom.
    pub peer: PeerId,
    /// Of what.
    pub message: Option<MessageKey>,
    /// Why.
    pub cause: LossCause,
}

/// Why a copy was not taken, or was lost later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// There is no link to the peer.
    NotConnected,
    /// The queue was full and the policy is to drop the newest.
    DroppedNewest,
    /// The queue was full and this older copy made room.
    DroppedOldest,
    /// The queue was full and the policy is to refuse.
    Refused,
}

/// What a node owes, by peer and by message.
#[derive(Debug)]
pub struct Outbox<F> {
    config: OutboxConfig,
    queues: Vec<Option<VecDeque<Copy<F>>>>,
    touched: Vec<PeerId>,
    counters: Vec<Counters>,
}

impl<F: Frame> Outbox<F> {
    /// An empty outbox.
    pub fn new(config: OutboxConfig) -> Self {
        let counters = vec![Counters::default(); config.lanes.len()];
        Self { config, queues: Vec::new(), touched: Vec::new(), counters }
    }

    // ---- the engine's side ----

    /// Owes one frame to one peer, behind what the lane already owes it.
    ///
    /// # Errors
    /// What was lost: this copy, or the older one that made room for it.
    pub fn owe(
        &mut self,
        now: Time,
        peer: PeerId,
        lane: Lane,
        frame: F,
        message: Option<MessageKey>,
        deadline: Option<Time>,
    ) -> Result<(), Lost> {
        let _ = deadline;
        let len = frame.encoded_len() as u32;
        let Some(Some(queue)) = self.queues.get_mut(peer.index()) else {
            return Err(Lost { peer, message, cause: LossCause::NotConnected });
        };
        queue.push_back(Copy { peer, lane, message, frame, len, owed_at: now, rank: 0 });
        self.counters[usize::from(lane.0)].owed.add(len);
        self.touched.push(peer);
        Ok(())
    }

    /// Owes messages to peers in the order of a schedule: one message that is published or forwarded, or a whole batch.
    /// What could not be owed is appended to `lost`; returns the number of copies taken.
    pub fn owe_batch(
        &mut self,
        now: Time,
        lane: Lane,
        batch: impl IntoIterator<Item = Owe<F>>,
        schedule: &Schedule,
        rng: &mut NodeRng,
        lost: &mut Vec<Lost>,
    ) -> usize {
        let _ = (schedule, rng);
        let mut taken = 0;
        for owe in batch {
            for peer in owe.peers {
                match self.owe(now, peer, lane, owe.frame.clone(), Some(owe.message), owe.deadline) {
                    Ok(()) => taken += 1,
                    Err(cause) => lost.push(cause),
                }
            }
        }
        taken
    }

    /// Takes back what is owed of a message to a peer. Returns the number of copies.
    pub fn withdraw(&mut self, peer: PeerId, message: MessageKey) -> usize {
        let Some(Some(queue)) = self.queues.get_mut(peer.index()) else { return 0 };
        let before = queue.len();
        let counters = &mut self.counters;
        queue.retain(|copy| {
            let keep = copy.message != Some(message);
            if !keep {
                counters[usize::from(copy.lane.0)].withdrawn.add(copy.len);
            }
            keep
        });
        before - queue.len()
    }

    /// Takes back what is owed of a message to everybody. Returns the number of copies.
    pub fn withdraw_message(&mut self, message: MessageKey) -> usize {
        (0..self.queues.len()).map(|i| self.withdraw(PeerId(i as u32), message)).sum()
    }

    /// Notes that a peer has, or claims to have, a message: releases a staggered copy that waited for it, and counts as
    /// feedback for schedules that use it. Does not withdraw anything.
    pub fn note_has(&mut self, now: Time, peer: PeerId, message: MessageKey) {
        let _ = (now, peer, message);
    }

    /// Sets what a weighted order weighs a peer by. Values that are not positive and finite count as the smallest weight.
    pub fn set_weight(&mut self, peer: PeerId, weight: Weight, value: f64) {
        let _ = (peer, weight, value);
    }

    // ---- the driver's side ----

    /// A link is up: from now on the peer can be owed something.
    pub fn link_up(&mut self, peer: PeerId) {
        if self.queues.len() <= peer.index() {
            self.queues.resize_with(peer.index() + 1, || None);
        }
        self.queues[peer.index()].get_or_insert_default();
    }

    /// A link is gone: all that is owed to the peer is withdrawn. Returns the number of copies.
    pub fn link_down(&mut self, peer: PeerId) -> usize {
        let Some(queue) = self.queues.get_mut(peer.index()).and_then(Option::take) else { return 0 };
        for copy in &queue {
            self.counters[usize::from(copy.lane.0)].withdrawn.add(copy.len);
        }
        queue.len()
    }

    /// Moves the peers that were owed something new, or whose held-back copies were released, since the last call into
    /// `into` (each at most once, in the order of the first such copy).
    pub fn take_touched(&mut self, into: &mut Vec<PeerId>) {
        into.append(&mut self.touched);
    }

    /// The next copy for one link ([`Dispatch::PerLink`]).
    pub fn pop_for(&mut self, now: Time, peer: PeerId) -> Option<Copy<F>> {
        let _ = now;
        let copy = self.queues.get_mut(peer.index())?.as_mut()?.pop_front()?;
        self.counters[usize::from(copy.lane.0)].sent.add(copy.len);
        Some(copy)
    }

    /// The next copy over all links that have room ([`Dispatch::Node`]).
    pub fn pop(&mut self, now: Time, has_room: impl Fn(PeerId) -> bool) -> Option<Copy<F>> {
        let peer = (0..self.queues.len() as u32)
            .map(PeerId)
            .find(|peer| has_room(*peer) && self.pending_to(*peer) > 0)?;
        self.pop_for(now, peer)
    }

    /// When to look again although nothing happened: a held-back copy is released then. `None` if none is held back.
    pub fn next_wake(&self) -> Option<Time> {
        None
    }

    /// How many copies are owed to a peer.
    pub fn pending_to(&self, peer: PeerId) -> usize {
        self.queues.get(peer.index()).and_then(Option::as_ref).map_or(0, VecDeque::len)
    }

    /// How many copies are owed in all.
    pub fn pending(&self) -> usize {
        self.queues.iter().flatten().map(VecDeque::len).sum()
    }

    /// The set-up.
    pub fn config(&self) -> &OutboxConfig {
        &self.config
    }

    /// What became of the copies of a lane.
    pub fn counters(&self, lane: Lane) -> &Counters {
        &self.counters[usize::from(lane.0)]
    }
}
