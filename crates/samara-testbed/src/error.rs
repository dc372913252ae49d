//! Why a testbed gave no result.

use std::io;
use std::path::PathBuf;

use samara_emulation::{RelayError, Unavailable};
use samara_trace::TraceError;
use thiserror::Error;

/// Why a testbed gave no result.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// Something in the scenario does not fit.
    #[error("{0}")]
    Scenario(String),
    #[error("interrupted")]
    Interrupted,
    /// A node's process ended too early.
    #[error("node {node} ended during {phase} ({status}); its log, {log}, ends with:\n{tail}")]
    Ended {
        node: u32,
        /// What the testbed was doing.
        phase: &'static str,
        /// How it ended.
        status: String,
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    /// A node does not answer.
    #[error("node {node} does not answer during {phase}: {reason}; its log, {log}, ends with:\n{tail}")]
    Silent {
        node: u32,
        /// What the testbed was doing.
        phase: &'static str,
        /// What was wrong with its answer.
        reason: String,
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },
    #[error(
        "the network was not ready after {waited_s:.0} s: {missing}; give it more time with --ready-timeout, or look at the logs in {logs}"
    )]
    NotReady {
        /// How long it was waited for.
        waited_s: f64,
        missing: String,
        logs: PathBuf,
    },
    /// Links cannot be emulated here.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The relay of the emulated links failed.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file or a process of the testbed itself.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl TestbedError {
    /// An error of the operating system.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}
