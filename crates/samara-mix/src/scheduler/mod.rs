//! The scheduler: draws teams from the pool, makes rounds, and ends them. The xx network's scheduling server does the same; it
//! sees no payloads and no secrets.
//!
//! | file | |
//! |---|---|
//! | `teams` | which nodes a team has |
//! | `runs` | rounds, from their making to their end |

mod runs;
mod teams;

use std::collections::BTreeMap;
use std::sync::Arc;

use samara_engine::{Engine, Input, Time};

use crate::config::{Config, ConfigError};
use crate::event::{Event, RefuseError};
use crate::metrics::{Ignored, Metrics};
use crate::node::{Cx, TICK, TICK_EVERY};
use crate::peers::Peers;
use crate::round::{Cause, Failure, RoundState};
use crate::wire::MixFrame;
use crate::{Command, NodeState};
use runs::Run;
use teams::Team;

/// The scheduler of a pool.
///
/// # What is promised
///
/// - A round has as many different nodes as a team, which were connected when it was drawn.
/// - A team has at most so many rounds at a time, and so many under precomputation, as the configuration says.
/// - A node that is lost ends its rounds, and no others; its teams are drawn anew from the others as soon as there are enough.
/// - Every round comes to [`RoundState::Completed`] or [`RoundState::Failed`], and its nodes are told.
#[derive(Debug)]
pub struct Scheduler {
    config: Arc<Config>,
    incarnation: u64,
    peers: Peers,
    next_beat: Time,
    teams: Vec<Team>,
    runs: BTreeMap<u64, Run>,
    next_round: u64,
    metrics: Metrics,
}

impl Scheduler {
    /// The scheduler, which has not started.
    ///
    /// # Errors
    /// The configuration is not possible.
    pub fn new(config: impl Into<Arc<Config>>) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        Ok(Self {
            incarnation: 0,
            peers: Peers::new(&config, config.pool.len() as u32),
            next_beat: Time::ZERO,
            teams: vec![Team::default(); config.teams],
            runs: BTreeMap::new(),
            next_round: config.first_round,
            metrics: Metrics::default(),
            config,
        })
    }

    /// The set-up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The nodes of each team, in order; none where there are too few.
    pub fn teams(&self) -> impl Iterator<Item = &[u32]> {
        self.teams.iter().map(|team| &team.nodes[..])
    }

    /// The rounds that are not over.
    pub fn rounds(&self) -> impl Iterator<Item = (u64, RoundState)> {
        self.runs.iter().map(|(round, run)| (*round, run.state))
    }

    fn send(&mut self, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        if let Some(peer) = self.peers.link_to(to) {
            self.metrics.owe(peer, Config::CONTROL, None, frame, cx);
        }
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        self.incarnation = cx.rng().next_u64();
        self.peers.start(cx.now());
        self.tick(cx);
    }

    fn tick(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        cx.set_timer(now + TICK_EVERY, TICK);
        for peer in self.peers.silent(now, self.config.silence) {
            self.metrics.silences += 1;
            cx.close(peer);
        }
        if now >= self.next_beat {
            self.next_beat = now + self.config.beat;
            let hello = MixFrame::Hello { incarnation: self.incarnation };
            for node in 0..self.config.pool.len() as u32 {
                self.send(node, hello.clone(), cx);
            }
        }
        self.look_at_runs(cx);
    }

    fn on_frame(&mut self, from: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.peers.heard(from, cx.now());
        match frame {
            MixFrame::Hello { incarnation } => {
                if self.peers.lives(from, incarnation) {
                    self.end_runs_of(from, Cause::Restarted, cx);
                }
                self.remind(from, cx);
            }
            MixFrame::Echo { number, is_answer: false } => {
                self.send(from, MixFrame::Echo { number, is_answer: true }, cx);
            }
            MixFrame::Status { round, state } => self.on_status(from, round, state, cx),
            MixFrame::End { round, failure: Some(failure) } => self.on_failure(from, round, failure, cx),
            _ => self.metrics.ignore(Ignored::Stranger),
        }
    }

    /// Says again what a node may not have heard: it has the same answer for what it has.
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
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => match self.peers.up(&info.identity, peer, now) {
                Some(node) => {
                    for run in self.runs.values_mut() {
                        run.unremind(node);
                    }
                    self.send(node, MixFrame::Hello { incarnation: self.incarnation }, cx);
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
}
