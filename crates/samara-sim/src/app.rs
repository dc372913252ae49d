//! What an experiment learns of a host besides its events.

use samara_engine::Engine;

use crate::{FrameCodec, Reader};

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

/// Encodes frames, events and counters that travel between the processes of a distributed simulation.
pub trait Codec<A: App>: FrameCodec<A::Frame> {
    /// Appends an event.
    fn write_event(&self, event: &A::Event, out: &mut Vec<u8>);

    /// Reads an event that [`write_event`](Self::write_event) wrote; `None` if the bytes do not
    /// parse.
    fn read_event(&self, reader: &mut Reader<'_>) -> Option<A::Event>;

    /// Appends counters.
    fn write_counters(&self, counters: &A::Counters, out: &mut Vec<u8>);

    /// Reads counters that [`write_counters`](Self::write_counters) wrote; `None` if the bytes do
    /// not parse.
    fn read_counters(&self, reader: &mut Reader<'_>) -> Option<A::Counters>;
}
