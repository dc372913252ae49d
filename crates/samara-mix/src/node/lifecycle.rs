//! Rounds begin, time out, fail and end.

use std::collections::BTreeSet;
use std::sync::Arc;

use samara_engine::Time;

use super::round::Round;
use super::{Cx, Node};
use crate::compute::{Job, Task};
use crate::event::Event;
use crate::metrics::Ignored;
use crate::round::{Cause, Failure, NodeState, Plan};
use crate::wire::MixFrame;

impl Node {
    /// The scheduler has made a round.
    pub(super) fn on_create(&mut self, plan: Arc<Plan>, cx: &mut Cx<'_>) {
        let scheduler = self.peers.scheduler();
        let number = plan.round;
        if let Some(round) = self.rounds.get(&number) {
            // It was not sure that this node knows.
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

    /// Goes on to another state, and tells.
    ///
    /// # Panics
    /// If that state cannot follow: an error of this engine, whatever others send.
    pub(super) fn become_state(&mut self, round: &mut Round, state: NodeState, cx: &mut Cx<'_>) {
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

    /// A round is over here because something went wrong here: everybody is told.
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

    /// A round is over. If its payloads were delivered here, it has not failed here.
    fn drop_failed(&mut self, mut round: Round, failure: Failure, cx: &mut Cx<'_>) {
        if round.state.can_become(NodeState::Error) {
            self.become_state(&mut round, NodeState::Error, cx);
            self.metrics.fail(failure.cause);
            cx.emit(Event::Failed { round: round.number(), failure });
        }
        self.forget(&round, cx);
    }

    /// Nothing of a round is sent or worked on any more, and its secrets are erased.
    fn forget(&mut self, round: &Round, cx: &mut Cx<'_>) {
        cx.outbox().withdraw_message(round.message());
        self.jobs.forget(round.number());
    }

    /// The scheduler says that a round is over, or a node of its team that it has failed.
    pub(super) fn on_end(&mut self, from: u32, number: u64, failure: Option<Failure>, cx: &mut Cx<'_>) {
        let Some(round) = self.rounds.get(&number) else {
            // Its beginning may still be on the way from the scheduler: then its end is, too.
            self.metrics.ignore(Ignored::Stale);
            return;
        };
        let is_scheduler = from == self.peers.scheduler();
        let may_say = is_scheduler || round.plan.seat_of(from).is_some() && failure.is_some();
        if !may_say {
            self.metrics.ignore(Ignored::Stranger);
            return;
        }
        // Who has all payloads waits for those that it has to pass them on to.
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
    pub(super) fn look_at_rounds(&mut self, cx: &mut Cx<'_>) {
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
            // Others may still need what this node has.
            Some(node) if round.state != NodeState::Completed => Some(Failure::by(Cause::PeerLost, *node)),
            _ => (now.since(round.since) >= limit).then_some(Failure::of(Cause::Timeout)),
        }
    }
}
