//! Follows a live file while it is written.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Event, Line, VERSION};

/// Maximum length of a line in bytes, above that of a histogram with all its buckets. Longer lines
/// count as garbage.
pub const LINE_BYTES_MAX: usize = 1 << 18;
const PORTION: usize = 1 << 16;

/// Counts of the lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Lines that were read.
    pub lines: u64,
    /// Invalid lines: no JSON, fields of the wrong type, or too long.
    pub garbage: u64,
    pub other_version: u64,
    /// Lines with events that this version does not know.
    pub unknown: u64,
    /// Fields that this version does not know, in lines that were read.
    pub unknown_fields: u64,
    /// Numbers in `seq` that never arrived: dropped by the writer, or lost with an earlier file.
    pub missing: u64,
    /// Number of times the file was truncated or replaced.
    pub replaced: u64,
}

/// An item that [`LiveReader::poll`] yields.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all items are lines, and each is handed over at once")]
pub enum Said {
    Line(Line),
    /// The file was replaced or truncated, so earlier lines may be repeated.
    Replaced,
}

/// Opens a file for reading that a stranger may have made. Opening a pipe would wait for a writer,
/// and a link may lead anywhere.
///
/// # Errors
/// It cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    }
    #[cfg(not(unix))]
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a link"));
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"));
    }
    Ok(file)
}

/// Follows a file. The file need not exist yet. Links and pipes are not read.
///
/// [`poll`](Self::poll) returns the lines that were added since the last call. An incomplete line
/// is kept until the rest arrives. A truncated file is read from its start. A replaced file is read
/// to its end, and then the new one from its start.
#[derive(Debug)]
pub struct LiveReader {
    path: PathBuf,
    file: Option<Open>,
    lines: Lines,
}

#[derive(Debug)]
struct Open {
    file: File,
    offset: u64,
    identity: Identity,
}

impl LiveReader {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, lines: Lines::default() }
    }

    pub fn counts(&self) -> ReadCounts {
        self.lines.counts
    }

    /// Passes added lines to `take`, reading at most `bytes_max` bytes. Returns true if there may
    /// be more.
    ///
    /// # Errors
    /// The file exists, but cannot be read. The next call tries again.
    pub fn poll(&mut self, bytes_max: usize, mut take: impl FnMut(Said)) -> io::Result<bool> {
        let mut left = bytes_max;
        let mut buffer = vec![0; PORTION.min(bytes_max.max(1))];
        loop {
            if self.file.is_none() && !self.open()? {
                return Ok(false);
            }
            let Some(open) = &mut self.file else { return Ok(false) };
            let portion = buffer.len().min(left);
            let read = if portion == 0 { return Ok(true) } else { open.file.read(&mut buffer[..portion])? };
            open.offset += read as u64;
            left -= read;
            if read > 0 {
                self.lines.split(&buffer[..read], &mut |line| take(Said::Line(line)));
                continue;
            }
            if !self.is_replaced()? {
                return Ok(false);
            }
            self.start_anew(&mut take);
        }
    }

    fn open(&mut self) -> io::Result<bool> {
        match open_regular(&self.path) {
            Ok(file) => {
                let identity = Identity::of(&file.metadata()?);
                self.file = Some(Open { file, offset: 0, identity });
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the file was truncated, or another one is in its place.
    fn is_replaced(&self) -> io::Result<bool> {
        let Some(open) = &self.file else { return Ok(false) };
        if open.file.metadata()?.len() < open.offset {
            return Ok(true);
        }
        match fs::symlink_metadata(&self.path) {
            Ok(now) => Ok(Identity::of(&now) != open.identity),
            // The file may come back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn start_anew(&mut self, take: &mut impl FnMut(Said)) {
        self.file = None;
        self.lines.end();
        self.lines.counts.replaced += 1;
        take(Said::Replaced);
    }
}

/// Splits bytes into lines, and reads and counts them.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The start of an incomplete line.
    rest: Vec<u8>,
    /// The current line is too long, and is skipped up to its end.
    is_skipping: bool,
    /// The number of the next line, once one has been read.
    pub(super) next_seq: Option<u64>,
    pub(super) counts: ReadCounts,
}

impl Lines {
    /// Ends the bytes: an incomplete line will not be completed any more.
    pub(super) fn end(&mut self) {
        if !self.rest.is_empty() && !self.is_skipping {
            self.counts.garbage += 1;
        }
        self.rest.clear();
        self.is_skipping = false;
    }

    pub(super) fn split(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Line)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&bytes[..end], &bytes[end + 1..]);
            bytes = after;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if self.rest.is_empty() {
                self.line(line, take);
            } else {
                self.rest.extend_from_slice(line);
                let whole = std::mem::take(&mut self.rest);
                self.line(&whole, take);
            }
        }
        if self.is_skipping {
            return;
        }
        if self.rest.len() + bytes.len() > LINE_BYTES_MAX {
            self.counts.garbage += 1;
            self.is_skipping = true;
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    fn line(&mut self, line: &[u8], take: &mut impl FnMut(Line)) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if line.len() > LINE_BYTES_MAX {
            self.counts.garbage += 1;
            return;
        }
        let text = line;
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            // In another version, everything except the version may differ.
            match serde_json::from_slice::<Versioned>(text) {
                Ok(Versioned { v }) if v != VERSION => self.counts.other_version += 1,
                _ => self.counts.garbage += 1,
            }
            return;
        };
        if line.v != VERSION {
            self.counts.other_version += 1;
            return;
        }
        self.note_gap(&line);
        if line.event == Event::Unknown {
            self.counts.unknown += 1;
            return;
        }
        self.counts.lines += 1;
        self.counts.unknown_fields += unknown_fields(text, &line);
        take(line);
    }

    fn note_gap(&mut self, line: &Line) {
        // Numbers restart with their source, and a line that the writer adds has the number of the
        // line after it.
        if let Some(next) = self.next_seq.filter(|next| line.seq > *next) {
            self.counts.missing += line.seq - next;
        }
        self.next_seq = Some(line.seq.saturating_add(1));
    }
}

/// Counts the fields of a line that are not in what was read from it.
fn unknown_fields(text: &[u8], line: &Line) -> u64 {
    // Cannot fail: all fields of a line can be serialized.
    let Ok(known) = serde_json::to_string(line) else { return 0 };
    // A line of this version is the same when it is written again.
    if known.as_bytes() == text {
        return 0;
    }
    let values = (serde_json::from_slice(text), serde_json::from_str(&known));
    let (Ok(all), Ok(known)) = values else { return 0 };
    missing_fields(&all, &known)
}

/// Counts the fields of a value that another one lacks. `null` is the same as an omitted value.
fn missing_fields(all: &Value, known: &Value) -> u64 {
    match (all, known) {
        (Value::Object(all), Value::Object(known)) => {
            let fields = all.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| known.get(name).map_or(1, |known| missing_fields(value, known))).sum()
        }
        (Value::Array(all), Value::Array(known)) => {
            all.iter().zip(known).map(|(value, known)| missing_fields(value, known)).sum()
        }
        _ => 0,
    }
}

/// The only field that lines of all versions have.
#[derive(serde::Deserialize)]
pub(super) struct Versioned {
    pub(super) v: u32,
}

/// The identity of a file, independent of its path.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    #[cfg(unix)]
    device: u64,
    #[cfg(unix)]
    inode: u64,
    #[cfg(not(unix))]
    created: Option<std::time::SystemTime>,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    #[cfg(not(unix))]
    fn of(metadata: &fs::Metadata) -> Self {
        Self { created: metadata.created().ok() }
    }
}
