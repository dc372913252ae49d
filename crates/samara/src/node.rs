//! `samara node`.

use std::path::Path;
use std::process::ExitCode;

/// Copies were left when the node stopped.
#[cfg(feature = "net")]
const COPIES_LEFT: u8 = 3;

#[cfg(feature = "net")]
pub(crate) fn run(config: &Path) -> Result<ExitCode, String> {
    Ok(match samara_node::run(config)? {
        samara_node::Outcome::Drained => ExitCode::SUCCESS,
        samara_node::Outcome::CopiesLeft => ExitCode::from(COPIES_LEFT),
    })
}

#[cfg(not(feature = "net"))]
pub(crate) fn run(config: &Path) -> Result<ExitCode, String> {
    Err(format!(
        "built without real sockets; use `cargo run --release --features net -- node --config {}`",
        config.display()
    ))
}
