//! Writing a live file, in a thread of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::{Event, Line, VERSION};

/// Lines that wait for the thread at most, unless told otherwise: some MB.
pub const QUEUE_DEFAULT: usize = 1 << 14;
/// A file that grows beyond this many bytes is renamed to `NAME.jsonl.old`, and a new one started.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Teams that are said again at the start of a new file, at most.
const TEAMS_MAX: usize = 256;

/// What has become of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// In the file, or in the buffer before it.
    pub written: u64,
    /// Dropped because too many waited.
    pub dropped: u64,
    /// Not written because of an error, the first included.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// The number of the next line. Held while it is handed over, so that numbers are in order in the file.
    seq: Mutex<u64>,
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Writes the live file of a source. Dropping it waits until all is written; [`finish`](Self::finish) also tells of errors.
///
/// It never makes its caller wait: lines that do not fit into the queue are dropped, and as soon as there is room again a
/// [`Dropped`](Event::Dropped) line says how many. Readers see the gap in `seq` as well.
#[derive(Debug)]
pub struct LiveWriter {
    lines: Option<SyncSender<Line>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LiveWriter {
    /// Creates `live/NAME.jsonl` in the directory of the results, or replaces it. Characters of the name that not every file
    /// system takes become `_`.
    ///
    /// # Errors
    /// The directory or the file cannot be made, or the thread cannot be started.
    pub fn create(results: &Path, name: &str) -> io::Result<Self> {
        Self::with_limits(results, name, QUEUE_DEFAULT, FILE_BYTES_MAX)
    }

    /// The same, with at most `queue` lines that wait (at least 1) and `file_bytes_max` bytes before a new file is started.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn with_limits(results: &Path, name: &str, queue: usize, file_bytes_max: u64) -> io::Result<Self> {
        let directory = results.join("live");
        fs::create_dir_all(&directory)?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let path = directory.join(format!("{name}.jsonl"));
        let (lines, inbox) = sync_channel(queue.max(1));
        let shared = Arc::new(Shared::default());
        let mut target = Target::create(path, file_bytes_max)?;
        let counts = Arc::clone(&shared);
        let work = move || write_all(&inbox, &mut target, &counts);
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(work)?;
        Ok(Self { lines: Some(lines), shared, thread: Some(thread) })
    }

    /// Tells of something about the source. `false` if it was dropped.
    pub fn say(&self, at_ns: u64, event: Event) -> bool {
        self.say_of(None, at_ns, event)
    }

    /// Tells of something about a node that the source speaks for. `false` if it was dropped.
    pub fn say_of(&self, node: Option<&str>, at_ns: u64, event: Event) -> bool {
        let Some(lines) = &self.lines else { return false };
        let node = node.map(str::to_owned);
        let mut seq = self.shared.seq.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = lines.try_send(Line { v: VERSION, seq: *seq, at_ns, node, event }).is_ok();
        *seq += 1;
        if !taken {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// What has become of the lines so far.
    pub fn counts(&self) -> LiveCounts {
        LiveCounts {
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// Waits until everything is in the file. Also returns the first error of writing, after which nothing was written.
    pub fn finish(mut self) -> (LiveCounts, io::Result<()>) {
        let closed = self.close();
        (self.counts(), closed)
    }

    fn close(&mut self) -> io::Result<()> {
        self.lines = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the thread that writes the live file panicked")),
        }
    }
}

impl Drop for LiveWriter {
    fn drop(&mut self) {
        // Whoever wants to know of errors calls `finish`.
        let _ = self.close();
    }
}

/// Writes until nobody can send any more. Flushes whenever nothing waits, so that the file can be followed.
fn write_all(inbox: &Receiver<Line>, target: &mut Target, shared: &Shared) -> io::Result<()> {
    let mut failure = None;
    let mut dropped_told = 0;
    while let Some(line) = next(inbox, target, &mut failure) {
        if failure.is_none() {
            let dropped = shared.dropped.load(Ordering::Relaxed);
            let told = (dropped > dropped_told).then(|| Line {
                node: None,
                event: Event::Dropped { lines: dropped },
                ..line.clone()
            });
            dropped_told = dropped;
            failure = told.iter().chain([&line]).try_for_each(|line| target.write(line)).err();
        }
        let counter = if failure.is_none() { &shared.written } else { &shared.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    match failure {
        Some(error) => Err(error),
        None => target.flush(),
    }
}

fn next(inbox: &Receiver<Line>, target: &mut Target, failure: &mut Option<io::Error>) -> Option<Line> {
    if let Ok(line) = inbox.try_recv() {
        return Some(line);
    }
    if failure.is_none() {
        *failure = target.flush().err();
    }
    inbox.recv().ok()
}

/// The file, and what the next one has to begin with.
struct Target {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    started: Option<Line>,
    teams: BTreeMap<u64, Line>,
}

impl Target {
    fn create(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let out = BufWriter::new(new_file(&path)?);
        Ok(Self { path, out, bytes: 0, bytes_max, started: None, teams: BTreeMap::new() })
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        if self.bytes > self.bytes_max {
            self.rotate(line)?;
        }
        self.put(line)?;
        match &line.event {
            Event::Started { .. } => self.started = Some(line.clone()),
            Event::Team { team, .. } => {
                self.teams.insert(*team, line.clone());
                if self.teams.len() > TEAMS_MAX {
                    self.teams.pop_first();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.bytes += bytes.len() as u64;
        self.out.write_all(&bytes)
    }

    /// Starts a new file with what still holds, said as of the line that follows. Who has the old one open can read it to its end.
    fn rotate(&mut self, before: &Line) -> io::Result<()> {
        self.out.flush()?;
        fs::rename(&self.path, self.path.with_extension("jsonl.old"))?;
        (self.out, self.bytes) = (BufWriter::new(new_file(&self.path)?), 0);
        let still = self.started.iter().chain(self.teams.values());
        let still: Vec<Line> =
            still.map(|line| Line { seq: before.seq, at_ns: before.at_ns, ..line.clone() }).collect();
        still.iter().try_for_each(|line| self.put(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A new file in place of whatever was there: whoever reads an earlier one is not surprised by other contents.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}
