//! Sent units: alternating own and forwarded ones, within windows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::outbox::Lane;
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{Frame, PeerId, Time};

use super::current::{Current, Item, weight};
use super::event::Ignored;
use super::{Cx, Event, Ring};
use crate::wire::{Ack, Data, FRAME_UNITS_MAX, Resume, Unit};
use crate::{Config, Order, RingFrame};

#[derive(Debug, Default)]
pub(super) struct Own {
    queue: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes of the first message that were already sent.
    sent: usize,
    /// True if a message was rejected, so that the application waits for room.
    pub(super) was_full: bool,
}

/// A chunk that is ready for a sequence number.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) bytes: Bytes,
}

impl Own {
    /// Returns true if there is room. A message that exceeds the limit alone fits while the queue
    /// is empty.
    pub(super) fn has_room(&self, len: usize, bytes_max: usize) -> bool {
        // A message without content takes room as well.
        self.queue.is_empty() || self.bytes + len.max(1) <= bytes_max
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len().max(1);
        self.queue.push_back(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next piece, of at most `len` bytes. A message leaves the queue with its last
    /// piece.
    pub(super) fn next(&mut self, len: usize) -> Option<Chunk> {
        let message = self.queue.front()?;
        let (start, end) = (self.sent, message.len().min(self.sent + len));
        let chunk = Chunk { first: start == 0, last: end == message.len(), bytes: message.slice(start..end) };
        self.sent = end;
        if chunk.last {
            self.bytes -= message.len().max(1);
            self.sent = 0;
            self.queue.pop_front();
        }
        Some(chunk)
    }

    /// Restarts a partly sent message: it must belong to one view.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }
}

/// The window of this member's own units: additive increase and multiplicative decrease, by the
/// time until a unit is known to be at all members.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Weight of own units that are not yet known to be at all members.
    pub(super) in_flight: u64,
    pub(super) limit: u64,
    max: u64,
    min: u64,
    /// The window doubles in each lap until one takes too long.
    is_starting: bool,
    /// The timed unit, its start, and whether the window was full since.
    probe: Option<(u64, Time, bool)>,
}

impl Flow {
    pub(super) fn begin(&mut self, min: u64, max: u64) {
        // The limit of the last view is the best guess.
        let limit = if self.limit == 0 { min } else { self.limit };
        *self = Self { in_flight: 0, limit: limit.clamp(min, max), max, min, is_starting: true, probe: None };
    }

    /// Returns true if one more unit may be sent.
    fn is_open(&mut self) -> bool {
        let open = self.in_flight < self.limit;
        if let (false, Some(probe)) = (open, &mut self.probe) {
            probe.2 = true;
        }
        open
    }

    pub(super) fn send(&mut self, sequence: u64, weight: u64, now: Time) {
        self.in_flight += weight;
        self.probe.get_or_insert((sequence, now, false));
    }

    /// Records that all members have the units up to `sequence`, with this weight.
    pub(super) fn stable(&mut self, sequence: u64, weight: u64, now: Time, goal: Duration) {
        self.in_flight = self.in_flight.saturating_sub(weight);
        let Some((_, since, was_full)) = self.probe.take_if(|probe| probe.0 <= sequence) else { return };
        if now.since(since) > goal {
            self.is_starting = false;
            self.limit -= self.limit / 8;
        } else if was_full {
            // Additive, because with proportional growth members would never reach equal windows.
            self.limit += if self.is_starting { self.limit } else { self.min / 16 };
        }
        self.limit = self.limit.clamp(self.min, self.max);
    }
}

/// Bytes of data that carry one acknowledgement, which takes about 6 bytes itself. Without this
/// limit, in large groups each frame would carry an update of every origin.
const BYTES_PER_ACK: usize = 2_048;

#[derive(Default)]
struct Filling {
    units: Vec<Unit>,
    acks: Vec<Ack>,
    bytes: usize,
    /// Number of other members with units in flight to here.
    others: u64,
}

impl Filling {
    fn is_full(&self, batch_bytes: usize) -> bool {
        self.bytes >= batch_bytes || self.units.len() >= FRAME_UNITS_MAX
    }
}

impl Ring {
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>) {
        if self.flush.is_some() {
            self.pump_repair(cx);
            return;
        }
        let Some(current) = &self.current else { return };
        if current.hops.is_empty() {
            while self.number_next(cx) {}
        }
        let hops = self.current.as_ref().map_or(0, |current| current.hops.len());
        for index in 0..hops {
            while self.fill(index, cx) {}
        }
        self.report_room(cx);
    }

    fn may_send(&self, index: usize) -> bool {
        let hop = self.current.as_ref().and_then(|current| current.hops.get(index));
        hop.is_some_and(|hop| !hop.is_waiting && hop.in_flight() < self.config.hop_window(hop.window))
    }

    /// Updates the windows of all successors.
    pub(super) fn measure_hops(&mut self) {
        let span = self.config.detection.heartbeat;
        for hop in self.current.iter_mut().flat_map(|current| &mut current.hops) {
            if let Some(peer) = hop.peer.and_then(|peer| self.peers.get(peer)) {
                hop.measure(span, peer.round_trip.least());
            }
        }
    }

    /// Sends one frame to a successor. Returns true if there may be more to send.
    fn fill(&mut self, index: usize, cx: &mut Cx<'_>) -> bool {
        if !self.may_send(index) {
            return false;
        }
        let others = self.current.as_ref().map_or(0, |current| current.others(index));
        let mut filling = Filling { others, ..Filling::default() };
        let batch = self.batch_bytes(others);
        while !filling.is_full(batch) && self.fill_one(index, &mut filling, cx) {}
        let has_data = !filling.units.is_empty() || !filling.acks.is_empty();
        // Acknowledgements go along the ring. In other shapes, the units for the successor are
        // unrelated to them, and would only delay them.
        let (is_next, travels_along) = (index == 0, self.is_ring());
        let news = self.current.as_ref().filter(|_| is_next).map_or(0, |current| current.news.len());
        self.unacked_bytes += if is_next { filling.bytes } else { 0 };
        let is_cheap = travels_along && has_data && self.unacked_bytes >= news * BYTES_PER_ACK;
        if news > 0 && (is_cheap || self.is_ack_due(cx)) {
            filling.acks.extend(self.take_news());
            self.ack_at = None;
            self.unacked_bytes = 0;
            if !travels_along && has_data {
                let acks = std::mem::take(&mut filling.acks);
                self.send_data(index, Filling { acks, ..Filling::default() }, cx);
            }
        }
        if filling.units.is_empty() && filling.acks.is_empty() {
            return false;
        }
        self.send_data(index, filling, cx);
        has_data
    }

    /// Returns the maximum bytes of a frame. Each member receives a whole frame before it forwards
    /// it. Frames at all hops, on two laps, must not exceed the windows of the members that send.
    /// So frames are smaller in large groups in which few members send.
    fn batch_bytes(&self, others: u64) -> usize {
        let members = self.current.as_ref().map_or(1, Current::len);
        let share = (1 + others) * self.config.window_max(members) / (2 * members as u64);
        self.config.batch_bytes.min(usize::try_from(share).unwrap_or(usize::MAX)).max(1)
    }

    /// Adds one unit or one update to a frame. Own units get the share of one member, by bytes.
    /// Returns false if there was nothing to add.
    fn fill_one(&mut self, index: usize, filling: &mut Filling, cx: &mut Cx<'_>) -> bool {
        let is_own_ready = self.has_own(index, cx);
        let Some(current) = &mut self.current else { return false };
        let hop = &mut current.hops[index];
        let is_forward_ready = !hop.forward.is_empty();
        if !(is_own_ready && is_forward_ready) {
            hop.served = [0; 2];
        }
        let takes_own = match (is_forward_ready, is_own_ready) {
            (false, false) => return false,
            (true, true) => hop.served[1] * filling.others < hop.served[0],
            (_, own) => own,
        };
        let (origin, sequence) = if takes_own {
            match hop.own.pop_front() {
                Some(sequence) => (current.rank, sequence),
                None => return false,
            }
        } else {
            match hop.forward.pop_front() {
                Some(Item::Unit(origin, sequence)) => (origin, sequence),
                Some(Item::Stable(origin, stable)) => {
                    let known = filling.acks.iter_mut().find(|ack| ack.origin == origin);
                    match known {
                        Some(ack) => ack.stable = stable,
                        None => filling.acks.push(Ack { origin, reached: 0, stable }),
                    }
                    return true;
                }
                None => return false,
            }
        };
        // Units that all members have were dropped, and need not be sent.
        let Some(unit) = current.streams[usize::from(origin)].get(sequence) else { return true };
        let hop = &mut current.hops[index];
        hop.served[usize::from(takes_own)] += weight(unit);
        hop.last[usize::from(origin)] = hop.last[usize::from(origin)].max(sequence);
        filling.bytes += unit.bytes.len();
        let is_own = origin == current.rank;
        let hops = if is_own { unit.hops } else { unit.hops.saturating_sub(1) };
        filling.units.push(Unit { hops, ..unit.clone() });
        if !is_own {
            self.metrics.forwarded += 1;
        }
        true
    }

    /// Returns true if an own unit can go to this successor. Numbers the next ones if necessary.
    fn has_own(&mut self, index: usize, cx: &mut Cx<'_>) -> bool {
        loop {
            let Some(current) = &self.current else { return false };
            if !current.hops[index].own.is_empty() {
                return true;
            }
            // With several trees, the next unit may go to another successor.
            let next = current.streams[usize::from(current.rank)].have + 1;
            let goes_here = |sequence| current.route(current.rank, sequence).contains(&(index as u16));
            if !goes_here(next) && !goes_here(next + 1) {
                return false;
            }
            if !self.number_next(cx) {
                return false;
            }
        }
    }

    /// Numbers the next own unit, and queues it for its successors. Returns false if there was
    /// none, or the window was full.
    fn number_next(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.own.is_empty() || !self.flow.is_open() {
            return false;
        }
        let Some(chunk) = self.own.next(self.config.chunk_bytes) else { return false };
        let Some(current) = &mut self.current else { return false };
        let origin = current.rank;
        let sequence = current.streams[usize::from(origin)].have + 1;
        let stamp = if self.config.order == Order::Total { current.clock.saturating_add(1) } else { 0 };
        let hops = current.view.shape.hops(current.len());
        let unit =
            Unit { origin, sequence, hops, stamp, first: chunk.first, last: chunk.last, bytes: chunk.bytes };
        self.flow.send(sequence, weight(&unit), cx.now());
        self.metrics.own_units += 1;
        current.change(origin, |stream| stream.insert(unit, u64::MAX));
        for index in current.route(origin, sequence).clone() {
            let hop = &mut current.hops[usize::from(index)];
            if !hop.is_waiting {
                hop.own.push_back(sequence);
            }
        }
        self.on_complete_units(origin, sequence - 1, sequence, cx);
        self.deliver_ordered(cx);
        true
    }

    fn send_data(&mut self, index: usize, filling: Filling, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let view = current.view.id;
        let hop = &mut current.hops[index];
        let Some(peer) = hop.peer else { return };
        // In total order, updates must not overtake units.
        let overtakes = filling.units.is_empty() && self.config.order == Order::Fifo;
        let lane = if overtakes { Config::CONTROL } else { Config::DATA };
        let data = Data::new(view, filling.units, filling.acks);
        hop.sent += data.weight();
        let data = Arc::new(data);
        if !self.owe(peer, lane, RingFrame::Data(data.clone()), cx)
            && let Some(current) = &mut self.current
        {
            // The queue is full of frames. A later frame repeats these acknowledgements.
            data.acks().iter().for_each(|ack| current.note_news(ack.origin));
        }
    }

    /// Passes a frame for a peer to the outbox. Returns false if there was no room.
    pub(super) fn owe(&mut self, peer: PeerId, lane: Lane, frame: RingFrame, cx: &mut Cx<'_>) -> bool {
        let frame = if self.bridge == 0 { frame } else { RingFrame::Bridge(Arc::new(frame)) };
        let len = u32::try_from(frame.encoded_len()).unwrap_or(u32::MAX);
        let now = cx.now();
        let taken = cx.outbox().owe(now, peer, lane, frame, None, None).is_ok();
        if !taken {
            self.metrics.queue_drops += 1;
        } else if lane == Config::DATA {
            self.metrics.data_frames.add(len);
        } else {
            self.metrics.control_frames.add(len);
        }
        taken
    }

    fn report_room(&mut self, cx: &mut Cx<'_>) {
        // Reports room only when half of the queue is free, so that the application can add several
        // messages at once.
        if self.own.was_full && self.own.bytes() <= self.config.own_queue_bytes / 2 {
            self.own.was_full = false;
            cx.emit(Event::Room);
        }
    }

    // ---- retransmission ----

    /// Asks a member that forwards units to this one to continue after the last one here. Asks at
    /// most once in each heartbeat interval.
    pub(super) fn ask_to_resume(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(current) = &self.current else { return };
        let resume = Resume { view: current.view.id, proposal: None, have: current.have() };
        let now = cx.now();
        let heartbeat = self.config.detection.heartbeat;
        let Some(state) = self.peers.get_mut(peer) else { return };
        if state.resumed.is_some_and(|at| now.since(at) < heartbeat) {
            return;
        }
        state.resumed = Some(now);
        self.send(peer, RingFrame::Resume(Arc::new(resume)), cx);
    }

    pub(super) fn on_resume(&mut self, peer: PeerId, resume: &Arc<Resume>, cx: &mut Cx<'_>) {
        if let Some(proposal) = resume.proposal {
            self.keep_resume(peer, proposal, resume);
            self.begin_repair(cx);
            return;
        }
        let is_frozen = self.flush.is_some();
        let Some(current) =
            self.current.as_mut().filter(|current| current.view.id == resume.view && !is_frozen)
        else {
            return self.metrics.ignore(Ignored::StaleView);
        };
        let Some(index) = current.hops.iter().position(|hop| hop.peer == Some(peer)) else {
            return self.metrics.ignore(Ignored::Stranger);
        };
        if resume.have.len() != current.len() {
            return self.metrics.ignore(Ignored::Inconsistent);
        }
        self.resume(index, &resume.have);
    }

    /// Queues again all units for a successor that it does not have.
    fn resume(&mut self, index: usize, have: &[u64]) {
        let Some(current) = &mut self.current else { return };
        let mut units: Vec<(u64, u16, u64)> = Vec::new();
        for (origin, stream) in (0u16..).zip(&current.streams) {
            let known = have[usize::from(origin)].max(stream.base);
            for sequence in known.saturating_add(1)..=stream.last() {
                let goes_here = current.route(origin, sequence).contains(&(index as u16));
                if let Some(unit) = stream.get(sequence).filter(|_| goes_here) {
                    units.push((unit.stamp, origin, sequence));
                }
            }
        }
        // In total order, units that are delivered earlier must travel ahead.
        units.sort_unstable();
        if is_planted(Bug::RingResume) {
            units.drain(..units.len().min(1));
        }
        self.metrics.repaired += units.len() as u64;
        let hop = &mut current.hops[index];
        hop.forward.clear();
        hop.own.clear();
        hop.is_waiting = false;
        hop.last.copy_from_slice(have);
        hop.forward.extend(units.into_iter().map(|(_, origin, sequence)| Item::Unit(origin, sequence)));
        if index == 0 {
            let stable: Vec<u64> = current.streams.iter().map(|stream| stream.stable).collect();
            for (origin, stable) in (0u16..).zip(stable) {
                if self.config.order == Order::Total {
                    current.hops[0].forward.push_back(Item::Stable(origin, stable));
                }
                current.note_news(origin);
            }
        }
    }

    /// During a view change: sends the successor among those that stay the units of the old view
    /// that it lacks, and those that arrive in the meantime.
    pub(super) fn pump_repair(&mut self, cx: &mut Cx<'_>) {
        while let Some((index, filling)) = self.fill_repair() {
            self.metrics.repaired += filling.units.len() as u64;
            self.send_data(index, filling, cx);
        }
    }

    fn fill_repair(&mut self) -> Option<(usize, Filling)> {
        let flush = self.flush.as_mut()?;
        let repair = flush.repair.as_mut()?;
        let index = repair.hop;
        let current = self.current.as_mut()?;
        let hop = &current.hops[index];
        if hop.is_waiting || hop.in_flight() >= self.config.hop_window_bytes {
            return None;
        }
        let mut filling = Filling::default();
        for (origin, stream) in (0u16..).zip(&current.streams) {
            let cursor = &mut repair.cursor[usize::from(origin)];
            let until = flush.cut.as_ref().map_or(u64::MAX, |cut| cut[usize::from(origin)]).min(stream.have);
            while origin != hop.rank && *cursor < until && !filling.is_full(self.config.batch_bytes) {
                *cursor += 1;
                if let Some(unit) = stream.get(*cursor) {
                    filling.bytes += unit.bytes.len();
                    // The receiver keeps the unit, and repairs its own successor from there.
                    filling.units.push(Unit { hops: 1, ..unit.clone() });
                }
            }
        }
        (!filling.units.is_empty()).then_some((index, filling))
    }

    /// Counts the time during which nothing new could be sent.
    pub(super) fn count_frozen(&mut self, since: Time, now: Time) {
        self.metrics.frozen_ns += u64::try_from(now.since(since).as_nanos()).unwrap_or(u64::MAX);
    }
}
