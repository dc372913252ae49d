//! Sums over the traffic of hosts.

use samara_sim::HostStats;
use serde::Serialize;

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketDrops {
    /// A downlink's queue was full.
    pub downlink_full: u64,
    /// Dropped by controlled delay.
    pub downlink_codel: u64,
    /// Lost at random in the network.
    pub random: u64,
    /// A partition was in the way.
    pub partition: u64,
    /// They belonged to a link or a process that was gone.
    pub stale: u64,
}

pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

pub(crate) fn packet_drops(traffic: &[HostStats]) -> PacketDrops {
    traffic.iter().fold(PacketDrops::default(), |sum, stats| PacketDrops {
        downlink_full: sum.downlink_full + stats.drops.downlink_full.packets,
        downlink_codel: sum.downlink_codel + stats.drops.downlink_codel.packets,
        random: sum.random + stats.drops.random.packets,
        partition: sum.partition + stats.drops.partition.packets,
        stale: sum.stale + stats.drops.stale.packets,
    })
}
