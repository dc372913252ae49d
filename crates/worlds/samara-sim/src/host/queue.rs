//! The queue behind the connections of a host, which it shares with rivals in the same house.

use samara_engine::Frame;

use super::{Host, TimerKind};
use crate::explain::Leaving;
use crate::fq_codel::{Dropped, Queued, hash_of};
use crate::packet::{Body, Packet};
use crate::rival::{Rival, RivalKind, RivalPacket};
use crate::world::World;

/// An entry of the queues of the uplink.
#[derive(Debug)]
pub(crate) enum Queueing<F> {
    Own(Departing<F>),
    Rival(RivalPacket),
}

impl<F> Queueing<F> {
    pub(super) const fn own(&self) -> Option<&Departing<F>> {
        match self {
            Self::Own(departing) => Some(departing),
            Self::Rival(_) => None,
        }
    }
}

impl<F> Queued for Queueing<F> {
    fn len(&self) -> u32 {
        match self {
            Self::Own(departing) => departing.len(),
            Self::Rival(packet) => packet.len(),
        }
    }

    fn packets(&self) -> u32 {
        match self {
            Self::Own(departing) => departing.packets(),
            Self::Rival(packet) => packet.packets(),
        }
    }

    fn take_first(&mut self) -> Option<u32> {
        match self {
            Self::Own(departing) => departing.take_first(),
            Self::Rival(packet) => packet.take_first(),
        }
    }

    fn is_kept(&self) -> bool {
        match self {
            Self::Own(departing) => departing.is_kept(),
            Self::Rival(packet) => packet.is_kept(),
        }
    }
}

/// A packet of the host.
#[derive(Debug)]
pub(crate) struct Departing<F> {
    /// Its `arrive` is the time at which it left the connection.
    pub(super) packet: Packet<F>,
    pub(super) slot: u32,
    /// The record of its data, if there are records.
    pub(super) leaving: Option<Leaving>,
}

impl<F> Queued for Departing<F> {
    fn len(&self) -> u32 {
        self.packet.len
    }

    fn packets(&self) -> u32 {
        self.packet.body.packets()
    }

    fn take_first(&mut self) -> Option<u32> {
        self.packet.take_first_segment()
    }

    /// The closing packet arrives eventually: see `depart`.
    fn is_kept(&self) -> bool {
        matches!(self.packet.body, Body::Close)
    }
}

impl<F: Frame> Host<F> {
    /// Selects the next packet in the queues of the uplink.
    pub(super) fn leave(&mut self, now: u64, world: &World<F>) {
        let Some(line) = &mut self.fair_uplink else { return };
        let mut dropped = Vec::new();
        let selected = line.select(now, &mut |packet| dropped.push(packet));
        let nanos = selected.as_ref().map_or(0, |(departing, ..)| line.serialisation(departing.len()));
        for dropped in dropped {
            match dropped {
                Dropped::First(bytes) => self.stats.drops.uplink_codel.add(1, bytes),
                Dropped::All(Queueing::Rival(packet)) => self.rivals[packet.rival as usize].lose(),
                Dropped::All(Queueing::Own(departing)) => {
                    self.stats.drops.uplink_codel.add(departing.packets(), departing.len());
                    self.lose(now, departing);
                }
            }
        }
        match selected {
            Some((Queueing::Own(Departing { packet, slot, leaving }), _, at)) => {
                self.explained.note(|record| leaving.map(|leaving| record.leaves(leaving)));
                self.stats.uplink_busy_nanos += nanos;
                // The packet occupies the uplink while it waits for its tokens.
                self.depart(now, slot, packet, (now, at), world);
            }
            Some((Queueing::Rival(packet), _, at)) => {
                self.rivals[packet.rival as usize].left(packet, at);
                self.set_rival_timer(packet.rival);
            }
            None => {}
        }
    }

    /// Records a packet that a queue before the uplink has dropped.
    pub(super) fn lose(&mut self, now: u64, Departing { slot, leaving, .. }: Departing<F>) {
        let order = self.packets_sent;
        self.packets_sent = self.packets_sent.wrapping_add(1);
        self.explained.note(|record| {
            if let Some(leaving) = leaving {
                record.leaves(leaving);
                record.sent(slot, order, (now, now), true);
            }
        });
    }

    // ---- rivals ----

    /// Begins a rival behind the router of this host. Without a queue behind the host there is none.
    pub(super) fn begin_rival(&mut self, now: u64, kind: RivalKind, until: u64, latency: u64, seed: u64) {
        let Some(line) = &self.fair_uplink else { return };
        let number = self.rivals.len() as u32;
        let of = (self.id, line.rate_bps());
        self.rivals.push(Rival::new(number, of, kind, (now, until), latency, self.stats.sent));
        self.rival_acts(now, number, seed);
    }

    pub(super) fn rival_acts(&mut self, now: u64, number: u32, seed: u64) {
        let (id, line, rivals) = (self.id, &mut self.fair_uplink, &mut self.rivals);
        let (Some(line), Some(rival)) = (line, rivals.get_mut(number as usize)) else { return };
        if rival.timer <= now {
            rival.timer = u64::MAX;
        }
        rival.act(now, self.stats.sent, &mut |packet| {
            let has_room = line.has_room(packet.len());
            if has_room {
                line.push(now, hash_of(seed, id, packet.flow()), Queueing::Rival(packet));
            }
            has_room
        });
        self.set_rival_timer(number);
    }

    /// Sets the timer of a rival, unless a running one fires no later.
    fn set_rival_timer(&mut self, number: u32) {
        let rival = &mut self.rivals[number as usize];
        let due = rival.due();
        if due < rival.timer {
            rival.timer = due;
            self.set_timer(due, TimerKind::Rival(number));
        }
    }
}
