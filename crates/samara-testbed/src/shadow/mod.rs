//! A scenario for [Shadow], the simulator that runs real programs: its network, and a real node on each host.
//!
//! [`export()`] writes what Shadow reads; [`gather()`] turns what the nodes have written under it into the results that a simulation or a
//! testbed gives. Nobody can talk to a node under Shadow, so that nodes have a plan (`[plan]` of `node.toml`): whom they dial, what they
//! publish when, and when they write down what they have counted.
//!
//! [Shadow]: https://shadow.github.io

mod export;
mod gather;
mod graph;

pub use export::{Exported, Options, export};
pub use gather::gather;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Shadow's clock begins on 1 January 2000 (`EMULATED_TIME_OFFSET`), in nanoseconds since 1970.
const EPOCH_NS: u64 = 946_684_800 * SECOND_NS;
const SECOND_NS: u64 = 1_000_000_000;

/// The file that says which run an export is.
const RUN_FILE: &str = "run.json";
/// What Shadow copies to its data directory, where each host's programs run in a directory of their own.
const TEMPLATE: &str = "template";
const DATA: &str = "shadow.data";
const NODE_FILE: &str = "node.toml";
/// What it publishes.
const PUBLICATIONS_FILE: &str = "publications.json";
/// What happened at it.
const TRACE_FILE: &str = "trace.pb";
/// What it had counted before the first publication, and when everything was over.
const METRICS_FILES: [&str; 2] = ["metrics-before.txt", "metrics-after.txt"];

/// Which run an export is, so that nobody gathers it as another one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    version: String,
    scenario: String,
    run: String,
    seed: u64,
    /// Every key of the run.
    configuration: toml::Table,
    first_unix_ns: u64,
    /// How long nodes have had for links and meshes, in seconds.
    settle_s: u64,
    program: PathBuf,
}

fn host(node: u32) -> String {
    format!("node{node}")
}

/// The directory of a host under another one.
fn of_host(directory: &Path, node: u32) -> PathBuf {
    directory.join("hosts").join(host(node))
}
