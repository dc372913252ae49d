//! The scheduler: draws teams from the pool, creates rounds, and ends them. The xx network's
//! scheduling server does the same. It sees no payloads and no secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{Engine, Input, NodeRng, Outbox, Time};

use crate::config::{Config, ConfigError};
use crate::metrics::{Ignored, Metrics};
use crate::mix::{Command, Event, RefuseError};
use crate::node::Cx;
use crate::peers::Peers;
use crate::round::{Cause, Failure, NodeState, Plan, RoundState};
use crate::wire::MixFrame;

/// Maximum time before a team is drawn again whose rounds have failed. Nodes need up to
/// `reconnect.max` to dial one that has restarted.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The scheduler of a pool.
///
/// # Guarantees
///
/// - The nodes of a round are different, as many as the size of a team, and were connected when the
///   team was drawn.
/// - The configuration limits the rounds that a team has at the same time, and those in
///   precomputation.
/// - A lost node ends its own rounds and no others. Its teams are drawn again from the other nodes
///   as soon as there are enough.
/// - If all rounds of a draw fail in their precomputation, the next draw waits, twice as long each
///   time up to 3 s, and tries one round first. Failures do not choose the nodes of a draw:
///   a node could otherwise blame honest ones until a team has none.
/// - Every round reaches [`RoundState::Completed`] or [`RoundState::Failed`], and the scheduler
///   reports it to the nodes of the round.
#[derive(Debug)]
pub struct Scheduler {
    config: Arc<Config>,
    peers: Peers,
    teams: Vec<Team>,
    runs: BTreeMap<u64, Run>,
    next_round: u64,
    metrics: Metrics,
}

impl Scheduler {
    /// Creates a scheduler that has not started.
    ///
    /// # Errors
    /// Returns an error if the configuration is not valid.
    pub fn new(config: impl Into<Arc<Config>>) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            peers: Peers::new(&config, config.pool.len() as u32),
            teams: vec![Team::default(); config.teams],
            runs: BTreeMap::new(),
            next_round: config.first_round,
            metrics: Metrics::default(),
            config,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the nodes of each team in order; a team without enough nodes is empty.
    pub fn teams(&self) -> impl Iterator<Item = &[u32]> {
        self.teams.iter().map(|team| &team.nodes[..])
    }

    pub fn rounds(&self) -> impl Iterator<Item = (u64, RoundState)> {
        self.runs.iter().map(|(round, run)| (*round, run.state))
    }

    fn send(&mut self, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.peers.send(to, Config::CONTROL, None, frame, &mut self.metrics, cx);
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        self.peers.tick(&self.config, &mut self.metrics, cx);
        self.check_runs(cx);
    }

    fn on_frame(&mut self, from: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.peers.heard(from, cx.now());
        match frame {
            MixFrame::Hello { incarnation } => {
                if self.peers.record_incarnation(from, incarnation) {
                    self.end_runs_of(from, Cause::Restarted, cx);
                }
                self.remind(from, cx);
            }
            MixFrame::Echo { number, is_answer: false } => {
                self.peers.answer_echo(from, number, &mut self.metrics, cx);
            }
            MixFrame::Status { round, state } => self.on_status(from, round, state, cx),
            MixFrame::End { round, failure: Some(failure) } => self.on_failure(from, round, failure, cx),
            _ => self.metrics.ignore(Ignored::Stranger),
        }
    }

    /// Sends a node again what it may have missed. It handles repeated frames like the first ones.
    fn remind(&mut self, node: u32, cx: &mut Cx<'_>) {
        let due = |run: &mut Run| run.is_due_reminder(node).then(|| run.reminder());
        let frames: Vec<MixFrame> = self.runs.values_mut().filter_map(due).flatten().collect();
        frames.into_iter().for_each(|frame| self.send(node, frame, cx));
    }

    fn on_status(&mut self, from: u32, round: u64, state: NodeState, cx: &mut Cx<'_>) {
        match self.runs.get_mut(&round).map(|run| run.set(from, state)) {
            Some(true) => self.evaluate(round, cx),
            Some(false) => self.metrics.ignore(Ignored::Stranger),
            None => {
                self.metrics.ignore(Ignored::Stale);
                let failure = (state != NodeState::Completed).then_some(Failure::of(Cause::Unknown));
                self.send(from, MixFrame::End { round, failure }, cx);
            }
        }
    }

    fn on_failure(&mut self, from: u32, round: u64, failure: Failure, cx: &mut Cx<'_>) {
        match self.runs.get(&round) {
            Some(run) if run.plan.seat_of(from).is_some() => self.fail(round, failure, cx),
            Some(_) => self.metrics.ignore(Ignored::Stranger),
            None => self.metrics.ignore(Ignored::Stale),
        }
    }
}

impl Engine for Scheduler {
    type Frame = MixFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<MixFrame, Command>, cx: &mut Cx<'_>) {
        let now = cx.now();
        match input {
            Input::Start => {
                self.peers.start(cx);
                self.tick(cx);
            }
            Input::LinkUp { peer, info } => match self.peers.up(&info.identity, peer, now) {
                Some(node) => {
                    for run in self.runs.values_mut() {
                        run.reset_reminder(node);
                    }
                    self.send(node, self.peers.hello(), cx);
                }
                None => {
                    self.metrics.ignore(Ignored::Stranger);
                    cx.close(peer);
                }
            },
            Input::LinkDown { peer } => self.peers.down(peer, now, &self.config, cx.rng()),
            Input::DialFailed { identity } => self.peers.failed(&identity, now, &self.config, cx.rng()),
            Input::Frame { peer, frame } => match self.peers.number_of(peer) {
                Some(from) => self.on_frame(from, frame, cx),
                None => self.metrics.ignore(Ignored::Stranger),
            },
            Input::Timer(_) => self.tick(cx),
            Input::Command(_) => cx.emit(Event::Refused { round: None, error: RefuseError::Scheduler }),
        }
        self.schedule(cx);
    }

    fn assert_invariants(&self, outbox: &Outbox<MixFrame>) {
        outbox.assert_invariants();
        for team in &self.teams {
            let different: BTreeSet<&u32> = team.nodes.iter().collect();
            let (found, size) = (team.nodes.len(), self.config.team);
            assert!(different.len() == found && [0, size].contains(&found), "a team of {:?}", team.nodes);
        }
        let of_team = |index| self.runs.values().filter(|run| run.team == index).count();
        let most = (0..self.teams.len()).map(of_team).max().unwrap_or(0);
        assert!(most <= self.config.rounds_max, "a team has {most} rounds at once");
    }
}

#[derive(Debug)]
struct Run {
    team: usize,
    plan: Arc<Plan>,
    state: RoundState,
    since: Time,
    /// The reported states, by seat.
    nodes: Vec<Option<NodeState>>,
    /// True if the plan was sent over the node's current link, by seat.
    reminded: Vec<bool>,
}

impl Run {
    /// Records the state of a node. Returns false if it is not in the team.
    fn set(&mut self, node: u32, state: NodeState) -> bool {
        let Some(seat) = self.plan.seat_of(node) else { return false };
        let known = &mut self.nodes[usize::from(seat)];
        *known = (*known).max(Some(state));
        true
    }

    /// Returns true if a node needs a reminder, and records that it gets one.
    fn is_due_reminder(&mut self, node: u32) -> bool {
        let seat = self.plan.seat_of(node);
        seat.is_some_and(|seat| !std::mem::replace(&mut self.reminded[usize::from(seat)], true))
    }

    /// Records that a node has a new link: frames on the old one may be lost.
    fn reset_reminder(&mut self, node: u32) {
        if let Some(seat) = self.plan.seat_of(node) {
            self.reminded[usize::from(seat)] = false;
        }
    }

    fn reminder(&self) -> impl Iterator<Item = MixFrame> + use<> {
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
    fn has_room(&self, team: usize) -> bool {
        let of_team = self.runs.values().filter(|run| run.team == team);
        let (all, early) = of_team.fold((0, 0), |(all, early), run| {
            let is_early = matches!(run.state, RoundState::Pending | RoundState::Precomputing);
            (all + 1, early + usize::from(is_early))
        });
        let Self { config, teams, .. } = self;
        let team = &teams[team];
        // A round that begins without one of its nodes could only wait, and fails if that node has
        // restarted.
        !team.nodes.is_empty()
            && team.nodes.iter().all(|node| self.peers.is_connected(*node))
            && !team.is_stale
            && team.rounds < config.rounds_per_draw
            && config.rounds.is_none_or(|most| self.metrics.rounds < most)
            && all < config.rounds_max
            && early < if team.is_on_trial() { 1 } else { config.precomputing_max }
    }

    fn make(&mut self, team: usize, cx: &mut Cx<'_>) {
        let nodes = self.teams[team].nodes.clone();
        self.teams[team].rounds += 1;
        let plan = Arc::new(Plan {
            round: self.next_round,
            batch: self.config.batch,
            precomputation_slots: self.config.precomputation_slots,
            realtime_slots: self.config.realtime_slots,
            transfer: self.config.transfer,
            shape: self.config.result_shape(),
            incarnations: if self.knows_incarnations() {
                self.peers.incarnations(&nodes)
            } else {
                Vec::new()
            },
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
            reminded: vec![true; seats],
        };
        self.runs.insert(plan.round, run);
        for node in &plan.team {
            self.send(*node, MixFrame::Create(plan.clone()), cx);
        }
    }

    /// Returns true if nodes may know an incarnation of another node from before its latest one: a
    /// node has restarted, or another scheduler has counted rounds before.
    fn knows_incarnations(&self) -> bool {
        self.config.first_round > 0 || self.peers.has_restarted()
    }

    /// Advances a round according to the states of its nodes.
    fn evaluate(&mut self, round: u64, cx: &mut Cx<'_>) {
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
        if next == RoundState::Standby {
            self.teams[run.team].note_success(&team);
        }
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

    fn fail(&mut self, round: u64, failure: Failure, cx: &mut Cx<'_>) {
        let Some(run) = self.runs.remove(&round) else { return };
        self.metrics.failed[failure.cause] += 1;
        // Draws the team again, because its nodes cannot work together.
        if failure.cause != Cause::TooFewSenders
            && let Some(wait) =
                self.teams[run.team].note_failure(&run.plan.team, cx.now(), self.config.reconnect.first)
        {
            self.metrics.paused_draws += 1;
            cx.emit(Event::Paused { team: run.team, wait, failure });
        }
        for node in &run.plan.team {
            self.send(*node, MixFrame::End { round, failure: Some(failure) }, cx);
        }
        cx.emit(Event::Round { round, state: RoundState::Failed });
        cx.emit(Event::Failed { round, failure });
    }

    /// Ends the rounds of a node that restarted or is lost.
    fn end_runs_of(&mut self, node: u32, cause: Cause, cx: &mut Cx<'_>) {
        let of_node = self.runs.iter().filter(|(_, run)| run.plan.seat_of(node).is_some());
        let rounds: Vec<u64> = of_node.map(|(round, _)| *round).collect();
        for round in rounds {
            self.fail(round, Failure::by(cause, node), cx);
        }
    }

    /// Ends rounds that take too long or have a lost node, and marks teams with lost nodes as
    /// stale.
    fn check_runs(&mut self, cx: &mut Cx<'_>) {
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
            // The limit is longer than that of the nodes, which know the cause better and should
            // report first.
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

/// The current nodes of a team. Rounds from before it was drawn keep their nodes.
#[derive(Clone, Debug, Default)]
struct Team {
    /// The nodes in order; empty if there are too few.
    nodes: Vec<u32>,
    /// Number of rounds since the team was drawn.
    rounds: u64,
    /// True if the team has to be drawn again.
    is_stale: bool,
    /// True if a round of this draw got through its precomputation.
    has_succeeded: bool,
    /// Draws before this one, in a row, of which no round got through its precomputation.
    failed_draws: u32,
    /// The team is not drawn again before.
    resumes: Time,
}

impl Team {
    /// Returns true if the team may try one round only, since the draws before have failed.
    const fn is_on_trial(&self) -> bool {
        self.failed_draws > 0 && !self.has_succeeded
    }

    /// Records that a round with these nodes got through its precomputation.
    fn note_success(&mut self, nodes: &[u32]) {
        if self.nodes == nodes {
            (self.has_succeeded, self.failed_draws) = (true, 0);
        }
    }

    /// Records that a round with these nodes failed, so that the team is drawn again. Returns the time
    /// until then if no round of this draw has succeeded.
    fn note_failure(&mut self, nodes: &[u32], now: Time, first: Duration) -> Option<Duration> {
        if self.nodes != nodes || std::mem::replace(&mut self.is_stale, true) || self.has_succeeded {
            return None;
        }
        let wait = first.saturating_mul(1 << self.failed_draws.min(31)).min(PAUSE_MAX);
        self.failed_draws = self.failed_draws.saturating_add(1);
        self.resumes = now + wait;
        Some(wait)
    }
}

/// Draws a team in random order: the nodes that are in the fewest other teams, with ties broken at
/// random. Returns `None` if there are too few.
fn draw(there: &[u32], others: &[Team], size: usize, rng: &mut NodeRng) -> Option<Vec<u32>> {
    if there.len() < size {
        return None;
    }
    let mut nodes = there.to_vec();
    rng.shuffle(&mut nodes);
    let teams_of = |node: &u32| others.iter().filter(|team| team.nodes.contains(node)).count();
    nodes.sort_by_key(teams_of);
    nodes.truncate(size);
    rng.shuffle(&mut nodes);
    Some(nodes)
}

impl Scheduler {
    /// Draws teams where necessary, and creates rounds while there is room.
    fn schedule(&mut self, cx: &mut Cx<'_>) {
        for index in 0..self.teams.len() {
            let team = &self.teams[index];
            let is_over =
                team.nodes.is_empty() || team.is_stale || team.rounds >= self.config.rounds_per_draw;
            if is_over && team.resumes <= cx.now() {
                self.redraw(index, cx);
            }
            while self.has_room(index) {
                self.make(index, cx);
            }
        }
    }

    fn redraw(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, limit) = (cx.now(), self.config.reconnect.limit);
        let pool = 0..self.config.pool.len() as u32;
        let there: Vec<u32> = pool.clone().filter(|node| self.peers.is_connected(*node)).collect();
        // Before the first round, all nodes get time to connect. Otherwise the fastest to connect
        // would be the first teams.
        let may_come = |node: &u32| !there.contains(node) && !self.peers.is_lost(*node, now, limit);
        if self.metrics.rounds == 0 && pool.clone().any(|node| may_come(&node)) {
            return;
        }
        let before = std::mem::take(&mut self.teams[index]);
        let had_none = before.nodes.is_empty();
        self.teams[index].failed_draws = before.failed_draws;
        let drawn = draw(&there, &self.teams, self.config.team, cx.rng());
        if drawn.is_none() && had_none {
            return;
        }
        self.metrics.draws += 1;
        let nodes = drawn.unwrap_or_default();
        cx.emit(Event::Drawn { team: index, nodes: nodes.clone() });
        self.teams[index].nodes = nodes;
    }
}

#[cfg(test)]
mod tests {
    use samara_engine::Purpose;
    use samara_engine::testing::{Single, identity_of};

    use super::*;

    #[test]
    #[should_panic(expected = "a team of [1, 1]")]
    fn a_node_with_two_seats_is_found() {
        let pool = (0..3).map(identity_of).collect();
        let config = Config { pool, scheduler: identity_of(3), team: 2, ..Config::default() };
        let outbox = Outbox::new(config.outbox());
        let mut scheduler = Single::start(Scheduler::new(config).expect("a valid configuration"), outbox, 1);
        scheduler.with(|scheduler, _| scheduler.teams[0].nodes = vec![1, 1]);
    }

    #[test]
    fn teams_use_nodes_and_seats_evenly() {
        let mut rng = NodeRng::new(1, 0, Purpose::Engine);
        let there: Vec<u32> = (0..8).collect();
        let mut places = [[0u32; 5]; 8];
        for _ in 0..4_000 {
            let mut teams: Vec<Team> = Vec::new();
            for _ in 0..2 {
                let nodes = draw(&there, &teams, 5, &mut rng).unwrap();
                nodes.iter().enumerate().for_each(|(place, node)| places[*node as usize][place] += 1);
                teams.push(Team { nodes, ..Team::default() });
            }
            // Ten seats for eight nodes: every node has one or two.
            for node in 0..8 {
                assert!((1..=2).contains(&teams.iter().filter(|team| team.nodes.contains(&node)).count()));
            }
        }
        // 8,000 teams: each node has each seat 1,000 times on average.
        assert!(places.iter().flatten().all(|times| (850..1_150).contains(times)), "{places:?}");
        assert!(draw(&there[..4], &[], 5, &mut rng).is_none());
    }
}
