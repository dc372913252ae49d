//! Nodes that mix batches, with a processor each and somebody who has payloads; and their scheduler.

mod calibrate;
mod costs;
mod cpu;
mod gateway;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use samara_engine::{Context, Engine, Input, NodeRng, Outbox, Purpose, Time, TimerToken};
use samara_mix::{
    Command, Config, Event, Failure, Mark, Metrics, Mix, MixFrame, Node, NodeState, Phase, Plan, RoundState,
    Scheduler, Secret,
};

pub use calibrate::measure;
pub use costs::Costs;
pub use gateway::Checked;

use cpu::Cpu;
use gateway::Gateway;

/// Work is done.
const DONE: TimerToken = TimerToken(TimerToken::WRAPPER);

/// What a node is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Hand in batches from now on.
    Begin,
}

/// What hosts tell the measurements.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A core works on a piece of a phase; of `None`, on keys.
    Work {
        /// Of which round.
        round: u64,
        /// Of which phase.
        phase: Option<Phase>,
        /// Which core.
        core: usize,
        /// From when on.
        from: Time,
        /// Until when.
        to: Time,
    },
    /// A round takes a batch, at its first node.
    Open {
        /// Which.
        round: u64,
    },
    /// A batch was handed in there.
    Entered {
        /// For which round.
        round: u64,
    },
    /// A batch, or a sender, was not taken: this never happens.
    Refused,
    /// All payloads of a round are here.
    Delivered {
        /// Which round.
        round: u64,
        /// What they are.
        checked: Checked,
    },
    /// A round has failed here.
    Failed {
        /// Which round.
        round: u64,
        /// Why.
        failure: Failure,
    },
    /// A node is in a new state with a round.
    State {
        /// Which round.
        round: u64,
        /// How far.
        state: NodeState,
    },
    /// A moment of a phase.
    Mark {
        /// Of which round.
        round: u64,
        /// Of which phase.
        phase: Phase,
        /// Which moment.
        mark: Mark,
    },
    /// The scheduler has drawn a team.
    Drawn,
    /// The scheduler has made a round.
    Made {
        /// For which of the teams.
        team: usize,
        /// What its nodes are told.
        plan: Arc<Plan>,
    },
    /// A round is in a new state, at the scheduler.
    Round {
        /// Which.
        round: u64,
        /// How far.
        state: RoundState,
    },
}

/// What outlives the processes of a run.
#[derive(Debug)]
pub struct Shared {
    config: Arc<Config>,
    costs: Costs,
    seed: u64,
    /// Whether batches are handed in.
    has_begun: AtomicBool,
    /// By host: its processes, and the rounds below which a new one takes none: what a real one has on its disk.
    lives: Vec<AtomicU64>,
    floors: Vec<AtomicU64>,
}

impl Shared {
    /// Of a pool and its scheduler, nothing of which has happened. The configuration was checked.
    pub fn new(config: Config, costs: Costs, seed: u64) -> Self {
        let hosts = 0..=config.pool.len();
        let zeros = || hosts.clone().map(|_| AtomicU64::new(0)).collect();
        Self {
            costs,
            seed,
            has_begun: AtomicBool::new(false),
            lives: zeros(),
            floors: zeros(),
            config: config.into(),
        }
    }

    /// From now on processes hand in batches as soon as they start. Call it between two steps of a simulation only.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::SeqCst);
    }

    fn saw(&self, host: u32, round: u64) {
        self.floors[host as usize].fetch_max(round + 1, Ordering::SeqCst);
    }
}

/// A host: a node of the pool with its processor and its gateway, or the scheduler.
#[derive(Debug)]
pub struct Host {
    number: u32,
    mix: Mix,
    cpu: Cpu,
    gateway: Gateway,
    has_begun: bool,
    shared: Arc<Shared>,
    events: Vec<Event>,
}

type Cx<'a> = Context<'a, MixFrame, Told>;

impl Host {
    /// The process of a host, and its outbox.
    pub fn new(number: u32, shared: &Arc<Shared>) -> (Self, Outbox<MixFrame>) {
        let life = shared.lives[number as usize].fetch_add(1, Ordering::SeqCst);
        let first_round = shared.floors[number as usize].load(Ordering::SeqCst);
        let config = Config { first_round, ..(*shared.config).clone() };
        let is_scheduler = number as usize == config.pool.len();
        let mix = if is_scheduler {
            Scheduler::new(config).map(Mix::from)
        } else {
            Node::new(config, number, secret(shared.seed, number, life)).map(Mix::from)
        };
        let mix = match mix {
            Ok(mix) => mix,
            Err(error) => unreachable!("the configuration was checked: {error}"),
        };
        let config = &shared.config;
        let host = Self {
            number,
            mix,
            cpu: Cpu::new(shared.costs, config.jobs_max),
            gateway: Gateway::new(config),
            has_begun: shared.has_begun.load(Ordering::SeqCst),
            shared: Arc::clone(shared),
            events: Vec::new(),
        };
        (host, Outbox::new(config.outbox()))
    }

    /// What its engine has counted.
    pub const fn metrics(&self) -> &Metrics {
        self.mix.metrics()
    }

    fn give(&mut self, input: Input<MixFrame, Command>, cx: &mut Cx<'_>) {
        self.mix.handle(input, &mut cx.nested(&mut self.events));
        self.relay(cx);
    }

    /// Works, and passes on what the engine tells.
    fn relay(&mut self, cx: &mut Cx<'_>) {
        for event in std::mem::take(&mut self.events) {
            let told = match event {
                Event::Compute(job) => {
                    let (round, phase) = (job.round(), job.phase());
                    let (core, from, to) = self.cpu.take(job, cx.now());
                    cx.set_timer(to, DONE);
                    Told::Work { round, phase, core, from, to }
                }
                Event::Open(plan) => {
                    let round = plan.round;
                    self.gateway.opened(plan);
                    Told::Open { round }
                }
                // Of the batch the gateway knows; links are not pinged here for anybody to see.
                Event::Entered { .. } | Event::Looped { .. } | Event::RoundTrip { .. } => continue,
                Event::Refused { .. } => Told::Refused,
                Event::Delivered { round, outcomes } => {
                    self.gateway.ended(round);
                    Told::Delivered { round, checked: Checked::of(round, &outcomes) }
                }
                Event::Failed { round, failure } => {
                    self.gateway.ended(round);
                    Told::Failed { round, failure }
                }
                Event::State { round, state } => {
                    self.shared.saw(self.number, round);
                    Told::State { round, state }
                }
                Event::Mark { round, phase, mark } => Told::Mark { round, phase, mark },
                Event::Drawn { .. } => Told::Drawn,
                Event::Made { team, plan } => Told::Made { team, plan },
                Event::Round { round, state } => {
                    self.shared.saw(self.number, round);
                    Told::Round { round, state }
                }
            };
            cx.emit(told);
        }
    }

    fn hand_in(&mut self, cx: &mut Cx<'_>) {
        while self.has_begun
            && let Some((round, batch)) = self.gateway.next()
        {
            cx.emit(Told::Entered { round });
            self.give(Input::Command(Command::Mix { round, batch }), cx);
        }
    }
}

/// What a process keeps secret.
fn secret(seed: u64, host: u32, life: u64) -> Secret {
    let mut rng = NodeRng::new(seed, u64::from(host) << 32 | life, Purpose::Workload);
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()));
    Secret::new(bytes)
}

impl Engine for Host {
    type Frame = MixFrame;
    type Command = Act;
    type Event = Told;

    fn handle(&mut self, input: Input<MixFrame, Act>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => {
                self.give(Input::Start, cx);
                if self.mix.node().is_some() {
                    let (sender, secret) = Gateway::registration(self.number);
                    self.give(Input::Command(Command::Register { sender, secret }), cx);
                }
            }
            Input::Command(Act::Begin) => self.has_begun = true,
            Input::Timer(DONE) => {
                while let Some(done) = self.cpu.due(cx.now()) {
                    self.give(Input::Command(Command::Computed(done)), cx);
                }
            }
            Input::Timer(token) => self.give(Input::Timer(token), cx),
            Input::LinkUp { peer, info } => self.give(Input::LinkUp { peer, info }, cx),
            Input::LinkDown { peer } => self.give(Input::LinkDown { peer }, cx),
            Input::DialFailed { identity } => self.give(Input::DialFailed { identity }, cx),
            Input::Frame { peer, frame } => self.give(Input::Frame { peer, frame }, cx),
        }
        self.hand_in(cx);
    }
}
