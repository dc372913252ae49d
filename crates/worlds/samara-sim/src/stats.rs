//! Counters of the simulation for every host, and the digest of its packets.

use samara_engine::Reader;

use crate::gateway::GateStats;
use crate::transport::ConnectionStats;
use crate::transport::mconn::ChannelStats;

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets of any content, including acknowledgements.
    pub packets: u64,
    /// Number of bytes including headers.
    pub bytes: u64,
}

impl Count {
    /// Counts packets with this many bytes in total.
    pub fn add(&mut self, packets: u32, bytes: u32) {
        self.packets += u64::from(packets);
        self.bytes += u64::from(bytes);
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Lost packets, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// At the receiver: the downlink's queue was full.
    pub downlink_full: Count,
    /// At the receiver: dropped by controlled delay.
    pub downlink_codel: Count,
    /// At the sender: dropped by controlled delay before the uplink, so that they do not count as
    /// sent.
    pub uplink_codel: Count,
    /// Packets that found the queue before the uplink full.
    pub uplink_full: Count,
    /// At the sender: random loss in the network.
    pub random: Count,
    /// At the sender: a partition was in the way.
    pub partition: Count,
    /// At the receiver: the host was down, or the link of the packet was gone.
    pub stale: Count,
}

/// Frames and their encoded bytes, without framing and headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    /// Frames that an engine owed.
    pub frames: u64,
    /// Bytes of application payload in them.
    pub payload_bytes: u64,
    /// All other bytes of the frames.
    pub control_bytes: u64,
}

impl FrameCount {
    pub(crate) fn add<F: samara_engine::Frame>(&mut self, frame: &F) {
        let payload = frame.payload_len() as u64;
        self.frames += 1;
        self.payload_bytes += payload;
        self.control_bytes += frame.encoded_len() as u64 - payload;
    }
}

/// Counters of one host, since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Packets sent on the uplink, including retransmissions and packets that are lost later.
    pub sent: Count,
    /// Packets received from the downlink.
    pub received: Count,
    /// Packets that were sent again.
    pub retransmitted: Count,
    /// Retransmission timeouts (TCP) and probe timeouts (QUIC).
    pub timeouts: u64,
    /// Lost packets by cause.
    pub drops: Drops,
    /// Frames passed to the transport.
    pub frames_sent: FrameCount,
    /// Frames delivered to the engine.
    pub frames_received: FrameCount,
    /// With datagrams: frames that were on their way to this host, but lacked a fragment. The loss
    /// of a frame becomes known with the next datagram of its link.
    pub frames_lost: u64,
    /// Time during which the uplink was busy, in nanoseconds.
    pub uplink_busy_nanos: u64,
    /// The longest wait of a packet for the downlink, in nanoseconds.
    pub downlink_wait_nanos_max: u64,
    /// Packets sent and received, and timers fired: the unit of work of the simulator.
    pub steps: u64,
}

impl HostStats {
    /// Writes all counters, for another process of the simulation.
    pub fn write(mut self, out: &mut Vec<u8>) {
        self.each(&mut |count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&self.downlink_wait_nanos_max.to_le_bytes());
    }

    /// Reads counters that [`write`](Self::write) wrote. Returns `None` if bytes are missing.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut stats = Self::default();
        stats.each(&mut |count| *count = reader.u64().unwrap_or_default());
        Some(Self { downlink_wait_nanos_max: reader.u64()?, ..stats })
    }
}

/// A type that consists of counters that only grow.
trait Counts {
    /// Passes every counter to `take`, always in the same order.
    fn each(&mut self, take: &mut dyn FnMut(&mut u64));
}

impl Counts for u64 {
    fn each(&mut self, take: &mut dyn FnMut(&mut u64)) {
        take(self);
    }
}

impl<T: Counts> Counts for Vec<T> {
    fn each(&mut self, take: &mut dyn FnMut(&mut u64)) {
        self.iter_mut().for_each(|counts| counts.each(take));
    }
}

macro_rules! counts {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Counts for $type {
            fn each(&mut self, take: &mut dyn FnMut(&mut u64)) {
                $(self.$field.each(take);)*
            }
        })*
    };
}

counts! {
    Count { packets, bytes }
    Drops { downlink_full, downlink_codel, uplink_codel, uplink_full, random, partition, stale }
    FrameCount { frames, payload_bytes, control_bytes }
    HostStats { timeouts, uplink_busy_nanos, steps, sent, received, retransmitted, drops, frames_sent, frames_received, frames_lost }
    GateStats { passed, dropped }
    ChannelStats { messages, packets, message_bytes, framing_bytes }
    ConnectionStats { sealed_frames, padding_bytes, flushes, full_buffers, pings_and_pongs, queue_waits, channels }
}

macro_rules! since {
    ($($type:ident),*) => {
        $(impl $type {
            /// Returns the difference to an earlier snapshot. The longest wait stays that of the
            /// whole run.
            pub fn since(&self, earlier: &Self) -> Self {
                let mut before = Vec::new();
                earlier.clone().each(&mut |count| before.push(*count));
                let (mut since, mut before) = (self.clone(), before.into_iter());
                since.each(&mut |count| *count -= before.next().unwrap_or_default());
                since
            }
        })*
    };
}

since!(Count, HostStats, GateStats, ConnectionStats);

/// FNV-1a over 64-bit words: not for security, only to compare runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
