//! The two formats of trace files, and a reader of both.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use prost::Message;
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use thiserror::Error;

use crate::{TraceEvent, Unread};

/// Formats of events in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Each event as protobuf behind its length as a varint, as go's `PBTracer` writes it.
    #[default]
    Protobuf,
    /// Each event as a line of JSON, as go's `JSONTracer` writes it.
    Json,
}

impl Format {
    pub fn encode(self, event: &TraceEvent, out: &mut Vec<u8>) {
        match self {
            // Cannot fail: a vector grows as needed.
            Self::Protobuf => drop(event.encode_length_delimited(out)),
            Self::Json => {
                // Cannot fail: all fields of an event can be serialized.
                drop(event.serialize(&mut Serializer::with_formatter(&mut *out, LikeGo)));
                out.push(b'\n');
            }
        }
    }
}

/// Escapes the same characters as Go's encoder by default (`SetEscapeHTML`), so that the bytes are
/// the same.
struct LikeGo;

impl Formatter for LikeGo {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let escaped = rest[at..].chars().next().unwrap_or_default();
            CompactFormatter.write_string_fragment(out, &rest[..at])?;
            write!(out, "\\u{:04x}", u32::from(escaped))?;
            rest = &rest[at + escaped.len_utf8()..];
        }
        CompactFormatter.write_string_fragment(out, rest)
    }
}

/// Maximum size of an event in bytes, above the ids of an RPC with the largest frame in use.
pub const EVENT_BYTES_MAX: usize = 32 << 20;

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

/// An error in a trace file.
#[derive(Debug, Error)]
pub enum TraceError {
    #[error("{}: cannot be read: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    /// The file contains something that is not an event.
    #[error("{}: {place}: {message}", path.display())]
    Malformed {
        path: PathBuf,
        place: Place,
        /// The content that was found, and what was expected.
        message: String,
    },
}

/// The events of a file, in its order. The reader ends after the first error.
#[derive(Debug)]
pub struct TraceReader<R> {
    path: PathBuf,
    format: Format,
    source: R,
    /// Number of bytes or lines that were read.
    behind: u64,
    failed: bool,
    unread: Unread,
}

impl TraceReader<BufReader<File>> {
    /// Opens a file and detects its format from the first bytes.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let io_error = |error| TraceError::Io { path: path.to_owned(), error };
        // A pipe or a device in the directory of somebody else may have no end.
        if !std::fs::metadata(path).map_err(io_error)?.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "is not a file");
            return Err(io_error(error));
        }
        let file = File::open(path).map_err(io_error)?;
        let mut source = BufReader::with_capacity(1 << 16, file);
        let start = source.fill_buf().map_err(io_error)?;
        let format = detect(start.strip_prefix(MARK).unwrap_or(start));
        // Editors of text put a mark before it.
        let marked = if format == Format::Json && start.starts_with(MARK) { MARK.len() } else { 0 };
        source.consume(marked);
        Ok(Self::new(path, format, source))
    }
}

/// The mark of the order of bytes in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Detects the format. JSON starts with `{"`. An event in protobuf could start with these bytes
/// only if it were 123 bytes long and had no type.
fn detect(start: &[u8]) -> Format {
    if start.starts_with(b"{\"") { Format::Json } else { Format::Protobuf }
}

impl<R: BufRead> TraceReader<R> {
    /// Reads from a source. Errors refer to it as `path`.
    pub fn new(path: &Path, format: Format, source: R) -> Self {
        Self { path: path.to_owned(), format, source, behind: 0, failed: false, unread: Unread::default() }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The unknown fields of the events that the reader has returned.
    pub fn unread(&self) -> &Unread {
        &self.unread
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
                "an event of {len} bytes, more than {EVENT_BYTES_MAX}; expected events behind their lengths (is this a trace?)"
            );
            return Err(self.malformed(message));
        }
        // The length is not trusted, so memory grows with the bytes that are read.
        let mut bytes = Vec::new();
        (&mut self.source).take(len).read_to_end(&mut bytes).map_err(|error| self.io(error))?;
        if (bytes.len() as u64) < len {
            return Err(self.malformed(format!(
                "the file ends {} bytes into an event of {len} bytes: its writer was stopped",
                bytes.len()
            )));
        }
        let event = TraceEvent::decode(&bytes[..])
            .map_err(|error| self.malformed(format!("{len} bytes that are not an event: {error}")))?;
        self.unread.note_bytes(&event, &bytes);
        self.behind += prefix + len;
        Ok(Some(event))
    }

    /// The length of the next event, and the size of the length field. `None` at the end of the
    /// file.
    fn length(&mut self) -> Result<Option<(u64, u64)>, TraceError> {
        let mut len = 0_u64;
        // A varint has at most ten bytes.
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
                return Err(self.malformed(format!("the line is longer than {EVENT_BYTES_MAX} bytes")));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                let event = self.event_of_line(&line).map_err(|error| {
                    let cut = if line.ends_with(b"\n") { "" } else { " (the line is cut off)" };
                    self.malformed(format!("not an event in JSON: {error}{cut}"))
                })?;
                self.behind += 1;
                return Ok(Some(event));
            }
            self.behind += 1;
        }
    }
}

impl<R> TraceReader<R> {
    fn event_of_line(&mut self, line: &[u8]) -> serde_json::Result<TraceEvent> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let note = |path: serde_ignored::Path<'_>| self.unread.note_path(&path.to_string());
        let event = serde_ignored::deserialize(&mut json, note)?;
        json.end()?;
        Ok(event)
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
        if let Some(Ok(event)) = &next {
            self.unread.note_type(event);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Join};

    /// The bytes that Go 1.26 writes for this event.
    #[test]
    fn writes_json_like_go() {
        let topic = Some("a<b>&\u{2028}\"c".to_owned());
        let event = TraceEvent::new(b"\0\xff~", 7, Body::Join(Join { topic }));
        let mut out = Vec::new();
        Format::Json.encode(&event, &mut out);
        let expected = "{\"type\":9,\"peerID\":\"AP9+\",\"timestamp\":7,\
                        \"join\":{\"topic\":\"a\\u003cb\\u003e\\u0026\\u2028\\\"c\"}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn writes_protobuf_like_the_schema() {
        let event = TraceEvent::new(b"p", 3, Body::Leave(crate::Leave { topic: Some("t".into()) }));
        let mut out = Vec::new();
        Format::Protobuf.encode(&event, &mut out);
        // type (1) = LEAVE (10), peerID (2), timestamp (3), leave (14) with topic (2).
        let expected = [12, 0x08, 10, 0x12, 1, b'p', 0x18, 3, 0x72, 3, 0x12, 1, b't'];
        assert_eq!(out, expected);
    }
}
