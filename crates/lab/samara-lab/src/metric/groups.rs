//! Groups of metrics that several families have, each declared once.

use samara_sim::HostStats;

use crate::metrics;
use crate::results::{PacketDrops, packet_drops, ratio};

metrics! {
    /// Packets that the network lost, and what it cost.
    pub struct Losses {
        /// Lost packets by cause: `downlink_full`, `downlink_codel`, `uplink_codel`, `uplink_full`,
        /// `random`, `partition`, `stale`.
        pub packet_drops: PacketDrops = "packets", Less, [];
        /// Packets retransmitted by the transport.
        pub retransmissions: u64 = "packets", Less, [""];
    }
}

impl Losses {
    /// Returns those of all hosts together.
    pub fn of(hosts: &[HostStats]) -> Self {
        let retransmissions = hosts.iter().map(|stats| stats.retransmitted.packets).sum();
        Self { packet_drops: packet_drops(hosts), retransmissions }
    }
}

metrics! {
    /// The bytes that a node sends and receives.
    pub struct NodeBytes {
        /// Bytes on the wire that a node sent, including headers and retransmissions; the mean over the
        /// nodes that the family counts.
        pub bytes_up_per_node: f64 = "bytes", Less, [""];
        /// Bytes on the wire that a node received; the mean over the same nodes.
        pub bytes_down_per_node: f64 = "bytes", Less, [""];
    }
}

impl NodeBytes {
    /// Returns the means over these hosts.
    pub fn of<'a>(hosts: impl Iterator<Item = &'a HostStats>) -> Self {
        let (mut up, mut down, mut count) = (0, 0, 0);
        for stats in hosts {
            (up, down, count) = (up + stats.sent.bytes, down + stats.received.bytes, count + 1);
        }
        let mean = |bytes: u64| ratio(bytes as f64, f64::from(count));
        Self { bytes_up_per_node: mean(up), bytes_down_per_node: mean(down) }
    }
}

metrics! {
    /// The received bytes by kind.
    pub struct Shares {
        /// Payload of first copies, as a share of the received bytes.
        pub payload_share: f64 = "share", More, [];
        /// Payload of further copies, as a share of the received bytes.
        pub duplicate_share: f64 = "share", Less, [];
        /// Everything else, as a share of the received bytes: control messages, framing, headers,
        /// acknowledgements.
        pub control_share: f64 = "share", Less, [];
    }
}

impl Shares {
    /// Returns the shares of these numbers of bytes.
    pub fn of(first_copies: f64, further_copies: f64, received: f64) -> Self {
        let (payload, duplicates) = (ratio(first_copies, received), ratio(further_copies, received));
        Self {
            payload_share: payload,
            duplicate_share: duplicates,
            control_share: (1.0 - payload - duplicates).max(0.0),
        }
    }
}

metrics! {
    /// How much of what nodes wait for arrives, and how often.
    pub struct Deliveries {
        /// Deliveries, as a share of the expected ones.
        pub delivery_ratio: f64 = "share", More, [""];
        /// Copies received for each delivery, including the first.
        pub duplication_factor: f64 = "", Less, [""];
        /// Copies received beyond the first, per delivery (RMR).
        pub relative_redundancy: f64 = "", Less, [""];
    }
}

impl Deliveries {
    /// Returns the ratios of these numbers.
    pub fn of(delivered: f64, expected: f64, copies: f64) -> Self {
        let duplication = ratio(copies, delivered);
        Self {
            delivery_ratio: ratio(delivered, expected),
            duplication_factor: duplication,
            relative_redundancy: (duplication - 1.0).max(0.0),
        }
    }
}

metrics! {
    /// How busy uplinks are.
    pub struct Uplinks {
        /// Share of the time in which a node's uplink was busy; the mean over nodes.
        pub uplink_utilisation: f64 = "share", Neither, [""];
        /// Share of the time in which the busiest uplink was busy.
        pub uplink_utilisation_max: f64 = "share", Neither, [];
    }
}

impl Uplinks {
    /// Returns those of these hosts, which were measured for so long.
    pub fn of(hosts: &[HostStats], measured_nanos: u64) -> Self {
        let busy = hosts.iter().map(|stats| busy(stats, measured_nanos));
        Self {
            uplink_utilisation: ratio(busy.clone().sum(), hosts.len() as f64),
            uplink_utilisation_max: busy.fold(0.0, f64::max),
        }
    }
}

/// Returns the share of a time in which the uplink of a host was busy.
pub fn busy(stats: &HostStats, nanos: u64) -> f64 {
    ratio(stats.uplink_busy_nanos as f64, nanos as f64).min(1.0)
}
