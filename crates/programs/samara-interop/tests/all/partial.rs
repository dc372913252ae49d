//! The scenarios of test-plans with partial messages, in seconds instead of minutes, for each
//! composition of implementations.
//!
//! Every node reports each group of which it has all parts, as `checks/partial_messages.py` of
//! test-plans requires.

use std::path::PathBuf;
use std::time::Duration;

use samara_engine::{NodeRng, Purpose};
use serde_json::{Value, json};

use crate::network::{at, missing, output, run, skipped, start};
use crate::peers::Peer::{self, *};

/// The chain needs 8: the groups of its nodes depend on the number.
const NODES: usize = 8;
/// Number of nodes in `partial-messages` of test-plans.
const RANDOM_NODES: usize = 32;
const ALL_PARTS: u8 = u8::MAX;

/// The implementations that take the nodes in turn. The first one has the publisher of the fanout.
///
/// Compositions without our runner are left out, as each takes half a minute and tests only others:
/// one of them alone, two in either order, and all three. To see whether a failure is ours, replace
/// `Samara` here.
const COMPOSITIONS: &[&[Peer]] = &[
    &[Samara],
    &[Samara, Go16],
    &[Go16, Samara],
    &[Samara, Go19],
    &[Go19, Samara],
    &[Samara, Rust],
    &[Rust, Samara],
    &[Samara, Go16, Go19, Rust],
];

/// Time between the starts of two networks, which would delay the connections of each other on a
/// machine with two cores. Later, they wait most of the time.
const START_INTERVAL: Duration = Duration::from_millis(300);

/// The line that test-plans counts, byte for byte.
const COMPLETE: &str = r#""msg":"All parts received""#;

fn wait(seconds: usize) -> Value {
    json!({"type": "waitUntil", "elapsedSeconds": seconds})
}

fn subscribe(topic: &str) -> Value {
    json!({"type": "subscribeToTopic", "topicID": topic, "partial": true})
}

fn add(topic: &str, group: usize, parts: u8) -> Value {
    json!({"type": "addPartialMessage", "topicID": topic, "groupID": group, "parts": parts})
}

fn publish(topic: &str, group: usize) -> Value {
    json!({"type": "publishPartial", "topicID": topic, "groupID": group})
}

/// Connects all nodes. Of each pair, either node may dial.
fn complete_graph() -> Vec<Vec<usize>> {
    let dials =
        |node: usize, other: usize| node != other && (node < other) == (node + other).is_multiple_of(2);
    (0..NODES).map(|node| (0..NODES).filter(|other| dials(node, *other)).collect()).collect()
}

/// Every node has some parts of one group, and publishes them. In another topic, node 0 publishes
/// all parts of a group, but does not subscribe. Times are seconds: of the publication, and of the end.
fn exchange(connections: &[Vec<usize>], parts: &[u8], [start_at, end_at]: [usize; 2]) -> Vec<Value> {
    let (topic, group) = ("a-subnet", 42);
    let (fanout, other) = ("b-subnet", 7);
    let nodes = parts.len();
    let mut script = start(connections);
    script.push(subscribe(topic));
    script.extend((1..nodes).map(|node| at(node, subscribe(fanout))));
    script.push(wait(start_at - 1));
    script.extend(parts.iter().enumerate().map(|(node, parts)| at(node, add(topic, group, *parts))));
    script.push(at(0, add(fanout, other, ALL_PARTS)));
    // Not all clocks begin at the same moment: every node has its parts before it hears of others'.
    script.push(wait(start_at));
    script.push(publish(topic, group));
    let mut publish = publish(fanout, other);
    publish["publishToNodeIDs"] = (1..nodes).collect();
    script.push(at(0, publish));
    script.push(wait(end_at));
    script
}

/// Each part is at three nodes at least; no node has all, and node 3 has none.
fn complete() -> Vec<Value> {
    exchange(&complete_graph(), &[0x1f, 0xa4, 0x93, 0x00, 0xf1, 0x4a, 0x6c, 0x0a], [7, 12])
}

/// The size and the times of test-plans: each node dials 20 others and has random parts.
fn random(seed: u64) -> Vec<Value> {
    let mut rng = NodeRng::new(seed, 0, Purpose::Workload);
    let mut dials = |node: usize| {
        let mut others: Vec<usize> = (0..RANDOM_NODES).filter(|other| *other != node).collect();
        rng.shuffle(&mut others);
        others.truncate(20);
        others
    };
    let connections: Vec<Vec<usize>> = (0..RANDOM_NODES).map(&mut dials).collect();
    let mut parts: Vec<u8> = (0..RANDOM_NODES).map(|_| rng.below(256) as u8).collect();
    // Every part is somewhere.
    parts[1] = !parts[2];
    exchange(&connections, &parts, [30, 40])
}

const CHAIN_GROUPS: usize = 16;

/// The nodes form a line. Each has one part of every group, and all publish one group after another.
fn chain() -> Vec<Value> {
    let topic = "partial-msg-chain";
    let neighbours: Vec<Vec<usize>> =
        (0..NODES).map(|node| (node + 1..NODES.min(node + 2)).collect()).collect();
    let mut script = start(&neighbours);
    script.push(subscribe(topic));
    script.push(wait(6));
    for group in 0..CHAIN_GROUPS {
        for part in 0..NODES {
            script.push(at((group * NODES + part) % NODES, add(topic, group, 1 << part)));
        }
    }
    for group in 0..CHAIN_GROUPS {
        script.push(wait(7 + group / 8));
        script.push(publish(topic, group));
    }
    script.push(wait(14));
    script
}

/// Runs a script with every composition. Every node must complete the number of groups.
fn everyone_completes(scenario: &str, script: fn() -> Vec<Value>, groups: usize) {
    if let Some(why) = missing() {
        return skipped(&why);
    }
    let failures: Vec<String> = std::thread::scope(|scope| {
        let started = COMPOSITIONS.iter().enumerate().map(|(number, peers)| {
            scope.spawn(move || {
                std::thread::sleep(START_INTERVAL * number as u32);
                completes(scenario, script(), NODES, peers, groups)
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().filter_map(|run| run.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn completes(
    scenario: &str,
    script: Vec<Value>,
    nodes: usize,
    peers: &[Peer],
    groups: usize,
) -> Result<(), String> {
    let name = peers.iter().fold(scenario.to_owned(), |name, peer| format!("{name}-{peer:?}"));
    let Some(programs) = peers.iter().map(|peer| peer.program()).collect::<Option<Vec<PathBuf>>>() else {
        return Ok(());
    };
    let out = run(&name, script, nodes, &programs).map_err(|error| format!("{name}: {error}"))?;
    let found: Vec<usize> = (0..nodes).map(|node| output(&out, node).matches(COMPLETE).count()).collect();
    if found.iter().all(|found| *found == groups) {
        return Ok(());
    }
    Err(format!("{name}: the nodes completed {found:?} groups, expected {groups} each"))
}

#[test]
fn nodes_exchange_their_parts_and_a_publisher_need_not_subscribe() {
    everyone_completes("partial-messages", complete, 2);
}

#[test]
fn parts_pass_along_a_chain() {
    everyone_completes("partial-messages-chain", chain, CHAIN_GROUPS);
}

/// One network at a time: 32 processes share the processors.
#[test]
#[ignore = "takes 45 s for each of 24 networks"]
fn random_networks_of_the_size_of_test_plans_complete_with_every_seed() {
    if let Some(why) = missing() {
        return skipped(&why);
    }
    for seed in 1..=3 {
        for peers in COMPOSITIONS {
            completes(&format!("partial-messages-{seed}"), random(seed), RANDOM_NODES, peers, 2).unwrap();
        }
    }
}
