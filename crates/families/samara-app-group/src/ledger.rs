//! The record of what the application of a group member received.

use rustc_hash::FxHashMap;
use samara_engine::Time;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::Header;

/// The purpose of bytes between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Content,
    /// The remaining bytes of data frames: numbers and piggybacked acknowledgements.
    Headers,
    /// Frames that return credit or carry only acknowledgements.
    Credit,
    Heartbeats,
    /// Suspicions, view changes, and repair.
    Views,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Content, Self::Headers, Self::Credit, Self::Heartbeats, Self::Views];
}

/// The numbers of delivered messages of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Inclusive ranges in ascending order with holes between them. Most often there is one range.
    ranges: SmallVec<[(u64, u64); 1]>,
}

/// The place of a message relative to those delivered before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After all others.
    Next,
    /// Between others, where it was missing.
    Late,
    /// Delivered before; counted as a duplicate.
    Again,
}

impl Received {
    fn has(&self, number: u64) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// Returns the number of different messages.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Adds a message, and returns its place among the others.
    pub fn insert(&mut self, number: u64) -> Place {
        match self.ranges.last_mut() {
            Some(last) if number == last.1 + 1 => {
                last.1 = number;
                Place::Next
            }
            Some(last) if number <= last.1 => self.insert_late(number),
            _ => {
                self.ranges.push((number, number));
                Place::Next
            }
        }
    }

    fn insert_late(&mut self, number: u64) -> Place {
        let after = self.ranges.partition_point(|range| range.0 <= number);
        if after > 0 && number <= self.ranges[after - 1].1 {
            return Place::Again;
        }
        self.ranges.insert(after, (number, number));
        let joins = |left: (u64, u64), right: (u64, u64)| left.1 + 1 == right.0;
        if after + 1 < self.ranges.len() && joins(self.ranges[after], self.ranges[after + 1]) {
            self.ranges[after].1 = self.ranges.remove(after + 1).1;
        }
        if after > 0 && joins(self.ranges[after - 1], self.ranges[after]) {
            self.ranges[after - 1].1 = self.ranges.remove(after).1;
        }
        Place::Late
    }
}

/// Number of messages of a group whose senders the members note, the first ones of each origin.
pub const FOLLOWED_MAX: u32 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub origin: u32,
    /// The message's number at its origin.
    pub number: u64,
    /// Nanoseconds from handing in the message.
    pub nanos: u64,
    /// The host that sent the first copy; `None` for own messages, and if nobody noted it.
    pub from: Option<u32>,
}

/// The counters of a member's application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Number of own messages that the engine accepted.
    pub broadcast: u64,
    pub duplicates: u64,
    /// Messages delivered after later ones of the same origin.
    pub out_of_order: u64,
    /// Messages with an invalid header or length.
    pub garbled: u64,
    /// Bytes of frames received from each host during the stream; empty stands for zeros.
    pub bytes_from: Vec<u64>,
    /// Bytes of frames received during the stream, by [`Kind`].
    pub bytes_of: [u64; Kind::ALL.len()],
}

impl Totals {
    /// Adds the counters of another process of the same host.
    pub fn add(&mut self, other: &Self) {
        let Self { broadcast, duplicates, out_of_order, garbled, bytes_from, bytes_of } = other;
        self.broadcast += broadcast;
        self.duplicates += duplicates;
        self.out_of_order += out_of_order;
        self.garbled += garbled;
        self.bytes_from.resize(self.bytes_from.len().max(bytes_from.len()), 0);
        self.bytes_from.iter_mut().zip(bytes_from).for_each(|(sum, bytes)| *sum += bytes);
        self.bytes_of.iter_mut().zip(bytes_of).for_each(|(sum, bytes)| *sum += bytes);
    }
}

/// The record of the application of one process.
#[derive(Clone, Debug)]
pub struct Ledger {
    size: usize,
    /// The last message of each origin whose sender is noted.
    followed: u64,
    /// The senders of messages that have arrived, in whole or in part, but are not delivered yet: by
    /// origin and number.
    arrived: FxHashMap<(u32, u64), u32>,
    /// Frames before this time are not counted.
    begin: Time,
    /// Whether the stream is over: frames are no longer counted.
    is_over: bool,
    /// Messages received from each origin.
    received: Vec<Received>,
    /// Number of deliveries, including own messages.
    delivered: u64,
    totals: Totals,
}

impl Ledger {
    /// Creates the ledger of a member in a group of `members`, the first `senders` of which
    /// broadcast. The stream of messages of `size` bytes begins at `begin`.
    pub fn new(members: u32, senders: u32, size: usize, begin: Time) -> Self {
        Self {
            size,
            followed: u64::from(FOLLOWED_MAX / senders.max(1)),
            arrived: FxHashMap::default(),
            begin,
            is_over: false,
            received: vec![Received::default(); members as usize],
            delivered: 0,
            totals: Totals { bytes_from: vec![0; members as usize], ..Totals::default() },
        }
    }

    /// Returns all counters but that of broadcast messages.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Notes the sender of a message that begins with `start`.
    pub(super) fn arrive(&mut self, from: u32, start: &[u8]) {
        let Some(Header { origin, number, .. }) = Header::of(start) else { return };
        let received = self.received.get(origin as usize);
        if number <= self.followed && received.is_some_and(|received| !received.has(number)) {
            self.arrived.entry((origin, number)).or_insert(from);
        }
    }

    /// Returns true if the senders of further messages are to be noted.
    pub(super) fn is_following(&self) -> bool {
        self.delivered < u64::from(FOLLOWED_MAX)
    }

    /// Records the delivery of a message of `len` bytes that starts with `content`. Returns it unless
    /// it is garbled or a duplicate.
    pub(super) fn deliver(&mut self, content: &[u8], len: usize, now: Time) -> Option<Delivery> {
        let header = Header::of(content).filter(|_| len == self.size);
        let known = header.and_then(|header| Some((header, self.received.get_mut(header.origin as usize)?)));
        let Some((header, received)) = known else {
            self.totals.garbled += 1;
            return None;
        };
        match received.insert(header.number) {
            Place::Next => {}
            Place::Late => self.totals.out_of_order += 1,
            Place::Again => {
                self.totals.duplicates += 1;
                return None;
            }
        }
        self.delivered += 1;
        let Header { origin, number, at } = header;
        let nanos = now.since(at).as_nanos() as u64;
        let from = self.arrived.remove(&(origin, number));
        Some(Delivery { origin, number, nanos, from })
    }

    /// Ends the stream, and with it the count of frames.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Records a frame from a host, with its bytes by kind.
    pub(super) fn frame(&mut self, from: u32, parts: [(Kind, usize); 2], now: Time) {
        if now < self.begin || self.is_over {
            return;
        }
        for (kind, bytes) in parts {
            self.totals.bytes_of[kind as usize] += bytes as u64;
            if let Some(sum) = self.totals.bytes_from.get_mut(from as usize) {
                *sum += bytes as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests;
