//! Virtual time goes by, figures come out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samara_engine::outbox::Lane;
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{HostConfig, Record, Simulation};

use super::{Job, RunError, cpu_seconds, engine, faults, setup, world};
use crate::bounds;
use crate::jobs::columns::{Blocks, ColumnsCommand, ColumnsEvent, ColumnsNode};
use crate::measure::{Collector, Delivery, Drops, Metrics, NodeTraffic, Totals};
use crate::scenario::{Columns, Established, Workload};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// The end of the run at the latest.
    pub end: Time,
}

/// What whoever starts a run can decide.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Threads within the simulation. Results do not depend on it.
    pub threads: usize,
    /// Set to have the run end with [`RunError::Interrupted`].
    pub stop: &'a AtomicBool,
    /// Told now and then how far the run is.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// A run that came to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What was run.
    pub job: Job,
    /// The figures.
    pub metrics: Metrics,
    /// By measured slot, node and column; the publisher's own are in it.
    pub deliveries: Vec<Delivery>,
    /// By node, from the first publication on.
    pub traffic: Vec<NodeTraffic>,
    /// Tells runs apart: two runs with the same digest had the same deliveries.
    pub digest: u64,
    /// Hosts.
    pub nodes: u32,
    /// Packets sent and received and timers fired.
    pub steps: u64,
    /// Time on the clock.
    pub wall_s: f64,
    /// CPU time of the process meanwhile: other runs at the same time count too.
    pub cpu_s: f64,
    /// Virtual time at the end.
    pub virtual_s: f64,
    /// Least bytes on the wire of one copy of a message.
    pub copy_bytes: u64,
    /// The publishing node.
    pub publisher: u32,
    /// By node: its class, an index into `classes`.
    pub class_of: Vec<u16>,
    /// By node: its region, an index into `regions`.
    pub region_of: Vec<u16>,
    /// The names of classes; the first one is of hosts that are of none.
    pub classes: Vec<String>,
    /// The names of regions; empty if there are none.
    pub regions: Vec<String>,
    /// What had to be adapted to run the scenario, for people to read.
    pub notes: Vec<String>,
}

/// How often progress is told and the end is looked for, in virtual time.
const SLICE: Duration = Duration::from_millis(100);
/// A slot whose messages everybody has is over when no copy has come for so long: until then the copies that are still
/// owed go on to count as duplicates.
const QUIET: Duration = Duration::from_secs(1);

/// Does a job.
///
/// # Errors
/// The network or the protocol cannot be set up as the scenario says, nothing could be published, or the run was stopped.
pub fn execute(job: &Job, control: &Control<'_>) -> Result<Finished, RunError> {
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let mut run = Run::new(job, control)?;
    run.simulate(control)?;
    let mut finished = run.finish();
    finished.wall_s = started.elapsed().as_secs_f64();
    finished.cpu_s = cpu_seconds() - cpu;
    Ok(finished)
}

struct Run<'a> {
    job: &'a Job,
    workload: &'a Columns,
    sim: Simulation<ColumnsNode>,
    collector: Collector,
    published_at: Vec<Time>,
    not_published: Vec<usize>,
    before: Vec<NodeTraffic>,
    rates: Vec<HostConfig>,
    class_of: Vec<u16>,
    region_of: Vec<u16>,
    classes: Vec<String>,
    regions: Vec<String>,
    observer: Option<u32>,
    notes: Vec<String>,
    lower_bound_ms: f64,
    copy_bytes: u64,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job, control: &Control<'_>) -> Result<Self, RunError> {
        let (scenario, seed) = (&job.run.scenario, job.seed);
        let Workload::Columns(workload) = &scenario.workload;
        let published_at: Vec<Time> =
            workload.publications().map(|at| Time::from_nanos(at.nanos())).collect();
        let (config, world, faults) = world::world(job, control.threads)?;
        let parameters = engine::config(&scenario.gossipsub);
        let (columns, bytes) = (workload.columns as u16, workload.column_bytes() as usize);
        let slots = published_at.len() as u16;
        let blocks = Arc::new(Blocks::new(seed, columns, bytes, slots, &parameters.message_id));
        let limits = setup::limits(&config, &world, &blocks);
        let mut awaited = world.custody.to_vec();
        world.observer.iter().for_each(|observer| awaited[*observer as usize].clear());
        let lower_bound_ms = bounds::mean_time_to_custody_ms(&awaited, world.publisher, &limits);
        let factory = setup::factory(&scenario.gossipsub, workload, &world, parameters, &blocks)?;
        let mut sim = Simulation::new(config, world.rates.clone(), factory)?;
        connect(&mut sim, scenario.transport.established, seed, &world.edges);
        faults::schedule(&mut sim, &faults, &world.rates);
        for (slot, at) in published_at.iter().enumerate() {
            sim.command(*at, world.publisher, ColumnsCommand::Publish { slot: slot as u16 });
        }
        Ok(Self {
            job,
            workload,
            sim,
            collector: Collector::new(&world.custody, world.publisher, world.observer, published_at.clone()),
            not_published: vec![0; published_at.len()],
            published_at,
            before: Vec::new(),
            rates: world.rates,
            class_of: world.class_of,
            region_of: world.region_of,
            classes: world.classes,
            regions: world.regions,
            observer: world.observer,
            notes: world.notes,
            lower_bound_ms,
            copy_bytes: limits.copy_bytes,
        })
    }

    /// The slots that only warm connections up.
    fn warm_up_slots(&self) -> usize {
        self.workload.warm_up_slots as usize
    }

    fn simulate(&mut self, control: &Control<'_>) -> Result<(), RunError> {
        let about = &self.job.run.scenario.scenario;
        let last = self.published_at.len() - 1;
        let latest = self.published_at[last] + self.workload.deadline.duration();
        let end = about.duration.map_or(latest, |duration| (Time::ZERO + duration.duration()).min(latest));
        self.advance(self.published_at[self.warm_up_slots()].min(end), end, control)?;
        self.before = self.traffic();
        while self.sim.now() < end {
            self.advance((self.sim.now() + SLICE).min(end), end, control)?;
            if let Some(slot) = self.not_published.iter().position(|columns| *columns > 0) {
                return Err(RunError::NotPublished { slot: slot as u16, columns: self.not_published[slot] });
            }
            let quiet = self.sim.now().since(self.collector.last_copy_at()) >= QUIET;
            let all_published = self.sim.now() > self.published_at[last];
            if about.stop_when_complete
                && all_published
                && (0..=last).all(|slot| self.collector.is_complete(slot))
                && quiet
            {
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self, until: Time, end: Time, control: &Control<'_>) -> Result<(), RunError> {
        while self.sim.now() < until {
            if control.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let next = (self.sim.now() + SLICE).min(until);
            let (collector, not_published) = (&mut self.collector, &mut self.not_published);
            self.sim.run_until(next, |Record { at, host, event }| match event {
                ColumnsEvent::Delivered { column, from } => {
                    collector.delivered(at, host, column.slot, column.column, from);
                }
                ColumnsEvent::Copy { column } => collector.copy(at, host, column.slot, column.column),
                ColumnsEvent::NotPublished { column } => not_published[usize::from(column.slot)] += 1,
            });
            (control.progress)(Progress { now: self.sim.now(), end });
        }
        Ok(())
    }

    /// What all nodes did since the start.
    fn traffic(&self) -> Vec<NodeTraffic> {
        let hosts = self.rates.iter().enumerate();
        hosts.map(|(host, rates)| traffic_of(&self.sim, host as u32, *rates)).collect()
    }

    fn finish(self) -> Finished {
        let now = self.traffic();
        let traffic: Vec<NodeTraffic> =
            now.iter().zip(&self.before).map(|(now, before)| now.since(before)).collect();
        let (digest, publisher) = (self.collector.digest(), self.collector.publisher());
        let skipped = self.warm_up_slots();
        let measured_from = self.published_at[skipped];
        let mut deliveries = self.collector.into_deliveries();
        let deadline = self.workload.deadline.nanos();
        deliveries.retain_mut(|delivery| {
            // Whatever comes after the deadline has not come in time.
            if delivery.after_nanos > deadline {
                delivery.after_nanos = Delivery::NEVER;
            }
            let measured = usize::from(delivery.slot) >= skipped;
            if measured {
                delivery.slot -= skipped as u16;
            }
            // An observer is not one of those that the block is for.
            measured && Some(delivery.node) != self.observer
        });
        let metrics = Totals {
            deliveries: &deliveries,
            traffic: &traffic,
            publisher,
            slots: self.workload.slots as u16,
            message_bytes: self.workload.column_bytes(),
            watched_nanos: self.sim.now().since(measured_from).as_nanos() as u64,
            lower_bound_ms: self.lower_bound_ms,
        }
        .metrics();
        Finished {
            job: self.job.clone(),
            metrics,
            traffic,
            digest,
            nodes: self.rates.len() as u32,
            steps: self.sim.steps(),
            wall_s: 0.0,
            cpu_s: 0.0,
            virtual_s: self.sim.now().as_secs_f64(),
            copy_bytes: self.copy_bytes,
            publisher,
            class_of: self.class_of,
            region_of: self.region_of,
            classes: self.classes,
            regions: self.regions,
            notes: self.notes,
            deliveries,
        }
    }
}

/// Brings up all links: at once, or by dials at random times.
fn connect(sim: &mut Simulation<ColumnsNode>, established: Established, seed: u64, edges: &[(u32, u32)]) {
    let mut rng = NodeRng::new(seed, DIALS, Purpose::Network);
    for (dialler, listener) in edges {
        match established {
            Established::AtStart => sim.establish(Time::ZERO, *dialler, *listener),
            Established::Dialled { from, until } => {
                let span = until.nanos().saturating_sub(from.nanos());
                let at = Time::from_nanos(from.nanos()).plus_nanos(rng.below(span.max(1)));
                sim.dial(at, *dialler, *listener);
            }
        }
    }
}

/// The stream of random numbers for the times of dials: beyond those of hosts and pairs of hosts.
const DIALS: u64 = u64::MAX;

fn traffic_of(sim: &Simulation<ColumnsNode>, host: u32, rates: HostConfig) -> NodeTraffic {
    let (stats, outbox) = (sim.stats(host), sim.outbox(host));
    let lanes = (0..outbox.config().lanes.len()).map(|lane| outbox.counters(Lane(lane as u8)));
    let mut traffic = NodeTraffic {
        bytes_up: stats.sent.bytes,
        bytes_down: stats.received.bytes,
        payload_up: stats.frames_sent.payload_bytes,
        control_up: stats.frames_sent.control_bytes,
        payload_down: stats.frames_received.payload_bytes,
        control_down: stats.frames_received.control_bytes,
        packets_up: stats.sent.packets,
        packets_down: stats.received.packets,
        retransmissions: stats.retransmitted.packets,
        timeouts: stats.timeouts,
        uplink_busy_nanos: stats.uplink_busy_nanos,
        downlink_wait_nanos: stats.downlink_wait_nanos_max,
        copies_withdrawn: 0,
        drops: Drops {
            downlink_full: stats.drops.downlink_full.packets,
            downlink_codel: stats.drops.downlink_codel.packets,
            random_loss: stats.drops.random.packets,
            partition: stats.drops.partition.packets,
            stale: stats.drops.stale.packets,
            ..Drops::default()
        },
        uplink_bps: rates.uplink_bps,
        downlink_bps: rates.downlink_bps,
    };
    for counters in lanes {
        traffic.copies_withdrawn += counters.withdrawn.copies;
        traffic.drops.queue_newest += counters.dropped_newest.copies;
        traffic.drops.queue_oldest += counters.dropped_oldest.copies;
        traffic.drops.queue_refused += counters.refused.copies;
        traffic.drops.expired += counters.expired.copies;
    }
    traffic
}
