//! Teams that mix batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use samara_engine::Time;
use samara_mix::{Config, Ignored};
use samara_sim::{HostStats, SimConfig, Simulation};

use crate::mix::app::{Act, Costs, Host, Shared};
use crate::mix::measure::Collector;
use crate::network::{self, Hosts};
use crate::run::{Progress, RunError, RunOptions, schedule_faults, since};
use crate::scenario::{FaultKind, Point, Relay, Scenario};

/// How much of the run is simulated between two looks.
const SLICE_NANOS: u64 = 50_000_000;
/// How long a run goes on when all rounds are over, so that the last words arrive.
const DRAIN_NANOS: u64 = 2_000_000_000;

/// What a run with a relay measured.
#[derive(Debug)]
pub struct RelayMeasured {
    /// What was run.
    pub point: Point,
    /// The engine's configuration.
    pub config: Config,
    /// What work took.
    pub costs: Costs,
    /// What hosts told.
    pub told: Collector,
    /// What each node of the pool did from the first payloads to the end of the last round.
    pub traffic: Vec<HostStats>,
    /// The nodes of the pool, and the scheduler.
    pub hosts: Hosts,
    /// When batches began to be handed in, and when all rounds were over, in nanoseconds of the run.
    pub begun: u64,
    /// See `begun`.
    pub over: u64,
    /// What each fault does to whom.
    pub harm: Vec<Harm>,
    /// What real nodes had taken of processors, look by look; empty in simulations, where that is what work takes.
    pub processors: Vec<ProcessorLook>,
    /// What the engines ignored, by cause.
    pub ignored: Vec<(&'static str, u64)>,
    /// Frames of slots that were sent again because a link had broken.
    pub resent_frames: u64,
    /// Frames that an outbox refused.
    pub refused_frames: u64,
    /// The most bytes of slots that a node held at a time.
    pub held_bytes_max: u64,
    /// The digest of every packet.
    pub digest: u64,
    /// Steps of the simulation.
    pub steps: u64,
}

/// What the process of each node of the pool had taken of processors at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorLook {
    /// In nanoseconds of the run.
    pub at: u64,
    /// Nanoseconds of processor, by node, of its process and of those that it had before.
    pub nanos: Vec<u64>,
}

/// A fault that hits a node, and how long it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// Which node.
    pub host: u32,
    /// What.
    pub kind: FaultKind,
    /// From when on, in nanoseconds of the run.
    pub from: u64,
    /// Until when others can be without it: whoever looks for it tries again after the longest pause between two attempts at the latest.
    /// `u64::MAX` if for ever.
    pub until: u64,
}

/// Runs a point.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: impl FnMut(Progress),
    rounds: impl FnMut(&Collector),
) -> Result<RelayMeasured, RunError> {
    let (scenario, seed) = (&point.scenario, point.seed);
    let relay = scenario.relay.clone().unwrap_or_default();
    let nodes = scenario.network.nodes;
    let config = relay.build(&scenario.network);
    let costs = Costs::of(&relay);
    let hosts = network::hosts(scenario, options.inputs, nodes + 1, seed).map_err(RunError::Scenario)?;
    let sim_config = SimConfig {
        seed,
        threads: options.threads,
        network: network::network(scenario, &hosts, seed),
        transport: network::transport(scenario),
        nic: network::nic(scenario),
        downlink_queue: network::downlink_queue(scenario),
    };
    let shared = Arc::new(Shared::new(config.clone(), costs, seed));
    let factory = {
        let shared = Arc::clone(&shared);
        Arc::new(move |host| Host::new(host, &shared))
    };
    let mut sim = Simulation::new(sim_config, hosts.configs.clone(), factory)
        .map_err(|error| RunError::Scenario(error.to_string()))?;
    schedule_faults(&mut sim, scenario, seed, &hosts);
    let mut watched = Watched::default();
    watch(&mut sim, &relay, nodes, &shared, options, (&mut watched, progress, rounds))?;
    let metrics = || (0..=nodes).map(|host| sim.node(host).metrics());
    let ignored = |cause: Ignored| metrics().map(|metrics| metrics.ignored(cause)).sum::<u64>();
    Ok(RelayMeasured {
        traffic: watched.traffic,
        begun: watched.begun,
        over: watched.over,
        harm: harm(scenario, seed, &config),
        processors: Vec::new(),
        ignored: Ignored::ALL.into_iter().map(|cause| (cause.name(), ignored(cause))).collect(),
        resent_frames: metrics().map(|metrics| metrics.resent_frames).sum(),
        refused_frames: metrics().map(|metrics| metrics.refused_frames).sum(),
        held_bytes_max: metrics().map(|metrics| metrics.held_bytes_max).max().unwrap_or(0),
        digest: sim.digest(),
        steps: sim.steps(),
        told: watched.told,
        point: point.clone(),
        config,
        costs,
        hosts,
    })
}

/// What was seen while a simulation ran.
#[derive(Default)]
struct Watched {
    told: Collector,
    traffic: Vec<HostStats>,
    begun: u64,
    over: u64,
}

/// Simulates until all rounds are over, or none has come any further for longer than all time-outs together.
fn watch(
    sim: &mut Simulation<Host>,
    relay: &Relay,
    nodes: u32,
    shared: &Shared,
    options: RunOptions<'_>,
    (watched, mut progress, mut see): (&mut Watched, impl FnMut(Progress), impl FnMut(&Collector)),
) -> Result<(), RunError> {
    let patience = [
        relay.precomputation_timeout,
        relay.realtime_timeout,
        relay.queue_timeout,
        relay.reconnect_limit,
        relay.reconnect_limit,
    ];
    let patience: u64 = patience.iter().map(|span| span.nanos()).sum();
    let (rounds, stock) = (relay.rounds as usize, relay.stock() as usize);
    let look =
        |sim: &Simulation<Host>| -> Vec<HostStats> { (0..nodes).map(|host| *sim.stats(host)).collect() };
    let mut before: Option<Vec<HostStats>> = None;
    let (mut now, mut last, mut last_at) = (0, (0, 0), 0);
    while watched.told.ended() < rounds && now <= last_at + patience {
        if before.is_none() && watched.told.ready() >= stock {
            before = Some(look(sim));
            watched.begun = now;
            shared.begin();
            (0..nodes).for_each(|host| sim.command(Time::from_nanos(now), host, Act::Begin));
        }
        now += SLICE_NANOS;
        step(sim, now, options, watched)?;
        let reached = (watched.told.ready(), watched.told.ended());
        if reached != last {
            (last, last_at) = (reached, now);
        }
        see(&watched.told);
        progress(Progress {
            share: (reached.0 + reached.1) as f64 / (2 * rounds) as f64,
            virtual_nanos: Some(now),
            deliveries: Some(reached.1 as u64),
            deliveries_expected: Some(rounds as u64),
            copies: None,
            steps: Some(sim.steps()),
        });
    }
    let ends = watched.told.rounds.values().filter_map(|row| row.ended);
    watched.over = ends.max().unwrap_or(now);
    let before = before.unwrap_or_default();
    let after = look(sim);
    watched.traffic = after.iter().enumerate().map(|(host, after)| since(after, before.get(host))).collect();
    step(sim, now + DRAIN_NANOS, options, watched)?;
    see(&watched.told);
    Ok(())
}

fn step(
    sim: &mut Simulation<Host>,
    until: u64,
    options: RunOptions<'_>,
    watched: &mut Watched,
) -> Result<(), RunError> {
    if options.stop.load(Ordering::Relaxed) {
        return Err(RunError::Interrupted);
    }
    sim.run_until(Time::from_nanos(until), |record| watched.told.take(record));
    Ok(())
}

/// What each fault does to whom.
fn harm(scenario: &Scenario, seed: u64, config: &Config) -> Vec<Harm> {
    let pause = config.reconnect.max.as_nanos() as u64;
    let faults = scenario.faults.iter().enumerate();
    let of = faults.flat_map(|(index, fault)| {
        let until = fault.until.map_or(u64::MAX, |until| until.nanos() + pause);
        let hosts = network::hit(scenario, index, seed).into_iter();
        hosts.map(move |host| Harm { host, kind: fault.kind, from: fault.at.nanos(), until })
    });
    of.collect()
}
