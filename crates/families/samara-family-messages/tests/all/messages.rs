//! Streams of messages with every protocol: from the scenario to the figures.

use samara_family_messages::MessagesData;
use samara_lab::results::Outcome;

use crate::{loaded, outcomes};

fn results(set: &[(&str, &str)], only: &[&str], threads: usize) -> Vec<Outcome<MessagesData>> {
    let small = [
        ("messages.duration", "3 s"),
        ("messages.rate", "40"),
        ("messages.warm_up", "6 s"),
        ("messages.cool_down", "20 s"),
    ];
    outcomes(&loaded("gossip-baselines", &[&small[..], set].concat(), only, None), threads)
}

#[test]
fn reliable_protocols_deliver_everything() {
    for result in results(&[], &[], 1) {
        let (name, metrics) = (&result.run.name, &result.metrics);
        assert_eq!(metrics.messages, 120, "{name}");
        // RandomSub has no guarantee.
        if name != "randomsub" {
            assert_eq!((metrics.incomplete, metrics.deliveries.delivery_ratio), (0, 1.0), "{name}");
        }
        let times = metrics.dissemination_ms.unwrap();
        assert!(metrics.lower_bound_ms > 0.0 && metrics.lower_bound_ms < times.mean, "{name}: {metrics:?}");
        assert!(times.p50 <= times.p95 && times.p95 <= times.p99 && times.p99 <= times.max, "{name}");
        let hops = metrics.last_delivery_hop.unwrap();
        assert!(hops.mean >= 2.0 && hops.max < 20.0, "{name}: {hops:?}");
        let shares =
            metrics.shares.payload_share + metrics.shares.duplicate_share + metrics.shares.control_share;
        assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
        assert_eq!(metrics.queue_drops, 0, "{name}");
        // There are 25 ms between two publications in the network.
        let interval = metrics.publish_interval_ms.unwrap();
        assert!((interval.mean - 25.0).abs() < 1e-6 && (interval.max - 25.0).abs() < 1e-6, "{name}");
    }
}

/// Flooding sends every message over every link once or twice. Nodes receive
/// links x 2 - (nodes - 1) copies, less the copies that cross in transit.
#[test]
fn flooding_copies_match_the_graph() {
    let result = &results(&[], &["floodsub"], 1)[0];
    let (links, nodes) = (f64::from(result.degrees.iter().sum::<u32>()) / 2.0, 95.0);
    let (least, most) = (links / (nodes - 1.0), (2.0 * links - (nodes - 1.0)) / (nodes - 1.0));
    let copies = result.metrics.deliveries.duplication_factor;
    assert!(copies >= least && copies <= most + 1e-9, "{copies}, between {least} and {most}");
    let gossip = &results(&[], &["gossipsub"], 1)[0];
    assert!(gossip.metrics.deliveries.duplication_factor < copies, "meshes save copies");
}

#[test]
fn number_of_threads_does_not_change_results() {
    let digests = |threads| -> Vec<String> {
        results(&[], &["gossipsub", "plumtree"], threads)
            .iter()
            .map(|result| result.run.digest.clone())
            .collect()
    };
    assert_eq!(digests(1), digests(3));
}

/// On a graph with hubs and leaves, today's rules leave some nodes without a mesh. Gossip to all
/// rejected peers loses nothing, random gossip does.
#[test]
fn sparse_graphs_lose_nothing_with_gossip_to_rejected_peers() {
    let sparse = ("network.topology.file", "builtin:graphs/barabasi_albert_95_m2_seed42.csv");
    for version in ["\"1.0\"", "\"1.2\""] {
        let set = [sparse, ("protocol.version", version)];
        let gossiped = &results(&set, &["gossipsub"], 2)[0];
        assert_eq!(gossiped.metrics.incomplete, 0, "{version}");
    }
    let random =
        [("protocol.version", "\"1.0\""), ("protocol.gossip_to_pruned", "false"), ("messages.rate", "150")];
    let set = [sparse, random[0], random[1], random[2]];
    let random = &results(&set, &["gossipsub"], 2)[0];
    assert!(random.metrics.incomplete > 0, "{:?}", random.metrics);
}

#[test]
fn losses_of_small_queues_are_counted_by_link() {
    let set = [
        ("network.topology.file", "builtin:graphs/barabasi_albert_95_m2_seed42.csv"),
        ("protocol.queue", "2"),
        ("protocol.overflow", "drop-newest"),
    ];
    let result = &results(&set, &["gossipsub-1.0"], 1)[0];
    let lost: u64 = result.lost.values().sum();
    assert!(lost > 0 && lost == result.metrics.queue_drops, "{lost}, {}", result.metrics.queue_drops);
    assert!(result.lost.keys().all(|(node, peer)| node != peer && *node < 95 && *peer < 95));
}

#[test]
fn validation_time_delays_dissemination() {
    let slow = &results(&[("network.validation_time", "3 ms")], &["gossipsub"], 1)[0];
    let fast = &results(&[], &["gossipsub"], 1)[0];
    let mean = |result: &Outcome<MessagesData>| result.metrics.dissemination_ms.unwrap().mean;
    assert!(mean(slow) > mean(fast) + 6.0, "{} and {}", mean(slow), mean(fast));
}
