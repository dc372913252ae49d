//! Hosts, links, and time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use samara_engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo,
    Purpose, Time, TimerToken,
};
use samara_ring::{Command, Config, Event, Ring, RingFrame};

use super::record::Record;
use super::{host_of, identity, message};

/// What links are like.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub latency: (Duration, Duration),
    /// Bits per second of each host's uplink; 0 for no limit.
    pub bps: u64,
}

impl Link {
    pub const fn micros(min: u64, max: u64) -> Self {
        Self { latency: (Duration::from_micros(min), Duration::from_micros(max)), bps: 0 }
    }
}

/// How others notice that a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The kernel closes its connections.
    Closes,
    /// Nothing comes any more.
    Silent,
}

struct Host {
    engine: Box<Ring>,
    outbox: Outbox<RingFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    is_alive: bool,
    /// By the number that this host gave a peer: who it is.
    peers: Vec<u32>,
    numbers: BTreeMap<u32, PeerId>,
    up: BTreeSet<u32>,
    /// Counts the lives of the host, so that timers of earlier ones do not fire.
    life: u32,
    config: Config,
    busy_until: Time,
}

enum What {
    Timer(TimerToken, u32),
    Frame {
        from: u32,
        frame: RingFrame,
        link: u64,
    },
    Dial(u32),
    DialFailed(PeerIdentity, u32),
    /// The uplink is free.
    Free,
    /// The application sends its next message; it tries again when it was refused.
    Send {
        left: u64,
        len: usize,
        gap: Duration,
    },
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

/// A network.
pub struct Net {
    pub now: Time,
    pub record: Record,
    hosts: Vec<Host>,
    heap: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    link: Link,
    pub rng: NodeRng,
    latencies: BTreeMap<(u32, u32), Duration>,
    /// Counts how often a link was made or broken, so that frames of an old one do not arrive.
    links: BTreeMap<(u32, u32), u64>,
    arrived: BTreeMap<(u32, u32), Time>,
    /// Hosts with the same number can reach each other.
    sides: Vec<u32>,
    /// Pairs that cannot reach each other whatever else.
    pub cut: BTreeSet<(u32, u32)>,
    /// What leaves the first for the second arrives no sooner: a TCP connection whose packets are lost, and sent again by then.
    pub held: BTreeMap<(u32, u32), Time>,
    pub frames: u64,
    /// Frames that are no heartbeats.
    pub others: u64,
    pub data_bytes: BTreeMap<(u32, u32), u64>,
}

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

impl Net {
    pub fn new(seed: u64, link: Link) -> Self {
        Self {
            now: Time::ZERO,
            record: Record::default(),
            hosts: Vec::new(),
            heap: BinaryHeap::new(),
            serial: 0,
            link,
            rng: NodeRng::new(seed, 0, Purpose::Network),
            latencies: BTreeMap::new(),
            links: BTreeMap::new(),
            arrived: BTreeMap::new(),
            sides: Vec::new(),
            cut: BTreeSet::new(),
            held: BTreeMap::new(),
            frames: 0,
            others: 0,
            data_bytes: BTreeMap::new(),
        }
    }

    /// A group of so many, which has its first view.
    pub fn group(seed: u64, link: Link, count: u32, config: &Config) -> Self {
        let mut net = Self::new(seed, link);
        (0..count).for_each(|_| {
            net.add(config, count);
        });
        net.run_for(Duration::from_secs(2));
        let all: Vec<u32> = (0..count).collect();
        net.assert_together(&all);
        net
    }

    /// A host that knows so many seeds, the first ones.
    pub fn add(&mut self, config: &Config, seeds: u32) -> u32 {
        self.add_knowing(config, 0..seeds)
    }

    /// A host that knows these.
    pub fn add_knowing(&mut self, config: &Config, seeds: impl IntoIterator<Item = u32>) -> u32 {
        let number = self.hosts.len() as u32;
        let config = Config { seeds: seeds.into_iter().map(identity).collect(), ..config.clone() };
        let seed = self.rng.next_u64();
        self.hosts.push(Host {
            engine: Box::new(Ring::new(config.clone(), identity(number)).unwrap()),
            outbox: Outbox::new(config.outbox()),
            rng: NodeRng::new(seed, number.into(), Purpose::Engine),
            effects: Effects::default(),
            is_alive: true,
            peers: Vec::new(),
            numbers: BTreeMap::new(),
            up: BTreeSet::new(),
            life: 0,
            config,
            busy_until: Time::ZERO,
        });
        self.sides.push(0);
        self.handle(number, Input::Start);
        number
    }

    pub fn engine(&self, host: u32) -> &Ring {
        &self.hosts[host as usize].engine
    }

    pub fn outbox(&self, host: u32) -> &Outbox<RingFrame> {
        &self.hosts[host as usize].outbox
    }

    pub fn is_alive(&self, host: u32) -> bool {
        self.hosts[host as usize].is_alive
    }

    pub fn len(&self) -> u32 {
        self.hosts.len() as u32
    }

    pub fn crash(&mut self, host: u32, how: Crash) {
        self.hosts[host as usize].is_alive = false;
        self.record.crashed.insert(host);
        let peers: Vec<u32> = self.hosts[host as usize].up.iter().copied().collect();
        for other in peers {
            if how == Crash::Closes {
                self.disconnect(host, other);
            } else {
                // What is on its way from it still arrives; nothing else does.
                self.hosts[host as usize].up.remove(&other);
            }
        }
    }

    /// The host comes back, having forgotten everything.
    pub fn restart(&mut self, host: u32) {
        let others: Vec<u32> = (0..self.len()).filter(|other| self.is_up(*other, host)).collect();
        others.into_iter().for_each(|other| self.disconnect(host, other));
        let seed = self.rng.next_u64();
        self.record.restarted(host);
        let state = &mut self.hosts[host as usize];
        *state.engine = Ring::new(state.config.clone(), identity(host)).unwrap();
        state.outbox = Outbox::new(state.config.outbox());
        state.rng = NodeRng::new(seed, host.into(), Purpose::Engine);
        (state.peers, state.numbers) = (Vec::new(), BTreeMap::new());
        state.up.clear();
        state.is_alive = true;
        state.life += 1;
        self.record.crashed.remove(&host);
        self.handle(host, Input::Start);
    }

    /// Puts hosts on sides; links between different ones break.
    pub fn partition(&mut self, side_of: impl Fn(u32) -> u32) {
        self.sides = (0..self.len()).map(side_of).collect();
        for a in 0..self.len() {
            for b in 0..a {
                if !self.can_reach(a, b) {
                    self.disconnect(a, b);
                }
            }
        }
    }

    pub fn heal(&mut self) {
        self.sides.fill(0);
        self.cut.clear();
    }

    /// The link breaks, and can be made anew at once.
    pub fn reset_link(&mut self, a: u32, b: u32) {
        self.disconnect(a, b);
    }

    fn can_reach(&self, a: u32, b: u32) -> bool {
        self.sides[a as usize] == self.sides[b as usize]
            && !self.cut.contains(&pair(a, b))
            && self.is_alive(a)
            && self.is_alive(b)
    }

    fn is_up(&self, a: u32, b: u32) -> bool {
        self.hosts[a as usize].up.contains(&b)
    }

    fn connect(&mut self, a: u32, b: u32) {
        if a == b || self.is_up(a, b) && self.is_up(b, a) {
            return;
        }
        self.disconnect(a, b);
        *self.links.entry(pair(a, b)).or_default() += 1;
        let (min, max) = self.link.latency;
        let more = self.rng.below((max - min).as_nanos() as u64 + 1);
        self.latencies.entry(pair(a, b)).or_insert(min + Duration::from_nanos(more));
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            let next = PeerId(state.peers.len() as u32);
            let peer = *state.numbers.entry(other).or_insert(next);
            if peer == next {
                state.peers.push(other);
            }
            state.up.insert(other);
            state.outbox.link_up(peer);
            self.arrived.remove(&(host, other));
            let info = PeerInfo {
                identity: identity(other),
                outbound: host == a,
                address: None,
                protocol: "ring/1".into(),
            };
            self.handle(host, Input::LinkUp { peer, info });
        }
    }

    fn disconnect(&mut self, a: u32, b: u32) {
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            if !state.up.remove(&other) {
                continue;
            }
            let peer = state.numbers[&other];
            state.outbox.link_down(peer);
            if state.is_alive {
                self.handle(host, Input::LinkDown { peer });
            }
        }
    }

    pub fn command(&mut self, host: u32, command: Command) {
        self.handle(host, Input::Command(command));
    }

    /// The application of a host broadcasts so many messages, one every `gap`, or as fast as they are taken.
    pub fn send(&mut self, host: u32, count: u64, len: usize, gap: Duration) {
        self.schedule(self.now, host, What::Send { left: count, len, gap });
    }

    fn send_next(&mut self, host: u32, left: u64, len: usize, gap: Duration) {
        if left == 0 || !self.is_alive(host) || self.record.has_left(host) {
            return;
        }
        let number = self.record.next_number(host);
        let state = &mut self.hosts[host as usize];
        let mut cx = Context::new(self.now, &mut state.rng, &mut state.outbox, &mut state.effects);
        let taken = state.engine.broadcast(message(host, number, len), &mut cx);
        let wait = if taken.is_ok() {
            self.record.broadcast(host, number);
            gap
        } else {
            gap.max(Duration::from_millis(1))
        };
        self.drain(host);
        self.schedule(self.now + wait, host, What::Send { left: left - u64::from(taken.is_ok()), len, gap });
    }

    fn schedule(&mut self, at: Time, host: u32, what: What) {
        self.serial += 1;
        self.heap.push(Reverse(Entry { at: at.max(self.now), serial: self.serial, host, what }));
    }

    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.heap.peek().is_some_and(|entry| entry.0.at <= until) {
            let Some(Reverse(Entry { at, host, what, .. })) = self.heap.pop() else { break };
            self.now = at;
            self.happen(host, what);
        }
        self.now = until;
    }

    fn happen(&mut self, host: u32, what: What) {
        let life = self.hosts[host as usize].life;
        match what {
            What::Timer(token, of) if of == life => self.handle(host, Input::Timer(token)),
            What::Timer(..) => {}
            What::Free => self.transmit(host),
            What::Dial(other) if self.can_reach(host, other) => self.connect(host, other),
            What::Dial(other) => {
                // A port that nobody listens on answers at once; a partition answers nothing, until the dial gives up.
                let wait = if self.is_alive(other) && self.is_alive(host) { 1_000 } else { 1 };
                let failed = What::DialFailed(identity(other), life);
                self.schedule(self.now + Duration::from_millis(wait), host, failed);
            }
            What::DialFailed(identity, of) if of == life => {
                self.handle(host, Input::DialFailed { identity });
            }
            What::DialFailed(..) => {}
            What::Send { left, len, gap } => self.send_next(host, left, len, gap),
            What::Frame { from, frame, link } => {
                if self.links[&pair(from, host)] == link && self.is_up(host, from) {
                    let peer = self.hosts[host as usize].numbers[&from];
                    self.handle(host, Input::Frame { peer, frame });
                }
            }
        }
    }

    fn handle(&mut self, host: u32, input: Input<RingFrame, Command>) {
        let state = &mut self.hosts[host as usize];
        if !state.is_alive {
            return;
        }
        let mut cx = Context::new(self.now, &mut state.rng, &mut state.outbox, &mut state.effects);
        state.engine.handle(input, &mut cx);
        self.drain(host);
    }

    fn drain(&mut self, host: u32) {
        let now = self.now;
        let effects = std::mem::take(&mut self.hosts[host as usize].effects);
        let life = self.hosts[host as usize].life;
        for timer in effects.timers {
            self.schedule(timer.at, host, What::Timer(timer.token, life));
        }
        for event in effects.events {
            self.record.take(now, host, event);
        }
        for link in effects.links {
            match link {
                LinkRequest::Dial(identity) => {
                    let wait = self.link.latency.0 * 2;
                    self.schedule(now + wait, host, What::Dial(host_of(&identity)));
                }
                LinkRequest::Close(peer) => {
                    let other = self.hosts[host as usize].peers[peer.index()];
                    self.disconnect(host, other);
                }
            }
        }
        self.transmit(host);
    }

    /// One frame after another leaves by the uplink.
    fn transmit(&mut self, host: u32) {
        loop {
            let now = self.now;
            let state = &mut self.hosts[host as usize];
            if state.busy_until > now || !state.is_alive {
                return;
            }
            let Some(copy) = state.outbox.pop(now, |_| true) else { return };
            let other = state.peers[copy.peer.index()];
            let bits = 8 * (copy.frame.encoded_len() as u64 + 60);
            let nanos = (bits * 1_000_000_000).checked_div(self.link.bps).unwrap_or(0);
            let sent = now.plus_nanos(nanos);
            if nanos > 0 {
                state.busy_until = sent;
                self.schedule(sent, host, What::Free);
            }
            self.frames += 1;
            self.others += u64::from(!matches!(copy.frame, RingFrame::Heartbeat(_)));
            if matches!(copy.frame, RingFrame::Data(_)) {
                *self.data_bytes.entry((host, other)).or_default() += copy.frame.payload_len() as u64;
            }
            let last = self.arrived.get(&(host, other)).copied().unwrap_or_default();
            let held = self.held.get(&(host, other)).copied().unwrap_or_default();
            let arrives = (sent + self.latencies[&pair(host, other)]).max(last).max(held);
            self.arrived.insert((host, other), arrives);
            let link = self.links[&pair(host, other)];
            self.schedule(arrives, other, What::Frame { from: host, frame: copy.frame, link });
        }
    }

    /// All of these have the same view, of just these.
    pub fn assert_together(&self, hosts: &[u32]) {
        let first = self.engine(hosts[0]).view().expect("a view").clone();
        let mut members: Vec<u32> = first.members.iter().map(|member| host_of(&member.identity)).collect();
        members.sort_unstable();
        assert_eq!(members, hosts, "at {:?}", self.now);
        for host in hosts {
            assert_eq!(self.engine(*host).view(), Some(&first), "host {host} at {:?}", self.now);
        }
    }
}
