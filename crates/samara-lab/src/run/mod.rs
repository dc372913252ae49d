//! Runs a point of a scenario in the simulator.

mod columns;
mod group;
mod handover;
mod messages;
mod relay;
mod transactions;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use samara_engine::{Engine, NodeRng, Time};
use samara_sim::{HostStats, Simulation};
use thiserror::Error;

use crate::network::{self, Hosts};
use crate::scenario::{FaultKind, Point, Scenario};

pub use columns::{ColumnsMeasured, columns_bound_ms};
pub use group::{Fates, GroupMeasured, Suspicion};
pub use handover::{BatchTimes, HandoverMeasured, Mechanism};
pub use messages::{MessagesMeasured, Plan, message_bounds_ms};
pub use relay::{Harm, RelayMeasured};
pub use transactions::{BlockRow, Clients, Submission, Totals, TransactionsMeasured, proposers, roles};

/// Why a run ended without a result.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum RunError {
    /// Something in the scenario does not fit; only building the network shows it.
    #[error("{0}")]
    Scenario(String),
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// How a run is done.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// Threads of the simulation.
    pub threads: usize,
    /// Where relative paths of the scenario start.
    pub directory: &'a Path,
    /// Set from elsewhere to stop.
    pub stop: &'a AtomicBool,
}

/// What a run measured.
#[derive(Debug)]
pub enum Measured {
    /// Of blocks of columns.
    Columns(Box<ColumnsMeasured>),
    /// Of a stream of messages.
    Messages(Box<MessagesMeasured>),
    /// Of transactions and their pools.
    Transactions(Box<TransactionsMeasured>),
    /// Of broadcasts in a group.
    Group(Box<GroupMeasured>),
    /// Of batches that one node hands to another.
    Handover(Box<HandoverMeasured>),
    /// Of teams that mix batches.
    Relay(Box<RelayMeasured>),
}

/// How much of the run is simulated between two looks at the results.
const SLICE_NANOS: u64 = 50_000_000;
/// How long after the last copy a run that is complete is left alone, so that late duplicates are counted.
const QUIET_NANOS: u64 = 1_000_000_000;

/// Runs a point. `progress` is told how much of the run is done (0 to 1).
///
/// # Errors
/// The network cannot be built as the scenario says, or the run was stopped.
pub fn run(point: &Point, options: RunOptions<'_>, progress: impl FnMut(f64)) -> Result<Measured, RunError> {
    if point.scenario.relay.is_some() {
        relay::run(point, options, progress).map(|measured| Measured::Relay(Box::new(measured)))
    } else if point.scenario.handover.is_some() {
        handover::run(point, options, progress).map(|measured| Measured::Handover(Box::new(measured)))
    } else if point.scenario.group.is_some() {
        group::run(point, options, progress).map(|measured| Measured::Group(Box::new(measured)))
    } else if point.scenario.transactions.is_some() {
        transactions::run(point, options, progress).map(|measured| Measured::Transactions(Box::new(measured)))
    } else if point.scenario.messages.is_some() {
        messages::run(point, options, progress).map(|measured| Measured::Messages(Box::new(measured)))
    } else {
        columns::run(point, options, progress).map(|measured| Measured::Columns(Box::new(measured)))
    }
}

/// Dials, or simply makes, all links when the scenario says.
fn schedule_links<N: Engine>(
    sim: &mut Simulation<N>,
    scenario: &Scenario,
    rng: &mut NodeRng,
    edges: impl Iterator<Item = (u32, u32)>,
) {
    let links = &scenario.transport.links;
    let (from, until) = (links.from.nanos(), links.until.nanos());
    for (dialler, listener) in edges {
        if until > from {
            sim.dial(Time::from_nanos(from + rng.below(until - from)), dialler, listener);
        } else {
            sim.establish(Time::from_nanos(from), dialler, listener);
        }
    }
}

/// Everything that goes wrong but partitions, which are part of the network.
fn schedule_faults<N: Engine>(sim: &mut Simulation<N>, scenario: &Scenario, seed: u64, hosts: &Hosts) {
    for (index, fault) in scenario.faults.iter().enumerate() {
        let at = Time::from_nanos(fault.at.nanos());
        let until = fault.until.map(|until| Time::from_nanos(until.nanos()));
        for host in network::hit(scenario, index, seed) {
            match fault.kind {
                FaultKind::Crash | FaultKind::Vanish => {
                    sim.crash(at, host, fault.kind == FaultKind::Vanish);
                    if let Some(until) = until {
                        sim.restart(until, host);
                    }
                }
                FaultKind::Slow => {
                    let rates = &hosts.configs[host as usize];
                    let factor = fault.factor.unwrap_or(1.0);
                    let slow = |rate: u64| ((rate as f64 * factor) as u64).max(1);
                    sim.set_rates(at, host, slow(rates.uplink_bps), slow(rates.downlink_bps));
                    if let Some(until) = until {
                        sim.set_rates(until, host, rates.uplink_bps, rates.downlink_bps);
                    }
                }
                // The first is part of the network, the other one is a command to the members of a group.
                FaultKind::Partition | FaultKind::Leave => {}
            }
        }
    }
}

/// What happened between two looks at a host.
fn since(now: &HostStats, before: Option<&HostStats>) -> HostStats {
    before.map_or(*now, |before| now.since(before))
}
