//! What a configuration says when a value in it is not possible.

use std::borrow::Cow;
use std::fmt::Debug;

use thiserror::Error;

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// The path of the field, or of several that do not fit together, for example `requests.timeout`.
    pub field: Cow<'static, str>,
    /// The value that the field has.
    pub found: String,
    /// The values that it can have, in words.
    pub expected: Cow<'static, str>,
}

/// Checks one value of a configuration.
///
/// # Errors
/// The condition does not hold.
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
