//! Reading trace files.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;
use thiserror::Error;

use crate::{Format, TraceEvent};

/// The longest event that is read, in bytes: above what an RPC of the largest frame in use can hold in ids.
pub const EVENT_BYTES_MAX: usize = 32 << 20;

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The event that starts at this byte, counted from 0.
    Offset(u64),
    /// This line, counted from 1.
    Line(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "byte {offset}"),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

/// What is wrong with a trace file.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It cannot be opened or read.
    #[error("{}: cannot be read: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It holds what is no event.
    #[error("{}: {place}: {message}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where.
        place: Place,
        /// What was found, and what was expected.
        message: String,
    },
}

/// The events of a file, in its order. After the first error nothing follows.
#[derive(Debug)]
pub struct TraceReader<R> {
    path: PathBuf,
    format: Format,
    source: R,
    /// Bytes, or lines, that are behind.
    behind: u64,
    failed: bool,
}

impl TraceReader<BufReader<File>> {
    /// Opens a file; its form shows in its first bytes.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let io_error = |error| TraceError::Io { path: path.to_owned(), error };
        let file = File::open(path).map_err(io_error)?;
        let mut source = BufReader::with_capacity(1 << 16, file);
        let format = detect(source.fill_buf().map_err(io_error)?);
        Ok(Self::new(path, format, source))
    }
}

/// JSON starts with `{"`. An event in protobuf could start with these bytes only if it were 123 bytes long and had no type.
fn detect(start: &[u8]) -> Format {
    if start.starts_with(b"{\"") { Format::Json } else { Format::Protobuf }
}

impl<R: BufRead> TraceReader<R> {
    /// Reads from a source; `path` is what errors call it.
    pub fn new(path: &Path, format: Format, source: R) -> Self {
        Self { path: path.to_owned(), format, source, behind: 0, failed: false }
    }

    /// The form of the file.
    pub fn format(&self) -> Format {
        self.format
    }

    fn malformed(&self, message: impl Into<String>) -> TraceError {
        let place = match self.format {
            Format::Protobuf => Place::Offset(self.behind),
            Format::Json => Place::Line(self.behind + 1),
        };
        TraceError::Malformed { path: self.path.clone(), place, message: message.into() }
    }

    fn io(&self, error: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), error }
    }

    fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        match self.format {
            Format::Protobuf => self.next_delimited(),
            Format::Json => self.next_line(),
        }
    }

    fn next_delimited(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        let Some((len, prefix)) = self.length()? else { return Ok(None) };
        if len > EVENT_BYTES_MAX as u64 {
            let message = format!(
                "an event of {len} bytes, more than {EVENT_BYTES_MAX}; expected events with their lengths before them (is this a trace?)"
            );
            return Err(self.malformed(message));
        }
        // The length is somebody's word: memory grows with what is there.
        let mut bytes = Vec::new();
        (&mut self.source).take(len).read_to_end(&mut bytes).map_err(|error| self.io(error))?;
        if (bytes.len() as u64) < len {
            return Err(self.malformed(format!(
                "the file ends {} bytes into an event of {len} bytes: whoever wrote it was stopped",
                bytes.len()
            )));
        }
        let event = TraceEvent::decode(&bytes[..])
            .map_err(|error| self.malformed(format!("{len} bytes that are no event: {error}")))?;
        self.behind += prefix + len;
        Ok(Some(event))
    }

    /// The length of the next event, and how many bytes it takes itself. `None` at the end of the file.
    fn length(&mut self) -> Result<Option<(u64, u64)>, TraceError> {
        let mut len = 0_u64;
        // Ten bytes are the longest varint.
        for at in 0..10 {
            let mut byte = [0];
            match self.source.read_exact(&mut byte) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && at == 0 => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.malformed("the file ends within the length of an event"));
                }
                Err(error) => return Err(self.io(error)),
            }
            len |= u64::from(byte[0] & 0x7f) << (7 * at).min(63);
            if byte[0] < 0x80 {
                return Ok(Some((len, at + 1)));
            }
        }
        Err(self.malformed("a length of more than ten bytes; expected a varint"))
    }

    fn next_line(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            let mut line = Vec::new();
            let max = EVENT_BYTES_MAX as u64 + 1;
            (&mut self.source).take(max).read_until(b'\n', &mut line).map_err(|error| self.io(error))?;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() > EVENT_BYTES_MAX {
                return Err(self.malformed(format!("longer than {EVENT_BYTES_MAX} bytes")));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                let event = serde_json::from_slice(&line).map_err(|error| {
                    let cut = if line.ends_with(b"\n") { "" } else { " (the line is cut off)" };
                    self.malformed(format!("no event in JSON: {error}{cut}"))
                })?;
                self.behind += 1;
                return Ok(Some(event));
            }
            self.behind += 1;
        }
    }
}

impl<R: BufRead> Iterator for TraceReader<R> {
    type Item = Result<TraceEvent, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_event().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
