//! `samara node`.

use std::path::Path;
use std::process::ExitCode;

/// Copies were left when the node stopped.
#[cfg(feature = "net")]
const COPIES_LEFT: u8 = 3;

#[cfg(feature = "net")]
pub(crate) fn run(config: &Path, end_with_stdin: bool) -> Result<ExitCode, String> {
    if end_with_stdin {
        std::thread::spawn(|| {
            // Whatever comes is thrown away, up to the end or an error.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
        });
    }
    Ok(match samara_node::run(config)? {
        samara_node::Outcome::Drained => ExitCode::SUCCESS,
        samara_node::Outcome::CopiesLeft => ExitCode::from(COPIES_LEFT),
    })
}

#[cfg(feature = "net")]
pub(crate) fn new_certificate(path: &Path) -> Result<ExitCode, String> {
    crate::print(&(samara_node::new_certificate(path)? + "\n"))
}

#[cfg(not(feature = "net"))]
pub(crate) fn run(config: &Path, _: bool) -> Result<ExitCode, String> {
    Err(without_sockets("--config", config))
}

#[cfg(not(feature = "net"))]
pub(crate) fn new_certificate(path: &Path) -> Result<ExitCode, String> {
    Err(without_sockets("--new-certificate", path))
}

#[cfg(not(feature = "net"))]
fn without_sockets(option: &str, path: &Path) -> String {
    let path = path.display();
    format!("built without real sockets; use `cargo run --release --features net -- node {option} {path}`")
}
