//! Units that come: kept, passed on, delivered.

use std::sync::Arc;

use samara_engine::PeerId;

use super::current::Item;
use super::metrics::Ignored;
use super::stream::Inserted;
use super::{Cx, Event, Ring};
use crate::wire::{Data, UNIT_OVERHEAD, Unit};
use crate::{Order, Payload, RingFrame};
use samara_engine::Shape;

impl Ring {
    pub(super) fn on_data(&mut self, peer: PeerId, data: &Arc<Data>, cx: &mut Cx<'_>) {
        if self.current.as_ref().is_none_or(|current| current.view.id != data.view()) {
            self.keep_early_data(peer, data);
            return;
        }
        let Some(current) = &self.current else { return };
        if current.rank_of(peer).is_none() {
            self.metrics.ignore(Ignored::Stranger);
            return;
        }
        self.count_credit(peer, data, cx);
        let is_frozen = self.flush.is_some();
        for unit in data.units() {
            self.take_unit(peer, unit, cx);
        }
        if is_frozen {
            self.check_ready(cx);
        } else {
            data.acks().iter().for_each(|ack| self.take_ack(*ack, cx));
            self.deliver_ordered(cx);
        }
    }

    /// Data of a view that others have installed, and this member is about to: it waits.
    fn keep_early_data(&mut self, peer: PeerId, data: &Arc<Data>) {
        let proposed = self.flush.as_ref().map(|flush| flush.prepare.proposal);
        let ready = self.ready.as_ref().map(|ready| ready.prepare.proposal);
        if proposed != Some(data.view()) && ready != Some(data.view()) {
            self.metrics.ignore(Ignored::StaleView);
            return;
        }
        let len = data.weight();
        // Each predecessor stops when its window to here is full; this bound is for those that do not.
        if self.early_bytes + len > 4 * self.config.hop_window_bytes {
            self.metrics.ignore(Ignored::EarlyOverflow);
            return;
        }
        self.early_bytes += len;
        self.early.push((peer, data.clone()));
    }

    /// Tells a predecessor how much has come, whenever it is an eighth of the least that may be on the way.
    fn count_credit(&mut self, peer: PeerId, data: &Arc<Data>, cx: &mut Cx<'_>) {
        let len = data.weight();
        let step = self.config.hop_window(0) / 8;
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.credit.0 += len;
        let (came, told) = state.credit;
        if came - told >= step {
            state.credit.1 = came;
            self.send(peer, RingFrame::Credit { view: data.view(), bytes: came }, cx);
        }
    }

    /// The most that is kept of one origin: it may have sent a window more since it learned what others let go of.
    pub(super) fn weight_max(&self, members: usize) -> u64 {
        2 * (self.config.window_max(members) + self.config.chunk_bytes as u64 + UNIT_OVERHEAD)
    }

    fn take_unit(&mut self, peer: PeerId, unit: &Unit, cx: &mut Cx<'_>) {
        self.metrics.received_units += 1;
        let Some(current) = &mut self.current else { return };
        if usize::from(unit.origin) >= current.len() {
            self.metrics.ignore(Ignored::UnknownOrigin);
            return;
        }
        if unit.origin == current.rank {
            self.metrics.ignore(Ignored::Returned);
            return;
        }
        let members = current.len();
        let weight_max = self.weight_max(members);
        let Some(current) = &mut self.current else { return };
        let before = current.streams[usize::from(unit.origin)].have;
        match current.change(unit.origin, |stream| stream.insert(unit.clone(), weight_max)) {
            Inserted::New => {}
            Inserted::Duplicate => return self.metrics.ignore(Ignored::Duplicate),
            Inserted::Beyond => return self.metrics.ignore(Ignored::BeyondWindow),
        }
        let stream = &current.streams[usize::from(unit.origin)];
        let after = stream.have;
        let has_gap = stream.has_gap();
        if self.flush.is_none() {
            self.pass_on(unit, before, after);
            if has_gap && self.is_ring() {
                self.ask_to_resume(peer, cx);
            }
        }
        self.came(unit.origin, before, after, cx);
    }

    pub(super) fn is_ring(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.view.shape == Shape::Ring)
    }

    /// Lines a unit up for those that this member passes it on to. On the ring only what is complete goes on, in order.
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

    /// Units from `before` to `after` of an origin are complete now.
    pub(super) fn came(&mut self, origin: u16, before: u64, after: u64, cx: &mut Cx<'_>) {
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

    /// Delivers what is complete of an origin; during a view change no further than all will.
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

    /// Delivers in total order what all members have: nothing that belongs before it can come any more, because it travels
    /// ahead of the news that all have this one (see the documentation of the protocol).
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

    /// Puts a unit's message together, and delivers it if it is the last one.
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
            self.metrics.ignore(Ignored::Fragment);
            return;
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
