//! A scenario for [Shadow], the simulator that runs real programs: its network, and a real node on
//! each host.
//!
//! [`export()`] writes the input of Shadow. [`gather()`] turns the output of nodes under Shadow
//! into the results of a simulation or a testbed. No client can reach a node under Shadow, so nodes
//! have a plan (`[plan]` of `node.toml`): the addresses that they dial, their publications, and the
//! times at which they write their counters.
//!
//! [Shadow]: https://shadow.github.io

mod export;
mod graph;

use std::iter;
use std::path::{Path, PathBuf};

use samara_lab::results::{Measured, RealRun};
use samara_lab::statistics::Statistics;
use samara_node::model::Publication;
use samara_scenario::{Inputs, file};
use samara_spec::Point;
use serde::{Deserialize, Serialize};

use crate::TestbedError;
use crate::client::Metrics;
use crate::collect::{self, Events};
use crate::plan::Wanted;
use crate::run::{MetricsSnapshots, message_count, missing, of_traces};
use export::run_file;
pub use export::{Exported, Options, export};

/// Shadow's clock begins on 1 January 2000 (`EMULATED_TIME_OFFSET`), in nanoseconds since 1970.
const EPOCH_NS: u64 = 946_684_800 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;

/// The file that identifies the run of an export.
const RUN_FILE: &str = "run.json";
/// The directory that Shadow copies to its data directory, where each host's programs run in a
/// separate directory.
const TEMPLATE: &str = "template";
const DATA: &str = "shadow.data";
const NODE_FILE: &str = "node.toml";
const PUBLICATIONS_FILE: &str = "publications.json";
const TRACE_FILE: &str = "trace.pb";
/// Maximum size of a file that describes a run or has a node's counters.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A node's counters before the first publication, and at the end.
const METRICS_FILES: [&str; 2] = ["metrics-before.txt", "metrics-after.txt"];

/// The identity of the run of an export, so that it is not gathered as another one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    version: String,
    scenario: String,
    run: String,
    seed: u64,
    /// Every key of the run.
    configuration: toml::Table,
    first_unix_ns: u64,
    /// Seconds that nodes have had to establish links and meshes.
    settle_s: u64,
    program: PathBuf,
}

fn host(node: u32) -> String {
    format!("node{node}")
}

/// The directory of a host under `directory`.
fn of_host(directory: &Path, node: u32) -> PathBuf {
    directory.join("hosts").join(host(node))
}

/// Gathers a run that was exported to `exported` and has run there. `inputs` has the files that the
/// scenario names.
///
/// # Errors
/// It is another run, it has not run, or its files cannot be read.
pub fn gather(
    point: &Point,
    inputs: &Inputs,
    exported: &Path,
) -> Result<(Box<dyn Measured>, RealRun), TestbedError> {
    let wrong = |what: String| TestbedError::Scenario(format!("{}: {what}", exported.display()));
    let run = read_run(exported)?;
    let expected =
        run_file(point, &run.program, run.first_unix_ns, run.settle_s).map_err(TestbedError::Scenario)?;
    if run != expected {
        return Err(wrong(difference(&run, &expected)));
    }
    let wanted = Wanted::new(point, inputs).map_err(TestbedError::Scenario)?;
    let nodes = point.scenario.network.nodes;
    let data = exported.join(DATA);
    if !data.is_dir() {
        return Err(wrong(format!("found no {DATA}; run `shadow shadow.yaml` there first")));
    }
    let snapshot = |file: &str| -> Result<MetricsSnapshots, TestbedError> {
        let metrics = (0..nodes).map(|node| Ok(Metrics::parse(&read(&of_host(&data, node).join(file))?)));
        Ok(MetricsSnapshots { metrics: metrics.collect::<Result<_, TestbedError>>()?, relay: None })
    };
    let [before, after] = METRICS_FILES;
    let (before, after) = (snapshot(before)?, snapshot(after)?);
    let traces: Vec<PathBuf> = (0..nodes).map(|node| of_host(&data, node).join(TRACE_FILE)).collect();
    let traces: Vec<&Path> = traces.iter().map(PathBuf::as_path).collect();
    let events = collect::events(&traces)?;
    let planned = wanted.publications(&point.scenario, run.first_unix_ns);
    let doubts = missing(&events, &planned).into_iter().chain(events.doubt()).collect();
    let late_ms = late_ms(&events, &planned);
    let measured = of_traces(point, &wanted, &events, (&before, &after), run.first_unix_ns);
    let program = run.program.file_name().unwrap_or_default().to_string_lossy();
    let real = RealRun {
        programs: vec![format!("{program} under Shadow")],
        ready_s: run.settle_s as f64,
        publish_error_ms: Statistics::of(&late_ms),
        doubts,
        // Processes under Shadow cannot measure their use of the machine.
        ..RealRun::default()
    };
    Ok((measured, real))
}

fn read(path: &Path) -> Result<String, TestbedError> {
    file::read_text(path, FILE_BYTES_MAX).map_err(TestbedError::io(format!(
        "{} (was the run complete? see {} of Shadow's output)",
        path.display(),
        path.parent().unwrap_or(path).display()
    )))
}

fn read_run(exported: &Path) -> Result<RunFile, TestbedError> {
    let path = exported.join(RUN_FILE);
    let text = file::read_text(&path, FILE_BYTES_MAX).map_err(TestbedError::io(format!(
        "{} (expected a directory that `samara export shadow` wrote)",
        path.display()
    )))?;
    serde_json::from_str(&text)
        .map_err(|error| TestbedError::Scenario(format!("{}: {error}", path.display())))
}

/// Describes the first difference between two runs.
fn difference(found: &RunFile, expected: &RunFile) -> String {
    let other = |what: &str, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        format!(
            "{what}: found {found}, expected {expected}; name the run that was exported, with the same --set, --only and --seed"
        )
    };
    if found.version != expected.version {
        return format!(
            "exported by version {}, and this is {}; export it again",
            found.version, expected.version
        );
    }
    if found.scenario != expected.scenario {
        return other("scenario", &found.scenario, &expected.scenario);
    }
    if found.run != expected.run || found.seed != expected.seed {
        let name = |run: &RunFile| format!("{} with seed {}", run.run, run.seed);
        return other("run", &name(found), &name(expected));
    }
    let keys = found.configuration.keys().chain(expected.configuration.keys());
    let differing =
        keys.into_iter().find(|key| found.configuration.get(*key) != expected.configuration.get(*key));
    format!(
        "the section [{}] differs from that of the exported run; use the same --set",
        differing.map_or("?", String::as_str)
    )
}

/// The lateness of publications in milliseconds.
fn late_ms(events: &Events, planned: &[Vec<Publication>]) -> Vec<f64> {
    let mut made: Vec<Vec<u64>> = vec![Vec::new(); planned.len()];
    for message in &events.published {
        made[message.node as usize].push(message.at);
    }
    let mut late_ms = Vec::new();
    for (planned, made) in planned.iter().zip(made) {
        let messages = planned
            .iter()
            .flat_map(|publication| iter::repeat_n(publication.at_unix_ns, message_count(publication)));
        late_ms.extend(messages.zip(made).map(|(planned, made)| (made as f64 - planned as f64) / 1e6));
    }
    late_ms
}
