//! The results of a scenario, and comparisons of two results.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use samara_lab::compare::{self, Crossed, Pair, Threshold, compare};
use samara_lab::report;
use samara_lab::results::{BY_CLASS, Findings, ResultsDirectory, Rows, Saved};
use samara_lab::sweep::{Curve, PointRecord, points_table};
use samara_report::{Page, png};
use samara_scenario::{Loaded, Point};
use serde_json::Value;

use crate::errors::{self, Error, FigureError, TableError};
use crate::loaded::here;
use crate::opened::Opened;
use crate::table::{Kept, Labels, Table, Tables};

/// The results of all runs of a scenario.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct Outcome {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) findings: Findings,
    pub(crate) page: Page,
    pub(crate) tables: Vec<Tables>,
    #[pyo3(get)]
    pub(crate) directory: Option<PathBuf>,
}

impl Outcome {
    fn records(&self) -> Vec<PointRecord> {
        self.findings.summary.runs.iter().map(|run| PointRecord::of(String::new(), run)).collect()
    }

    fn saved(&self, name: &str) -> Saved {
        Saved::in_memory(name, &self.findings.summary, self.tables.iter().map(here).collect())
    }

    /// Returns a table of one run.
    fn kept(&self, at: usize, name: &str) -> PyResult<&Arc<Rows>> {
        let point = &self.loaded.points[at];
        match self.tables[at].get(name) {
            Some(Kept::Here(rows)) => Ok(rows),
            Some(Kept::Gone(rows)) => Err(TableError::new_err(format!(
                "{name} of {}, seed {}: its {rows} rows were not kept in memory{}",
                point.name(),
                point.seed,
                self.elsewhere(name)
            ))),
            None => Err(TableError::new_err(match self.absence(at, name) {
                Some(reason) => format!("{name} of {}, seed {}: {reason}", point.name(), point.seed),
                None => {
                    let names: Vec<&str> = self.tables[at].keys().map(String::as_str).collect();
                    format!(
                        "{name}: runs of {} have no such table; they have {}",
                        self.loaded.source,
                        names.join(", ")
                    )
                }
            })),
        }
    }

    /// Returns the reason why a run has no table of this name, if it is known.
    fn absence(&self, at: usize, name: &str) -> Option<&str> {
        self.findings.summary.runs.get(at)?.absent.get(name).map(String::as_str)
    }

    fn elsewhere(&self, name: &str) -> String {
        match &self.directory {
            Some(path) => {
                format!("; read {}", path.join("runs").join("*").join(format!("{name}.parquet")).display())
            }
            None => {
                "; name it in tables=[...], raise rows_max, or write everything into a directory with out="
                    .to_owned()
            }
        }
    }
}

pub(crate) fn is_chosen(point: &Point, run: Option<&str>, seed: Option<u64>) -> bool {
    run.is_none_or(|run| run == point.run) && seed.is_none_or(|seed| seed == point.seed)
}

/// The error of a table for runs that do not exist.
pub(crate) fn no_run(name: &str, points: &[Point]) -> PyErr {
    let runs: Vec<String> = points.iter().map(|p| format!("{}, seed {}", p.name(), p.seed)).collect();
    TableError::new_err(format!("{name}: there is no such run; the runs are {}", runs.join("; ")))
}

/// The error of a figure that does not exist.
pub(crate) fn no_figure(name: &str, names: &[String]) -> PyErr {
    FigureError::new_err(format!("{name}: there is no such figure; the figures are {}", names.join(", ")))
}

/// A curve: its metric, its table, and the name and the SVG of its figure.
#[derive(IntoPyObject)]
pub(crate) struct CurveParts(String, Table, String, String);

impl CurveParts {
    pub(crate) fn of(py: Python<'_>, curve: Curve) -> PyResult<Self> {
        let svg = py.detach(|| curve.figure.svg());
        Ok(Self(curve.metric, Table::of("curve", curve.table.columns.iter())?, curve.figure.name, svg))
    }
}

/// Returns a table with a row for each record and class of nodes.
pub(crate) fn by_class(source: &str, records: Vec<PointRecord>) -> PyResult<Table> {
    let of_run = |record: PointRecord| {
        let classes = record.metrics.get(BY_CLASS).and_then(Value::as_object).cloned();
        classes.into_iter().flatten().map(move |(class, metrics)| {
            let mut parameters = record.parameters.clone();
            parameters.insert("class".to_owned(), class.into());
            PointRecord { parameters, metrics, ..record.clone() }
        })
    };
    let records: Vec<PointRecord> = records.into_iter().flat_map(of_run).collect();
    if records.is_empty() {
        return Err(TableError::new_err(format!(
            "by_class: {source} has no classes of nodes; a section [[network.class]] with name and share adds one, or a column class in network.nodes_file"
        )));
    }
    metrics_table("by_class", &records)
}

/// Returns a table with a row for each record. The resources of single runs are unknown, and the runs
/// have no ids.
pub(crate) fn metrics_table(name: &str, records: &[PointRecord]) -> PyResult<Table> {
    let unknown = ["point", "wall_s", "cpu_s", "peak_rss_bytes"];
    let table = points_table(records).map_err(errors::table)?;
    Table::of(name, table.columns.iter().filter(|(column, _)| !unknown.contains(&column.as_str())))
}

#[pymethods]
impl Outcome {
    /// The machine-readable summary, as JSON.
    #[getter]
    fn summary_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.findings.summary).map_err(|error| Error::new_err(error.to_string()))
    }

    /// The scenario of these results, as TOML.
    #[getter]
    fn toml(&self) -> &str {
        &self.loaded.text
    }

    /// The table that the command line prints.
    #[getter]
    fn text(&self) -> String {
        self.page.terminal(samara_report::terminal::WIDTH)
    }

    /// The scenario's expectations: run, expected text, measured value, whether it holds, and whether
    /// it counts.
    #[getter]
    fn expectations(&self) -> Vec<(&str, &str, Option<f64>, bool, bool)> {
        let outcomes = self.findings.checked.iter();
        outcomes.map(|o| (o.run.as_str(), o.expected.as_str(), o.found, o.holds, o.counts)).collect()
    }

    /// The names of the tables.
    #[getter]
    fn table_names(&self) -> Vec<String> {
        self.tables.first().map(|tables| tables.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns a table over all runs, or only those with a name or a seed.
    #[pyo3(signature = (name, run = None, seed = None))]
    fn table(&self, name: &str, run: Option<&str>, seed: Option<u64>) -> PyResult<Table> {
        let labels = Labels::of(&self.loaded.points);
        let points = self.loaded.points.iter().enumerate();
        let chosen = points.filter(|(_, point)| is_chosen(point, run, seed));
        let label = |(at, _): (usize, &Point)| labels.label(at, self.kept(at, name)?).map_err(errors::table);
        let batches = chosen.map(label).collect::<PyResult<Vec<_>>>()?;
        if batches.is_empty() {
            return Err(no_run(name, &self.loaded.points));
        }
        Table::new(name, batches)
    }

    /// Returns a table with a row for each run and a column for each metric.
    fn metrics(&self) -> PyResult<Table> {
        metrics_table("metrics", &self.records())
    }

    /// Returns a table with a row for each run and class of nodes, and a column for each metric.
    fn by_class(&self) -> PyResult<Table> {
        by_class(&self.loaded.source, self.records())
    }

    /// Returns a metric over the sweep, or of the runs.
    #[pyo3(signature = (metric = None))]
    fn curve(&self, py: Python<'_>, metric: Option<&str>) -> PyResult<CurveParts> {
        let curve = py.detach(|| Curve::of(&self.loaded, self.records(), metric));
        CurveParts::of(py, curve.map_err(PyValueError::new_err)?)
    }

    /// The names of the figures.
    #[getter]
    fn figure_names(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.page.figures()).into_iter().map(|(name, _)| name).collect()
    }

    /// Returns a figure as SVG.
    fn figure(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        let figures = py.detach(|| self.page.figures());
        let names: Vec<String> = figures.iter().map(|(name, _)| name.clone()).collect();
        let found = figures.into_iter().find(|(other, _)| other == name).map(|(_, svg)| svg);
        found.ok_or_else(|| no_figure(name, &names))
    }

    /// Converts an SVG figure to PNG.
    #[staticmethod]
    fn png(py: Python<'_>, svg: &str) -> PyResult<Vec<u8>> {
        py.detach(|| png(svg)).map_err(FigureError::new_err)
    }

    /// Returns the report as one HTML file.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| self.page.html())
    }

    /// Writes a results directory as the command line does.
    #[pyo3(signature = (path, force = false))]
    fn write(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        // Check first that all tables are in memory, before touching the directory.
        for (at, tables) in self.tables.iter().enumerate() {
            tables.keys().try_for_each(|name| self.kept(at, name).map(drop))?;
        }
        py.detach(|| {
            let directory =
                ResultsDirectory::create(&path, &self.loaded, force).map_err(errors::directory)?;
            let runs = self.loaded.points.iter().zip(&self.findings.summary.runs).zip(&self.tables);
            for ((point, run), tables) in runs {
                directory.run_tables(point, run, &here(tables)).map_err(errors::directory)?;
            }
            directory.summary(&self.findings.summary).map_err(errors::directory)?;
            report::write(&self.page, &directory).map_err(errors::directory)?;
            directory.finish(&self.findings.summary, self.findings.is_complete).map_err(errors::directory)
        })
    }
}

/// A comparison of two results.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct Compared(compare::Compared);

impl Compared {
    pub(crate) fn new(a: Saved, b: Saved, pairs: &[String]) -> PyResult<Self> {
        let pairs: Result<Vec<_>, _> = pairs.iter().map(|text| Pair::parse(text)).collect();
        pairs.and_then(|pairs| compare(a, b, &pairs)).map(Self).map_err(Error::new_err)
    }

    fn crossed(&self, thresholds: &[String]) -> PyResult<Vec<Crossed>> {
        let mut crossed = Vec::new();
        for text in thresholds {
            let threshold = Threshold::parse(text).map_err(Error::new_err)?;
            crossed.extend(threshold.check(&self.0).map_err(Error::new_err)?);
        }
        Ok(crossed)
    }
}

/// A result in memory, or one in a directory.
#[derive(FromPyObject)]
pub(crate) enum AnyResult<'py> {
    Memory(PyRef<'py, Outcome>),
    Directory(PyRef<'py, Opened>),
    /// The path of a directory.
    Path(PathBuf),
}

impl AnyResult<'_> {
    /// Returns the result under a name. A path is its own name.
    fn saved(&self, name: &str) -> PyResult<Saved> {
        match self {
            Self::Memory(result) => Ok(result.saved(name)),
            Self::Directory(result) => result.saved(name),
            Self::Path(path) => Saved::open(path).map_err(errors::directory),
        }
    }
}

/// Compares two results, with their names.
#[pyfunction]
pub(crate) fn compare_results(
    py: Python<'_>,
    a: AnyResult<'_>,
    b: AnyResult<'_>,
    names: (String, String),
    pairs: Vec<String>,
) -> PyResult<Compared> {
    let (a, b) = (a.saved(&names.0)?, b.saved(&names.1)?);
    py.detach(|| Compared::new(a, b, &pairs))
}

/// Compares two results directories.
#[pyfunction]
pub(crate) fn open_results(py: Python<'_>, a: PathBuf, b: PathBuf, pairs: Vec<String>) -> PyResult<Compared> {
    py.detach(|| {
        let open = |path: &PathBuf| Saved::open(path).map_err(errors::directory);
        Compared::new(open(&a)?, open(&b)?, &pairs)
    })
}

#[pymethods]
impl Compared {
    /// The table that the command line prints.
    #[getter]
    fn text(&self) -> String {
        self.0.table(samara_report::terminal::WIDTH, false, 0)
    }

    /// Returns the changes as Markdown.
    #[pyo3(signature = (thresholds = vec![]))]
    fn markdown(&self, thresholds: Vec<String>) -> PyResult<String> {
        Ok(self.0.markdown(&self.crossed(&thresholds)?))
    }

    /// Returns a page with the table, the changes and the distributions of both results.
    #[pyo3(signature = (thresholds = vec![]))]
    fn html(&self, py: Python<'_>, thresholds: Vec<String>) -> PyResult<String> {
        let crossed = self.crossed(&thresholds)?;
        py.detach(|| self.0.html(&crossed)).map_err(Error::new_err)
    }

    /// Returns the whole comparison as JSON, with the exceeded thresholds.
    #[pyo3(signature = (thresholds = vec![]))]
    fn json(&self, thresholds: Vec<String>) -> PyResult<String> {
        Ok(self.0.json(&self.crossed(&thresholds)?).to_string())
    }
}
