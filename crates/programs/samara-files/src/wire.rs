//! The messages between the sender and the receivers of a file: controls as JSON behind the byte 0,
//! pieces behind the byte 1, the id of the file and the offset (both 8 bytes, little endian).

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use samara_net::ring::Payload;
use serde::{Deserialize, Serialize};

use crate::Ranges;

/// Length of a piece of a file; the last one is shorter. Long enough that its fields cost nothing, and
/// short enough that the first hop of a ring does not wait long for a whole one.
pub const PIECE_BYTES: u64 = 128 << 10;
/// Maximum number of ranges in one message, and of those that a sender remembers of a receiver. The
/// last ones become one, with the bytes between them, which then arrive twice.
pub const RANGES_MAX: usize = 1024;
/// Maximum length of a reason in bytes; the rest is cut.
const CAUSE_BYTES_MAX: usize = 1024;
/// Maximum length of a message without contents: longer than the longest list of ranges.
const CONTROL_BYTES_MAX: usize = 64 << 10;
/// Maximum length of the name of a file in bytes, as on most file systems.
const NAME_BYTES_MAX: usize = 255;

const CONTROL: u8 = 0;
const PIECE: u8 = 1;
const HEADER: usize = 17;
/// Maximum length of a piece with its fields.
pub(crate) const PIECE_MESSAGE_MAX: usize = HEADER + PIECE_BYTES as usize;

/// The name of a file in a group: a digest of its name, its size and its time of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u64);

/// A message of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Anything but contents.
    Control(Control),
    /// Contents of a file.
    Piece {
        /// The number under which its offer announced the file.
        file: FileId,
        /// The place of its first byte.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
}

/// A message without contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Control {
    /// The sender offers a file: at the start, and whenever a member joins.
    Offer {
        /// The number under which its offer announced the file.
        file: FileId,
        /// Its name, without a directory.
        name: String,
        /// Its length in bytes.
        size: u64,
    },
    /// The sender knows the digest of all bytes.
    Digest {
        /// The number under which its offer announced the file.
        file: FileId,
        /// BLAKE3 in hexadecimal.
        digest: String,
    },
    /// The sender waits for more receivers before it begins, or has begun: then as many are there as it
    /// waits for.
    Waiting {
        /// The number under which its offer announced the file.
        file: FileId,
        /// Number of receivers that have answered the offer.
        there: usize,
        /// Number of receivers that the sender waits for.
        wanted: usize,
    },
    /// Receivers that have the file need not wait for the others.
    Release {
        /// The number under which its offer announced the file.
        file: FileId,
    },
    /// A receiver takes the file, and misses these ranges of it.
    Want {
        /// The number under which its offer announced the file.
        file: FileId,
        /// Whether it had all bytes, and their digest was wrong.
        is_corrupt: bool,
        /// Pairs of first byte and end, in order, at most [`RANGES_MAX`].
        missing: Vec<(u64, u64)>,
    },
    /// A receiver has written so many bytes.
    Progress {
        /// The number under which its offer announced the file.
        file: FileId,
        /// The bytes on its disk.
        bytes: u64,
    },
    /// A receiver has the file, verified and under its name.
    Done {
        /// The number under which its offer announced the file.
        file: FileId,
    },
    /// A receiver does not take the file.
    Failed {
        /// The number under which its offer announced the file.
        file: FileId,
        /// The reason.
        cause: String,
    },
    /// The sender has ended.
    End {
        /// The number under which its offer announced the file.
        file: FileId,
        /// Whether all receivers that it waited for have the file.
        is_complete: bool,
    },
}

/// A message that is not one of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableMessage(String);

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are no message, or contain what no sender writes.
    pub fn read(bytes: &Bytes) -> Result<Self, UnreadableMessage> {
        let wrong = |why: String| UnreadableMessage(why);
        match bytes.first() {
            Some(&CONTROL) if bytes.len() <= CONTROL_BYTES_MAX => {
                let mut control: Control =
                    serde_json::from_slice(&bytes[1..]).map_err(|error| wrong(error.to_string()))?;
                control.check().map_err(|why| wrong(why.to_owned()))?;
                if let Control::Failed { cause, .. } = &mut control {
                    cut(cause);
                }
                Ok(Self::Control(control))
            }
            Some(&PIECE) if bytes.len() > HEADER => {
                let number = |at: usize| {
                    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
                    u64::from_le_bytes(bytes)
                };
                let (file, offset, data) = (FileId(number(1)), number(9), bytes.slice(HEADER..));
                let is_long = offset.checked_add(data.len() as u64).is_none();
                if is_long || data.len() as u64 > PIECE_BYTES {
                    return Err(wrong(format!("a piece of {} bytes at {offset}", data.len())));
                }
                Ok(Self::Piece { file, offset, data })
            }
            first => Err(wrong(format!("{} bytes that begin with {first:?}", bytes.len()))),
        }
    }
}

/// Reads a message of a member that is no piece. One of another protocol is ignored.
pub(crate) fn read_control(from: &str, payload: &Payload) -> Option<Control> {
    let read = if payload.len() > CONTROL_BYTES_MAX {
        let limit = format!("at most {CONTROL_BYTES_MAX}, or {PIECE_MESSAGE_MAX} of a piece, are allowed");
        Err(UnreadableMessage(format!("{} bytes, of which {limit}", payload.len())))
    } else {
        Message::read(&payload.to_bytes())
    };
    match read {
        Ok(Message::Control(control)) => Some(control),
        Ok(Message::Piece { .. }) => None,
        Err(error) => {
            tracing::warn!(%from, %error, "ignored a message of another protocol");
            None
        }
    }
}

/// Returns the file of a piece, whose beginning can be spread over chunks.
pub(crate) fn file_of_piece(chunks: &[Bytes]) -> Option<FileId> {
    let mut bytes = chunks.iter().flatten().copied();
    bytes.next().filter(|first| *first == PIECE)?;
    let file: Vec<u8> = bytes.take(8).collect();
    Some(FileId(u64::from_le_bytes(file.try_into().ok()?)))
}

/// Cuts a reason that is too long, and says so in it.
fn cut(cause: &mut String) {
    if cause.len() > CAUSE_BYTES_MAX {
        let rest = format!("… ({} bytes in all)", cause.len());
        cause.truncate(cause.floor_char_boundary(CAUSE_BYTES_MAX - rest.len()));
        cause.push_str(&rest);
    }
}

/// Returns the beginning of a piece, which its bytes follow.
pub(crate) fn piece_header(file: FileId, offset: u64) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER + PIECE_BYTES as usize);
    header.push(PIECE);
    header.extend(file.0.to_le_bytes());
    header.extend(offset.to_le_bytes());
    header
}

impl Control {
    /// Writes the message.
    pub fn write(&self) -> Bytes {
        let mut bytes = vec![CONTROL];
        serde_json::to_writer(&mut bytes, self).expect("no map has keys that are not strings");
        bytes.into()
    }

    /// Returns the file that the message is about.
    pub fn file(&self) -> FileId {
        match self {
            Self::Offer { file, .. }
            | Self::Digest { file, .. }
            | Self::Waiting { file, .. }
            | Self::Release { file }
            | Self::Want { file, .. }
            | Self::Progress { file, .. }
            | Self::Done { file }
            | Self::Failed { file, .. }
            | Self::End { file, .. } => *file,
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Offer { name, .. } => check_name(name),
            Self::Digest { digest, .. } => blake3::Hash::from_hex(digest)
                .map(drop)
                .map_err(|_| "the digest is not BLAKE3 in hexadecimal"),
            Self::Want { missing, .. } if missing.len() > RANGES_MAX => Err("a list of too many ranges"),
            Self::Want { missing, .. } => {
                let mut end_before = None;
                let is_ordered = missing.iter().all(|(start, end)| {
                    let follows = end_before.is_none_or(|before| before < *start);
                    end_before = Some(*end);
                    start < end && follows
                });
                if is_ordered { Ok(()) } else { Err("ranges that are not in order") }
            }
            _ => Ok(()),
        }
    }
}

/// Checks the name of a file of another machine: it must be one of a plain file in the directory of the
/// receiver, and not hidden, since files that arrive are.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = Path::new(name).file_name().is_some_and(|plain| plain == name);
    if name.len() > NAME_BYTES_MAX - 32 {
        Err("the name of the file is too long")
    } else if !is_plain || name.contains(['/', '\\']) || name.chars().any(char::is_control) {
        Err("the name of the file is not a plain name")
    } else if name.starts_with('.') {
        Err("the name of the file begins with a full stop")
    } else {
        Ok(())
    }
}

/// Returns the ranges as in a message.
pub(crate) fn listed(mut ranges: Ranges) -> Vec<(u64, u64)> {
    ranges.limit(RANGES_MAX);
    ranges.iter().map(|Range { start, end }| (start, end)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_other_places_are_refused() {
        for name in ["", ".", "..", "a/b", "/etc/passwd", "a\\b", ".hidden", "a\nb", "a/", &"n".repeat(300)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "backup.tar.zst", "with space", "naïve", "a..b"] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn controls_are_read_as_written() {
        let file = FileId(u64::MAX);
        for control in [
            Control::Offer { file, name: "name".to_owned(), size: u64::MAX },
            Control::Digest { file, digest: blake3::hash(b"").to_hex().to_string() },
            Control::Waiting { file, there: 0, wanted: usize::MAX },
            Control::Release { file },
            Control::Want { file, is_corrupt: false, missing: vec![(0, 5), (7, u64::MAX)] },
            Control::Want { file, is_corrupt: true, missing: Vec::new() },
            Control::Progress { file, bytes: 7 },
            Control::Done { file },
            Control::Failed { file, cause: "why".to_owned() },
            Control::End { file, is_complete: true },
        ] {
            assert_eq!(Message::read(&control.write()), Ok(Message::Control(control)));
        }
    }

    #[test]
    fn long_causes_are_cut_between_characters() {
        let file = FileId(1);
        for (cause, bytes) in [("ü".repeat(512), 1024), ("ü".repeat(700), 1400), ("a".repeat(60_000), 60_000)]
        {
            let written = Control::Failed { file, cause: cause.clone() }.write();
            let Ok(Message::Control(Control::Failed { cause: read, .. })) = Message::read(&written) else {
                panic!("not read: {written:?}");
            };
            assert!(read.len() <= CAUSE_BYTES_MAX, "{} bytes", read.len());
            let is_cut = read.ends_with(&format!("… ({bytes} bytes in all)"));
            assert_eq!(
                (is_cut, read == cause),
                (bytes > CAUSE_BYTES_MAX, bytes <= CAUSE_BYTES_MAX),
                "{read}"
            );
        }
    }

    #[test]
    fn the_longest_list_of_ranges_is_read() {
        let missing: Vec<_> = (0..RANGES_MAX as u64).map(|at| u64::MAX - 9 * at).rev().collect();
        let missing = missing.into_iter().map(|at| (at - 3, at)).collect();
        let want = Control::Want { file: FileId(u64::MAX), is_corrupt: false, missing };
        assert_eq!(Message::read(&want.write()), Ok(Message::Control(want)));
    }

    #[test]
    fn gaps_beyond_the_limit_are_one_range() {
        let mut ranges = Ranges::default();
        (0..2 * RANGES_MAX as u64).for_each(|at| ranges.insert(2 * at..2 * at + 1));
        let listed = listed(ranges);
        assert_eq!((listed.len(), listed[0]), (RANGES_MAX, (0, 1)));
        let last = RANGES_MAX as u64 - 1;
        assert_eq!(listed.last(), Some(&(2 * last, 4 * RANGES_MAX as u64 - 1)));
    }

    #[test]
    fn the_file_of_a_piece_is_found_across_chunks() {
        let file = FileId(0x0102_0304_0506_0708);
        let header = piece_header(file, 3);
        for at in 0..header.len() {
            let (first, rest) = header.split_at(at);
            let chunks = [Bytes::copy_from_slice(first), Bytes::copy_from_slice(rest)];
            assert_eq!(file_of_piece(&chunks), Some(file), "cut at {at}");
        }
        assert_eq!(file_of_piece(&[Bytes::copy_from_slice(&header[..8])]), None);
        assert_eq!(file_of_piece(&[Control::Done { file }.write()]), None);
    }

    #[test]
    fn wrong_messages_are_refused() {
        let file = FileId(1);
        let many = (0..=RANGES_MAX as u64).map(|at| (2 * at, 2 * at + 1)).collect();
        for control in [
            Control::Offer { file, name: "../x".to_owned(), size: 1 },
            Control::Digest { file, digest: "12".to_owned() },
            Control::Want { file, is_corrupt: false, missing: vec![(5, 5)] },
            Control::Want { file, is_corrupt: false, missing: vec![(5, 9), (9, 12)] },
            Control::Want { file, is_corrupt: false, missing: vec![(5, 9), (0, 2)] },
            Control::Want { file, is_corrupt: false, missing: many },
            Control::Failed { file, cause: "a".repeat(CONTROL_BYTES_MAX) },
        ] {
            assert!(Message::read(&control.write()).is_err(), "{control:?}");
        }
        let mut late = piece_header(file, u64::MAX);
        late.push(0);
        let mut long = piece_header(file, 0);
        long.resize(HEADER + PIECE_BYTES as usize + 1, 0);
        for bytes in [vec![], vec![9], piece_header(file, 0), late, long, b"\0{}".to_vec()] {
            assert!(Message::read(&bytes.clone().into()).is_err(), "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), first in 0..3_u8) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let _ = Message::read(&bytes.into());
        }
    }
}
