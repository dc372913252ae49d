//! Writes the counters of running nodes to the live file.

use samara_lab::run::Progress;
use samara_trace::live::{Event, LiveWriter};

use crate::client::Metrics;
use crate::run::unix_ns;

/// The peer name of counters that a node keeps over all its links.
const ALL_PEERS: &str = "all peers";

/// Reports the counters of a node, except those that its implementation lacks.
pub(crate) fn report(live: &LiveWriter, node: usize, metrics: &Metrics) {
    let (at, name) = (unix_ns(), format!("node-{node}"));
    let say = |event| live.say_of(Some(&name), at, event);
    let total = |metric: &str| metrics.known(metric).map(|value| value as u64);
    // A pool has no messages, although the node that contains it counts them.
    let transactions = total("samara_mempool_added_txs_total").map(|total| (total, "transactions"));
    let messages = || total("samara_messages_delivered_total").map(|total| (total, "messages"));
    if let Some((total, of)) = transactions.or_else(messages) {
        say(Event::Throughput { of: of.to_owned(), total, bytes: None });
    }
    for (metric, queue) in [("samara_owed_copies", "owed copies"), ("samara_mempool_size", "pool")] {
        if let Some(entries) = total(metric) {
            say(Event::Queue { queue: queue.to_owned(), entries, bytes: total(&format!("{metric}_bytes")) });
        }
    }
    let (bytes_up, bytes_down) = (total("samara_bytes_up_total"), total("samara_bytes_down_total"));
    if bytes_up.or(bytes_down).is_some() {
        say(Event::Link {
            peer: ALL_PEERS.to_owned(),
            up: true,
            round_trip_ns: None,
            bytes_up,
            bytes_down,
            queued_frames: total("samara_owed_copies"),
            queued_bytes: None,
        });
    }
    for (metric, what) in [
        ("samara_queue_drops_total", "did not fit into a queue"),
        ("samara_promises_broken_total", "announced and never sent"),
        ("samara_mempool_rejected_txs_total", "transaction refused"),
        ("samara_mempool_lost_txs_total", "no peer left to ask"),
    ] {
        if let Some(total) = total(metric) {
            say(Event::Errors { cause: what.to_owned(), total });
        }
    }
}

pub(crate) fn delivered(deliveries: f64, expected: u64) -> Progress {
    Progress {
        share: (deliveries / expected as f64).min(1.0),
        deliveries: Some(deliveries as u64),
        deliveries_expected: Some(expected),
        ..Progress::default()
    }
}

/// The progress of an activity without a count of deliveries.
pub(crate) fn at(share: f64) -> Progress {
    Progress { share, ..Progress::default() }
}
