//! Batches that one node hands to another, and what each mechanism on the way costs.

use std::sync::Arc;

use samara_engine::outbox::{Dispatch, LaneConfig, OutboxConfig};
use samara_engine::{Outbox, Time};
use samara_sim::{
    Connection, Control, HostConfig, Http2Config, NodeFactory, Record, SimConfig, Simulation, Transport,
    Window,
};

use crate::mix::handover::app::{Act, Node, Told};
use crate::network;
use crate::run::{Net, Progress, RunError, RunOptions, Setup, Step, Stepped, simulate};
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

/// Runs a point: once as it is, and once more for each mechanism that is taken away.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<HandoverMeasured, RunError> {
    let mut transport = network::transport(&point.scenario);
    let mut setup = Setup::new(point, options, 2)?;
    let runs = Mechanism::ALL.len() as f64 + 1.0;
    let mut run = |number: usize, transport: &Transport, setup: &Setup<'_>| {
        simulated(setup, transport, |done| {
            progress(Progress { share: (number as f64 + done.share) / runs, ..done });
        })
    };
    let (net, batches) = run(0, &transport, &setup)?;
    let mut without = Vec::new();
    for (number, mechanism) in Mechanism::ALL.into_iter().enumerate() {
        setup.hosts.configs.iter_mut().for_each(|rates| mechanism.take_away(&mut transport, rates));
        without.push(run(number + 1, &transport, &setup)?.1);
    }
    let [from, to] = [net.sim.stats(0), net.sim.stats(1)];
    Ok(HandoverMeasured {
        point: point.clone(),
        batches,
        without,
        sent_bytes: from.sent.bytes,
        retransmissions: from.retransmitted.packets + to.retransmitted.packets,
        digest: net.sim.digest(),
        steps: net.sim.steps(),
    })
}

fn simulated(
    setup: &Setup<'_>,
    transport: &Transport,
    mut progress: impl FnMut(Progress),
) -> Result<(Net<'static, Node>, Vec<BatchTimes>), RunError> {
    let handover = setup.scenario().part::<Handover>().clone();
    // Two nodes that wait for each other have no use for a second thread.
    let config = SimConfig { threads: 1, transport: transport.clone(), ..setup.config() };
    let plan = handover.clone();
    let factory: NodeFactory<Node> = Arc::new(move |_| {
        let lanes = vec![LaneConfig::unbounded("payloads", 0)];
        (Node::new(plan.clone()), Outbox::new(OutboxConfig { dispatch: Dispatch::PerLink, lanes }))
    });
    let failed = |error: samara_sim::ConfigError| RunError::Scenario(error.to_string());
    let mut sim = Simulation::new(config, setup.hosts.configs.clone(), factory).map_err(failed)?;
    sim.establish(Time::ZERO, 0, 1);
    sim.command(Time::from_nanos(BEGIN_NANOS), 0, Act::Begin);
    let mut net = Net::new(sim, None);
    let run = Run { handover, batches: Vec::new(), whole: 0, overflowed: false };
    let batches = simulate(run, &mut net, setup.options.stop, |_, done| progress(done))?;
    Ok((net, batches.unwrap_or_default()))
}

/// Batches that are simulated.
struct Run {
    handover: Handover,
    batches: Vec<BatchTimes>,
    /// Batches that have arrived.
    whole: usize,
    overflowed: bool,
}

impl Stepped for Run {
    type App = Node;
    type Measured = Vec<BatchTimes>;

    fn step(&mut self, net: &mut Net<'_, Node>) -> Result<Step, RunError> {
        let now = net.now();
        if self.overflowed {
            return Err(RunError::Scenario("a batch does not fit into the outbox".to_owned()));
        }
        if self.batches.last().is_some_and(|batch| now - batch.begun > PATIENCE_NANOS) {
            let message = format!("batch {} does not arrive within an hour", self.whole + 1);
            return Err(RunError::Scenario(message));
        }
        let until = now.max(BEGIN_NANOS) + SLICE_NANOS;
        let is_over = self.whole >= self.handover.batches as usize;
        Ok(if is_over { Step::Over(until) } else { Step::Until(until) })
    }

    fn observe(&mut self, record: Record<Told>) {
        let at = record.at.as_nanos();
        match record.event {
            Told::Begun => self.batches.push(BatchTimes { begun: at, ..BatchTimes::default() }),
            Told::Ready => self.batches.last_mut().into_iter().for_each(|batch| batch.ready = at),
            Told::Whole => {
                self.batches.get_mut(self.whole).into_iter().for_each(|batch| batch.whole = at);
                self.whole += 1;
            }
            Told::Overflow => self.overflowed = true,
        }
    }

    fn progress(&self, net: &Net<'_, Node>) -> Progress {
        Progress {
            share: self.whole as f64 / f64::from(self.handover.batches),
            virtual_nanos: Some(net.now()),
            deliveries: Some(self.whole as u64),
            deliveries_expected: Some(self.handover.batches.into()),
            copies: None,
            steps: Some(net.sim.steps()),
        }
    }

    fn measured(self, _net: &mut Net<'_, Node>) -> Result<Option<Vec<BatchTimes>>, RunError> {
        Ok(Some(self.batches))
    }
}
