//! Plumtree: a tree forms, carries messages without redundancy, and heals.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use samara_baselines::{MessageId, Plumtree, PlumtreeConfig};
use samara_engine::{NodeRng, Purpose};
use samara_sim::identity_of;

use crate::harness::{Edges, Net, Say, Setup, millis, random_graph, topic};

fn build(setup: &Setup, config: PlumtreeConfig) -> Net<Plumtree> {
    let config = Arc::new(config);
    let outbox = config.outbox_config();
    let make = move |host| Plumtree::new(Arc::clone(&config), identity_of(host), topic()).unwrap();
    setup.build(outbox, make)
}

/// Publishes messages from random hosts of `authors`, one every `gap` milliseconds.
fn publish(
    net: &mut Net<Plumtree>,
    authors: &[u32],
    from_ms: f64,
    gap: f64,
    numbers: std::ops::Range<u64>,
) -> Vec<MessageId> {
    let mut rng = NodeRng::new(numbers.start, 0, Purpose::Workload);
    let times = (0..).map(|at| millis(from_ms + f64::from(at) * gap));
    numbers.zip(times).map(|(number, at)| net.publish(at, *rng.choose(authors).unwrap(), number)).collect()
}

/// The directed links on which messages travel.
fn eager(net: &Net<Plumtree>) -> BTreeSet<(u32, u32)> {
    let of = |host: u32| {
        let peers = net.engine(host).eager_peers().iter();
        peers.map(move |peer| (host, net.sim.peer_of(host, *peer)))
    };
    (0..net.nodes).filter(|host| net.sim.is_running(*host)).flat_map(of).collect()
}

fn is_symmetric(links: &BTreeSet<(u32, u32)>) -> bool {
    links.iter().all(|(a, b)| links.contains(&(*b, *a)))
}

/// Which hosts can be reached from the first of them.
fn reached(links: &BTreeSet<(u32, u32)>, from: u32) -> BTreeSet<u32> {
    let (mut known, mut todo) = (BTreeSet::from([from]), vec![from]);
    while let Some(host) = todo.pop() {
        for (_, next) in links.range((host, 0)..=(host, u32::MAX)) {
            if known.insert(*next) {
                todo.push(*next);
            }
        }
    }
    known
}

/// Copies beyond the first, per delivery (relative message redundancy: 0 is a tree, paper section 4.1).
fn redundancy(net: &Net<Plumtree>, before: (u64, u64)) -> f64 {
    let duplicates = net.sum(|metrics| metrics.duplicates_received) - before.0;
    let firsts = net.sum(|metrics| metrics.messages_delivered) - before.1;
    duplicates as f64 / firsts as f64
}

fn counts(net: &Net<Plumtree>) -> (u64, u64) {
    (net.sum(|metrics| metrics.duplicates_received), net.sum(|metrics| metrics.messages_delivered))
}

/// A network whose tree has settled.
fn settled(setup: &Setup) -> Net<Plumtree> {
    let mut net = build(setup, PlumtreeConfig::default());
    let all = net.all();
    let ids = publish(&mut net, &all, 1000.0, 100.0, 0..30);
    net.run_until(millis(5000.0));
    net.assert_delivered(&ids, &all, &format!("seed {}, while the tree forms", setup.seed));
    net
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn in_random_graphs_everybody_gets_everything_once(
        nodes in 5..80u32,
        degree in 3..10u32,
        gap in 0.0..50.0f64,
        seed: u64,
    ) {
        let setup = Setup::new(nodes, random_graph(nodes, degree, seed), seed);
        let mut net = build(&setup, PlumtreeConfig::default());
        let all = net.all();
        let ids = publish(&mut net, &all, 1000.0, gap, 0..40);
        net.run_until(millis(6000.0));
        net.assert_delivered(&ids, &all, &format!("seed {seed}"));
        prop_assert_eq!(net.lost, 0);
        prop_assert_eq!(net.sum(|metrics| metrics.messages_delivered), 40 * u64::from(nodes - 1));
    }
}

#[test]
fn after_the_first_messages_hardly_any_copy_is_redundant() {
    for seed in 0..10 {
        let mut net = settled(&Setup::new(100, random_graph(100, 8, seed), seed));
        let first = redundancy(&net, (0, 0));
        let before = counts(&net);
        let all = net.all();
        let ids = publish(&mut net, &all, 5000.0, 5.0, 100..500);
        net.run_until(millis(9000.0));
        net.assert_delivered(&ids, &all, &format!("seed {seed}"));
        let rmr = redundancy(&net, before);
        assert!(rmr < 0.05, "seed {seed}: redundancy {rmr}, {first} at first");
        println!("seed {seed}: {first:.4} over the first 30 messages, {rmr:.4} after");
    }
}

#[test]
fn the_tree_is_one_and_both_ends_of_a_link_know() {
    for seed in 0..10 {
        let mut net = settled(&Setup::new(100, random_graph(100, 8, seed), seed));
        let all = net.all();
        publish(&mut net, &all, 5000.0, 50.0, 100..150);
        net.run_until(millis(10_000.0));
        let links = eager(&net);
        assert!(is_symmetric(&links), "seed {seed}");
        assert_eq!(reached(&links, 0).len(), 100, "seed {seed}");
        assert_eq!(links.len(), 2 * 99, "seed {seed}: not a tree");
    }
}

#[test]
fn when_links_of_the_tree_break_nothing_is_lost() {
    for seed in 0..10 {
        let edges = random_graph(60, 8, seed);
        let mut net = settled(&Setup::new(60, edges, seed));
        let all = net.all();
        let ids = publish(&mut net, &all, 5000.0, 5.0, 100..400);
        // While messages travel, every fifth link of the tree is closed: half of them leave the network connected, since the
        // ring and much else is left.
        let links: Edges = eager(&net).into_iter().filter(|(a, b)| a < b).collect();
        for (at, (a, b)) in links.iter().step_by(5).enumerate() {
            net.sim.command(millis(5100.0 + at as f64 * 100.0), *a, Say::Close(*b));
        }
        net.run_until(millis(10_000.0));
        net.assert_delivered(&ids, &all, &format!("seed {seed}"));
        assert!(net.sum(|metrics| metrics.grafts_sent) > 0);
        // The new tree is as good as the old one.
        let before = counts(&net);
        let more = publish(&mut net, &all, 10_000.0, 5.0, 500..600);
        net.run_until(millis(13_000.0));
        net.assert_delivered(&more, &all, &format!("seed {seed}, healed"));
        let rmr = redundancy(&net, before);
        assert!(rmr < 0.05, "seed {seed}: {rmr}");
    }
}

/// Every eighth host crashes while messages travel.
fn crash(seed: u64, silent: bool) {
    let mut setup = Setup::new(64, random_graph(64, 10, seed), seed);
    setup.dead_peer_timeout = Duration::from_secs(3);
    let mut net = settled(&setup);
    let label = format!("seed {seed}, silent {silent}");
    let alive: Vec<u32> = (0..64).filter(|host| host % 8 != 0).collect();
    let ids = publish(&mut net, &alive, 5000.0, 5.0, 100..500);
    for at in 0..8 {
        net.sim.crash(millis(5100.0 + f64::from(at) * 100.0), at * 8, silent);
    }
    net.run_until(millis(12_000.0));
    net.assert_delivered(&ids, &alive, &label);
    let before = counts(&net);
    let more = publish(&mut net, &alive, 12_000.0, 5.0, 600..700);
    net.run_until(millis(15_000.0));
    net.assert_delivered(&more, &alive, &label);
    let rmr = redundancy(&net, before);
    assert!(rmr < 0.05, "{label}: {rmr}");
    let links = eager(&net);
    assert_eq!(reached(&links, 1).len(), alive.len(), "{label}");
}

#[test]
fn when_processes_end_nothing_is_lost() {
    (0..10).for_each(|seed| crash(seed, false));
}

#[test]
fn when_hosts_vanish_silently_nothing_is_lost() {
    (0..10).for_each(|seed| crash(seed, true));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let digest = |seed| settled(&Setup::new(50, random_graph(50, 6, 1), seed)).sim.digest();
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

#[test]
fn probe() {
    for (threshold, timeout) in [(None, 80), (None, 500), (Some(7), 500)] {
    for gap in [100.0, 20.0, 5.0] {
        let setup = Setup::new(100, random_graph(100, 8, 1), 1);
        let mut net = build(&setup, PlumtreeConfig { optimization_threshold: threshold, graft_timeout: Duration::from_millis(timeout), ..PlumtreeConfig::default() });
        let all = net.all();
        for round in 0..6u64 {
            let before = counts(&net);
            let g = net.sum(|m| m.grafts_sent);
            let p = net.sum(|m| m.prunes_sent);
            let o = net.sum(|m| m.optimizations);
            let start = 1000.0 + round as f64 * (gap * 100.0 + 2000.0);
            publish(&mut net, &all, start, gap, round * 100..round * 100 + 100);
            net.run_until(millis(start + gap * 100.0 + 1990.0));
            let links = eager(&net);
            println!("threshold {threshold:?} timeout {timeout} gap {gap} round {round}: rmr {:.3} grafts {} prunes {} opt {} eager {} sym {} reach {}", redundancy(&net, before),
                net.sum(|m| m.grafts_sent) - g, net.sum(|m| m.prunes_sent) - p, net.sum(|m|m.optimizations)-o, links.len(), is_symmetric(&links), reached(&links, 0).len());
        }
    }
    }
}
