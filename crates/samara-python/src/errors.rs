//! What goes wrong, with the texts of the command line.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use samara_scenario::ScenarioError as Problems;

create_exception!(
    samara,
    Error,
    PyException,
    "Something that Samara cannot do; every other exception of this package is one of these."
);
create_exception!(
    samara,
    ScenarioError,
    Error,
    "A scenario that cannot be run. `problems` has every key, line and message."
);
create_exception!(samara, RunError, Error, "A run that cannot be done.");
create_exception!(samara, TableError, Error, "A table that is not there.");
create_exception!(samara, FigureError, Error, "A figure that there is not.");
create_exception!(samara, DirectoryError, Error, "A results directory that cannot be read or written.");
create_exception!(samara, PolicyError, Error, "A scheduling policy whose order is none.");

/// Everything that is wrong with a scenario.
pub(crate) fn scenario(py: Python<'_>, error: &Problems) -> PyErr {
    let raised = ScenarioError::new_err(error.to_string());
    let problems: Vec<(Option<&str>, Option<usize>, &str)> = error
        .problems
        .iter()
        .map(|problem| (problem.key.as_deref(), problem.line, problem.message.as_str()))
        .collect();
    let value = raised.value(py);
    match value.setattr("source", &error.source).and_then(|()| value.setattr("problems", problems)) {
        Ok(()) => raised,
        Err(error) => error,
    }
}

/// A results directory that cannot be read or written.
pub(crate) fn directory(error: impl Display) -> PyErr {
    DirectoryError::new_err(error.to_string())
}

/// A table that is not there.
pub(crate) fn table(error: impl Display) -> PyErr {
    TableError::new_err(error.to_string())
}
