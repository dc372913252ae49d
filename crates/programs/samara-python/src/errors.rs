//! Exceptions, with the error texts of the command line.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use samara_document::ScenarioError as Problems;

create_exception!(samara, Error, PyException, "The base class of all exceptions of this package.");
create_exception!(
    samara,
    ScenarioError,
    Error,
    "An invalid scenario. `problems` has the key, line and message of every problem."
);
create_exception!(samara, RunError, Error, "A run that failed.");
create_exception!(samara, TableError, Error, "A table that does not exist or is not in memory.");
create_exception!(samara, FigureError, Error, "A figure that does not exist or cannot be drawn.");
create_exception!(samara, DirectoryError, Error, "A results directory that cannot be read or written.");
create_exception!(samara, PolicyError, Error, "A scheduling policy that returned an invalid order.");

/// Converts the problems of a scenario in code to an exception. Their lines are those of a text that
/// the user has not written.
pub(crate) fn scenario_in_code(py: Python<'_>, mut error: Problems) -> PyErr {
    for problem in &mut error.problems {
        if let Some(line) = problem.line.take()
            && let Some(quoted) = problem.message.find(&format!("\n  {line} | "))
        {
            problem.message.truncate(quoted);
        }
    }
    scenario(py, &error)
}

/// Converts the problems of a scenario to an exception.
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

/// Converts an error of a results directory to an exception.
pub(crate) fn directory(error: impl Display) -> PyErr {
    DirectoryError::new_err(error.to_string())
}

/// Converts an error of a table to an exception.
pub(crate) fn table(error: impl Display) -> PyErr {
    TableError::new_err(error.to_string())
}
