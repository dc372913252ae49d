//! The copies that a node owes to its peers, and the order in which they leave.
//!
//! An engine owes frames ([`Outbox::owe`]) and messages ([`Outbox::owe_batch`]) to peers. A driver
//! requests the next copy when there is room for it. Until then a copy can be withdrawn
//! ([`Outbox::withdraw`]) or expire, and its place in line follows later events. Every copy is
//! accounted for ([`Outbox::counters`]).
//!
//! ```
//! use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Owe, Schedule};
//! use samara_engine::{Frame, MessageKey, NodeRng, Outbox, PeerId, Purpose, Time};
//!
//! #[derive(Clone)]
//! struct Column(u64);
//!
//! impl Frame for Column {
//!     fn encoded_len(&self) -> usize {
//!         2048
//!     }
//!     fn payload_len(&self) -> usize {
//!         2000
//!     }
//! }
//!
//! let lanes = vec![LaneConfig::unbounded("messages", 0)];
//! let mut outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::Node, lanes });
//! let peers = [PeerId(0), PeerId(1)];
//! peers.iter().for_each(|peer| outbox.link_up(*peer));
//!
//! // Two columns, both owed to both peers.
//! let batch = [7, 8].map(|id| Owe {
//!     message: MessageKey(id),
//!     frame: Column(id),
//!     peers: peers.to_vec(),
//!     deadline: None,
//! });
//! let (mut rng, mut lost) = (NodeRng::new(1, 0, Purpose::Engine), Vec::new());
//! outbox.owe_batch(Time::ZERO, Lane(0), batch, &Schedule::INTERLEAVED, &mut rng, &mut lost);
//!
//! // The first copy of each column leaves before a second one.
//! let first = outbox.pop(Time::ZERO, |_| true).unwrap();
//! let second = outbox.pop(Time::ZERO, |_| true).unwrap();
//! assert_eq!((first.frame.0, second.frame.0), (7, 8));
//!
//! // Meanwhile the other peer got column 7 elsewhere.
//! assert_eq!(outbox.withdraw(PeerId(1), MessageKey(7)), 1);
//! let last = outbox.pop(Time::ZERO, |_| true).unwrap();
//! assert_eq!((last.frame.0, last.rank), (8, 1));
//! assert!(outbox.pop(Time::ZERO, |_| true).is_none());
//! ```
//!
//! # Which copy leaves next
//!
//! **Lanes.** A lane with a smaller [`priority`](LaneConfig::priority) always goes first. Lanes
//! with the same priority take turns, one copy each: on every link in per-link dispatch, over the
//! whole node in node dispatch.
//!
//! **Inside a lane** the copy with the smallest time goes first. Its time is the time when it was
//! owed, plus the lane's [`patience`](LaneConfig::patience) times its *round*. Equal times are
//! ordered by round, then by call, then by message (in the order of the round), then by the peer
//! order of the message.
//!
//! | schedule | round of a copy, per link | round of a copy, node |
//! |---|---|---|
//! | sequential, and [`Outbox::owe`] | 0 | 0 |
//! | interleaved | its place in the peer order of its message | copies of its message that left |
//! | feedback | the same, plus the feedback | the same, plus the feedback |
//! | staggered | copies of its message that had left when it was released | the same, plus those that left since |
//! | custom | 0: a [`Policy`] orders them | 0 |
//!
//! In node dispatch any peer with room may get the next copy of a message. Peers whose [`Room`]
//! takes the whole copy come first: on other links a part of the copy waits for an acknowledgement,
//! and with it everything that the receiver would forward. Among equals the peer order decides. A
//! policy's order is always kept.
//!
//! *Custom.* A copy that a policy orders starts with the place that it would have in a sequential
//! order. The policy's copies trade these places only among themselves, and each takes its place
//! along when it leaves. The outbox calls the policy when a copy is about to leave, if two or more
//! are pending and something has changed since the last call. The policy of the last such batch
//! orders a lane.
//!
//! # Guarantees
//!
//! - *Interleaved.* In node dispatch no second copy of a message leaves while a link with room is
//!   owed a first copy of another message of the same batch (and so on for third copies). In
//!   per-link dispatch the same holds on each link for the places that the copies have in the
//!   planned order, which is all that publishing into queues can promise.
//! - *Balanced.* As long as nothing is lost or withdrawn, two peers that are owed the same messages
//!   of a batch differ by at most one copy at any moment. In node dispatch this holds for the
//!   copies that have left, if all links have room; in per-link dispatch it holds for the plan.
//!   Where links have no room, the next copy of a message goes to the peer that got the fewest.
//! - *Nothing starves.* A copy with `n` copies of its message before it (planned or left), owed at
//!   time `t`, goes before everything of its lane that is owed after `t + (n + f) * patience`. Here
//!   `f` is the most that feedback can count: 0 without feedback, the `cap` (at most
//!   [`Progress::NOTED_MAX`]) for peers, 8 for a trusted observer. Staggered copies also wait for
//!   those before them: each until it is known to have arrived, is withdrawn or expires, or until
//!   the timeout after it left. A policy can hold back the copies that it orders for as long as it
//!   likes, but no others.
//! - *Nothing is lost silently.* For each lane, in copies and in bytes:
//!   `owed = sent + withdrawn + expired + dropped_oldest + pending`.
//!
//! # Cost
//!
//! An idle link costs one small record and no heap memory. Queues are binary heaps. Keys never
//! decrease and are brought up to date only when they surface, so that a copy that leaves costs
//! nothing for the other copies of its message. Node dispatch visits each link with pending copies
//! once or twice, and brings the keys up to date that surface on these links. That is almost free
//! where a message goes to a few of many peers, but costs about one key for each link and copy
//! where every message goes to all peers. Node dispatch is therefore meant for at most a few
//! hundred links with copies.

mod config;
mod flow;
mod message;
mod next;
mod plan;
mod policy;
mod queue;
mod schedule;
#[cfg(feature = "config")]
mod spec;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use config::{
    ByLane, Counters, Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig, Overflow, Progress, Room, Tally,
};
#[cfg(feature = "config")]
pub use policy::Policies;
pub use policy::{Custom, Orderer, PendingCopy, Policy};
pub use schedule::{FeedbackSource, MessageOrder, PeerOrder, Schedule, Weight};
#[cfg(feature = "config")]
pub use spec::{PeerOrderKind, ScheduleSpec, SourceKind};

use crate::{Frame, MessageKey, NodeRng, PeerId, Time};
use flow::{Active, Outcome};
use message::{Batch, Origin, Rounds, Store};
use plan::Plan;
use queue::{Class, Link, NONE, Spare};

/// A message that is owed to several peers.
#[derive(Clone, Debug)]
pub struct Owe<F> {
    /// The engine's key of the message, to withdraw it later.
    pub message: MessageKey,
    /// The frame to send.
    pub frame: F,
    /// The peers to send it to, each at most once.
    pub peers: Vec<PeerId>,
    /// A copy that has not left by this time expires.
    pub deadline: Option<Time>,
}

/// One copy that leaves: a frame for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<F> {
    /// The peer that the copy is for.
    pub peer: PeerId,
    /// The lane on which it was owed.
    pub lane: Lane,
    /// The message, if the frame is a copy of one.
    pub message: Option<MessageKey>,
    /// The frame to send.
    pub frame: F,
    /// Its encoded length in bytes.
    pub len: u32,
    /// The time since which it was owed.
    pub owed_at: Time,
    /// The number of copies of the message that left before this one.
    pub rank: u32,
    /// The driver's mark when it was owed: see [`Outbox::set_mark`].
    pub mark: u8,
}

/// A copy that was not accepted, or that was dropped later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The peer that the copy was for.
    pub peer: PeerId,
    /// The message that it was a copy of, if any.
    pub message: Option<MessageKey>,
    /// The reason for the loss.
    pub cause: LossCause,
}

crate::names! {
    /// The reason why a copy was not accepted or was dropped later.
    pub enum LossCause {
        /// There is no link to the peer.
        NotConnected = "not_connected",
        /// The queue was full and its policy drops the newest copy.
        DroppedNewest = "newest",
        /// The queue was full and this older copy made room.
        DroppedOldest = "oldest",
        /// The queue was full and its policy refuses copies.
        Refused = "refused",
    }
}

/// The copies that a node owes, by peer and by message. The [module](self) describes the order in
/// which they leave.
///
/// Times passed to the outbox must never decrease.
#[derive(Debug)]
pub struct Outbox<F> {
    config: OutboxConfig,
    classes: Vec<Class>,
    store: Store<F>,
    links: Vec<Option<Link>>,
    spare: Spare,
    /// The links with copies in line, by lane.
    active: Vec<Vec<Active>>,
    /// Node dispatch: the lane of each class that was served last.
    turns: Vec<Option<u8>>,
    touched: Vec<PeerId>,
    counters: Vec<Counters>,
    /// Weights by peer and [`Weight`], [`UNSET`] until they are set; allocated with the first one.
    weights: Vec<[f64; 3]>,
    /// The times at which staggered messages continue, with their groups.
    wakes: BTreeSet<(Time, u32)>,
    serial: u64,
    /// The number of copies put in line so far.
    lined_up: u64,
    /// The mark of the copies owed from now on.
    mark: u8,
}

/// A weight that was not set: all others are positive.
const UNSET: f64 = 0.0;

fn known_weight(weights: &[[f64; 3]], peer: PeerId, weight: Weight) -> Option<f64> {
    weights.get(peer.index()).map(|of_peer| of_peer[weight as usize]).filter(|value| *value != UNSET)
}

impl<F: Frame> Outbox<F> {
    /// Creates an empty outbox.
    ///
    /// # Panics
    /// If there are more than 255 lanes.
    pub fn new(config: OutboxConfig) -> Self {
        let lanes = config.lanes.len();
        assert!(lanes <= 255, "an outbox has at most 255 lanes");
        let nanos = |lane: &LaneConfig| u64::try_from(lane.patience.as_nanos()).unwrap_or(u64::MAX);
        let classes = queue::classes(&config.lanes);
        Self {
            turns: vec![None; classes.len()],
            classes,
            store: Store::new(config.dispatch, config.lanes.iter().map(nanos).collect()),
            links: Vec::new(),
            spare: Spare::default(),
            active: (0..lanes).map(|_| Vec::new()).collect(),
            touched: Vec::new(),
            counters: vec![Counters::default(); lanes],
            weights: Vec::new(),
            wakes: BTreeSet::new(),
            serial: 0,
            lined_up: 0,
            mark: 0,
            config,
        }
    }

    // ---- the engine's side ----

    /// Owes one frame to one peer, behind the copies that the lane already owes it in round 0.
    ///
    /// # Errors
    /// Returns the lost copy: this one, or the first of the older ones that made room for it
    /// ([`owe_into`](Self::owe_into) names them all).
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn owe(
        &mut self,
        now: Time,
        peer: PeerId,
        lane: Lane,
        frame: F,
        message: Option<MessageKey>,
        deadline: Option<Time>,
    ) -> Result<(), Lost> {
        let mut lost = Vec::new();
        self.owe_into(now, peer, lane, frame, message, deadline, &mut lost);
        lost.first().map_or(Ok(()), |lost| Err(*lost))
    }

    /// Owes one frame to one peer as [`owe`](Self::owe) does, and appends all lost copies to
    /// `lost`. Returns whether the copy was taken.
    ///
    /// # Panics
    /// If there is no such lane.
    #[allow(clippy::too_many_arguments)]
    pub fn owe_into(
        &mut self,
        now: Time,
        peer: PeerId,
        lane: Lane,
        frame: F,
        message: Option<MessageKey>,
        deadline: Option<Time>,
        lost: &mut Vec<Lost>,
    ) -> bool {
        let origin = Origin {
            call: self.serial,
            deadline: deadline.unwrap_or(Time::MAX),
            lane: lane.0,
            mark: self.mark,
            batch: NONE,
            index: 0,
            rank: 0,
            place: 0,
            column: 0,
        };
        self.take_in(now, peer, frame, message, origin, lost)
    }

    /// Owes messages to peers in the order of a schedule: one message that is published or
    /// forwarded, or a whole batch. Appends the lost copies to `lost` and returns the number of
    /// copies taken.
    ///
    /// The outbox takes copies in the planned order, so that a full queue keeps those that would
    /// leave first.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn owe_batch(
        &mut self,
        now: Time,
        lane: Lane,
        batch: impl IntoIterator<Item = Owe<F>>,
        schedule: &Schedule,
        rng: &mut NodeRng,
        lost: &mut Vec<Lost>,
    ) -> usize {
        let mut owed: Vec<Owe<F>> = batch.into_iter().collect();
        for owe in &mut owed {
            let message = Some(owe.message);
            owe.peers.retain(|peer| {
                let up = self.link(*peer).is_some();
                if !up {
                    lost.push(Lost { peer: *peer, message, cause: LossCause::NotConnected });
                }
                up
            });
        }
        let targets = owed.iter_mut().map(|owe| std::mem::take(&mut owe.peers)).collect();
        let weights = &self.weights;
        let weight_of = |peer: PeerId, weight| known_weight(weights, peer, weight).unwrap_or(1.0);
        let plan = Plan::new(targets, schedule, weight_of, rng);
        let batch = self.open_batch(schedule, lane, &plan, rng);
        let call = self.serial;
        let mut ranks = vec![0; owed.len()];
        let mut taken = 0;
        for (place, step) in plan.steps.iter().enumerate() {
            let owe = &owed[step.index as usize];
            let rank = &mut ranks[step.index as usize];
            let origin = Origin {
                call,
                deadline: owe.deadline.unwrap_or(Time::MAX),
                lane: lane.0,
                mark: self.mark,
                batch,
                index: step.index,
                rank: *rank,
                place: place as u32,
                column: step.column,
            };
            if self.take_in(now, step.peer, owe.frame.clone(), Some(owe.message), origin, lost) {
                *rank += 1;
                taken += 1;
            }
        }
        self.close_batch(batch);
        taken
    }

    /// Returns true if a copy of a message to a peer has not left yet.
    pub fn owes(&self, peer: PeerId, message: MessageKey) -> bool {
        self.store.group_of(message).is_some_and(|group| !self.store.slots(group, Some(peer)).is_empty())
    }

    /// Withdraws the copies of a message to a peer. Returns the number of copies.
    pub fn withdraw(&mut self, peer: PeerId, message: MessageKey) -> usize {
        self.withdraw_from(message, Some(peer))
    }

    /// Withdraws the copies of a message to all peers. Returns the number of copies.
    pub fn withdraw_message(&mut self, message: MessageKey) -> usize {
        self.withdraw_from(message, None)
    }

    fn withdraw_from(&mut self, message: MessageKey, peer: Option<PeerId>) -> usize {
        let Some(group) = self.store.group_of(message) else { return 0 };
        let slots = self.store.slots(group, peer);
        if peer.is_none() {
            // Otherwise a copy could be released only to be withdrawn.
            self.stop_waiting(group);
        }
        for slot in &slots {
            self.take_out(*slot, Outcome::Withdrawn);
        }
        slots.len()
    }

    /// Notes that a peer has, or claims to have, a pending message. Releases a staggered copy that
    /// waited for it, and counts as feedback for schedules that use it, once per peer. Does not
    /// withdraw anything.
    pub fn note_has(&mut self, now: Time, peer: PeerId, message: MessageKey) {
        self.wake(now);
        if let Some(group) = self.store.group_of(message) {
            self.store.note(group, peer);
            if let Some(orders) = &mut self.store.orders {
                orders.note_all();
            }
            self.confirm(group, peer);
        }
    }

    /// Puts a peer before all others for each message that is owed with a schedule of rounds, as far as
    /// links share an order ([`Dispatch::Node`]). The order of messages stays.
    pub fn prefer(&mut self, peer: PeerId) {
        if self.store.preferred.insert(peer) {
            self.rekey_link(peer);
        }
    }

    /// Forgets which peers are preferred.
    pub fn prefer_nobody(&mut self) {
        if !std::mem::take(&mut self.store.preferred).is_empty() {
            (0..self.lanes()).for_each(|lane| self.line_up_again(lane));
        }
    }

    /// Says whether a peer is an observer, whose announcements count for
    /// [`FeedbackSource::Observers`] from now on. Ends with the link.
    pub fn set_observer(&mut self, peer: PeerId, is_observer: bool) {
        if !is_observer {
            self.store.observers.remove(&peer);
        } else if self.link(peer).is_some() {
            self.store.observers.insert(peer);
        }
    }

    /// Returns the number of observers with a link.
    pub fn observers(&self) -> usize {
        self.store.observers.len()
    }

    /// Sets the weight of a peer in a weighted order. Values that are not positive and finite count
    /// as the smallest weight. The call is cheap enough for a driver to make it with every sample.
    /// A weight outlives the link.
    pub fn set_weight(&mut self, peer: PeerId, weight: Weight, value: f64) {
        let value = if value.is_finite() { value.max(f64::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
        if self.weights.len() <= peer.index() {
            let peers = self.links.len().max(peer.index() + 1);
            self.weights.reserve_exact(peers - self.weights.len());
            self.weights.resize(peers, [UNSET; 3]);
        }
        self.weights[peer.index()][weight as usize] = value;
    }

    /// Returns true if the weight of a peer was set.
    pub fn has_weight(&self, peer: PeerId, weight: Weight) -> bool {
        known_weight(&self.weights, peer, weight).is_some()
    }

    /// Forgets the weights of a peer and its round trip.
    pub fn forget_weights(&mut self, peer: PeerId) {
        if let Some(weights) = self.weights.get_mut(peer.index()) {
            *weights = [UNSET; 3];
        }
    }

    /// Returns the weight of a peer; 1 if none was set.
    pub fn weight(&self, peer: PeerId, weight: Weight) -> f64 {
        known_weight(&self.weights, peer, weight).unwrap_or(1.0)
    }

    /// Sets the round trip of a link, smoothed as its transport measured it, or forgets it. A driver
    /// calls this with every sample that changes it, and never with what a network is configured to
    /// have. It is the [`Weight::Latency`] of the peer, and engines wait for answers by it
    /// ([`round_trip`](Self::round_trip)). It outlives the link.
    pub fn set_round_trip(&mut self, peer: PeerId, round_trip: Option<Duration>) {
        match round_trip {
            Some(trip) => {
                let seconds = trip.as_nanos().max(1) as f64 / 1e9;
                self.set_weight(peer, Weight::Latency, 1.0 / seconds);
            }
            None => {
                if let Some(weights) = self.weights.get_mut(peer.index()) {
                    weights[Weight::Latency as usize] = UNSET;
                }
            }
        }
    }

    /// Returns the round trip of a link; `None` until the driver has set it.
    pub fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        let seconds = 1.0 / known_weight(&self.weights, peer, Weight::Latency)?;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    // ---- the driver's side ----

    /// Marks all copies that are owed from now on, for example with the kind of input that the
    /// engine handles. The outbox only returns the mark with each copy.
    pub fn set_mark(&mut self, mark: u8) {
        self.mark = mark;
    }

    /// Returns the time since which the oldest pending copy is owed. Visits every link.
    pub fn oldest_owed_at(&self) -> Option<Time> {
        let heads = self.links.iter().flatten().flat_map(|link| &link.lanes).map(|lane| lane.head);
        heads.filter_map(|head| self.store.copies.get(head as usize)).map(|copy| copy.owed_at).min()
    }

    /// Adds a link: from now on the peer can be owed copies.
    pub fn link_up(&mut self, peer: PeerId) {
        if self.links.len() <= peer.index() {
            self.links.resize_with(peer.index() + 1, || None);
        }
        self.links[peer.index()].get_or_insert_default();
    }

    /// Removes a link and withdraws all copies owed to the peer. Returns the number of copies.
    pub fn link_down(&mut self, peer: PeerId) -> usize {
        let mut withdrawn = 0;
        for lane in 0..self.config.lanes.len() {
            while let Some(slot) = self.oldest(peer, lane) {
                self.take_out(slot, Outcome::Withdrawn);
                withdrawn += 1;
            }
        }
        self.store.observers.remove(&peer);
        if let Some(Some(link)) = self.links.get_mut(peer.index()).map(Option::take)
            && link.touched
        {
            self.touched.retain(|touched| *touched != peer);
        }
        withdrawn
    }

    /// Moves into `into` the peers that were owed new copies, or whose held-back copies were
    /// released, since the last call. Each peer appears at most once, in the order of the first
    /// such copy.
    pub fn take_touched(&mut self, into: &mut Vec<PeerId>) {
        for peer in &self.touched {
            if let Some(Some(link)) = self.links.get_mut(peer.index()) {
                link.touched = false;
            }
        }
        into.append(&mut self.touched);
    }

    /// Releases held-back copies whose time has come. A driver calls this at
    /// [`next_wake`](Self::next_wake) and then finds the links with copies to send in
    /// [`take_touched`](Self::take_touched). Popping calls it too.
    pub fn wake(&mut self, now: Time) {
        while let Some((at, group)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, group));
            self.advance(group);
        }
    }

    /// Returns the time at which the next held-back copy is released, even if nothing else happens.
    /// `None` if no copy waits for time to pass.
    pub fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Returns the number of copies owed to a peer, including those held back.
    pub fn pending_to(&self, peer: PeerId) -> usize {
        self.link(peer).map_or(0, |link| link.copies as usize)
    }

    /// Returns the number of copies owed to a peer on one lane, including those held back.
    pub fn pending_on(&self, peer: PeerId, lane: Lane) -> usize {
        let queue = self.link(peer).and_then(|link| link.lanes.get(usize::from(lane.0)));
        queue.map_or(0, |queue| queue.copies as usize)
    }

    /// Returns the number of bytes owed to a peer, including those held back.
    pub fn pending_bytes_to(&self, peer: PeerId) -> u64 {
        self.link(peer).map_or(0, |link| link.lanes.iter().map(|lane| lane.bytes).sum())
    }

    /// Returns the number of copies owed in total.
    pub fn pending(&self) -> usize {
        self.store.copies.len()
    }

    /// Returns the number of message copies owed to each peer, for reports. Visits every copy;
    /// other frames do not count.
    pub fn pending_messages(&self) -> BTreeMap<PeerId, usize> {
        let mut by_peer = BTreeMap::new();
        for (_, copy) in self.store.copies.iter().filter(|(_, copy)| copy.group != NONE) {
            *by_peer.entry(copy.peer).or_default() += 1;
        }
        by_peer
    }

    /// Returns the peers that are owed copies.
    pub fn owed_peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        let links = self.links.iter().zip(0..);
        let owed = links.filter(|(link, _)| link.as_ref().is_some_and(|link| link.copies > 0));
        owed.map(|(_, peer)| PeerId(peer))
    }

    /// Checks that every copy is accounted for: on its lane, and on its link.
    ///
    /// # Panics
    /// If one is not.
    pub fn assert_invariants(&self) {
        for (counters, lane) in self.counters.iter().zip(&self.config.lanes) {
            assert!(counters.add_up(), "the counters of the lane {} do not add up: {counters:?}", lane.name);
        }
        let by_lane: u64 = self.counters.iter().map(|counters| counters.pending.copies).sum();
        let by_link: u64 = self.links.iter().flatten().map(|link| u64::from(link.copies)).sum();
        assert_eq!([by_lane, by_link], [self.pending() as u64; 2], "copies by lane and by link");
        for peer in &self.touched {
            assert!(self.link(*peer).is_some(), "{peer:?} has no link and was touched");
        }
    }

    /// Returns the counters of a message's copies, while any are pending.
    pub fn progress(&self, message: MessageKey) -> Option<Progress> {
        self.store.group_of(message).map(|group| self.store.groups[group as usize].progress)
    }

    /// Returns the configuration of the outbox.
    pub fn config(&self) -> &OutboxConfig {
        &self.config
    }

    /// Returns the number of lanes, which are numbered from 0.
    pub fn lanes(&self) -> usize {
        self.counters.len()
    }

    /// Returns the counters of a lane.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn counters(&self, lane: Lane) -> &Counters {
        &self.counters[usize::from(lane.0)]
    }

    /// Returns the counters of all lanes.
    pub fn by_lane(&self) -> ByLane {
        let names = self.config.lanes.iter().map(|lane| lane.name);
        ByLane(names.zip(self.counters.iter().copied()).collect())
    }

    // ---- batches ----

    fn open_batch(&mut self, schedule: &Schedule, lane: Lane, plan: &Plan, rng: &NodeRng) -> u32 {
        let (rounds, messages) = match *schedule {
            Schedule::Sequential => return NONE,
            Schedule::Interleaved { messages, .. } => (Rounds::Copies, messages),
            Schedule::Staggered { timeout } => (Rounds::Staggered { timeout }, MessageOrder::AsGiven),
            Schedule::Feedback { source, messages, .. } => (Rounds::Feedback(source), messages),
            Schedule::Custom(ref policy) => {
                // A clone of `rng`: the node's other random numbers do not depend on the order of
                // its copies.
                self.store.orders.get_or_insert_default().set_policy(lane, policy, || rng.clone().next_u64());
                (Rounds::Custom, MessageOrder::AsGiven)
            }
        };
        let loads = vec![0; plan.columns];
        // One more while the batch is being filled, so that it is not removed before its first
        // copy.
        self.store.batches.insert(Batch { rounds, messages, seed: plan.seed, loads, live: 1 }) as u32
    }

    fn close_batch(&mut self, batch: u32) {
        if let Some(open) = self.store.batches.get_mut(batch as usize) {
            open.live -= 1;
            if open.live == 0 {
                self.store.batches.remove(batch as usize);
            }
        }
    }
}
