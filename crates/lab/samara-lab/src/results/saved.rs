//! Reads the results directories of runs, testbeds and sweeps for comparison.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use samara_document::{file, keys};
use samara_scenario::TEXT_BYTES_MAX;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::columns::Rows;
use super::{Origin, Summary};

/// Maximum number of points of a curve; more make no visible difference.
const CURVE_MAX: usize = 400;
/// Maximum size of a document; the summary of the largest sweep has half as much.
const JSON_BYTES_MAX: u64 = 1 << 30;
/// The folder of a sweep's points.
const POINTS: &str = "points";

/// A results directory.
#[derive(Clone, Debug)]
pub struct Saved {
    pub path: PathBuf,
    pub scenario: String,
    /// The version of Samara that wrote it.
    pub version: String,
    pub digest: String,
    /// The origin of the result, if a command made it.
    pub origin: Option<Origin>,
    /// All values of its scenario by key, without those that only describe it.
    pub configuration: BTreeMap<String, String>,
    pub is_real: bool,
    /// Whether it is one run of a sweep, with the values of one point.
    pub(crate) is_point: bool,
    pub runs: Vec<SavedRun>,
    /// Tables of each seed, by the run's key.
    tables: BTreeMap<String, Vec<Tables>>,
}

/// The location of a run's tables.
#[derive(Clone, Debug)]
enum Tables {
    /// Parquet files in this directory.
    Directory(PathBuf),
    /// Tables in memory, by name.
    Memory(BTreeMap<String, Arc<Rows>>),
}

impl Tables {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Directory(path) => path.join(name).with_extension("parquet").is_file(),
            Self::Memory(tables) => tables.contains_key(name),
        }
    }

    /// Returns true if there are deliveries by slot. They include those that never arrived, and a node
    /// is done with a slot when it has all of them.
    fn has_slots(&self) -> Result<bool, String> {
        match self {
            Self::Directory(_) if !self.has("deliveries") => Ok(false),
            Self::Directory(path) => Rows::has_column(&path.join("deliveries.parquet"), "slot"),
            Self::Memory(tables) => Ok(tables.get("deliveries").is_some_and(|rows| rows.has("slot"))),
        }
    }

    fn read(
        &self,
        name: &str,
        columns: &[&str],
        mut take: impl FnMut(&Rows) -> Option<()>,
    ) -> Result<(), String> {
        match self {
            Self::Directory(path) => Rows::read(&path.join(name).with_extension("parquet"), columns, take),
            Self::Memory(tables) => {
                let taken = tables.get(name).map_or(Some(()), |rows| take(rows));
                taken.ok_or_else(|| format!("{name}: a column has an unexpected type"))
            }
        }
    }
}

/// One run of a results directory.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRun {
    pub name: String,
    /// The parameters that distinguish it, without the seed.
    pub parameters: Map<String, Value>,
    pub seed: Option<u64>,
    /// All numeric figures that the run measured, by dotted path; elements of lists are omitted.
    pub metrics: BTreeMap<String, f64>,
}

impl SavedRun {
    /// Returns the key that runs with different seeds share.
    pub fn key(&self) -> String {
        key(&self.name, &self.parameters)
    }
}

/// A cumulative distribution of times: milliseconds, and the share up to then.
pub type Curve = Vec<(f64, f64)>;

#[derive(Deserialize)]
struct SummaryFile {
    scenario: String,
    version: String,
    digest: String,
    #[serde(default)]
    origin: Option<Origin>,
    runs: Vec<RunFile>,
}

/// The file of a point of a sweep.
#[derive(Deserialize)]
struct PointFile {
    name: String,
    parameters: Map<String, Value>,
}

/// Maximum number of points that an error lists.
const POINTS_MAX: usize = 6;

#[derive(Deserialize)]
struct RunFile {
    name: String,
    parameters: Map<String, Value>,
    metrics: Value,
    #[serde(default)]
    real: Option<IgnoredAny>,
}

/// The directories of the runs of a result, sorted.
pub(crate) fn run_directories(result: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(result.join("runs"))?;
    let mut directories: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    directories.sort_unstable();
    Ok(directories)
}

impl Saved {
    /// Opens a results directory of `samara run`, `testbed` or `sweep`. It reads the summary and
    /// locates the tables. A point of a sweep (`SWEEP/points/ID`) has its run and its values, with all seeds.
    pub fn open(path: &Path) -> Result<Self, String> {
        let points = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == POINTS));
        match points.and_then(Path::parent) {
            Some(sweep) => Self::open_point(sweep, path),
            None => Self::open_result(path),
        }
    }

    fn open_point(sweep: &Path, path: &Path) -> Result<Self, String> {
        let saved = Self::open_result(if sweep.as_os_str().is_empty() { Path::new(".") } else { sweep })?;
        let file = path.with_extension("json");
        if !file.is_file() {
            return Err(format!("{}: the sweep has no such point; {}", path.display(), points_of(&file)?));
        }
        let PointFile { name, parameters } = read_json(&file)?;
        let key = key(&name, &without_seed(&parameters));
        let runs: Vec<SavedRun> = saved.runs.into_iter().filter(|run| run.key() == key).collect();
        if runs.is_empty() {
            let sweep = sweep.join("summary.json");
            return Err(format!("{}: is not in {}; run the sweep again", path.display(), sweep.display()));
        }
        Ok(Self { path: path.to_path_buf(), is_point: true, runs, ..saved })
    }

    fn open_result(path: &Path) -> Result<Self, String> {
        let summary: SummaryFile = read_json(&path.join("summary.json")).map_err(|error| {
            format!("{error}; expected a results directory of samara run, testbed or sweep")
        })?;
        let mut tables: BTreeMap<String, Vec<Tables>> = BTreeMap::new();
        for directory in run_directories(path).unwrap_or_default() {
            // A run without an entry was interrupted.
            if let Ok(run) = read_json::<RunFile>(&directory.join("run.json")) {
                let key = key(&run.name, &without_seed(&run.parameters));
                tables.entry(key).or_default().push(Tables::Directory(directory));
            }
        }
        let configuration = configuration(&path.join("scenario.toml"));
        Ok(Self { configuration, ..Self::of(path.to_path_buf(), summary, tables) })
    }

    /// Wraps a result in memory: its summary, and the available tables of each run. Comparisons
    /// show `name`.
    pub fn in_memory(name: &str, summary: &Summary, tables: Vec<BTreeMap<String, Arc<Rows>>>) -> Self {
        let mut of_runs: BTreeMap<String, Vec<Tables>> = BTreeMap::new();
        for (run, tables) in summary.runs.iter().zip(tables) {
            let key = key(&run.name, &without_seed(&run.parameters));
            of_runs.entry(key).or_default().push(Tables::Memory(tables));
        }
        let file = serde_json::to_value(summary).and_then(serde_json::from_value);
        Self::of(PathBuf::from(name), file.expect("a summary has the form of its file"), of_runs)
    }

    fn of(path: PathBuf, summary: SummaryFile, tables: BTreeMap<String, Vec<Tables>>) -> Self {
        Self {
            path,
            scenario: summary.scenario,
            version: summary.version,
            digest: summary.digest,
            origin: summary.origin,
            configuration: BTreeMap::new(),
            is_real: summary.runs.iter().any(|run| run.real.is_some()),
            is_point: false,
            runs: summary.runs.into_iter().map(SavedRun::of).collect(),
            tables,
        }
    }

    /// Returns the delivery latency over all seeds of a run; `None` without a table.
    pub fn delivery_latency(&self, run: &SavedRun) -> Result<Option<Curve>, String> {
        self.pooled(run, |tables| {
            if tables.has_slots()? {
                let mut times = Vec::new();
                tables.read("deliveries", &["delivery_latency_ms"], |rows| {
                    times.extend(rows.cells("delivery_latency_ms")?.map(Option::<&f64>::copied));
                    Some(())
                })?;
                Ok(Some(equal_weights(&times)))
            } else if tables.has("delivery_latency") {
                let (mut weights, mut before) = (Vec::new(), 0.0);
                tables.read("delivery_latency", &["delivery_latency_ms", "share"], |rows| {
                    for (time, share) in rows.cells("delivery_latency_ms")?.zip(rows.cells("share")?) {
                        if let (Some(time), Some(share)) = (time, share) {
                            weights.push((*time, share - before));
                            before = *share;
                        }
                    }
                    Some(())
                })?;
                Ok(Some(weights))
            } else {
                Ok(None)
            }
        })
    }

    /// Returns the time to custody over all seeds and slots of a run; `None` without a table.
    pub fn time_to_custody(&self, run: &SavedRun) -> Result<Option<Curve>, String> {
        self.pooled(run, |tables| {
            if !tables.has_slots()? {
                return Ok(None);
            }
            // The last delivery of each node and slot; `None` if one never arrived.
            let mut last: BTreeMap<(u32, u32), Option<f64>> = BTreeMap::new();
            tables.read("deliveries", &["node", "slot", "delivery_latency_ms"], |rows| {
                let pairs = rows.cells::<u32>("node")?.flatten().zip(rows.cells::<u32>("slot")?.flatten());
                for ((node, slot), time) in pairs.zip(rows.cells::<f64>("delivery_latency_ms")?) {
                    let slowest = last.entry((*node, *slot)).or_insert(Some(0.0));
                    *slowest = slowest.zip(time).map(|(a, b)| a.max(*b));
                }
                Some(())
            })?;
            Ok(Some(equal_weights(&last.into_values().collect::<Vec<_>>())))
        })
    }

    /// Returns the curve of all seeds combined, with equal weights.
    fn pooled(
        &self,
        run: &SavedRun,
        weights: impl Fn(&Tables) -> Result<Option<Vec<(f64, f64)>>, String>,
    ) -> Result<Option<Curve>, String> {
        let seeds = self.tables.get(&run.key()).map(Vec::as_slice).unwrap_or_default();
        let mut all = Vec::new();
        for tables in seeds {
            let Some(weights) = weights(tables)? else { return Ok(None) };
            all.extend(weights.into_iter().map(|(time, weight)| (time, weight / seeds.len() as f64)));
        }
        Ok((!all.is_empty()).then(|| curve(all)))
    }
}

/// Metrics that runs on real nodes do not measure: their summaries have zeros.
const SIMULATED_ONLY: [&str; 2] = ["retransmissions", "flushes"];

impl SavedRun {
    fn of(run: RunFile) -> Self {
        let mut figures = Vec::new();
        crate::sweep::flatten("", &run.metrics, &mut figures);
        let is_of_list = |path: &str| path.split('.').any(|part| part.parse::<usize>().is_ok());
        let is_measured = |path: &str| {
            let name = path.split('.').next().unwrap_or_default();
            run.real.is_none() || !SIMULATED_ONLY.contains(&name)
        };
        let metrics = figures
            .into_iter()
            .filter(|(path, _)| !is_of_list(path) && is_measured(path))
            .filter_map(|(path, value)| Some((path, value.as_f64()?)))
            .collect();
        let seed = run.parameters.get("seed").and_then(Value::as_u64);
        Self { name: run.name, parameters: without_seed(&run.parameters), seed, metrics }
    }
}

/// Returns the first points beside a file that is missing, in words.
fn points_of(file: &Path) -> Result<String, String> {
    let entries = file.parent().map(std::fs::read_dir).into_iter().flatten().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort_unstable();
    let named = |path: &PathBuf| -> Result<String, String> {
        let PointFile { name, parameters } = read_json(path)?;
        let swept = parameters.iter().filter(|(key, _)| key.contains('.') || *key == "seed");
        let values = swept.map(|(key, value)| match value.as_str() {
            Some(text) => format!(", {key} {text}"),
            None => format!(", {key} {value}"),
        });
        let id = path.file_stem().unwrap_or_default().display();
        Ok(format!("{id} ({name}{})", values.collect::<String>()))
    };
    let shown: Vec<String> = files.iter().take(POINTS_MAX).map(named).collect::<Result<_, _>>()?;
    let more = match files.len().saturating_sub(POINTS_MAX) {
        0 => String::new(),
        more => format!(", and {more} more, by the column `point` of sweep.parquet"),
    };
    Ok(format!("its points are {}{more}", shown.join(", ")))
}

/// Reads the values of a scenario, by key; empty if there is none. Expectations, published figures and
/// descriptions are left out, since they change no result.
fn configuration(path: &Path) -> BTreeMap<String, String> {
    let text = file::read_text(path, TEXT_BYTES_MAX).unwrap_or_default();
    let Ok(table) = text.parse::<toml::Table>() else { return BTreeMap::new() };
    let mut rows = Vec::new();
    keys::flatten("", &toml::Value::Table(table), &mut rows);
    let section = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
    let describes = |key: &str| {
        let last = key.rsplit('.').next().unwrap_or_default();
        ["expect", "published"].contains(&section(key).as_str())
            || ["title", "description", "label", "note"].contains(&last)
    };
    rows.into_iter().filter(|(key, _)| !describes(key)).collect()
}

fn key(name: &str, parameters: &Map<String, Value>) -> String {
    format!("{name} {}", Value::Object(parameters.clone()))
}

pub(crate) fn without_seed(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut parameters = parameters.clone();
    parameters.remove("seed");
    parameters
}

pub(crate) fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, String> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = file::open(path).map_err(|error| fail(&error))?;
    if file.metadata().is_ok_and(|data| data.len() > JSON_BYTES_MAX) {
        return Err(fail(&format_args!("has more than {} MiB", JSON_BYTES_MAX >> 20)));
    }
    serde_json::from_reader(BufReader::new(file.take(JSON_BYTES_MAX))).map_err(|error| fail(&error))
}

/// Returns values with equal weights. Missing values have the same weight but never occur.
fn equal_weights(times: &[Option<f64>]) -> Vec<(f64, f64)> {
    let weight = 1.0 / times.len().max(1) as f64;
    times.iter().flatten().map(|time| (*time, weight)).collect()
}

/// Accumulates weights, and omits points too close to distinguish.
fn curve(mut weights: Vec<(f64, f64)>) -> Curve {
    weights.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut points, mut share, mut drawn): (Curve, f64, f64) = (Vec::new(), 0.0, 0.0);
    let last = weights.len().saturating_sub(1);
    for (i, (time, weight)) in weights.into_iter().enumerate() {
        share += weight;
        if i == last || points.is_empty() || share - drawn >= 1.0 / CURVE_MAX as f64 {
            points.push((time, share.min(1.0)));
            drawn = share;
        }
    }
    points
}
