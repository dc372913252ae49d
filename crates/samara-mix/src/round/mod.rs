//! What a round is: who takes part, how far it is, and how it can end.

mod failure;
mod phase;
mod plan;
mod state;

pub use failure::{Cause, Failure};
pub use phase::{Gate, Half, Phase};
pub use plan::{Plan, Transfer};
pub use state::{NodeState, RoundState};
