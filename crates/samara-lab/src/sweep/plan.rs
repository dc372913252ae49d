//! The points of a sweep and their ids.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::VERSION;
use crate::data::Inputs;
use crate::scenario::{Loaded, Point, Scenario};

/// A sweep of more points is taken for a mistake.
pub const SWEEP_POINTS_MAX: usize = 100_000;

/// A point that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What identifies it: see [`point_id`].
    pub id: String,
    /// The point.
    pub point: Point,
}

impl Planned {
    /// The arguments of `samara point` behind the scenario: they choose this point of the scenario that it was planned from.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--only".to_owned(), self.point.run.clone()];
        arguments.extend(["--seed".to_owned(), self.point.seed.to_string()]);
        for (key, value) in &self.point.sweep {
            arguments.extend(["--grid".to_owned(), format!("{key}={value}")]);
        }
        arguments
    }
}

/// All points of a scenario with their ids, in their order.
///
/// # Errors
/// There are too many, two are the same, or a file that they name cannot be read.
pub fn plan(loaded: &Loaded) -> Result<Vec<Planned>, String> {
    let count = loaded.points.len();
    if count > SWEEP_POINTS_MAX {
        return Err(format!("{}: {count} points, at most {SWEEP_POINTS_MAX} are run at once", loaded.source));
    }
    let mut seen = BTreeSet::new();
    let mut planned = Vec::with_capacity(count);
    for point in &loaded.points {
        let id = point_id(point, &loaded.inputs)?;
        if !seen.insert(id.clone()) {
            return Err(format!("{}: seed {} of {} is there twice", loaded.source, point.seed, point.name()));
        }
        planned.push(Planned { id, point: point.clone() });
    }
    Ok(planned)
}

/// The id of a point: the first 16 hexadecimal digits of the SHA-256 of the version, the run, the seed, the values of the sweep, the whole
/// scenario, and the files that it names. Titles, expectations and figures of others do not count, nor do other runs and seeds: they change
/// no result. The files come from `inputs`.
///
/// # Errors
/// A file cannot be read; the message names it.
pub fn point_id(point: &Point, inputs: &Inputs) -> Result<String, String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        // With lengths, so that no two lists of parts are the same bytes.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(VERSION.as_bytes());
    add(point.run.as_bytes());
    add(&point.seed.to_le_bytes());
    for (key, value) in &point.sweep {
        add(key.as_bytes());
        add(value.to_string().as_bytes());
    }
    let text = toml::to_string(&what_counts(&point.scenario)).map_err(|error| error.to_string())?;
    add(text.as_bytes());
    for name in point.scenario.own_files() {
        add(name.as_bytes());
        add(&inputs.bytes(&name)?);
    }
    let digest = hash.finalize();
    Ok(digest[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// A scenario without what changes no result.
fn what_counts(scenario: &Scenario) -> Scenario {
    let mut counts = scenario.clone();
    counts.scenario.title.clear();
    counts.scenario.description.clear();
    counts.scenario.seeds.clear();
    counts.reference.clear();
    counts.known.clear();
    counts.expect.clear();
    counts
}
