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
            up: is_linked(metrics),
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

/// Returns false if the node counts its links and has none. Our nodes write a row for each protocol of
/// their peers, and so none without peers; other programs do not count them.
fn is_linked(metrics: &Metrics) -> bool {
    let counts = |name| metrics.known(name).is_some();
    let peers = if counts("samara_mempool_owed_copies") {
        "samara_mempool_peers"
    } else if counts("samara_owed_copies") {
        "samara_peers"
    } else {
        return true;
    };
    metrics.known(peers).is_some_and(|peers| peers > 0.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_without_peers_have_no_link() {
        let gossip = "samara_owed_copies 0\nsamara_peers{protocol=\"/meshsub/1.2.0\"} ";
        let pool =
            "samara_owed_copies 0\nsamara_mempool_owed_copies 3\nsamara_mempool_peers{protocol=\"cat/2\"} ";
        for (text, expected) in [
            (format!("{gossip}2"), true),
            (format!("{gossip}0"), false),
            ("samara_owed_copies 0".to_owned(), false),
            (format!("{pool}1"), true),
            ("samara_owed_copies 0\nsamara_mempool_owed_copies 0".to_owned(), false),
            // Another program.
            ("samara_bytes_up_total 7".to_owned(), true),
        ] {
            assert_eq!(is_linked(&Metrics::parse(&text)), expected, "{text}");
        }
    }
}
