//! Connections with channels: copies from the outbox into them, and messages out of them.

use samara_engine::{Engine, Outbox, PeerId, Time};

use super::{Host, TimerKind};
use crate::link::LinkState;
use crate::transport::mconn::Surroundings;
use crate::transport::{Receiver, Sender};
use crate::world::World;

impl<N: Engine> Host<N> {
    pub(super) fn start_connection(&mut self, now: u64, slot: u32, world: &World<N>) {
        if let Some(config) = world.config.transport.connection.channels()
            && let Sender::MConnection(sender) = &mut self.links[slot as usize].sender
        {
            sender.start(now, config);
            self.set_ping_timer(slot);
        }
    }

    /// Hands copies to the channels of a link that have room and lets its send routine work, until nothing more comes of
    /// it.
    pub(super) fn feed(&mut self, now: u64, slot: u32, world: &World<N>) {
        let transport = &world.config.transport;
        let Some(link) = self.links.get_mut(slot as usize) else { return };
        if link.state == LinkState::Up
            && let Some(config) = transport.connection.channels()
            && let Sender::MConnection(sender) = &mut link.sender
            && let Some(stats) = self.connection_stats.as_deref_mut()
        {
            let peer = PeerId(slot);
            let sealed_before = self.frames_written;
            let mut around = Surroundings { now, config, transport, writes: &mut self.frames_written, stats };
            loop {
                let mut more = sender.run(&mut around);
                if self.outbox.pending_to(peer) == 0 {
                    while more {
                        more = sender.run(&mut around);
                    }
                    break;
                }
                for (index, channel) in config.channels.iter().enumerate() {
                    let is_owed = |outbox: &Outbox<N::Frame>| {
                        channel.lanes.iter().any(|lane| outbox.pending_on(peer, *lane) > 0)
                    };
                    while sender.has_room(index, config)
                        && is_owed(&self.outbox)
                        && let Some(copy) =
                            self.outbox.pop_lanes_for(Time::from_nanos(now), peer, &channel.lanes)
                    {
                        self.stats.frames_sent.add(&copy.frame);
                        sender.push(index, copy.frame, copy.len);
                        more = true;
                    }
                }
                if !more {
                    break;
                }
            }
            sender.rest(&mut around);
            let left = if self.outbox.pending_to(peer) > 0 { config.channels.len() } else { 0 };
            for (index, channel) in config.channels.iter().enumerate().take(left) {
                let waits = |lane: &_| self.outbox.pending_on(peer, *lane) > 0;
                if !sender.has_room(index, config) && channel.lanes.iter().any(waits) {
                    sender.note_full(index, around.stats);
                }
            }
            // Nobody reads here: when to go on with that is as before.
            let due = sender.due(now);
            if due < sender.timer {
                sender.timer = due;
                self.set_timer(due, TimerKind::Connection(slot));
            }
            self.set_ping_timer(slot);
            if self.frames_written == sealed_before {
                // Nor has the socket got anything new.
                return;
            }
        }
        self.refresh(slot);
    }

    /// Reads what has arrived on a link with channels, as far as the limit of the rate allows.
    pub(super) fn read(&mut self, now: u64, slot: u32, world: &World<N>) {
        let transport = &world.config.transport;
        let mut delivered = std::mem::take(&mut self.delivered);
        let link = &mut self.links[slot as usize];
        let mut pinged = false;
        if let Some(config) = transport.connection.channels()
            && let Receiver::MConnection(receiver) = &mut link.receiver
            && let Sender::MConnection(sender) = &mut link.sender
        {
            let heard = receiver.read(now, config.receive_rate, transport, &mut delivered);
            pinged = heard.ping;
            if heard.ping {
                sender.ping_arrived();
            }
            if heard.pong {
                sender.pong_arrived();
            }
            if heard.window_opened {
                link.ack_is_due(transport.control.separate_acks());
            }
            self.set_connection_timer(now, slot);
        }
        self.deliver_all(now, slot, delivered, world);
        if pinged {
            self.feed(now, slot, world);
        }
    }

    /// Sets the timer for what is due next on a link, unless one that fires no later is running.
    fn set_connection_timer(&mut self, now: u64, slot: u32) {
        let link = &mut self.links[slot as usize];
        if let (Sender::MConnection(sender), Receiver::MConnection(receiver)) =
            (&mut link.sender, &link.receiver)
        {
            let due = sender.due(now).min(receiver.read_at());
            if due < sender.timer {
                sender.timer = due;
                self.set_timer(due, TimerKind::Connection(slot));
            }
        }
    }

    fn set_ping_timer(&mut self, slot: u32) {
        if let Sender::MConnection(sender) = &mut self.links[slot as usize].sender {
            let due = sender.ping_due();
            if due < sender.ping_timer {
                sender.ping_timer = due;
                self.set_timer(due, TimerKind::Ping(slot));
            }
        }
    }

    /// The timer for flushes, probes, and limits of rates fires.
    pub(super) fn connection_timer(&mut self, now: u64, slot: u32, world: &World<N>) {
        let transport = &world.config.transport;
        let link = &mut self.links[slot as usize];
        if link.state == LinkState::Up
            && let Some(config) = transport.connection.channels()
            && let Sender::MConnection(sender) = &mut link.sender
            && sender.timer <= now
            && let Some(stats) = self.connection_stats.as_deref_mut()
        {
            sender.timer = u64::MAX;
            sender.tick(&mut Surroundings {
                now,
                config,
                transport,
                writes: &mut self.frames_written,
                stats,
            });
            self.read(now, slot, world);
            self.feed(now, slot, world);
        }
    }

    pub(super) fn ping_timer(&mut self, now: u64, slot: u32, world: &World<N>) {
        let link = &mut self.links[slot as usize];
        if link.state == LinkState::Up
            && let Some(config) = world.config.transport.connection.channels()
            && let Sender::MConnection(sender) = &mut link.sender
            && sender.ping_timer <= now
        {
            sender.ping_timer = u64::MAX;
            if sender.tick_ping(now, config) {
                self.close(now, slot, world);
                return;
            }
            self.feed(now, slot, world);
        }
    }
}
