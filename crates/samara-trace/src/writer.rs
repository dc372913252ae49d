//! Writing the events of a running node into a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::background::{Background, Sink};
use crate::{Counts, Format, TraceEvent};

/// Events that wait for the thread at most, by default: `TraceBufferSize` of go-libp2p-pubsub (`trace.go`).
pub const QUEUE_DEFAULT: usize = 1 << 16;

/// What happens to an event that finds the queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// It is dropped and counted, as by go's lossy tracer. The node never waits.
    #[default]
    Drop,
    /// The caller waits: nothing is missing, but a slow disk slows the node down.
    Wait,
}

/// Writes events into a file. Dropping it waits until all are written; [`finish`](Self::finish) also
/// reports errors.
#[derive(Debug)]
pub struct TraceWriter {
    background: Background<TraceEvent>,
    when_full: WhenFull,
}

impl TraceWriter {
    /// Creates or empties a file. At most `queue` events (at least 1) wait to be written.
    ///
    /// # Errors
    /// The file cannot be created, or the thread cannot be started.
    pub fn create(path: &Path, format: Format, queue: usize, when_full: WhenFull) -> io::Result<Self> {
        Self::into(File::create(path)?, format, queue, when_full)
    }

    /// Writes to any target.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into(
        target: impl Write + Send + 'static,
        format: Format,
        queue: usize,
        when_full: WhenFull,
    ) -> io::Result<Self> {
        let target = Target { out: BufWriter::new(target), format, bytes: Vec::new() };
        Ok(Self { background: Background::start("trace", queue, target)?, when_full })
    }

    /// Hands over an event. Returns false if it was dropped, which is counted.
    pub fn record(&self, event: TraceEvent) -> bool {
        self.background.offer(event, self.when_full == WhenFull::Wait)
    }

    /// The outcome of the events so far.
    pub fn counts(&self) -> Counts {
        self.background.counts()
    }

    /// Waits until everything is in the file. Also returns the first error, after which nothing was written.
    pub fn finish(self) -> (Counts, io::Result<()>) {
        self.background.finish()
    }
}

struct Target<W: Write> {
    out: BufWriter<W>,
    format: Format,
    bytes: Vec<u8>,
}

impl<W: Write + Send + 'static> Sink<TraceEvent> for Target<W> {
    fn write(&mut self, event: &TraceEvent, _: u64) -> io::Result<()> {
        self.bytes.clear();
        self.format.encode(event, &mut self.bytes);
        self.out.write_all(&self.bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
