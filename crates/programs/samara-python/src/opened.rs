//! Results that were written into a directory.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use samara_lab::results::{OpenedResult, Saved};
use samara_lab::sweep::Curve;
use samara_scenario::Point;

use crate::errors::{self, Error, FigureError};
use crate::loaded::Loaded;
use crate::outcome::{CurveParts, by_class, is_chosen, metrics_table, no_figure, no_run};
use crate::table::{Labels, Table};

/// An expectation: run, text, measured value, whether it holds, and whether it counts.
type Expected = (String, String, Option<f64>, bool, bool);

/// A result in a directory. It has the getters and methods of a result in memory.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct Opened(OpenedResult);

/// Opens a results directory.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, path: PathBuf) -> PyResult<Opened> {
    py.detach(|| OpenedResult::open(&path)).map(Opened).map_err(errors::directory)
}

impl Opened {
    pub(crate) fn saved(&self, name: &str) -> PyResult<Saved> {
        let mut saved = Saved::open(&self.0.path).map_err(errors::directory)?;
        saved.path = PathBuf::from(name);
        Ok(saved)
    }
}

#[pymethods]
impl Opened {
    /// The scenario of the result.
    #[getter]
    fn loaded(&self) -> Loaded {
        Loaded::of(Arc::new(self.0.loaded.clone()))
    }

    #[getter]
    fn directory(&self) -> PathBuf {
        self.0.path.clone()
    }

    #[getter]
    fn summary_json(&self) -> &str {
        &self.0.summary
    }

    #[getter]
    fn toml(&self) -> &str {
        &self.0.loaded.text
    }

    #[getter]
    fn text(&self) -> String {
        self.0.text(samara_report::terminal::WIDTH)
    }

    #[getter]
    fn expectations(&self) -> PyResult<Vec<Expected>> {
        let all = self.0.expectations().map_err(Error::new_err)?;
        Ok(all.into_iter().map(|o| (o.run, o.expected, o.found, o.holds, o.counts)).collect())
    }

    #[getter]
    fn table_names(&self) -> Vec<String> {
        self.0.tables()
    }

    #[pyo3(signature = (name, run = None, seed = None))]
    fn table(&self, py: Python<'_>, name: &str, run: Option<&str>, seed: Option<u64>) -> PyResult<Table> {
        let points = &self.0.loaded.points;
        let labels = Labels::of(points);
        let chosen: Vec<(usize, &Point)> =
            points.iter().enumerate().filter(|(_, point)| is_chosen(point, run, seed)).collect();
        if chosen.is_empty() {
            return Err(no_run(name, points));
        }
        let mut batches = Vec::new();
        for (at, point) in chosen {
            let parts = py.detach(|| self.0.table(point, name)).map_err(errors::table)?;
            for rows in &parts {
                batches.push(labels.label(at, rows).map_err(errors::table)?);
            }
        }
        Table::new(name, batches)
    }

    fn metrics(&self) -> PyResult<Table> {
        metrics_table("metrics", &self.0.records)
    }

    fn by_class(&self) -> PyResult<Table> {
        by_class(&self.0.loaded.source, self.0.records.clone())
    }

    #[pyo3(signature = (metric = None))]
    fn curve(&self, py: Python<'_>, metric: Option<&str>) -> PyResult<CurveParts> {
        let curve = py.detach(|| Curve::of(&self.0.loaded, self.0.records.clone(), metric));
        CurveParts::of(py, curve.map_err(PyValueError::new_err)?)
    }

    #[getter]
    fn figure_names(&self) -> Vec<String> {
        self.0.figures()
    }

    fn figure(&self, name: &str) -> PyResult<String> {
        let found = self.0.figure(name).map_err(FigureError::new_err)?;
        found.ok_or_else(|| no_figure(name, &self.0.figures()))
    }

    fn html(&self) -> PyResult<String> {
        self.0.html().map_err(errors::directory)
    }

    #[pyo3(signature = (path, force = false))]
    fn write(&self, path: PathBuf, force: bool) -> PyResult<()> {
        let _ = force;
        let (own, other) = (self.0.path.display(), path.display());
        Err(errors::directory(format!("the result is in {own}; copy this directory to {other}")))
    }
}
