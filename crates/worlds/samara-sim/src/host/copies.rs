//! Copies on their way from the outbox to the links of a host.

use samara_engine::outbox::{Dispatch, Lane, Outgoing, Room};
use samara_engine::uplink::Limit;
use samara_engine::{Frame, PeerId, Time};

use super::{Host, TimerKind};
use crate::config::{NicDiscipline, SimConfig};
use crate::explain::{Carried, Cause, Explained};
use crate::link::{Link, LinkState, NicState};
use crate::node::Node;
use crate::stats::HostStats;
use crate::transport::{
    Around, Connection, Control, Copies, EndTimer, FRAME_BYTES_MAX, Offer, Transport, Which, Writers,
};
use crate::world::World;

impl<F: Frame> Host<F> {
    /// Lets links with new copies take them, or the uplink search for the next one, until nothing
    /// changes (a copy that leaves can release one for another link).
    ///
    /// `requested` is true if an application has requested the copies.
    pub(super) fn offer_room(&mut self, now: u64, requested: bool, world: &World<F>) {
        let in_turn = world.config.transport.writers == Writers::InTurn && !requested;
        let offers: &[Offer] = if in_turn { &[Offer::Copies] } else { &[Offer::Urgent, Offer::Copies] };
        loop {
            let mut touched = std::mem::take(&mut self.touched);
            self.node.take_touched(&mut touched);
            if touched.is_empty() {
                self.touched = touched;
                break;
            }
            self.outbox_dry = false;
            if self.explained.is_on() && self.dispatch == Dispatch::Node {
                for peer in &touched {
                    if !self.links[peer.index()].data_ready {
                        self.note_hold(now, peer.0, world);
                    }
                }
            }
            if self.dispatch == Dispatch::PerLink {
                for offer in offers {
                    for peer in &touched {
                        self.offer(now, peer.0, *offer, world);
                    }
                }
            }
            touched.clear();
            self.touched = touched;
        }
        if let Some(wake) = self.node.next_wake() {
            let wake = wake.as_nanos().max(now);
            if wake < self.outbox_wake_at {
                self.outbox_wake_at = wake;
                self.set_timer(wake, TimerKind::OutboxWake);
            }
        }
    }

    /// Offers the copies of the outbox to a link.
    pub(super) fn offer(&mut self, now: u64, slot: u32, offer: Offer, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        if link.state == LinkState::Up {
            let (transport, counts) = (&world.config.transport, &mut self.counts);
            let mut around = Around { now, transport, counts, delivered: &mut self.delivered };
            let mut copies = LinkCopies {
                node: &mut *self.node,
                peer: PeerId(slot),
                now,
                stats: &mut self.stats,
                explained: &mut self.explained,
            };
            if !link.end.offer(offer, &mut copies, &mut around) {
                return;
            }
            self.set_end_timers(now, slot);
        }
        self.refresh(now, slot, world);
    }

    /// Sets the timers of an end that are due before those that run.
    pub(super) fn set_end_timers(&mut self, now: u64, slot: u32) {
        for timer in EndTimer::ALL {
            if let Some(at) = self.links[slot as usize].end.due(timer, now) {
                self.set_timer(at, TimerKind::End(timer, slot));
            }
        }
    }

    /// Writes a copy to its link, which has room for it.
    fn write(&mut self, now: u64, copy: Outgoing<F>, world: &World<F>) {
        self.counts.writes += 1;
        let (rank, slot) = (self.counts.writes, copy.peer.index());
        let (frame, len) = carry(&mut self.stats, &mut self.explained, now, copy, rank);
        self.links[slot].end.write(frame, len, rank, &world.config.transport);
        self.note_load(now, slot as u32);
    }

    /// Updates the interface when a link may have something to send.
    pub(super) fn refresh(&mut self, now: u64, slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        let data = link.state == LinkState::Up && link.end.can_send();
        if data != link.data_ready {
            link.data_ready = data;
            if data { self.links_with_data += 1 } else { self.links_with_data -= 1 }
        }
        if !data && self.explained.is_on() {
            self.note_hold(now, slot, world);
        }
        let link = &mut self.links[slot as usize];
        if link.state == LinkState::Up && (data || link.acks_due > 0) {
            let rank = if link.acks_due > 0 { 0 } else { link.end.next_rank() };
            self.nic.wait(slot, &mut link.nic, rank);
        }
    }

    /// Records why a link without data that can leave does not send.
    pub(super) fn note_hold(&mut self, now: u64, slot: u32, world: &World<F>) {
        let (Link { state, end, .. }, transport) = (&self.links[slot as usize], &world.config.transport);
        if *state != LinkState::Up {
            return;
        }
        let takes_more = || match self.dispatch {
            Dispatch::Node => end.room(transport).is_some(),
            Dispatch::PerLink => end.has_buffer(transport),
        };
        let cause = match end.held(now) {
            Some(cause) => cause,
            // Nobody waits for the link.
            None if self.node.pending_to(PeerId(slot)) == 0 || takes_more() => Cause::Timer,
            None => end.window_cause(),
        };
        self.explained.note(|record| record.hold(now, slot, cause));
    }

    /// Sends the next packet on the free uplink. With queues behind them, packets leave their links at once.
    pub(super) fn send_next(&mut self, now: u64, world: &World<F>) {
        if self.fair_uplink.is_some() && !self.has_turn() {
            self.leave(now, world);
            return;
        }
        if self.dispatch == Dispatch::Node && !self.outbox_dry && self.links_with_data == 0 {
            self.pull_from_outbox(now, world);
            self.offer_room(now, false, world);
        }
        let links = &self.links;
        let Some(slot) = self.nic.next(|slot| links[slot as usize].nic) else { return };
        self.links[slot as usize].nic = NicState::Idle;
        self.transmit(now, slot, world);
        self.refresh(now, slot, world);
    }

    /// Tells the limit what a link has under way.
    pub(super) fn note_load(&mut self, now: u64, slot: u32) {
        if let Some(limit) = &mut self.limit {
            limit.set_load(Time::from_nanos(now), PeerId(slot), self.links[slot as usize].end.flow().load);
        }
    }

    /// Tells the limit about an acknowledgement on a link on which so many bytes had arrived before.
    pub(super) fn note_acknowledged(&mut self, now: u64, slot: u32, before: u64, transport: &Transport) {
        let Some(limit) = &mut self.limit else { return };
        let report = self.links[slot as usize].end.flow().report(before, transport);
        limit.report(Time::from_nanos(now), PeerId(slot), report);
    }

    /// Passes urgent copies to all links with room, as far as the limit lets them.
    fn pull_urgent(&mut self, now: u64, world: &World<F>) {
        while self.limit.as_ref().is_some_and(|limit| limit.urgent_room() > 0) {
            let copy = self.node.pop_urgent(Time::from_nanos(now), &room_of_links(&self.links, world));
            let Some(copy) = copy else { return };
            let slot = copy.peer.0;
            self.write(now, copy, world);
            self.refresh(now, slot, world);
        }
    }

    /// Passes the best copy over all links with room to its link: just in time, so that it can be
    /// withdrawn until then.
    fn pull_from_outbox(&mut self, now: u64, world: &World<F>) {
        while self.links_with_data == 0 {
            let is_full = self.limit.as_mut().is_some_and(|limit| limit.room(Time::from_nanos(now)) == 0);
            self.explained.note(|record| record.limit_has_room(now, !is_full));
            if is_full {
                if let Some(at) = self.limit.as_ref().and_then(|limit| limit.next_at()) {
                    let at = at.as_nanos();
                    if at < self.room_at {
                        self.room_at = at;
                        self.set_timer(at, TimerKind::Room);
                    }
                }
                self.pull_urgent(now, world);
                self.outbox_dry = true;
                return;
            }
            let copy = self.node.pop(Time::from_nanos(now), &room_of_links(&self.links, world));
            match copy {
                Some(copy) => {
                    let slot = copy.peer.0;
                    self.write(now, copy, world);
                    self.refresh(now, slot, world);
                }
                None => {
                    self.outbox_dry = true;
                    return;
                }
            }
        }
    }
}

/// Returns the room of each of these links.
fn room_of_links<F: Frame>(links: &[Link<F>], world: &World<F>) -> impl Fn(PeerId) -> Room {
    |peer| {
        let link = &links[peer.index()];
        if link.state == LinkState::Up { link.end.room(&world.config.transport) } else { Room::NONE }
    }
}

/// Returns the limit of a node with one order over all links, where the queue before its uplink is
/// out of its sight. It needs acknowledgements.
pub(super) fn limit_of(dispatch: Dispatch, config: &SimConfig) -> Option<Box<Limit>> {
    let SimConfig { transport, nic, .. } = config;
    let is_behind = matches!(nic, NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_));
    let is_acknowledged = matches!(transport.control, Control::Tcp(_) | Control::Quic(_));
    let is_direct = matches!(transport.connection, Connection::Direct);
    let is_limited = is_behind && is_acknowledged && is_direct && dispatch == Dispatch::Node;
    transport.limit.filter(|_| is_limited).map(|config| Box::new(Limit::new(config)))
}

/// The copies for a link in the outbox of its host.
struct LinkCopies<'a, F: Frame> {
    node: &'a mut dyn Node<F>,
    peer: PeerId,
    now: u64,
    stats: &'a mut HostStats,
    explained: &'a mut Explained<F>,
}

impl<F: Frame> Copies<Carried<F>> for LinkCopies<'_, F> {
    fn is_empty(&self) -> bool {
        self.node.pending_to(self.peer) == 0
    }

    fn has_any(&self, lanes: &[Lane]) -> bool {
        lanes.iter().any(|lane| self.node.pending_on(self.peer, *lane) > 0)
    }

    fn next(&mut self, which: Which<'_>, rank: u64) -> Option<(Carried<F>, u32)> {
        let (now, peer) = (Time::from_nanos(self.now), self.peer);
        let copy = match which {
            Which::Next => self.node.pop_for(now, peer),
            Which::Urgent => self.node.pop_urgent_for(now, peer),
            Which::Lanes(lanes) => self.node.pop_lanes_for(now, peer, lanes),
        };
        copy.map(|copy| carry(self.stats, self.explained, self.now, copy, rank))
    }
}

/// Counts a copy that its link takes, and adds its record, if there are records. Returns it with its
/// encoded bytes. `rank` is its write rank; 0 where ranks do not belong to frames.
fn carry<F: Frame>(
    stats: &mut HostStats,
    explained: &mut Explained<F>,
    now: u64,
    copy: Outgoing<F>,
    rank: u64,
) -> (Carried<F>, u32) {
    let len = copy.len;
    assert!(
        len <= FRAME_BYTES_MAX,
        "a frame has {len} bytes; a simulation carries at most {FRAME_BYTES_MAX}"
    );
    stats.frames_sent.add(&copy.frame);
    let trace = explained.take(now, &copy, rank);
    (Carried { frame: copy.frame, trace }, len)
}
