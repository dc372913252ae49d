//! Go programs that tests and examples of several crates run. They include this file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A program in a directory of `interop`, which is built once.
pub(crate) struct GoProgram {
    directory: &'static str,
    /// What no test did without Go.
    skipped: &'static str,
    path: OnceLock<Option<PathBuf>>,
}

impl GoProgram {
    pub(crate) const fn new(directory: &'static str, skipped: &'static str) -> Self {
        Self { directory, skipped, path: OnceLock::new() }
    }

    /// Returns the path of the program. Without Go, returns `None` and prints what was skipped, or
    /// panics if `SAMARA_REQUIRE_PEERS` is set.
    pub(crate) fn path(&self) -> Option<&Path> {
        let path = self.path.get_or_init(|| self.build()).as_deref();
        if path.is_none() {
            // Written to standard error directly, because the macros of the standard library print
            // only if a test fails.
            let _ = writeln!(std::io::stderr(), "SKIPPED: Go is not installed, so {}", self.skipped);
        }
        path
    }

    fn build(&self) -> Option<PathBuf> {
        if Command::new("go").arg("version").output().is_err() {
            let required = std::env::var_os("SAMARA_REQUIRE_PEERS").is_some();
            assert!(!required, "SAMARA_REQUIRE_PEERS is set, but Go is not installed");
            return None;
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(self.directory);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.directory);
        let built = Command::new("go").args(["build", "-o"]).arg(&path).arg(".").current_dir(source).output();
        let built = built.expect("go build runs");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "interop/{}: {said}", self.directory);
        Some(path)
    }
}
