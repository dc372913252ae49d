//! Runners with partial messages: ours, and those of other implementations.

use std::path::{Path, PathBuf};

use crate::go_program::{GoProgram, Release};

static GO: GoProgram = GoProgram::new("go-partial", "no partial message went to go-libp2p-pubsub");

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
        match self {
            Self::Samara => Some(env!("CARGO_BIN_EXE_samara-interop").into()),
            Self::Go16 => GO.path(Release::Pinned).map(Path::to_owned),
            Self::Go19 => GO.path(Release::Newest).map(Path::to_owned),
            Self::Rust => Some(example("rust_libp2p")),
        }
    }
}

/// Returns the path of an example. Cargo builds the examples of a package for its tests, unless the
/// command selects other targets.
pub(crate) fn example(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_samara-interop")).with_file_name("examples");
    let program = directory.join(name);
    assert!(program.exists(), "found no {program:?}; run `cargo build -p samara-interop --example {name}`");
    program
}
