//! Two results side by side.

use std::path::PathBuf;

use pyo3::prelude::*;
use samara_lab::compare::{self, Crossed, Threshold, compare};
use samara_lab::results::Saved;

use crate::errors::{DirectoryError, Error};

/// Two results side by side.
#[pyclass(frozen, module = "samara._samara")]
pub(crate) struct Compared(compare::Compared);

impl Compared {
    pub(crate) fn new(a: Saved, b: Saved) -> PyResult<Self> {
        compare(a, b).map(Self).map_err(Error::new_err)
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

/// Sets two results directories side by side.
#[pyfunction]
pub(crate) fn open_results(py: Python<'_>, a: PathBuf, b: PathBuf) -> PyResult<Compared> {
    py.detach(|| {
        let open = |path: &PathBuf| Saved::open(path).map_err(DirectoryError::new_err);
        Compared::new(open(&a)?, open(&b)?)
    })
}

#[pymethods]
impl Compared {
    /// The table that the command line prints.
    #[getter]
    fn text(&self) -> String {
        self.0.table()
    }

    /// What has changed, as Markdown.
    #[pyo3(signature = (thresholds = vec![]))]
    fn markdown(&self, thresholds: Vec<String>) -> PyResult<String> {
        Ok(self.0.markdown(&self.crossed(&thresholds)?))
    }

    /// A page with the table, the changes and the distributions of both.
    #[pyo3(signature = (thresholds = vec![]))]
    fn html(&self, py: Python<'_>, thresholds: Vec<String>) -> PyResult<String> {
        let crossed = self.crossed(&thresholds)?;
        py.detach(|| self.0.html(&crossed)).map_err(Error::new_err)
    }

    /// Everything, as JSON; with the thresholds that are crossed.
    #[pyo3(signature = (thresholds = vec![]))]
    fn json(&self, thresholds: Vec<String>) -> PyResult<String> {
        Ok(self.0.json(&self.crossed(&thresholds)?).to_string())
    }
}
