//! One run of a testbed, from the first process to the figures.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use samara_document::Inputs;
use samara_emulation::RelayReport;
use samara_lab::network::{self, Hosts};
use samara_lab::processes;
use samara_lab::results::{Measured, RealRun};
use samara_lab::run::{Progress, RunOptions, check_programs};
use samara_lab::statistics::Statistics;
use samara_scenario::Point;
use samara_sim::{HostStats, RivalStats};
use samara_trace::live::LiveWriter;

use crate::usage::Usage;
use crate::{HostProgram, TestbedError, fleet, rivals};

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The source of the files that the scenario names.
    pub inputs: &'a Inputs,
    /// The directory for the logs of hosts.
    pub nodes: &'a Path,
    /// The programs of the hosts, at least one. Hosts use them in turn: the first host the first
    /// program, and so on.
    pub hosts: &'a [HostProgram],
    /// Maximum time until the network is ready. Also that of each process to listen, if it is less
    /// than 30 s.
    pub ready_timeout: Duration,
    /// Whether this process has its own network namespace, whose settings it may change.
    pub private_network: bool,
    /// Whether the links are emulated. Otherwise hosts use plain loopback.
    pub is_emulated: bool,
    /// Receives the counters of hosts while they run; `None` if nobody watches.
    pub live: Option<&'a LiveWriter>,
    pub stop: &'a AtomicBool,
}

impl Options<'_> {
    /// Maximum time for a process to listen.
    pub(crate) fn start_timeout(&self) -> Duration {
        self.ready_timeout.min(Duration::from_secs(30))
    }
}

pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Stop<'_> {
    pub(crate) fn check(&self) -> Result<(), TestbedError> {
        if self.0.load(Ordering::Relaxed) { Err(TestbedError::Interrupted) } else { Ok(()) }
    }
}

/// The measurements of a run.
#[derive(Debug)]
pub struct Done {
    pub measured: Box<dyn Measured>,
    pub real: RealRun,
    /// The figures of uploads and calls in the houses of nodes.
    pub rivals: Vec<RivalStats>,
}

/// Checks what can be checked before the first run takes its time.
///
/// # Errors
/// The scenario has something that exists in the simulator only, or that programs of others lack.
pub fn check(point: &Point, inputs: &Inputs, programs: &[HostProgram]) -> Result<(), TestbedError> {
    let scenario = &point.scenario;
    let checked = rivals::possible(scenario).and_then(|()| processes::check(scenario)).and_then(|()| {
        let Some(program) = programs.iter().find(|program| program.is_foreign) else { return Ok(()) };
        let is_foreign = |host| program_of(programs, host).is_foreign;
        let briefing = processes::check_foreign(point, is_foreign)
            .and_then(|()| check_programs(point, RunOptions::new(1, inputs)).map_err(|why| why.to_string()));
        briefing.map_err(|why| format!("--host {}: {why}", program.name))
    });
    checked.map_err(TestbedError::Scenario)
}

/// Returns the program of a host: hosts use these in turn.
pub(crate) fn program_of(programs: &[HostProgram], host: u32) -> &HostProgram {
    &programs[host as usize % programs.len()]
}

/// Returns the hosts of the network of a point.
pub(crate) fn hosts(point: &Point, inputs: &Inputs) -> Result<Hosts, String> {
    let scenario = &point.scenario;
    let count = scenario.network.nodes + (scenario.family().extra_hosts)(scenario);
    network::hosts(scenario, inputs, count, point.seed)
}

/// Runs a point on real processes. Calls `progress` with the current activity and its progress.
///
/// # Errors
/// The scenario cannot run on real processes, links cannot be emulated, a process ended, hung or
/// misbehaved, or the run was interrupted.
pub fn run(
    point: &Point,
    options: Options<'_>,
    progress: impl FnMut(&str, Progress),
) -> Result<Done, TestbedError> {
    let hosts = hosts(point, options.inputs).map_err(TestbedError::Scenario)?;
    let run = fleet::run(point, &hosts, options, progress);
    // Ctrl-C also reaches the processes, so that their end is not the error.
    run.map_err(|error| if options.stop.load(Ordering::Relaxed) { TestbedError::Interrupted } else { error })
}

/// The share of the time of a run for which a node may wait for a processor.
const WAITED_SHARE: f64 = 0.05;

/// Doubts figures of nodes that waited for processors, each `waited` on average, until the last
/// arrival after `nanos`.
pub(crate) fn starved(waited: Duration, nanos: u64) -> Option<String> {
    let share = waited.as_secs_f64() * 1e9 / nanos.max(1) as f64;
    (share > WAITED_SHARE).then(|| {
        format!(
            "nodes waited {:.0} ms each for a processor, {:.0} % of the time until the last arrival; lower the number of \
             nodes or the rates, or stop other work",
            waited.as_secs_f64() * 1e3,
            share * 100.0
        )
    })
}

/// Describes these processes and emulated links beside the figures.
pub(crate) fn real_run(
    programs: Vec<String>,
    nodes: &[Usage],
    ready: Duration,
    relay: Option<&RelayReport>,
) -> RealRun {
    let usage = |value: fn(&Usage) -> f64| Statistics::of(&nodes.iter().map(value).collect::<Vec<_>>());
    RealRun {
        programs,
        ready_s: ready.as_secs_f64(),
        node_cpu_s: usage(|node| node.cpu_s),
        node_cpu_share_max: usage(|node| node.cpu_share_max),
        node_cpu_share_mean: usage(|node| node.cpu_share_mean),
        node_io_bytes: usage(|node| node.io_bytes as f64),
        node_peak_rss_bytes: usage(|node| node.rss_bytes_max as f64),
        node_open_fds: usage(|node| node.fds_max as f64),
        relay_cpu_share: relay.map(RelayReport::cpu_share),
        relay_late_p99_ms: relay.map(|relay| relay.lateness.p99.as_secs_f64() * 1e3),
        ..RealRun::default()
    }
}

pub(crate) fn emulated(
    stats: &mut HostStats,
    before: &samara_emulation::HostCounters,
    after: &samara_emulation::HostCounters,
) {
    stats.sent = after.sent.since(&before.sent);
    stats.received = after.received.since(&before.received);
    stats.drops.uplink_full = after.drops.uplink_full.since(&before.drops.uplink_full);
    stats.drops.uplink_codel = after.drops.uplink_codel.since(&before.drops.uplink_codel);
    stats.drops.partition = after.drops.cut.since(&before.drops.cut);
    stats.drops.random = after.drops.random.since(&before.drops.random);
    stats.drops.downlink_full = after.drops.downlink_full.since(&before.drops.downlink_full);
    stats.drops.downlink_codel = after.drops.downlink_codel.since(&before.drops.downlink_codel);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_wait_for_processors_are_a_doubt() {
        let ms = Duration::from_millis;
        assert_eq!(starved(ms(49), 1_000_000_000), None);
        let doubt = starved(ms(300), 1_000_000_000).expect("a doubt");
        assert!(doubt.starts_with("nodes waited 300 ms each for a processor, 30 %"), "{doubt}");
        assert!(starved(ms(1), 0).is_some());
    }
}
