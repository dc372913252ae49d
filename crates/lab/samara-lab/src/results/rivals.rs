//! The figures of uploads, calls and second nodes in the houses of nodes.

use crate::statistics::Durations;
use samara_sim::{RivalKind, RivalStats};
use serde::Serialize;

use super::ratio;
use crate::statistics::Statistics;

/// The figures of the rivals of one kind, over all nodes that had one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RivalFigures {
    /// `upload`, `call` or `node`: a second node.
    pub kind: &'static str,
    /// Bytes on the wire that left the uplinks, with headers and retransmissions.
    pub bytes: u64,
    /// Packets that left the uplinks.
    pub packets: u64,
    /// Packets that were dropped.
    pub lost: u64,
    /// Sum of the times for which the rivals were there.
    pub seconds: f64,
    /// Bits per second of a rival, from `bytes` and `seconds`.
    pub bps: f64,
    /// These bits, as a share of what the uplinks could send in that time.
    pub share: f64,
    /// Bits per second on the wire of a node beside a rival.
    pub node_bps: f64,
    /// These bits, as a share of what the uplinks could send in that time.
    pub node_share: f64,
    /// Of calls: how much longer the packets that arrived were on the way than on an empty path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<Statistics>,
}

impl RivalFigures {
    /// Returns the figures of each kind that there is.
    pub fn of(rivals: &[RivalStats]) -> Vec<Self> {
        let kinds = ["upload", "call", "node"].into_iter();
        kinds.filter_map(|kind| Self::of_kind(kind, rivals)).collect()
    }

    fn of_kind(kind: &'static str, all: &[RivalStats]) -> Option<Self> {
        let is_meant = |rival: &&RivalStats| kind == name(rival.kind);
        let rivals: Vec<&RivalStats> = all.iter().filter(is_meant).collect();
        let sum = |value: fn(&RivalStats) -> u64| rivals.iter().map(|rival| value(rival)).sum::<u64>();
        let seconds = sum(|rival| rival.nanos) as f64 / 1e9;
        let capacity = |rival: &&RivalStats| rival.uplink_bps as f64 * rival.nanos as f64 / 1e9;
        let capacity: f64 = rivals.iter().map(capacity).sum();
        let (bytes, node_bits) = (sum(|rival| rival.sent.bytes), 8 * sum(|rival| rival.host_sent.bytes));
        let mut delays = Durations::default();
        rivals.iter().flat_map(|rival| &rival.delays_nanos).for_each(|nanos| delays.add(*nanos));
        (!rivals.is_empty()).then(|| Self {
            kind,
            bytes,
            packets: sum(|rival| rival.sent.packets),
            lost: sum(|rival| rival.lost),
            seconds,
            bps: ratio(8.0 * bytes as f64, seconds),
            share: ratio(8.0 * bytes as f64, capacity),
            node_bps: ratio(node_bits as f64, seconds),
            node_share: ratio(node_bits as f64, capacity),
            delay_ms: Statistics::of_durations(&delays),
        })
    }
}

fn name(kind: RivalKind) -> &'static str {
    match kind {
        RivalKind::Upload { .. } => "upload",
        RivalKind::Call => "call",
        RivalKind::Node { .. } => "node",
    }
}

#[cfg(test)]
mod tests {
    use samara_sim::Count;

    use super::*;

    fn rival(kind: RivalKind, seconds: u64, bytes: u64) -> RivalStats {
        RivalStats {
            host: 0,
            kind,
            nanos: seconds * 1_000_000_000,
            uplink_bps: 8_000_000,
            sent: Count { packets: bytes / 1_000, bytes },
            host_sent: Count { packets: 1_000, bytes: 1_000_000 },
            lost: 3,
            delays_nanos: Vec::new(),
        }
    }

    /// Rates are means over the time of all rivals of a kind, so that long ones count more.
    #[test]
    fn rates_and_delays_are_those_of_a_kind() {
        let upload = RivalKind::Upload { connections: 4 };
        let call = RivalStats {
            delays_nanos: (1..=100).map(|ms| ms * 1_000_000).collect(),
            ..rival(RivalKind::Call, 5, 50_000)
        };
        let figures = RivalFigures::of(&[rival(upload, 1, 1_000_000), call, rival(upload, 3, 500_000)]);
        let [upload, call] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!((upload.kind, upload.bytes, upload.packets, upload.lost), ("upload", 1_500_000, 1_500, 6));
        assert_eq!((upload.seconds, upload.bps, upload.share), (4.0, 3e6, 0.375));
        assert_eq!((upload.node_bps, upload.node_share, upload.delay_ms), (4e6, 0.5, None));
        let delay = call.delay_ms.unwrap();
        assert_eq!((call.kind, call.bps, delay.mean, delay.max), ("call", 8e4, 50.5, 100.0));
        assert!((delay.p95 - 95.0).abs() < 0.1, "{delay:?}");
        assert!(RivalFigures::of(&[]).is_empty());
    }
}
