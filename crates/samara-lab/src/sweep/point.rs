//! The points of a sweep: their ids, their records, and the figures that compare them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::VERSION;
use crate::results::Run;
use crate::scenario::{Loaded, Point, Scenario};
use samara_scenario::Inputs;

/// A sweep of more points is taken for a mistake.
pub const SWEEP_POINTS_MAX: usize = 100_000;

/// A figure that sets a run beside a base: its name, the figure that both have, and whether the base's is above the line.
const RELATIVE: [(&str, &str, bool); 3] = [
    ("bytes_saved_factor", "connection_bytes", true),
    ("gain", "throughput_mb_per_s", false),
    ("gain_bound", "shape_bound_mb_per_s", false),
];

/// A point that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What identifies it: see [`point_id`].
    pub id: String,
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
            return Err(format!("{}: seed {} of {} is a duplicate", loaded.source, point.seed, point.name()));
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
    counts.published.clear();
    counts.expect.clear();
    counts
}

/// The record of a finished point: its metrics, and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRecord {
    /// What identifies the point: see [`point_id`].
    pub id: String,
    /// The version of Samara that ran it.
    pub version: String,
    /// The name of the run in the scenario.
    pub name: String,
    /// What sets it apart, as in [`Run::parameters`].
    pub parameters: Map<String, Value>,
    /// The digest, as in [`Run::digest`].
    pub digest: String,
    /// Steps of the simulation.
    pub steps: u64,
    /// How long it took, in seconds.
    pub wall_s: f64,
    /// Processor time of its process, in seconds.
    pub cpu_s: f64,
    /// The most memory that its process had.
    pub peak_rss_bytes: u64,
    /// The figures.
    pub metrics: Value,
}

impl PointRecord {
    /// The record of a finished run; the caller fills in what the process used.
    pub fn of(id: String, run: &Run) -> Self {
        Self {
            id,
            version: VERSION.to_owned(),
            name: run.name.clone(),
            parameters: run.parameters.clone(),
            digest: run.digest.clone(),
            steps: run.steps,
            wall_s: 0.0,
            cpu_s: 0.0,
            peak_rss_bytes: 0,
            metrics: run.metrics.clone(),
        }
    }

    pub fn seed(&self) -> u64 {
        self.parameters.get("seed").and_then(Value::as_u64).unwrap_or(0)
    }

    /// All figures by their dotted paths, those of lists by their index; what was not measured is left out.
    pub fn figures(&self) -> Vec<(String, &Value)> {
        let mut figures = Vec::new();
        flatten("", &self.metrics, &mut figures);
        figures
    }
}

/// The scalars of a document by their dotted paths; elements of lists by their index.
pub(crate) fn flatten<'a>(prefix: &str, value: &'a Value, out: &mut Vec<(String, &'a Value)>) {
    let below = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, out)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| flatten(&below(&i.to_string()), value, out));
        }
        Value::Null => {}
        scalar => out.push((prefix.to_owned(), scalar)),
    }
}

/// Sets figures beside those of a base with the same parameters, as [`relate`](crate::results::relate) does with whole results: points are run
/// alone and cannot know of each other. The base of pools is the scenario's run `first`, that of groups the first run that there is.
pub fn relate_points(first: &str, records: &mut [PointRecord]) {
    for (name, of, base_above) in RELATIVE {
        let figure = |record: &PointRecord| record.metrics.get(of).and_then(Value::as_f64);
        let key = |record: &PointRecord| Value::Object(record.parameters.clone()).to_string();
        let has = |record: &&PointRecord| record.metrics.get(name).is_some();
        let mut bases: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for record in records.iter().filter(has).filter(|record| !base_above || record.name == first) {
            bases.entry(key(record)).or_insert_with(|| figure(record));
        }
        for record in records.iter_mut() {
            let base = bases.get(&key(record)).copied().flatten();
            if let Some((own, base)) = figure(record).zip(base).filter(|_| has(&&*record)) {
                let (above, below) = if base_above { (base, own) } else { (own, base) };
                record.metrics[name] = if below > 0.0 { (above / below).into() } else { Value::Null };
            }
        }
    }
}
