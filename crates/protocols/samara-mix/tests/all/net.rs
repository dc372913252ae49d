//! A pool of engines in virtual time, with an application that fills every batch.

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use samara_engine::testing::Crash;
use samara_engine::testing::{Network, Path, World};
use samara_engine::{NodeRng, Outbox, Purpose, Time};
use samara_mix::{
    Batch, Command, Config, Done, Event, Half, Job, Mix, MixFrame, Node, Plan, Scheduler, Sealed, Secret,
    Sender, SenderId,
};

use crate::record::Record;

/// The hosts, of which the last one is the scheduler, and a sender that fills every batch.
pub(crate) struct Pool {
    pub(crate) record: Record,
    pub(crate) config: Config,
    pub(crate) latency: Duration,
    /// One-way latencies from one host to another, where they differ from `latency`.
    pub(crate) latencies: BTreeMap<(u32, u32), Duration>,
    /// Bytes per second of each uplink; 0 for no limit.
    pub(crate) rate: u64,
    /// Time that a core takes for a slot.
    pub(crate) slot_cost: Duration,
    /// Time that senders take for a batch.
    pub(crate) pause: Duration,
    pub(crate) is_precomputation_free: bool,
    /// True if senders submit no batches.
    pub(crate) is_idle: bool,
    /// Selects jobs whose work panics, by host.
    pub(crate) panics: Option<fn(u32, &Job) -> bool>,
    /// Changes a batch before it is submitted.
    pub(crate) tamper: Option<fn(&Plan, &mut Vec<Sealed>)>,
    /// Sees every frame from one host to another, and can change it.
    pub(crate) meddle: Option<fn(u32, u32, MixFrame) -> MixFrame>,
    pub(crate) sender: Sender,
    /// The time when a core becomes free, by host and core.
    cores: Vec<Vec<Time>>,
    rng: NodeRng,
}

const SENDER: SenderId = SenderId([9; 32]);

/// Returns the secret that the sender shares with a node.
fn shared(node: u32) -> Secret {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&node.to_be_bytes());
    Secret::new(bytes)
}

impl Pool {
    pub(crate) fn scheduler(&self) -> u32 {
        self.config.pool.len() as u32
    }

    fn random_bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.rng.next_u64().to_le_bytes()));
        bytes
    }

    /// Creates the engine of a host, which remembers only the highest round.
    fn make(&mut self, host: u32) -> (Mix, Outbox<MixFrame>) {
        let mut config = self.config.clone();
        config.first_round = self.record.rounds.keys().last().map_or(config.first_round, |last| last + 1);
        let outbox = Outbox::new(config.outbox());
        let engine = if host == self.scheduler() {
            Scheduler::new(config).unwrap().into()
        } else {
            Node::new(config, host, Secret::new(self.random_bytes())).unwrap().into()
        };
        (engine, outbox)
    }

    /// Creates a batch for a round with random contents, and records them.
    pub(crate) fn batch(&mut self, plan: &Plan) -> Vec<Sealed> {
        let len = self.config.group.content_bytes();
        let mut sealed = Vec::new();
        let mut contents = Vec::new();
        for _ in 0..plan.batch {
            let content: Vec<u8> = (0..len).map(|_| self.rng.next_u64() as u8).collect();
            let salt = self.random_bytes();
            sealed.push(self.sender.seal(plan.round, &plan.team, salt, &content).unwrap());
            contents.push(content);
        }
        self.record.sent.insert(plan.round, contents);
        sealed
    }
}

impl World<Mix> for Pool {
    fn path(&self, from: u32, to: u32) -> Path {
        let latency = self.latencies.get(&(from, to)).copied().unwrap_or(self.latency);
        Path { latency, bps: 8 * self.rate, pipe: (from, from), ..Path::default() }
    }

    fn event(&mut self, now: Time, host: u32, event: Event) -> Option<(Time, Command)> {
        match event {
            Event::Compute(job) => {
                let is_free = self.is_precomputation_free && job.half() == Half::Precomputation;
                let cost = if is_free { Duration::ZERO } else { self.slot_cost * job.slots().max(1) };
                let core = self.cores[host as usize].iter_mut().min().unwrap();
                *core = (*core).max(now) + cost;
                let is_lost = self.panics.is_some_and(|panics| panics(host, &job));
                let done = if is_lost { Done::panicked(job.round()) } else { job.run() };
                Some((*core, Command::Computed(done)))
            }
            Event::Open(plan) if !self.is_idle => {
                let mut sealed = self.batch(&plan);
                if let Some(tamper) = self.tamper {
                    tamper(&plan, &mut sealed);
                }
                let mix = Command::Mix { round: plan.round, batch: Batch::new(&sealed).unwrap() };
                self.record.take(now, host, Event::Open(plan));
                Some((now + self.pause, mix))
            }
            event => {
                self.record.take(now, host, event);
                None
            }
        }
    }

    fn frame(&mut self, from: u32, to: u32, _: &Mix, frame: MixFrame) -> Option<MixFrame> {
        Some(match self.meddle {
            Some(meddle) => meddle(from, to, frame),
            None => frame,
        })
    }
}

pub(crate) struct Net(Network<Mix, Pool>);

samara_engine::deref_to!(Net => 0: Network<Mix, Pool>);

impl Net {
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        let hosts = config.pool.len() as u32 + 1;
        let mut sender = Sender::new(config.group, SENDER);
        (0..hosts - 1).for_each(|node| sender.register(node, shared(node)));
        let pool = Pool {
            record: Record::default(),
            latency: Duration::from_millis(5),
            latencies: BTreeMap::new(),
            rate: 0,
            slot_cost: Duration::from_micros(20),
            pause: Duration::from_millis(5),
            is_precomputation_free: false,
            is_idle: false,
            panics: None,
            tamper: None,
            meddle: None,
            sender,
            cores: vec![vec![Time::ZERO; config.jobs_max]; hosts as usize],
            rng: NodeRng::new(seed, 0, Purpose::Workload),
            config,
        };
        let mut net = Self(Network::new(seed, pool));
        for host in 0..hosts {
            let (engine, outbox) = net.make(host);
            net.add(engine, outbox);
            net.register(host);
        }
        net
    }

    /// Registers the sender at a node.
    fn register(&mut self, host: u32) {
        if host < self.scheduler() {
            self.command(host, Command::Register { sender: SENDER, secret: shared(host) });
        }
    }

    pub(crate) fn node(&self, host: u32) -> &Node {
        self.engine(host).node().unwrap()
    }

    /// Restarts a host without any state.
    pub(crate) fn restart(&mut self, host: u32) {
        self.record.restarted.insert(host);
        self.cores[host as usize].fill(Time::ZERO);
        let (engine, outbox) = self.make(host);
        self.0.restart(host, engine, outbox);
        self.register(host);
    }
}
