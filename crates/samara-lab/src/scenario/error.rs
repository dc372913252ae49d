//! What is wrong with a scenario, so that whoever wrote it can mend it.

use std::fmt;

pub(crate) use samara_scenario::line_of;
pub use samara_scenario::{Problem, closest};

/// Everything that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or the name of the built-in scenario.
    pub source: String,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    pub(crate) fn one(source: &str, message: impl Into<String>) -> Self {
        let problem = Problem { key: None, line: None, message: message.into() };
        Self { source: source.to_owned(), problems: vec![problem] }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.source)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
            if let Some(key) = &problem.key {
                write!(f, "{key}: ")?;
            }
            f.write_str(problem.message.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}
