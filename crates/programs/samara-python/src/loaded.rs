//! Loaded scenarios.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use samara_document::Inputs;
use samara_document::keys::parse_value;
use samara_engine::outbox::Policies;
use samara_lab::network;
use samara_lab::report;
use samara_lab::results::{Findings, Origin as Made, ResultsDirectory, Rows, Used, column};
use samara_lab::sweep::Curve;
use samara_scenario::{
    Loaded as Scenario, Origin, Overrides, Point, RunSpec, check_text, load_source, load_with,
};

use crate::errors::{Error, RunError};
use crate::outcome::Outcome;
use crate::policy::{Failure, PythonPolicy};
use crate::progress::{Keep, Observer};
use crate::table::{Kept, Labels, Table};
use crate::{errors, progress};

/// A loaded scenario with its overrides.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct Loaded {
    scenario: Arc<Scenario>,
    failure: Arc<Failure>,
    /// Whether all nodes share a policy object.
    is_shared: bool,
}

/// Loads a scenario: a built-in one or a file by its `name`, or a `text` with the `files` it names.
/// `axes` are keys with the values of a sweep.
#[pyfunction]
#[pyo3(signature = (name, *, text = None, files = BTreeMap::new(), directory = None, set = vec![], axes = vec![], only = vec![],
    seeds = vec![], runs = vec![], policies = vec![]))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn load(
    py: Python<'_>,
    name: &str,
    text: Option<&str>,
    files: BTreeMap<String, Vec<u8>>,
    directory: Option<PathBuf>,
    set: Vec<(String, String)>,
    axes: Vec<(String, Vec<String>)>,
    only: Vec<String>,
    seeds: Vec<u64>,
    runs: Vec<BTreeMap<String, String>>,
    policies: Vec<(String, Bound<'_, PyAny>)>,
) -> PyResult<Loaded> {
    let failure = Arc::new(Failure::default());
    let (mut known, mut is_shared) = (Policies::default(), false);
    for (name, object) in &policies {
        let policy = PythonPolicy::new(name, object, &failure)?;
        is_shared |= policy.is_shared();
        known = known.with(name, policy);
    }
    let runs = runs.into_iter().map(variant).collect::<PyResult<_>>()?;
    let origin = Origin::Python;
    let values = |values: Vec<String>| values.iter().map(|value| parse_value(value)).collect();
    let axes = axes.into_iter().map(|(key, of_key)| (key, values(of_key))).collect();
    let overrides =
        Overrides { set, axes, only, seeds, runs, policies: known, origin, ..Overrides::default() };
    let loaded = match text {
        None => load_with(name, &overrides),
        Some(text) => {
            let mut inputs = Inputs::directory(directory.unwrap_or_default());
            for (name, bytes) in files {
                inputs = inputs.with(name, bytes);
            }
            load_source(name, text, inputs, &overrides)
        }
    };
    let scenario = loaded.map_err(|error| match text {
        None => errors::scenario(py, &error),
        Some(_) => errors::scenario_in_code(py, error),
    })?;
    Ok(Loaded { scenario: Arc::new(scenario), failure, is_shared })
}

/// Checks the text of a scenario by itself. `in_code` states that the text was made from dictionaries.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, name: &str, text: &str, in_code: bool) -> PyResult<()> {
    check_text(name, text).map_err(|error| match in_code {
        false => errors::scenario(py, &error),
        true => errors::scenario_in_code(py, error),
    })
}

/// Converts a variant from Python: texts, with the changed keys as TOML.
fn variant(mut texts: BTreeMap<String, String>) -> PyResult<RunSpec> {
    let mut take = |key: &str| texts.remove(key).unwrap_or_default();
    let name = take("name");
    let set = take("set")
        .parse()
        .map_err(|error| Error::new_err(format!("run {name:?}: invalid keys: {error}")))?;
    Ok(RunSpec { label: take("label"), description: take("description"), series: take("series"), name, set })
}

impl Loaded {
    /// The scenario of a result that exists.
    pub(crate) fn of(scenario: Arc<Scenario>) -> Self {
        Self { scenario, failure: Arc::default(), is_shared: false }
    }
}

#[pymethods]
impl Loaded {
    /// The scenario with its overrides, as TOML.
    #[getter]
    fn toml(&self) -> &str {
        &self.scenario.text
    }

    /// Notes on unused parts of its files, and on overrides without effect on some runs.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.scenario.notes.clone()
    }

    /// Name, seed and label of each run.
    #[getter]
    fn points(&self) -> Vec<(String, u64, String)> {
        self.scenario.points.iter().map(|point| (point.name(), point.seed, point.label.clone())).collect()
    }

    /// Checks before a run that it can have the curve of a metric.
    #[pyo3(signature = (metric = None))]
    fn check_curve(&self, metric: Option<&str>) -> PyResult<()> {
        Curve::check(&self.scenario, metric).map_err(PyValueError::new_err)
    }

    /// Returns the links of every run, as pairs of dialer and listener.
    fn edges(&self, py: Python<'_>) -> PyResult<Table> {
        let loaded = &self.scenario;
        py.detach(|| {
            pairs("edges", loaded, ["dialer", "listener"], |point| {
                if !point.scenario.family().has_topology() {
                    return Err("groups and mixes make their own links; there is no graph".to_owned());
                }
                network::graph(&point.scenario, &loaded.inputs, point.seed).map(|(graph, _)| graph.edges)
            })
        })
    }

    /// Returns the custody columns of nodes in every run.
    fn custody(&self, py: Python<'_>) -> PyResult<Table> {
        let loaded = &self.scenario;
        py.detach(|| {
            pairs("custody", loaded, ["node", "column"], |point| {
                if point.scenario.family().custody.is_none() {
                    return Err("only blocks of columns have custody".to_owned());
                }
                let (_, kept) = network::custody(&point.scenario, &loaded.inputs, point.seed)?;
                let rows = (0..).zip(kept);
                Ok(rows.flat_map(|(node, own)| own.into_iter().map(move |column| (node, column))).collect())
            })
        })
    }

    /// Runs all points.
    ///
    /// `progress` is called several times a second with a list of names and shares. `tables` names
    /// the tables to keep in memory, all by default, except those with more than `rows_max` rows.
    /// Only if it names `paths`, deliveries are explained.
    /// `out` is a results directory. `command` is that of the process, for the origin of the result.
    #[pyo3(signature = (*, command, threads = None, progress = None, tables = None, rows_max = 50_000_000, out = None, force = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
    fn run(
        &self,
        py: Python<'_>,
        command: String,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
        tables: Option<Vec<String>>,
        rows_max: usize,
        out: Option<PathBuf>,
        force: bool,
    ) -> PyResult<Outcome> {
        let start = Instant::now();
        let mut loaded = Arc::clone(&self.scenario);
        let calibration = samara_lab::family::of(&loaded.scenario).calibration;
        if (calibration.is_wanted)(&loaded) {
            let scenario = Arc::make_mut(&mut loaded);
            py.detach(|| (calibration.measure)(scenario)).map_err(|error| errors::scenario(py, &error))?;
        }
        // The order in which nodes call a shared policy must not depend on threads.
        let threads = if self.is_shared { 1 } else { threads.unwrap_or_else(samara_lab::usage::processors) };
        let directory = out
            .map(|path| ResultsDirectory::create(&path, &loaded, force))
            .transpose()
            .map_err(errors::directory)?;
        let keep = Keep { names: tables, rows_max };
        let observer = Observer::new(&loaded, &keep, directory.as_ref());
        let (results, tables) =
            progress::run(py, &loaded, observer, threads, &self.failure, progress.as_ref())?;
        let origin = Some(Made::now(command, env!("SAMARA_COMMIT")));
        let used = Used { origin, ..Used::since(start) };
        let mut findings = Findings::of(&loaded, results, used).map_err(RunError::new_err)?;
        let page = py.detach(|| report::page(&loaded, &findings));
        findings.summary.headline.take(&page, findings.is_complete);
        if let Some(directory) = &directory {
            directory.summary(&findings.summary).map_err(errors::directory)?;
            py.detach(|| report::write(&page, directory)).map_err(errors::directory)?;
            directory.finish(&findings.summary, findings.is_complete).map_err(errors::directory)?;
        }
        let directory = directory.map(|directory| directory.path().to_path_buf());
        Ok(Outcome { loaded, findings, page, tables, directory })
    }
}

/// Returns a table of two integer columns for each run, with labels.
fn pairs(
    name: &str,
    loaded: &Scenario,
    columns: [&'static str; 2],
    of: impl Fn(&Point) -> Result<Vec<(u32, u32)>, String>,
) -> PyResult<Table> {
    let labels = Labels::of(&loaded.points);
    let mut batches = Vec::new();
    for (at, point) in loaded.points.iter().enumerate() {
        let rows = of(point)
            .map_err(|error| errors::table(format!("{}: run {}: {error}", loaded.source, point.name())))?;
        let (left, right) = (rows.iter().map(|pair| pair.0), rows.iter().map(|pair| pair.1));
        let rows = Rows::new([(columns[0], column(left)), (columns[1], column(right))]);
        batches.push(labels.label(at, &rows).map_err(errors::table)?);
    }
    Table::new(name, batches)
}

/// Returns the tables of a result that are in memory, by name.
pub(crate) fn here(tables: &crate::table::Tables) -> BTreeMap<String, Arc<Rows>> {
    tables
        .iter()
        .filter_map(|(name, kept)| match kept {
            Kept::Here(rows) => Some((name.clone(), Arc::clone(rows))),
            Kept::Gone(_) => None,
        })
        .collect()
}
