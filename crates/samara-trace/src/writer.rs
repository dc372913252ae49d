//! Writing events into a file, in a thread of its own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::{Format, TraceEvent};

/// Events that wait for the thread at most, unless told otherwise: `TraceBufferSize` of go-libp2p-pubsub (`trace.go`).
pub const QUEUE_DEFAULT: usize = 1 << 16;

/// What happens to an event while too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// It is dropped and counted: go's lossy tracer. The node never waits.
    Drop,
    /// The caller waits: nothing is missing, but a slow disk slows the node down.
    Wait,
}

/// What has become of the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the file, or in the buffer before it.
    pub written: u64,
    /// Dropped because too many waited.
    pub dropped: u64,
    /// Not written because of an error, the first included.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Writes events into a file. Dropping it waits until all are written; [`finish`](Self::finish) also tells of errors.
#[derive(Debug)]
pub struct TraceWriter {
    events: Option<SyncSender<TraceEvent>>,
    when_full: WhenFull,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl TraceWriter {
    /// Creates or empties a file. At most `queue` events (at least 1) wait to be written.
    ///
    /// # Errors
    /// The file cannot be created, or the thread cannot be started.
    pub fn create(path: &Path, format: Format, queue: usize, when_full: WhenFull) -> io::Result<Self> {
        Self::into(File::create(path)?, format, queue, when_full)
    }

    /// The same into anything that takes bytes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into(
        target: impl Write + Send + 'static,
        format: Format,
        queue: usize,
        when_full: WhenFull,
    ) -> io::Result<Self> {
        let (events, inbox) = sync_channel(queue.max(1));
        let shared = Arc::new(Shared::default());
        let counts = Arc::clone(&shared);
        let work = move || write_all(&inbox, format, BufWriter::new(target), &counts);
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(work)?;
        Ok(Self { events: Some(events), when_full, shared, thread: Some(thread) })
    }

    /// Hands over an event. `false` if it was dropped, which is counted.
    pub fn record(&self, event: TraceEvent) -> bool {
        let Some(events) = &self.events else { return false };
        let taken = match self.when_full {
            WhenFull::Wait => events.send(event).is_ok(),
            WhenFull::Drop => match events.try_send(event) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            },
        };
        if !taken {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// What has become of the events so far.
    pub fn counts(&self) -> Counts {
        Counts {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// Waits until everything is in the file. Also returns the first error of writing, after which nothing was written.
    pub fn finish(mut self) -> (Counts, io::Result<()>) {
        let closed = self.close();
        (self.counts(), closed)
    }

    fn close(&mut self) -> io::Result<()> {
        self.events = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the trace panicked")),
        }
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        // Whoever wants to know of errors calls `finish`.
        let _ = self.close();
    }
}

/// Writes until nobody can send any more. Flushes whenever nothing waits, so that the file can be followed.
fn write_all(
    inbox: &Receiver<TraceEvent>,
    format: Format,
    mut out: impl Write,
    shared: &Shared,
) -> io::Result<()> {
    let mut failure = None;
    let mut bytes = Vec::new();
    while let Some(event) = next(inbox, &mut out, &mut failure) {
        if failure.is_some() {
            // Taken all the same: whoever waits for room must not wait for ever.
            shared.failed.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        bytes.clear();
        format.encode(&event, &mut bytes);
        match out.write_all(&bytes) {
            Ok(()) => shared.written.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                failure = Some(error);
                shared.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
    }
    match failure {
        Some(error) => Err(error),
        None => out.flush(),
    }
}

fn next(
    inbox: &Receiver<TraceEvent>,
    out: &mut impl Write,
    failure: &mut Option<io::Error>,
) -> Option<TraceEvent> {
    if let Ok(event) = inbox.try_recv() {
        return Some(event);
    }
    if failure.is_none() {
        *failure = out.flush().err();
    }
    inbox.recv().ok()
}
