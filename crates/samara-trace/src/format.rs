//! The two forms of a trace file.

use std::io;

use prost::Message;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::TraceEvent;

/// How events are written into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Each event as protobuf, with its length as a varint before it: go's `PBTracer`.
    Protobuf,
    /// Each event as a line of JSON: go's `JSONTracer`.
    Json,
}

impl Format {
    /// Appends an event.
    pub fn encode(self, event: &TraceEvent, out: &mut Vec<u8>) {
        match self {
            // A vector has always room.
            Self::Protobuf => drop(event.encode_length_delimited(out)),
            Self::Json => {
                // Fails for nothing that is in an event.
                drop(event.serialize(&mut Serializer::with_formatter(&mut *out, LikeGo)));
                out.push(b'\n');
            }
        }
    }
}

/// Escapes what Go's encoder escapes by default (`SetEscapeHTML`), so that the bytes are the same.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Join};

    /// What Go 1.26 writes for this event.
    #[test]
    fn json_is_written_as_go_writes_it() {
        let topic = Some("a<b>&\u{2028}\"c".to_owned());
        let event = TraceEvent::new(b"\0\xff~", 7, Body::Join(Join { topic }));
        let mut out = Vec::new();
        Format::Json.encode(&event, &mut out);
        let expected = "{\"type\":9,\"peerID\":\"AP9+\",\"timestamp\":7,\
                        \"join\":{\"topic\":\"a\\u003cb\\u003e\\u0026\\u2028\\\"c\"}}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn protobuf_is_written_as_the_schema_says() {
        let event = TraceEvent::new(b"p", 3, Body::Leave(crate::Leave { topic: Some("t".into()) }));
        let mut out = Vec::new();
        Format::Protobuf.encode(&event, &mut out);
        // type (1) = LEAVE (10), peerID (2), timestamp (3), leave (14) with topic (2).
        let expected = [12, 0x08, 10, 0x12, 1, b'p', 0x18, 3, 0x72, 3, 0x12, 1, b't'];
        assert_eq!(out, expected);
    }
}
