//! Reasons why a testbed gives no result.

use std::io;
use std::path::PathBuf;

use samara_emulation::{RelayError, Unavailable};
use samara_trace::TraceError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum TestbedError {
    /// The scenario does not suit a testbed.
    #[error("{0}")]
    Scenario(String),
    #[error("interrupted")]
    Interrupted,
    #[error("{who} ended during {phase} ({status}); its log, {log}, ends with:\n{tail}")]
    Ended { who: String, phase: &'static str, status: String, log: PathBuf, tail: String },
    #[error("{who} failed during {phase}: {reason}; its log, {log}, ends with:\n{tail}")]
    Silent { who: String, phase: &'static str, reason: String, log: PathBuf, tail: String },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An error with a file or a process of the testbed itself.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl TestbedError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}
