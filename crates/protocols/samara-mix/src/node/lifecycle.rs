//! The life of rounds: start, agreement on the key of the team, timeouts, failure and end.
//!
//! The key of a team: the share of each node travels around the team, and every node raises it by
//! its exponent.
//!
//! As in the xx network, each node starts with its own share. So each knows the whole key from the
//! node before it and from its own exponent. All nodes exchange their results, so that no node can
//! choose the key, and none works with a different one.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Time;

use super::round::Round;
use super::{Cx, Node};
use crate::compute::{Job, Task, Vault};
use crate::metrics::Ignored;
use crate::mix::Event;
use crate::round::{Cause, Failure, NodeState, Plan};
use crate::wire::MixFrame;

impl Node {
    pub(super) fn on_create(&mut self, plan: Arc<Plan>, cx: &mut Cx<'_>) {
        let scheduler = self.peers.scheduler();
        let number = plan.round;
        if let Some(round) = self.rounds.get(&number) {
            // The scheduler was not sure that this node knows the round.
            let status = MixFrame::Status { round: number, state: round.state };
            self.send(scheduler, status, cx);
            return;
        }
        if number < self.floor {
            self.metrics.ignore(Ignored::Replay);
            let failure = Some(Failure::by(Cause::Unknown, self.me));
            self.send(scheduler, MixFrame::End { round: number, failure }, cx);
            return;
        }
        self.floor = number.saturating_add(1);
        let seat = plan.seat_of(self.me).filter(|_| self.accepts(&plan));
        let Some(seat) = seat else {
            let failure = Some(Failure::by(Cause::Refused, self.me));
            self.send(scheduler, MixFrame::End { round: number, failure }, cx);
            return;
        };
        self.metrics.rounds += 1;
        let mut round = Box::new(Round::new(plan, seat, cx.now()));
        let seed = self.secret.derive("round", number);
        self.secret.advance();
        let task = Task::Generate { seat: round.seat, batch: round.plan.batch, seed };
        self.jobs.push(Job { round: number, group: self.config.group, task });
        self.send(scheduler, MixFrame::Status { round: number, state: round.state }, cx);
        cx.emit(Event::State { round: number, state: round.state });
        match self.take_early(&mut round, cx) {
            Ok(()) => {
                self.rounds.insert(number, round);
            }
            Err(failure) => self.fail(*round, failure, cx),
        }
    }

    fn accepts(&self, plan: &Plan) -> bool {
        let members: BTreeSet<&u32> = plan.team.iter().collect();
        let known = plan.team.iter().all(|node| (*node as usize) < self.config.pool.len());
        let team = 2..=crate::Config::TEAM_MAX;
        known
            && members.len() == plan.team.len()
            && team.contains(&plan.team.len())
            && (1..=self.config.batch_max).contains(&plan.batch)
            && plan.precomputation_slots > 0
            && plan.realtime_slots > 0
            && self.rounds.len() < self.config.node_rounds_max
    }

    /// Changes the state of a round, and reports it.
    ///
    /// # Panics
    /// Panics if the new state cannot follow the old one. That is a bug in this engine, whatever
    /// other hosts send.
    pub(super) fn set_state(&mut self, round: &mut Round, state: NodeState, cx: &mut Cx<'_>) {
        assert!(round.state.can_become(state), "{:?} cannot follow {:?}", state, round.state);
        round.state = state;
        if state != NodeState::Precomputing {
            round.since = cx.now();
        }
        cx.emit(Event::State { round: round.number(), state });
        if state != NodeState::Error {
            self.send(self.peers.scheduler(), MixFrame::Status { round: round.number(), state }, cx);
        }
    }

    /// Ends a round because of a local failure, and reports it to the team and the scheduler.
    pub(super) fn fail(&mut self, round: Round, failure: Failure, cx: &mut Cx<'_>) {
        let number = round.number();
        let frame = MixFrame::End { round: number, failure: Some(failure) };
        for node in round.plan.team.iter().copied().chain([self.peers.scheduler()]) {
            if node != self.me {
                self.send(node, frame.clone(), cx);
            }
        }
        self.drop_failed(round, failure, cx);
    }

    /// Ends a round. If its payloads were delivered here, it counts as a success here.
    fn drop_failed(&mut self, mut round: Round, failure: Failure, cx: &mut Cx<'_>) {
        if round.state.can_become(NodeState::Error) {
            self.set_state(&mut round, NodeState::Error, cx);
            self.metrics.failed[failure.cause] += 1;
            cx.emit(Event::Failed { round: round.number(), failure });
        }
        self.forget(&round, cx);
    }

    /// Stops all sending and work for a round, and erases its secrets.
    fn forget(&mut self, round: &Round, cx: &mut Cx<'_>) {
        cx.outbox().withdraw_message(round.message());
        self.jobs.forget(round.number());
    }

    /// Handles the end of a round from the scheduler, or its failure from a node of its team.
    pub(super) fn on_end(&mut self, from: u32, number: u64, failure: Option<Failure>, cx: &mut Cx<'_>) {
        let Some(round) = self.rounds.get(&number) else {
            // The start may still be in flight from the scheduler; then its end follows.
            self.metrics.ignore(Ignored::Stale);
            return;
        };
        let is_scheduler = from == self.peers.scheduler();
        let may_say = is_scheduler || round.plan.seat_of(from).is_some() && failure.is_some();
        if !may_say {
            self.metrics.ignore(Ignored::Stranger);
            return;
        }
        // A node with all payloads still has to forward them to other nodes.
        if !is_scheduler && round.state == NodeState::Completed {
            return;
        }
        if let Some(round) = self.rounds.remove(&number) {
            match failure {
                Some(failure) => self.drop_failed(*round, failure, cx),
                None if round.state == NodeState::Completed => self.forget(&round, cx),
                None => self.drop_failed(*round, Failure::of(Cause::Unknown), cx),
            }
        }
    }

    /// Ends rounds that take too long, or that have lost a node.
    pub(super) fn check_rounds(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let rounds: Vec<u64> = self.rounds.keys().copied().collect();
        for number in rounds {
            let Some(round) = self.rounds.get(&number) else { continue };
            let Some(failure) = self.overdue(round, now) else { continue };
            if let Some(round) = self.rounds.remove(&number) {
                if round.state == NodeState::Completed {
                    self.forget(&round, cx);
                } else {
                    self.fail(*round, failure, cx);
                }
            }
        }
    }

    fn overdue(&self, round: &Round, now: Time) -> Option<Failure> {
        let limit = match round.state {
            NodeState::Waiting | NodeState::Precomputing => self.config.precomputation_timeout,
            NodeState::Realtime => self.config.realtime_timeout,
            NodeState::Standby | NodeState::Completed | NodeState::Error => self.config.queue_timeout,
        };
        let is_lost = |node: &&u32| self.peers.is_lost(**node, now, self.config.reconnect.limit);
        match round.plan.team.iter().find(is_lost) {
            // A completed round continues, because other nodes may still need its results.
            Some(node) if round.state != NodeState::Completed => Some(Failure::by(Cause::PeerLost, *node)),
            _ => (now.since(round.since) >= limit).then_some(Failure::of(Cause::Timeout)),
        }
    }
}

/// Maximum number of key shares that are kept of each node for unknown rounds. A team that is ahead
/// of the scheduler's frames sends fewer.
const EARLY_MAX: usize = 256;

/// A key share as it arrived.
#[derive(Debug)]
pub(super) struct EarlyShare {
    pub(super) from: u32,
    pub(super) round: u64,
    pub(super) origin: u16,
    pub(super) is_complete: bool,
    pub(super) key: Bytes,
}

#[derive(Debug)]
pub(super) struct TeamKey {
    /// Seats whose shares came through here.
    seen: u64,
    /// Shares that arrived before this node had its secrets.
    waiting: Vec<(u16, Bytes)>,
    /// The key as each seat computed it.
    finals: Vec<Option<Bytes>>,
    pub(super) is_agreed: bool,
}

impl TeamKey {
    pub(super) fn new(team: u16) -> Self {
        Self { seen: 0, waiting: Vec::new(), finals: vec![None; usize::from(team)], is_agreed: false }
    }
}

impl Node {
    /// Starts this node's own share, once the secrets of the round are drawn.
    pub(super) fn on_generated(
        &mut self,
        round: &mut Round,
        vault: Arc<dyn Vault>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        round.vault = Some(vault);
        self.set_state(round, NodeState::Precomputing, cx);
        self.raise(round, round.seat.position, generator(self.config.group.element_bytes()));
        for (origin, key) in std::mem::take(&mut round.key.waiting) {
            self.raise(round, origin, key);
        }
        Ok(())
    }

    /// Requests a job that raises a share by this node's exponent.
    fn raise(&mut self, round: &Round, origin: u16, key: Bytes) {
        if let Some(vault) = round.vault.clone() {
            // The seat before the origin is the last one that a share reaches.
            let is_complete = round.next_seat() == origin;
            let task = Task::Share { vault, origin, key, is_complete };
            self.jobs.push(Job { round: round.number(), group: self.config.group, task });
        }
    }

    /// Handles a raised share: it goes on to the next node, or it is the complete key.
    pub(super) fn on_shared(
        &mut self,
        round: &mut Round,
        origin: u16,
        key: Bytes,
        is_complete: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Failure> {
        let number = round.number();
        if !is_complete {
            let frame = MixFrame::Share { round: number, origin, is_complete, key };
            let next = round.node_at(round.next_seat());
            self.send_key_frame(round, next, frame, cx);
            return Ok(());
        }
        let me = round.seat.position;
        for seat in (0..round.seat.team).filter(|seat| *seat != me) {
            let frame = MixFrame::Share { round: number, origin: me, is_complete, key: key.clone() };
            let node = round.node_at(seat);
            self.send_key_frame(round, node, frame, cx);
        }
        self.agree(round, me, key, cx)
    }

    fn send_key_frame(&mut self, round: &mut Round, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        round.key_frames.push((to, frame.clone()));
        self.send(to, frame, cx);
    }

    pub(super) fn on_share(&mut self, share: EarlyShare, cx: &mut Cx<'_>) {
        let number = share.round;
        if !self.rounds.contains_key(&number) {
            self.keep_early(share);
            return;
        }
        self.with_round(number, cx, |node, round, cx| node.take_share(round, share, cx));
    }

    /// Keeps a share that arrives before the scheduler's plan. Frames of the scheduler take another
    /// path.
    fn keep_early(&mut self, share: EarlyShare) {
        let of_it = self.early.iter().filter(|early| early.from == share.from).count();
        if share.round < self.floor {
            self.metrics.ignore(Ignored::Stale);
        } else if of_it >= EARLY_MAX || share.key.len() != self.config.group.element_bytes() {
            self.metrics.ignore(Ignored::EarlyOverflow);
        } else {
            self.early.push_back(share);
        }
    }

    /// Takes the shares that arrived before the scheduler's plan. Shares of earlier rounds are
    /// dropped.
    pub(super) fn take_early(&mut self, round: &mut Round, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let (early, later) = std::mem::take(&mut self.early)
            .into_iter()
            .filter(|share| share.round >= round.number())
            .partition::<Vec<_>, _>(|share| share.round == round.number());
        self.early = later.into();
        early.into_iter().try_for_each(|share| self.take_share(round, share, cx))
    }

    fn take_share(&mut self, round: &mut Round, share: EarlyShare, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let EarlyShare { from, origin, is_complete, key, .. } = share;
        let of = if is_complete { origin } else { round.seat_before() };
        let is_known = origin < round.seat.team && origin != round.seat.position;
        if !is_known || round.node_at(of) != from {
            self.metrics.ignore(Ignored::Stranger);
            return Ok(());
        }
        if is_complete {
            return self.agree(round, origin, key, cx);
        }
        if round.key.seen >> origin & 1 == 1 {
            self.metrics.ignore(Ignored::Duplicate);
            return Ok(());
        }
        round.key.seen |= 1 << origin;
        match round.vault {
            Some(_) => self.raise(round, origin, key),
            None => round.key.waiting.push((origin, key)),
        }
        Ok(())
    }

    /// Records the key of a seat. Once all seats have the same one, the precomputation starts.
    fn agree(&mut self, round: &mut Round, seat: u16, key: Bytes, cx: &mut Cx<'_>) -> Result<(), Failure> {
        let finals = &mut round.key.finals;
        if let Some(before) = &finals[usize::from(seat)] {
            let same = *before == key;
            self.metrics.ignore(if same { Ignored::Duplicate } else { Ignored::Inconsistent });
            return Ok(());
        }
        finals[usize::from(seat)] = Some(key);
        let Some(mine) = finals[usize::from(round.seat.position)].clone() else { return Ok(()) };
        let other = finals.iter().position(|key| key.as_ref().is_some_and(|key| *key != mine));
        if let Some(other) = other {
            return Err(Failure::by(Cause::KeyMismatch, round.node_at(other as u16)));
        }
        if !round.key.is_agreed && finals.iter().all(Option::is_some) {
            round.key.is_agreed = true;
            round.held.drain(..).for_each(|job| self.jobs.push(job));
            self.begin_precomputation(round, cx);
        }
        Ok(())
    }
}

/// Returns the generator, 2, as an element.
fn generator(element_bytes: usize) -> Bytes {
    let mut bytes = vec![0; element_bytes];
    bytes[element_bytes - 1] = 2;
    bytes.into()
}
