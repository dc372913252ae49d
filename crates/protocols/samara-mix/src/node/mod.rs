//! A node of the pool: its part in the rounds that the scheduler makes.
//!
//! | file | contents |
//! |---|---|
//! | `links` | setup and loss of links; retransmission; pings |
//! | `lifecycle` | start, key agreement, timeouts, failure and end of rounds |
//! | `round` | the state of a round and its phases; the order of jobs |
//! | `slots` | receiving, processing and sending slots; batches and results |

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
use samara_engine::{Context, Engine, Input, MessageKey, Outbox, TimerToken};

use crate::compute::{Answer, Done};
use crate::config::{Config, ConfigError};
use crate::metrics::{Ignored, Metrics};
use crate::mix::{Command, Event, RefuseError};
use crate::peers::Peers;
use crate::round::{Cause, Failure, Plan};
use crate::sender::{Keyring, RegisterError, SenderId};
use crate::wire::MixFrame;
use crate::{NodeState, Secret};
use lifecycle::EarlyShare;
use links::Pings;
use round::{Jobs, Round};

pub type Cx<'a> = Context<'a, MixFrame, Event>;

pub(crate) const TICK: TimerToken = TimerToken(0);
/// Interval of all checks that depend only on time: a tenth of the shortest relevant time in the
/// default configuration, with negligible work.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// A node of a pool.
///
/// Inputs come through [`Engine::handle`]; [`Event`]s report what happened;
/// [`metrics`](Self::metrics) counts it. [`Event::Compute`] requests the work on numbers, and
/// [`Command::Computed`] returns the result.
///
/// # Guarantees
///
/// - [`Event::Delivered`] comes at most once for a round, and [`Event::Failed`] never after it. One
///   of them comes for every round that this node took part in, at most after the timeouts of the
///   configuration.
/// - A delivery contains the whole batch, in an order that is the composition of all nodes'
///   permutations, the same at all nodes.
/// - A failed round affects no other round, and the faults of a sender or of a node of one team
///   reach no other team.
/// - Nothing happens twice for a round: the node rejects and counts rounds with a number that it
///   has seen, slots with a salt that it has seen in the round, and slots of completed phases.
pub struct Node {
    config: Arc<Config>,
    me: u32,
    /// The secrets of the next round are derived from it.
    secret: Secret,
    keyring: Keyring,
    peers: Peers,
    rounds: BTreeMap<u64, Box<Round>>,
    /// The node rejects rounds with lower numbers.
    floor: u64,
    early: VecDeque<EarlyShare>,
    jobs: Jobs,
    pings: Pings,
    metrics: Metrics,
}

impl Node {
    /// Creates the node with this number in the pool, which has not started. All of its secrets are
    /// derived from `secret`: 32 bytes from the operating system that were never used before.
    ///
    /// # Errors
    /// Returns an error if the configuration is not valid, or if the pool has no such node.
    pub fn new(config: impl Into<Arc<Config>>, number: u32, secret: Secret) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        check((number as usize) < config.pool.len(), "number", number, "the number of a node of the pool")?;
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

    /// Returns the secrets that this node shares with senders.
    pub const fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Registers the secret shared with a sender, starting with the next job.
    ///
    /// # Errors
    /// Returns an error if the name is [`SenderId::NOBODY`].
    pub fn register(&mut self, sender: SenderId, secret: Secret) -> Result<(), RegisterError> {
        self.keyring.register(sender, secret)
    }

    /// Returns the rounds that this node takes part in, and its state in each.
    pub fn rounds(&self) -> impl Iterator<Item = (u64, NodeState)> {
        self.rounds.iter().map(|(round, state)| (*round, state.state))
    }

    /// Returns the scheduler's plan of a round that this node takes part in.
    pub fn plan(&self, round: u64) -> Option<&Arc<Plan>> {
        self.rounds.get(&round).map(|state| &state.plan)
    }

    /// Returns the bytes of slots held for a round: those that wait for other slots, for work, or
    /// until the next node has them. Slots that are shared between these are counted for each.
    pub fn held_bytes(&self, round: u64) -> u64 {
        self.rounds.get(&round).map_or(0, |state| state.held_bytes()) + self.jobs.held_bytes(round)
    }

    /// Returns the bytes of slots held for all rounds.
    pub fn held_bytes_total(&self) -> u64 {
        self.rounds.keys().map(|round| self.held_bytes(*round)).sum()
    }

    /// Runs `work` on a round, which fails if `work` does. Returns false if there is no such round.
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

    /// Sends a frame to a node or the scheduler, if it is connected. Frames that must not be lost
    /// are sent again after a reconnection.
    fn send(&mut self, to: u32, frame: MixFrame, cx: &mut Cx<'_>) {
        self.send_on(to, Config::CONTROL, None, frame, cx);
    }

    fn send_on(&mut self, to: u32, lane: Lane, round: Option<MessageKey>, frame: MixFrame, cx: &mut Cx<'_>) {
        self.peers.send(to, lane, round, frame, &mut self.metrics, cx);
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
            // The input of the job came from the node before this one, or is a share that went
            // through all nodes.
            Err(Cause::BadElement) => Err(Failure::by(Cause::BadElement, round.before())),
            Err(cause) => Err(Failure::by(cause, node.me)),
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
                if let Err(error) = self.register(sender, secret) {
                    cx.emit(Event::Refused { round: None, error: RefuseError::Register(error) });
                }
            }
            Command::Forget { sender } => {
                self.keyring.remove(sender);
            }
            Command::Abandon { round } => self.abandon(round, cx),
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

    fn assert_invariants(&self, outbox: &Outbox<MixFrame>) {
        outbox.assert_invariants();
        let (rounds, out) = (self.rounds.len(), self.jobs.out());
        assert!(rounds <= self.config.node_rounds_max, "{rounds} rounds at once");
        assert!(out <= self.config.jobs_max, "{out} jobs at once");
        // A round whose number came before would be a replay.
        let last = self.rounds.last_key_value().map(|(round, _)| *round);
        assert!(last.is_none_or(|last| last < self.floor), "round {last:?} at the floor {}", self.floor);
        for (round, state) in &self.rounds {
            assert!(state.plan.seat_of(self.me).is_some(), "a round {round} of others");
        }
    }
}
