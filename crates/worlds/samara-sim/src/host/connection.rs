//! Links that come up and go down.

use std::time::Duration;

use samara_engine::{Frame, Input, PeerId, PeerInfo, Time};

use super::queue::Queueing;
use super::{Host, TimerKind};
use crate::explain::{Carried, Explained};
use crate::link::{Greeting, Link, LinkState, NicState};
use crate::packet::{Body, UNKNOWN_SLOT};
use crate::transport::Control;
use crate::world::{World, address_of, identity_of};

/// How often a host sends a step of a handshake before it gives up, as Linux does with a SYN by default
/// (`tcp_syn_retries`).
const TRIES: u32 = 6;
/// The wait for the answer to a step before a round trip is known (RFC 6298 section 2.1; RFC 9002
/// section 6.2.2 comes to 999 ms).
const FIRST_WAIT: u64 = 1_000_000_000;
/// The least of what a wait adds to a round trip: `TCP_RTO_MIN` of Linux, and `kGranularity` of RFC
/// 9002 section 6.1.2.
const MARGIN_TCP: u64 = 200_000_000;
const MARGIN_QUIC: u64 = 1_000_000;

/// Returns the wait for an answer once a first round trip is known: its variation counts as half of it
/// (RFC 6298 section 2.2, RFC 9002 section 5.3).
fn wait_after(trip: u64, is_udp: bool) -> u64 {
    trip + (2 * trip).max(if is_udp { MARGIN_QUIC } else { MARGIN_TCP })
}

fn is_udp(control: &Control) -> bool {
    matches!(control, Control::Quic(_) | Control::Datagram)
}

impl<F: Frame> Host<F> {
    /// Returns the slot of the link to a host. Creates the slot if there is none yet.
    pub(crate) fn slot(&mut self, peer: u32, world: &World<F>) -> u32 {
        let links = &mut self.links;
        *self.slot_of.entry(peer).or_insert_with(|| {
            let latency = world.latency(self.id, peer);
            links.push(Link::new(peer, latency, &world.config.transport));
            links.len() as u32 - 1
        })
    }

    pub(super) fn dial(&mut self, now: u64, peer: u32, world: &World<F>) {
        if !self.running {
            return;
        }
        let slot = self.slot(peer, world);
        let link = &mut self.links[slot as usize];
        let is_free = match link.state {
            LinkState::Down => true,
            // The host that dialled here is gone.
            LinkState::Answering(greeting) => now - greeting.since > FIRST_WAIT,
            LinkState::Dialling(_) | LinkState::Up => false,
        };
        if !is_free {
            return;
        }
        link.reset(link.epoch + 1, &world.config.transport);
        link.peer_slot = UNKNOWN_SLOT;
        link.outbound = true;
        link.state = LinkState::Dialling(Greeting { step: 0, tries: 0, wait: FIRST_WAIT, since: now });
        self.greet(now, slot, world);
    }

    /// Sends the current step of a handshake once more.
    fn greet(&mut self, now: u64, slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        let (LinkState::Dialling(greeting) | LinkState::Answering(greeting)) = &mut link.state else {
            unreachable!("a link without a handshake");
        };
        greeting.tries += 1;
        let Greeting { step, tries, wait, .. } = *greeting;
        let epoch = link.epoch;
        self.set_timer(now + (wait << (tries - 1)), TimerKind::Greeting { slot, epoch, step, tries });
        self.transmit_hello(now, slot, step, world);
    }

    fn transmit_hello(&mut self, now: u64, slot: u32, step: u32, world: &World<F>) {
        let payload = world.config.transport.hello_bytes(step);
        self.links[slot as usize].hello_at = now;
        self.transmit_packet(now, slot, (payload, 0), Body::Hello { step, slot }, world);
    }

    /// Handles a step of a handshake that had no answer in time.
    pub(super) fn greet_again(
        &mut self,
        now: u64,
        slot: u32,
        epoch: u32,
        (step, tries): (u32, u32),
        world: &World<F>,
    ) {
        let link = &mut self.links[slot as usize];
        let (LinkState::Dialling(greeting) | LinkState::Answering(greeting)) = link.state else { return };
        if link.epoch != epoch || (greeting.step, greeting.tries) != (step, tries) {
            return;
        }
        if tries < TRIES {
            self.greet(now, slot, world);
        } else {
            self.take_down(now, slot, world);
        }
    }

    /// Sends the next step of a handshake, since the one before has had its answer.
    fn go_on(&mut self, now: u64, slot: u32, step: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        let trip = now - link.hello_at;
        let wait = wait_after(trip, is_udp(&world.config.transport.control));
        let next = Greeting { step, tries: 0, wait, since: now };
        link.state = match link.state {
            LinkState::Dialling(_) => LinkState::Dialling(next),
            _ => LinkState::Answering(next),
        };
        self.greet(now, slot, world);
    }

    pub(super) fn hello(
        &mut self,
        now: u64,
        src: u32,
        epoch: u32,
        step: u32,
        peer_slot: u32,
        world: &World<F>,
    ) {
        let last = 2 * world.config.transport.handshake_round_trips.max(1);
        let slot = self.slot(src, world);
        if step == 0 {
            self.dialled(now, (src, epoch), slot, peer_slot, world);
            return;
        }
        let link = &mut self.links[slot as usize];
        match link.state {
            LinkState::Answering(_) if link.epoch == epoch && step == last => self.bring_up(now, slot, world),
            LinkState::Answering(sent) if link.epoch == epoch && step == sent.step + 1 => {
                self.go_on(now, slot, step + 1, world);
            }
            // The answer was lost.
            LinkState::Answering(sent) if link.epoch == epoch && step + 1 == sent.step => {
                self.transmit_hello(now, slot, sent.step, world);
            }
            LinkState::Dialling(sent) if epoch >= link.epoch && step == sent.step + 1 => {
                link.epoch = epoch;
                link.peer_slot = peer_slot;
                if step + 1 < last {
                    self.go_on(now, slot, step + 1, world);
                } else {
                    self.transmit_hello(now, slot, last, world);
                    self.bring_up(now, slot, world);
                }
            }
            // The last step was lost.
            LinkState::Up if link.outbound && link.epoch == epoch && step + 1 == last => {
                self.transmit_hello(now, slot, last, world);
            }
            _ => {}
        }
    }

    /// Handles the first step of a handshake.
    fn dialled(&mut self, now: u64, (src, epoch): (u32, u32), slot: u32, peer_slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        match link.state {
            LinkState::Up if epoch <= link.epoch => return,
            // The peer has lost the old incarnation and dials again.
            LinkState::Up => self.take_down(now, slot, world),
            // Both hosts have dialled: the dial of the lower number wins.
            LinkState::Dialling(sent) if self.id < src => {
                // Our dial was lost, or the peer would have answered it. The way is open now.
                if sent.step == 0 && now - link.hello_at > 2 * link.latency {
                    self.transmit_hello(now, slot, 0, world);
                }
                return;
            }
            _ => {}
        }
        let link = &mut self.links[slot as usize];
        // A dial that is repeated keeps its epoch, or an answer on the way would be outdated.
        let is_repeated = matches!(link.state, LinkState::Answering(_)) && epoch <= link.epoch;
        if !is_repeated {
            link.reset(epoch.max(link.epoch + 1), &world.config.transport);
        }
        link.outbound = false;
        link.peer_slot = peer_slot;
        link.state = LinkState::Answering(Greeting { step: 1, tries: 0, wait: FIRST_WAIT, since: now });
        self.greet(now, slot, world);
    }

    /// Answers a packet to a host whose process is gone. The operating system answers a dial with a
    /// reset (RFC 9293 section 3.10.7.1). A datagram gets no answer, because quic-go and quinn
    /// ignore ICMP errors.
    pub(super) fn turn_away(
        &mut self,
        now: u64,
        src: u32,
        epoch: u32,
        body: &Body<Carried<F>>,
        world: &World<F>,
    ) {
        let Body::Hello { step: 0, slot: peer_slot } = *body else { return };
        if !self.is_up || is_udp(&world.config.transport.control) {
            return;
        }
        let slot = self.slot(src, world);
        self.links[slot as usize].peer_slot = peer_slot;
        self.transmit_packet(now, slot, (0, 0), Body::Refuse { epoch }, world);
    }

    /// Handles a refusal: nothing listens at the host that this one dialled.
    pub(super) fn refused(&mut self, now: u64, src: u32, slot: u32, epoch: u32, world: &World<F>) {
        let waits = self.links.get(slot as usize).is_some_and(|link| {
            let has_dialled = matches!(link.state, LinkState::Dialling(Greeting { step: 0, .. }));
            has_dialled && link.peer == src && link.epoch == epoch
        });
        if waits {
            self.take_down(now, slot, world);
        }
    }

    pub(super) fn bring_up(&mut self, now: u64, slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        link.state = LinkState::Up;
        let peer = link.peer;
        let info = PeerInfo {
            identity: world.identities[link.peer as usize].clone(),
            outbound: link.outbound,
            address: Some(address_of(link.peer)),
            protocol: (world.protocol)(self.id, link.peer),
        };
        if let Some(limit) = &mut self.limit {
            let least = world.latency(self.id, peer) + world.latency(peer, self.id);
            let trip = match self.links[slot as usize].hello_at {
                // The handshake was long ago.
                0 => least,
                // Timestamps tell which of several packets was answered.
                at => least.max(now - at),
            };
            limit.link_up(Time::from_nanos(now), PeerId(slot), Some(Duration::from_nanos(trip)));
        }
        self.node.link_up(PeerId(slot));
        self.links[slot as usize].end.start(now, &world.config.transport);
        self.set_end_timers(now, slot);
        self.input(now, Input::LinkUp { peer: PeerId(slot), info }, world);
    }

    /// Takes a link down, for whatever reason.
    pub(super) fn take_down(&mut self, now: u64, slot: u32, world: &World<F>) {
        let link = &mut self.links[slot as usize];
        let state = std::mem::replace(&mut link.state, LinkState::Down);
        link.nic = NicState::Idle;
        self.refresh(now, slot, world);
        match state {
            LinkState::Up => {
                if let Some(limit) = &mut self.limit {
                    limit.link_down(PeerId(slot));
                }
                self.node.link_down(PeerId(slot));
                self.clear_record(slot);
                self.input(now, Input::LinkDown { peer: PeerId(slot) }, world);
            }
            LinkState::Dialling(_) => {
                let identity = identity_of(self.links[slot as usize].peer);
                self.input(now, Input::DialFailed { identity }, world);
            }
            LinkState::Answering(_) | LinkState::Down => {}
        }
    }

    pub(super) fn close(&mut self, now: u64, slot: u32, world: &World<F>) {
        let up = self.links.get(slot as usize).is_some_and(|link| link.state == LinkState::Up);
        if up {
            self.transmit_packet(now, slot, (0, 0), Body::Close, world);
            self.take_down(now, slot, world);
        }
    }

    /// Takes a link down at this end, and dials the peer again at once. A link that is not up stays
    /// as it is.
    pub(super) fn reconnect(&mut self, now: u64, peer: u32, silent: bool, world: &World<F>) {
        let Some(slot) = self.slot_of.get(&peer).copied() else { return };
        if !self.running || self.links[slot as usize].state != LinkState::Up {
            return;
        }
        if silent {
            self.take_down(now, slot, world);
        } else {
            self.close(now, slot, world);
        }
        self.dial(now, peer, world);
    }

    /// Notes in the record that a link is down.
    pub(super) fn clear_record(&mut self, slot: u32) {
        if self.explained.is_on() {
            let departing = self.fair_uplink.iter().flat_map(|line| line.iter()).filter_map(Queueing::own);
            let leaving = departing.filter(|it| it.slot == slot).filter_map(|it| it.leaving.as_ref());
            let queued: Vec<_> = leaving.flat_map(|it| it.complete.iter().cloned()).collect();
            self.explained.note(|record| record.clear(slot, &queued));
        }
    }

    /// Closes a link because the process ends. The operating system closes its sockets at once. The
    /// sockets of a dead host stay silent until the peer's keep-alive notices.
    pub(super) fn say_goodbye(&mut self, now: u64, slot: u32, silent: bool, world: &World<F>) {
        let sent = self.outgoing.len();
        // Nothing leaves the queues of a dead host: what its peers notice occupies no uplink.
        let line = self.fair_uplink.take_if(|_| silent);
        let explained = silent.then(|| std::mem::replace(&mut self.explained, Explained::OFF));
        self.transmit_packet(now, slot, (0, 0), Body::Close, world);
        if line.is_some() {
            (self.fair_uplink, self.uplink_free_at) = (line, 0);
        }
        if let Some(explained) = explained {
            self.explained = explained;
        }
        if silent {
            let wait = world.config.transport.dead_peer_timeout.as_nanos() as u64;
            for packet in &mut self.outgoing[sent..] {
                packet.arrive += wait;
            }
        }
    }
}
