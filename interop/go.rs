//! Go programs that tests of several crates run. They include this file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A release of the library of a program: each is a list of modules beside the program's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// `go.mod`: the oldest release that the tests cover.
    Pinned,
    /// `newest.mod`: the newest one.
    #[allow(dead_code, reason = "celestia-core has one release")]
    Newest,
}

impl Release {
    #[allow(dead_code, reason = "celestia-core has one release")]
    pub(crate) const ALL: [Self; 2] = [Self::Pinned, Self::Newest];

    /// The file with the modules.
    const fn modules(self) -> &'static str {
        match self {
            Self::Pinned => "go.mod",
            Self::Newest => "newest.mod",
        }
    }
}

/// A program in a directory of `interop`, which is built once for each release.
pub(crate) struct GoProgram {
    directory: &'static str,
    /// Steps that tests skip without Go.
    skipped: &'static str,
    paths: [OnceLock<Option<PathBuf>>; 2],
}

impl GoProgram {
    pub(crate) const fn new(directory: &'static str, skipped: &'static str) -> Self {
        Self { directory, skipped, paths: [OnceLock::new(), OnceLock::new()] }
    }

    /// Returns the path of the program. Without Go, returns `None` and prints what was skipped, or
    /// panics if `SAMARA_REQUIRE_PEERS` is set.
    pub(crate) fn path(&self, release: Release) -> Option<&Path> {
        let path = self.paths[release as usize].get_or_init(|| self.build(release)).as_deref();
        if path.is_none() {
            // Written to standard error directly, because the macros of the standard library print
            // only if a test fails.
            let _ = writeln!(std::io::stderr(), "SKIPPED: Go is not installed, so {}", self.skipped);
        }
        path
    }

    /// Builds the program. Each release has its own directory, so that the file has the name of the
    /// program.
    fn build(&self, release: Release) -> Option<PathBuf> {
        if Command::new("go").arg("version").output().is_err() {
            let required = std::env::var_os("SAMARA_REQUIRE_PEERS").is_some();
            assert!(!required, "SAMARA_REQUIRE_PEERS is set, but Go is not installed");
            return None;
        }
        let modules = release.modules();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../interop").join(self.directory);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(modules);
        std::fs::create_dir_all(&target).expect("a directory below the target directory");
        let path = target.join(self.directory);
        let mut build = Command::new("go");
        build.args(["build", "-modfile", modules, "-o"]).arg(&path).arg(".").current_dir(source);
        let built = build.output().expect("go build runs");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "interop/{} with {modules}: {said}", self.directory);
        Some(path)
    }
}
