//! Sweeps: many points of a scenario, each run in a separate process that keeps only the metrics.
//!
//! A point is one run of a scenario with one seed and one value of every axis. Its [`id`](point_id)
//! is a hash of all inputs of its result. A later sweep thus recognises finished points, but not
//! those of a changed scenario. The result of a point is a [`PointRecord`]. A [`SweepDirectory`]
//! collects them in one file each. A [`SweepSummary`] with the table [`points_table`] combines them
//! into one data set.

mod directory;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use samara_document::Inputs;
use samara_engine::units::{Rate, Share, Size, Span};
use samara_scenario::{Loaded, Point, Scenario};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::files::{At, FileError};
use crate::report::{grouped, label_of};
use crate::results::{Column, Headline, Rows, Run, column, combined_digest, without_seed};
use crate::statistics::Spread;

pub use directory::{Opened, SweepDirectory};
pub(crate) use report::means;
pub(crate) use report::plain;
pub use report::{Curve, LACKS, Rendered, check_metrics, render};

/// The version in the ids of points.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Figures that relate a run to a base: the name, the related figure, and whether the base is the
/// numerator.
const RELATIVE: [(&str, &str, bool); 4] = [
    ("bytes_saved_factor", "connection_bytes", true),
    ("copies_saved_factor", "duplication_factor", true),
    ("gain", "throughput_mb_per_s", false),
    ("gain_bound", "shape_bound_mb_per_s", false),
];

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The id of the point; see [`point_id`].
    pub id: String,
    pub point: Point,
}

impl Planned {
    /// Returns the arguments of `samara point`, after the scenario, that select this point.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--only".to_owned(), self.point.run.clone()];
        arguments.extend(["--seed".to_owned(), self.point.seed.to_string()]);
        for (key, value) in &self.point.sweep {
            arguments.extend(["--grid".to_owned(), format!("{key}={value}")]);
        }
        arguments
    }
}

/// Returns all points of a scenario with their ids, in order.
///
/// # Errors
/// Returns an error if two points are equal, or a file that they name cannot be read.
pub fn plan(loaded: &Loaded) -> Result<Vec<Planned>, String> {
    let (mut seen, mut planned) = (BTreeSet::new(), Vec::new());
    for point in &loaded.points {
        let id = point_id(point, &loaded.inputs)?;
        if !seen.insert(id.clone()) {
            return Err(format!("{}: seed {} of {} is a duplicate", loaded.source, point.seed, point.name()));
        }
        planned.push(Planned { id, point: point.clone() });
    }
    Ok(planned)
}

/// Returns the id of a point.
///
/// It is the first 16 hexadecimal digits of the SHA-256 of the version, the run, the seed, the
/// values of the sweep, the whole scenario, and the files that it names. Titles, expectations,
/// published figures, and other runs and seeds are excluded, since they change no result. `inputs`
/// provides the files.
pub fn point_id(point: &Point, inputs: &Inputs) -> Result<String, String> {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        // Prefix each part with its length, so that different lists of parts have different bytes.
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
    let text = what_counts(&point.scenario).to_toml()?.to_string();
    add(text.as_bytes());
    for name in point.scenario.own_files() {
        add(name.as_bytes());
        add(&inputs.bytes(&name)?);
    }
    let digest = hash.finalize();
    Ok(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a scenario without the parts that change no result.
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

/// The record of a finished point: its metrics, and the resources it used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointRecord {
    /// The id of the point; see [`point_id`].
    pub id: String,
    pub version: String,
    /// The name of the run in the scenario.
    pub name: String,
    /// The parameters that distinguish it, as in [`Run::parameters`].
    pub parameters: Map<String, Value>,
    pub digest: String,
    pub steps: u64,
    pub wall_s: f64,
    /// Processor time of its process, in seconds.
    pub cpu_s: f64,
    /// Peak memory of its process.
    pub peak_rss_bytes: u64,
    pub metrics: Value,
    /// As in [`Run::late_faults`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late_faults: Vec<usize>,
}

impl PointRecord {
    /// Creates the record of a finished run. The caller fills in the resources of the process.
    pub fn of(id: String, run: &Run) -> Self {
        Self {
            id,
            version: VERSION.to_owned(),
            name: run.name.clone(),
            parameters: run.parameters.clone(),
            digest: run.digest.clone(),
            steps: run.steps,
            metrics: run.metrics.clone(),
            late_faults: run.late_faults.clone(),
            ..Self::default()
        }
    }

    pub fn seed(&self) -> u64 {
        self.parameters.get("seed").and_then(Value::as_u64).unwrap_or(0)
    }

    /// Returns all figures by dotted path, with elements of lists by index. Missing values are
    /// omitted.
    pub fn figures(&self) -> Vec<(String, &Value)> {
        let mut figures = Vec::new();
        flatten("", &self.metrics, &mut figures);
        figures
    }
}

/// Collects the scalars of a document by dotted path, with elements of lists by index.
pub fn flatten<'a>(prefix: &str, value: &'a Value, out: &mut Vec<(String, &'a Value)>) {
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

/// Relates figures to those of a base with the same parameters.
///
/// [`relate`](crate::results::relate) does the same for whole results, but points run separately.
/// The base of pools is the scenario's run `first`, that of groups is the first available run.
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

/// The document that `samara sweep --format json` prints and `summary.json` holds. `runs` has the
/// form of a [`Summary`](crate::results::Summary)'s.
#[derive(Clone, Debug, Serialize)]
pub struct SweepSummary {
    pub scenario: String,
    pub version: String,
    pub seeds: Vec<u64>,
    /// The number of nodes of the first point.
    pub nodes: u32,
    /// Digest of all points, equal to that of `samara run` with the same scenario.
    pub digest: String,
    #[serde(flatten)]
    pub headline: Headline,
    /// Wall-clock time of the processes that ran points, in seconds.
    pub wall_s: f64,
    /// Processor time of all points, in seconds.
    pub cpu_s: f64,
    /// Peak memory of any point.
    pub peak_rss_bytes: u64,
    pub steps: u64,
    /// Total number of points of the sweep; `runs` has the finished ones.
    pub points: usize,
    pub failed: Vec<FailedPoint>,
    pub aggregates: Vec<Aggregate>,
    /// Finished points in the order of the sweep.
    pub runs: Vec<PointRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedPoint {
    pub id: String,
    /// The run with the values of the sweep.
    pub name: String,
    pub seed: u64,
    pub why: String,
}

/// Points that differ only in their seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    pub name: String,
    pub label: String,
    /// The parameters that distinguish it, without seeds.
    pub parameters: Map<String, Value>,
    pub seeds: usize,
    /// All numeric figures, by dotted path.
    pub metrics: BTreeMap<String, Spread>,
}

impl SweepSummary {
    /// Summarises finished points in the order of the sweep. The caller measures `wall_s`.
    pub fn new(loaded: &Loaded, runs: Vec<PointRecord>, failed: Vec<FailedPoint>, wall_s: f64) -> Self {
        let mut seeds: Vec<u64> = loaded.points.iter().map(|point| point.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        Self {
            scenario: loaded.scenario.scenario.name.clone(),
            version: VERSION.to_owned(),
            seeds,
            nodes: loaded.points.first().map_or(0, |point| point.scenario.network.nodes),
            digest: combined_digest(runs.iter().map(|run| run.digest.as_str())),
            headline: Headline::default(),
            wall_s,
            cpu_s: runs.iter().map(|run| run.cpu_s).sum(),
            peak_rss_bytes: runs.iter().map(|run| run.peak_rss_bytes).max().unwrap_or(0),
            steps: runs.iter().map(|run| run.steps).sum(),
            points: loaded.points.len(),
            failed,
            aggregates: aggregates(loaded, &runs),
            runs,
        }
    }
}

fn aggregates(loaded: &Loaded, runs: &[PointRecord]) -> Vec<Aggregate> {
    let key =
        |run: &&PointRecord| (run.name.clone(), Value::Object(without_seed(&run.parameters)).to_string());
    let aggregate = |((name, _), runs): ((String, String), Vec<&PointRecord>)| {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (path, value) in runs.iter().flat_map(|run| run.figures()) {
            if let Some(value) = value.as_f64() {
                values.entry(path).or_default().push(value);
            }
        }
        let spreads = values.into_iter().filter_map(|(path, values)| Some((path, Spread::of(&values)?)));
        Aggregate {
            label: label_of(loaded, &name).to_owned(),
            name,
            parameters: without_seed(&runs[0].parameters),
            seeds: runs.len(),
            metrics: spreads.collect(),
        }
    };
    grouped(runs, key).into_iter().map(aggregate).collect()
}

/// Returns a row for each point: its id, run and seed, parameters, every metric, and the resources
/// it used.
///
/// Types are those of the metrics: unsigned and signed integers, floating point numbers, texts, and
/// truth values. Names are the metrics' paths. Parameters with units become numbers with the unit at
/// the end of the name: `network.uplink_bps`.
pub fn points_table(records: &[PointRecord]) -> Result<Rows, FileError> {
    let columns = columns(records);
    let mut names = BTreeSet::new();
    match columns.iter().find(|(name, _)| !names.insert(name)) {
        Some((name, _)) => Err(format!("two columns have the name {name}")).at(Path::new("metrics")),
        None => Ok(Rows::new(columns)),
    }
}

fn columns(records: &[PointRecord]) -> Vec<(String, Column)> {
    let texts = |value: fn(&PointRecord) -> &str| column(records.iter().map(value));
    let counts = |value: fn(&PointRecord) -> u64| column(records.iter().map(value));
    let numbers = |value: fn(&PointRecord) -> f64| column(records.iter().map(value));
    let metrics = by_column(records, |record| {
        record.figures().into_iter().map(|(path, value)| (path, value.clone())).collect()
    });
    let parameters = by_column(records, |record| {
        let others = record.parameters.iter().filter(|(key, _)| *key != "seed");
        others.map(|(key, value)| quantity(key, value)).collect()
    });
    let mut all = vec![
        ("point".to_owned(), texts(|record| &record.id)),
        ("run".to_owned(), texts(|record| &record.name)),
        ("seed".to_owned(), counts(PointRecord::seed)),
    ];
    for (name, cells) in parameters {
        // Some parameters also appear among the metrics.
        let name = if metrics.contains_key(&name) { format!("parameter_{name}") } else { name };
        all.push((name, array(&cells)));
    }
    all.extend(metrics.into_iter().map(|(name, cells)| (name, array(&cells))));
    let rest = [
        ("digest", texts(|record| &record.digest)),
        ("steps", counts(|record| record.steps)),
        ("wall_s", numbers(|record| record.wall_s)),
        ("cpu_s", numbers(|record| record.cpu_s)),
        ("peak_rss_bytes", counts(|record| record.peak_rss_bytes)),
        ("version", texts(|record| &record.version)),
    ];
    all.extend(rest.map(|(name, column)| (name.to_owned(), column)));
    all
}

fn by_column(
    records: &[PointRecord],
    cells: impl Fn(&PointRecord) -> Vec<(String, Value)>,
) -> BTreeMap<String, Vec<Option<Value>>> {
    let mut columns: BTreeMap<String, Vec<Option<Value>>> = BTreeMap::new();
    for (row, record) in records.iter().enumerate() {
        for (name, cell) in cells(record) {
            columns.entry(name).or_insert_with(|| vec![None; records.len()])[row] = Some(cell);
        }
    }
    columns
}

/// Returns the column name of a parameter, with its unit if there is one, and the value.
fn quantity(name: &str, value: &Value) -> (String, Value) {
    let number = |text: &str| {
        let rate = Rate::parse(text).map(|rate| ("bps", rate.bps() as f64));
        let found = rate.or_else(|_| Span::parse(text).map(|span| ("ms", span.millis_f64())));
        let found = found.or_else(|_| Size::parse(text).map(|size| ("bytes", size.bytes() as f64)));
        found.or_else(|_| Share::parse(text).map(|share| ("share", share.fraction()))).ok()
    };
    match value.as_str().and_then(number) {
        Some((unit, number)) => (format!("{name}_{unit}"), number.into()),
        None => (name.to_owned(), value.clone()),
    }
}

/// Returns a column of the narrowest type for all its cells.
fn array(cells: &[Option<Value>]) -> Column {
    let all = |is: fn(&Value) -> bool| cells.iter().flatten().all(is);
    let cells = || cells.iter().map(Option::as_ref);
    if all(Value::is_u64) {
        column(cells().map(|cell| cell?.as_u64()))
    } else if all(|cell| cell.is_u64() || cell.is_i64()) {
        column(cells().map(|cell| cell?.as_i64()))
    } else if all(Value::is_number) {
        column(cells().map(|cell| cell?.as_f64()))
    } else if all(Value::is_boolean) {
        column(cells().map(|cell| cell?.as_bool()))
    } else {
        let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        column(cells().map(|cell| cell.map(text)))
    }
}
