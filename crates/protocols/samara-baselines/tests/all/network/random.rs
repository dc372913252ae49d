//! RandomSub: the number of copies, and the number of nodes they reach.

use std::sync::Arc;

use samara_baselines::{PubSub, PubSubConfig};
use samara_sim::identity_of;

use super::harness::{Net, Setup, full_mesh, millis, random_graph};

fn build(setup: &Setup, network_size: usize) -> Net<PubSub> {
    let config = Arc::new(PubSubConfig::default());
    let outbox = config.common.outbox_config();
    let make = move |host| PubSub::randomsub(Arc::clone(&config), identity_of(host), network_size).unwrap();
    setup.build(outbox, make)
}

#[test]
fn in_a_full_mesh_each_node_sends_exactly_the_fanout_and_nearly_all_are_reached() {
    let (nodes, messages) = (95, 40);
    let mut reached = 0;
    for seed in 0..4 {
        let mut net = build(&Setup::new(nodes, full_mesh(nodes), seed), nodes as usize);
        assert_eq!(net.engine(0).fanout(), Some(10));
        for number in 0..messages {
            net.publish(millis(1000.0 + number as f64 * 5.0), number as u32 * 2, number);
        }
        net.run_until(millis(4000.0));
        let delivered = net.sum(|metrics| metrics.messages_delivered);
        assert_eq!(net.sum(|metrics| metrics.published_copies), 10 * messages);
        assert_eq!(net.sum(|metrics| metrics.forwarded_copies), 10 * delivered);
        // Every copy either arrived or was withdrawn because its receiver already had the message.
        let received = net.sum(|metrics| metrics.messages_received);
        let withdrawn = net.sum(|metrics| metrics.withdrawn_copies);
        assert_eq!(received + withdrawn, 10 * (messages + delivered));
        reached += delivered;
    }
    // A node is missed if none of the about 94 others draws it: (1 - 10/93)^94, one in 43,000;
    // 15,040 deliveries.
    let expected = 4 * messages * u64::from(nodes - 1);
    assert!(reached <= expected && reached + 5 >= expected, "{reached} of {expected}");
}

#[test]
fn fanout_of_six_misses_as_many_nodes_as_theory_predicts() {
    let (nodes, messages, seeds) = (200, 50, 4);
    let mut reached = 0;
    for seed in 0..seeds {
        // `network_size` is too small for the network: each node sends six copies.
        let mut net = build(&Setup::new(nodes, full_mesh(nodes), seed), 1);
        for number in 0..messages {
            net.publish(millis(1000.0 + number as f64 * 5.0), number as u32 * 3, number);
        }
        net.run_until(millis(4000.0));
        reached += net.sum(|metrics| metrics.messages_delivered);
    }
    // The share r that an epidemic of fanout f reaches solves r = 1 - exp(-f r): 1 - 0.0025 for 6
    // (Kermack and McKendrick 1927; Bollobas for random graphs). Of 40,000 deliveries, 100 are
    // missed, give or take some tens.
    let expected = f64::from(seeds as u32) * messages as f64 * f64::from(nodes - 1);
    let missed = 1.0 - reached as f64 / expected;
    assert!((0.0012..0.0045).contains(&missed), "missed {missed}");
}

#[test]
fn randomsub_reaches_all_nodes_of_sparse_graphs() {
    for seed in 0..5 {
        // No node has more neighbours than the fanout for a network of 10,000 nodes, 100.
        let mut net = build(&Setup::new(60, random_graph(60, 6, seed), seed), 10_000);
        let ids: Vec<_> = (0..20)
            .map(|number| net.publish(millis(1000.0 + number as f64 * 5.0), number as u32, number))
            .collect();
        net.run_until(millis(4000.0));
        net.assert_delivered(&ids, &net.all(), &format!("seed {seed}"));
    }
}
