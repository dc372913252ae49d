//! FloodSub: all nodes get all messages, and the number of copies has a closed form.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use samara_baselines::{Common, MessageId, PubSub, PubSubConfig};
use samara_sim::{Latency, identity_of};

use super::harness::{Edges, Net, Setup, full_mesh, millis, random_graph, random_tree, ring};

fn flooding(setup: &Setup) -> Net<PubSub> {
    // The number of withdrawn copies has no closed form.
    let common = Common { withdraw: false, ..Common::default() };
    let config = Arc::new(PubSubConfig { common, ..PubSubConfig::default() });
    let outbox = config.common.outbox_config();
    setup.build(outbox, move |host| PubSub::floodsub(Arc::clone(&config), identity_of(host)).unwrap())
}

fn neighbours(edges: &Edges, host: u32) -> BTreeSet<u32> {
    let other = |(a, b): &(u32, u32)| match (*a == host, *b == host) {
        (true, _) => Some(*b),
        (_, true) => Some(*a),
        _ => None,
    };
    edges.iter().filter_map(other).collect()
}

/// Returns the number of copies of a message: each node sends one to each neighbour except the
/// sender of its own copy and the author.
fn copies(net: &Net<PubSub>, edges: &Edges, id: &MessageId, author: u32) -> u64 {
    let of = |host: u32| {
        let mut peers = neighbours(edges, host);
        peers.remove(&author);
        net.deliveries[id][&host].from.map(|from| peers.remove(&from));
        peers.len() as u64
    };
    (0..net.nodes).map(of).sum()
}

fn run(setup: &Setup, messages: u64) -> (Net<PubSub>, Vec<(MessageId, u32)>) {
    let mut net = flooding(setup);
    let author = |number: u64| (number * 7 % u64::from(setup.nodes)) as u32;
    let ids: Vec<_> = (0..messages)
        .map(|number| {
            let at = millis(1000.0 + number as f64 * 5.0);
            (net.publish(at, author(number), number), author(number))
        })
        .collect();
    net.run_until(millis(5000.0));
    let all: Vec<MessageId> = ids.iter().map(|(id, _)| *id).collect();
    net.assert_delivered(&all, &net.all(), &format!("seed {}", setup.seed));
    assert_eq!(net.lost, 0);
    (net, ids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_graphs_deliver_everything_once_at_the_predicted_cost(
        nodes in 10..80u32,
        degree in 3..10u32,
        seed: u64,
    ) {
        let edges = random_graph(nodes, degree, seed);
        let (net, ids) = run(&Setup::new(nodes, edges.clone(), seed), 20);
        let expected: u64 = ids.iter().map(|(id, author)| copies(&net, &edges, id, *author)).sum();
        prop_assert_eq!(net.sum(|metrics| metrics.messages_received), expected);
        let firsts = 20 * u64::from(nodes - 1);
        prop_assert_eq!(net.sum(|metrics| metrics.messages_delivered), firsts);
        prop_assert_eq!(net.sum(|metrics| metrics.duplicates_received), expected - firsts);
    }
}

#[test]
fn on_a_tree_each_link_carries_each_message_once() {
    for seed in 0..10 {
        let (net, _) = run(&Setup::new(60, random_tree(60, seed), seed), 20);
        assert_eq!(net.sum(|metrics| metrics.messages_received), 20 * 59);
        assert_eq!(net.sum(|metrics| metrics.duplicates_received), 0);
    }
}

#[test]
fn on_a_ring_each_message_causes_two_duplicates() {
    for seed in 0..10 {
        // The author sends two copies, every other node one: n + 1 in total, of which n - 1 are
        // new.
        let (net, _) = run(&Setup::new(31, ring(31), seed), 20);
        assert_eq!(net.sum(|metrics| metrics.messages_received), 20 * 32);
        assert_eq!(net.sum(|metrics| metrics.duplicates_received), 20 * 2);
    }
}

#[test]
fn in_a_full_mesh_of_equal_links_everybody_sends_to_everybody() {
    let nodes = 24;
    let mut setup = Setup::new(nodes, full_mesh(nodes), 1);
    setup.latency = Latency::Constant(Duration::from_millis(5));
    // With (1,000 + some bytes) * 23 at 1 Gbit/s, all first copies come from the author. Each other
    // node sends to all but the author and itself: (n - 1) + (n - 1)(n - 2).
    let (net, _) = run(&setup, 20);
    let others = u64::from(nodes - 1);
    assert_eq!(net.sum(|metrics| metrics.messages_received), 20 * others * others);
}
