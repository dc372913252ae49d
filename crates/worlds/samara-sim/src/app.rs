//! The application of a host, and the encoding of its commands, events and counters.

use samara_engine::{Engine, FrameCodec, Reader};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The application of a host: an engine and the workload around it.
///
/// Commands go in, and events come out. Nothing else of it is read from outside, except a snapshot
/// of its counters. All three can be written and read, so that an experiment does not depend on where
/// its hosts live.
pub trait App: Engine<Command: Serialize + DeserializeOwned, Event: Serialize + DeserializeOwned> {
    /// The counters. `()` without anything to count.
    type Counters: Clone + Serialize + DeserializeOwned + Send + 'static;

    /// Returns a snapshot of the counters.
    fn counters(&self) -> Self::Counters;

    /// Takes the work that the application has for processors since the last call. A host in a
    /// process runs it beside its links, and passes on the commands that come of it.
    ///
    /// A simulation never asks: work takes virtual time there, so that an application sets a timer.
    fn take_work(&mut self) -> Vec<Work<Self::Command>> {
        Vec::new()
    }
}

/// Work for a processor. It returns the command that tells the application of its result.
pub type Work<C> = Box<dyn FnOnce() -> C + Send>;

/// Encodes frames, events and counters as serde describes them, in the format of postcard.
#[derive(Clone, Copy, Debug)]
pub struct Postcard;

impl Postcard {
    /// Appends a value.
    ///
    /// # Panics
    /// If serde cannot describe the value, for instance a sequence of unknown length.
    pub fn put<T: Serialize>(value: &T, out: &mut Vec<u8>) {
        if let Err(error) = postcard::to_io(value, out) {
            panic!("{} has no encoding: {error}", std::any::type_name::<T>());
        }
    }

    /// Reads a value that [`put`](Self::put) wrote; `None` if the bytes are invalid.
    pub fn take<T: DeserializeOwned>(reader: &mut Reader<'_>) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(reader.rest()).ok()?;
        *reader = Reader::new(rest);
        Some(value)
    }
}

impl<F: Serialize + DeserializeOwned> FrameCodec<F> for Postcard {
    fn write(&self, frame: &F, out: &mut Vec<u8>) {
        Self::put(frame, out);
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<F> {
        Self::take(reader)
    }
}
