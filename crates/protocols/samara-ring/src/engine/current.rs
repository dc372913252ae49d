//! The state of a member within a view: the units of each origin until all members have them, and
//! the queues for each successor.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::PeerId;
use samara_engine::shape::Children;

use super::members::Peers;
use crate::wire::{UNIT_OVERHEAD, Unit};
use crate::{Payload, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    New,
    Duplicate,
    Beyond,
}

pub(super) fn weight(unit: &Unit) -> u64 {
    unit.bytes.len() as u64 + UNIT_OVERHEAD
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The last unit that is no longer kept because all members have it. The next one is the first
    /// in `units`.
    pub(super) base: u64,
    units: VecDeque<Option<Unit>>,
    /// Weight of `units`: their contents, and the overhead of each place, also of empty ones.
    pub(super) held: u64,
    /// The last unit up to which all have arrived.
    pub(super) have: u64,
    /// The last unit that was passed to the application, or waits in its queue.
    pub(super) delivered: u64,
    /// The last unit that this member acknowledges (see `held_bytes`).
    pub(super) taken: u64,
    /// The last unit that all members from the origin to the predecessor have, as the predecessor
    /// reports.
    pub(super) reached_before: u64,
    /// The last unit that all members from the origin to this one have.
    pub(super) reached: u64,
    /// The last unit that all members have.
    pub(super) stable: u64,
    /// True until the successor knows `reached` and `stable`.
    pub(super) is_news: bool,
    pub(super) number: u64,
    pub(super) stable_messages: u64,
    /// The first chunks of a message whose last chunk has not arrived.
    pub(super) partial: Option<Payload>,
}

impl Stream {
    pub(super) fn get(&self, sequence: u64) -> Option<&Unit> {
        let index = usize::try_from(sequence.checked_sub(self.base + 1)?).ok()?;
        self.units.get(index)?.as_ref()
    }

    /// Takes a unit, unless more than `weight_max` would be held, or it is further ahead than that
    /// much could be.
    pub(super) fn insert(&mut self, unit: Unit, weight_max: u64) -> Inserted {
        if unit.sequence <= self.have || unit.sequence <= self.base {
            return Inserted::Duplicate;
        }
        let index = unit.sequence - self.base - 1;
        let new_places = (index + 1).saturating_sub(self.units.len() as u64);
        let added = new_places.saturating_mul(UNIT_OVERHEAD).saturating_add(unit.bytes.len() as u64);
        if self.held.saturating_add(added) > weight_max {
            return Inserted::Beyond;
        }
        let index = index as usize;
        if self.units.len() == index && !self.has_gap() {
            self.held += added;
            self.units.push_back(Some(unit));
            self.have += 1;
            return Inserted::New;
        }
        if self.units.len() <= index {
            self.units.resize(index + 1, None);
        }
        if self.units[index].is_some() {
            return Inserted::Duplicate;
        }
        self.held += added;
        self.units[index] = Some(unit);
        let next = (self.have - self.base) as usize;
        self.have += self.units.range(next..).take_while(|unit| unit.is_some()).count() as u64;
        Inserted::New
    }

    /// Replaces the content of a unit by a copy, so that it keeps no larger block alive.
    pub(super) fn detach(&mut self, sequence: u64) {
        let index = sequence.wrapping_sub(self.base + 1) as usize;
        if let Some(Some(unit)) = self.units.get_mut(index) {
            unit.bytes = Bytes::copy_from_slice(&unit.bytes);
        }
    }

    /// Returns true if there are units that are not yet known to be at all members.
    fn is_active(&self) -> bool {
        self.have > self.stable
    }

    /// Returns true if units arrived after a missing one.
    pub(super) fn has_gap(&self) -> bool {
        self.last() > self.have
    }

    pub(super) fn last(&self) -> u64 {
        self.base + self.units.len() as u64
    }

    /// Drops all units up to this one. Returns their weight.
    pub(super) fn release(&mut self, sequence: u64) -> u64 {
        let before = self.held;
        while self.base < sequence.min(self.have)
            && let Some(unit) = self.units.pop_front()
        {
            self.base += 1;
            self.held -= unit.as_ref().map_or(0, weight);
            self.stable_messages += u64::from(unit.is_some_and(|unit| unit.last));
        }
        before - self.held
    }
}

/// Time that bytes in flight may spend in the queues of transports. If it is longer, alternating
/// between own and forwarded units takes effect too late to make members equal. If it is shorter, a
/// link can become idle. With 50 ms, four members at 100 Mbit/s reach 98 % of the bound.
const QUEUE: Duration = Duration::from_millis(50);

/// An item in the queue for one successor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// The unit of this origin with this number.
    Unit(u16, u64),
    /// All members have the units of this origin up to this one. Queued where this report must not
    /// overtake units.
    Stable(u16, u64),
}

/// A successor and its queues.
#[derive(Debug, Default)]
pub(super) struct Hop {
    pub(super) rank: u16,
    /// `None` until the first link is up.
    pub(super) peer: Option<PeerId>,
    /// True while there is no link, or the other end of a new one has not reported what it has.
    pub(super) is_waiting: bool,
    pub(super) forward: VecDeque<Item>,
    pub(super) own: VecDeque<u64>,
    /// Bytes of data sent over this link in this view, and how many of them arrived.
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// The bytes that the successor has reported last, and those sent that it will never report.
    reported: u64,
    lost: u64,
    /// `arrived` at the last measurement.
    measured: u64,
    /// Bytes that arrive each second while there is something to send.
    pub(super) rate: f64,
    pub(super) window: u64,
    /// Bytes of forwarded and of own units that were served since both began to wait.
    pub(super) served: [u64; 2],
    /// On the ring, by origin: the last unit sent over this link.
    pub(super) last: Vec<u64>,
}

impl Hop {
    pub(super) fn new(rank: u16, peer: Option<PeerId>, is_up: bool, members: usize) -> Self {
        Self { rank, peer, is_waiting: !is_up, last: vec![0; members], ..Self::default() }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.sent - self.arrived
    }

    /// Updates the window: the number of bytes that arrive in a round trip plus the time allowed
    /// for queues, at the rate since the last measurement. The rate falls slowly, so that pauses of
    /// the sender do not matter.
    pub(super) fn measure(&mut self, span: Duration, round_trip: Duration) {
        let rate = (self.arrived - self.measured) as f64 / span.as_secs_f64();
        self.measured = self.arrived;
        self.rate = rate.max(self.rate * 7.0 / 8.0);
        self.window = (self.rate * (round_trip + QUEUE).as_secs_f64()) as u64;
    }

    /// Records the bytes that the successor reports.
    ///
    /// It repeats a report only after a standstill: the rest got lost on the way, and would take room
    /// in the window for ever.
    pub(super) fn credit(&mut self, bytes: u64) {
        if bytes == self.reported {
            self.lost = self.sent.saturating_sub(bytes);
        }
        self.reported = self.reported.max(bytes);
        self.arrived = self.arrived.max(bytes.saturating_add(self.lost).min(self.sent));
    }

    /// Clears the queues and the record of sent units for a new link.
    pub(super) fn reset(&mut self) {
        self.forward.clear();
        self.own.clear();
        (self.sent, self.arrived, self.measured) = (0, 0, 0);
        (self.reported, self.lost) = (0, 0);
        self.last.fill(0);
    }
}

#[derive(Debug)]
pub(super) struct Current {
    pub(super) view: Arc<View>,
    pub(super) rank: u16,
    /// The peers, by rank.
    pub(super) peers: Vec<Option<PeerId>>,
    pub(super) streams: Vec<Stream>,
    pub(super) hops: Vec<Hop>,
    /// Indices of `hops`, by origin and by the parity of the sequence number.
    routes: Vec<[Children; 2]>,
    /// Origins with an update for the successor on the ring.
    pub(super) news: Vec<u16>,
    /// Number of origins with units here that are not yet known to be at all members.
    active: u64,
    /// Lamport clock, for total order.
    pub(super) clock: u64,
    /// Units that wait for their turn in total order: stamp, origin, number.
    pub(super) pending: BTreeSet<(u64, u16, u64)>,
}

impl Current {
    pub(super) fn new(view: Arc<View>, rank: u16, peers: &Peers) -> Self {
        let count = view.len();
        let by_rank: Vec<Option<PeerId>> =
            view.members.iter().map(|member| peers.id_of(&member.identity)).collect();
        let mut hops: Vec<Hop> = Vec::new();
        let mut hop_to = |to: u16| {
            if let Some(index) = hops.iter().position(|hop| hop.rank == to) {
                return index as u16;
            }
            let peer = by_rank[usize::from(to)];
            hops.push(Hop::new(to, peer, peer.is_some_and(|peer| peers.is_up(peer)), count));
            (hops.len() - 1) as u16
        };
        // The successor on the ring comes first: acknowledgements go to it in every shape.
        if count > 1 {
            hop_to(((usize::from(rank) + 1) % count) as u16);
        }
        let routes = (0..count as u16)
            .map(|origin| {
                [0, 1].map(|way| {
                    view.shape.children(count, origin, rank, way).into_iter().map(&mut hop_to).collect()
                })
            })
            .collect();
        Self {
            rank,
            peers: by_rank,
            streams: (0..count).map(|_| Stream::default()).collect(),
            hops,
            routes,
            news: Vec::new(),
            active: 0,
            clock: 0,
            pending: BTreeSet::new(),
            view,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.view.len()
    }

    /// Returns the rank of the successor on the ring.
    pub(super) fn next(&self) -> u16 {
        ((usize::from(self.rank) + 1) % self.len()) as u16
    }

    /// Returns the rank of the predecessor on the ring.
    pub(super) fn previous(&self) -> u16 {
        ((usize::from(self.rank) + self.len() - 1) % self.len()) as u16
    }

    /// Returns the indices of the hops to which this member sends a unit.
    pub(super) fn route(&self, origin: u16, sequence: u64) -> &Children {
        &self.routes[usize::from(origin)][(sequence % 2) as usize]
    }

    pub(super) fn rank_of(&self, peer: PeerId) -> Option<u16> {
        self.peers.iter().position(|other| *other == Some(peer)).map(|rank| rank as u16)
    }

    pub(super) fn hop_to(&mut self, peer: PeerId) -> Option<&mut Hop> {
        self.hops.iter_mut().find(|hop| hop.peer == Some(peer))
    }

    pub(super) fn have(&self) -> Vec<u64> {
        self.streams.iter().map(|stream| stream.have).collect()
    }

    /// Returns true if a peer forwards units of any origin to this member.
    pub(super) fn is_parent(&self, peer: PeerId) -> bool {
        let Some(parent) = self.rank_of(peer) else { return false };
        // The predecessor on the ring sends acknowledgements in every shape.
        parent == self.previous()
            || (0..self.len() as u16).any(|origin| {
                (0..2)
                    .any(|way| self.view.shape.children(self.len(), origin, parent, way).contains(&self.rank))
            })
    }

    /// Records an update of an origin for the successor.
    pub(super) fn note_news(&mut self, origin: u16) {
        let stream = &mut self.streams[usize::from(origin)];
        if !std::mem::replace(&mut stream.is_news, true) {
            self.news.push(origin);
        }
    }

    /// Changes the state of an origin's units, and keeps the count of active origins.
    pub(super) fn change<T>(&mut self, origin: u16, change: impl FnOnce(&mut Stream) -> T) -> T {
        let stream = &mut self.streams[usize::from(origin)];
        let before = stream.is_active();
        let changed = change(stream);
        self.active += u64::from(stream.is_active());
        self.active -= u64::from(before);
        changed
    }

    /// Returns the number of other members with units that may still have to go to this successor.
    pub(super) fn others(&self, hop: usize) -> u64 {
        debug_assert_eq!(self.active, self.streams.iter().filter(|stream| stream.is_active()).count() as u64);
        let is_active = |rank: u16| u64::from(self.streams[usize::from(rank)].is_active());
        self.active - is_active(self.rank) - is_active(self.hops[hop].rank)
    }

    /// Returns true if there are units here that are not known to be at all members.
    pub(super) const fn is_active(&self) -> bool {
        self.active > 0
    }

    /// Returns a number that grows with each unit and each acknowledgement that arrives.
    pub(super) fn arrivals(&self) -> u64 {
        let of =
            |stream: &Stream| stream.have.wrapping_add(stream.stable).wrapping_add(stream.reached_before);
        self.streams.iter().map(of).fold(0, u64::wrapping_add)
    }

    /// Returns the number of units that this member acknowledges, over all origins.
    pub(super) fn progress(&self) -> u64 {
        self.streams.iter().map(|stream| stream.taken).sum()
    }
}
