//! Runners with partial messages: ours, and those of other implementations.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A runner with partial messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Our runner.
    Samara,
    /// go-libp2p-pubsub v0.16.0 (`interop/go-partial`).
    Go16,
    /// go-libp2p-pubsub v0.19.0, the same source.
    Go19,
    /// rust-libp2p's gossipsub (`examples/rust_libp2p`).
    Rust,
}

impl Peer {
    /// Returns the path of the program, which is built once. `None` without Go.
    pub(crate) fn program(self) -> Option<PathBuf> {
        static GO_16: OnceLock<Option<PathBuf>> = OnceLock::new();
        static GO_19: OnceLock<Option<PathBuf>> = OnceLock::new();
        match self {
            Self::Samara => Some(env!("CARGO_BIN_EXE_samara-interop").into()),
            Self::Go16 => GO_16.get_or_init(|| build("go-partial-16", "go.mod")).clone(),
            Self::Go19 => GO_19.get_or_init(|| build("go-partial-19", "go19.mod")).clone(),
            Self::Rust => Some(example("rust_libp2p")),
        }
    }
}

fn build(name: &str, modules: &str) -> Option<PathBuf> {
    Command::new("go").arg("version").output().ok()?;
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Command::new("go")
        .args(["build", "-modfile", modules, "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/go-partial"))
        .output();
    let built = built.expect("go build runs");
    assert!(built.status.success(), "interop/go-partial: {}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// Returns the path of an example. Cargo builds the examples of a package for its tests, unless the
/// command selects other targets.
fn example(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_samara-interop")).with_file_name("examples");
    let program = directory.join(name);
    assert!(program.exists(), "found no {program:?}; run `cargo build -p samara-interop --example {name}`");
    program
}
