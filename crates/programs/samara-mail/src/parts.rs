//! The parts of a message, and the receiver's table of them.
//!
//! The recipient reads in each payload, numbers in little endian:
//!
//! ```text
//! version (1) | message (16) | index (2) | count (2) | length (2) | bytes | zeros
//! ```
//!
//! All parts but the last are full, and all are padded to one length. The version says how the message
//! got its name ([`Naming`]): by default from its contents, so that a message that is sent again is
//! recognised.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use sha2::{Digest, Sha256};

use samara_net::mix::{Group, OVERHEAD_BYTES};

/// Separates names of messages from other uses of the hash.
const NAME_CONTEXT: &[u8] = b"samara-mail 2026 name of a message";
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

/// The name of a message, which the sender makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

impl MessageId {
    /// Returns the name of a message with these contents.
    pub fn of(contents: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(NAME_CONTEXT).chain_update(contents).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self(id)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// How a message got its name. The names of the two kinds never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    /// At random: it is another message than all before, whatever its contents.
    Random = 1,
    /// From its contents ([`MessageId::of`]): the recipient takes it once. A receiver checks the name of
    /// a whole message, so that nobody can take the name of another one.
    Contents = 2,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How the message got its name.
    pub naming: Naming,
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
    #[error("version {0}; expected 1 or 2")]
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
pub fn split(naming: Naming, message: MessageId, contents: &[u8], part_bytes: usize) -> Vec<Part> {
    let count = contents.len().div_ceil(part_bytes).max(1);
    assert!(count <= PARTS_MAX, "{count} parts of at most {PARTS_MAX}");
    let part = |index: usize| {
        let end = contents.len().min((index + 1) * part_bytes);
        let bytes = contents[index * part_bytes..end].to_vec();
        Part { naming, message, index: index as u16, count: count as u16, bytes }
    };
    (0..count).map(part).collect()
}

impl Part {
    /// Writes the part with its padding, so that all parts of a group have one length.
    pub fn write(&self, part_bytes: usize) -> Vec<u8> {
        let mut plain = Vec::with_capacity(HEADER + part_bytes);
        plain.push(self.naming as u8);
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
        let naming = match *version {
            1 => Naming::Random,
            2 => Naming::Contents,
            other => return Err(UnreadablePart::Version(other)),
        };
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
        Ok(Self { naming, message: MessageId(*message), index, count, bytes: bytes.to_vec() })
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
    /// How it got its name.
    pub naming: Naming,
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
    fn missing(&self, naming: Naming, id: MessageId) -> UnfinishedMessage {
        let missing = (0..self.count).filter(|index| !self.parts.contains_key(index)).collect();
        UnfinishedMessage { naming, id, count: self.count, missing }
    }
}

/// What came of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// It waits for the others. Messages that gave up their place for it are lost.
    Waits(Vec<UnfinishedMessage>),
    /// It came before.
    Duplicate,
    /// It belongs to a message that is whole already: the first such part since then.
    Repeated(MessageId),
    /// It was the last one of a message whose name is not that of its contents. The message is dropped.
    Misnamed(MessageId),
    /// It contradicts the parts that came before.
    Contradicts,
    /// It was the last one.
    Complete(Message),
}

/// The key of a message in an inbox.
type Name = (Naming, MessageId);

/// The parts that a receiver has read, within bounds: beyond them, the message whose last part is the
/// oldest leaves.
#[derive(Debug, Default)]
pub struct Inbox {
    partial: BTreeMap<Name, Partial>,
    bytes: usize,
    /// Whole messages, and whether further parts of them have come.
    done: BTreeMap<Name, bool>,
    done_order: VecDeque<Name>,
    parts: u64,
}

impl Inbox {
    /// Takes a part.
    pub fn add(&mut self, part: Part) -> Added {
        let Part { naming, message: id, index, count, bytes } = part;
        let name = (naming, id);
        if let Some(is_repeated) = self.done.get_mut(&name) {
            return if std::mem::replace(is_repeated, true) { Added::Duplicate } else { Added::Repeated(id) };
        }
        self.parts += 1;
        let touched = self.parts;
        let is_last = index + 1 == count;
        let new = || Partial { count, full: None, parts: BTreeMap::new(), bytes: 0, touched };
        let partial = self.partial.entry(name).or_insert_with(new);
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
        let whole = self.remove(name).map(|whole| whole.parts.into_values().flatten().collect());
        let contents: Vec<u8> = whole.unwrap_or_default();
        if naming == Naming::Contents && id != MessageId::of(&contents) {
            return Added::Misnamed(id);
        }
        self.note_done(name);
        Added::Complete(Message { id, contents })
    }

    fn remove(&mut self, name: Name) -> Option<Partial> {
        let removed = self.partial.remove(&name)?;
        self.bytes -= removed.bytes;
        Some(removed)
    }

    fn note_done(&mut self, name: Name) {
        self.done.insert(name, false);
        self.done_order.push_back(name);
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
            let removed = oldest.and_then(|name| Some((name, self.remove(name)?)));
            let Some(((naming, id), removed)) = removed else { break };
            lost.push(removed.missing(naming, id));
        }
        lost
    }

    /// Returns the messages of which parts are missing.
    pub fn unfinished(&self) -> Vec<UnfinishedMessage> {
        self.partial.iter().map(|((naming, id), partial)| partial.missing(*naming, *id)).collect()
    }

    /// Returns true if no message lacks parts.
    pub fn is_settled(&self) -> bool {
        self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
                plain[0] = 1 + plain[16] % 2;
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
            let parts = split(Naming::Random, ID, &contents, part_bytes);
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
                    Added::Duplicate | Added::Repeated(_) => {}
                    Added::Misnamed(_) => prop_assert!(false, "its name is drawn"),
                }
            }
            prop_assert_eq!(whole, [Message { id: ID, contents }]);
            prop_assert!(inbox.is_settled() && inbox.bytes == 0);
        }
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let part = |index, count, len| {
            Part { naming: Naming::Random, message: ID, index, count, bytes: vec![1; len] }.write(10)
        };
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
        padded[0] = 3;
        assert_eq!(Part::read(&padded), Err(UnreadablePart::Version(3)));
    }

    #[test]
    fn parts_that_contradict_change_nothing() {
        let mut inbox = Inbox::default();
        let part = |index, count, byte: u8, len| Part {
            naming: Naming::Random,
            message: ID,
            index,
            count,
            bytes: vec![byte; len],
        };
        assert_eq!(inbox.add(part(0, 3, 1, 5)), Added::Waits(vec![]));
        for other in [part(0, 3, 2, 5), part(1, 4, 1, 5), part(0, 4, 1, 5), part(1, 3, 1, 6)] {
            assert_eq!(inbox.add(other), Added::Contradicts);
        }
        assert_eq!(
            inbox.unfinished(),
            [UnfinishedMessage { naming: Naming::Random, id: ID, count: 3, missing: vec![1, 2] }]
        );
        inbox.add(part(1, 3, 1, 5));
        let whole = Message { id: ID, contents: vec![1; 12] };
        assert_eq!(inbox.add(part(2, 3, 1, 2)), Added::Complete(whole));
        assert_eq!(inbox.add(part(1, 9, 1, 2)), Added::Repeated(ID), "its message has come");
        assert_eq!(inbox.add(part(0, 3, 1, 5)), Added::Duplicate, "once is enough to say so");
    }

    #[test]
    fn messages_without_an_end_take_bounded_memory_and_are_reported() {
        let mut inbox = Inbox::default();
        let mut lost = 0;
        for number in 0..PARTIAL_MAX as u64 + 10 {
            let part =
                Part { naming: Naming::Random, message: id(number), index: 0, count: 2, bytes: vec![1] };
            let Added::Waits(left) = inbox.add(part) else { panic!("it waits") };
            lost += left.len();
            assert!(inbox.partial.len() <= PARTIAL_MAX);
        }
        assert_eq!((lost, inbox.unfinished().len()), (10, PARTIAL_MAX));
        assert!(!inbox.partial.contains_key(&(Naming::Random, id(0))), "the oldest left");
        let mut inbox = Inbox::default();
        for number in 0..70 {
            let part = Part {
                naming: Naming::Random,
                message: id(number),
                index: 0,
                count: 2,
                bytes: vec![1; 1 << 20],
            };
            let Added::Waits(left) = inbox.add(part) else { panic!("it waits") };
            lost += left.len();
            assert!(inbox.bytes <= PARTIAL_BYTES_MAX);
        }
        assert_eq!(lost, 10 + 7);
        let mut inbox = Inbox::default();
        for number in 0..DONE_MAX as u64 + 10 {
            inbox.add(Part {
                naming: Naming::Random,
                message: id(number),
                index: 0,
                count: 1,
                bytes: Vec::new(),
            });
        }
        assert_eq!((inbox.done.len(), inbox.done_order.len()), (DONE_MAX, DONE_MAX));
    }

    /// A message comes once, whoever sends it and how often; one with a drawn name is another one; and
    /// nobody takes the name of a message that he can guess.
    #[test]
    fn a_name_of_contents_is_for_these_contents() {
        let mut inbox = Inbox::default();
        let contents = b"the boat leaves at seven";
        let id = MessageId::of(contents);
        let parts = |naming, contents: &[u8]| split(naming, id, contents, 20);
        let mut forged = parts(Naming::Contents, b"the boat leaves at eight");
        let last = forged.pop().expect("two parts");
        assert_eq!(inbox.add(forged.remove(0)), Added::Waits(vec![]));
        assert_eq!(inbox.add(last), Added::Misnamed(id));
        assert!(inbox.is_settled() && inbox.bytes == 0);
        for naming in [Naming::Random, Naming::Contents] {
            let parts = parts(naming, contents);
            let added: Vec<Added> = parts.iter().chain(&parts).map(|part| inbox.add(part.clone())).collect();
            let whole = Message { id, contents: contents.to_vec() };
            let expected =
                [Added::Waits(vec![]), Added::Complete(whole), Added::Repeated(id), Added::Duplicate];
            assert_eq!(added, expected, "{naming:?}");
        }
    }
}
