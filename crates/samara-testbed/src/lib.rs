//! Runs a scenario on real node processes over emulated links.
//!
//! It takes the same scenario file as the simulator and returns the same result,
//! [`Measured`](samara_lab::results::Measured), so that tables, figures and comparisons are the
//! same. A node is any program that reads a `node.toml`, answers on the control API and writes a
//! trace in the format of go-libp2p-pubsub: `samara node`, or a peer of another implementation.
//! Pools of transactions report arrivals on the control API instead.
//!
//! The testbed guesses nothing: nodes report when they listen, the testbed waits for links and
//! meshes, nodes receive their publications ahead with the exact time, and a process that ends or
//! hangs fails the run with the end of its log. No process outlives the run.

mod client;
mod collect;
mod error;
mod fleet;
mod live;
mod mix;
mod nodefile;
mod plan;
mod pools;
mod process;
mod quota;
mod readiness;
mod rivals;
mod run;
pub mod shadow;
mod wire;

pub use error::TestbedError;
pub use fleet::HostProgram;
pub use process::NodeProgram;
pub use run::{Done, Options, SAMARA, check, run};
