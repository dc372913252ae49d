//! `samara export`: scenarios and results in the formats of other programs.

mod network;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
#[cfg(feature = "net")]
use samara_scenario::{Loaded, Point};

use crate::args::ScenarioOptions;
#[cfg(feature = "net")]
use crate::args::quoted;

/// Exports for other programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Export the graph of a run: the links between nodes, and the dialer of each.
    ///
    /// GraphML also has rates, regions and classes of nodes, and the latency of each link.
    /// `network.topology.file`, `network.nodes_file` and `network.latency_file` read it.
    Graph(network::GraphOptions),
    /// Export the nodes of a run as CSV for `network.nodes_file`: rates, validation times, regions and
    /// classes.
    Nodes(network::OneRun),
    /// Export the one-way latencies of a run as a CSV matrix in milliseconds, for
    /// `network.latency_file`.
    ///
    /// Latencies are between regions if the scenario gives them between regions, and between nodes
    /// otherwise.
    Latencies(network::OneRun),
    /// Export a run for Shadow, with a real process on each host.
    ///
    /// `shadow shadow.yaml` runs it in that directory; `samara testbed SCENARIO --shadow DIR` then
    /// computes the results. The hosts run this program, which needs a build with `--features net`.
    Shadow(ShadowOptions),
    /// Export the events at the nodes of a run, for trace viewers.
    ///
    /// Exports all events in the given traces of real nodes, or the copies of columns of a run.
    Trace(trace::TraceOptions),
}

pub(crate) fn run(what: &Export) -> Result<ExitCode, String> {
    match what {
        Export::Graph(options) => network::graph(options),
        Export::Nodes(options) => network::nodes(options),
        Export::Latencies(options) => network::latencies(options),
        Export::Shadow(options) => shadow(options),
        Export::Trace(options) => trace::run(options),
    }
}

/// The run of a scenario that has only one.
///
/// # Errors
/// A text that lists all runs, if there are several.
#[cfg(feature = "net")]
pub(crate) fn one_run(loaded: &Loaded) -> Result<&Point, String> {
    match loaded.points.as_slice() {
        [point] => Ok(point),
        points => {
            let names: Vec<String> = points.iter().map(Point::name).collect();
            Err(format!(
                "{}: found {} runs ({}); expected one: select it with --only and --seed",
                loaded.source,
                points.len(),
                names.join(", ")
            ))
        }
    }
}

/// Options of `samara export shadow`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShadowOptions {
    #[command(flatten)]
    scenario: ScenarioOptions,
    /// Output directory, which must be new or empty.
    #[arg(long = "output", alias = "out", short, value_name = "DIR")]
    out: PathBuf,
    /// Program of the hosts, another `samara`, which must be linked dynamically. Default: this program.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

#[cfg(not(feature = "net"))]
fn shadow(_: &ShadowOptions) -> Result<ExitCode, String> {
    crate::without_sockets()
}

#[cfg(feature = "net")]
fn shadow(options: &ShadowOptions) -> Result<ExitCode, String> {
    let loaded = options.scenario.load()?;
    let point = one_run(&loaded)?;
    let program = match &options.program {
        Some(program) => {
            program.canonicalize().map_err(|error| format!("--program {}: {error}", program.display()))?
        }
        None => crate::own_program()?,
    };
    let how =
        samara_testbed::shadow::Options { inputs: &loaded.inputs, text: &loaded.text, program: &program };
    let exported = samara_testbed::shadow::export(point, how, &options.out)
        .map_err(|error| format!("{}: run {}: {error}", loaded.source, point.name()))?;
    for note in &exported.notes {
        crate::terminal::complain(format_args!("note: {note}"));
    }
    let (nodes, stop_s, out) = (exported.nodes, exported.stop_s, options.out.display());
    crate::print(&format!(
        "{out}: {nodes} nodes for {stop_s} s\n\
         run it:     (cd {out} && shadow shadow.yaml)\n\
         gather it:  samara testbed {} --shadow {out}\n",
        arguments(&options.scenario)
    ))
}

/// Arguments that select the same run again.
#[cfg(feature = "net")]
fn arguments(scenario: &ScenarioOptions) -> String {
    let mut words = vec![quoted(&scenario.selection.scenario)];
    for (key, value) in &scenario.selection.set {
        words.extend(["--set".to_owned(), quoted(&format!("{key}={value}"))]);
    }
    for run in &scenario.selection.only {
        words.extend(["--only".to_owned(), quoted(run)]);
    }
    words.extend(scenario.seed.map(|seed| format!("--seed {seed}")));
    words.join(" ")
}
