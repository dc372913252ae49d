//! Rivals of a host: traffic of others in the same house, through the same uplink queue.
//!
//! What leaves the queue arrives after the latency of the path, and its acknowledgements come back
//! after the same: nothing else is on the path.

use std::collections::VecDeque;

use crate::fq_codel::Queued;
use crate::stats::Count;
use crate::transport::tcp::{Congestion, Receiver, Sender, TcpConfig, timestamp};
use crate::transport::{Ack, AckNeed, Control, Framing, LossRecovery, SendHalf, Transport};

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
}

/// What one rival sent, from its start to its end or that of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RivalStats {
    /// The host whose uplink it shares.
    pub host: u32,
    /// What it is.
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
    /// The latency of the path, in one direction.
    latency: u64,
    /// What the host had sent when it began.
    before: Count,
    transport: Transport,
    uploads: Vec<Upload>,
    /// The time of the next packet of a call.
    speaks_at: u64,
    /// The time of the running timer; `u64::MAX` if there is none.
    pub(crate) timer: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Upload {
    sender: Sender<()>,
    receiver: Receiver<()>,
    acks: VecDeque<(u64, Ack)>,
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
        // Every packet is acknowledged: the path back is empty.
        let config = TcpConfig { congestion: Congestion::Cubic, ack_every: 1, ..TcpConfig::default() };
        let transport =
            Transport { framing: Framing::PLAIN, control: Control::Tcp(config), ..Transport::tcp() };
        let connections = match kind {
            RivalKind::Upload { connections } => connections,
            RivalKind::Call => 0,
        };
        let upload = |_| Upload {
            sender: Sender::new(&transport),
            receiver: Receiver::new(&transport),
            acks: VecDeque::new(),
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
        let uploads = (0..connections).map(upload).collect();
        let (speaks_at, timer) = (if kind == RivalKind::Call { since } else { u64::MAX }, u64::MAX);
        Self {
            stats,
            number,
            since,
            until,
            latency,
            before,
            transport,
            uploads,
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
        let uploads = self.uploads.iter().map(|upload| {
            let acked = upload.acks.front().map_or(u64::MAX, |(at, _)| *at);
            acked.min(upload.sender.timer_at())
        });
        uploads.min().unwrap_or(u64::MAX).min(self.speaks_at).min(self.until)
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
        for (connection, upload) in (0..).zip(&mut self.uploads) {
            let Upload { sender, acks, .. } = upload;
            while acks.front().is_some_and(|(at, _)| *at <= now)
                && let Some((_, ack)) = acks.pop_front()
            {
                sender.acknowledged(&ack, now, &self.transport);
            }
            if sender.timer_at() <= now {
                sender.timed_out(now, &self.transport);
            }
            loop {
                while !sender.backlog.has_new() {
                    sender.write((), BLOCK_BYTES, 0, &self.transport);
                }
                let Some(segment) = sender.pop_segment(now, &self.transport) else { break };
                let len = segment.len + self.transport.header;
                let packet =
                    RivalPacket { rival: self.number, connection, len, seq: segment.seq, sent_at: now };
                lost += u64::from(!send(packet));
            }
        }
        self.stats.lost += lost;
    }

    /// Takes a packet that leaves the uplink at a time.
    pub(crate) fn left(&mut self, packet: RivalPacket, at: u64) {
        if self.is_over {
            return;
        }
        self.stats.sent.add(1, packet.len);
        let Some(upload) = self.uploads.get_mut(packet.connection as usize) else {
            self.stats.delays_nanos.push(at - packet.sent_at);
            return;
        };
        let arrival = (packet.seq, Some(()));
        let stamp = timestamp(packet.sent_at);
        let mut delivered = Vec::new();
        let need = upload.receiver.segment(stamp, arrival, &self.transport, &mut delivered);
        debug_assert_ne!(need, AckNeed::None, "every packet is acknowledged");
        let ack = upload.receiver.acknowledge(at, &self.transport);
        upload.acks.push_back((at + 2 * self.latency, ack));
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
