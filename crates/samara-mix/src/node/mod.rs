//! A node of the pool: its part in the rounds that the scheduler makes.
//!
//! | file | |
//! |---|---|
//! | `links` | links come and go; what is said again when they come back; pings |
//! | `lifecycle` | rounds begin, agree on a key, time out, fail and end |
//! | `round` | what is known of a round and its phases; which work goes first |
//! | `slots` | slots come, are worked on, and leave; batches, and what comes out |

mod lifecycle;
mod links;
mod round;
mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::config::check;
use samara_engine::outbox::Lane;
use samara_engine::{Context, Engine, Input, MessageKey, TimerToken};

use crate::compute::{Answer, Done};
use crate::config::{Config, ConfigError};
use crate::metrics::{Ignored, Metrics};
use crate::mix::{Command, Event, RefuseError};
use crate::peers::Peers;
use crate::round::{Cause, Failure, Plan};
use crate::sender::Keyring;
use crate::wire::MixFrame;
use crate::{NodeState, Secret};
use lifecycle::EarlyShare;
use links::Pings;
use round::{Jobs, Round};

pub type Cx<'a> = Context<'a, MixFrame, Event>;

pub(crate) const TICK: TimerToken = TimerToken(0);
/// How often everything is looked at that depends on time alone: a tenth of the shortest time in the default configuration that
/// matters, and no work to speak of.
pub(crate) const TICK_EVERY: Duration = Duration::from_millis(100);

/// A node of a pool.
///
/// Inputs come by [`Engine::handle`]; [`Event`]s tell what happened; [`metrics`](Self::metrics) counts it. The work on
/// numbers is asked for by [`Event::Compute`] and answered by [`Command::Computed`].
///
/// # What is promised
///
/// - [`Event::Delivered`] comes at most once for a round, and [`Event::Failed`] never after it; one of them comes for every round that
///   this node took part in, after the time-outs of the configuration at the latest.
/// - What is delivered is all of a batch, in an order that is the composition of all nodes' permutations, the same at all nodes.
/// - A round that fails harms no other one, and what a sender or a node of one team does wrong reaches no other team.
/// - Nothing is done twice for a round: a round with a number that was seen, a slot with a salt that was seen in the round, and slots
///   of phases that are through are refused, and counted.
pub struct Node {
    config: Arc<Config>,
    me: u32,
    /// The secrets of the next round follow from it.
    secret: Secret,
    keyring: Keyring,
    peers: Peers,
    rounds: BTreeMap<u64, Box<Round>>,
    /// Rounds with lower numbers are not begun.
    floor: u64,
    early: VecDeque<EarlyShare>,
    jobs: Jobs,
    pings: Pings,
    metrics: Metrics,
}

impl Node {
    /// The node with this number in the pool, which has not started. Everything that it keeps secret follows from `secret`: 32 bytes
    /// from the operating system, never used before.
    ///
    /// # Errors
    /// The configuration is not possible, or the pool has no such node.
    pub fn new(config: impl Into<Arc<Config>>, number: u32, secret: Secret) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        check((number as usize) < config.pool.len(), "number", number, "a node of the pool")?;
        Ok(Self {
            me: number,
            secret,
            keyring: Keyring::new(config.senders_max),
            peers: Peers::new(&config, number),
            rounds: BTreeMap::new(),
            floor: config.first_round,
            early: VecDeque::new(),
            jobs: Jobs::default(),
            pings: Pings::default(),
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

    /// The rounds that this node takes part in, and how far it is.
    pub fn rounds(&self) -> impl Iterator<Item = (u64, NodeState)> {
        self.rounds.iter().map(|(round, state)| (*round, state.state))
    }

    /// What the scheduler has decided for a round that this node takes part in.
    pub fn plan(&self, round: u64) -> Option<&Arc<Plan>> {
        self.rounds.get(&round).map(|state| &state.plan)
    }

    /// Bytes of slots that are held for a round: those that wait for others, for work, or for the next node to have them. Slots that are
    /// shared between these are counted for each.
    pub fn held_bytes(&self, round: u64) -> u64 {
        self.rounds.get(&round).map_or(0, |state| state.held_bytes()) + self.jobs.held_bytes(round)
    }

    /// The same for all rounds together.
    pub fn held_bytes_total(&self) -> u64 {
        self.rounds.keys().map(|round| self.held_bytes(*round)).sum()
    }

    /// Does something with a round, which fails if that does. Whether there is such a round.
    fn with_round(
        &mut self,
        round: u64,
        cx: &mut Cx<'_>,
        work: impl FnOnce(&mut Self, &mut Round, &mut Cx<'_>) -> Result<(), Failure>,
    ) -> bool {
        let Some(mut state) = self.rounds.remove(&round) else { return false };
        match work(self, &mut state, cx) {
            Ok(()) => {
                self.rounds.insert(round, state);
            }
            Err(failure) => self.fail(*state, failure, cx),
        }
        true
    }

    /// Sends to a node or the scheduler, if it is connected. What must not be lost is said again when it is.
    fn send(&mut self, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.send_on(to, Config::CONTROL, None, frame, cx);
    }

    fn send_on(&mut self, to: u32, lane: Lane, round: Option<MessageKey>, frame: MixFrame, cx: &mut Cx<'_>) {
        if let Some(peer) = self.peers.link_to(to) {
            self.metrics.owe(peer, lane, round, frame, cx);
        }
    }

    fn on_frame(&mut self, from: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.peers.heard(from, cx.now());
        let is_scheduler = from == self.peers.scheduler();
        match frame {
            MixFrame::Hello { incarnation } => self.on_hello(from, incarnation, cx),
            MixFrame::End { round, failure } => self.on_end(from, round, failure, cx),
            MixFrame::Create(plan) if is_scheduler => self.on_create(plan, cx),
            MixFrame::Queued { round } if is_scheduler => self.on_queued(round, cx),
            MixFrame::Share { round, origin, is_complete, key } if !is_scheduler => {
                self.on_share(EarlyShare { from, round, origin, is_complete, key }, cx);
            }
            MixFrame::Slots(piece) if !is_scheduler => self.on_slots(from, piece, cx),
            MixFrame::Received { round, phase } if !is_scheduler => self.on_received(from, round, phase),
            MixFrame::Ping { round, number, seat } if !is_scheduler => {
                self.on_ping(from, round, number, seat, cx);
            }
            MixFrame::Echo { number, is_answer } => self.on_echo(from, number, is_answer, cx),
            _ => self.metrics.ignore(Ignored::Stranger),
        }
    }

    fn on_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        self.jobs.done();
        let known = self.with_round(done.round, cx, |node, round, cx| match done.answer {
            // What this node was given came from the node before it, or is part of a key that went through all.
            Err(_) => Err(Failure::by(Cause::BadElement, round.before())),
            Ok(Answer::Generated(vault)) => node.on_generated(round, vault, cx),
            Ok(Answer::Shared { origin, key, is_complete }) => {
                node.on_shared(round, origin, key, is_complete, cx)
            }
            Ok(Answer::Slots { phase, first, count, output }) => {
                node.on_output(round, phase, first, count, output, cx)
            }
        });
        if !known {
            self.metrics.ignore(Ignored::LateAnswer);
        }
    }

    fn handle_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Computed(done) => self.on_done(done, cx),
            Command::Mix { round, batch } => {
                let slots = batch.len() as u32;
                cx.emit(match self.mix(round, batch) {
                    Ok(()) => Event::Entered { round, slots },
                    Err(error) => Event::Refused { round: Some(round), error },
                });
            }
            Command::Register { sender, secret } => {
                if let Err(error) = self.keyring.register(sender, secret) {
                    cx.emit(Event::Refused { round: None, error: RefuseError::Register(error) });
                }
            }
            Command::Forget { sender } => {
                self.keyring.remove(sender);
            }
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({}, ", self.me)?;
        f.debug_map().entries(self.rounds()).finish()?;
        f.write_str(")")
    }
}

impl Engine for Node {
    type Frame = MixFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<MixFrame, Command>, cx: &mut Cx<'_>) {
        let now = cx.now();
        match input {
            Input::Start => self.start(cx),
            Input::LinkUp { peer, info } => self.link_up(peer, &info.identity, cx),
            Input::LinkDown { peer } => self.peers.down(peer, now, &self.config, cx.rng()),
            Input::DialFailed { identity } => self.peers.failed(&identity, now, &self.config, cx.rng()),
            Input::Frame { peer, frame } => match self.peers.number_of(peer) {
                Some(from) => self.on_frame(from, frame, cx),
                None => self.metrics.ignore(Ignored::Stranger),
            },
            Input::Timer(_) => self.tick(cx),
            Input::Command(command) => self.handle_command(command, cx),
        }
        self.start_batches(cx);
        self.jobs.pump(self.config.jobs_max, &mut self.metrics, cx);
    }
}
