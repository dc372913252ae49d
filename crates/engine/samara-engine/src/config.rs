//! Errors for impossible values in a configuration.

use std::borrow::Cow;
use std::fmt::Debug;

use thiserror::Error;

/// A configuration value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// The path of the field, for example `requests.timeout`, or of several contradictory fields.
    pub field: Cow<'static, str>,
    /// The value of the field.
    pub found: String,
    /// The allowed values, in words.
    pub expected: Cow<'static, str>,
}

impl ConfigError {
    /// Returns the error for a structure that has the structure of the field as `parent`.
    #[must_use]
    pub fn below(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field).into(), ..self }
    }
}

/// Checks one value of a configuration.
///
/// # Errors
/// Returns an error if `holds` is false.
pub fn check(
    holds: bool,
    field: impl Into<Cow<'static, str>>,
    found: impl Debug,
    expected: impl Into<Cow<'static, str>>,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { field: field.into(), found: format!("{found:?}"), expected: expected.into() })
}
