//! What an application of a group saw: kept where it happens, because deliveries are too many to be told one by one.

use samara_engine::Time;
use smallvec::SmallVec;

use super::Header;
use crate::Durations;

/// What bytes between members are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Content,
    /// What else frames of data have: numbers, and acknowledgements that ride along.
    Headers,
    /// Frames that return credit, or have nothing but acknowledgements.
    Credit,
    Heartbeats,
    /// Suspicions, view changes, and repair.
    Views,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Content, Self::Headers, Self::Credit, Self::Heartbeats, Self::Views];
}

/// Numbers of messages of one origin that were delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// From and to, both included, ascending, with holes between. Most often there is one.
    ranges: SmallVec<[(u64, u64); 1]>,
    count: u64,
}

/// How a message fits to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind all others.
    Next,
    /// Among others, where it was missing.
    Late,
    /// It was there.
    Again,
}

impl Received {
    pub fn count(&self) -> u64 {
        self.count
    }

    fn insert(&mut self, number: u64) -> Place {
        let place = match self.ranges.last_mut() {
            Some(last) if number == last.1 + 1 => {
                last.1 = number;
                Place::Next
            }
            Some(last) if number <= last.1 => self.insert_late(number),
            _ => {
                self.ranges.push((number, number));
                Place::Next
            }
        };
        self.count += u64::from(place != Place::Again);
        place
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

/// What the application of one host saw.
#[derive(Clone, Debug)]
pub struct Ledger {
    me: u32,
    size: usize,
    /// What came before this does not count.
    begin: Time,
    /// Messages of its own that were taken.
    pub broadcast: u64,
    /// Whether it will broadcast no more.
    pub is_done: bool,
    /// By origin, in the last life.
    pub received: Vec<Received>,
    /// Deliveries, own messages included.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// From the moment a message was handed in until it was delivered here; own ones do not count.
    pub latency: Durations,
    pub last_at: Time,
    /// The longest time without a delivery since the stream began, in nanoseconds.
    pub longest_gap_ns: u64,
    /// When that was over.
    pub longest_gap_at: Time,
    pub duplicates: u64,
    /// Messages that came after later ones of the same origin.
    pub out_of_order: u64,
    /// Messages that nobody broadcast so.
    pub garbled: u64,
    /// A digest of all deliveries in their order.
    pub order: u64,
    /// Bytes of frames that came from each host, since the stream began.
    pub bytes_from: Vec<u64>,
    /// The same by [`Kind`].
    pub bytes_of: [u64; Kind::ALL.len()],
}

impl Ledger {
    /// The ledger of a host in a group of so many whose stream of messages of so many bytes begins at `begin`.
    pub fn new(me: u32, members: u32, size: usize, begin: Time) -> Self {
        Self {
            me,
            size,
            begin,
            broadcast: 0,
            is_done: false,
            received: vec![Received::default(); members as usize],
            delivered: 0,
            delivered_bytes: 0,
            latency: Durations::default(),
            last_at: begin,
            longest_gap_ns: 0,
            longest_gap_at: begin,
            duplicates: 0,
            out_of_order: 0,
            garbled: 0,
            order: 0xcbf2_9ce4_8422_2325,
            bytes_from: vec![0; members as usize],
            bytes_of: [0; Kind::ALL.len()],
        }
    }

    /// A process starts: it has forgotten what others before it had.
    pub fn start(&mut self) {
        self.received.fill(Received::default());
    }

    /// A message is delivered: its first bytes, and its length.
    pub fn deliver(&mut self, content: &[u8], len: usize, now: Time) {
        let header = Header::of(content).filter(|_| len == self.size);
        let known = header.and_then(|header| Some((header, self.received.get_mut(header.origin as usize)?)));
        let Some((header, received)) = known else {
            self.garbled += 1;
            return;
        };
        match received.insert(header.number) {
            Place::Next => {}
            Place::Late => self.out_of_order += 1,
            Place::Again => {
                self.duplicates += 1;
                return;
            }
        }
        self.delivered += 1;
        self.delivered_bytes += len as u64;
        if header.origin != self.me {
            self.latency.add(now.since(header.at).as_nanos() as u64);
        }
        for word in [u64::from(header.origin), header.number] {
            self.order = (self.order ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let gap = now.since(self.last_at).as_nanos() as u64;
        if gap > self.longest_gap_ns {
            (self.longest_gap_ns, self.longest_gap_at) = (gap, now);
        }
        self.last_at = now;
    }

    /// A frame has come: so many bytes from a host, in parts by kind.
    pub(super) fn frame(&mut self, from: u32, parts: [(Kind, usize); 2], now: Time) {
        if now < self.begin {
            return;
        }
        for (kind, bytes) in parts {
            self.bytes_of[kind as usize] += bytes as u64;
            if let Some(sum) = self.bytes_from.get_mut(from as usize) {
                *sum += bytes as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests;
