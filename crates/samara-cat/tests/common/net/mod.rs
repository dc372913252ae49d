//! A network of engines in virtual time: links with latency, nothing else, unless a test makes them slow.

mod attackers;
mod outcome;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use samara_cat::wire::{KeyList, Kind, SeenKeys, SeenTx};
use samara_cat::{Cat, CatFrame, Command, Config, Event, Metrics, Protocol, Transaction, TxKey};
use samara_engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time,
    TimerToken,
};

use super::{App, identity, invalid, tx};

/// How long frames take.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    pub min: Duration,
    pub max: Duration,
    /// A flush throttle: frames leave so long after the first of them was written. Zero for none.
    pub flush: Duration,
    /// Bits per second of each link; 0 for no limit.
    pub bps: u64,
}

impl Delay {
    pub const fn millis(min: u64, max: u64) -> Self {
        Self {
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
            flush: Duration::ZERO,
            bps: 0,
        }
    }
}

/// What an attacker does, besides never passing anything on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Announces all that it hears of, and never delivers.
    Withhold,
    /// Announces invented keys.
    Announce,
    /// Sends invalid transactions, and answers requests with them.
    Garbage,
    /// Sends valid transactions again and again that nobody asked for.
    Unrequested,
    /// Asks for all that it has heard of, again and again.
    WantAll,
}

/// What an attacker remembers.
const HEARD_MAX: usize = 100;

enum Role {
    Honest(Box<Cat<App>>),
    Attacker { attack: Attack, heard: BTreeSet<TxKey>, bodies: Vec<Transaction>, rounds: u64 },
}

struct Host {
    role: Role,
    outbox: Outbox<CatFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    config: Config,
    /// By the number that this host gave the peer: who it is, and the end of the link as that one sees it.
    peers: Vec<u32>,
    numbers: BTreeMap<u32, PeerId>,
    up: BTreeSet<PeerId>,
    /// When the last frame arrives at each peer: links keep the order.
    busy_until: BTreeMap<u32, (Time, Time)>,
    /// When the flush throttle of each link fires.
    flushes: BTreeMap<u32, Time>,
}

enum Happening {
    Timer(TimerToken),
    Frame { from: u32, frame: CatFrame, link: u64 },
    Command(Command),
    Attack,
}

struct Entry {
    at: Time,
    serial: u64,
    host: u32,
    what: Happening,
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

/// A network.
pub struct Net {
    pub now: Time,
    hosts: Vec<Host>,
    heap: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    delay: Delay,
    rng: NodeRng,
    latencies: BTreeMap<(u32, u32), Duration>,
    /// Counts how often a link was made anew, so that frames of the old one do not arrive.
    links: BTreeMap<(u32, u32), u64>,
    /// Who got which transaction when.
    pub added: BTreeMap<TxKey, BTreeMap<u32, Time>>,
    pub submitted: BTreeMap<TxKey, Time>,
    pub events: Vec<(Time, u32, Event)>,
    pub keep_events: bool,
    /// Highest values seen of keys, requests and tasks at any honest node.
    pub peak: (usize, usize, usize),
}

impl Net {
    pub fn new(seed: u64, delay: Delay) -> Self {
        Self {
            now: Time::ZERO,
            hosts: Vec::new(),
            heap: BinaryHeap::new(),
            serial: 0,
            delay,
            rng: NodeRng::new(seed, 0, Purpose::Network),
            latencies: BTreeMap::new(),
            links: BTreeMap::new(),
            added: BTreeMap::new(),
            submitted: BTreeMap::new(),
            events: Vec::new(),
            keep_events: false,
            peak: (0, 0, 0),
        }
    }

    /// Nodes of one configuration.
    pub fn uniform(seed: u64, delay: Delay, count: u32, config: &Config) -> Self {
        let mut net = Self::new(seed, delay);
        (0..count).for_each(|_| {
            net.honest(config.clone(), App::default());
        });
        net
    }

    pub fn honest(&mut self, config: Config, app: App) -> u32 {
        let number = self.hosts.len() as u32;
        let engine = Cat::new(config.clone(), &identity(number), app).unwrap();
        self.push_host(Role::Honest(Box::new(engine)), config);
        self.handle(number, Input::Start);
        number
    }

    pub fn attacker(&mut self, config: Config, attack: Attack) -> u32 {
        let number = self.hosts.len() as u32;
        self.push_host(
            Role::Attacker { attack, heard: BTreeSet::new(), bodies: Vec::new(), rounds: 0 },
            config,
        );
        self.schedule(Time::from_millis(50), number, Happening::Attack);
        number
    }

    fn push_host(&mut self, role: Role, config: Config) {
        let number = self.hosts.len() as u64;
        let seed = self.rng.next_u64();
        self.hosts.push(Host {
            role,
            outbox: Outbox::new(config.outbox()),
            rng: NodeRng::new(seed, number, Purpose::Engine),
            effects: Effects::default(),
            config,
            peers: Vec::new(),
            numbers: BTreeMap::new(),
            up: BTreeSet::new(),
            busy_until: BTreeMap::new(),
            flushes: BTreeMap::new(),
        });
    }

    /// A random graph: each node dials so many others; connected by a ring.
    pub fn connect_randomly(&mut self, dials: u32) {
        let count = self.hosts.len() as u32;
        for node in 0..count {
            self.connect(node, (node + 1) % count);
            for _ in 1..dials {
                let other = self.rng.below(u64::from(count)) as u32;
                self.connect(node, other);
            }
        }
    }

    pub fn connect(&mut self, a: u32, b: u32) {
        if a == b || self.is_up(a, b) {
            return;
        }
        let Some(protocol) = self.hosts[a as usize].config.agree(&self.hosts[b as usize].config) else {
            return;
        };
        *self.links.entry((a.min(b), a.max(b))).or_default() += 1;
        let span = (self.delay.max - self.delay.min).as_nanos() as u64;
        let nanos = self.delay.min.as_nanos() as u64 + self.rng.below(span + 1);
        self.latencies.insert((a.min(b), a.max(b)), Duration::from_nanos(nanos));
        for (host, other) in [(a, b), (b, a)] {
            self.link_up(host, other, protocol, host == a);
        }
    }

    fn link_up(&mut self, host: u32, other: u32, protocol: Protocol, outbound: bool) {
        let state = &mut self.hosts[host as usize];
        let next = PeerId(state.peers.len() as u32);
        let peer = *state.numbers.entry(other).or_insert(next);
        if peer == next {
            state.peers.push(other);
        }
        state.up.insert(peer);
        state.busy_until.remove(&other);
        state.outbox.link_up(peer);
        let info =
            PeerInfo { identity: identity(other), outbound, address: None, protocol: protocol.name().into() };
        self.handle(host, Input::LinkUp { peer, info });
    }

    pub fn disconnect(&mut self, a: u32, b: u32) {
        if !self.is_up(a, b) {
            return;
        }
        *self.links.entry((a.min(b), a.max(b))).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            let peer = state.numbers[&other];
            state.up.remove(&peer);
            state.outbox.link_down(peer);
            self.handle(host, Input::LinkDown { peer });
        }
    }

    pub fn is_up(&self, a: u32, b: u32) -> bool {
        let state = &self.hosts[a as usize];
        state.numbers.get(&b).is_some_and(|peer| state.up.contains(peer))
    }

    pub fn submit(&mut self, at: Time, host: u32, tx: &Transaction) {
        self.submitted.insert(tx.key(), at);
        self.schedule(at, host, Happening::Command(Command::Submit(tx.clone())));
    }

    pub fn command(&mut self, at: Time, host: u32, command: Command) {
        self.schedule(at, host, Happening::Command(command));
    }

    fn schedule(&mut self, at: Time, host: u32, what: Happening) {
        self.serial += 1;
        self.heap.push(Reverse(Entry { at: at.max(self.now), serial: self.serial, host, what }));
    }

    pub fn run_until(&mut self, until: Time) {
        while self.heap.peek().is_some_and(|entry| entry.0.at <= until) {
            let Some(Reverse(Entry { at, host, what, .. })) = self.heap.pop() else { break };
            self.now = at;
            match what {
                Happening::Timer(token) => self.handle(host, Input::Timer(token)),
                Happening::Command(command) => self.handle(host, Input::Command(command)),
                Happening::Attack => self.attack(host),
                Happening::Frame { from, frame, link } => {
                    if self.links[&(from.min(host), from.max(host))] == link {
                        let peer = self.hosts[host as usize].numbers[&from];
                        self.handle(host, Input::Frame { peer, frame });
                    }
                }
            }
        }
        self.now = until;
    }

    fn handle(&mut self, host: u32, input: Input<CatFrame, Command>) {
        let now = self.now;
        let Host { role, outbox, rng, effects, .. } = &mut self.hosts[host as usize];
        match role {
            Role::Honest(engine) => {
                let mut cx = Context::new(now, rng, outbox, effects);
                engine.handle(input, &mut cx);
                let (keys, requests, tasks) = self.peak;
                self.peak = (
                    keys.max(engine.keys()),
                    requests.max(engine.outstanding()),
                    tasks.max(engine.scheduled()),
                );
            }
            Role::Attacker { .. } => self.hear(host, input),
        }
        self.drain(host);
    }

    fn drain(&mut self, host: u32) {
        let now = self.now;
        let effects = std::mem::take(&mut self.hosts[host as usize].effects);
        for timer in effects.timers {
            self.schedule(timer.at, host, Happening::Timer(timer.token));
        }
        for event in effects.events {
            if let Event::Added { key, .. } = event {
                let first = self.added.entry(key).or_default().insert(host, now);
                assert!(first.is_none(), "host {host} was told of {key} twice");
            }
            if self.keep_events {
                self.events.push((now, host, event));
            }
        }
        self.send(host);
        for link in effects.links {
            if let LinkRequest::Close(peer) = link {
                let other = self.hosts[host as usize].peers[peer.index()];
                self.disconnect(host, other);
            }
        }
    }

    fn send(&mut self, host: u32) {
        let now = self.now;
        loop {
            let state = &mut self.hosts[host as usize];
            let Some(copy) = state.outbox.pop(now, |_| true) else { break };
            let other = state.peers[copy.peer.index()];
            let pair = (host.min(other), host.max(other));
            let (flush, bps) = (self.delay.flush.as_nanos() as u64, self.delay.bps);
            // The first write arms the throttle; all that is written until it fires leaves then.
            let fires = state.flushes.entry(other).or_default();
            if flush > 0 && *fires <= now {
                *fires = now.plus_nanos(flush);
            }
            let leaves = now.max(*fires);
            let (sent, arrived) = state.busy_until.get(&other).copied().unwrap_or_default();
            let bits = 8 * copy.frame.encoded_len() as u64;
            let transfer = (bits * 1_000_000_000).checked_div(bps).unwrap_or(0);
            let sent = leaves.max(sent).plus_nanos(transfer);
            let arrives = (sent + self.latencies[&pair]).max(arrived);
            state.busy_until.insert(other, (sent, arrives));
            let link = self.links[&pair];
            self.schedule(arrives, other, Happening::Frame { from: host, frame: copy.frame, link });
        }
    }
}
