//! What an experiment learns of a host besides its events.

use samara_engine::Engine;

/// What runs on a host: an engine and the workload around it.
///
/// Commands go in, and events come out. Nothing else of it is read from outside, except a snapshot
/// of its counters: an experiment that keeps to that does not depend on where its hosts live.
pub trait App: Engine {
    /// What it counts. `()` without anything to count.
    type Counters: Send + 'static;

    /// Returns a snapshot of the counters.
    fn counters(&self) -> Self::Counters;
}
