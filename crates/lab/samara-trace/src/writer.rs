//! Writes in a separate thread behind a bounded queue, to a file or another sink.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use prost::Message;
use serde::{Deserialize, Serialize};

use crate::reader::EVENT_BYTES_MAX;
use crate::{Format, TraceEvent};

/// Default limit of events that wait for the thread: `TraceBufferSize` of go-libp2p-pubsub
/// (`trace.go`).
pub const QUEUE_DEFAULT: usize = 1 << 16;

/// Limit of the bytes of events that wait for the thread, as protobuf: six events of 10 MiB, about
/// the largest that a peer can cause with the frames of Ethereum.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Default limit of a file in bytes. Peers determine how fast it grows.
pub const FILE_BYTES_DEFAULT: u64 = 16 << 30;

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

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    pub format: Format,
    /// Maximum number of events that wait to be written, at least 1.
    pub queue: usize,
    pub when_full: WhenFull,
    /// Maximum size of the file. Events that do not fit are dropped.
    pub bytes_max: u64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        let (format, when_full) = (Format::default(), WhenFull::default());
        Self { format, queue: QUEUE_DEFAULT, when_full, bytes_max: FILE_BYTES_DEFAULT }
    }
}

/// Writes events to a file. Dropping it waits until all are written; [`finish`](Self::finish) also
/// reports errors.
///
/// At most [`QUEUE_BYTES_MAX`] bytes of events wait. An event that [`TraceReader`](crate::TraceReader)
/// would refuse because of its size, or that does not fit into the file, is dropped and counted.
#[derive(Debug)]
pub struct TraceWriter {
    background: Background<Waiting>,
    when_full: WhenFull,
    waiting: Arc<WaitingBytes>,
}

impl TraceWriter {
    /// Creates or truncates a file.
    ///
    /// # Errors
    /// The file cannot be created, or the thread cannot be started.
    pub fn create(path: &Path, options: TraceOptions) -> io::Result<Self> {
        Self::into(File::create(path)?, options)
    }

    /// Writes to any target.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into(target: impl Write + Send + 'static, options: TraceOptions) -> io::Result<Self> {
        let TraceOptions { format, queue, when_full, bytes_max } = options;
        let target = Target { out: BufWriter::new(target), format, bytes: Vec::new(), left: bytes_max };
        let background = Background::start("trace", queue, target)?;
        Ok(Self { background, when_full, waiting: Arc::default() })
    }

    /// Queues an event. Returns false if it was dropped, which is counted.
    pub fn record(&self, event: TraceEvent) -> bool {
        let bytes = event.encoded_len();
        let wait = self.when_full == WhenFull::Wait;
        if !self.waiting.add(bytes, wait) {
            return self.background.refuse();
        }
        let all = Arc::clone(&self.waiting);
        self.background.offer(Waiting { event, bytes, all }, wait)
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

/// The number of bytes of all events that wait.
#[derive(Debug, Default)]
struct WaitingBytes {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

impl WaitingBytes {
    /// Adds an event. Returns false if there is no room for it and the caller does not wait. A
    /// single event always has room.
    fn add(&self, bytes: usize, wait: bool) -> bool {
        let is_full = |all: &mut usize| *all > 0 && *all + bytes > QUEUE_BYTES_MAX;
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if wait {
            all = self.fewer.wait_while(all, is_full).unwrap_or_else(PoisonError::into_inner);
        }
        let has_room = !is_full(&mut all);
        *all += if has_room { bytes } else { 0 };
        has_room
    }
}

#[derive(Debug)]
struct Waiting {
    event: TraceEvent,
    bytes: usize,
    all: Arc<WaitingBytes>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.all.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.all.fewer.notify_all();
    }
}

struct Target<W: Write> {
    out: BufWriter<W>,
    format: Format,
    bytes: Vec<u8>,
    /// Number of bytes that may follow.
    left: u64,
}

impl<W: Write + Send + 'static> Sink<Waiting> for Target<W> {
    fn write(&mut self, waiting: &Waiting, _: u64) -> io::Result<bool> {
        self.bytes.clear();
        self.format.encode(&waiting.event, &mut self.bytes);
        let len = self.bytes.len();
        if len > EVENT_BYTES_MAX || len as u64 > self.left {
            return Ok(false);
        }
        self.left -= len as u64;
        self.out.write_all(&self.bytes).map(|()| true)
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
    /// Writes an item; `dropped` items were dropped so far. Returns false if it has to be dropped.
    fn write(&mut self, item: &T, dropped: u64) -> io::Result<bool>;

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
        is_taken || self.refuse()
    }

    /// Counts an item that is dropped, and returns false.
    pub(crate) fn refuse(&self) -> bool {
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        false
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
        let outcome = match failure {
            None => sink.write(&item, shared.dropped.load(Ordering::Relaxed)),
            // Keeps receiving after an error, since a blocked caller would wait forever.
            Some(_) => Ok(false),
        };
        let counter = match outcome {
            Ok(true) => &shared.written,
            Ok(false) if failure.is_none() => &shared.dropped,
            _ => &shared.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        failure = failure.or(outcome.err());
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
