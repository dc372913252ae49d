//! `samara export`: a room for each form that other programs read.

mod network;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
#[cfg(feature = "net")]
use samara_spec::{Loaded, Point};

#[cfg(feature = "net")]
use crate::args::quoted;
use crate::args::{ScenarioOptions, whole};

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
    Shadow(ShadowOptions),
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
        Export::Shadow(options) => shadow(options),
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

/// What to write for Shadow, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct ShadowOptions {
    #[command(flatten)]
    scenario: ScenarioOptions,
    /// The directory to write to: a new one, or an empty one.
    #[arg(long = "output", alias = "out", short, value_name = "DIR")]
    out: PathBuf,
    /// The program that nodes are, instead of this one; it must be linked dynamically.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Simulated seconds that links and meshes have to form before the first publication.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole(1..=86_400_u64))]
    settle: u64,
}

#[cfg(not(feature = "net"))]
fn shadow(options: &ShadowOptions) -> Result<ExitCode, String> {
    Err(format!(
        "built without real sockets, which nodes under Shadow need; use `cargo run --release --features net -- export shadow {}`",
        options.scenario.scenario
    ))
}

#[cfg(feature = "net")]
fn shadow(options: &ShadowOptions) -> Result<ExitCode, String> {
    let loaded = options.scenario.load()?;
    let point = one_run(&loaded)?;
    let program = match &options.program {
        Some(program) => {
            program.canonicalize().map_err(|error| format!("--program {}: {error}", program.display()))?
        }
        None => std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?,
    };
    let how = samara_testbed::shadow::Options {
        inputs: &loaded.inputs,
        program: &program,
        settle: std::time::Duration::from_secs(options.settle),
    };
    let exported = samara_testbed::shadow::export(point, how, &options.out)
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    for note in &exported.notes {
        eprintln!("note: {note}");
    }
    let (nodes, stop_s, out) = (exported.nodes, exported.stop_s, options.out.display());
    crate::print(&format!(
        "{out}: {nodes} nodes for {stop_s} s\n\
         run it:     (cd {out} && shadow shadow.yaml)\n\
         gather it:  samara testbed {} --shadow {out}\n",
        arguments(&options.scenario)
    ))
}

/// What chooses the same run again.
#[cfg(feature = "net")]
fn arguments(scenario: &ScenarioOptions) -> String {
    let mut words = vec![quoted(&scenario.scenario)];
    for (key, value) in &scenario.set {
        words.extend(["--set".to_owned(), quoted(&format!("{key}={value}"))]);
    }
    for run in &scenario.only {
        words.extend(["--only".to_owned(), quoted(run)]);
    }
    words.extend(scenario.seed.map(|seed| format!("--seed {seed}")));
    words.join(" ")
}
