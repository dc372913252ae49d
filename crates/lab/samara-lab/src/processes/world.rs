//! The world of processes, as the coordinator sees it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use samara_engine::{NodeRng, Time};
use samara_scenario::{Direction, FaultKind, Point};
use samara_sim::{App, Arrivals, ConnectionStats, FrameCount, GateStats, HostStats, Record};
use serde_json::Value;

use super::limits::transport;
use super::{Brief, Dial, Fleet, Looked, Order, Report, check, check_foreign, line};
use crate::experiment::{Commands, Experiment, Step, World};
use crate::explain::{Delivered, Explained, Frames, ROWS_MAX};
use crate::results::Measured;
use crate::run::{Course, Paths, Progress, Recorded, RunError, RunOptions, Setup, WatchSteps};
use crate::{
    family,
    network::{self, Hosts},
};

/// Time between two looks of the coordinator at the events of the hosts.
const SLICE_NANOS: u64 = 100_000_000;
/// Time in which a command reaches its host, also if the machine is busy.
const LEAD_NANOS: u64 = 200_000_000;
/// Time between two looks at the counters of hosts for those who watch.
const WATCH_NANOS: u64 = 1_000_000_000;
/// Time by which an event may be ahead of the coordinator's clock, which is the same one, and behind
/// the time up to which its host had reported everything.
const CLOCK_NANOS: u64 = 100_000_000;
/// Time in which a host must answer. It answers at once unless the machine is busy.
const ANSWER_NANOS: u64 = 30_000_000_000;

/// Runs a point in processes. Returns the measurements, and how much later than planned each command
/// was carried out, in milliseconds.
pub(crate) fn run_in_processes<E: Experiment>(
    point: &Point,
    options: RunOptions<'_>,
    fleet: &mut dyn Fleet,
    watch: WatchSteps<'_>,
) -> Result<(Box<dyn Measured>, Vec<f64>), RunError> {
    let Course { mut experiment, setup, graph, .. } = Course::<E>::in_processes(point, options)?;
    let checked = check(&point.scenario).and_then(|()| check_foreign(point, |host| fleet.is_foreign(host)));
    checked.map_err(RunError::Failed)?;
    let briefing = Briefing::new(&experiment, &setup, graph.edges, fleet)?;
    let mut world = Processes::<E::App>::new(fleet, &setup, briefing);
    world
        .fleet
        .limit((0..setup.hosts.configs.len() as u32).map(|host| experiment.processors(host)).collect())?;
    let briefs = (0..setup.hosts.configs.len() as u32).map(|host| world.briefing.of(&setup, host, false));
    world.fleet.begin(briefs.collect())?;
    let mut commands = Commands(Vec::new());
    experiment.start(&mut commands);
    loop {
        for (at, host, command) in commands.0.drain(..) {
            world.command(at, host, command)?;
        }
        let until = match experiment.step(&mut world)? {
            Step::Until(until) => until,
            Step::Over => break,
        };
        if options.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let mut wrong = None;
        world.run_until(until, &mut |record| match experiment.wrong(&record) {
            None => experiment.observe(record, &mut commands),
            Some(why) => wrong = wrong.take().or(Some((record.host, why))),
        })?;
        if let Some((host, why)) = wrong {
            return Err(world.fleet.failed(host, &why));
        }
        watch(progress(&experiment, world.now), experiment.state());
    }
    watch(Progress { share: 1.0, ..progress(&experiment, world.now) }, experiment.state());
    let delivered = experiment.delivered();
    let latency = |from, to| network::latency_nanos(&setup.hosts, from, to);
    let down = network::down(setup.scenario(), point.seed);
    let arrivals = std::mem::take(&mut world.frames).arrivals(&delivered, latency).with_down(down);
    let every = (delivered.len() as u64).div_ceil(ROWS_MAX).max(1);
    let paths = |arrivals: &Arrivals, delivered: &[Delivered]| experiment.paths(arrivals, delivered);
    let (has_loops, main) = (experiment.has_loops(), experiment.main_time());
    let explained = Explained::of(arrivals, delivered, paths, has_loops, (every, main));
    let measured: Box<dyn Measured> = Box::new(experiment.measured(&mut world)?);
    if !explained.is_known() {
        return Ok((measured, world.late_ms));
    }
    let paths = Paths::Found(explained);
    Ok((Box::new(Recorded { measured, paths, rivals: Vec::new() }), world.late_ms))
}

fn progress<E: Experiment>(experiment: &E, now: Time) -> Progress {
    Progress { virtual_nanos: Some(now.as_nanos()), ..experiment.progress(now) }
}

/// Checks that programs of others can be hosts of a point.
pub(crate) fn check_briefing<E: Experiment>(point: &Point, options: RunOptions<'_>) -> Result<(), RunError> {
    let Course { experiment, .. } = Course::<E>::in_processes(point, options)?;
    brief(&experiment, 0).map(drop)
}

fn brief<E: Experiment>(experiment: &E, host: u32) -> Result<Value, RunError> {
    experiment
        .brief(host)
        .map_err(|(key, why)| RunError::Failed(if key.is_empty() { why } else { format!("{key}: {why}") }))
}

/// The briefings of programs of others.
struct Briefing {
    edges: Vec<(u32, u32)>,
    /// The random stream for the times of dials.
    rng: NodeRng,
    /// The experiment's brief of each host; `None` for hosts of Samara's.
    applications: Vec<Option<Value>>,
}

impl Briefing {
    fn new<E: Experiment>(
        experiment: &E,
        setup: &Setup<'_>,
        mut edges: Vec<(u32, u32)>,
        fleet: &dyn Fleet,
    ) -> Result<Self, RunError> {
        let mut rng = setup.links_rng();
        edges.extend(experiment.links(&mut rng));
        let of_host = |host| fleet.is_foreign(host).then(|| brief(experiment, host)).transpose();
        let applications = (0..setup.hosts.configs.len() as u32).map(of_host).collect::<Result<_, _>>()?;
        Ok(Self { edges, rng, applications })
    }

    fn of(&self, setup: &Setup<'_>, host: u32, is_restart: bool) -> Option<Brief> {
        let application = self.applications[host as usize].clone()?;
        let layer = family::runs(setup.scenario()).layer;
        let transport = transport(&setup.scenario().transport.kind, layer)?;
        let dials = setup.dials(host, is_restart, self.edges.iter().copied(), &mut self.rng.clone());
        let dials = dials.into_iter().map(|(at, host)| Dial { at_ns: at.as_nanos(), host }).collect();
        Some(Brief { transport, dials, application })
    }
}

/// A fault of a host.
#[derive(Clone, Debug, PartialEq)]
enum Harm {
    Kill {
        is_to_start: bool,
    },
    Freeze,
    Start,
    Reconnect {
        peer: u32,
    },
    /// The ways from and to these hosts fail, or come back.
    Cut {
        from: Vec<u32>,
        to: Vec<u32>,
        is_cut: bool,
    },
    /// The rates of the host are this share of those of the scenario.
    Slow {
        factor: f64,
    },
}

/// Returns what happens to hosts, in the order of time.
fn harms(setup: &Setup<'_>) -> VecDeque<(Time, u32, Harm)> {
    let (scenario, all) = (setup.scenario(), setup.hosts.configs.len() as u32);
    let mut harms = Vec::new();
    for (index, fault) in scenario.faults.iter().enumerate() {
        let at = Time::from_nanos(fault.at.nanos());
        let until = fault.until.map(|until| Time::from_nanos(until.nanos()));
        for host in network::hit(scenario, index, setup.point.seed) {
            match &fault.kind {
                FaultKind::Crash {} | FaultKind::Vanish {} => {
                    let is_to_start = until.is_some();
                    let is_silent = fault.kind == (FaultKind::Vanish {});
                    harms.push((at, host, if is_silent { Harm::Freeze } else { Harm::Kill { is_to_start } }));
                    harms.extend(until.map(|until| (until, host, Harm::Start)));
                }
                // It leaves by a command of its group.
                FaultKind::Leave {} => {
                    if let Some(until) = until {
                        harms.push((until, host, Harm::Kill { is_to_start: true }));
                        harms.push((until, host, Harm::Start));
                    }
                }
                FaultKind::Reset { .. } | FaultKind::Reconnect { .. } => {
                    let peers = network::other_ends(fault, host, all);
                    harms.extend(peers.into_iter().map(|peer| (at, host, Harm::Reconnect { peer })));
                }
                FaultKind::Slow { factor } => {
                    harms.push((at, host, Harm::Slow { factor: *factor }));
                    harms.extend(until.map(|until| (until, host, Harm::Slow { factor: 1.0 })));
                }
                FaultKind::Cut { .. } | FaultKind::Partition {} => {
                    // Those outside of a partition cannot reach those within either.
                    let direction = match &fault.kind {
                        FaultKind::Cut { direction, .. } => *direction,
                        _ => None,
                    };
                    let mut peers = network::other_ends(fault, host, all);
                    if fault.kind == (FaultKind::Partition {}) {
                        let within = network::hit(scenario, index, setup.point.seed);
                        peers.retain(|peer| !within.contains(peer));
                    }
                    let way = |is_wanted: bool| if is_wanted { peers.clone() } else { Vec::new() };
                    let to = way(direction != Some(Direction::In));
                    let from = way(direction != Some(Direction::Out));
                    let cut = |is_cut| Harm::Cut { from: from.clone(), to: to.clone(), is_cut };
                    harms.push((at, host, cut(true)));
                    harms.extend(until.map(|until| (until, host, cut(false))));
                }
                // Hosts know when they break the rules, and rivals are not ours.
                _ => {}
            }
        }
    }
    harms.sort_by_key(|(at, ..)| *at);
    harms.into()
}

/// The counters of a host.
struct Seen<C> {
    is_up: bool,
    /// Those of its current or last process.
    last: Option<Looked<C>>,
    /// Traffic and withdrawn copies of earlier processes.
    before: (HostStats, u64),
    /// Commands that its process has, with their times: another process gets those that are due
    /// later.
    commands: Vec<(Time, String)>,
}

/// A request that hosts must answer once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Sync,
    Look,
}

struct Processes<'a, A: App> {
    fleet: &'a mut dyn Fleet,
    setup: &'a Setup<'a>,
    briefing: Briefing,
    now: Time,
    looked_at: Time,
    hosts: Vec<Seen<A::Counters>>,
    harms: VecDeque<(Time, u32, Harm)>,
    /// Events that nobody has observed yet.
    events: Vec<Record<A::Event>>,
    synced: u64,
    /// Hosts that have not answered the last question, and what it was.
    silent: Vec<u32>,
    asked: Asked,
    late_ms: Vec<f64>,
    frames: Frames,
}

impl<'a, A: App> Processes<'a, A> {
    fn new(fleet: &'a mut dyn Fleet, setup: &'a Setup<'a>, briefing: Briefing) -> Self {
        let host = |_| Seen { is_up: true, last: None, before: Default::default(), commands: Vec::new() };
        Self {
            fleet,
            briefing,
            now: Time::ZERO,
            looked_at: Time::ZERO,
            hosts: (0..setup.hosts.configs.len()).map(host).collect(),
            harms: harms(setup),
            events: Vec::new(),
            synced: 0,
            silent: Vec::new(),
            asked: Asked::Look,
            late_ms: Vec::new(),
            frames: Frames::default(),
            setup,
        }
    }

    /// Waits until a time, and passes on the events until then, ordered by time, then by host.
    fn run_until(&mut self, until: Time, observe: &mut dyn FnMut(Record<A::Event>)) -> Result<(), RunError> {
        while let Some((at, ..)) = self.harms.front()
            && *at <= until
        {
            self.listen_until(*at)?;
            if let Some((_, host, harm)) = self.harms.pop_front() {
                self.harm(host, harm)?;
            }
        }
        self.listen_until(until)?;
        self.synced += 1;
        self.ask_all(Asked::Sync)?;
        self.now = until;
        let mut due: Vec<_> = self.events.extract_if(.., |record| record.at <= until).collect();
        due.sort_by_key(|record| (record.at, record.host));
        due.into_iter().for_each(observe);
        let is_due = until.as_nanos() >= self.looked_at.as_nanos() + WATCH_NANOS;
        if is_due && self.fleet.is_watched() { self.look() } else { Ok(()) }
    }

    fn listen_until(&mut self, until: Time) -> Result<(), RunError> {
        while let Some((host, line)) = self.fleet.heard(until)? {
            self.take(host, &line)?;
        }
        Ok(())
    }

    /// Asks hosts that run, and waits for the answers of all.
    fn ask(&mut self, hosts: Vec<u32>, what: Asked) -> Result<(), RunError> {
        let order = match what {
            Asked::Sync => Order::<A::Command>::Sync(self.synced),
            Asked::Look => Order::Look,
        };
        (self.silent, self.asked) = (hosts, what);
        let order = line(&order)?;
        for host in self.silent.clone() {
            self.fleet.order(host, &order)?;
        }
        let deadline = self.fleet.now().plus_nanos(ANSWER_NANOS);
        while let Some(silent) = self.silent.first().copied() {
            match self.fleet.heard(deadline)? {
                Some((host, line)) => self.take(host, &line)?,
                None => {
                    let why = format!("it did not answer within {} s", ANSWER_NANOS / 1_000_000_000);
                    return Err(self.fleet.failed(silent, &why));
                }
            }
        }
        Ok(())
    }

    fn ask_all(&mut self, what: Asked) -> Result<(), RunError> {
        let up = (0..).zip(&self.hosts).filter(|(_, host)| host.is_up).map(|(number, _)| number).collect();
        self.ask(up, what)
    }

    fn take(&mut self, host: u32, line: &str) -> Result<(), RunError> {
        let report = match serde_json::from_str(line) {
            Ok(report) => report,
            Err(error) => {
                let start: String = line.chars().take(200).collect();
                return Err(self.fleet.failed(host, &format!("it said {start:?}: {error}")));
            }
        };
        let is_asked = self.silent.contains(&host);
        match report {
            Report::Ready { .. } => return Err(self.fleet.failed(host, "it said again that it listens")),
            Report::Event { at_ns, event } => {
                if let Some(why) = self.wrong_time(at_ns) {
                    return Err(self.fleet.failed(host, &why));
                }
                // A process that is about to be killed may tell its last events later.
                let at = Time::from_nanos(at_ns).max(self.now);
                self.events.push(Record { at, host, event });
            }
            Report::Frame(moved) => self.frames.moved(host, &moved),
            Report::Synced(number) if is_asked && self.asked == Asked::Sync && number == self.synced => {
                self.silent.retain(|silent| *silent != host);
            }
            Report::Synced(number) => {
                let why = match self.asked {
                    Asked::Sync if is_asked => format!("it said synced {number}, expected {}", self.synced),
                    _ => format!("it said synced {number}, which nobody asked for"),
                };
                return Err(self.fleet.failed(host, &why));
            }
            Report::Looked(looked) if is_asked && self.asked == Asked::Look => {
                if let Some(why) = wrong_counts(self.hosts[host as usize].last.as_ref(), &looked) {
                    return Err(self.fleet.failed(host, &why));
                }
                self.silent.retain(|silent| *silent != host);
                self.late_ms.extend(looked.late_ns.iter().map(|late| *late as f64 / 1e6));
                self.fleet.looked(host, &traffic_of(&looked), looked.owed);
                self.hosts[host as usize].last = Some(*looked);
            }
            Report::Looked(_) => {
                return Err(self.fleet.failed(host, "it said counters that nobody asked for"));
            }
        }
        Ok(())
    }

    /// Returns what is wrong with the time of an event. Programs of others may count in another unit, or
    /// from another moment.
    fn wrong_time(&self, at_ns: u64) -> Option<String> {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let now = self.fleet.now().as_nanos();
        let what = if at_ns > now.saturating_add(CLOCK_NANOS) {
            format!("although it is {:.3} s", seconds(now))
        } else if at_ns.saturating_add(CLOCK_NANOS) < self.now.as_nanos() {
            format!("after it had said everything until {:.3} s", seconds(self.now.as_nanos()))
        } else {
            return None;
        };
        Some(format!(
            "it tells of {:.3} s of the run, {what}; times are nanoseconds since the begin",
            seconds(at_ns)
        ))
    }

    fn harm(&mut self, host: u32, harm: Harm) -> Result<(), RunError> {
        let is_up = self.hosts[host as usize].is_up;
        match harm {
            Harm::Kill { .. } | Harm::Freeze if is_up => {
                self.ask(vec![host], Asked::Look)?;
                self.hosts[host as usize].is_up = false;
                match harm {
                    Harm::Kill { is_to_start } => self.fleet.kill(host, is_to_start)?,
                    _ => self.fleet.freeze(host)?,
                }
            }
            Harm::Start if !is_up => {
                self.fleet.start(host, self.briefing.of(self.setup, host, true))?;
                let now = self.fleet.now();
                let seen = &mut self.hosts[host as usize];
                seen.is_up = true;
                if let Some(last) = seen.last.take() {
                    let (traffic, withdrawn) = &mut seen.before;
                    *traffic = sum(*traffic, traffic_of(&last));
                    *withdrawn += last.withdrawn;
                }
                seen.commands.retain(|(at, _)| *at > now);
                for (_, line) in seen.commands.clone() {
                    self.fleet.order(host, &line)?;
                }
                // Until it answers, its counters are those of a new process.
                self.ask(vec![host], Asked::Look)?;
            }
            Harm::Reconnect { peer } if is_up => {
                self.fleet.order(host, &line(&Order::<A::Command>::Reconnect { host: peer })?)?;
            }
            Harm::Cut { from, to, is_cut } => {
                let to = to.into_iter().map(|peer| (host, peer));
                let ways: Vec<_> = from.into_iter().map(|peer| (peer, host)).chain(to).collect();
                self.fleet.cut(&ways, is_cut)?;
            }
            Harm::Slow { factor } => {
                let rates = &self.setup.hosts.configs[host as usize];
                let slow = |rate: u64| ((rate as f64 * factor) as u64).max(1);
                self.fleet.set_rates(host, [rates.uplink_bps, rates.downlink_bps].map(slow))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), RunError> {
        self.looked_at = self.now;
        self.ask_all(Asked::Look)
    }
}

/// Returns what is wrong with the counters of a process, whose last ones these are: those of traffic only
/// grow, and JSON of most programs carries no more than 2^53.
fn wrong_counts<C>(last: Option<&Looked<C>>, looked: &Looked<C>) -> Option<String> {
    const MOST: u64 = 1 << 53;
    let named = |looked: &Looked<C>| {
        [
            (stringify!(frames_sent), looked.frames_sent),
            (stringify!(payload_bytes_sent), looked.payload_bytes_sent),
            (stringify!(control_bytes_sent), looked.control_bytes_sent),
            (stringify!(frames_received), looked.frames_received),
            (stringify!(payload_bytes_received), looked.payload_bytes_received),
            (stringify!(control_bytes_received), looked.control_bytes_received),
            (stringify!(bytes_sent), looked.bytes_sent),
            (stringify!(bytes_received), looked.bytes_received),
            (stringify!(withdrawn), looked.withdrawn),
        ]
    };
    let now = named(looked);
    let before = last.map_or_else(|| now.map(|(name, _)| (name, 0)), named);
    now.into_iter().zip(before).find_map(|((name, now), (_, before))| {
        if now > MOST {
            Some(format!("its counter {name} is {now}; expected at most {MOST}"))
        } else if now < before {
            Some(format!("its counter {name} fell from {before} to {now}; it counts since the process began"))
        } else {
            None
        }
    })
}

/// Returns the traffic that the links of a host counted.
fn traffic_of<C>(looked: &Looked<C>) -> HostStats {
    let mut stats = HostStats::default();
    let Looked { frames_sent, payload_bytes_sent, control_bytes_sent, .. } = *looked;
    let (payload_bytes, control_bytes) = (payload_bytes_sent, control_bytes_sent);
    stats.frames_sent = FrameCount { frames: frames_sent, payload_bytes, control_bytes };
    let Looked { frames_received, payload_bytes_received, control_bytes_received, .. } = *looked;
    let (payload_bytes, control_bytes) = (payload_bytes_received, control_bytes_received);
    stats.frames_received = FrameCount { frames: frames_received, payload_bytes, control_bytes };
    stats.sent.bytes = looked.bytes_sent;
    stats.received.bytes = looked.bytes_received;
    stats
}

fn sum(mut one: HostStats, other: HostStats) -> HostStats {
    let add = |one: &mut FrameCount, other: FrameCount| {
        one.frames += other.frames;
        one.payload_bytes += other.payload_bytes;
        one.control_bytes += other.control_bytes;
    };
    add(&mut one.frames_sent, other.frames_sent);
    add(&mut one.frames_received, other.frames_received);
    one.sent += other.sent;
    one.received += other.received;
    one
}

impl<A: App> World<A> for Processes<'_, A> {
    fn now(&self) -> Time {
        self.now
    }

    fn setting(&self) -> (&Point, &Hosts) {
        (self.setup.point, &self.setup.hosts)
    }

    fn slice_nanos(&self) -> u64 {
        SLICE_NANOS
    }

    fn lead_nanos(&self) -> u64 {
        LEAD_NANOS
    }

    fn command(&mut self, at: Time, host: u32, command: A::Command) -> Result<(), RunError> {
        let order = line(&Order::Command { at_ns: at.as_nanos(), command })?;
        let Some(seen) = self.hosts.get_mut(host as usize) else {
            let hosts = self.hosts.len() - 1;
            return Err(RunError::Failed(format!(
                "a command goes to host {host}, but the hosts are 0 to {hosts}"
            )));
        };
        if seen.is_up {
            self.fleet.order(host, &order)?;
        }
        seen.commands.push((at, order));
        Ok(())
    }

    fn counters(&mut self) -> Result<Vec<A::Counters>, RunError> {
        self.look()?;
        Ok(self.hosts.iter().filter_map(|host| Some(host.last.as_ref()?.counters.clone())).collect())
    }

    fn traffic(&mut self) -> Result<Vec<HostStats>, RunError> {
        self.look()?;
        let of_links = |host: &Seen<A::Counters>| {
            let last = host.last.as_ref().map_or_else(HostStats::default, traffic_of);
            // The last process of a host that is down counts until another one starts.
            sum(host.before.0, last)
        };
        let mut all: Vec<HostStats> = self.hosts.iter().map(of_links).collect();
        if let Some(packets) = self.fleet.packets()? {
            let rates = self.setup.hosts.configs.iter().map(|host| host.uplink_bps);
            for ((stats, packets), bps) in all.iter_mut().zip(packets).zip(rates) {
                (stats.sent, stats.received, stats.drops) = (packets.sent, packets.received, packets.drops);
                let busy = u128::from(stats.sent.bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1));
                stats.uplink_busy_nanos = busy as u64;
            }
        }
        Ok(all)
    }

    fn confine(&mut self) -> Result<(), RunError> {
        self.fleet.confine()
    }

    fn processors(&mut self) -> Result<Option<Vec<u64>>, RunError> {
        self.fleet.processors()
    }

    fn withdrawn(&mut self) -> Result<u64, RunError> {
        self.look()?;
        let of =
            |host: &Seen<A::Counters>| host.before.1 + host.last.as_ref().map_or(0, |last| last.withdrawn);
        Ok(self.hosts.iter().map(of).sum())
    }

    fn windows(&mut self, _: u32) -> Result<Vec<f64>, RunError> {
        Ok(Vec::new())
    }

    fn connections(&self) -> Vec<Option<ConnectionStats>> {
        self.hosts.iter().map(|_| None).collect()
    }

    fn gateways(&mut self) -> Result<Vec<[GateStats; 2]>, RunError> {
        self.fleet.gateways()
    }

    fn digest(&mut self) -> Result<(u64, u64), RunError> {
        Ok((0, 0))
    }
}
