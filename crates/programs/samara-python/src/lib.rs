//! Samara in Python: the native part of the package `samara` (in `python/`).
//!
//! Scenarios are loaded and run as on the command line. Tables are shared in Arrow's format without
//! a copy. Scheduling policies can be Python classes. The interpreter's lock is released during
//! runs.

mod errors;
mod loaded;
mod opened;
mod outcome;
mod policy;
mod progress;
mod table;

use pyo3::prelude::*;
use samara_scenario::{builtins, schema as scenario_schema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the names and titles of the built-in scenarios.
#[pyfunction]
fn scenarios() -> Vec<(&'static str, String)> {
    builtins().iter().map(|builtin| (builtin.name, builtin.about("title"))).collect()
}

/// Returns the JSON Schema of scenarios as text.
#[pyfunction]
fn schema() -> String {
    scenario_schema().to_string()
}

/// Converts JSON to TOML.
#[pyfunction]
fn json_to_toml(json: &str) -> PyResult<String> {
    let fail = |error: String| errors::Error::new_err(error);
    let value: toml::Table = serde_json::from_str(json).map_err(|error| fail(error.to_string()))?;
    toml::to_string_pretty(&value).map_err(|error| fail(error.to_string()))
}

/// The native part of the package `samara`. Use that package instead.
#[pymodule]
mod _samara {
    #[pymodule_export]
    use super::errors::{
        DirectoryError, Error, FigureError, PolicyError, RunError, ScenarioError, TableError,
    };
    #[pymodule_export]
    use super::loaded::{Loaded, check, load};
    #[pymodule_export]
    use super::opened::{Opened, open};
    #[pymodule_export]
    use super::outcome::{Compared, Outcome, compare_results, open_results};
    #[pymodule_export]
    use super::policy::PendingCopy;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::{json_to_toml, scenarios, schema};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        samara_families::register();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
