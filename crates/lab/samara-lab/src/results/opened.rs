//! Opens a results directory as a result: its scenario, its metrics, and what is stored of its runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use samara_document::file;
use samara_report::Table;
use samara_scenario::{Loaded, Point, json, load_with};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::columns::Rows;
use super::{point_name, read_json};
use crate::expect::{Expectation, ExpectationResult};
use crate::sweep::{PointRecord, means};

/// Maximum size of a page and of a figure, far above those that Samara writes.
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// The table of keys in the directory of each run, which is no result.
const CONFIGURATION: &str = "configuration";

/// A result in a directory of `samara run`, `testbed` or `sweep`.
#[derive(Clone, Debug)]
pub struct OpenedResult {
    pub path: PathBuf,
    /// The scenario of the result, with the points that the result has.
    pub loaded: Loaded,
    /// The text of `summary.json`.
    pub summary: String,
    /// The metrics of each point.
    pub records: Vec<PointRecord>,
    /// The first sentence of the report.
    finding: String,
}

#[derive(Deserialize)]
struct StoredSummary {
    #[serde(default)]
    finding: String,
    runs: Vec<StoredRun>,
}

#[derive(Deserialize)]
struct StoredRun {
    name: String,
    parameters: Map<String, Value>,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    steps: u64,
    metrics: Value,
}

impl OpenedResult {
    /// Opens a directory. Its families are those of this program.
    ///
    /// # Errors
    /// Returns an error if the directory is no result, or its scenario cannot be loaded, as without a
    /// file that was too large to copy.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = path.join("summary.json");
        let stored: StoredSummary = read_json(&name).map_err(|error| {
            format!("{error}; expected a results directory of samara run, testbed or sweep")
        })?;
        let summary = text(&name)?;
        let scenario = path.join("scenario.toml");
        let mut loaded = load_with(&scenario.to_string_lossy(), &Default::default())
            .map_err(|error| format!("the scenario of this result cannot be loaded: {error}"))?;
        let mut points = Vec::new();
        for run in &stored.runs {
            let point = loaded.points.iter().find(|point| is_of(point, run)).ok_or_else(|| {
                format!(
                    "{}: has a run \"{}\" {}, which {} does not have",
                    name.display(),
                    run.name,
                    Value::Object(run.parameters.clone()),
                    scenario.display()
                )
            })?;
            points.push(point.clone());
        }
        loaded.points = points;
        let records = stored.runs.into_iter().map(|run| PointRecord {
            version: crate::sweep::VERSION.to_owned(),
            name: run.name,
            parameters: run.parameters,
            digest: run.digest,
            steps: run.steps,
            metrics: run.metrics,
            ..PointRecord::default()
        });
        let records = records.collect();
        Ok(Self { path: path.to_path_buf(), loaded, summary, records, finding: stored.finding })
    }

    /// Returns the finding and a table of headline metrics.
    pub fn text(&self, width: usize) -> String {
        let table: Table = means(&self.loaded, &self.records);
        [self.finding.as_str(), table.terminal(width, "in `result.metrics`").trim_end()]
            .join("\n\n")
            .trim()
            .to_owned()
            + "\n"
    }

    /// Returns the expectations of the scenario with the measured values. All of them count.
    ///
    /// # Errors
    /// An expectation does not fit the scenario.
    pub fn expectations(&self) -> Result<Vec<ExpectationResult>, String> {
        let all = Expectation::all_of(&self.loaded)?;
        let of_run = |record: &PointRecord| {
            all.iter().filter_map(|one| one.check(&record.name, &record.metrics)).collect::<Vec<_>>()
        };
        Ok(self.records.iter().flat_map(of_run).collect())
    }

    /// Returns the names of the tables that any run has. A sweep stores none of single runs.
    pub fn tables(&self) -> Vec<String> {
        let all = self.loaded.points.iter().flat_map(|point| names(&self.directory(point), "parquet"));
        let all: BTreeSet<String> = all.filter(|name| name != CONFIGURATION).collect();
        all.into_iter().collect()
    }

    /// Reads a table of the run at a point, in parts.
    ///
    /// # Errors
    /// The run has no such table, or it cannot be read.
    pub fn table(&self, point: &Point, name: &str) -> Result<Vec<Rows>, String> {
        let known = self.tables();
        if !known.iter().any(|own| own == name) {
            return Err(match known.as_slice() {
                [] => format!(
                    "{name}: {} has no tables of single runs; a sweep stores metrics only",
                    self.path.display()
                ),
                known => format!("{name}: the result has no such table; it has {}", known.join(", ")),
            });
        }
        Rows::read_all(&self.directory(point).join(format!("{name}.parquet")))
    }

    /// Returns the names of the figures.
    pub fn figures(&self) -> Vec<String> {
        names(&self.path.join("figures"), "svg")
    }

    /// Returns a figure as SVG; `None` if there is none with this name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn figure(&self, name: &str) -> Result<Option<String>, String> {
        if !self.figures().iter().any(|own| own == name) {
            return Ok(None);
        }
        text(&self.path.join("figures").join(format!("{name}.svg"))).map(Some)
    }

    /// Returns the report as HTML.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn html(&self) -> Result<String, String> {
        text(&self.path.join("report.html"))
    }

    fn directory(&self, point: &Point) -> PathBuf {
        self.path.join("runs").join(point_name(point))
    }
}

fn is_of(point: &Point, run: &StoredRun) -> bool {
    let is = |key: &str, value: Value| run.parameters.get(key) == Some(&value);
    point.run == run.name
        && is("seed", point.seed.into())
        && point.sweep.iter().all(|(key, value)| is(key, json(value)))
}

fn text(path: &Path) -> Result<String, String> {
    file::read_text(path, TEXT_BYTES_MAX).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the names of the files of a directory with an extension, without it, in order.
fn names(directory: &Path, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(extension)?.strip_suffix('.').map(str::to_owned)
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort_unstable();
    names
}
