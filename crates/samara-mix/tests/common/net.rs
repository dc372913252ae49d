//! Hosts, links, and time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use samara_engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo,
    Purpose, Time, TimerToken,
};
use samara_mix::{
    Batch, Command, Config, Done, Event, Half, Mix, MixFrame, Node, Plan, Scheduler, Secret, Sender, SenderId,
};

use super::record::Record;
use super::{host_of, identity};

/// How others notice that a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The kernel closes its connections.
    Closes,
    /// Nothing comes any more.
    Silent,
}

struct Host {
    engine: Mix,
    outbox: Outbox<MixFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    is_alive: bool,
    up: BTreeSet<u32>,
    /// Counts the lives of the host, so that timers and jobs of earlier ones do not come.
    life: u32,
    busy_until: Time,
    /// By core.
    cores: Vec<Time>,
}

enum What {
    Timer(TimerToken, u32),
    Done(Done, u32),
    Frame { from: u32, frame: MixFrame, link: u64 },
    Dial(u32),
    DialFailed(PeerIdentity, u32),
    Free,
    Mix(u64, Batch, u32),
}

struct Entry {
    at: Time,
    serial: u64,
    host: u32,
    what: What,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// A pool, its scheduler (the last host), and senders that fill every batch.
pub struct Net {
    pub now: Time,
    pub record: Record,
    pub config: Config,
    pub rng: NodeRng,
    pub latency: Duration,
    /// One way, from one host to another, where it is not `latency`.
    pub latencies: BTreeMap<(u32, u32), Duration>,
    /// Bytes/s of each uplink; 0 for no limit.
    pub rate: u64,
    /// What a slot costs to be worked on.
    pub slot_cost: Duration,
    /// How long senders take for a batch.
    pub pause: Duration,
    /// Precomputation costs nothing.
    pub is_precomputation_free: bool,
    /// Pairs that cannot reach each other.
    pub cut: BTreeSet<(u32, u32)>,
    /// No batches are handed in.
    pub is_idle: bool,
    /// What is changed in a batch on its way in.
    pub tamper: Option<fn(&Plan, &mut Vec<samara_mix::Sealed>)>,
    /// Looks at every frame on its way from one host to another, and can change it.
    pub meddle: Option<fn(u32, u32, MixFrame) -> MixFrame>,
    pub sender: Sender,
    hosts: Vec<Host>,
    heap: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    links: BTreeMap<(u32, u32), u64>,
    pub frames: u64,
}

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

/// The secret that the sender shares with a node.
fn shared(node: u32) -> Secret {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&node.to_be_bytes());
    Secret::new(bytes)
}

pub const SENDER: SenderId = SenderId([9; 32]);

impl Net {
    pub fn new(seed: u64, config: Config) -> Self {
        let pool = config.pool.len() as u32;
        let mut sender = Sender::new(config.group, SENDER);
        (0..pool).for_each(|node| sender.register(node, shared(node)));
        let mut net = Self {
            now: Time::ZERO,
            record: Record::default(),
            rng: NodeRng::new(seed, 0, Purpose::Network),
            latency: Duration::from_millis(5),
            latencies: BTreeMap::new(),
            rate: 0,
            slot_cost: Duration::from_micros(20),
            pause: Duration::from_millis(5),
            is_precomputation_free: false,
            cut: BTreeSet::new(),
            is_idle: false,
            tamper: None,
            meddle: None,
            sender,
            hosts: Vec::new(),
            heap: BinaryHeap::new(),
            serial: 0,
            links: BTreeMap::new(),
            frames: 0,
            config,
        };
        for host in 0..=pool {
            let made = net.make(host, 0);
            net.hosts.push(made);
        }
        (0..=pool).for_each(|host| net.begin(host));
        net
    }

    fn make(&mut self, host: u32, life: u32) -> Host {
        let mut config = self.config.clone();
        // Whoever restarts remembers the highest round.
        config.first_round = self.record.rounds.keys().last().map_or(config.first_round, |last| last + 1);
        let seed = self.rng.next_u64();
        let engine = if host as usize == config.pool.len() {
            Scheduler::new(config.clone()).unwrap().into()
        } else {
            let mut secret = [0; 32];
            secret.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.rng.next_u64().to_le_bytes()));
            Node::new(config.clone(), host, Secret::new(secret)).unwrap().into()
        };
        Host {
            engine,
            outbox: Outbox::new(config.outbox()),
            rng: NodeRng::new(seed, host.into(), Purpose::Engine),
            effects: Effects::default(),
            is_alive: true,
            up: BTreeSet::new(),
            life,
            busy_until: Time::ZERO,
            cores: vec![Time::ZERO; config.jobs_max],
        }
    }

    fn begin(&mut self, host: u32) {
        self.handle(host, Input::Start);
        if (host as usize) < self.config.pool.len() {
            self.command(host, Command::Register { sender: SENDER, secret: shared(host) });
        }
    }

    pub fn scheduler(&self) -> u32 {
        self.config.pool.len() as u32
    }

    pub fn engine(&self, host: u32) -> &Mix {
        &self.hosts[host as usize].engine
    }

    pub fn node(&self, host: u32) -> &Node {
        self.engine(host).node().unwrap()
    }

    pub fn outbox(&self, host: u32) -> &Outbox<MixFrame> {
        &self.hosts[host as usize].outbox
    }

    pub fn crash(&mut self, host: u32, how: Crash) {
        self.hosts[host as usize].is_alive = false;
        for other in self.hosts[host as usize].up.clone() {
            match how {
                Crash::Closes => self.disconnect(host, other),
                Crash::Silent => {
                    self.hosts[host as usize].up.remove(&other);
                }
            }
        }
    }

    /// The host comes back, having forgotten everything.
    pub fn restart(&mut self, host: u32) {
        for other in 0..self.hosts.len() as u32 {
            self.disconnect(host, other);
        }
        self.record.restarted.insert(host);
        let life = self.hosts[host as usize].life + 1;
        self.hosts[host as usize] = self.make(host, life);
        self.begin(host);
    }

    /// The link breaks, and can be made anew.
    pub fn reset_link(&mut self, a: u32, b: u32) {
        self.disconnect(a, b);
    }

    /// The link breaks, and cannot be made anew until it is healed.
    pub fn cut(&mut self, a: u32, b: u32) {
        self.cut.insert(pair(a, b));
        self.disconnect(a, b);
    }

    fn can_reach(&self, a: u32, b: u32) -> bool {
        let alive = |host: u32| self.hosts[host as usize].is_alive;
        !self.cut.contains(&pair(a, b)) && alive(a) && alive(b)
    }

    fn connect(&mut self, a: u32, b: u32) {
        if self.hosts[a as usize].up.contains(&b) && self.hosts[b as usize].up.contains(&a) {
            return;
        }
        self.disconnect(a, b);
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            state.up.insert(other);
            state.outbox.link_up(PeerId(other));
            let info = PeerInfo {
                identity: identity(other),
                outbound: host == a,
                address: None,
                protocol: "mix/1".into(),
            };
            self.handle(host, Input::LinkUp { peer: PeerId(other), info });
        }
    }

    fn disconnect(&mut self, a: u32, b: u32) {
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            if state.up.remove(&other) {
                state.outbox.link_down(PeerId(other));
                if state.is_alive {
                    self.handle(host, Input::LinkDown { peer: PeerId(other) });
                }
            }
        }
    }

    pub fn command(&mut self, host: u32, command: Command) {
        self.handle(host, Input::Command(command));
    }

    pub fn frame(&mut self, host: u32, from: u32, frame: MixFrame) {
        self.handle(host, Input::Frame { peer: PeerId(from), frame });
    }

    /// A batch for a round: contents are random, and remembered.
    pub fn batch(&mut self, plan: &Plan) -> Vec<samara_mix::Sealed> {
        let len = self.config.group.content_bytes();
        let mut sealed = Vec::new();
        let mut contents = Vec::new();
        for _ in 0..plan.batch {
            let content: Vec<u8> = (0..len).map(|_| self.rng.next_u64() as u8).collect();
            let mut salt = [0; 32];
            salt.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.rng.next_u64().to_le_bytes()));
            sealed.push(self.sender.seal(plan.round, &plan.team, salt, &content).unwrap());
            contents.push(content);
        }
        self.record.sent.insert(plan.round, contents);
        sealed
    }

    fn schedule(&mut self, at: Time, host: u32, what: What) {
        self.serial += 1;
        self.heap.push(Reverse(Entry { at: at.max(self.now), serial: self.serial, host, what }));
    }

    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.heap.peek().is_some_and(|entry| entry.0.at <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Until something holds.
    pub fn run_until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) {
        let until = self.now + limit;
        while !holds(self) {
            assert!(self.now < until, "it does not come to that");
            self.step();
        }
    }

    fn step(&mut self) {
        let Reverse(Entry { at, host, what, .. }) = self.heap.pop().unwrap();
        self.now = at;
        let life = self.hosts[host as usize].life;
        match what {
            What::Timer(token, of) if of == life => self.handle(host, Input::Timer(token)),
            What::Done(done, of) if of == life => self.command(host, Command::Computed(done)),
            What::Mix(round, batch, of) if of == life => self.command(host, Command::Mix { round, batch }),
            What::DialFailed(identity, of) if of == life => self.handle(host, Input::DialFailed { identity }),
            What::Timer(..) | What::Done(..) | What::Mix(..) | What::DialFailed(..) => {}
            What::Free => self.transmit(host),
            What::Dial(other) if self.can_reach(host, other) => self.connect(host, other),
            What::Dial(other) => {
                let life = self.hosts[host as usize].life;
                let failed = What::DialFailed(identity(other), life);
                self.schedule(self.now + Duration::from_millis(1), host, failed);
            }
            What::Frame { from, frame, link } => {
                if self.links[&pair(from, host)] == link && self.hosts[host as usize].up.contains(&from) {
                    let frame = self.meddle.map_or(frame.clone(), |meddle| meddle(from, host, frame));
                    self.frame(host, from, frame);
                }
            }
        }
    }

    fn handle(&mut self, host: u32, input: Input<MixFrame, Command>) {
        let state = &mut self.hosts[host as usize];
        if !state.is_alive {
            return;
        }
        let mut cx = Context::new(self.now, &mut state.rng, &mut state.outbox, &mut state.effects);
        state.engine.handle(input, &mut cx);
        let life = state.life;
        let effects = std::mem::take(&mut self.hosts[host as usize].effects);
        for timer in effects.timers {
            self.schedule(timer.at, host, What::Timer(timer.token, life));
        }
        for link in effects.links {
            match link {
                LinkRequest::Dial(identity) => {
                    let other = host_of(&identity);
                    self.schedule(self.now + self.latency * 2, host, What::Dial(other));
                }
                LinkRequest::Close(peer) => self.disconnect(host, peer.0),
            }
        }
        for event in effects.events {
            self.take(host, life, event);
        }
        self.transmit(host);
    }

    fn take(&mut self, host: u32, life: u32, event: Event) {
        match event {
            Event::Compute(job) => {
                let is_free = self.is_precomputation_free && job.half() == Half::Precomputation;
                let cost = if is_free { Duration::ZERO } else { self.slot_cost * job.slots().max(1) };
                let state = &mut self.hosts[host as usize];
                let core = state.cores.iter_mut().min().unwrap();
                *core = (*core).max(self.now) + cost;
                let at = *core;
                self.schedule(at, host, What::Done(job.run(), life));
            }
            Event::Open(plan) => {
                if !self.is_idle {
                    let mut sealed = self.batch(&plan);
                    if let Some(tamper) = self.tamper {
                        tamper(&plan, &mut sealed);
                    }
                    let batch = Batch::new(&sealed).unwrap();
                    self.schedule(self.now + self.pause, host, What::Mix(plan.round, batch, life));
                }
                self.record.take(self.now, host, Event::Open(plan));
            }
            event => self.record.take(self.now, host, event),
        }
    }

    /// One frame after another leaves by the uplink.
    fn transmit(&mut self, host: u32) {
        loop {
            let now = self.now;
            let state = &mut self.hosts[host as usize];
            if !state.is_alive || state.busy_until > now {
                return;
            }
            state.outbox.wake(now);
            let Some(copy) = state.outbox.pop(now, |_| true) else { return };
            self.frames += 1;
            let nanos = (copy.frame.encoded_len() as u64 * 1_000_000_000).checked_div(self.rate);
            let left = now.plus_nanos(nanos.unwrap_or(0));
            state.busy_until = left;
            let (to, frame) = (copy.peer.0, copy.frame);
            let link = self.links[&pair(host, to)];
            let latency = self.latencies.get(&(host, to)).copied().unwrap_or(self.latency);
            self.schedule(left + latency, to, What::Frame { from: host, frame, link });
            if self.rate > 0 {
                self.schedule(left, host, What::Free);
            }
        }
    }
}
