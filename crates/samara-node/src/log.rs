//! Logging, on standard error: standard output is for the lines that programs read.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging, once in a process.
///
/// # Errors
/// A text: the filter is wrong, or logging was started before.
pub(crate) fn start(log: &Log) -> Result<(), String> {
    let filter =
        EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {:?}: {error}", log.filter))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    started.map_err(|error| format!("logging cannot be started: {error}"))
}
