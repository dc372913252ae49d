//! The work on slots: jobs that the engine asks for, and that whoever drives it runs where it likes.
//!
//! A job is a value with all that it needs; running it has no effect but its answer, which goes back to the engine as
//! [`Command::Computed`](crate::Command::Computed). So the engine stays deterministic: a runtime runs jobs on all cores
//! ([`Pool`]), and a simulator runs them at once and charges what [`Job::work`] says.

mod cmix;
mod job;
mod model;
mod pool;
mod precompute;
mod realtime;
mod vault;

pub use job::{Done, Job, Work};
pub use pool::Pool;
pub use vault::{BadElement, Voided};

pub(crate) use job::{Answer, Task};
pub(crate) use vault::{Input, Output, Seat, Slots, Vault};
