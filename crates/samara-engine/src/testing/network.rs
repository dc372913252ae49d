//! Hosts, links, and time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::{ContextOf, Single, identity_of};
use crate::{
    Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken, derive_seed,
};

/// Bytes that a segment has besides a frame (IP and TCP headers), on a path with a rate.
const HEADERS: u64 = 60;

/// How frames get from one host to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// The time that a frame travels.
    pub latency: Duration,
    /// Bits per second; 0 for no limit.
    pub bps: u64,
    /// Frames of all paths with the same pipe leave one after another, at the rate of `bps`.
    pub pipe: (u32, u32),
    /// How far ahead of time the pipe takes frames. What it does not take stays in the outbox.
    pub ahead: Duration,
    /// A flush throttle: frames leave so long after the first of them was written. Zero for none.
    pub flush: Duration,
}

impl Path {
    /// A latency between these two for each pair of hosts, the same in both directions.
    pub fn spread(seed: u64, from: u32, to: u32, min: Duration, max: Duration) -> Duration {
        let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
        let span = (max - min).as_nanos() as u64 + 1;
        min + Duration::from_nanos(derive_seed(seed, pair, Purpose::Network) % span)
    }
}

/// The part of a [`Network`] that a test defines: its paths, its applications, and what it records.
pub trait World<E: Engine> {
    /// The path from one host to another.
    fn path(&self, from: u32, to: u32) -> Path;

    /// An application gets an event. It can answer with a command for its host at some time.
    fn event(&mut self, now: Time, host: u32, event: E::Event) -> Option<(Time, E::Command)>;

    /// A frame leaves a host. The world can count it, change it, or drop it.
    fn frame(&mut self, from: u32, to: u32, sender: &E, frame: E::Frame) -> Option<E::Frame> {
        let _ = (from, to, sender);
        Some(frame)
    }

    /// A host has handled an input.
    fn handled(&mut self, host: u32, engine: &E) {
        let _ = (host, engine);
    }

    /// The identity of a host.
    fn identity(&self, host: u32) -> PeerIdentity {
        identity_of(host)
    }

    /// The protocol that two hosts agree on; `None` if they agree on none and do not connect.
    fn protocol(&self, dialler: u32, listener: u32) -> Option<Arc<str>> {
        let _ = (dialler, listener);
        Some("".into())
    }
}

/// A world with one path for all hosts that records all events.
#[derive(Clone, Debug)]
pub struct Uniform<V> {
    /// The path between any two hosts.
    pub path: Path,
    /// All events, with their times and hosts.
    pub events: Vec<(Time, u32, V)>,
}

impl<V> Uniform<V> {
    /// Links with this latency, and uplinks with this rate in bits per second (0 for no limit).
    pub fn new(latency: Duration, bps: u64) -> Self {
        Self { path: Path { latency, bps, ..Path::default() }, events: Vec::new() }
    }
}

impl<E: Engine> World<E> for Uniform<E::Event> {
    fn path(&self, from: u32, _: u32) -> Path {
        Path { pipe: (from, from), ..self.path }
    }

    fn event(&mut self, now: Time, host: u32, event: E::Event) -> Option<(Time, E::Command)> {
        self.events.push((now, host, event));
        None
    }
}

/// How others notice that a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The kernel closes its connections.
    Closes,
    /// Nothing comes any more. Frames that have left still arrive.
    Silent,
}

struct Host<E: Engine> {
    node: Single<E>,
    is_alive: bool,
    /// By the number that this host gave a peer: the peer.
    peers: Vec<u32>,
    numbers: BTreeMap<u32, PeerId>,
    up: BTreeSet<u32>,
    /// Counts the lives of the host: timers, dials and answers of earlier ones are void.
    life: u32,
    /// When the host looks at its outbox again although nothing happens.
    wake: Option<Time>,
}

enum What<E: Engine, W> {
    Timer(TimerToken),
    Command(E::Command),
    /// A request to dial, which takes a round trip. The other host may still be added at the same time.
    Dialling(PeerIdentity),
    Dial(PeerIdentity),
    DialFailed(PeerIdentity),
    Wake,
    Frame {
        from: u32,
        frame: E::Frame,
        link: u64,
    },
    Free((u32, u32)),
    Call(Call<E, W>),
}

/// What a test does at a time of its own.
type Call<E, W> = Box<dyn FnOnce(&mut Network<E, W>)>;

/// Steps by their times and in the order in which they were scheduled: from one host, to another.
type Queue<E, W> = BTreeMap<(Time, u64), (u32, u32, What<E, W>)>;

/// A pipe that frames leave through one after another.
#[derive(Default)]
struct Pipe {
    /// When the last frame that the pipe took has left.
    until: Time,
    ahead: Duration,
    /// Hosts that have more for this pipe. They take turns.
    waiting: VecDeque<u32>,
    is_armed: bool,
}

impl Pipe {
    fn has_room(&self, now: Time) -> bool {
        self.until.since(now) <= self.ahead
    }
}

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

/// A network of engines in virtual time. Dereferences to its [`World`].
///
/// Commands, frames, crashes and broken links that a test calls for happen at once, at the time [`now`](Self::now);
/// [`run_for`](Self::run_for), [`run_until`](Self::run_until) and [`step`](Self::step) let time pass.
pub struct Network<E: Engine, W> {
    /// The current time.
    pub now: Time,
    /// Random numbers for the test.
    pub rng: NodeRng,
    /// The number of frames that have left hosts.
    pub frames: u64,
    world: W,
    hosts: Vec<Host<E>>,
    queue: Queue<E, W>,
    queued: u64,
    /// Counts how often a link was made or broken, so that frames of an old one do not arrive.
    links: BTreeMap<(u32, u32), u64>,
    cut: BTreeSet<(u32, u32)>,
    pipes: BTreeMap<(u32, u32), Pipe>,
    /// By direction: when the last frame arrives, and no sooner than when the next one may.
    arrivals: BTreeMap<(u32, u32), Time>,
    /// By direction: when the flush throttle fires.
    flushes: BTreeMap<(u32, u32), Time>,
}

impl<E: Engine, W> Deref for Network<E, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.world
    }
}

impl<E: Engine, W> DerefMut for Network<E, W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.world
    }
}

impl<E: Engine, W: World<E>> Network<E, W> {
    /// A network without hosts.
    pub fn new(seed: u64, world: W) -> Self {
        Self {
            now: Time::ZERO,
            rng: NodeRng::new(seed, 0, Purpose::Network),
            frames: 0,
            world,
            hosts: Vec::new(),
            queue: BTreeMap::new(),
            queued: 0,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            pipes: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            flushes: BTreeMap::new(),
        }
    }

    /// Adds a host, which starts at once.
    pub fn add(&mut self, engine: E, outbox: Outbox<E::Frame>) -> u32 {
        let host = self.hosts.len() as u32;
        let made = self.make(engine, outbox, 0);
        self.hosts.push(made);
        self.handle(host, Input::Start);
        host
    }

    fn make(&mut self, engine: E, outbox: Outbox<E::Frame>, life: u32) -> Host<E> {
        Host {
            node: Single::new(engine, outbox, self.rng.next_u64()),
            is_alive: true,
            peers: Vec::new(),
            numbers: BTreeMap::new(),
            up: BTreeSet::new(),
            life,
            wake: None,
        }
    }

    fn host(&self, host: u32) -> &Host<E> {
        &self.hosts[host as usize]
    }

    fn host_mut(&mut self, host: u32) -> &mut Host<E> {
        &mut self.hosts[host as usize]
    }

    /// The number of hosts, those that have crashed included.
    #[allow(clippy::len_without_is_empty, reason = "a network without hosts is of no use")]
    pub fn len(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// The engine of a host.
    pub fn engine(&self, host: u32) -> &E {
        &self.host(host).node.engine
    }

    /// The outbox of a host.
    pub fn outbox(&self, host: u32) -> &Outbox<E::Frame> {
        &self.host(host).node.outbox
    }

    /// Whether a host runs.
    pub fn is_alive(&self, host: u32) -> bool {
        self.host(host).is_alive
    }

    /// Whether a host has a link to another one.
    pub fn is_up(&self, host: u32, other: u32) -> bool {
        self.host(host).up.contains(&other)
    }

    /// The number of links.
    pub fn links(&self) -> usize {
        self.hosts.iter().map(|host| host.up.len()).sum::<usize>() / 2
    }

    // ---- faults ----

    /// The process of a host is gone.
    pub fn crash(&mut self, host: u32, how: Crash) {
        self.host_mut(host).is_alive = false;
        for other in self.host(host).up.clone() {
            match how {
                Crash::Closes => self.disconnect(host, other),
                Crash::Silent => _ = self.host_mut(host).up.remove(&other),
            }
        }
    }

    /// A host comes back with an engine that remembers nothing.
    pub fn restart(&mut self, host: u32, engine: E, outbox: Outbox<E::Frame>) {
        (0..self.len()).filter(|other| *other != host).for_each(|other| self.disconnect(host, other));
        let life = self.host(host).life + 1;
        let mut made = self.make(engine, outbox, life);
        made.node.now = self.now;
        *self.host_mut(host) = made;
        self.handle(host, Input::Start);
    }

    /// Two hosts connect, as if the first one had dialled; nothing happens if they are connected.
    pub fn connect(&mut self, a: u32, b: u32) {
        if a == b || self.is_up(a, b) && self.is_up(b, a) {
            return;
        }
        let Some(protocol) = self.world.protocol(a, b) else { return };
        self.disconnect(a, b);
        for (host, other) in [(a, b), (b, a)] {
            let identity = self.world.identity(other);
            let state = self.host_mut(host);
            let next = PeerId(state.peers.len() as u32);
            let peer = *state.numbers.entry(other).or_insert(next);
            if peer == next {
                state.peers.push(other);
            }
            state.up.insert(other);
            state.node.outbox.link_up(peer);
            let info = PeerInfo { identity, outbound: host == a, address: None, protocol: protocol.clone() };
            self.handle(host, Input::LinkUp { peer, info });
        }
    }

    /// The link of two hosts breaks, with all that is on its way; it can be made anew at once.
    pub fn disconnect(&mut self, a: u32, b: u32) {
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = self.host_mut(host);
            if state.up.remove(&other) {
                let peer = state.numbers[&other];
                state.node.outbox.link_down(peer);
                self.handle(host, Input::LinkDown { peer });
            }
        }
    }

    /// The link of two hosts breaks, and cannot be made anew before [`heal`](Self::heal).
    pub fn cut(&mut self, a: u32, b: u32) {
        self.cut.insert(pair(a, b));
        self.disconnect(a, b);
    }

    /// Cuts all links between hosts on different sides.
    pub fn partition(&mut self, side_of: impl Fn(u32) -> u32) {
        for a in 0..self.len() {
            (0..a).filter(|b| side_of(a) != side_of(*b)).for_each(|b| self.cut(a, b));
        }
    }

    /// All hosts can reach each other again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Frames from one host to another arrive no sooner than after this time, and in order: the packets of a TCP
    /// connection are lost, and sent again by then.
    pub fn hold(&mut self, from: u32, to: u32, span: Duration) {
        let until = self.now + span;
        let arrival = self.arrivals.entry((from, to)).or_default();
        *arrival = until.max(*arrival);
    }

    fn can_reach(&self, a: u32, b: u32) -> bool {
        self.is_alive(a) && self.is_alive(b) && !self.cut.contains(&pair(a, b))
    }

    // ---- inputs ----

    /// The application of a host gives a command, now.
    pub fn command(&mut self, host: u32, command: E::Command) {
        self.handle(host, Input::Command(command));
    }

    /// A frame arrives at a host, as if a peer of it had sent it.
    pub fn frame(&mut self, host: u32, from: u32, frame: E::Frame) {
        let peer = self.host(host).numbers[&from];
        self.handle(host, Input::Frame { peer, frame });
    }

    /// Calls a method of an engine that needs a context.
    pub fn with<R>(&mut self, host: u32, call: impl FnOnce(&mut E, &mut ContextOf<'_, E>) -> R) -> R {
        let now = self.now;
        let node = &mut self.host_mut(host).node;
        node.now = now;
        let result = node.with(call);
        self.drain(host);
        result
    }

    /// Calls a function at some time.
    pub fn at(&mut self, at: Time, call: impl FnOnce(&mut Self) + 'static) {
        self.schedule(at, 0, What::Call(Box::new(call)));
    }

    fn handle(&mut self, host: u32, input: Input<E::Frame, E::Command>) {
        if self.is_alive(host) {
            self.with(host, |engine, cx| engine.handle(input, cx));
        }
    }

    fn drain(&mut self, host: u32) {
        let node = &mut self.hosts[host as usize].node;
        let timers = std::mem::take(&mut node.timers);
        let events = std::mem::take(&mut node.events);
        let links = std::mem::take(&mut node.links);
        self.world.handled(host, &node.engine);
        for ((at, _), token) in timers {
            self.schedule(at, host, What::Timer(token));
        }
        for event in events {
            if let Some((at, command)) = self.world.event(self.now, host, event) {
                self.schedule(at, host, What::Command(command));
            }
        }
        for link in links {
            match link {
                LinkRequest::Dial(identity) => self.schedule(self.now, host, What::Dialling(identity)),
                LinkRequest::Close(peer) => {
                    let other = self.host(host).peers[peer.index()];
                    self.disconnect(host, other);
                }
            }
        }
        self.transmit(host);
    }

    fn find(&self, identity: &PeerIdentity) -> Option<u32> {
        (0..self.len()).find(|host| self.world.identity(*host) == *identity)
    }

    // ---- time ----

    fn schedule(&mut self, at: Time, host: u32, what: What<E, W>) {
        self.queued += 1;
        let life = self.hosts.get(host as usize).map_or(0, |host| host.life);
        self.queue.insert((at.max(self.now), self.queued), (host, life, what));
    }

    /// Lets this time pass.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Runs until a condition holds.
    ///
    /// # Panics
    /// If it does not hold within `limit`, or nothing is left to happen.
    pub fn run_until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) {
        let until = self.now + limit;
        while !holds(self) {
            assert!(self.now < until && self.step(), "the condition does not hold within {limit:?}");
        }
    }

    /// The next thing happens. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), (host, life, what))) = self.queue.pop_first() else { return false };
        self.now = at;
        let is_same_life = self.hosts.get(host as usize).is_some_and(|host| host.life == life);
        match what {
            What::Call(call) => call(self),
            What::Free(pipe) => self.free(pipe),
            What::Frame { from, frame, link } => {
                if self.links[&pair(from, host)] == link && self.is_up(host, from) {
                    self.frame(host, from, frame);
                }
            }
            _ if !is_same_life => {}
            What::Timer(token) => self.handle(host, Input::Timer(token)),
            What::Command(command) => self.command(host, command),
            What::DialFailed(identity) => self.handle(host, Input::DialFailed { identity }),
            What::Wake => {
                self.host_mut(host).wake = None;
                self.transmit(host);
            }
            What::Dialling(identity) => {
                let known = self.find(&identity);
                let trip = known.map_or(Duration::ZERO, |other| 2 * self.world.path(host, other).latency);
                self.schedule(at + trip, host, What::Dial(identity));
            }
            What::Dial(identity) => match self.find(&identity) {
                Some(other) if self.can_reach(host, other) => self.connect(host, other),
                other => {
                    // A port that nobody listens on answers at once; a dial into a partition times out.
                    let is_alive = other.is_some_and(|other| self.is_alive(other));
                    let wait = Duration::from_millis(if is_alive { 1_000 } else { 1 });
                    self.schedule(at + wait, host, What::DialFailed(identity));
                }
            },
        }
        true
    }

    // ---- frames ----

    /// Offers room to the outbox of a host until it has nothing to send or no pipe takes it.
    fn transmit(&mut self, host: u32) {
        let now = self.now;
        while self.is_alive(host) {
            let (world, pipes) = (&self.world, &self.pipes);
            let Host { node, peers, .. } = &mut self.hosts[host as usize];
            let full = |peer: PeerId| {
                let path = world.path(host, peers[peer.index()]);
                let is_full = path.bps > 0 && pipes.get(&path.pipe).is_some_and(|pipe| !pipe.has_room(now));
                is_full.then_some(path.pipe)
            };
            let Some(copy) = node.outbox.pop(now, |peer| full(peer).is_none()) else {
                let numbers = (0..peers.len() as u32).map(PeerId);
                let owed = numbers.filter(|peer| node.outbox.pending_to(*peer) > 0);
                let pipes: BTreeSet<(u32, u32)> = owed.filter_map(full).collect();
                pipes.into_iter().for_each(|pipe| self.wait(host, pipe));
                self.sleep(host);
                return;
            };
            let to = peers[copy.peer.index()];
            self.frames += 1;
            if let Some(frame) = self.world.frame(host, to, &node.engine, copy.frame) {
                self.send(host, to, frame);
            }
        }
    }

    fn send(&mut self, from: u32, to: u32, frame: E::Frame) {
        let path = self.world.path(from, to);
        let mut leaves = self.now;
        if !path.flush.is_zero() {
            // The first write arms the throttle; all that is written until it fires leaves then.
            let fires = self.flushes.entry((from, to)).or_default();
            if *fires <= self.now {
                *fires = self.now + path.flush;
            }
            leaves = *fires;
        }
        let bits = 8 * (frame.encoded_len() as u64 + HEADERS);
        // Without a rate there is no pipe.
        if let Some(nanos) = (bits * 1_000_000_000).checked_div(path.bps) {
            let pipe = self.pipes.entry(path.pipe).or_default();
            pipe.ahead = path.ahead;
            pipe.until = pipe.until.max(leaves).plus_nanos(nanos);
            leaves = pipe.until;
        }
        let last = self.arrivals.entry((from, to)).or_default();
        *last = (leaves + path.latency).max(*last);
        let (arrives, link) = (*last, self.links[&pair(from, to)]);
        self.schedule(arrives, to, What::Frame { from, frame, link });
    }

    /// A host waits for room in a pipe.
    fn wait(&mut self, host: u32, pipe: (u32, u32)) {
        let state = self.pipes.entry(pipe).or_default();
        if !state.waiting.contains(&host) {
            state.waiting.push_back(host);
        }
        if !std::mem::replace(&mut state.is_armed, true) {
            let at = self.now + state.until.since(self.now).saturating_sub(state.ahead);
            self.schedule(at, 0, What::Free(pipe));
        }
    }

    fn free(&mut self, pipe: (u32, u32)) {
        let now = self.now;
        self.pipes.entry(pipe).or_default().is_armed = false;
        while let Some(state) = self.pipes.get_mut(&pipe).filter(|pipe| pipe.has_room(now)) {
            let Some(host) = state.waiting.pop_front() else { return };
            self.transmit(host);
        }
        if let Some(host) = self.pipes.get(&pipe).and_then(|pipe| pipe.waiting.front().copied()) {
            self.wait(host, pipe);
        }
    }

    /// A host waits for the next copy that its outbox holds back.
    fn sleep(&mut self, host: u32) {
        let state = self.host_mut(host);
        let next = state.node.outbox.next_wake();
        if let Some(at) = next.filter(|at| state.wake.is_none_or(|wake| *at < wake)) {
            state.wake = Some(at);
            self.schedule(at, host, What::Wake);
        }
    }
}
