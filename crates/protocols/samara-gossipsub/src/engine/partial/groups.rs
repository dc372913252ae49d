//! Groups of a node: their parts, and what each peer has and wants.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{MessageKey, Outbox, PeerId, Time};
use smallvec::SmallVec;
use thin_vec::ThinVec;

use crate::engine::tables::{PeerTable, TopicIdx};
use crate::partial::{Bits, Metadata};
use crate::rpc::RpcFrame;

/// A group of a topic.
pub(super) type GroupKey = (TopicIdx, Bytes);

/// The knowledge of a node about a peer in a group.
#[derive(Debug)]
pub(super) struct View {
    pub(super) peer: PeerId,
    /// The parts that the peer has announced or sent.
    pub(super) available: Bits,
    /// The parts that the peer wants from this node.
    pub(super) requests: Bits,
    /// The metadata that this node sent to the peer last.
    pub(super) last_sent: Option<Metadata>,
    /// The parts that are owed or were sent to the peer.
    pub(super) owed: Bits,
    /// The parts that the peer has sent.
    pub(super) received: Bits,
    /// The parts that this node asks the peer for.
    pub(super) asked: Bits,
    /// Owed frames with their parts, some of which have left.
    pub(super) frames: ThinVec<(MessageKey, Bits)>,
    /// Parts sent so far.
    pub(super) answered: u32,
    /// Whether the peer has said anything about the group.
    pub(super) heard: bool,
    /// Whether the peer has announced what it has, other than beside parts that it sent.
    pub(super) announces: bool,
    /// Whether the peer failed to send an available part in time, or sent an invalid one.
    pub(super) failed: bool,
    /// Whether the score has counted a part of this peer.
    pub(super) credited: bool,
    /// Whether a heartbeat has announced the group to the peer outside the mesh.
    pub(super) gossiped: bool,
}

impl View {
    fn new(peer: PeerId) -> Self {
        Self {
            peer,
            available: Bits::default(),
            requests: Bits::default(),
            last_sent: None,
            owed: Bits::default(),
            received: Bits::default(),
            asked: Bits::default(),
            frames: ThinVec::new(),
            answered: 0,
            heard: false,
            announces: false,
            failed: false,
            credited: false,
            gossiped: false,
        }
    }

    /// Returns true for a peer that sends parts before it announces what it has: their publisher.
    pub(super) fn is_publisher(&self) -> bool {
        !self.announces && !self.received.is_empty()
    }

    /// Returns true if the peer can be asked for parts. A publisher that does not subscribe announces no
    /// support, but speaks of the group.
    fn can_be_asked(&self) -> bool {
        self.heard && !self.failed
    }
}

/// The peer that is asked for a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) peer: PeerId,
    pub(super) since: Time,
    /// The time at which another peer is asked; never if the peer has not announced the part.
    pub(super) until: Time,
}

/// The peer to ask for a part, by its place among the views.
pub(super) enum Source {
    /// The peer that is asked already, and has the part.
    Asked,
    Holder(usize),
    /// A peer that has not announced the part.
    Likely(usize),
}

/// A group: the parts of one message.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Number of parts; 0 until it is known.
    pub(super) len: u32,
    pub(super) parts: Vec<Option<Bytes>>,
    pub(super) have: Bits,
    /// Arrived parts that await their verdict.
    pub(super) checking: Bits,
    /// Parts that arrived before their header, with their senders.
    pub(super) early: Vec<(PeerId, Vec<(u32, Bytes)>)>,
    /// Whether the application has provided the group, so that this node wants all other parts.
    pub(super) is_own: bool,
    /// The asked peer of each part ([`Asking::One`](crate::partial::Asking::One)).
    pub(super) asks: BTreeMap<u32, Ask>,
    /// Sorted by peer.
    pub(super) views: Vec<View>,
    /// The first peer that said something about the group.
    pub(super) parent: Option<PeerId>,
    /// The heartbeat that forgets the group.
    pub(super) until: u64,
    /// The peer that created the group; `None` for this node.
    pub(super) created_by: Option<PeerId>,
    /// Whether a change awaits its announcement.
    pub(super) changed: bool,
    /// Whether this node announces nothing of the group, because it pushes what it has: until the first
    /// heartbeat after one at which all pushed parts had left.
    pub(super) is_quiet: bool,
    /// Whether all pushed parts had left at the last heartbeat.
    has_left: bool,
}

impl Group {
    pub(super) fn view(&mut self, peer: PeerId) -> &mut View {
        let at = match self.views.binary_search_by_key(&peer, |view| view.peer) {
            Ok(at) => at,
            Err(at) => {
                self.views.insert(at, View::new(peer));
                at
            }
        };
        &mut self.views[at]
    }

    pub(super) fn known_view(&self, peer: PeerId) -> Option<&View> {
        self.views.binary_search_by_key(&peer, |view| view.peer).ok().map(|at| &self.views[at])
    }

    /// Sets the number of parts, unless it is known.
    pub(super) fn set_len(&mut self, len: u32) {
        if self.len == 0 {
            self.len = len;
            self.parts.resize(len as usize, None);
            self.have.grow(len);
        }
    }

    /// Adds a part. Returns false if it is there already.
    pub(super) fn add(&mut self, part: u32, data: Bytes) -> bool {
        self.checking.remove(part);
        if self.have.contains(part) || part >= self.len {
            return false;
        }
        self.have.insert(part);
        self.parts[part as usize] = Some(data);
        true
    }

    /// Returns true unless all owed parts have left, and had left when this was last called.
    pub(super) fn owes_until_now(&mut self, outbox: &Outbox<RpcFrame>) -> bool {
        let frames = |view: &View| view.frames.iter().any(|(message, _)| outbox.owes(view.peer, *message));
        let left = !self.views.iter().any(frames);
        !(left && std::mem::replace(&mut self.has_left, left))
    }

    /// Returns the place of a peer among the views.
    fn place_of(&self, peer: PeerId) -> Option<usize> {
        self.views.binary_search_by_key(&peer, |view| view.peer).ok()
    }

    /// Returns the number of parts that each peer is asked for.
    pub(super) fn loads(&self) -> SmallVec<[u32; 16]> {
        let mut loads = SmallVec::from_elem(0, self.views.len());
        for at in self.asks.values().filter_map(|ask| self.place_of(ask.peer)) {
            loads[at] += 1;
        }
        loads
    }

    /// Returns the peer to ask for a part; `None` if nobody is better than an asked peer that may get it.
    pub(super) fn source_of(&self, part: u32, loads: &[u32], peers: &PeerTable) -> Option<Source> {
        let asked = self.asks.get(&part).and_then(|ask| self.place_of(ask.peer));
        let asked = asked.filter(|at| !self.views[*at].failed);
        if asked.is_some_and(|at| self.is_best_holder(at, part, peers)) {
            return Some(Source::Asked);
        }
        match self.best_holder(part, loads, peers) {
            Some(at) => Some(Source::Holder(at)),
            None if asked.is_some() => None,
            None => self.likely_holder().map(Source::Likely),
        }
    }

    /// Returns the peers that have a part and can be asked for it.
    fn holders(&self, part: u32) -> impl Iterator<Item = (usize, &View)> {
        let has_part = move |view: &View| view.can_be_asked() && view.available.contains(part);
        self.views.iter().enumerate().filter(move |(_, view)| has_part(view))
    }

    /// Returns true if a peer has a part, and is reliable or the best that there is.
    fn is_best_holder(&self, at: usize, part: u32, peers: &PeerTable) -> bool {
        let view = &self.views[at];
        let is_reliable = |view: &View| peers.is_reliable(view.peer);
        view.available.contains(part)
            && (is_reliable(view) || !self.holders(part).any(|(_, view)| is_reliable(view)))
    }

    /// Returns a reliable peer that has a part, or else any: the one that is asked for the fewest parts.
    fn best_holder(&self, part: u32, loads: &[u32], peers: &PeerTable) -> Option<usize> {
        let rank = |(at, view): &(usize, &View)| {
            let rotated = u64::from(view.peer.0.wrapping_sub(part)) % 64;
            (!peers.is_reliable(view.peer), loads[*at], rotated)
        };
        self.holders(part).min_by_key(rank).map(|(at, _)| at)
    }

    /// Returns a peer that may get parts soon: the first one that spoke of the group, or any other. Their
    /// publisher has the most to send, and others have these parts soon.
    fn likely_holder(&self) -> Option<usize> {
        let fits = |view: &View| view.can_be_asked() && !view.is_publisher();
        let parent = self.parent.and_then(|parent| self.place_of(parent));
        parent.filter(|at| fits(&self.views[*at])).or_else(|| self.views.iter().position(fits))
    }

    /// Notes in the views which parts each peer is asked for.
    pub(super) fn note_asks(&mut self) {
        self.views.iter_mut().for_each(|view| view.asked = Bits::new(self.len));
        for (part, ask) in &self.asks {
            if let Ok(at) = self.views.binary_search_by_key(&ask.peer, |view| view.peer) {
                self.views[at].asked.insert(*part);
            }
        }
    }

    /// Returns the metadata for a frame with parts of a node that wants none; `None` if the last metadata
    /// named them.
    ///
    /// libp2p-gossipsub 0.50.1 drops parts that its peer does not have by its metadata (`need` in
    /// `handle_received`). The metadata does not count as sent, since the frame can be withdrawn. A node
    /// that wants parts announces what it has before, in a frame of its own: this frame may leave after
    /// later requests, which its metadata would undo.
    pub(super) fn metadata_beside(&self, peer: PeerId, parts: &Bits) -> Option<Metadata> {
        let view = self.known_view(peer);
        let mut available = view.and_then(|view| view.last_sent.clone()).unwrap_or_default().available;
        if !self.is_complete() || parts.without(&available).is_empty() {
            return None;
        }
        available.add(if self.is_quiet { parts } else { &self.have });
        // It takes the place of that in earlier frames.
        view.into_iter().for_each(|view| available.add(&view.owed));
        Some(Metadata { available, requests: Bits::new(self.len) })
    }

    /// Returns the parts that this node lacks and wants.
    pub(super) fn missing(&self) -> Bits {
        if self.is_own { Bits::all(self.len).without(&self.have) } else { Bits::new(self.len) }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.len > 0 && self.have.count() == self.len
    }
}

/// The header of a group id, which all topics share.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// The checked header.
    pub(super) bytes: Option<Bytes>,
    /// Whether one awaits its verdict.
    pub(super) checking: bool,
    /// The peers that have the header, sorted: it was sent to them or by them.
    pub(super) holders: Vec<PeerId>,
    /// Number of frames with only the header that this node has sent.
    pub(super) pushed: usize,
    /// The heartbeat that forgets it.
    pub(super) until: u64,
}

impl Header {
    pub(super) fn is_holder(&self, peer: PeerId) -> bool {
        self.holders.binary_search(&peer).is_ok()
    }

    /// Notes that a peer has the header. Returns false if that was known.
    pub(super) fn note(&mut self, peer: PeerId) -> bool {
        match self.holders.binary_search(&peer) {
            Ok(_) => false,
            Err(at) => {
                self.holders.insert(at, peer);
                true
            }
        }
    }
}

/// A body that awaits its verdict.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) key: GroupKey,
    pub(super) from: PeerId,
    pub(super) header: Option<Bytes>,
    pub(super) parts: Vec<(u32, Bytes)>,
}

/// The response times of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Responses {
    mean: Option<Duration>,
    /// Whether the peer has not answered in time since its last answer.
    has_failed: bool,
}

impl Responses {
    /// Weight of a new sample, as in the estimators of TCP (RFC 6298, alpha).
    const WEIGHT: u32 = 8;

    pub(in crate::engine) fn note(&mut self, took: Duration) {
        self.has_failed = false;
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => (mean * (Self::WEIGHT - 1) + took) / Self::WEIGHT,
        });
    }

    pub(in crate::engine) fn note_failure(&mut self) {
        self.has_failed = true;
    }

    pub(in crate::engine) const fn has_failed(self) -> bool {
        self.has_failed
    }

    /// Returns the time to wait for an answer.
    pub(in crate::engine) fn patience(self, least: Duration) -> Duration {
        self.mean.map_or(least, |mean| (3 * mean).max(least))
    }
}

/// All groups of a node.
#[derive(Debug, Default)]
pub(in crate::engine) struct Groups {
    pub(super) groups: BTreeMap<GroupKey, Group>,
    pub(super) headers: BTreeMap<Bytes, Header>,
    pub(super) pending: BTreeMap<u64, Pending>,
    /// The bytes of the parts of each peer that await their header.
    pub(super) early_bytes: BTreeMap<PeerId, usize>,
    /// The last group id of which this node pushed parts. Peers that have spoken of it since get further
    /// copies first.
    pub(super) last_pushed: Bytes,
    pub(super) next_ticket: u64,
    pub(super) next_key: u64,
    /// The time of the timer that is set.
    pub(super) timer: Option<Time>,
    /// The time at which changes are announced.
    pub(super) announce_at: Option<Time>,
    /// The groups whose changes await their announcement.
    pub(super) changed: Vec<GroupKey>,
}

impl Groups {
    /// Keys of owed parts, apart from those of messages.
    const KEYS: u64 = 1 << 63;

    pub(super) fn next_key(&mut self) -> MessageKey {
        self.next_key += 1;
        MessageKey(Self::KEYS | self.next_key)
    }

    /// Counts the bytes of the parts that await their header, after groups were forgotten.
    pub(super) fn count_early(&mut self) {
        self.early_bytes.clear();
        for (peer, parts) in self.groups.values().flat_map(|group| &group.early) {
            *self.early_bytes.entry(*peer).or_default() += bytes_of(parts);
        }
    }

    /// Returns the number of groups, the bytes of their parts, and the number of bodies that await their
    /// verdict.
    pub(in crate::engine) fn sizes(&self) -> [usize; 3] {
        let of = |group: &Group| group.parts.iter().flatten().map(Bytes::len).sum::<usize>();
        [self.groups.len(), self.groups.values().map(of).sum(), self.pending.len()]
    }
}

/// Returns the bytes of parts that a peer has sent together, with those of their places in vectors.
pub(super) fn bytes_of(parts: &[(u32, Bytes)]) -> usize {
    let data: usize = parts.iter().map(|(_, data)| data.len()).sum();
    data + size_of_val(parts) + size_of::<(PeerId, Vec<(u32, Bytes)>)>()
}
