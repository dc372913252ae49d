//! What is known of metrics by their names, for those who show or compare any of them.

/// The metrics that are shown first, in this order.
const FIRST: [&str; 45] = [
    "time_to_custody_ms.mean",
    "time_to_custody_ms.p95",
    "time_to_custody_ms.max",
    "dissemination_ms",
    "dissemination_ms.mean",
    "dissemination_ms.p99",
    "delivery_latency_ms.mean",
    "delivery_latency_ms.p50",
    "delivery_latency_ms.p95",
    "delivery_latency_ms.p99",
    "throughput_mb_per_s",
    "throughput_min_mb_per_s",
    "slots_per_s",
    "batch_latency_ms.p50",
    "batch_latency_ms.p99",
    "completed",
    "failed",
    "service_gap_ms",
    "period_ms",
    "later_ms",
    "first_ms",
    "share_of_bound",
    "share_of_shape_bound",
    "gain",
    "time_to_inclusion_ms.mean",
    "last_delivery_hop",
    "last_delivery_hop.mean",
    "incomplete",
    "delivery_ratio",
    "message_delivery_ratio",
    "delivered_share",
    "lost",
    "duplication_factor",
    "relative_redundancy",
    "seen_tx",
    "want_tx",
    "connection_bytes",
    "bytes_saved_factor",
    "bytes_up_per_node",
    "bytes_down_per_node",
    "wire_bytes_per_byte",
    "uplink_utilisation",
    "longest_gap_ms",
    "retransmissions",
    "queue_drops",
];

/// Metrics of which less is better; a name stands for all that is below it, too.
const LESS: [&str; 63] = [
    "already_seen_txs",
    "batch_latency_ms",
    "bytes",
    "bytes_down_per_node",
    "bytes_up_per_node",
    "compact_block_ms",
    "compact_blocks_given_up",
    "connection_bytes",
    "contradictions",
    "control_share",
    "delivery_latency_ms",
    "disagreements",
    "dissemination_ms",
    "duplicate_share",
    "duplicates",
    "duplication_factor",
    "early_timeouts",
    "evicted_txs",
    "expired_txs",
    "failed",
    "failed_responses",
    "failed_unharmed",
    "false_suspicions",
    "first_ms",
    "flushes",
    "frozen_ms",
    "garbled",
    "idle_bytes_per_s",
    "incomplete",
    "keys_max",
    "last_delivery_hop",
    "later_max_ms",
    "later_min_ms",
    "later_ms",
    "longest_gap_ms",
    "lost",
    "lost_txs",
    "lost_with_origin",
    "misbehaviour",
    "not_found",
    "order_violations",
    "packet_drops",
    "period_ms",
    "publisher_bytes_up",
    "publisher_copies_returned",
    "queue_drops",
    "relative_redundancy",
    "requests_max",
    "rerequested_txs",
    "resent_frames",
    "retransmissions",
    "seen_tx",
    "service_gap_ms",
    "settled_duplicates",
    "time_to_custody_ms",
    "time_to_inclusion_ms",
    "timeouts",
    "unharmed_latency_ms",
    "unmixed",
    "unresolved",
    "want_tx",
    "wire_bytes_per_byte",
    "wrong",
];

/// Metrics of which more is better.
const MORE: [&str; 16] = [
    "bytes_saved_factor",
    "compact_block_hit_rate",
    "completed",
    "delivered_share",
    "delivery_ratio",
    "gain",
    "message_delivery_ratio",
    "payload_share",
    "precomputation_share_of_bound",
    "precomputation_slots_per_s",
    "share_of_bound",
    "share_of_shape_bound",
    "slots_per_s",
    "successful_txs",
    "throughput_mb_per_s",
    "throughput_min_mb_per_s",
];

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller, the better.
    Less,
    /// The larger, the better.
    More,
}

/// Which way a metric (by its dotted path) is better; `None` of those that are neither, such as sizes and bounds.
pub fn better(path: &str) -> Option<Better> {
    let name = path.split('.').next().unwrap_or(path);
    // Slots and the like are figures of their own below a number.
    let inner = || path.split('.').find(|part| LESS.contains(part));
    if LESS.binary_search(&name).is_ok() || (name == "slots" && inner().is_some()) {
        Some(Better::Less)
    } else if MORE.binary_search(&name).is_ok() {
        Some(Better::More)
    } else {
        None
    }
}

/// Where a metric stands among others: those that say most come first, all others after them, equal.
pub fn rank(path: &str) -> usize {
    FIRST.iter().position(|first| *first == path).unwrap_or(FIRST.len())
}

/// Whether a metric is one of those that are shown first.
pub fn is_first(path: &str) -> bool {
    rank(path) < FIRST.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_disjoint() {
        assert!(LESS.is_sorted() && MORE.is_sorted());
        assert!(LESS.iter().all(|name| !MORE.contains(name)));
    }

    #[test]
    fn a_name_stands_for_what_is_below_it() {
        assert_eq!(better("time_to_custody_ms.p95"), Some(Better::Less));
        assert_eq!(better("packet_drops.random"), Some(Better::Less));
        assert_eq!(better("slots.0.incomplete"), Some(Better::Less));
        assert_eq!(better("throughput_mb_per_s"), Some(Better::More));
        for neither in
            ["mesh_size", "lower_bound_ms", "publish_interval_ms.mean", "slots.0.publisher_window_packets"]
        {
            assert_eq!(better(neither), None, "{neither}");
        }
        assert!(rank("time_to_custody_ms.mean") < rank("queue_drops") && !is_first("mesh_size"));
    }
}
