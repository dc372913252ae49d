//! Rounds, from their making to their end.

use std::sync::Arc;

use samara_engine::Time;

use super::Scheduler;
use crate::event::Event;
use crate::node::Cx;
use crate::round::{Cause, Failure, NodeState, Plan, RoundState};
use crate::wire::MixFrame;

/// A round that is not over.
#[derive(Debug)]
pub(super) struct Run {
    team: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) state: RoundState,
    since: Time,
    /// By seat: how far the node is, once it has said so.
    nodes: Vec<Option<NodeState>>,
    /// By seat: whether the node was told on its present link.
    told: Vec<bool>,
}

impl Run {
    /// Takes note of how far a node is. Whether it belongs to the team.
    pub(super) fn set(&mut self, node: u32, state: NodeState) -> bool {
        let Some(seat) = self.plan.seat_of(node) else { return false };
        let known = &mut self.nodes[usize::from(seat)];
        *known = (*known).max(Some(state));
        true
    }

    /// Whether a node has to be told, which counts as done.
    pub(super) fn is_due_reminder(&mut self, node: u32) -> bool {
        let seat = self.plan.seat_of(node);
        seat.is_some_and(|seat| !std::mem::replace(&mut self.told[usize::from(seat)], true))
    }

    /// A node has another link: what was said on the old one may be lost.
    pub(super) fn unremind(&mut self, node: u32) {
        if let Some(seat) = self.plan.seat_of(node) {
            self.told[usize::from(seat)] = false;
        }
    }

    /// What its nodes have to know.
    pub(super) fn reminder(&self) -> impl Iterator<Item = MixFrame> + use<> {
        let is_queued = matches!(self.state, RoundState::Queued | RoundState::Realtime);
        let queued = is_queued.then_some(MixFrame::Queued { round: self.plan.round });
        [MixFrame::Create(self.plan.clone())].into_iter().chain(queued)
    }

    fn all(&self, least: NodeState) -> bool {
        self.nodes.iter().all(|state| state.is_some_and(|state| state >= least))
    }

    fn any(&self, least: NodeState) -> bool {
        self.nodes.iter().any(|state| state.is_some_and(|state| state >= least))
    }
}

impl Scheduler {
    /// Whether a team can have another round.
    pub(super) fn has_room(&self, team: usize) -> bool {
        let of_team = self.runs.values().filter(|run| run.team == team);
        let (all, early) = of_team.fold((0, 0), |(all, early), run| {
            let is_early = matches!(run.state, RoundState::Pending | RoundState::Precomputing);
            (all + 1, early + usize::from(is_early))
        });
        let Self { config, teams, .. } = self;
        let team = &teams[team];
        !team.nodes.is_empty()
            && !team.is_stale
            && team.rounds < config.rounds_per_draw
            && config.rounds.is_none_or(|most| self.metrics.rounds < most)
            && all < config.rounds_max
            && early < config.precomputing_max
    }

    /// Makes a round.
    pub(super) fn make(&mut self, team: usize, cx: &mut Cx<'_>) {
        let nodes = self.teams[team].nodes.clone();
        self.teams[team].rounds += 1;
        let plan = Arc::new(Plan {
            round: self.next_round,
            batch: self.config.batch,
            precomputation_slots: self.config.precomputation_slots,
            realtime_slots: self.config.realtime_slots,
            transfer: self.config.transfer,
            shape: self.config.result_shape(),
            team: nodes,
        });
        self.next_round += 1;
        self.metrics.rounds += 1;
        let seats = plan.team.len();
        let state = RoundState::Pending;
        cx.emit(Event::Made { team, plan: plan.clone() });
        cx.emit(Event::Round { round: plan.round, state });
        let run = Run {
            team,
            plan: plan.clone(),
            state,
            since: cx.now(),
            nodes: vec![None; seats],
            told: vec![true; seats],
        };
        self.runs.insert(plan.round, run);
        for node in &plan.team {
            self.send(*node, MixFrame::Create(plan.clone()), cx);
        }
    }

    /// Goes on with a round as its nodes do.
    pub(super) fn evaluate(&mut self, round: u64, cx: &mut Cx<'_>) {
        let (now, limit) = (cx.now(), self.config.reconnect.limit);
        let Some(run) = self.runs.get_mut(&round) else { return };
        if run.nodes.contains(&Some(NodeState::Error)) {
            return self.fail(round, Failure::of(Cause::Unknown), cx);
        }
        let is_done = |(seat, node): (usize, &u32)| {
            run.nodes[seat] == Some(NodeState::Completed) || self.peers.is_lost(*node, now, limit)
        };
        let next = match run.state {
            _ if run.any(NodeState::Completed) && run.plan.team.iter().enumerate().all(is_done) => {
                RoundState::Completed
            }
            RoundState::Pending if run.all(NodeState::Precomputing) => RoundState::Precomputing,
            RoundState::Precomputing if run.all(NodeState::Standby) => RoundState::Standby,
            RoundState::Standby => RoundState::Queued,
            RoundState::Queued if run.any(NodeState::Realtime) => RoundState::Realtime,
            _ => return,
        };
        (run.state, run.since) = (next, now);
        let team = run.plan.team.clone();
        cx.emit(Event::Round { round, state: next });
        let frame = match next {
            RoundState::Queued => Some(MixFrame::Queued { round }),
            RoundState::Completed => {
                self.runs.remove(&round);
                self.metrics.completed += 1;
                Some(MixFrame::End { round, failure: None })
            }
            _ => None,
        };
        for node in team {
            if let Some(frame) = &frame {
                self.send(node, frame.clone(), cx);
            }
        }
        self.evaluate(round, cx);
    }

    /// Ends a round that has failed.
    pub(super) fn fail(&mut self, round: u64, failure: Failure, cx: &mut Cx<'_>) {
        let Some(run) = self.runs.remove(&round) else { return };
        self.metrics.fail(failure.cause);
        // Who cannot work together, or with whom nobody can, is drawn anew.
        if self.teams[run.team].nodes == run.plan.team {
            self.teams[run.team].is_stale = true;
        }
        for node in &run.plan.team {
            self.send(*node, MixFrame::End { round, failure: Some(failure) }, cx);
        }
        cx.emit(Event::Round { round, state: RoundState::Failed });
        cx.emit(Event::Failed { round, failure });
    }

    /// A node has forgotten its rounds, or is lost.
    pub(super) fn end_runs_of(&mut self, node: u32, cause: Cause, cx: &mut Cx<'_>) {
        let of_node = self.runs.iter().filter(|(_, run)| run.plan.seat_of(node).is_some());
        let rounds: Vec<u64> = of_node.map(|(round, _)| *round).collect();
        for round in rounds {
            self.fail(round, Failure::by(cause, node), cx);
        }
    }

    /// Ends rounds that take too long, or that have lost a node; draws teams anew that have.
    pub(super) fn look_at_runs(&mut self, cx: &mut Cx<'_>) {
        let (now, limit) = (cx.now(), self.config.reconnect.limit);
        let lost: Vec<u32> =
            (0..self.config.pool.len() as u32).filter(|node| self.peers.is_lost(*node, now, limit)).collect();
        for team in &mut self.teams {
            team.is_stale |= team.nodes.iter().any(|node| lost.contains(node));
        }
        let rounds: Vec<u64> = self.runs.keys().copied().collect();
        for round in rounds {
            self.evaluate(round, cx);
            let Some(run) = self.runs.get(&round) else { continue };
            let lost = run.plan.team.iter().find(|node| lost.contains(node));
            let time = match run.state {
                RoundState::Pending | RoundState::Precomputing | RoundState::Standby => {
                    self.config.precomputation_timeout
                }
                RoundState::Realtime => self.config.realtime_timeout,
                RoundState::Queued | RoundState::Completed | RoundState::Failed => self.config.queue_timeout,
            };
            // Nodes time out first, and know better why.
            let is_late = now.since(run.since) >= time + self.config.silence;
            let failure = match lost {
                Some(node) => Some(Failure::by(Cause::PeerLost, *node)),
                None => is_late.then_some(Failure::of(Cause::Timeout)),
            };
            if let Some(failure) = failure {
                self.fail(round, failure, cx);
            }
        }
    }
}
