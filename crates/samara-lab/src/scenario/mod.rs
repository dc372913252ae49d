//! Scenario files: read, checked against everything that can be known beforehand, and written out into runs.
//!
//! ```text
//! ScenarioFile::open / builtin / parse -> set (as often as wanted) -> plan -> Plan { points { runs } }
//! ```
//!
//! All problems that can be found are reported at once, each with file, line, key, what was found and what is allowed.

mod error;
mod model;
mod plan;
mod rules;
mod schema;
mod source;
pub(crate) mod suggest;
mod tree;

pub mod builtin;

pub use error::{Place, Problem, ScenarioError};
pub use model::*;
pub use plan::{Coordinate, Plan, PlannedRun, Point, ScenarioFile};
pub use schema::json_schema;
pub use source::{FileError, Files};
