//! Writing a live file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Event, Line, VERSION};
use crate::Counts;
use crate::writer::{Background, Sink};

/// Lines that wait for the thread at most, by default: some MB.
const QUEUE_DEFAULT: usize = 1 << 14;
/// A file that grows beyond this many bytes is renamed to `NAME.jsonl.old`, and a new one started.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Teams that are repeated at the start of a new file, at most.
const TEAMS_MAX: usize = 256;

/// Writes the live file of a source. Dropping it waits until all is written; [`finish`](Self::finish)
/// also reports errors.
///
/// It never makes its caller wait: lines that find the queue full are dropped, and as soon as there is
/// room again a [`Dropped`](Event::Dropped) line says how many. Readers see the gap in `seq` as well.
#[derive(Debug)]
pub struct LiveWriter {
    background: Background<Line>,
    /// The number of the next line. Held while a line is handed over, so that numbers are in order in the file.
    seq: Mutex<u64>,
}

impl LiveWriter {
    /// Creates `live/NAME.jsonl` in the directory of the results, or replaces it. Characters of the name
    /// that not every file system takes become `_`.
    ///
    /// # Errors
    /// The directory or the file cannot be made, or the thread cannot be started.
    pub fn create(results: &Path, name: &str) -> io::Result<Self> {
        Self::with_limits(results, name, QUEUE_DEFAULT, FILE_BYTES_MAX)
    }

    /// The same, with at most `queue` lines that wait (at least 1) and `file_bytes_max` bytes before a new
    /// file is started.
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

    /// Reports an event of a node that the source speaks for. Returns false if it was dropped.
    pub fn say_of(&self, node: Option<&str>, at_ns: u64, event: Event) -> bool {
        let node = node.map(str::to_owned);
        let mut seq = self.seq.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Line { v: VERSION, seq: *seq, at_ns, node, event };
        *seq += 1;
        self.background.offer(line, false)
    }

    /// Waits until everything is in the file. Also returns the first error, after which nothing was written.
    pub fn finish(self) -> (Counts, io::Result<()>) {
        self.background.finish()
    }
}

/// The file, and the lines with which the next one has to begin.
struct Target {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    started: Option<Line>,
    teams: BTreeMap<u64, Line>,
    /// Dropped lines that were reported.
    dropped: u64,
}

impl Target {
    fn create(path: PathBuf, bytes_max: u64) -> io::Result<Self> {
        let out = BufWriter::new(new_file(&path)?);
        Ok(Self { path, out, bytes: 0, bytes_max, started: None, teams: BTreeMap::new(), dropped: 0 })
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
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
}

impl Sink<Line> for Target {
    fn write(&mut self, line: &Line, dropped: u64) -> io::Result<()> {
        if dropped > self.dropped {
            self.dropped = dropped;
            self.append(&Line { node: None, event: Event::Dropped { lines: dropped }, ..line.clone() })?;
        }
        self.append(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A new file in place of an old one, whose readers keep its contents.
fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}
