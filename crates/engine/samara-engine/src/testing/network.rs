//! A network of hosts and links in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::{ContextOf, Single, identity_of};
use crate::{
    Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken, derive_seed,
};

/// Overhead of a segment in bytes (IP and TCP headers), on a path with a rate.
const HEADERS: u64 = 60;

/// The properties of the way from one host to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// The travel time of a frame.
    pub latency: Duration,
    /// Rate in bits per second; 0 for no limit.
    pub bps: u64,
    /// The pipe of this path. Frames of all paths with the same pipe leave one after another, at
    /// the rate of `bps`.
    pub pipe: (u32, u32),
    /// How far ahead of time the pipe accepts frames. Other frames stay in the outbox.
    pub ahead: Duration,
    /// The period of a flush throttle: frames leave this long after the first of them was written.
    /// Zero for none.
    pub flush: Duration,
}

impl Path {
    /// Returns a latency between `min` and `max` for each pair of hosts, the same in both
    /// directions.
    pub fn spread(seed: u64, from: u32, to: u32, min: Duration, max: Duration) -> Duration {
        let pair = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
        let span = (max - min).as_nanos() as u64 + 1;
        min + Duration::from_nanos(derive_seed(seed, pair, Purpose::Network) % span)
    }
}

/// The part of a [`Network`] that a test defines: its paths, its applications, and its records.
pub trait World<E: Engine> {
    /// Returns the path from one host to another.
    fn path(&self, from: u32, to: u32) -> Path;

    /// Handles an event for the application of a host. The application can answer with a command
    /// for its host at some time.
    fn event(&mut self, now: Time, host: u32, event: E::Event) -> Option<(Time, E::Command)>;

    /// Handles a frame that leaves a host. The world can count it, change it, or drop it.
    fn frame(&mut self, from: u32, to: u32, sender: &E, frame: E::Frame) -> Option<E::Frame> {
        let _ = (from, to, sender);
        Some(frame)
    }

    /// Observes a host after it has handled an input.
    fn handled(&mut self, host: u32, engine: &E) {
        let _ = (host, engine);
    }

    /// Returns the identity of a host.
    fn identity(&self, host: u32) -> PeerIdentity {
        identity_of(host)
    }

    /// Returns the protocol that two hosts agree on, or `None` if they agree on none and do not
    /// connect.
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
    /// Creates a world with this latency on all links and this rate of all uplinks in bits per
    /// second (0 for no limit).
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

/// The way in which other hosts notice a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The kernel closes its connections.
    Closes,
    /// The host sends nothing any more. Frames that have left still arrive.
    Silent,
}

struct Host<E: Engine> {
    node: Single<E>,
    is_alive: bool,
    /// The host number of each peer, by the peer's handle at this host.
    peers: Vec<u32>,
    numbers: BTreeMap<u32, PeerId>,
    up: BTreeSet<u32>,
    /// The number of restarts. Timers, dials and answers of earlier lives are void.
    life: u32,
    /// The time at which the host next checks its outbox even if nothing happens.
    wake: Option<Time>,
}

enum Action<E: Engine, W> {
    Timer(TimerToken),
    Command(E::Command),
    /// A request to dial, which takes a round trip. The other host may still be added at the same
    /// time.
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

/// A function that a test scheduled.
type Call<E, W> = Box<dyn FnOnce(&mut Network<E, W>)>;

/// Steps by their times and the order in which they were scheduled, each with its host and that
/// host's life.
type Queue<E, W> = BTreeMap<(Time, u64), (u32, u32, Action<E, W>)>;

/// A pipe that frames pass one after another.
#[derive(Default)]
struct Pipe {
    /// The time at which the last accepted frame has left.
    until: Time,
    ahead: Duration,
    /// Hosts with more frames for this pipe. They take turns.
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
/// Commands, frames, crashes and broken links that a test requests take effect at once, at the time
/// [`now`](Self::now). [`run_for`](Self::run_for), [`run_until`](Self::run_until) and
/// [`step`](Self::step) advance the clock.
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
    /// Counts how often each link was made or broken, so that frames of an old link do not arrive.
    links: BTreeMap<(u32, u32), u64>,
    cut: BTreeSet<(u32, u32)>,
    pipes: BTreeMap<(u32, u32), Pipe>,
    /// By direction: the time at which the last frame arrives, and before which the next one must
    /// not arrive.
    arrivals: BTreeMap<(u32, u32), Time>,
    /// By direction: the time at which the flush throttle fires.
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
    /// Creates a network without hosts.
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

    /// Adds a host, which starts at once. Returns its number.
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

    /// Returns the number of hosts, including crashed ones.
    #[allow(clippy::len_without_is_empty, reason = "a network without hosts is of no use")]
    pub fn len(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Returns the engine of a host.
    pub fn engine(&self, host: u32) -> &E {
        &self.host(host).node.engine
    }

    /// Returns the outbox of a host.
    pub fn outbox(&self, host: u32) -> &Outbox<E::Frame> {
        &self.host(host).node.outbox
    }

    /// Returns true if a host runs.
    pub fn is_alive(&self, host: u32) -> bool {
        self.host(host).is_alive
    }

    /// Returns true if a host has a link to another one.
    pub fn is_up(&self, host: u32, other: u32) -> bool {
        self.host(host).up.contains(&other)
    }

    /// Returns a host's handle of another one, if they were ever connected.
    pub fn peer(&self, host: u32, other: u32) -> Option<PeerId> {
        self.host(host).numbers.get(&other).copied()
    }

    /// Returns the number of links.
    pub fn links(&self) -> usize {
        self.hosts.iter().map(|host| host.up.len()).sum::<usize>() / 2
    }

    // ---- faults ----

    /// Crashes the process of a host.
    pub fn crash(&mut self, host: u32, how: Crash) {
        self.host_mut(host).is_alive = false;
        for other in self.host(host).up.clone() {
            match how {
                Crash::Closes => self.disconnect(host, other),
                Crash::Silent => _ = self.host_mut(host).up.remove(&other),
            }
        }
    }

    /// Restarts a host with an engine without memory.
    pub fn restart(&mut self, host: u32, engine: E, outbox: Outbox<E::Frame>) {
        (0..self.len()).filter(|other| *other != host).for_each(|other| self.disconnect(host, other));
        let life = self.host(host).life + 1;
        let mut made = self.make(engine, outbox, life);
        made.node.now = self.now;
        *self.host_mut(host) = made;
        self.handle(host, Input::Start);
    }

    /// Connects two hosts, as if the first one had dialled. Does nothing if they are connected.
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

    /// Breaks the link of two hosts, with all frames on their way. The hosts can connect again at
    /// once.
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

    /// Breaks the link of two hosts. They cannot connect again before [`heal`](Self::heal).
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

    /// Lets all hosts reach each other again.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Delays frames from one host to another: they arrive in order and no sooner than after this
    /// time, as if the packets of a TCP connection were lost and sent again by then.
    pub fn hold(&mut self, from: u32, to: u32, span: Duration) {
        let until = self.now + span;
        let arrival = self.arrivals.entry((from, to)).or_default();
        *arrival = until.max(*arrival);
    }

    fn can_reach(&self, a: u32, b: u32) -> bool {
        self.is_alive(a) && self.is_alive(b) && !self.cut.contains(&pair(a, b))
    }

    // ---- inputs ----

    /// Delivers a command of the application of a host, now.
    pub fn command(&mut self, host: u32, command: E::Command) {
        self.handle(host, Input::Command(command));
    }

    /// Delivers a frame to a host, as if one of its peers had sent it.
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

    /// Calls a function at a given time.
    pub fn at(&mut self, at: Time, call: impl FnOnce(&mut Self) + 'static) {
        self.schedule(at, 0, Action::Call(Box::new(call)));
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
            self.schedule(at, host, Action::Timer(token));
        }
        for event in events {
            if let Some((at, command)) = self.world.event(self.now, host, event) {
                self.schedule(at, host, Action::Command(command));
            }
        }
        for link in links {
            match link {
                LinkRequest::Dial(identity) => self.schedule(self.now, host, Action::Dialling(identity)),
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

    fn schedule(&mut self, at: Time, host: u32, action: Action<E, W>) {
        self.queued += 1;
        let life = self.hosts.get(host as usize).map_or(0, |host| host.life);
        self.queue.insert((at.max(self.now), self.queued), (host, life, action));
    }

    /// Advances the clock by `span`.
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
    /// If it does not hold within `limit`, or if no step is left.
    pub fn run_until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) {
        let until = self.now + limit;
        while !holds(self) {
            assert!(self.now < until && self.step(), "the condition does not hold within {limit:?}");
        }
    }

    /// Executes the next step. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), (host, life, action))) = self.queue.pop_first() else { return false };
        self.now = at;
        let is_same_life = self.hosts.get(host as usize).is_some_and(|host| host.life == life);
        match action {
            Action::Call(call) => call(self),
            Action::Free(pipe) => self.free(pipe),
            Action::Frame { from, frame, link } => {
                if self.links[&pair(from, host)] == link && self.is_up(host, from) {
                    self.frame(host, from, frame);
                }
            }
            _ if !is_same_life => {}
            Action::Timer(token) => self.handle(host, Input::Timer(token)),
            Action::Command(command) => self.command(host, command),
            Action::DialFailed(identity) => self.handle(host, Input::DialFailed { identity }),
            Action::Wake => {
                self.host_mut(host).wake = None;
                self.transmit(host);
            }
            Action::Dialling(identity) => {
                let known = self.find(&identity);
                let trip = known.map_or(Duration::ZERO, |other| 2 * self.world.path(host, other).latency);
                self.schedule(at + trip, host, Action::Dial(identity));
            }
            Action::Dial(identity) => match self.find(&identity) {
                Some(other) if self.can_reach(host, other) => self.connect(host, other),
                other => {
                    // A port without a listener answers at once; a dial into a partition times out.
                    let is_alive = other.is_some_and(|other| self.is_alive(other));
                    let wait = Duration::from_millis(if is_alive { 1_000 } else { 1 });
                    self.schedule(at + wait, host, Action::DialFailed(identity));
                }
            },
        }
        true
    }

    // ---- frames ----

    /// Offers room to the outbox of a host until it has nothing to send or all pipes are full.
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
            // The first write arms the throttle; all frames written until it fires leave then.
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
        self.schedule(arrives, to, Action::Frame { from, frame, link });
    }

    /// Makes a host wait for room in a pipe.
    fn wait(&mut self, host: u32, pipe: (u32, u32)) {
        let state = self.pipes.entry(pipe).or_default();
        if !state.waiting.contains(&host) {
            state.waiting.push_back(host);
        }
        if !std::mem::replace(&mut state.is_armed, true) {
            let at = self.now + state.until.since(self.now).saturating_sub(state.ahead);
            self.schedule(at, 0, Action::Free(pipe));
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

    /// Makes a host wait for the next copy that its outbox holds back.
    fn sleep(&mut self, host: u32) {
        let state = self.host_mut(host);
        let next = state.node.outbox.next_wake();
        if let Some(at) = next.filter(|at| state.wake.is_none_or(|wake| *at < wake)) {
            state.wake = Some(at);
            self.schedule(at, host, Action::Wake);
        }
    }
}
