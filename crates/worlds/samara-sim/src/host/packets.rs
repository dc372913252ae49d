//! Incoming packets, outgoing packets, and the timers of transports.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Weight};
use samara_engine::{Frame, Input, PeerId};

use super::queue::{Departing, Queueing};
use super::{Host, TimerKind};
use crate::explain::{Carried, Cause, Leaving};
use crate::fq_codel::{Queued, hash_of};
use crate::link::LinkState;
use crate::packet::{Body, Heading, Packet};
use crate::transport::tcp::timestamp;
use crate::transport::{Ack, AckNeed, Around, Control, EndTimer, Offer, Outgoing, Taken};
use crate::world::World;

impl<F: Frame> Host<F> {
    /// Handles a packet that the downlink has received.
    pub(super) fn receive(&mut self, now: u64, packet: Packet<F>, world: &World<F>) {
        self.digest.word(now);
        self.digest.word(u64::from(packet.src) << 32 | u64::from(packet.order));
        if !self.running {
            self.stats.drops.stale.add(packet.body.packets(), packet.len);
            self.turn_away(now, packet.src, packet.epoch, &packet.body, world);
            return;
        }
        self.stats.received.add(packet.body.packets(), packet.len);
        let Packet { src, order, arrive, slot, epoch, len, ack, stamp, echo, window, sack, body, .. } =
            packet;
        self.explained.note(|record| record.receives(Some((order, arrive))));
        if let Body::Hello { step, slot: peer_slot } = body {
            self.hello(now, src, epoch, step, peer_slot, world);
            return;
        }
        if let Body::Refuse { epoch } = body {
            self.refused(now, src, slot, epoch, world);
            return;
        }
        let current =
            self.links.get(slot as usize).is_some_and(|link| link.epoch == epoch && link.peer == src);
        if current && matches!(self.links[slot as usize].state, LinkState::Answering(_)) {
            // The last step of the handshake was lost; data proves that the dialler has finished.
            self.bring_up(now, slot, world);
        }
        if !current || self.links[slot as usize].state != LinkState::Up {
            self.stats.drops.stale.add(body.packets(), len);
            return;
        }
        self.acknowledged(now, slot, &Ack { ack, echo, window, sack }, world);
        match body {
            Body::Data { .. } | Body::Stream { .. } => self.take_data(now, slot, stamp, body, world),
            Body::Close => self.take_down(now, slot, world),
            Body::Ack | Body::Hello { .. } | Body::Refuse { .. } => {}
        }
    }

    fn take_data(&mut self, now: u64, slot: u32, stamp: u32, body: Body<Carried<F>>, world: &World<F>) {
        let mut delivered = std::mem::take(&mut self.delivered);
        let (transport, counts) = (&world.config.transport, &mut self.counts);
        let mut around = Around { now, transport, counts, delivered: &mut delivered };
        let taken = self.links[slot as usize].end.take(stamp, body, &mut around);
        self.pass_on(now, slot, taken, delivered, world);
    }

    /// Handles the expired timer of an end.
    pub(super) fn end_timer(&mut self, now: u64, slot: u32, timer: EndTimer, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        if link.state != LinkState::Up {
            return;
        }
        let mut delivered = std::mem::take(&mut self.delivered);
        let (transport, counts) = (&world.config.transport, &mut self.counts);
        let mut around = Around { now, transport, counts, delivered: &mut delivered };
        match link.end.fired(timer, &mut around) {
            Some(taken) if !taken.is_overdue => self.pass_on(now, slot, taken, delivered, world),
            taken => {
                self.delivered = delivered;
                if taken.is_some() {
                    self.close(now, slot, world);
                }
            }
        }
    }

    /// Carries out what an end asks for, and delivers the frames that it has read.
    fn pass_on(&mut self, now: u64, slot: u32, taken: Taken, delivered: Vec<Carried<F>>, world: &World<F>) {
        self.stats.frames_lost += u64::from(taken.lost);
        if taken.was_held {
            self.explained.note(|record| record.receives(None));
        }
        self.acknowledge_later(now, slot, taken.ack, world);
        if taken.window_opened {
            self.links[slot as usize].ack_is_due(world.config.transport.control.separate_acks());
        }
        self.set_end_timers(now, slot);
        self.deliver_all(now, slot, delivered, world);
        if taken.wants_turn {
            self.offer(now, slot, Offer::Copies, world);
        }
    }

    pub(super) fn acknowledge_later(&mut self, now: u64, slot: u32, need: AckNeed, world: &World<F>) {
        let control = &world.config.transport.control;
        let link = &mut self.links[slot as usize];
        match need {
            AckNeed::None => {}
            AckNeed::Now => link.ack_is_due(control.separate_acks()),
            AckNeed::Later => {
                if link.ack_by == 0 {
                    link.ack_by = now + control.ack_delay();
                    if !link.ack_timer {
                        link.ack_timer = true;
                        let at = link.ack_by;
                        self.set_timer(at, TimerKind::DelayedAck(slot));
                    }
                }
            }
        }
    }

    /// Delivers frames of a link in order, and keeps the empty buffer.
    pub(super) fn deliver_all(
        &mut self,
        now: u64,
        slot: u32,
        mut delivered: Vec<Carried<F>>,
        world: &World<F>,
    ) {
        self.refresh(now, slot, world);
        let epoch = self.links[slot as usize].epoch;
        for Carried { frame, trace } in delivered.drain(..) {
            // Handling a frame can close the link; the frames behind it are then lost.
            let link = &self.links[slot as usize];
            if link.state == LinkState::Up && link.epoch == epoch {
                self.stats.frames_received.add(&frame);
                if let Some(trace) = trace {
                    let beyond = if world.gateways_between(link.peer, self.id) {
                        Cause::Gateway
                    } else {
                        Cause::Latency
                    };
                    let latency = world.latency(link.peer, self.id);
                    let from = (slot, link.peer);
                    self.explained.note(|record| record.arrived(now, from, &trace, (latency, beyond)));
                }
                self.input(now, Input::Frame { peer: PeerId(slot), frame }, world);
            }
        }
        self.delivered = delivered;
    }

    fn acknowledged(&mut self, now: u64, slot: u32, ack: &Ack, world: &World<F>) {
        let transport = &world.config.transport;
        let end = &mut self.links[slot as usize].end;
        let srtt = end.srtt();
        let arrived = end.flow().arrived;
        let is_news = end.take_ack(ack, now, transport);
        // An old acknowledgement, overtaken on its way, may say that the window is closed: its
        // probes have a timer.
        self.set_end_timers(now, slot);
        if !is_news {
            return;
        }
        self.note_acknowledged(now, slot, arrived, transport);
        let end = &self.links[slot as usize].end;
        if end.srtt() != srtt {
            let seconds = end.srtt() as f64 / 1e9;
            let bytes_per_second = end.cwnd() * f64::from(transport.mss) / seconds;
            self.node.set_round_trip(PeerId(slot), Duration::from_nanos(end.srtt()));
            self.node.set_weight(PeerId(slot), Weight::Bandwidth, bytes_per_second);
        }
        self.outbox_dry = false;
        match self.dispatch {
            Dispatch::PerLink => {
                self.offer(now, slot, Offer::Room, world);
                self.offer_room(now, false, world);
            }
            Dispatch::Node => self.refresh(now, slot, world),
        }
        self.start_loss_timer(slot);
    }

    /// Starts the loss timer if none is running, or if the running one is too late: an overtaken packet
    /// is lost soon, while the running timer waits for a probe. One that fires too soon is set again.
    fn start_loss_timer(&mut self, slot: u32) {
        let link = &mut self.links[slot as usize];
        if link.end.timer_at() < link.loss_timer {
            self.set_loss_timer(slot);
        }
    }

    fn set_loss_timer(&mut self, slot: u32) {
        let link = &mut self.links[slot as usize];
        link.loss_timer = link.end.timer_at();
        let at = link.loss_timer;
        self.set_timer(at, TimerKind::Loss(slot));
    }

    pub(super) fn loss_timer(&mut self, now: u64, slot: u32, world: &World<F>) {
        let transport = &world.config.transport;
        let link = &mut self.links[slot as usize];
        if now < link.loss_timer {
            // An earlier timer has fired already.
            return;
        }
        link.loss_timer = u64::MAX;
        if link.state != LinkState::Up || link.end.timer_at() == u64::MAX {
            return;
        }
        let held = link.end.is_held();
        let expired = link.end.timer_at() <= now && link.end.timer_expired(now, transport);
        if held && !link.end.is_held() {
            // The link has room again.
            self.outbox_dry = false;
        }
        self.note_load(now, slot);
        let link = &self.links[slot as usize];
        if expired {
            self.stats.timeouts += 1;
            if link.end.stalled_for(now) > transport.dead_peer_timeout.as_nanos() as u64 {
                self.take_down(now, slot, world);
                return;
            }
        }
        let link = &self.links[slot as usize];
        if link.end.timer_at() != u64::MAX {
            self.set_loss_timer(slot);
        }
        self.refresh(now, slot, world);
    }

    pub(super) fn delayed_ack_timer(&mut self, now: u64, slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        link.ack_timer = false;
        if link.state != LinkState::Up || link.ack_by == 0 {
            return;
        }
        if link.ack_by > now {
            // The acknowledgement of this timer was carried by data; a later one waits.
            link.ack_timer = true;
            let at = link.ack_by;
            self.set_timer(at, TimerKind::DelayedAck(slot));
        } else {
            link.ack_by = 0;
            link.ack_is_due(world.config.transport.control.separate_acks());
            self.refresh(now, slot, world);
        }
    }

    /// Transmits on a link whose turn it is: its next segment, or its acknowledgement if there is
    /// none.
    pub(super) fn transmit(&mut self, now: u64, slot: u32, world: &World<F>) {
        let transport = &world.config.transport;
        let is_shared = self.nic.shares() || self.fair_uplink.is_some();
        let link = &mut self.links[slot as usize];
        if link.state != LinkState::Up {
            return;
        }
        let burst_max =
            if is_shared { 1 } else { link.end.burst_max(self.uplink_nanos_per_byte, &world.config) };
        let own_turn = link.acks_due > 0 && transport.control.separate_acks();
        let rank = if self.explained.is_on() { link.end.next_rank() } else { 0 };
        let outgoing = if own_turn { None } else { link.end.pop(now, burst_max, transport) };
        let (body, payload, stamp, makes_room) = match outgoing {
            Some(Outgoing { body, len, again, stamp, frees }) => {
                self.explained.note(|record| record.leaves(Leaving { rank, again, complete: body.traces() }));
                if again {
                    self.stats.retransmitted.add(1, len + transport.header);
                }
                let makes_room = match transport.control {
                    Control::Tcp(_) => {
                        self.dispatch == Dispatch::PerLink && link.end.has_room_again(transport)
                    }
                    Control::Ideal | Control::Datagram => frees,
                    Control::Quic(_) => !again && self.dispatch == Dispatch::PerLink,
                };
                (body, len, stamp, makes_room)
            }
            None if link.acks_due > 0 => (Body::Ack, 0, timestamp(now), false),
            None => return,
        };
        self.note_load(now, slot);
        self.transmit_packet(now, slot, (payload, stamp), body, world);
        if makes_room {
            self.outbox_dry = false;
            if self.dispatch == Dispatch::PerLink {
                self.offer(now, slot, Offer::Room, world);
                self.offer_room(now, false, world);
            }
        }
        self.start_loss_timer(slot);
    }

    /// Puts a packet on the uplink or into its queue, with its payload bytes and its stamp.
    pub(super) fn transmit_packet(
        &mut self,
        now: u64,
        slot: u32,
        (payload, stamp): (u32, u32),
        body: Body<Carried<F>>,
        world: &World<F>,
    ) {
        let len = payload + body.packets() * world.config.transport.header;
        let link = &mut self.links[slot as usize];
        let Ack { ack, echo, window, sack } = link.end.acknowledge(now, &world.config.transport);
        link.acks_due = if world.config.transport.control.separate_acks() {
            link.acks_due.saturating_sub(u32::from(matches!(body, Body::Ack)))
        } else {
            0
        };
        link.ack_by = 0;
        let packet = Packet {
            arrive: now,
            src: self.id,
            heading: Heading::to(link.peer),
            order: 0,
            slot: link.peer_slot,
            epoch: link.epoch,
            len,
            ack,
            stamp,
            echo,
            window,
            sack,
            body,
        };
        if let Some(line) = &mut self.fair_uplink {
            let hash = hash_of(world.config.seed, self.id, link.peer);
            let leaving = self.explained.note(|record| record.enqueue(now, slot)).flatten();
            let departing = Departing { packet, slot, leaving };
            if line.has_room(departing.len()) || departing.is_kept() {
                line.push(now, hash, Queueing::Own(departing));
                return;
            }
            self.stats.drops.uplink_full.add(departing.packets(), departing.len());
            self.lose(now, departing);
            return;
        }
        let nanos = (f64::from(len) * self.uplink_nanos_per_byte) as u64;
        let start = self.uplink_free_at.max(now);
        self.uplink_free_at = start + nanos;
        self.stats.uplink_busy_nanos += nanos;
        self.depart(now, slot, packet, (start, start + nanos), world);
    }

    /// Sends a packet that occupies the uplink from `start` to `end` into the network.
    pub(super) fn depart(
        &mut self,
        now: u64,
        slot: u32,
        mut packet: Packet<F>,
        (start, end): (u64, u64),
        world: &World<F>,
    ) {
        let (packets, len) = (packet.body.packets(), packet.len);
        self.stats.sent.add(packets, len);
        packet.order = self.packets_sent;
        self.packets_sent = self.packets_sent.wrapping_add(1);

        let network = &world.config.network;
        let link = &mut self.links[slot as usize];
        let (heading, way) = world.way(self.id, link.peer, link.latency);
        packet.heading = heading;
        packet.arrive = end + way;
        if !network.jitter.is_zero() {
            packet.arrive += (self.network_rng.unit() * network.jitter.as_nanos() as f64) as u64;
            packet.arrive = packet.arrive.max(link.last_arrival);
            link.last_arrival = packet.arrive;
        }
        let is_partitioned = now < link.cut_until || world.partitioned(now, self.id, link.peer);
        // TCP repeats a closing segment until it arrives, and QUIC repeats its close in answer to
        // later packets (RFC 9000 section 10.2). The model therefore never loses it. A datagram is
        // not repeated: without it, the peer waits in vain until its timeout.
        let is_close = matches!(packet.body, Body::Close);
        let is_datagram = world.config.transport.control == Control::Datagram;
        let loss = network.loss_between(&world.hosts, self.id, link.peer);
        let lossy = loss > 0.0 && (!is_close || is_datagram);
        let is_lost = !is_partitioned && lossy && self.network_rng.chance(loss);
        let is_gone = is_partitioned || is_lost;
        self.explained.note(|record| record.sent(slot, packet.order, (start, end), is_gone));
        if is_partitioned {
            self.stats.drops.partition.add(packets, len);
            return;
        }
        if is_lost {
            if !is_close {
                self.stats.drops.random.add(packets, len);
                return;
            }
            // It stands for the timeout of the peer, and counts as received then.
            packet.arrive += world.config.transport.dead_peer_timeout.as_nanos() as u64;
        }
        self.outgoing.push(packet);
    }
}
