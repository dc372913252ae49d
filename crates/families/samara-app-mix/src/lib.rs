//! Nodes that mix batches, each with a processor and a sender that always has payloads, and their
//! scheduler.

pub mod codec;
#[cfg(test)]
mod encoding;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use samara_engine::{Context, Engine, Input, NodeRng, Outbox, PeerId, Purpose, Time, TimerToken};
use samara_hosts::Worlds;
use samara_mix::{
    Batch, Command, Config, Done, Event, Failure, Group, Job, Mark, Metrics, Mix, MixFrame, Node, Outcome,
    Phase, Plan, RoundState, Scheduler, Secret, Sender, SenderId, WithMix,
};
use samara_sim::{App, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DONE: TimerToken = TimerToken(TimerToken::WRAPPER);
/// Fires when the pause between two batches ends.
const PAUSED: TimerToken = TimerToken(TimerToken::WRAPPER + 1);
/// Fires when the node has read slots that arrived.
const READ: TimerToken = TimerToken(TimerToken::WRAPPER + 2);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Starts handing in batches.
    Begin,
    /// Hands in a batch for a round, with `mix.interval`.
    Submit(u64),
    /// A thread of a real host has done a job.
    #[serde(skip)]
    Worked(Worked),
    /// A thread of a real host has sealed a batch for a round.
    #[serde(skip)]
    Sealed(Arc<Plan>, Batch),
}

/// A job that a thread has done.
#[derive(Debug)]
pub struct Worked {
    core: u16,
    phase: Option<Phase>,
    done: Done,
    /// The processor time of the job.
    took: Duration,
}

/// An event from a host to the measurements. The numbers are round numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundEvent {
    /// A process has started after others of its host.
    Restarted,
    /// A core works on a slice of a phase, or on keys.
    Work(WorkSpan),
    /// The first node of a round is ready to take a batch.
    Open(u64),
    Entered(u64),
    /// A node refused a batch or a sender. This never happens in a correct run.
    Refused,
    /// A node has all payloads of a round.
    Delivered(u64, Checked),
    Failed(u64, Failure),
    Mark(u64, Phase, Mark),
    Drawn,
    /// The time of a ping around a team; `None` if it was lost.
    Looped(Option<Duration>),
    /// The scheduler created a round for one of the teams.
    Made(usize, Arc<Plan>),
    Round(u64, RoundState),
}

/// A span of uninterrupted work of one core on one phase of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpan {
    pub host: u32,
    pub core: u16,
    pub round: u64,
    /// The phase; `None` stands for keys.
    pub phase: Option<Phase>,
    /// When it begins, in nanoseconds of the run.
    pub from: u64,
    /// When it ends, in nanoseconds of the run.
    pub to: u64,
}

/// When batches are handed in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacing {
    /// Time from the end of a round at its first node until the next batch.
    pub pause: Duration,
    /// Whether the run says when each batch is handed in.
    pub is_paced: bool,
}

/// State of a run that outlives its processes.
#[derive(Debug)]
pub struct Shared {
    pub config: Arc<Config>,
    pub costs: Costs,
    pause: Duration,
    /// Whether the run says when each batch is handed in.
    is_paced: bool,
    /// Whether each host is a process, whose threads do the work.
    is_real: bool,
    seed: u64,
    /// Number of processes that each host has started so far.
    lives: Vec<AtomicU64>,
    /// For each host, the lowest round that a new process accepts. A real node keeps it on disk.
    floors: Vec<AtomicU64>,
    /// Measured nanoseconds of each job (per slot, if the job has slots), by kind of work. `None`
    /// unless the run measures them.
    pub took: Option<Mutex<BTreeMap<WorkKind, Vec<f64>>>>,
}

impl Shared {
    /// Creates the state of a pool and its scheduler at the start of a run. The configuration must be
    /// valid. The hosts of a real run are processes, each with a state of its own.
    pub fn new(config: Config, costs: Costs, pacing: Pacing, (seed, is_real): (u64, bool)) -> Self {
        let hosts = 0..=config.pool.len();
        let zeros = || hosts.clone().map(|_| AtomicU64::new(0)).collect();
        Self {
            costs,
            pause: pacing.pause,
            is_paced: pacing.is_paced,
            is_real,
            seed,
            lives: zeros(),
            floors: zeros(),
            took: None,
            config: config.into(),
        }
    }

    /// Returns the measured times of jobs so far, or an empty map if the run does not measure them.
    pub fn took(&self) -> BTreeMap<WorkKind, Vec<f64>> {
        let took = self.took.as_ref().map(|took| took.lock().unwrap_or_else(PoisonError::into_inner).clone());
        took.unwrap_or_default()
    }

    /// Does the work of a job at once. The answer depends only on the job, so it can be computed
    /// before it is due.
    fn run(&self, job: Job) -> Done {
        let Some(took) = &self.took else { return job.run() };
        let (kind, slots, start) = (WorkKind::of(&job), job.slots().max(1), Instant::now());
        let done = job.run();
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(slots);
        took.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default().push(nanos);
        done
    }

    /// Creates a node or the scheduler, whose rounds begin with this one.
    fn mix(&self, number: u32, life: u64, first_round: u64) -> Mix {
        let config = Config { first_round, ..(*self.config).clone() };
        let mix = if number as usize == config.pool.len() {
            Scheduler::new(config).map(Mix::from)
        } else {
            Node::new(config, number, secret(self.seed, number, life)).map(Mix::from)
        };
        mix.unwrap_or_else(|error| unreachable!("the configuration was checked: {error}"))
    }

    fn saw(&self, host: u32, round: u64) {
        self.floors[host as usize].fetch_max(round + 1, Ordering::SeqCst);
    }
}

/// A host: a node of the pool with its processor and its sender, or the scheduler.
#[derive(Debug)]
pub struct Host {
    number: u32,
    mix: Mix,
    cpu: Cpu,
    threads: Threads,
    reader: Reader,
    gateway: Gateway,
    has_begun: bool,
    shared: Arc<Shared>,
    events: Vec<Event>,
}

type Cx<'a> = Context<'a, MixFrame, RoundEvent>;

impl Host {
    pub fn new(number: u32, shared: &Arc<Shared>) -> (Self, Outbox<MixFrame>) {
        let life = shared.lives[number as usize].fetch_add(1, Ordering::SeqCst);
        let first_round = shared.floors[number as usize].load(Ordering::SeqCst);
        let config = &shared.config;
        let host = Self {
            number,
            mix: shared.mix(number, life, first_round),
            cpu: Cpu::new(config.jobs_max),
            threads: Threads::new(config),
            reader: Reader::default(),
            gateway: Gateway::new(config, shared),
            has_begun: false,
            shared: Arc::clone(shared),
            events: Vec::new(),
        };
        (host, Outbox::new(config.outbox()))
    }

    fn forward(&mut self, input: Input<MixFrame, Command>, cx: &mut Cx<'_>) {
        self.mix.handle(input, &mut cx.nested(&mut self.events));
        for event in std::mem::take(&mut self.events) {
            self.handle_event(event, cx);
        }
    }

    fn handle_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let observed = match event {
            Event::Compute(job) if self.shared.is_real => return self.threads.take(job),
            Event::Compute(job) => {
                let span = self.cpu.take(job, self.number, &self.shared, cx.now());
                cx.set_timer(Time::from_nanos(span.to), DONE);
                RoundEvent::Work(span)
            }
            // Senders seal payloads before they hand them in, and elsewhere than at a node.
            Event::Open(plan) if self.shared.is_real => {
                self.gateway.sealing.push(plan.round);
                return self.threads.seal(plan);
            }
            Event::Open(plan) => {
                let round = plan.round;
                self.gateway.open.push_back((plan, None));
                RoundEvent::Open(round)
            }
            Event::State { round, .. } => return self.shared.saw(self.number, round),
            Event::Looped { took, .. } => RoundEvent::Looped(took),
            // The sender already knows of the batch, and pings of links are for users of real
            // nodes.
            Event::Entered { .. } | Event::RoundTrip { .. } => return,
            // The scheduler counts it.
            Event::Paused { .. } => return,
            Event::Refused { .. } => RoundEvent::Refused,
            Event::Delivered { round, outcomes } => {
                self.ended(round, cx);
                RoundEvent::Delivered(round, Checked::of(round, &outcomes))
            }
            Event::Failed { round, failure } => {
                self.ended(round, cx);
                RoundEvent::Failed(round, failure)
            }
            Event::Mark { round, phase, mark } => RoundEvent::Mark(round, phase, mark),
            Event::Drawn { .. } => RoundEvent::Drawn,
            Event::Made { team, plan } => RoundEvent::Made(team, plan),
            Event::Round { round, state } => {
                self.shared.saw(self.number, round);
                RoundEvent::Round(round, state)
            }
        };
        cx.emit(observed);
    }

    fn start(&mut self, cx: &mut Cx<'_>) {
        if cx.now() > Time::ZERO {
            cx.emit(RoundEvent::Restarted);
            if self.shared.is_real {
                // The state of earlier processes is lost: the clock gives this one a secret of its own, and
                // numbers for the rounds of a scheduler, as `samara node` does.
                let millis = cx.now().as_nanos() / 1_000_000;
                let first_round = if self.mix.scheduler().is_some() { millis } else { 0 };
                self.mix = self.shared.mix(self.number, millis, first_round);
            }
        }
        self.forward(Input::Start, cx);
        if self.mix.node().is_some() {
            let (sender, secret) = (SENDER, secret_with(self.number));
            self.forward(Input::Command(Command::Register { sender, secret }), cx);
        }
    }

    fn worked(&mut self, worked: Worked, cx: &mut Cx<'_>) {
        let Worked { core, phase, done, took } = worked;
        self.threads.free(core);
        let (host, round, to) = (self.number, done.round(), cx.now().as_nanos());
        let from = to.saturating_sub(took.as_nanos() as u64);
        cx.emit(RoundEvent::Work(WorkSpan { host, core, round, phase, from, to }));
        self.forward(Input::Command(Command::Computed(done)), cx);
    }

    fn ended(&mut self, round: u64, cx: &mut Cx<'_>) {
        if self.gateway.ended(round, cx.now()) {
            cx.set_timer(self.gateway.resumes, PAUSED);
        }
    }

    /// Gives a frame to the engine, once the node has read it.
    fn on_frame(&mut self, peer: PeerId, frame: MixFrame, cx: &mut Cx<'_>) {
        let time = if self.shared.is_real {
            Duration::ZERO
        } else {
            self.shared.costs.receive(&frame, self.shared.config.group)
        };
        match time {
            Duration::ZERO => self.forward(Input::Frame { peer, frame }, cx),
            time => cx.set_timer(self.reader.take(peer, frame, time, cx.now()), READ),
        }
    }

    fn hand_in(&mut self, cx: &mut Cx<'_>) {
        while self.has_begun
            && let Some((round, batch)) = self.gateway.next(cx.now())
        {
            cx.emit(RoundEvent::Entered(round));
            self.forward(Input::Command(Command::Mix { round, batch }), cx);
        }
    }
}

fn secret(seed: u64, host: u32, life: u64) -> Secret {
    let mut rng = NodeRng::new(seed, u64::from(host) << 32 | life, Purpose::Workload);
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()));
    Secret::new(bytes)
}

impl App for Host {
    type Counters = Metrics;

    fn counters(&self) -> Metrics {
        self.mix.metrics().clone()
    }

    fn take_work(&mut self) -> Vec<Work<Act>> {
        self.threads.take_work()
    }
}

impl WithMix for Host {
    fn mix(&self) -> &Mix {
        &self.mix
    }
}

impl Engine for Host {
    type Frame = MixFrame;
    type Command = Act;
    type Event = RoundEvent;

    fn handle(&mut self, input: Input<MixFrame, Act>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => self.start(cx),
            Input::Command(Act::Worked(worked)) => self.worked(worked, cx),
            Input::Command(Act::Sealed(plan, batch)) => {
                let round = plan.round;
                if self.gateway.sealed(plan, batch) {
                    cx.emit(RoundEvent::Open(round));
                }
            }
            Input::Command(Act::Begin) => self.has_begun = true,
            Input::Command(Act::Submit(round)) => self.gateway.submitted.push_back(round),
            Input::Timer(DONE) => {
                while let Some(done) = self.cpu.due(cx.now()) {
                    self.forward(Input::Command(Command::Computed(done)), cx);
                }
            }
            Input::Timer(PAUSED) => {}
            Input::Timer(READ) => {
                while let Some((peer, frame)) = self.reader.due(cx.now()) {
                    self.forward(Input::Frame { peer, frame }, cx);
                }
            }
            Input::Timer(token) => self.forward(Input::Timer(token), cx),
            Input::LinkUp { peer, info } => self.forward(Input::LinkUp { peer, info }, cx),
            Input::LinkDown { peer } => {
                self.reader.forget(peer);
                self.forward(Input::LinkDown { peer }, cx);
            }
            Input::DialFailed { identity } => self.forward(Input::DialFailed { identity }, cx),
            Input::Frame { peer, frame } => self.on_frame(peer, frame, cx),
        }
        self.hand_in(cx);
    }

    fn assert_invariants(&self, outbox: &Outbox<MixFrame>) {
        self.mix.assert_invariants(outbox);
    }
}

samara_engine::names! {
    /// Kinds of work that take different times on a core.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum WorkKind {
        /// Drawing the secrets of a round.
        Generate = "generate",
        /// Computing one part of the team's key.
        Share = "share",
        /// Decryption in the precomputation.
        PrecomputeDecrypt = "precompute_decrypt",
        /// Permutation in the precomputation.
        PrecomputePermute = "precompute_permute",
        /// Removing the share of the key.
        Reveal = "reveal",
        /// Decryption in real time.
        Decrypt = "decrypt",
        /// Permutation in real time.
        Permute = "permute",
        /// Permutation in real time at the last node, which also identifies the payloads.
        PermuteLast = "permute_last",
        /// Reading a slot that has arrived from another node, before its phase: one message after
        /// another, beside the cores. A unary message is read once it is complete.
        Receive = "receive",
    }
}

impl WorkKind {
    pub fn of(job: &Job) -> Self {
        match job.phase() {
            None if job.is_share() => Self::Share,
            None => Self::Generate,
            Some(Phase::PrecomputeDecrypt) => Self::PrecomputeDecrypt,
            Some(Phase::PrecomputePermute) => Self::PrecomputePermute,
            Some(Phase::Reveal) => Self::Reveal,
            Some(Phase::Decrypt) => Self::Decrypt,
            Some(Phase::Permute | Phase::Result) if job.is_last() => Self::PermuteLast,
            Some(Phase::Permute | Phase::Result) => Self::Permute,
        }
    }

    /// The time on one core of an AMD EPYC, from `cargo bench -p samara-mix`
    /// (`docs/protocols/mix.md`). The time of permutation is split by the number of products, 2 per
    /// slot and 6 at the last node. The time of drawing secrets comes from `mix.costs =
    /// "measured"`.
    pub fn documented(self, group: Group) -> Duration {
        // In the 4096-bit group a product with twice as many words takes four times as long. Long
        // exponents are twice as long, and short ones have 320 bits instead of 256.
        let (nanos, factor) = match self {
            Self::Generate => (140_000, 4.0),
            Self::Share => (4_700_000, 4.0 * 2.0),
            Self::PrecomputeDecrypt | Self::PrecomputePermute => (530_000, 4.0 * 320.0 / 256.0),
            Self::Reveal => (1_270_000, 4.0 * 320.0 / 256.0),
            Self::Decrypt => (8_900, 4.0),
            Self::Permute => (4_000, 4.0),
            Self::PermuteLast => (11_800, 4.0),
            // Links carry slots as they are; real nodes need below 1 us.
            Self::Receive => (0, 1.0),
        };
        Duration::from_nanos(nanos).mul_f64(if group == Group::Modp4096 { factor } else { 1.0 })
    }
}

/// Times that each kind of work takes on one core: per slot, or per round for keys and secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs([Duration; WorkKind::ALL.len()]);

impl Costs {
    /// Returns the costs by kind of work.
    pub fn new(time: impl Fn(WorkKind) -> Duration) -> Self {
        Self(WorkKind::ALL.map(time))
    }

    pub const fn time(&self, kind: WorkKind) -> Duration {
        self.0[kind as usize]
    }

    fn job(&self, job: &Job) -> Duration {
        let time = self.time(WorkKind::of(job));
        if job.phase().is_some() { time * job.slots() } else { time }
    }

    /// Returns the time to read a frame that arrived.
    fn receive(&self, frame: &MixFrame, group: Group) -> Duration {
        let MixFrame::Slots(piece) = frame else { return Duration::ZERO };
        let of_slot = group.element_bytes() * piece.phase.elements();
        self.time(WorkKind::Receive) * (piece.elements.len() / of_slot) as u32
    }

    /// Returns the name of each kind of work and its time in microseconds.
    pub fn named_us(&self) -> impl Iterator<Item = (&'static str, f64)> {
        WorkKind::ALL.into_iter().map(|kind| (kind.name(), self.time(kind).as_nanos() as f64 / 1e3))
    }
}

/// The cores of a node.
///
/// The engine never requests more concurrent jobs than there are cores, so each begins at once.
#[derive(Debug)]
struct Cpu {
    /// For each core, the time until which it is busy.
    cores: Vec<Time>,
    /// Answers by the time at which they are due, and in the order of the requests.
    out: BTreeMap<(Time, u64), Done>,
    serial: u64,
}

impl Cpu {
    fn new(cores: usize) -> Self {
        Self { cores: vec![Time::ZERO; cores], out: BTreeMap::new(), serial: 0 }
    }

    /// Runs a job on the core that is free first. Returns the span of its work.
    fn take(&mut self, job: Job, host: u32, shared: &Shared, now: Time) -> WorkSpan {
        let cores = self.cores.iter_mut().enumerate();
        let Some((core, free)) = cores.min_by_key(|(_, free)| **free) else {
            unreachable!("a node has a core")
        };
        let (round, phase, from) = (job.round(), job.phase(), now.max(*free));
        let to = from + shared.costs.job(&job);
        *free = to;
        self.serial += 1;
        self.out.insert((to, self.serial), shared.run(job));
        WorkSpan { host, core: core as u16, round, phase, from: from.as_nanos(), to: to.as_nanos() }
    }

    /// Returns the next answer that is due.
    fn due(&mut self, now: Time) -> Option<Done> {
        let first = self.out.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

/// The threads of a real host. The engine never requests more concurrent jobs than there are.
#[derive(Debug)]
struct Threads {
    /// For each thread, whether it has a job.
    busy: Vec<bool>,
    /// Jobs that no thread has yet, with the number of theirs.
    jobs: Vec<(u16, Job)>,
    /// Rounds whose batches no thread has sealed yet.
    to_seal: Vec<Arc<Plan>>,
    group: Group,
    sender: Arc<Sender>,
}

impl Threads {
    fn new(config: &Config) -> Self {
        let busy = vec![false; config.jobs_max];
        let (group, sender) = (config.group, sender(config));
        Self { busy, jobs: Vec::new(), to_seal: Vec::new(), group, sender }
    }

    fn seal(&mut self, plan: Arc<Plan>) {
        self.to_seal.push(plan);
    }

    fn take(&mut self, job: Job) {
        let Some(free) = self.busy.iter().position(|is_busy| !is_busy) else {
            unreachable!("a job for each thread at most")
        };
        self.busy[free] = true;
        self.jobs.push((free as u16, job));
    }

    fn take_work(&mut self) -> Vec<Work<Act>> {
        let work = |(core, job): (u16, Job)| -> Work<Act> {
            Box::new(move || {
                let phase = job.phase();
                let (done, took) = job.run_timed();
                Act::Worked(Worked { core, phase, done, took })
            })
        };
        let (group, sender) = (self.group, Arc::clone(&self.sender));
        let seal = |plan: Arc<Plan>| -> Work<Act> {
            let sender = Arc::clone(&sender);
            Box::new(move || {
                let batch = batch(&sender, group, &plan);
                Act::Sealed(plan, batch)
            })
        };
        self.jobs.drain(..).map(work).chain(self.to_seal.drain(..).map(seal)).collect()
    }

    fn free(&mut self, thread: u16) {
        self.busy[usize::from(thread)] = false;
    }
}

/// Frames of slots that the node reads, one after another.
#[derive(Debug, Default)]
struct Reader {
    free: Time,
    /// Frames with the time at which they are read, in order.
    frames: VecDeque<(Time, PeerId, MixFrame)>,
}

impl Reader {
    /// Takes a frame. Returns the time at which it is read.
    fn take(&mut self, peer: PeerId, frame: MixFrame, time: Duration, now: Time) -> Time {
        self.free = self.free.max(now) + time;
        self.frames.push_back((self.free, peer, frame));
        self.free
    }

    /// Returns the next frame that is read.
    fn due(&mut self, now: Time) -> Option<(PeerId, MixFrame)> {
        let (at, ..) = self.frames.front()?;
        let (_, peer, frame) = if *at <= now { self.frames.pop_front()? } else { return None };
        Some((peer, frame))
    }

    /// Drops the frames of a link that is down, which the other side sends again.
    fn forget(&mut self, peer: PeerId) {
        self.frames.retain(|(_, from, _)| *from != peer);
    }
}

const SENDER: SenderId = SenderId([9; 32]);
/// Bytes of the round number at the beginning of each payload; the slot follows.
const ROUND_BYTES: usize = 8;
const SLOT_BYTES: usize = 4;

/// Returns the secret that the sender shares with a node.
fn secret_with(node: u32) -> Secret {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&node.to_be_bytes());
    Secret::new(bytes)
}

/// Senders next to the first node of a team. They always have payloads, or have a batch when the
/// run says so.
#[derive(Debug)]
struct Gateway {
    sender: Arc<Sender>,
    group: Group,
    /// Maximum number of batches in real time at once.
    running_max: usize,
    /// Rounds that are ready to take a batch, in order, with their batches if they are sealed.
    open: VecDeque<(Arc<Plan>, Option<Batch>)>,
    /// Rounds whose batches a thread seals.
    sealing: Vec<u64>,
    running: Vec<u64>,
    /// Rounds for which a batch is complete, in order.
    submitted: VecDeque<u64>,
    is_paced: bool,
    pause: Duration,
    resumes: Time,
}

impl Gateway {
    fn new(config: &Config, shared: &Shared) -> Self {
        Self {
            sender: sender(config),
            group: config.group,
            running_max: config.realtime_max,
            open: VecDeque::new(),
            sealing: Vec::new(),
            running: Vec::new(),
            submitted: VecDeque::new(),
            is_paced: shared.is_paced,
            pause: shared.pause,
            resumes: Time::ZERO,
        }
    }

    /// Forgets a round that is over. Returns true if this starts a pause.
    fn ended(&mut self, round: u64, now: Time) -> bool {
        self.open.retain(|(plan, _)| plan.round != round);
        self.sealing.retain(|sealing| *sealing != round);
        let Some(place) = self.running.iter().position(|running| *running == round) else { return false };
        self.running.remove(place);
        self.resumes = now + self.pause;
        !self.pause.is_zero()
    }

    /// Takes a sealed batch. Returns false if its round is over.
    fn sealed(&mut self, plan: Arc<Plan>, batch: Batch) -> bool {
        let Some(place) = self.sealing.iter().position(|round| *round == plan.round) else { return false };
        self.sealing.remove(place);
        self.open.push_back((plan, Some(batch)));
        true
    }

    /// Returns the next batch, unless the maximum is in real time or a pause is running.
    fn next(&mut self, now: Time) -> Option<(u64, Batch)> {
        if self.running.len() >= self.running_max || now < self.resumes {
            return None;
        }
        let (plan, sealed) = if self.is_paced { self.next_submitted()? } else { self.open.pop_front()? };
        self.running.push(plan.round);
        let batch = sealed.unwrap_or_else(|| batch(&self.sender, self.group, &plan));
        Some((plan.round, batch))
    }

    /// Returns the next round with a complete batch. Rounds that have ended meanwhile take none.
    fn next_submitted(&mut self) -> Option<(Arc<Plan>, Option<Batch>)> {
        loop {
            let round = self.submitted.pop_front()?;
            if let Some(place) = self.open.iter().position(|(plan, _)| plan.round == round) {
                return self.open.remove(place);
            }
        }
    }
}

/// Returns the sender, which shares a secret with each node.
fn sender(config: &Config) -> Arc<Sender> {
    let mut sender = Sender::new(config.group, SENDER);
    (0..config.pool.len() as u32).for_each(|node| sender.register(node, secret_with(node)));
    sender.into()
}

/// Seals a batch for a round.
fn batch(sender: &Sender, group: Group, plan: &Plan) -> Batch {
    let seal = |slot: u32| {
        let mut content = vec![0; group.content_bytes()];
        content[..ROUND_BYTES].copy_from_slice(&plan.round.to_be_bytes());
        content[ROUND_BYTES..][..SLOT_BYTES].copy_from_slice(&slot.to_be_bytes());
        // Real salts are random and reveal nothing about a sender; here they only have to
        // differ.
        let mut salt = [0; 32];
        salt[..ROUND_BYTES + SLOT_BYTES].copy_from_slice(&content[..ROUND_BYTES + SLOT_BYTES]);
        let sealed = sender.seal(plan.round, &plan.team, salt, &content);
        sealed.unwrap_or_else(|error| unreachable!("the sender knows all nodes: {error}"))
    };
    let sealed: Vec<_> = (0..plan.batch).map(seal).collect();
    let batch = Batch::new(&sealed);
    batch.unwrap_or_else(|error| unreachable!("payloads of one round belong together: {error}"))
}

/// The delivered payloads of a round, compared with those handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Payloads that were lost, duplicated or changed.
    pub wrong: u32,
    /// A hash of the order, equal at all nodes that deliver the same order.
    pub order: u64,
    /// Whether the payloads are in the order in which they were handed in.
    pub is_unmixed: bool,
}

impl Checked {
    fn of(round: u64, outcomes: &[Outcome]) -> Self {
        let mut seen = vec![false; outcomes.len()];
        // FNV-1a over the original places of the payloads.
        let mut order = 0xcbf2_9ce4_8422_2325_u64;
        let mut is_unmixed = true;
        for (place, outcome) in outcomes.iter().enumerate() {
            let Some(slot) = slot_of(round, outcome).filter(|slot| *slot < seen.len()) else { continue };
            seen[slot] = true;
            is_unmixed &= slot == place;
            order = (order ^ slot as u64).wrapping_mul(0x0100_0000_01b3);
        }
        Self { wrong: seen.iter().filter(|seen| !**seen).count() as u32, order, is_unmixed }
    }
}

/// Returns the original place of a payload, if it belongs to the round.
fn slot_of(round: u64, outcome: &Outcome) -> Option<usize> {
    let Outcome::Content(content) = outcome else { return None };
    let (number, rest) = content.split_first_chunk::<ROUND_BYTES>()?;
    let (slot, rest) = rest.split_first_chunk::<SLOT_BYTES>()?;
    let is_whole = u64::from_be_bytes(*number) == round && rest.iter().all(|byte| *byte == 0);
    is_whole.then(|| u32::from_be_bytes(*slot) as usize)
}

/// Returns the worlds of hosts.
pub fn worlds() -> Worlds<Host> {
    Worlds::grpc()
}

#[cfg(test)]
mod tests;
