//! Writes a live file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Event, Line, VERSION};
use crate::Counts;
use crate::writer::{Background, Sink};

/// Default limit of lines that wait for the thread, which take some MB.
const QUEUE_DEFAULT: usize = 1 << 14;
/// Maximum size of a file in bytes. Then it is renamed to `NAME.jsonl.old`, and a new one is
/// started.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of teams that are repeated.
const TEAMS_MAX: usize = 256;

/// Writes the live file of a source. Dropping it waits until all lines are written;
/// [`finish`](Self::finish) also reports errors.
///
/// It never blocks its caller. If the queue is full, a line is dropped, and as soon as there is
/// room again a [`Dropped`](Event::Dropped) line reports the number of dropped lines. Readers also
/// notice the gap in `seq`.
#[derive(Debug)]
pub struct LiveWriter {
    background: Background<Line>,
    /// The number of the next line. The lock is held while a line enters the queue, so that the
    /// file has the numbers in order.
    seq: Mutex<u64>,
}

impl LiveWriter {
    /// Creates `live/NAME.jsonl` in the results directory, or replaces it. Characters of the name
    /// that some file systems do not support become `_`.
    ///
    /// # Errors
    /// The directory or the file cannot be created, or the thread cannot be started.
    pub fn create(results: &Path, name: &str) -> io::Result<Self> {
        Self::with_limits(results, name, QUEUE_DEFAULT, FILE_BYTES_MAX)
    }

    /// Creates the file with at most `queue` waiting lines (at least 1), and starts a new file
    /// after `file_bytes_max` bytes.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn with_limits(results: &Path, name: &str, queue: usize, file_bytes_max: u64) -> io::Result<Self> {
        let directory = results.join("live");
        fs::create_dir_all(&directory)?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).collect();
        let target = Target::create(directory.join(format!("{name}.jsonl")), file_bytes_max)?;
        Ok(Self { background: Background::start("live", queue, target)?, seq: Mutex::default() })
    }

    /// Reports an event of the source. Returns false if it was dropped.
    pub fn say(&self, at_ns: u64, event: Event) -> bool {
        self.say_of(None, at_ns, event)
    }

    /// Reports an event of a node for which the source reports. Returns false if it was dropped.
    pub fn say_of(&self, node: Option<&str>, at_ns: u64, event: Event) -> bool {
        let node = node.map(str::to_owned);
        let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Line { v: VERSION, seq: *seq, at_ns, node, event };
        *seq += 1;
        self.background.offer(line, false)
    }

    /// Waits until all lines are in the file. Also returns the first error, after which nothing was
    /// written.
    pub fn finish(self) -> (Counts, io::Result<()>) {
        self.background.finish()
    }
}

/// The file, and the lines that must be repeated at the start of the next one.
struct Target {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    valid: Valid,
    /// Number of dropped lines that were reported.
    dropped: u64,
}

impl Target {
    fn create(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let out = BufWriter::new(new_file(&path)?);
        Ok(Self { path, out, bytes: 0, bytes_max, valid: Valid::default(), dropped: 0 })
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        if self.bytes > self.bytes_max {
            self.rotate(line)?;
        }
        self.put(line)?;
        self.valid.note(line);
        Ok(())
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        let text = written(line)?;
        self.bytes += text.len() as u64;
        self.out.write_all(text.as_bytes())
    }

    /// Starts a new file with the lines that are still valid, at the time of the line that follows.
    /// Readers that have the old file open can read it to its end.
    fn rotate(&mut self, before: &Line) -> io::Result<()> {
        self.out.flush()?;
        fs::rename(&self.path, self.path.with_extension("jsonl.old"))?;
        (self.out, self.bytes) = (BufWriter::new(new_file(&self.path)?), 0);
        let still = self.valid.lines(before.seq, before.at_ns);
        still.iter().try_for_each(|line| self.put(line))
    }
}

/// Returns a line as text, with its end.
pub(super) fn written(line: &Line) -> serde_json::Result<String> {
    Ok(serde_json::to_string(line)? + "\n")
}

/// The lines of a source that stay valid when its earlier lines are gone.
#[derive(Debug, Default)]
pub(super) struct Valid {
    started: Option<Line>,
    teams: BTreeMap<u64, Line>,
}

impl Valid {
    pub(super) fn note(&mut self, line: &Line) {
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
    }

    /// Returns the lines before the one with this number and time.
    pub(super) fn lines(&self, seq: u64, at_ns: u64) -> Vec<Line> {
        let still = self.started.iter().chain(self.teams.values());
        still.map(|line| Line { seq, at_ns, ..line.clone() }).collect()
    }
}

impl Sink<Line> for Target {
    fn write(&mut self, line: &Line, dropped: u64) -> io::Result<bool> {
        if dropped > self.dropped {
            self.dropped = dropped;
            self.append(&Line { node: None, event: Event::Dropped { lines: dropped }, ..line.clone() })?;
        }
        self.append(line).map(|()| true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Creates a file in place of an old one. Readers that have the old one open keep its contents.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}
