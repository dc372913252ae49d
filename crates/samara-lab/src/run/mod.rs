//! One run: from a scenario without variants to its measurements.
//!
//! | file | concern |
//! |---|---|
//! | `job` | which run, which point of a sweep, which seed |
//! | `world`, `setup`, `engine`, `transport` | scenario to hosts, nodes, parameters, links |
//! | `faults` | what goes wrong, where and when |
//! | `execute` | virtual time goes by, figures come out |
//! | `process` | CPU time and memory of this process |

mod engine;
mod execute;
mod faults;
mod job;
mod process;
mod setup;
mod transport;
mod world;

use thiserror::Error;

pub(crate) use engine::schedule;
pub use execute::{Control, Finished, Progress, execute};
pub use job::Job;
pub use process::{cpu_seconds, peak_rss_bytes};

/// Why a run did not come to its end.
#[derive(Debug, Error)]
pub enum RunError {
    /// The network cannot be built.
    #[error(transparent)]
    Network(Box<crate::scenario::ScenarioError>),
    /// The simulator refuses the configuration.
    #[error(transparent)]
    Simulation(#[from] samara_sim::ConfigError),
    /// The engine refuses the configuration.
    #[error("gossipsub: {0}")]
    Engine(String),
    /// The publisher could not publish.
    #[error("slot {slot}: {columns} columns could not be published")]
    NotPublished {
        /// The slot.
        slot: u16,
        /// How many columns.
        columns: usize,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}
