//! `samara export`: a room for each form that other programs read.

mod network;
mod shadow;
mod trace;

use std::process::ExitCode;

use clap::Subcommand;
#[cfg(feature = "net")]
use samara_lab::scenario::{Loaded, Point};

/// What can be written for other programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// The graph of a run: who has links with whom, and who dials.
    ///
    /// GraphML has rates, regions and classes of hosts and the latency of each link, too; `network.topology.file`, `network.hosts_file` and
    /// `network.latency_file` read it.
    Graph(network::GraphOptions),
    /// The hosts of a run as CSV: rates, regions and validation times, as `network.hosts_file` reads them.
    Hosts(network::OneRun),
    /// One-way latencies of a run as a CSV matrix in milliseconds, as `network.latency_file` reads it.
    ///
    /// Between regions if it has latencies between regions, between hosts otherwise.
    Latencies(network::OneRun),
    /// A run as a simulation of Shadow, with a real node on each host.
    ///
    /// Shadow runs it by `shadow shadow.yaml` in that directory; `samara testbed SCENARIO --shadow DIR` then gathers the results. The nodes
    /// are this program, so that it has to be built with `--features net`.
    Shadow(shadow::ShadowOptions),
    /// What happened at the nodes of a run, for the field's viewers.
    ///
    /// Of real nodes everything that their traces have; of simulated ones the copies of blocks of columns.
    Trace(trace::TraceOptions),
}

pub(crate) fn run(what: &Export) -> Result<ExitCode, String> {
    match what {
        Export::Graph(options) => network::graph(options),
        Export::Hosts(options) => network::hosts(options),
        Export::Latencies(options) => network::latencies(options),
        Export::Shadow(options) => shadow::run(options),
        Export::Trace(options) => trace::run(options),
    }
}

/// The run of a scenario, if it is one only.
///
/// # Errors
/// A text that names all runs.
#[cfg(feature = "net")]
pub(crate) fn one_run(loaded: &Loaded) -> Result<&Point, String> {
    match loaded.points.as_slice() {
        [point] => Ok(point),
        points => {
            let names: Vec<String> = points.iter().map(Point::name).collect();
            Err(format!(
                "{}: found {} runs ({}); expected one: choose it with --only and --seed",
                loaded.source,
                points.len(),
                names.join(", ")
            ))
        }
    }
}
