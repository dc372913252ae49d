//! The program with js-libp2p that tests of several crates run. They include this file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Files to copy to the directory of the packages.
const FILES: [&str; 4] = ["package.json", "package-lock.json", "node20.mjs", "peer.mjs"];

/// Returns the path of `interop/js/peer.mjs` beside its packages. Without Node.js or npm, returns
/// `None` and prints what was skipped, or panics if `SAMARA_REQUIRE_PEERS` is set.
pub(crate) fn program() -> Option<&'static Path> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(program) => Some(program),
        Err(missing) => {
            let required = std::env::var_os("SAMARA_REQUIRE_PEERS").is_some();
            assert!(!required, "SAMARA_REQUIRE_PEERS is set, but js-libp2p is not available: {missing}");
            // Written to standard error directly, because the macros of the standard library print
            // only if a test fails.
            let _ = writeln!(std::io::stderr(), "SKIPPED: nothing was tested with js-libp2p: {missing}");
            None
        }
    }
}

/// Installs the packages, unless they are already installed. Returns the program, or the missing
/// requirement.
fn install() -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        Command::new(program).arg("--version").output().map_err(|_| format!("{program} is not installed"))?;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop/js");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("js-peer");
    std::fs::create_dir_all(&target).expect("a directory below the target directory");
    for file in FILES {
        std::fs::copy(source.join(file), target.join(file)).expect("a copy");
    }
    let wanted = std::fs::read(source.join("package-lock.json")).expect("the lock file");
    let installed = target.join("installed");
    if std::fs::read(&installed).is_ok_and(|lock| lock == wanted) {
        return Ok(target.join("peer.mjs"));
    }
    let npm = Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(&target).output();
    let npm = npm.expect("npm runs");
    if !npm.status.success() {
        let said = String::from_utf8_lossy(&npm.stderr);
        return Err(format!("npm ci in {} failed: {said}", target.display()));
    }
    std::fs::write(installed, wanted).expect("the list of installed packages");
    Ok(target.join("peer.mjs"))
}
