//! `samara export`: a room for each form that other programs read.

mod shadow;

use std::process::ExitCode;

use samara_lab::scenario::{Loaded, Point};

use crate::args::Export;

pub(crate) fn run(what: &Export) -> Result<ExitCode, String> {
    match what {
        Export::Shadow(options) => shadow::run(options),
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
