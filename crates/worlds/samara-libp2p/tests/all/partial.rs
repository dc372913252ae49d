//! Partial messages between two of our nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use samara_gossipsub::partial::{Content, EqualParts, Exchange, FormatHook, PartialConfig};
use samara_gossipsub::rpc::{PartialMode, Topic};
use samara_gossipsub::{Acceptance, Config};

use crate::common::*;

const PARTS: u32 = 8;

fn topic() -> Topic {
    Topic::new("t")
}

fn config(part_bytes: usize, body_bytes_max: usize) -> Config {
    let topics = BTreeMap::from([(topic(), PartialMode::Requests)]);
    let format = FormatHook::new(EqualParts { parts: PARTS, part_bytes, group_bytes: 8, topics });
    // The groups outlive a reconnection on a busy machine.
    let exchange = Exchange { body_bytes_max, ..Exchange::one() };
    let partial = PartialConfig { exchange, group_ttl_heartbeats: 1_000, ..PartialConfig::new(format) };
    Config { partial: Some(Arc::new(partial)), ..anonymous() }
}

fn group(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Returns a part of a group, which consists of its number and that of the group.
fn part(group: &Bytes, number: u32, bytes: usize) -> Bytes {
    [&group[..], &u64::from(number).to_be_bytes()].concat().repeat(bytes / 16).into()
}

async fn provide(node: &Node, group: Bytes, numbers: impl Iterator<Item = u32>, part_bytes: usize) {
    let parts = numbers.map(|number| (number, part(&group, number, part_bytes))).collect();
    let content = Content { parts, ..Content::default() };
    node.with(move |behaviour| behaviour.provide(&topic(), &group, content)).await.expect("provided");
}

/// Accepts parts until the node has this number of groups.
async fn complete(node: &mut Node, groups: usize, part_bytes: usize) {
    let mut done = BTreeSet::new();
    while done.len() < groups {
        let (ticket, id) = node
            .next("parts", |observed| match observed {
                Observed::Parts(ticket, group) => Some((*ticket, Bytes::from(group.clone()))),
                _ => None,
            })
            .await;
        let group = id.clone();
        let have = node.with(move |behaviour| {
            behaviour.report_parts(ticket, Acceptance::Accept);
            behaviour.engine().parts(&topic(), &group).expect("a known group").to_vec()
        });
        let have: Option<Vec<Bytes>> = have.await.into_iter().collect();
        if let Some(have) = have {
            assert!(have.iter().zip(0..).all(|(data, number)| *data == part(&id, number, part_bytes)));
            done.insert(id);
        }
    }
}

/// The receiver refuses frames in which all parts would fit: 64 KiB is the default of rust-libp2p.
#[tokio::test]
async fn bodies_are_split() {
    for (part_bytes, body_bytes_max, frame_bytes_max) in
        [(16 << 10, 48 << 10, 64 << 10), (160 << 10, 320 << 10, 512 << 10)]
    {
        let config = config(part_bytes, body_bytes_max);
        let short = Config { max_message_bytes: 1024, max_rpc_bytes: frame_bytes_max, ..config.clone() };
        let mut sender = ours(config, options()).await;
        let mut receiver = ours(short, options()).await;
        meet(&mut sender, &mut receiver, "t", Dial::Ours).await;
        provide(&receiver, group(1), 0..0, part_bytes).await;
        provide(&sender, group(1), 0..PARTS, part_bytes).await;
        complete(&mut receiver, 1, part_bytes).await;
        assert_eq!(receiver.metrics().await.parts_received, u64::from(PARTS));
    }
}

#[tokio::test]
async fn groups_are_completed_after_a_reconnection() {
    const GROUPS: u64 = 20;
    let part_bytes = 16 << 10;
    let config = config(part_bytes, 48 << 10);
    let (mut a, mut b) = (ours(config.clone(), options()).await, ours(config, options()).await);
    meet(&mut a, &mut b, "t", Dial::Ours).await;
    for number in 0..GROUPS {
        // Each node has every second part.
        provide(&a, group(number), (0..PARTS).step_by(2), part_bytes).await;
        provide(&b, group(number), (1..PARTS).step_by(2), part_bytes).await;
        if number == GROUPS / 2 {
            a.send(Command::Disconnect(b.peer));
            // Not `next`, which would skip parts that await their verdict.
            let peer = a.peer;
            while b.with(move |behaviour| behaviour.handle(&peer)).await.is_some() {
                tokio::task::yield_now().await;
            }
            a.dial(&b);
        }
    }
    tokio::join!(
        complete(&mut a, GROUPS as usize, part_bytes),
        complete(&mut b, GROUPS as usize, part_bytes)
    );
}

/// Twenty nodes complete a thousand groups. Each node begins with some parts of each group, as in the
/// chain of test-plans: the limits of groups that peers create do not apply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes some minutes"]
async fn twenty_nodes_complete_a_thousand_groups() {
    const NODES: usize = 20;
    const GROUPS: u64 = 1_000;
    // Groups that wait for long are forgotten.
    const WAVE: u64 = 50;
    let part_bytes = 16;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(ours(config(part_bytes, 48 << 10), options()).await);
    }
    for (number, node) in nodes.iter().enumerate() {
        node.subscribe("t");
        for step in [1, 3, 7] {
            node.dial(&nodes[(number + step) % NODES]);
        }
    }
    for node in &nodes {
        node.mesh_of("t", 4).await;
    }
    let barrier = &tokio::sync::Barrier::new(NODES);
    let all = (0..).zip(nodes).map(|(number, mut node)| async move {
        for first in (0..GROUPS).step_by(WAVE as usize) {
            for of in first..first + WAVE {
                // One or two nodes have each part.
                let own = (0..PARTS).filter(|part| (of + u64::from(*part)) % 13 == number % 13);
                provide(&node, group(of), own, part_bytes).await;
            }
            complete(&mut node, WAVE as usize, part_bytes).await;
            // Complete nodes still serve the others.
            barrier.wait().await;
        }
    });
    libp2p::futures::future::join_all(all).await;
}
