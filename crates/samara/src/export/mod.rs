//! `samara export`: a room for each form that other programs read.

mod copies;
mod shadow;
mod trace;

use std::process::ExitCode;

use clap::Subcommand;
use samara_lab::scenario::{Loaded, Point};

/// What can be written for other programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write a run as a simulation of Shadow, with a real node on each host.
    ///
    /// Shadow runs it by `shadow shadow.yaml` in that directory; `samara testbed SCENARIO --shadow DIR` then gathers the results. The nodes
    /// are this program, so that it has to be built with `--features net`.
    Shadow(shadow::ShadowOptions),
    /// Write what happened at the nodes of a run for the field's viewers.
    ///
    /// Of real nodes everything that their traces have; of simulated ones the copies of blocks of columns.
    Trace(trace::TraceOptions),
}

pub(crate) fn run(what: &Export) -> Result<ExitCode, String> {
    match what {
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
