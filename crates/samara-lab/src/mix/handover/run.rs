//! Batches that one node hands to another, and what each mechanism on the way costs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use samara_engine::outbox::{Dispatch, LaneConfig, OutboxConfig};
use samara_engine::{Outbox, Time};
use samara_sim::{
    Connection, Control, HostConfig, Http2Config, NodeFactory, SimConfig, Simulation, Transport, Window,
};

use crate::mix::handover::app::{Act, Node, Told};
use crate::network::{self, Hosts};
use crate::run::{Progress, RunError, RunOptions};
use crate::scenario::{Handover, Point};

/// When the first batch begins, in nanoseconds.
const BEGIN_NANOS: u64 = 1_000_000_000;
/// How much of the run is simulated between two looks.
const SLICE_NANOS: u64 = 100_000_000;
/// A batch that takes longer is given up, in nanoseconds.
const PATIENCE_NANOS: u64 = 3_600_000_000_000;
/// Wider than anything, and still a window: in packets, in bytes, and a rate.
const WIDE_PACKETS: u32 = 1 << 28;
const WIDE_BYTES: u32 = i32::MAX as u32;
const WIDE_BPS: u64 = 1 << 50;

/// What a run with batches measured.
#[derive(Debug)]
pub struct HandoverMeasured {
    /// What was run.
    pub point: Point,
    /// Batch by batch.
    pub batches: Vec<BatchTimes>,
    /// The same without each [`Mechanism`], in their order, and without those before it.
    pub without: Vec<Vec<BatchTimes>>,
    /// Bytes on the wire that the node which hands over sent.
    pub sent_bytes: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// The digest of every packet.
    pub digest: u64,
    /// Steps of the simulation.
    pub steps: u64,
}

/// When things happened to a batch, in nanoseconds of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// Work on it began.
    pub begun: u64,
    /// Its last payload was ready.
    pub ready: u64,
    /// All of it was at the other node.
    pub whole: u64,
}

/// What makes a batch late, in the order in which it is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The congestion window shrinks while nothing is sent.
    IdleRestart,
    /// The receiver of HTTP/2 lets only so much be on the way.
    Window,
    /// The congestion window begins small and doubles with every round trip.
    SlowStart,
    /// The link takes its time for each byte.
    Serialisation,
}

impl Mechanism {
    /// All of them, in the order in which they are taken away.
    pub const ALL: [Self; 4] = [Self::IdleRestart, Self::Window, Self::SlowStart, Self::Serialisation];

    fn take_away(self, transport: &mut Transport, rates: &mut HostConfig) {
        match (self, &mut transport.control) {
            (Self::IdleRestart, Control::Tcp(tcp)) => tcp.idle_restart = false,
            (Self::SlowStart, Control::Tcp(tcp)) => {
                (tcp.initial_window, tcp.receive_window) = (WIDE_PACKETS, WIDE_PACKETS);
            }
            (Self::Window, _) => {
                transport.connection =
                    Connection::Http2(Http2Config { window: Window::Fixed { bytes: WIDE_BYTES } });
            }
            (Self::Serialisation, _) => (rates.uplink_bps, rates.downlink_bps) = (WIDE_BPS, WIDE_BPS),
            (Self::IdleRestart | Self::SlowStart, Control::Ideal | Control::Quic(_)) => {}
        }
    }
}

/// Runs a point.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<HandoverMeasured, RunError> {
    let handover = point.scenario.handover.clone().unwrap_or_default();
    let mut transport = network::transport(&point.scenario);
    let mut hosts =
        network::hosts(&point.scenario, options.inputs, 2, point.seed).map_err(RunError::Scenario)?;
    let runs = Mechanism::ALL.len() as f64 + 1.0;
    let mut run = |number: usize, transport: &Transport, hosts: &Hosts| {
        simulate(point, &handover, options, (transport, hosts), |done| {
            progress(Progress { share: (number as f64 + done.share) / runs, ..done })
        })
    };
    let (sim, batches) = run(0, &transport, &hosts)?;
    let mut without = Vec::new();
    for (number, mechanism) in Mechanism::ALL.into_iter().enumerate() {
        hosts.configs.iter_mut().for_each(|rates| mechanism.take_away(&mut transport, rates));
        without.push(run(number + 1, &transport, &hosts)?.1);
    }
    Ok(HandoverMeasured {
        point: point.clone(),
        batches,
        without,
        sent_bytes: sim.stats(0).sent.bytes,
        retransmissions: sim.stats(0).retransmitted.packets + sim.stats(1).retransmitted.packets,
        digest: sim.digest(),
        steps: sim.steps(),
    })
}

fn simulate(
    point: &Point,
    handover: &Handover,
    options: RunOptions<'_>,
    (transport, hosts): (&Transport, &Hosts),
    mut progress: impl FnMut(Progress),
) -> Result<(Simulation<Node>, Vec<BatchTimes>), RunError> {
    let scenario = &point.scenario;
    let config = SimConfig {
        seed: point.seed,
        // Two nodes that wait for each other.
        threads: 1,
        network: network::network(scenario, hosts, point.seed),
        transport: transport.clone(),
        nic: network::nic(scenario),
        downlink_queue: network::downlink_queue(scenario),
    };
    let plan = handover.clone();
    let factory: NodeFactory<Node> = Arc::new(move |_| {
        let lanes = vec![LaneConfig::unbounded("payloads", 0)];
        (Node::new(plan.clone()), Outbox::new(OutboxConfig { dispatch: Dispatch::PerLink, lanes }))
    });
    let failed = |error: samara_sim::ConfigError| RunError::Scenario(error.to_string());
    let mut sim = Simulation::new(config, hosts.configs.clone(), factory).map_err(failed)?;
    sim.establish(Time::ZERO, 0, 1);
    sim.command(Time::from_nanos(BEGIN_NANOS), 0, Act::Begin);
    let mut batches: Vec<BatchTimes> = Vec::new();
    let (mut whole, mut overflowed, mut until) = (0, false, BEGIN_NANOS);
    while whole < handover.batches as usize {
        if options.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        until += SLICE_NANOS;
        sim.run_until(Time::from_nanos(until), |record| {
            let at = record.at.as_nanos();
            match record.event {
                Told::Begun => batches.push(BatchTimes { begun: at, ..BatchTimes::default() }),
                Told::Ready => batches.last_mut().into_iter().for_each(|batch| batch.ready = at),
                Told::Whole => {
                    batches.get_mut(whole).into_iter().for_each(|batch| batch.whole = at);
                    whole += 1;
                }
                Told::Overflow => overflowed = true,
            }
        });
        if overflowed {
            return Err(RunError::Scenario("a batch does not fit into the outbox".to_owned()));
        }
        if batches.last().is_some_and(|batch| until - batch.begun > PATIENCE_NANOS) {
            let message = format!("batch {} does not arrive within an hour", whole + 1);
            return Err(RunError::Scenario(message));
        }
        progress(Progress {
            share: whole as f64 / f64::from(handover.batches),
            virtual_nanos: Some(sim.now().as_nanos()),
            deliveries: Some(whole as u64),
            deliveries_expected: Some(handover.batches.into()),
            copies: None,
            steps: Some(sim.steps()),
        });
    }
    Ok((sim, batches))
}
