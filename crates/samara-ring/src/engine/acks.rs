//! Who has what: the lap that makes units stable.
//!
//! Along the ring, from the successor of an origin, each member passes on up to where it *and all before it* have the origin's
//! units. What the origin's predecessor knows so, all members have: it is stable. That news goes round once more. Both travel with
//! the data, and count together for many units.

use std::time::Duration;

use samara_engine::{PeerId, Time};

use super::current::Item;
use super::metrics::Ignored;
use super::{ACK, Cx, Ring};
use crate::wire::Ack;
use crate::{Order, RingFrame};

impl Ring {
    /// This member answers for what is complete of an origin, unless too much waits for the application.
    pub(super) fn take(&mut self, origin: u16, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        if self.outlet.bytes() > self.config.held_bytes {
            return;
        }
        let stream = &mut current.streams[usize::from(origin)];
        stream.taken = stream.have;
        self.advance(origin, cx);
    }

    /// Works out anew how far the units of an origin have reached.
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
        // The origin itself has all of its units.
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

    pub(super) fn take_ack(&mut self, ack: Ack, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let Some(stream) = current.streams.get_mut(usize::from(ack.origin)) else {
            self.metrics.ignore(Ignored::UnknownOrigin);
            return;
        };
        if ack.reached > stream.reached_before {
            stream.reached_before = ack.reached;
            self.advance(ack.origin, cx);
        }
        self.stable(ack.origin, ack.stable, cx);
    }

    /// All members have the units of an origin up to this one.
    fn stable(&mut self, origin: u16, sequence: u64, cx: &mut Cx<'_>) {
        let Some(current) = &mut self.current else { return };
        let stream = &mut current.streams[usize::from(origin)];
        // Nobody can know of more than is here.
        let sequence = sequence.min(stream.have);
        if sequence <= stream.stable {
            return;
        }
        current.change(origin, |stream| stream.stable = sequence);
        let before_origin = (usize::from(origin) + current.len() - 1) % current.len();
        // The predecessor of the origin has told it to everybody.
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

    /// Lets go of what all have and was delivered here.
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

    /// What the successor does not know yet.
    pub(super) fn take_news(&mut self) -> Vec<Ack> {
        let total = self.config.order == Order::Total;
        let Some(current) = &mut self.current else { return Vec::new() };
        let origins = std::mem::take(&mut current.news);
        let acks = origins.into_iter().map(|origin| {
            let stream = &mut current.streams[usize::from(origin)];
            stream.is_news = false;
            // In total order, what is stable waits in line behind the units that it must not overtake.
            Ack { origin, reached: stream.reached, stable: if total { 0 } else { stream.stable } }
        });
        acks.collect()
    }

    /// Whether news that no frame of data takes along has waited long enough; if not, sets the timer.
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

    /// So long a unit may need until it is known to be everywhere: two laps of half a round trip and an acknowledgement for each
    /// member, and some slack.
    pub(super) fn work_out_lap_goal(&mut self) {
        let Some(current) = &self.current else { return };
        let trips = current.peers.iter().flatten().filter_map(|peer| self.peers.get(*peer));
        let total: Duration = trips.map(|peer| peer.round_trip.least()).sum();
        let members = current.len() as u32;
        let window = &self.config.window;
        // A frame that comes in and one that goes out; where links are slow or nothing is known of them yet, the most that is allowed.
        // In total order news waits in line behind units, so that a lap takes longer than its frames.
        let frames = 2.0 * self.config.batch_bytes as f64;
        let rate = current.hops.first().map_or(0.0, |hop| hop.rate);
        let per_member = match self.config.order {
            Order::Fifo => {
                Duration::from_secs_f64((frames / rate.max(1.0)).min(1.0)).min(window.slack_per_member)
            }
            Order::Total => window.slack_per_member,
        };
        // The mean over the others, times as many hops as there are members, is the sum over all of them.
        self.lap_goal = total + 2 * members * self.config.ack_delay + window.slack + members * per_member;
    }

    pub(super) fn on_credit(&mut self, peer: PeerId, view: crate::ViewId, bytes: u64) {
        let Some(current) = self.current.as_mut().filter(|current| current.view.id == view) else {
            self.metrics.ignore(Ignored::StaleView);
            return;
        };
        if let Some(hop) = current.hop_to(peer) {
            hop.arrived = hop.arrived.max(bytes.min(hop.sent));
        }
    }

    pub(super) fn on_ack_timer(&mut self, now: Time) {
        // It is due now: the next look at what is to be sent sees that.
        if self.ack_at.is_some_and(|at| at <= now) && self.current.as_ref().is_none_or(|c| c.news.is_empty())
        {
            self.ack_at = None;
        }
    }

    /// Sends a frame to a peer on the control lane.
    pub(super) fn send(&mut self, peer: PeerId, frame: RingFrame, cx: &mut Cx<'_>) {
        self.owe(peer, crate::Config::CONTROL, frame, cx);
    }
}
