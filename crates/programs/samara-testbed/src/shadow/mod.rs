//! A scenario for [Shadow], the simulator that runs real programs: its network, and a process on each
//! host.
//!
//! [`export()`] writes the input of Shadow. [`gather()`] turns what the hosts said under Shadow into
//! the results of a simulation or a testbed. No coordinator can reach a host under Shadow, so hosts
//! read orders from a file: those that are known before the run, and to tell their counters at regular
//! times.
//!
//! [Shadow]: https://shadow.github.io

mod export;
mod graph;
mod recorded;

use std::path::{Path, PathBuf};

use samara_document::{Inputs, file};
use samara_lab::results::{Measured, RealRun};
use samara_lab::run::{RunError, RunOptions, run_on};
use samara_lab::statistics::Statistics;
use samara_scenario::Point;
use serde::{Deserialize, Serialize};

use crate::TestbedError;
use export::run_file;
pub use export::{Exported, Options, export};
use recorded::Recorded;

/// The file that identifies the run of an export.
const RUN_FILE: &str = "run.json";
/// The scenario, as hosts read it.
const SCENARIO_FILE: &str = "scenario.toml";
/// The directory that Shadow copies to its data directory, where each host's programs run in a
/// separate directory.
const TEMPLATE: &str = "template";
const DATA: &str = "shadow.data";
const ORDERS_FILE: &str = "orders.jsonl";
/// Maximum size of a file that describes a run.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Nanoseconds from the start of the run to the first look at the counters of hosts, and from each look
/// to the next. Commands at whole seconds are between two looks.
const LOOKS_NS: (u64, u64) = (250_000_000, 500_000_000);

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
    let expected = run_file(point, &run.program).map_err(TestbedError::Scenario)?;
    if run != expected {
        return Err(wrong(difference(&run, &expected)));
    }
    let data = exported.join(DATA);
    if !data.is_dir() {
        return Err(wrong(format!("found no {DATA}; run `shadow shadow.yaml` there first")));
    }
    let hosts = point.scenario.network.nodes + (point.scenario.family().extra_hosts)(&point.scenario);
    let mut recorded = Recorded::read(exported, hosts)?;
    let ran = run_on(point, RunOptions::new(1, inputs), &mut recorded, |_| {});
    let (measured, late_ms) = ran.map_err(|error| match error {
        RunError::Failed(why) => wrong(why),
        RunError::Interrupted => TestbedError::Interrupted,
    })?;
    let program = run.program.file_name().unwrap_or_default().to_string_lossy();
    let real = RealRun {
        programs: vec![format!("{program} under Shadow")],
        publish_error_ms: Statistics::of(&late_ms),
        // Processes under Shadow cannot measure their use of the machine.
        ..RealRun::default()
    };
    Ok((measured, real))
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
