//! Rivals of a host: traffic of others in the same house, through the same uplink queue.
//!
//! A packet that leaves the queue arrives after the latency of the path, and its acknowledgements come back
//! after the same: nothing else is on the path.

use std::collections::VecDeque;
use std::time::Duration;

use samara_engine::uplink::{Limit, LimitConfig};
use samara_engine::{PeerId, Time};

use crate::fq_codel::Queued;
use crate::stats::Count;
use crate::transport::tcp::{Congestion, Receiver, Sender, TcpConfig, timestamp};
use crate::transport::{Ack, AckNeed, Control, Framing, LossRecovery, ReceiveHalf, SendHalf, Transport};

/// Packets per second of a call: a frame of 20 ms each, the default of Opus (RFC 7587, section 4.2).
pub const CALL_PACKETS_PER_S: u32 = 50;

/// Bytes of UDP payload in a packet of a call: 12 bytes of RTP (RFC 3550, section 5.1) and 188 bytes
/// of Opus, 75 kbit/s, in the range that RFC 7587, section 3.1.1, recommends for stereo.
pub const CALL_PAYLOAD_BYTES: u32 = 200;

/// Kinds of rivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RivalKind {
    /// Connections of TCP CUBIC that always have bytes to send.
    Upload {
        /// The number of connections.
        connections: u32,
    },
    /// [`CALL_PACKETS_PER_S`] packets of UDP with [`CALL_PAYLOAD_BYTES`] each.
    Call,
    /// A second node, which always has blocks to send, in one order over links of TCP CUBIC. It limits
    /// what they have under way together as the hosts do ([`Limit`]). The latencies of its links are
    /// spread from half to one and a half of that of the path.
    Node {
        /// The number of links.
        links: u32,
    },
}

/// The traffic of one rival, from its start to its end or that of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalStats {
    /// The host whose uplink it shares.
    pub host: u32,
    /// What shares the uplink.
    pub kind: RivalKind,
    /// Time for which it was there, in nanoseconds.
    pub nanos: u64,
    /// Rate of the uplink in bits per second.
    pub uplink_bps: u64,
    /// Packets of the rival that left the uplink, with their headers.
    pub sent: Count,
    /// Packets of the host itself that left the uplink in the same time.
    pub host_sent: Count,
    /// Packets of the rival that were dropped.
    pub lost: u64,
    /// Of a call: how much longer each packet that arrived was on the way than on an empty path, in
    /// nanoseconds.
    pub delays_nanos: Vec<u64>,
}

/// Bytes of headers of a packet of a call: IPv4, UDP.
const UDP_HEADER: u32 = 28;

/// Bytes that an upload writes at once.
const BLOCK_BYTES: u32 = 64 << 10;

/// Bytes that a second node writes to a link at once: a block of 2 MiB has 64 of them.
const COLUMN_BYTES: u32 = 32 << 10;

/// A packet of a rival in the queue of the uplink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RivalPacket {
    pub(crate) rival: u32,
    /// Among the rival's connections; its number in the run makes it a flow of its own.
    connection: u32,
    len: u32,
    seq: u32,
    sent_at: u64,
}

impl Queued for RivalPacket {
    fn len(&self) -> u32 {
        self.len
    }
}

impl RivalPacket {
    /// Returns the number of its flow, which no host has.
    pub(crate) const fn flow(&self) -> u32 {
        u32::MAX - (self.rival << 8) - self.connection
    }
}

/// A rival while it is there. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct Rival {
    stats: RivalStats,
    number: u32,
    since: u64,
    until: u64,
    /// The bytes that the host had sent when it began.
    before: Count,
    transport: Transport,
    connections: Vec<Connection>,
    order: Option<Box<Order>>,
    /// The time of the next packet of a call.
    speaks_at: u64,
    /// The time of the running timer; `u64::MAX` if there is none.
    pub(crate) timer: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Connection {
    sender: Sender<()>,
    receiver: Receiver<()>,
    acks: VecDeque<(u64, Ack)>,
    /// The time at which the receiver acknowledges a single packet; `u64::MAX` if none waits.
    ack_by: u64,
    /// The latency of the path, in one direction.
    latency: u64,
}

/// The one order of a second node over all its links.
#[derive(Debug)]
struct Order {
    limit: Limit,
    /// The link that has the first turn.
    turn: usize,
    /// The time at which the limit may let out more; `u64::MAX` if acknowledgements come first.
    room_at: u64,
}

impl Rival {
    /// Begins a rival of a host with this uplink, which has sent `before` so far.
    pub(crate) fn new(
        number: u32,
        (host, uplink_bps): (u32, u64),
        kind: RivalKind,
        (since, until): (u64, u64),
        latency: u64,
        before: Count,
    ) -> Self {
        let config = TcpConfig { congestion: Congestion::Cubic, ..TcpConfig::default() };
        let config = match kind {
            // The limit takes the acknowledgement of a single packet for late, so most are of two.
            RivalKind::Node { .. } => config,
            // Every packet is acknowledged: the path back is empty.
            RivalKind::Upload { .. } | RivalKind::Call => TcpConfig { ack_every: 1, ..config },
        };
        let transport =
            Transport { framing: Framing::PLAIN, control: Control::Tcp(config), ..Transport::tcp() };
        let count = match kind {
            RivalKind::Upload { connections: count } | RivalKind::Node { links: count } => count,
            RivalKind::Call => 0,
        };
        let connection_of = |number| Connection {
            sender: Sender::new(&transport),
            receiver: Receiver::new(&transport),
            acks: VecDeque::new(),
            ack_by: u64::MAX,
            latency: match kind {
                RivalKind::Node { .. } => spread(latency, number),
                _ => latency,
            },
        };
        let stats = RivalStats {
            host,
            kind,
            nanos: 0,
            uplink_bps,
            sent: Count::default(),
            host_sent: Count::default(),
            lost: 0,
            delays_nanos: Vec::new(),
        };
        let connections: Vec<Connection> = (0..count).map(connection_of).collect();
        let is_node = matches!(kind, RivalKind::Node { .. });
        let order = is_node.then(|| Box::new(Order::new(since, &connections)));
        let (speaks_at, timer) = (if kind == RivalKind::Call { since } else { u64::MAX }, u64::MAX);
        Self {
            stats,
            number,
            since,
            until,
            before,
            transport,
            connections,
            order,
            speaks_at,
            timer,
            is_over: false,
        }
    }

    /// Returns the time at which it has something to do; `u64::MAX` if never.
    pub(crate) fn due(&self) -> u64 {
        if self.is_over {
            return u64::MAX;
        }
        let connections = self.connections.iter().map(|connection| {
            let acked = connection.acks.front().map_or(u64::MAX, |(at, _)| *at);
            acked.min(connection.ack_by).min(connection.sender.timer_at())
        });
        let room_at = self.order.as_ref().map_or(u64::MAX, |order| order.room_at);
        connections.min().unwrap_or(u64::MAX).min(self.speaks_at).min(room_at).min(self.until)
    }

    /// Sends what it can, and passes it to `send`. `host_sent` is what the host has sent so far.
    pub(crate) fn act(&mut self, now: u64, host_sent: Count, send: &mut dyn FnMut(RivalPacket) -> bool) {
        if self.is_over {
            return;
        }
        if now >= self.until {
            self.is_over = true;
            self.stats = self.stats(now, host_sent);
            return;
        }
        let mut lost = 0;
        if self.speaks_at <= now {
            self.speaks_at += 1_000_000_000 / u64::from(CALL_PACKETS_PER_S);
            let len = CALL_PAYLOAD_BYTES + UDP_HEADER;
            let packet = RivalPacket { rival: self.number, connection: 0, len, seq: 0, sent_at: now };
            lost += u64::from(!send(packet));
        }
        let Self { connections, order, transport, number: rival, .. } = self;
        let mut send = |connection: u32, (len, seq): (u32, u32)| {
            let packet = RivalPacket { rival: *rival, connection, len, seq, sent_at: now };
            lost += u64::from(!send(packet));
        };
        for (number, connection) in (0..).zip(&mut *connections) {
            connection.take_acks(now, transport, |before, sender| {
                if let Some(order) = order {
                    let report = sender.flow().report(before, transport);
                    order.limit.report(Time::from_nanos(now), PeerId(number), report);
                }
            });
            match order {
                Some(order) => order.pass(now, (number, connection), transport, &mut send),
                None => loop {
                    while !connection.sender.backlog.has_new() {
                        connection.sender.write((), BLOCK_BYTES, 0, transport);
                    }
                    let Some(packet) = connection.pop(now, transport) else { break };
                    send(number, packet);
                },
            }
        }
        if let Some(order) = order {
            order.fill(now, connections, transport, &mut send);
        }
        self.stats.lost += lost;
    }

    /// Takes a packet that leaves the uplink at a time.
    pub(crate) fn left(&mut self, packet: RivalPacket, at: u64) {
        if self.is_over {
            return;
        }
        self.stats.sent.add(1, packet.len);
        let Some(connection) = self.connections.get_mut(packet.connection as usize) else {
            self.stats.delays_nanos.push(at - packet.sent_at);
            return;
        };
        connection.acknowledge(at, &self.transport);
        let arrival = (packet.seq, Some(()));
        let stamp = timestamp(packet.sent_at);
        let mut delivered = Vec::new();
        let need = connection.receiver.segment(stamp, arrival, &self.transport, &mut delivered);
        debug_assert_ne!(need, AckNeed::None, "every packet is acknowledged");
        let wait = if need == AckNeed::Now { 0 } else { self.transport.control.ack_delay() };
        connection.ack_by = connection.ack_by.min(at + wait);
        connection.acknowledge(at, &self.transport);
    }

    pub(crate) fn lose(&mut self) {
        self.stats.lost += u64::from(!self.is_over);
    }

    /// Returns what it got until now or until its end. `host_sent` is what the host has sent so far.
    pub(crate) fn stats(&self, now: u64, host_sent: Count) -> RivalStats {
        if self.stats.nanos > 0 {
            // It is over.
            return self.stats.clone();
        }
        let host_sent = Count {
            packets: host_sent.packets - self.before.packets,
            bytes: host_sent.bytes - self.before.bytes,
        };
        RivalStats { nanos: now.min(self.until).saturating_sub(self.since), host_sent, ..self.stats.clone() }
    }
}

impl Connection {
    /// Takes the acknowledgements that have come back, and handles the expired timer. `taken` gets the
    /// bytes that had arrived before each acknowledgement that is new.
    fn take_acks(&mut self, now: u64, transport: &Transport, mut taken: impl FnMut(u64, &Sender<()>)) {
        self.acknowledge(now, transport);
        let Self { sender, acks, .. } = self;
        while acks.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, ack)) = acks.pop_front()
        {
            let before = sender.flow().arrived;
            if sender.acknowledged(&ack, now, transport) {
                taken(before, sender);
            }
        }
        if sender.timer_at() <= now {
            sender.timed_out(now, transport);
        }
    }

    /// Lets the receiver acknowledge the packets whose time for that has come. Times of the receiver are
    /// those at which packets leave the uplink.
    fn acknowledge(&mut self, now: u64, transport: &Transport) {
        if self.ack_by <= now {
            let at = std::mem::replace(&mut self.ack_by, u64::MAX);
            let ack = self.receiver.acknowledge(at, transport);
            self.acks.push_back((at + 2 * self.latency, ack));
        }
    }

    /// Returns the length of the next packet, with its headers, and its number, if one can leave.
    fn pop(&mut self, now: u64, transport: &Transport) -> Option<(u32, u32)> {
        let segment = self.sender.pop_segment(now, transport)?;
        Some((segment.len + transport.header, segment.seq))
    }
}

impl Order {
    /// Begins with links whose round trips the node knows from before.
    fn new(now: u64, links: &[Connection]) -> Self {
        let mut limit = Limit::new(LimitConfig::default());
        for (number, link) in (0..).zip(links) {
            let trip = Duration::from_nanos(2 * link.latency);
            limit.link_up(Time::from_nanos(now), PeerId(number), Some(trip));
        }
        Self { limit, turn: 0, room_at: u64::MAX }
    }

    /// Lets out what the windows of a link allow of the blocks that it has.
    fn pass(
        &mut self,
        now: u64,
        (number, link): (u32, &mut Connection),
        transport: &Transport,
        send: &mut impl FnMut(u32, (u32, u32)),
    ) {
        let mut note = |link: &Connection| {
            self.limit.set_load(Time::from_nanos(now), PeerId(number), link.sender.flow().load);
        };
        note(link);
        while let Some(packet) = link.pop(now, transport) {
            note(link);
            send(number, packet);
        }
    }

    /// Writes blocks to links on which nothing waits, in turn, while the limit has room.
    fn fill(
        &mut self,
        now: u64,
        links: &mut [Connection],
        transport: &Transport,
        send: &mut impl FnMut(u32, (u32, u32)),
    ) {
        self.room_at = u64::MAX;
        let count = links.len();
        let next = |links: &[Connection], turn: usize| {
            let mut in_turn = (turn..turn + count).map(|number| number % count);
            in_turn.find(|number| links[*number].sender.room(transport).is_some())
        };
        while let Some(number) = next(links, self.turn) {
            if self.limit.room(Time::from_nanos(now)) == 0 {
                self.room_at = self.limit.next_at().map_or(u64::MAX, |at| at.as_nanos().max(now + 1));
                return;
            }
            let link = &mut links[number];
            link.sender.write((), COLUMN_BYTES, 0, transport);
            self.pass(now, (number as u32, link), transport, send);
            self.turn = number + 1;
        }
    }
}

/// Returns the latency of a link: that of the first one is `mean`, and those of any number of links are
/// spread from half to one and a half of it, in no order (multiples of the golden ratio).
fn spread(mean: u64, link: u32) -> u64 {
    let part = (1_u32 << 31).wrapping_add(link.wrapping_mul(0x9E37_79B9));
    mean / 2 + ((u128::from(mean) * u128::from(part)) >> 32) as u64
}
