//! `samara export`: scenarios, and what runs gave, for other tools.

mod copies;
mod graph;
mod shadow;
mod tables;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use samara_lab::network::{self, Hosts};
use samara_lab::scenario::{GridAxis, Loaded, Overrides, Point, load_with, parse_axis};
use samara_lab::topology::{self, Graph};

use crate::args::key_value;

/// What can be exported.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// The graph of a run: who has links with whom, and who dials.
    ///
    /// GraphML has rates, regions and classes of hosts and the latency of each link, too; `network.topology.file`, `network.hosts_file` and
    /// `network.latency_file` read it.
    Graph(graph::GraphOptions),
    /// The hosts of a run as CSV: rates, regions and validation times, as `network.hosts_file` reads them.
    Hosts(OneRun),
    /// One-way latencies of a run as a CSV matrix in milliseconds, as `network.latency_file` reads it.
    ///
    /// Between regions if it has latencies between regions, between hosts otherwise.
    Latencies(OneRun),
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

/// Which run of which scenario, and where to write.
#[derive(Debug, clap::Args)]
pub(crate) struct OneRun {
    /// A built-in scenario (see `samara list`) or the path of a file.
    scenario: String,
    /// The run, where runs have different networks.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The value of a key of the sweep, where these have different networks; can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_axis)]
    grid: Vec<GridAxis>,
    /// Set a key of the scenario; can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// The seed; the scenario's first, if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// The file to write; standard output, if not given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Exports.
pub(crate) fn run(what: &Export) -> Result<ExitCode, String> {
    match what {
        Export::Graph(options) => graph::run(options),
        Export::Hosts(options) => tables::hosts(options),
        Export::Latencies(options) => tables::latencies(options),
        Export::Shadow(options) => shadow::run(options),
        Export::Trace(options) => trace::run(options),
    }
}

/// The run of a scenario, if it is one only.
///
/// # Errors
/// A text that names all runs.
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

/// A run whose network is built.
struct Built {
    loaded: Loaded,
    /// Of the points that have this network the first.
    place: usize,
    hosts: Hosts,
}

impl Built {
    fn point(&self) -> &Point {
        &self.loaded.points[self.place]
    }

    /// The name of a host.
    fn name(&self, host: u32) -> String {
        let named = self.hosts.names.as_ref().and_then(|names| names.all().get(host as usize));
        named.map_or_else(|| host.to_string(), Clone::clone)
    }

    /// The region of a host, if it is in one.
    fn region(&self, host: u32) -> Option<&str> {
        let region = self.hosts.configs[host as usize].region;
        self.hosts.regions.get(usize::from(region)).map(String::as_str)
    }

    fn nodes(&self) -> u32 {
        self.point().scenario.network.nodes
    }

    fn graph(&self) -> Result<Graph, String> {
        let (point, inputs) = (self.point(), &self.loaded.inputs);
        let scenario = &point.scenario;
        let has_own_links = [scenario.group.is_some(), scenario.handover.is_some(), scenario.relay.is_some()];
        if has_own_links.contains(&true) {
            return Err(format!(
                "{}: its nodes have the links that their protocol makes, no graph; hosts and latencies can be exported",
                self.loaded.source
            ));
        }
        let has_columns = scenario.messages.is_none() && scenario.transactions.is_none();
        let fail = |error| format!("{}: run {}: {error}", self.loaded.source, point.name());
        let custody =
            if has_columns { topology::custody(scenario, inputs, point.seed) } else { Ok(Vec::new()) };
        topology::build(scenario, &custody.map_err(fail)?, inputs, point.seed).map_err(fail)
    }
}

impl OneRun {
    fn build(&self) -> Result<Built, String> {
        let overrides = Overrides {
            set: self.set.clone(),
            only: self.run.iter().cloned().collect(),
            seeds: self.seed.into_iter().collect(),
            axes: self.grid.clone(),
        };
        let loaded = load_with(&self.scenario, &overrides).map_err(|error| error.to_string())?;
        crate::session::tell_notes(&loaded, false);
        let first = loaded.points.first().ok_or_else(|| format!("{}: has no runs", loaded.source))?;
        // Columns can need links of their own.
        let is_same = |point: &Point| {
            point.scenario.network == first.scenario.network
                && point.scenario.workload == first.scenario.workload
        };
        let of_seed = loaded.points.iter().filter(|point| point.seed == first.seed);
        if let Some(other) = of_seed.into_iter().find(|point| !is_same(point)) {
            return Err(format!(
                "{}: {} and {} have different networks; choose with --run NAME or --grid KEY=VALUE",
                loaded.source,
                first.name(),
                other.name()
            ));
        }
        let nodes = first.scenario.network.nodes;
        let hosts = network::hosts(&first.scenario, &loaded.inputs, nodes, first.seed)
            .map_err(|error| format!("{}: {error}", loaded.source))?;
        Ok(Built { loaded, place: 0, hosts })
    }

    /// Writes the text where it is to go.
    fn write(&self, text: &str) -> Result<ExitCode, String> {
        match &self.output {
            None => crate::print(text),
            Some(path) => {
                std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// One-way milliseconds, exact to the nanosecond.
fn millis(latency: std::time::Duration) -> f64 {
    latency.as_nanos() as f64 / 1e6
}

/// One-way latency between two hosts, as the simulator has it.
fn latency(hosts: &Hosts, from: u32, to: u32) -> std::time::Duration {
    let region = |host: u32| usize::from(hosts.configs[host as usize].region);
    match &hosts.latency {
        samara_sim::Latency::Constant(latency) => *latency,
        // Scenarios have no such latency.
        samara_sim::Latency::Uniform { min, .. } => *min,
        samara_sim::Latency::Regions(matrix) => matrix[region(from)][region(to)],
        samara_sim::Latency::Pairs(pairs) => pairs.get(from, to),
    }
}
