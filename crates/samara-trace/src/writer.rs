//! Writes in a separate thread behind a bounded queue, to a file or another sink.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use crate::{Format, TraceEvent};

/// Default limit of events that wait for the thread: `TraceBufferSize` of go-libp2p-pubsub
/// (`trace.go`).
pub const QUEUE_DEFAULT: usize = 1 << 16;

/// Policies for an event when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Drop the event and count it, as go's lossy tracer does. The node never waits.
    #[default]
    Drop,
    /// Block the caller. Nothing is missing, but a slow disk slows the node down.
    Wait,
}

/// Writes events to a file. Dropping it waits until all are written; [`finish`](Self::finish) also
/// reports errors.
#[derive(Debug)]
pub struct TraceWriter {
    background: Background<TraceEvent>,
    when_full: WhenFull,
}

impl TraceWriter {
    /// Creates or truncates a file. At most `queue` events (at least 1) wait to be written.
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

    /// Queues an event. Returns false if it was dropped, which is counted.
    pub fn record(&self, event: TraceEvent) -> bool {
        self.background.offer(event, self.when_full == WhenFull::Wait)
    }

    /// Counts of the events so far.
    pub fn counts(&self) -> Counts {
        self.background.counts()
    }

    /// Waits until all events are in the file. Also returns the first error, after which nothing
    /// was written.
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

/// Counts of items by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that were written to the file or to its buffer.
    pub written: u64,
    pub dropped: u64,
    /// Items that were not written because of an error, including the first one.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

pub(crate) trait Sink<T>: Send + 'static {
    /// Writes an item; `dropped` items were dropped so far.
    fn write(&mut self, item: &T, dropped: u64) -> io::Result<()>;

    fn flush(&mut self) -> io::Result<()>;
}

/// A queue of items with the thread that writes them. Dropping it waits until all are written.
#[derive(Debug)]
pub(crate) struct Background<T> {
    items: Option<SyncSender<T>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts the thread. At most `queue` items (at least 1) wait to be written.
    pub(crate) fn start(name: &str, queue: usize, sink: impl Sink<T>) -> io::Result<Self> {
        let (items, inbox) = sync_channel(queue.max(1));
        let shared = Arc::new(Shared::default());
        let counts = Arc::clone(&shared);
        let work = move || write_all(&inbox, sink, &counts);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { items: Some(items), shared, thread: Some(thread) })
    }

    /// Queues an item. Returns false if it was dropped.
    pub(crate) fn offer(&self, item: T, wait: bool) -> bool {
        let Some(items) = &self.items else { return false };
        let is_taken = if wait { items.send(item).is_ok() } else { items.try_send(item).is_ok() };
        if !is_taken {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_taken
    }
}

impl<T> Background<T> {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// Waits until all items are written. Also returns the first error, after which nothing was
    /// written.
    pub(crate) fn finish(mut self) -> (Counts, io::Result<()>) {
        let closed = self.close();
        (self.counts(), closed)
    }

    fn close(&mut self) -> io::Result<()> {
        self.items = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the file panicked")),
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        // Errors are available from `finish` only.
        let _ = self.close();
    }
}

/// Writes until all senders are gone. Flushes whenever the queue is empty, so that readers can
/// follow the file.
fn write_all<T>(inbox: &Receiver<T>, mut sink: impl Sink<T>, shared: &Shared) -> io::Result<()> {
    let mut failure = None;
    while let Some(item) = next(inbox, &mut sink, &mut failure) {
        if failure.is_none() {
            failure = sink.write(&item, shared.dropped.load(Ordering::Relaxed)).err();
        }
        // Keeps receiving after an error, since a blocked caller would wait forever.
        let counter = if failure.is_none() { &shared.written } else { &shared.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    match failure {
        Some(error) => Err(error),
        None => sink.flush(),
    }
}

fn next<T>(inbox: &Receiver<T>, sink: &mut impl Sink<T>, failure: &mut Option<io::Error>) -> Option<T> {
    if let Ok(item) = inbox.try_recv() {
        return Some(item);
    }
    if failure.is_none() {
        *failure = sink.flush().err();
    }
    inbox.recv().ok()
}
