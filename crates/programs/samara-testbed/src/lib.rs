//! Runs a scenario on real node processes over emulated links.
//!
//! It takes the same scenario file as the simulator and returns the same result,
//! [`Measured`](samara_lab::results::Measured), so that tables, figures and comparisons are the
//! same. Each host is a process: `samara host`, or a program of others that speaks the same lines
//! (`docs/guides/implementations.md`).
//!
//! The testbed guesses nothing: processes report when they listen, hosts receive commands ahead with
//! the exact time, and a process that ends or hangs fails the run with the end of its log. No process
//! outlives the run.

mod check;
mod error;
mod fleet;
mod quota;
mod rivals;
mod run;
pub mod shadow;
mod usage;
mod wire;

pub use check::check_host;
pub use error::TestbedError;
pub use fleet::HostProgram;
pub use run::{Done, Options, check, run};
