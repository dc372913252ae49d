//! Which program a node is.

use std::ffi::OsString;
use std::path::PathBuf;

/// A program that is a node when it is given the path of a `node.toml` as its last argument.
#[derive(Clone, Debug)]
pub struct NodeProgram {
    /// What results call it.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Arguments before the path of the configuration.
    pub arguments: Vec<OsString>,
}
