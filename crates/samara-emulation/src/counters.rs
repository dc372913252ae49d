//! What is counted for every host.

use std::time::Duration;

/// Packets and their bytes (IP headers included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes with headers.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Packets that were lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// At the sender: the queue of its uplink was full.
    pub uplink_full: Count,
    /// At the sender: random loss in the network.
    pub random: Count,
    /// At the receiver: the queue of its downlink was full.
    pub downlink_full: Count,
    /// At the receiver: dropped by controlled delay.
    pub downlink_codel: Count,
}

impl Drops {
    /// All causes together.
    pub fn total(&self) -> Count {
        let mut total = self.uplink_full;
        total += self.random;
        total += self.downlink_full;
        total += self.downlink_codel;
        total
    }
}

/// What a host sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// What the host handed to its uplink, whether it was lost later or not.
    pub sent: Count,
    /// What reached the host.
    pub received: Count,
    /// What was lost.
    pub drops: Drops,
    /// The longest that a packet waited for the uplink.
    pub uplink_wait_max: Duration,
    /// The longest that a packet waited for the downlink.
    pub downlink_wait_max: Duration,
}
