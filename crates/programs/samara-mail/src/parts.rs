//! The parts of a message, and the receiver's table of them.
//!
//! The recipient reads in each payload, numbers in little endian:
//!
//! ```text
//! version (1) | message (16) | index (2) | count (2) | length (2) | bytes | zeros
//! ```
//!
//! All parts but the last are full, and all are padded to one length. The name of a message is drawn at
//! random, so that the recipient only learns from it which parts belong together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use samara_net::mix::{Group, OVERHEAD_BYTES};

const VERSION: u8 = 1;
const HEADER: usize = 23;
/// Maximum number of parts of a message.
pub const PARTS_MAX: usize = 4096;

/// Bytes of parts that an inbox holds for messages of which some are missing.
const PARTIAL_BYTES_MAX: usize = 64 << 20;
/// Messages of which parts are missing.
const PARTIAL_MAX: usize = 4096;
/// Bytes that a part takes in the table beside its own.
const PART_BYTES: usize = 64;
/// Finished messages whose further copies an inbox recognises.
const DONE_MAX: usize = 1 << 16;

/// The name of a message, which the sender draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The message that it belongs to.
    pub message: MessageId,
    /// Its place, from 0.
    pub index: u16,
    /// The number of parts.
    pub count: u16,
    /// Its bytes of the message.
    pub bytes: Vec<u8>,
}

/// The reason why a payload for a recipient is no part of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadablePart {
    /// Another program wrote it.
    #[error("version {0}; expected {VERSION}")]
    Version(u8),
    /// Its fields contradict each other, or are beyond their bounds.
    #[error("its fields contradict each other")]
    Fields,
    /// There is something behind its end.
    #[error("its padding is not zero")]
    Padding,
}

/// Bytes of a message in each part of a group's payloads, or `None` if its payloads have no room.
pub const fn part_bytes(group: Group) -> Option<usize> {
    match group.content_bytes().checked_sub(OVERHEAD_BYTES + HEADER) {
        Some(0) | None => None,
        bytes => bytes,
    }
}

/// Maximum bytes of a message in a group's payloads.
pub fn content_bytes_max(group: Group) -> usize {
    part_bytes(group).unwrap_or_default() * PARTS_MAX
}

/// Splits a message into parts of a number of bytes. An empty message has one part.
///
/// # Panics
/// If the message has more than [`PARTS_MAX`] parts of this length.
pub fn split(message: MessageId, contents: &[u8], part_bytes: usize) -> Vec<Part> {
    let count = contents.len().div_ceil(part_bytes).max(1);
    assert!(count <= PARTS_MAX, "{count} parts of at most {PARTS_MAX}");
    let part = |index: usize| {
        let end = contents.len().min((index + 1) * part_bytes);
        let bytes = contents[index * part_bytes..end].to_vec();
        Part { message, index: index as u16, count: count as u16, bytes }
    };
    (0..count).map(part).collect()
}

impl Part {
    /// Writes the part with its padding, so that all parts of a group have one length.
    pub fn write(&self, part_bytes: usize) -> Vec<u8> {
        let mut plain = Vec::with_capacity(HEADER + part_bytes);
        plain.push(VERSION);
        plain.extend_from_slice(&self.message.0);
        for field in [self.index, self.count, self.bytes.len() as u16] {
            plain.extend_from_slice(&field.to_le_bytes());
        }
        plain.extend_from_slice(&self.bytes);
        plain.resize(HEADER + part_bytes, 0);
        plain
    }

    /// Reads the content of a payload.
    ///
    /// # Errors
    /// It is no part of a message.
    pub fn read(plain: &[u8]) -> Result<Self, UnreadablePart> {
        let (header, rest) = plain.split_first_chunk::<HEADER>().ok_or(UnreadablePart::Fields)?;
        let [version, fields @ ..] = header;
        if *version != VERSION {
            return Err(UnreadablePart::Version(*version));
        }
        let (message, numbers) = fields.split_first_chunk::<16>().ok_or(UnreadablePart::Fields)?;
        let mut numbers = numbers.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        let mut next = || numbers.next().unwrap_or_default();
        let (index, count, len) = (next(), next(), usize::from(next()));
        let is_last = u32::from(index) + 1 == u32::from(count);
        let is_full = len == rest.len();
        let fits = len <= rest.len() && (is_full || is_last) && (len > 0 || count == 1);
        if index >= count || usize::from(count) > PARTS_MAX || !fits {
            return Err(UnreadablePart::Fields);
        }
        let (bytes, padding) = rest.split_at(len);
        if padding.iter().any(|byte| *byte != 0) {
            return Err(UnreadablePart::Padding);
        }
        Ok(Self { message: MessageId(*message), index, count, bytes: bytes.to_vec() })
    }
}

/// A message of which all parts have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Its bytes.
    pub contents: Vec<u8>,
}

/// A message of which parts are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedMessage {
    /// Its name.
    pub id: MessageId,
    /// The number of its parts.
    pub count: u16,
    /// The places of the parts that have not come.
    pub missing: Vec<u16>,
}

#[derive(Debug)]
struct Partial {
    count: u16,
    /// Bytes of each part but the last.
    full: Option<usize>,
    parts: BTreeMap<u16, Vec<u8>>,
    bytes: usize,
    /// The number of the part that came last, of all messages.
    touched: u64,
}

impl Partial {
    fn missing(&self, id: MessageId) -> UnfinishedMessage {
        let missing = (0..self.count).filter(|index| !self.parts.contains_key(index)).collect();
        UnfinishedMessage { id, count: self.count, missing }
    }
}

/// What came of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// It waits for the others. Messages that gave up their place for it are lost.
    Waits(Vec<UnfinishedMessage>),
    /// It came before.
    Duplicate,
    /// It contradicts the parts that came before.
    Contradicts,
    /// It was the last one.
    Complete(Message),
}

/// The parts that a receiver has read, within bounds: beyond them, the message whose last part is the
/// oldest leaves.
#[derive(Debug, Default)]
pub struct Inbox {
    partial: BTreeMap<MessageId, Partial>,
    bytes: usize,
    done: BTreeSet<MessageId>,
    done_order: VecDeque<MessageId>,
    parts: u64,
}

impl Inbox {
    /// Takes a part.
    pub fn add(&mut self, part: Part) -> Added {
        let Part { message: id, index, count, bytes } = part;
        if self.done.contains(&id) {
            return Added::Duplicate;
        }
        self.parts += 1;
        let touched = self.parts;
        let is_last = index + 1 == count;
        let new = || Partial { count, full: None, parts: BTreeMap::new(), bytes: 0, touched };
        let partial = self.partial.entry(id).or_insert_with(new);
        if let Some(known) = partial.parts.get(&index).filter(|_| partial.count == count) {
            return if *known == bytes { Added::Duplicate } else { Added::Contradicts };
        }
        if partial.count != count || !is_last && partial.full.is_some_and(|full| full != bytes.len()) {
            return Added::Contradicts;
        }
        if !is_last {
            partial.full = Some(bytes.len());
        }
        let taken = PART_BYTES + bytes.len();
        partial.parts.insert(index, bytes);
        partial.bytes += taken;
        partial.touched = touched;
        self.bytes += taken;
        if partial.parts.len() < usize::from(count) {
            return Added::Waits(self.make_room());
        }
        let contents = self.remove(id).map(|whole| whole.parts.into_values().flatten().collect());
        self.note_done(id);
        Added::Complete(Message { id, contents: contents.unwrap_or_default() })
    }

    fn remove(&mut self, id: MessageId) -> Option<Partial> {
        let removed = self.partial.remove(&id)?;
        self.bytes -= removed.bytes;
        Some(removed)
    }

    fn note_done(&mut self, id: MessageId) {
        self.done.insert(id);
        self.done_order.push_back(id);
        if self.done_order.len() > DONE_MAX
            && let Some(oldest) = self.done_order.pop_front()
        {
            self.done.remove(&oldest);
        }
    }

    fn make_room(&mut self) -> Vec<UnfinishedMessage> {
        let mut lost = Vec::new();
        while self.bytes > PARTIAL_BYTES_MAX || self.partial.len() > PARTIAL_MAX {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.touched).map(|(id, _)| *id);
            let Some((id, removed)) = oldest.and_then(|id| Some((id, self.remove(id)?))) else { break };
            lost.push(removed.missing(id));
        }
        lost
    }

    /// Returns the messages of which parts are missing.
    pub fn unfinished(&self) -> Vec<UnfinishedMessage> {
        self.partial.iter().map(|(id, partial)| partial.missing(*id)).collect()
    }

    /// Returns true if no message lacks parts.
    pub fn is_settled(&self) -> bool {
        self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: MessageId = MessageId([7; 16]);

    fn id(number: u64) -> MessageId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        MessageId(id)
    }

    proptest! {
        /// Reading ends for all bytes, and what is read is written as the same.
        #[test]
        fn reading_is_total(plain in proptest::collection::vec(any::<u8>(), 0..600), begins in any::<bool>()) {
            let mut plain = plain;
            if begins && plain.len() > HEADER {
                let len = (plain.len() - HEADER) as u16;
                plain[0] = VERSION;
                let numbers = [[3, 0], [4 + plain[17] % 3, 0], len.to_le_bytes()].concat();
                plain[17..HEADER].copy_from_slice(&numbers);
            }
            if let Ok(part) = Part::read(&plain) {
                prop_assert_eq!(part.write(plain.len() - HEADER), plain);
                prop_assert!(part.index < part.count && usize::from(part.count) <= PARTS_MAX);
            }
        }

        /// Parts in any order, some of them twice, are the message, once.
        #[test]
        fn parts_in_any_order_are_the_message(
            contents in proptest::collection::vec(any::<u8>(), 0..400),
            part_bytes in 1_usize..60,
            order in any::<u64>(),
        ) {
            let parts = split(ID, &contents, part_bytes);
            let lengths: BTreeSet<usize> = parts.iter().map(|part| part.write(part_bytes).len()).collect();
            prop_assert_eq!(lengths.len(), 1);
            let mut twice: Vec<&Part> = parts.iter().chain(&parts).collect();
            twice.sort_by_key(|part| (u64::from(part.index) + 1).wrapping_mul(order | 1));
            let (mut inbox, mut whole) = (Inbox::default(), Vec::new());
            for part in twice {
                match inbox.add(Part::read(&part.write(part_bytes)).expect("as written")) {
                    Added::Complete(message) => whole.push(message),
                    Added::Contradicts => prop_assert!(false, "the parts agree"),
                    Added::Waits(lost) => prop_assert!(lost.is_empty()),
                    Added::Duplicate => {}
                }
            }
            prop_assert_eq!(whole, [Message { id: ID, contents }]);
            prop_assert!(inbox.is_settled() && inbox.bytes == 0);
        }
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let part = |index, count, len| Part { message: ID, index, count, bytes: vec![1; len] }.write(10);
        let max = PARTS_MAX as u16;
        for (plain, is_part) in [
            (part(0, 1, 0), true),
            (part(0, 1, 10), true),
            (part(0, 2, 10), true),
            (part(max - 1, max, 3), true),
            (part(0, 2, 9), false),
            (part(1, 2, 0), false),
            (part(0, 0, 1), false),
            (part(2, 2, 1), false),
            (part(0, max + 1, 10), false),
            (part(u16::MAX, u16::MAX, 10), false),
            (part(0, 1, 10)[..20].to_vec(), false),
        ] {
            assert_eq!(Part::read(&plain).is_ok(), is_part, "{plain:?}");
        }
        let mut padded = part(0, 1, 3);
        padded[32] = 1;
        assert_eq!(Part::read(&padded), Err(UnreadablePart::Padding));
        padded[0] = 2;
        assert_eq!(Part::read(&padded), Err(UnreadablePart::Version(2)));
    }

    #[test]
    fn parts_that_contradict_change_nothing() {
        let mut inbox = Inbox::default();
        let part = |index, count, byte: u8, len| Part { message: ID, index, count, bytes: vec![byte; len] };
        assert_eq!(inbox.add(part(0, 3, 1, 5)), Added::Waits(vec![]));
        for other in [part(0, 3, 2, 5), part(1, 4, 1, 5), part(0, 4, 1, 5), part(1, 3, 1, 6)] {
            assert_eq!(inbox.add(other), Added::Contradicts);
        }
        assert_eq!(inbox.unfinished(), [UnfinishedMessage { id: ID, count: 3, missing: vec![1, 2] }]);
        inbox.add(part(1, 3, 1, 5));
        let whole = Message { id: ID, contents: vec![1; 12] };
        assert_eq!(inbox.add(part(2, 3, 1, 2)), Added::Complete(whole));
        assert_eq!(inbox.add(part(1, 9, 1, 2)), Added::Duplicate, "its message has come");
    }

    #[test]
    fn messages_without_an_end_take_bounded_memory_and_are_reported() {
        let mut inbox = Inbox::default();
        let mut lost = 0;
        for number in 0..PARTIAL_MAX as u64 + 10 {
            let part = Part { message: id(number), index: 0, count: 2, bytes: vec![1] };
            let Added::Waits(left) = inbox.add(part) else { panic!("it waits") };
            lost += left.len();
            assert!(inbox.partial.len() <= PARTIAL_MAX);
        }
        assert_eq!((lost, inbox.unfinished().len()), (10, PARTIAL_MAX));
        assert!(!inbox.partial.contains_key(&id(0)), "the oldest left");
        let mut inbox = Inbox::default();
        for number in 0..70 {
            let part = Part { message: id(number), index: 0, count: 2, bytes: vec![1; 1 << 20] };
            let Added::Waits(left) = inbox.add(part) else { panic!("it waits") };
            lost += left.len();
            assert!(inbox.bytes <= PARTIAL_BYTES_MAX);
        }
        assert_eq!(lost, 10 + 7);
        let mut inbox = Inbox::default();
        for number in 0..DONE_MAX as u64 + 10 {
            inbox.add(Part { message: id(number), index: 0, count: 1, bytes: Vec::new() });
        }
        assert_eq!((inbox.done.len(), inbox.done_order.len()), (DONE_MAX, DONE_MAX));
    }
}
