//! A run whose network is to be written.

use std::path::PathBuf;
use std::process::ExitCode;

use samara_lab::network::{self, Hosts};
use samara_lab::scenario::{Columns, Loaded, Overrides, Point, Scenario, load_with};
use samara_scenario::Network;
use samara_scenario::keys::{GridAxis, parse_axis};
use samara_scenario::topology::Graph;

use crate::args::{SEEDS, key_value, whole};

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
    #[arg(long, value_parser = whole(SEEDS))]
    seed: Option<u64>,
    /// The file to write; standard output, if not given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A run whose network is built.
pub(super) struct Built {
    pub(super) loaded: Loaded,
    /// Of the points that have this network the first.
    place: usize,
    pub(super) hosts: Hosts,
}

impl Built {
    pub(super) fn point(&self) -> &Point {
        &self.loaded.points[self.place]
    }

    /// The name of a host.
    pub(super) fn name(&self, host: u32) -> String {
        let named = self.hosts.names.as_ref().and_then(|names| names.all().get(host as usize));
        named.map_or_else(|| host.to_string(), Clone::clone)
    }

    /// The region of a host, if it is in one.
    pub(super) fn region(&self, host: u32) -> Option<&str> {
        let region = self.hosts.configs[host as usize].region;
        self.hosts.regions.get(usize::from(region)).map(String::as_str)
    }

    pub(super) fn nodes(&self) -> u32 {
        self.point().scenario.network.nodes
    }

    pub(super) fn graph(&self) -> Result<Graph, String> {
        let (point, inputs) = (self.point(), &self.loaded.inputs);
        let scenario = &point.scenario;
        let family = scenario.family();
        if !family.has_topology() {
            return Err(format!(
                "{}: its nodes have the links that their protocol makes, no graph; hosts and latencies can be exported",
                self.loaded.source
            ));
        }
        let fail = |error| format!("{}: run {}: {error}", self.loaded.source, point.name());
        network::graph(scenario, inputs, point.seed).map(|(graph, _)| graph).map_err(fail)
    }
}

impl OneRun {
    pub(super) fn build(&self) -> Result<Built, String> {
        let overrides = Overrides {
            set: self.set.clone(),
            only: self.run.iter().cloned().collect(),
            seeds: self.seed.into_iter().collect(),
            axes: self.grid.clone(),
            ..Overrides::default()
        };
        let loaded = load_with(&self.scenario, &overrides).map_err(|error| error.to_string())?;
        crate::session::tell_notes(&loaded, false);
        let first = loaded.points.first().ok_or_else(|| format!("{}: has no runs", loaded.source))?;
        let is_same = |point: &Point| what_counts(&point.scenario) == what_counts(&first.scenario);
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
    pub(super) fn write(&self, text: &str) -> Result<ExitCode, String> {
        match &self.output {
            None => crate::print(text),
            Some(path) => {
                std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// What a network is built of: neither how it is shared, nor what is lost in it, nor, where links do not depend on it, what is sent.
fn what_counts(scenario: &Scenario) -> (Network, Option<Columns>) {
    let plain = Network::default();
    let network = Network {
        interface: plain.interface,
        downlink_queue: plain.downlink_queue,
        jitter: plain.jitter,
        loss: plain.loss,
        ..scenario.network.clone()
    };
    // Subscribers of columns look for others.
    let kept = |workload: &Columns| Columns {
        count: workload.count,
        custody: workload.custody,
        custody_file: workload.custody_file.clone(),
        publisher: workload.publisher,
        publisher_subscribes_all: workload.publisher_subscribes_all,
        ..Columns::default()
    };
    let has_own_links = network.topology.topic_peers_min > 0;
    (network, scenario.find().filter(|_| has_own_links).map(kept))
}

/// One-way milliseconds, exact to the nanosecond.
pub(super) fn millis(latency: std::time::Duration) -> f64 {
    latency.as_nanos() as f64 / 1e6
}

/// One-way latency between two hosts, as the simulator has it.
pub(super) fn latency(hosts: &Hosts, from: u32, to: u32) -> std::time::Duration {
    let region = |host: u32| usize::from(hosts.configs[host as usize].region);
    match &hosts.latency {
        samara_sim::Latency::Constant(latency) => *latency,
        // Scenarios have no such latency.
        samara_sim::Latency::Uniform { min, .. } => *min,
        samara_sim::Latency::Regions(matrix) => matrix[region(from)][region(to)],
        samara_sim::Latency::Pairs(pairs) => pairs.get(from, to),
    }
}
