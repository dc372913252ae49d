//! Simulates hosts through windows of time, on one or more threads.

use std::any::Any;
use std::ops::{Deref, DerefMut, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::Duration;

use samara_engine::hostile::{Forge, Misconduct};
use samara_engine::{Engine, Frame, FrameCodec, MessageKey, Outbox, Time, lock};

use crate::config::{DownlinkQueue, HostConfig, LATENCY_FLOOR, NicDiscipline, SimConfig};
use crate::distributed::{RankError, Ranks};
use crate::error::ConfigError;
use crate::explain::{Arrivals, Contents, Describe, Explained, Recorder};
use crate::gateway::{Gate, GateStats, gate_of};
use crate::host::{Action, Host};
use crate::node::{Factory, Node, OTHER_TYPE, Record, Records, Typed};
use crate::packet::{Packet, Stop};
use crate::rival::{RivalKind, RivalStats};
use crate::shard::{Mailbox, Shard};
use crate::stats::{Digest, HostStats};
use crate::transport::{ConnectionStats, Control};
use crate::world::World;

/// Minimum steps per thread before a window runs in parallel. Below it, threads wait for each other
/// longer than they work. On two processors, thresholds from 100 to 400 differ by at most 15 % in
/// time; without a threshold, the first run of `gossip-study` takes 2.4 times as long.
const PARALLEL_THRESHOLD: u64 = 200;
/// Number of parallel windows between two checks of whether threads are worthwhile.
const WINDOWS_SHARED: u64 = 256;

/// Creates a node: its engine and an empty outbox. Called once for every host, and again when a
/// host restarts.
pub type NodeFactory<N> = Arc<dyn Fn(u32) -> (N, Outbox<<N as Engine>::Frame>) + Send + Sync>;

/// A network of nodes in virtual time.
///
/// ```text
/// Simulation::new -> connect / command / crash ... -> run_until (as often as wanted) -> node, stats, digest
/// ```
pub struct Simulation<N: Engine> {
    any: AnySimulation<N::Frame>,
    /// Events of the nodes, by shard.
    pub(crate) records: Vec<Records<N::Event>>,
    /// The false frames of hosts under two kinds of [`Misconduct`].
    forge: Arc<OnceLock<Forge<N::Frame>>>,
    checks: Arc<AtomicBool>,
    /// [`merge`], compiled where the simulation was created.
    merge: Merge<N::Event>,
}

type Merge<E> = fn(&[Records<E>], &mut Vec<Record<E>>);

/// A [`Simulation`] of nodes of any type that exchange these frames.
pub struct AnySimulation<F: Frame> {
    world: World<F>,
    shards: Vec<Shard<F>>,
    compiled: Compiled<F>,
    started: bool,
    now: u64,
    /// True while windows have enough work for several threads.
    is_busy: bool,
    /// False with one shard, and after the system has refused to start a thread.
    has_threads: bool,
    parallel_threshold: u64,
    /// Number of links that [`establish`](Self::establish) created at hosts of other processes, by
    /// host. Empty if there are no such hosts.
    remote_links: Vec<u32>,
}

/// Functions compiled in the crate that creates the simulation, at its optimisation level. Optimised
/// crates share no instances of generic functions, so that each caller would compile its own.
struct Compiled<F: Frame> {
    next_of_shard: fn(&Shard<F>) -> u64,
    start_shard: fn(&mut Shard<F>, &World<F>),
    run_shard: fn(&mut Shard<F>, u64, &World<F>),
    take_mail: fn(&mut Shard<F>, &World<F>),
    slot_of: fn(&mut Host<F>, u32, &World<F>) -> u32,
    exchange: Exchange<F>,
}

pub(crate) type Exchange<F> =
    fn(&mut AnySimulation<F>, &mut dyn Ranks, &dyn FrameCodec<F>) -> Result<(), RankError>;

impl<N: Engine> Simulation<N> {
    /// Creates a network of hosts without links. `factory` creates the node of each host, and a new
    /// one when a host restarts.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be simulated.
    pub fn new(
        config: SimConfig,
        hosts: Vec<HostConfig>,
        factory: NodeFactory<N>,
    ) -> Result<Self, ConfigError> {
        let all = 0..hosts.len() as u32;
        Self::with_local_hosts(config, hosts, factory, all)
    }

    /// Creates the local part of a network whose other hosts are simulated by other processes: see
    /// [`run_until_distributed`](Self::run_until_distributed). Actions of other hosts are ignored;
    /// accessing one of them panics.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be simulated. With several processes, this
    /// includes connections with layers of their own, and gateways.
    pub fn with_local_hosts(
        config: SimConfig,
        hosts: Vec<HostConfig>,
        factory: NodeFactory<N>,
        local: Range<u32>,
    ) -> Result<Self, ConfigError> {
        // The maximum number of shards.
        let records: Vec<Records<N::Event>> = (0..config.threads.max(1)).map(|_| Arc::default()).collect();
        let (of_shard, forge) = (records.clone(), Arc::default());
        let (of_nodes, checks) = (Arc::clone(&forge), Arc::<AtomicBool>::default());
        let checked = Arc::clone(&checks);
        let node = move |host, shard: usize| -> Box<dyn Node<N::Frame>> {
            let ((engine, outbox), records) = (factory(host), Arc::clone(&of_shard[shard]));
            let (events, forge, checks) = (Vec::new(), Arc::clone(&of_nodes), Arc::clone(&checked));
            Box::new(Typed { host, engine, outbox, events, records, hostile: None, forge, checks })
        };
        let any = AnySimulation::new(config, hosts, Box::new(node), local)?;
        Ok(Self { any, records, forge, checks, merge })
    }

    /// Passes a command to a node at a time. The command is lost if the node is down then.
    pub fn command(&mut self, at: Time, host: u32, command: N::Command) {
        self.schedule(at, host, Action::Command(Box::new(command)));
    }

    /// Sets, once and before the first misconduct, which false frame hosts send in place of another one
    /// under [`Misconduct::Claim`] and [`Misconduct::Invent`]. Without it, frames stay as they are.
    pub fn set_forge(&mut self, forge: Forge<N::Frame>) {
        let _ = self.forge.set(forge);
    }

    /// Lets every engine check its invariants after each input ([`Engine::assert_invariants`]).
    pub fn check_invariants(&mut self) {
        self.checks.store(true, Ordering::Relaxed);
    }

    /// Simulates everything before `until` and passes the events of nodes to `observer`, ordered by
    /// time and then by host.
    pub fn run_until(&mut self, until: Time, mut observer: impl FnMut(Record<N::Event>)) {
        self.any.run(until.as_nanos(), &mut hand_over(self.merge, &self.records, &mut observer));
    }

    /// Like [`run_until`](Self::run_until), in step with the other processes, which all call it
    /// with the same time. The observer gets the records of the local hosts.
    ///
    /// # Errors
    /// Returns an error if another process is gone.
    ///
    /// # Panics
    /// If the hosts of the processes are not those of [`hosts_of_rank`](crate::hosts_of_rank).
    pub fn run_until_distributed(
        &mut self,
        until: Time,
        ranks: &mut dyn Ranks,
        codec: &dyn FrameCodec<N::Frame>,
        mut observer: impl FnMut(Record<N::Event>),
    ) -> Result<(), RankError> {
        let each_window = &mut hand_over(self.merge, &self.records, &mut observer);
        self.any.run_distributed(until.as_nanos(), ranks, codec, each_window)
    }

    /// Returns the engine of a host.
    pub fn node(&self, host: u32) -> &N {
        &self.typed(host).engine
    }

    /// Returns the outbox of a host.
    pub fn outbox(&self, host: u32) -> &Outbox<N::Frame> {
        &self.typed(host).outbox
    }

    fn typed(&self, host: u32) -> &Typed<N> {
        let node: &dyn Any = &*self.host(host).node;
        match node.downcast_ref() {
            Some(typed) => typed,
            None => unreachable!("{OTHER_TYPE}"),
        }
    }
}

impl<N: Engine> Deref for Simulation<N> {
    type Target = AnySimulation<N::Frame>;

    fn deref(&self) -> &AnySimulation<N::Frame> {
        &self.any
    }
}

impl<N: Engine> DerefMut for Simulation<N> {
    fn deref_mut(&mut self) -> &mut AnySimulation<N::Frame> {
        &mut self.any
    }
}

/// Passes on the records of each window in the order of [`merge`].
fn hand_over<E>(
    merge: Merge<E>,
    records: &[Records<E>],
    observer: &mut dyn FnMut(Record<E>),
) -> impl FnMut() {
    let mut merged = Vec::new();
    move || {
        merge(records, &mut merged);
        merged.drain(..).for_each(&mut *observer);
    }
}

/// Takes the records of a window, ordered by time, then host, then the order in which the host
/// emitted them.
fn merge<E>(records: &[Records<E>], merged: &mut Vec<Record<E>>) {
    records.iter().for_each(|of_shard| merged.append(&mut lock(of_shard)));
    merged.sort_by_key(|record| (record.at, record.host));
}

impl<F: Frame> AnySimulation<F> {
    fn new(
        mut config: SimConfig,
        hosts: Vec<HostConfig>,
        factory: Factory<F>,
        local: Range<u32>,
    ) -> Result<Self, ConfigError> {
        crate::error::check(&config, &hosts)?;
        if matches!(config.transport.control, Control::Ideal) {
            // Nothing sends a packet again: a full queue would lose data that then arrives anyway.
            config.downlink_queue = DownlinkQueue::DropTail { bytes: u64::MAX };
            if matches!(config.nic, NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_)) {
                config.nic = NicDiscipline::RoundRobin;
            }
            config.network.gateways.iter_mut().for_each(|gateway| gateway.queue = config.downlink_queue);
        }
        let is_whole = local.len() == hosts.len();
        if !is_whole {
            crate::error::check_local(&config, &hosts, &local)?;
        }
        let threads = if is_whole { config.threads.clamp(1, hosts.len()) } else { 1 };
        let shard_len = local.len().div_ceil(threads);
        let none: Arc<str> = "".into();
        let world = World {
            lookahead: config.network.latency.least().max(LATENCY_FLOOR).as_nanos() as u64,
            protocol: Arc::new(move |_, _| none.clone()),
            identities: (0..hosts.len() as u32).map(crate::world::identity_of).collect(),
            boxes: (0..local.len().div_ceil(shard_len)).map(|_| Mailbox::default()).collect(),
            config,
            hosts,
            factory,
            local,
            shard_len,
        };
        let (starts, end) = (world.local.clone().step_by(shard_len), world.local.end);
        let shards: Vec<Shard<F>> = starts
            .enumerate()
            .map(|(number, first)| Shard::new(number, first..end.min(first + shard_len as u32), &world))
            .collect();
        for host in shards.iter().flat_map(|shard| &shard.hosts) {
            world.config.transport.connection.check_outbox(host.node.config())?;
        }
        let has_threads = shards.len() > 1;
        Ok(Self {
            remote_links: if is_whole { Vec::new() } else { vec![0; world.hosts.len()] },
            world,
            shards,
            compiled: Compiled {
                next_of_shard: Shard::next,
                start_shard: Shard::start,
                run_shard: Shard::run,
                take_mail: Shard::take,
                slot_of: Host::slot,
                exchange: Self::exchange,
            },
            started: false,
            now: 0,
            is_busy: true,
            has_threads,
            parallel_threshold: PARALLEL_THRESHOLD,
        })
    }

    /// Sets the function that returns the protocol of a pair of hosts. The first host is the one
    /// that gets the protocol in its [`PeerInfo`](samara_engine::PeerInfo) of the second one.
    pub fn set_protocol(&mut self, protocol: impl Fn(u32, u32) -> Arc<str> + Send + Sync + 'static) {
        self.world.protocol = Arc::new(protocol);
    }

    /// Sets the minimum steps per thread before a window runs in parallel (default: 200; with 0,
    /// all windows do). Synchronising threads in every window takes longer than a few steps.
    /// Results do not depend on it.
    pub fn set_parallel_threshold(&mut self, steps: u64) {
        self.parallel_threshold = steps;
    }

    /// Records where the time of every copy goes from now on. `contents` returns the items in a frame,
    /// and gets the outbox's key of its message.
    ///
    /// Results do not depend on it. Copies that cross to another process are not recorded.
    pub fn explain(&mut self, contents: impl Fn(&F, Option<MessageKey>) -> Contents + Send + Sync + 'static) {
        let contents: Describe<F> = Arc::new(contents);
        for host in self.shards.iter_mut().flat_map(|shard| &mut shard.hosts) {
            let recorder = Recorder::new(host.fair_uplink.is_some());
            host.explained = Explained::new(recorder, Arc::clone(&contents));
        }
    }

    /// Returns the first arrival of each item at each host, and forgets them. Empty unless the
    /// simulation [records](Self::explain) them.
    pub fn take_arrivals(&mut self) -> Arrivals {
        let hosts = self.shards.iter_mut().flat_map(|shard| &mut shard.hosts);
        let of_host = |host: &mut Host<F>| host.explained.note(Recorder::take_arrivals).unwrap_or_default();
        Arrivals::new(hosts.map(of_host))
    }

    /// Makes `dialler` dial `listener` at a time; the handshake takes its round trips.
    pub fn dial(&mut self, at: Time, dialler: u32, listener: u32) {
        self.schedule(at, dialler, Action::Dial(listener));
    }

    /// Brings a link up at both ends at a time, without a handshake. With several processes, a pair
    /// of hosts may get only one such link, before the simulation runs and in the same order in all
    /// processes.
    pub fn establish(&mut self, at: Time, dialler: u32, listener: u32) {
        let mut slot_at = |host: u32, peer: u32| match self.world.place(host) {
            Some((shard, index)) => {
                (self.compiled.slot_of)(&mut self.shards[shard].hosts[index], peer, &self.world)
            }
            None => {
                let links = &mut self.remote_links[host as usize];
                *links += 1;
                *links - 1
            }
        };
        let here = slot_at(dialler, listener);
        let there = slot_at(listener, dialler);
        let end = |peer, slot, peer_slot, outbound| Action::Establish { peer, peer_slot, slot, outbound };
        self.schedule(at, dialler, end(listener, here, there, true));
        self.schedule(at, listener, end(dialler, there, here, false));
    }

    /// Ends the process of a host. The operating system notifies its peers at once. If the host
    /// itself dies (`silent`), the peers notice after the timeout of the transport for dead peers.
    pub fn crash(&mut self, at: Time, host: u32, silent: bool) {
        self.schedule(at, host, Action::Crash { silent });
    }

    /// Restarts a crashed host with a new node, which dials all peers that the old one was set up
    /// with.
    pub fn restart(&mut self, at: Time, host: u32) {
        self.schedule(at, host, Action::Restart);
    }

    /// Makes a host lose its link to another one at a time, and dial it again at once. The other host
    /// notices at once, like after a reset. If `silent`, it keeps its end of the old link until the
    /// new one comes, like after a change of address or behind a router that has lost its state.
    /// Frames in flight are lost. Without a link, nothing happens.
    pub fn reconnect(&mut self, at: Time, host: u32, peer: u32, silent: bool) {
        self.schedule(at, host, Action::Reconnect { peer, silent });
    }

    /// Loses everything that a host sends to another one from one time until another, in this
    /// direction only. Transports send it again; see [`HostStats`]'s drops by partitions.
    pub fn cut(&mut self, at: Time, until: Time, from: u32, to: u32) {
        self.schedule(at, from, Action::Cut { peer: to, until: until.as_nanos() });
    }

    /// Changes the rates of a host, in bits per second.
    pub fn set_rates(&mut self, at: Time, host: u32, uplink_bps: u64, downlink_bps: u64) {
        self.schedule(at, host, Action::SetRates { uplink_bps, downlink_bps });
    }

    /// Lets somebody in the house of a host use its uplink queue, from a time on and until another, over
    /// a path with this latency in one direction. Needs a queue behind the host.
    pub fn add_rival(&mut self, at: Time, until: Time, host: u32, kind: RivalKind, latency: Duration) {
        let (until, latency) = (until.as_nanos(), latency.as_nanos() as u64);
        self.schedule(at, host, Action::Rival { kind, until, latency });
    }

    /// Makes a host break the rules in a way from a time on; a strength of 0 ends it. The strength is
    /// the share of frames, or with [`Misconduct::Flood`] and [`Misconduct::Invent`] the number of frames
    /// for each received one. A restarted host keeps the rules.
    pub fn misbehave(&mut self, at: Time, host: u32, what: Misconduct, strength: f64) {
        self.schedule(at, host, Action::Misbehave { what, strength });
    }

    fn schedule(&mut self, at: Time, host: u32, action: Action) {
        let at = at.as_nanos().max(self.now);
        let Some((shard, index)) = self.world.place(host) else { return };
        let shard = &mut self.shards[shard];
        shard.hosts[index].schedule(at, action);
        shard.next_at[index] = shard.next_at[index].min(at);
    }

    /// Simulates everything before `until`.
    fn run(&mut self, until: u64, each_window: &mut dyn FnMut()) {
        if self.start_hosts() {
            each_window();
        }
        while self.next() < until {
            if self.is_busy && self.has_threads {
                self.run_threads(until, each_window);
            } else {
                self.run_alone(until, each_window);
            }
        }
        self.reach(until);
    }

    pub(crate) fn reach(&mut self, until: u64) {
        self.now = self.now.max(until);
    }

    /// Starts the hosts, unless they have been started.
    pub(crate) fn start_hosts(&mut self) -> bool {
        if std::mem::replace(&mut self.started, true) {
            return false;
        }
        self.shards.iter_mut().for_each(|shard| (self.compiled.start_shard)(shard, &self.world));
        self.shards.iter_mut().for_each(|shard| (self.compiled.take_mail)(shard, &self.world));
        true
    }

    /// Returns the time of the next event at the hosts of this process.
    pub(crate) fn next(&self) -> u64 {
        self.shards.iter().map(self.compiled.next_of_shard).min().unwrap_or(u64::MAX)
    }

    /// Simulates the window that starts at `start` on this thread.
    pub(crate) fn run_window(&mut self, start: u64, until: u64) {
        let end = start.saturating_add(self.world.lookahead).min(until);
        self.shards.iter_mut().for_each(|shard| (self.compiled.run_shard)(shard, end, &self.world));
        self.shards.iter_mut().for_each(|shard| (self.compiled.take_mail)(shard, &self.world));
    }

    /// [`exchange`](Self::exchange), compiled where the simulation was created.
    pub(crate) fn exchange_compiled(&self) -> Exchange<F> {
        self.compiled.exchange
    }

    pub(crate) fn take_remote(&mut self) -> Vec<Packet<F>> {
        std::mem::take(&mut self.shards[0].remote)
    }

    pub(crate) fn take_packet(&mut self, packet: Packet<F>) {
        self.shards[0].post(packet, &self.world);
    }

    /// Returns the range of hosts that this process simulates.
    pub fn local_hosts(&self) -> Range<u32> {
        self.world.local.clone()
    }

    pub(crate) fn world_size(&self) -> u32 {
        self.world.hosts.len() as u32
    }

    /// Simulates on this thread until windows have enough work for several threads.
    fn run_alone(&mut self, until: u64, each_window: &mut dyn FnMut()) {
        let many = 2 * self.parallel_threshold * self.shards.len() as u64;
        loop {
            let (start, steps) = (self.next(), self.shard_steps());
            if start >= until {
                return;
            }
            self.run_window(start, until);
            each_window();
            if self.has_threads && self.shard_steps() - steps >= many {
                self.is_busy = true;
                return;
            }
        }
    }

    fn shard_steps(&self) -> u64 {
        self.shards.iter().map(|shard| shard.steps).sum()
    }

    /// Simulates a number of windows on several threads. Every thread runs its shard through the
    /// window, then takes the packets of other shards. Meanwhile the first thread passes on the
    /// records. If the system starts too few threads, nothing is simulated, and this thread continues
    /// alone.
    fn run_threads(&mut self, until: u64, each_window: &mut dyn FnMut()) {
        let (count, world) = (self.shards.len(), &self.world);
        let Compiled { next_of_shard, run_shard, take_mail, .. } = self.compiled;
        let barrier = Barrier::new(count);
        let next: Vec<AtomicU64> =
            self.shards.iter().map(|shard| AtomicU64::new(next_of_shard(shard))).collect();
        let windows = AtomicU64::new(0);
        let steps = self.shard_steps();
        // A panic of an engine must not leave the other threads at the barrier. All of them end with
        // the window in which it happened.
        let failed_in = AtomicU64::new(u64::MAX);
        let panic = Mutex::new(None);
        let guarded = |window: u64, part: &mut dyn FnMut()| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(part)) {
                lock(&panic).get_or_insert(payload);
                failed_in.fetch_min(window, Ordering::SeqCst);
            }
        };

        let work = |index: usize, shard: &mut Shard<F>, each_window: &mut dyn FnMut()| {
            for window in 0..WINDOWS_SHARED {
                let start = next.iter().map(|next| next.load(Ordering::SeqCst)).min().unwrap_or(u64::MAX);
                if start >= until {
                    return;
                }
                let end = start.saturating_add(world.lookahead).min(until);
                guarded(window, &mut || run_shard(shard, end, world));
                barrier.wait();
                guarded(window, &mut || {
                    take_mail(shard, world);
                    next[index].store(next_of_shard(shard), Ordering::SeqCst);
                    each_window();
                });
                barrier.wait();
                if failed_in.load(Ordering::SeqCst) <= window {
                    return;
                }
            }
        };

        // Windows need all threads, so each waits until all have started.
        let all_started = OnceLock::new();
        let is_whole = std::thread::scope(|scope| {
            let mut shards = self.shards.iter_mut().enumerate();
            let first = shards.next();
            let is_whole = shards.all(|(index, shard)| {
                let (work, all_started) = (&work, &all_started);
                let worker = move || {
                    if *all_started.wait() {
                        work(index, shard, &mut || {});
                    }
                };
                std::thread::Builder::new().spawn_scoped(scope, worker).is_ok()
            });
            all_started.get_or_init(|| is_whole);
            if let Some((index, shard)) = first.filter(|_| is_whole) {
                work(index, shard, &mut || {
                    windows.fetch_add(1, Ordering::Relaxed);
                    each_window();
                });
            }
            is_whole
        });
        if !is_whole {
            (self.has_threads, self.is_busy) = (false, false);
            return;
        }
        if let Some(payload) = lock(&panic).take() {
            resume_unwind(payload);
        }
        let many = windows.into_inner() * self.parallel_threshold * count as u64;
        self.is_busy = self.shard_steps() - steps >= many;
    }

    /// Returns the time up to which everything has been simulated.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Returns true if the host's process runs.
    pub fn is_running(&self, host: u32) -> bool {
        self.host(host).running
    }

    /// Returns the host behind a peer handle of another host.
    ///
    /// # Panics
    /// If the host never assigned that handle.
    pub fn peer_of(&self, host: u32, peer: samara_engine::PeerId) -> u32 {
        self.host(host).links[peer.index()].peer
    }

    /// Returns the handle under which a host knows another one, if they ever had a link.
    pub fn handle_of(&self, host: u32, peer: u32) -> Option<samara_engine::PeerId> {
        self.host(host).slot_of.get(&peer).map(|slot| samara_engine::PeerId(*slot))
    }

    /// Returns the congestion window of a host's link in packets.
    ///
    /// # Panics
    /// If the host never assigned that handle.
    pub fn congestion_window(&self, host: u32, peer: samara_engine::PeerId) -> f64 {
        self.host(host).links[peer.index()].end.cwnd()
    }

    /// Returns the counters of a host so far.
    pub fn stats(&self, host: u32) -> &HostStats {
        &self.host(host).stats
    }

    /// Returns what the rivals of a host got so far.
    pub fn rivals(&self, host: u32) -> impl Iterator<Item = RivalStats> {
        let (host, now) = (self.host(host), self.now);
        host.rivals.iter().map(move |rival| rival.stats(now, host.stats.sent))
    }

    /// Returns the counters of a host's connections with channels so far; `None` if there are no
    /// channels.
    pub fn connection_stats(&self, host: u32) -> Option<&ConnectionStats> {
        self.world.config.transport.connection.channels().map(|_| &self.host(host).counts.connections)
    }

    /// Returns the counters of the gateway of a region so far: out of it, and into it. `None` if
    /// there is no such gateway.
    pub fn gateway_stats(&self, region: u16) -> Option<[GateStats; 2]> {
        let gate = |stop| {
            let (number, count) = (gate_of(region, stop), self.shards.len());
            self.shards[number % count].gates.get(number / count).map(Gate::stats)
        };
        Some([gate(Stop::Out)?, gate(Stop::In)?])
    }

    /// Returns the number of steps so far: packets sent, received and forwarded by gateways, and
    /// timers fired.
    pub fn steps(&self) -> u64 {
        let hosts = self.shards.iter().flat_map(|shard| &shard.hosts).map(|host| host.stats.steps);
        let gates = self.shards.iter().flat_map(|shard| &shard.gates).map(Gate::steps);
        hosts.chain(gates).sum()
    }

    /// Returns a digest of every packet that every host received. Two runs with the same digest are
    /// identical.
    pub fn digest(&self) -> u64 {
        digest_of(self.digests())
    }

    /// Returns the digests of the hosts of this process, in their order. [`digest_of`] the digests
    /// of all processes is the digest of the run.
    pub fn digests(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().flat_map(|shard| &shard.hosts).map(|host| host.digest.value())
    }

    fn host(&self, host: u32) -> &Host<F> {
        match self.world.place(host) {
            Some((shard, index)) => &self.shards[shard].hosts[index],
            None => panic!(
                "host {host} is simulated by another process; this one simulates {:?}",
                self.world.local
            ),
        }
    }
}

/// Returns the digest of a run from the digests of its hosts.
pub fn digest_of(hosts: impl IntoIterator<Item = u64>) -> u64 {
    let mut all = Digest::new();
    hosts.into_iter().for_each(|host| all.word(host));
    all.value()
}
