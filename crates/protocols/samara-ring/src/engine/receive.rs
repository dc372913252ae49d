//! Received units: storing, forwarding, acknowledging, delivering.
//!
//! Acknowledgements travel along the ring, from the successor of an origin. Each member reports the
//! last of the origin's units that it *and all members before it* have. The units that the origin's
//! predecessor reports in this way are at all members: they are stable. That report goes around
//! once more. Both travel with the data, and one report covers many units.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{PeerId, Shape, Time};

use super::current::{Current, Inserted, Item};
use super::event::Ignored;
use super::{ACK, Cx, Event, Ring};
use crate::wire::{Ack, Data, UNIT_OVERHEAD, Unit};
use crate::{Config, Order, Payload, RingFrame, ViewId};

/// Maximum memory that one slice of a received frame keeps alive: the block of the transport.
const BLOCK_BYTES: u64 = 256 << 10;

impl Ring {
    /// Counts bytes of a peer's frames that this node does not keep.
    pub(super) fn waste(&mut self, peer: PeerId, bytes: u64) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.wasted = (state.wasted + bytes).min(BLOCK_BYTES);
        }
    }

    /// Returns true if content that is kept must be copied: it is a slice of a block, and a peer
    /// that fills blocks with frames that nobody keeps would otherwise make each short content hold
    /// a whole one. Only such a peer costs copies, as many bytes as it wastes.
    pub(super) fn must_copy(&mut self, peer: PeerId, len: usize) -> bool {
        let Some(state) = self.peers.get_mut(peer) else { return false };
        let must_copy = state.wasted > len as u64;
        state.wasted = state.wasted.saturating_sub(len as u64);
        must_copy
    }

    pub(super) fn on_data(&mut self, peer: PeerId, data: &Arc<Data>, cx: &mut Cx<'_>) {
        let content = data.payload_len() as u64;
        // The weight of a unit includes its fields.
        let fields = data.encoded_len() as u64 - content;
        self.waste(peer, fields.saturating_sub(UNIT_OVERHEAD * data.units().len() as u64));
        if self.current.as_ref().is_none_or(|current| current.view.id != data.view()) {
            if !self.keep_early_data(peer, data) {
                self.waste(peer, content);
            }
            return;
        }
        let Some(current) = &self.current else { return };
        if current.rank_of(peer).is_none() {
            self.waste(peer, content);
            return self.metrics.ignore(Ignored::Stranger);
        }
        self.count_credit(peer, data, cx);
        let is_frozen = self.flush.is_some();
        for unit in data.units() {
            if !self.take_unit(peer, unit, cx) {
                self.waste(peer, unit.bytes.len() as u64);
            }
        }
        if is_frozen {
            self.check_ready(cx);
        } else {
            // They say what the members up to the predecessor have. From another one they would claim
            // that of members in between.
            let is_previous = self.current.as_ref().is_some_and(|c| c.rank_of(peer) == Some(c.previous()));
            if is_previous {
                data.acks().iter().for_each(|ack| self.take_ack(*ack, cx));
            } else if !data.acks().is_empty() {
                self.metrics.ignore(Ignored::Inconsistent);
            }
            self.deliver_ordered(cx);
        }
    }

    /// Keeps data of a view that others have installed and this member is about to install. Returns
    /// false if it does not.
    fn keep_early_data(&mut self, peer: PeerId, data: &Arc<Data>) -> bool {
        let proposed = self.flush.as_ref().map(|flush| flush.prepare.proposal);
        let ready = self.ready.as_ref().map(|ready| ready.prepare.proposal);
        if proposed != Some(data.view()) && ready != Some(data.view()) {
            self.metrics.ignore(Ignored::StaleView);
            return false;
        }
        let len = data.weight();
        // A correct predecessor stops when its window is full. This limit is for the others.
        if self.early_bytes + len > 4 * self.config.hop_window_bytes {
            self.metrics.ignore(Ignored::EarlyOverflow);
            return false;
        }
        self.early_bytes += len;
        let data =
            if self.must_copy(peer, data.payload_len()) { Arc::new(data.copied()) } else { data.clone() };
        self.early.push((peer, data));
        true
    }

    /// Reports to a predecessor how many bytes have arrived, after every eighth of the smallest
    /// window.
    fn count_credit(&mut self, peer: PeerId, data: &Arc<Data>, cx: &mut Cx<'_>) {
        let len = data.weight();
        let step = self.config.hop_window(0) / 8;
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.credit.0 += len;
        let (arrived, reported) = state.credit;
        if arrived - reported >= step {
            state.credit.1 = arrived;
            self.send(peer, RingFrame::Credit { view: data.view(), bytes: arrived }, cx);
        }
    }

    /// Returns the maximum weight that is kept of one origin: it may have sent another window since
    /// it learned which units the others released.
    pub(super) fn weight_max(&self, members: usize) -> u64 {
        2 * (self.config.window_max(members) + self.config.chunk_bytes as u64 + UNIT_OVERHEAD)
    }

    /// Takes a unit. Returns false if this node does not keep it.
    fn take_unit(&mut self, peer: PeerId, unit: &Unit, cx: &mut Cx<'_>) -> bool {
        self.metrics.received_units += 1;
        let before = match self.insert_unit(unit) {
            Ok(before) => before,
            Err(cause) => {
                self.metrics.ignore(cause);
                return false;
            }
        };
        let must_copy = self.must_copy(peer, unit.bytes.len());
        let Some(current) = &mut self.current else { return true };
        let stream = &mut current.streams[usize::from(unit.origin)];
        if must_copy {
            stream.detach(unit.sequence);
        }
        let after = stream.have;
        let has_gap = stream.has_gap();
        if self.flush.is_none() {
            self.pass_on(unit, before, after);
            if has_gap && self.is_ring() {
                self.ask_to_resume(peer, cx);
            }
        }
        self.on_complete_units(unit.origin, before, after, cx);
        true
    }

    /// Stores a unit. Returns the last unit up to which all of its origin's units had arrived.
    fn insert_unit(&mut self, unit: &Unit) -> Result<u64, Ignored> {
        let weight_max = self.weight_max(self.current.as_ref().map_or(1, Current::len));
        let current = self.current.as_mut().ok_or(Ignored::StaleView)?;
        if usize::from(unit.origin) >= current.len() {
            return Err(Ignored::UnknownOrigin);
        }
        if unit.origin == current.rank {
            return Err(Ignored::Returned);
        }
        let before = current.streams[usize::from(unit.origin)].have;
        match current.change(unit.origin, |stream| stream.insert(unit.clone(), weight_max)) {
            Inserted::New => Ok(before),
            Inserted::Duplicate => Err(Ignored::Duplicate),
            Inserted::Beyond => Err(Ignored::BeyondWindow),
        }
    }

    pub(super) fn is_ring(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.view.shape == Shape::Ring)
    }

    /// Queues a unit for the successors to which this member forwards it. On the ring, only units
    /// without gaps go on, in order.
    fn pass_on(&mut self, unit: &Unit, before: u64, after: u64) {
        let Some(current) = &mut self.current else { return };
        let sequences = match current.view.shape {
            Shape::Ring => before + 1..=after,
            _ => unit.sequence..=unit.sequence,
        };
        for sequence in sequences {
            let route = current.route(unit.origin, sequence).clone();
            if route.is_empty() {
                continue;
            }
            if unit.hops <= 1 {
                self.metrics.ignore(Ignored::HopsSpent);
                continue;
            }
            for index in route {
                let hop = &mut current.hops[usize::from(index)];
                if !hop.is_waiting {
                    hop.forward.push_back(Item::Unit(unit.origin, sequence));
                }
            }
        }
    }

    /// Handles units of an origin that have become complete: those after `before`, up to `after`.
    pub(super) fn on_complete_units(&mut self, origin: u16, before: u64, after: u64, cx: &mut Cx<'_>) {
        if before == after {
            return;
        }
        if self.config.order == Order::Total {
            let Some(current) = &mut self.current else { return };
            for sequence in before + 1..=after {
                let stamp = current.streams[usize::from(origin)].get(sequence).map_or(0, |unit| unit.stamp);
                current.clock = current.clock.max(stamp);
                current.pending.insert((stamp, origin, sequence));
            }
        } else {
            self.deliver_fifo(origin, cx);
        }
        if self.flush.is_none() {
            self.take(origin, cx);
        }
    }

    /// Delivers the complete units of an origin. During a view change, it stops at the limit that
    /// applies to all.
    pub(super) fn deliver_fifo(&mut self, origin: u16, cx: &mut Cx<'_>) {
        let index = usize::from(origin);
        let limit = self.flush.as_ref().map_or(u64::MAX, |flush| flush.limit_of(index));
        loop {
            let Some(current) = &mut self.current else { return };
            let stream = &mut current.streams[index];
            if stream.delivered >= stream.have.min(limit) {
                return;
            }
            stream.delivered += 1;
            let sequence = stream.delivered;
            self.hand_over(origin, sequence, cx);
        }
    }

    /// Delivers, in total order, the units that all members have. No unit that belongs before them
    /// can still arrive, because it travels ahead of the report that all members have these (see
    /// the documentation of the protocol).
    pub(super) fn deliver_ordered(&mut self, cx: &mut Cx<'_>) {
        if self.config.order != Order::Total || self.flush.is_some() {
            return;
        }
        loop {
            let Some(current) = &mut self.current else { return };
            let Some(&(stamp, origin, sequence)) = current.pending.first() else { return };
            if current.streams[usize::from(origin)].stable < sequence {
                return;
            }
            current.pending.remove(&(stamp, origin, sequence));
            current.streams[usize::from(origin)].delivered = sequence;
            self.hand_over(origin, sequence, cx);
            self.release(origin, cx);
        }
    }

    /// Adds a unit to its message, and delivers the message after the last unit.
    pub(super) fn hand_over(&mut self, origin: u16, sequence: u64, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let stream = &mut current.streams[usize::from(origin)];
        let Some(unit) = stream.get(sequence) else { return };
        let (first, last, bytes) = (unit.first, unit.last, unit.bytes.clone());
        if first {
            stream.partial = Some(Payload::default());
        }
        let fits = |partial: &Payload| partial.len() + bytes.len() <= self.config.message_bytes_max;
        let Some(mut payload) = stream.partial.take().filter(fits) else {
            return self.metrics.ignore(Ignored::Fragment);
        };
        payload.push(bytes);
        if !last {
            stream.partial = Some(payload);
            return;
        }
        stream.number += 1;
        self.metrics.delivered += 1;
        self.metrics.delivered_bytes += payload.len() as u64;
        let event = Event::Delivered {
            view: Some(current.view.id),
            origin: current.view.members[usize::from(origin)].clone(),
            rank: origin,
            number: stream.number,
            payload,
        };
        self.outlet.emit(event, cx);
    }
}

// ---- acknowledgements ----

impl Ring {
    /// Acknowledges the complete units of an origin, unless too many bytes wait for the
    /// application.
    pub(super) fn take(&mut self, origin: u16, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        if self.outlet.bytes > self.config.held_bytes {
            return;
        }
        let stream = &mut current.streams[usize::from(origin)];
        stream.taken = stream.have;
        self.advance(origin, cx);
    }

    /// Updates how far along the ring the units of an origin have reached.
    fn advance(&mut self, origin: u16, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let (rank, next, previous) = (current.rank, current.next(), current.previous());
        let stream = &mut current.streams[usize::from(origin)];
        if origin == rank {
            if next == rank {
                let alone = stream.taken;
                self.stable(origin, alone, cx);
            }
            return;
        }
        // The origin has all of its own units.
        let before = if previous == origin { u64::MAX } else { stream.reached_before };
        let reached = before.min(stream.taken);
        if reached <= stream.reached {
            return;
        }
        stream.reached = reached;
        current.note_news(origin);
        if next == origin {
            self.stable(origin, reached, cx);
        }
    }

    fn take_ack(&mut self, ack: Ack, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let Some(stream) = current.streams.get_mut(usize::from(ack.origin)) else {
            return self.metrics.ignore(Ignored::UnknownOrigin);
        };
        if ack.reached > stream.reached_before {
            stream.reached_before = ack.reached;
            self.advance(ack.origin, cx);
        }
        self.stable(ack.origin, ack.stable, cx);
    }

    /// Records that all members have the units of an origin up to `sequence`.
    fn stable(&mut self, origin: u16, sequence: u64, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let stream = &mut current.streams[usize::from(origin)];
        // All members cannot have more than this member has.
        let sequence = sequence.min(stream.have);
        if sequence <= stream.stable {
            return;
        }
        current.change(origin, |stream| stream.stable = sequence);
        let before_origin = (usize::from(origin) + current.len() - 1) % current.len();
        // The report ends at the predecessor of the origin, which started it.
        if usize::from(current.next()) != before_origin && current.len() > 1 {
            if self.config.order == Order::Total {
                if let Some(hop) = current.hops.first_mut().filter(|hop| !hop.is_waiting) {
                    hop.forward.push_back(Item::Stable(origin, sequence));
                }
            } else {
                current.note_news(origin);
            }
        }
        self.release(origin, cx);
    }

    /// Drops units that all members have and that were delivered here.
    pub(super) fn release(&mut self, origin: u16, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let is_own = origin == current.rank;
        let stream = &mut current.streams[usize::from(origin)];
        let until = stream.stable.min(stream.delivered);
        let weight = stream.release(until);
        if is_own && weight > 0 {
            let goal = self.lap_goal;
            self.flow.stable(until, weight, cx.now(), goal);
        }
    }

    /// Takes the acknowledgements that the successor does not know yet.
    pub(super) fn take_news(&mut self) -> Vec<Ack> {
        let total = self.config.order == Order::Total;
        let Some(current) = &mut self.current else { return Vec::new() };
        let origins = std::mem::take(&mut current.news);
        let acks = origins.into_iter().map(|origin| {
            let stream = &mut current.streams[usize::from(origin)];
            stream.is_news = false;
            // In total order, reports of stable units wait in the queue behind the units that they
            // must not overtake.
            Ack { origin, reached: stream.reached, stable: if total { 0 } else { stream.stable } }
        });
        acks.collect()
    }

    /// Returns true if updates without a data frame to carry them have waited long enough.
    /// Otherwise sets the timer.
    pub(super) fn is_ack_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let now = cx.now();
        match self.ack_at {
            Some(at) if at <= now => true,
            Some(_) => false,
            None if self.config.ack_delay.is_zero() => true,
            None => {
                let at = now + self.config.ack_delay;
                self.ack_at = Some(at);
                self.start_timer(at, ACK, cx);
                false
            }
        }
    }

    /// Updates the time within which all members should be known to have a unit: for each of two
    /// laps, half a round trip and an acknowledgement delay for each member, plus slack.
    pub(super) fn update_lap_goal(&mut self) {
        let Some(current) = &self.current else { return };
        let trips = current.peers.iter().flatten().filter_map(|peer| self.peers.get(*peer));
        let total: Duration = trips.map(|peer| peer.round_trip.least()).sum();
        let members = current.len() as u32;
        let window = &self.config.window;
        // One frame in and one frame out. If the link is slow, or its rate is unknown, the upper
        // bound applies. In total order, reports wait in the queue behind units, so a lap takes
        // longer than its frames.
        let frames = 2.0 * self.config.batch_bytes as f64;
        let rate = current.hops.first().map_or(0.0, |hop| hop.rate);
        let per_member = match self.config.order {
            Order::Fifo => {
                Duration::from_secs_f64((frames / rate.max(1.0)).min(1.0)).min(window.slack_per_member)
            }
            Order::Total => window.slack_per_member,
        };
        // The mean over the other members, times as many hops as there are members, is the sum over
        // all of them.
        self.lap_goal = total + 2 * members * self.config.ack_delay + window.slack + members * per_member;
    }

    pub(super) fn on_credit(&mut self, peer: PeerId, view: ViewId, bytes: u64) {
        let Some(current) = self.current.as_mut().filter(|current| current.view.id == view) else {
            return self.metrics.ignore(Ignored::StaleView);
        };
        if let Some(hop) = current.hop_to(peer) {
            hop.credit(bytes);
        }
    }

    pub(super) fn on_ack_timer(&mut self, now: Time) {
        // `is_ack_due` sees that the time has passed.
        if self.ack_at.is_some_and(|at| at <= now) && self.current.as_ref().is_none_or(|c| c.news.is_empty())
        {
            self.ack_at = None;
        }
    }

    /// Sends a frame to a peer on the control lane.
    pub(super) fn send(&mut self, peer: PeerId, frame: RingFrame, cx: &mut Cx<'_>) {
        self.owe(peer, Config::CONTROL, frame, cx);
    }
}

// ---- deliveries to the application ----

#[derive(Debug, Default)]
pub(super) struct Outlet {
    pub(super) is_paused: bool,
    waiting: VecDeque<Event>,
    /// Weight of waiting messages.
    pub(super) bytes: u64,
}

impl Outlet {
    /// Passes on an event whose order among others matters: deliveries, views, and leaving.
    pub(super) fn emit(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.is_paused {
            if let Event::Delivered { payload, .. } = &event {
                self.bytes += payload.len() as u64 + UNIT_OVERHEAD;
            }
            self.waiting.push_back(event);
        } else {
            cx.emit(event);
        }
    }

    pub(super) fn unpause(&mut self, cx: &mut Cx<'_>) {
        self.is_paused = false;
        self.bytes = 0;
        self.waiting.drain(..).for_each(|event| cx.emit(event));
    }
}
