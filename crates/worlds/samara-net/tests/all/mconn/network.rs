//! Transactions among our own nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_cat::config::Preset;
use samara_net::mconn::{Flush, Options};

use crate::mconn::common::*;

#[tokio::test]
async fn a_transaction_crosses_a_line_of_nodes() {
    let first = ours(1, &[]).await;
    let middle = ours(2, &[first.address()]).await;
    let last = ours(3, &[middle.address()]).await;
    middle.linked(2).await;
    let key = first.submit(vec![b'h'; 500]).await;
    last.has(&BTreeSet::from([key])).await;
    // The middle node received a push. It announced the transaction to the last node, as it is
    // longer than its key, and the last node requested it.
    assert_eq!(middle.metrics().await.requested_txs, 0);
    assert_eq!(last.metrics().await.requested_txs, 1);
    assert_eq!(last.metrics().await.bodies_received, 1);
    assert!(last.status().await.peers.iter().all(|peer| &*peer.protocol == "cat/2"));
}

#[tokio::test]
async fn transactions_of_all_sizes_arrive_both_ways() {
    let one = ours(4, &[]).await;
    let other = ours(5, &[one.address()]).await;
    one.linked(1).await;
    let mut keys = BTreeSet::new();
    // Lengths around a packet, a sealed frame and the buffer, and the maximum.
    for len in [1, 1000, 1008, 1012, 1020, 1021, 1024, 1025, 2048, 4096, 65_536, 70_000, 1 << 20] {
        keys.insert(one.submit(vec![b'a'; len]).await);
        keys.insert(other.submit(vec![b'b'; len]).await);
    }
    one.has(&keys).await;
    other.has(&keys).await;
    let (one, other) = (one.status().await.counters, other.status().await.counters);
    assert_eq!(one.payload_bytes_down, other.payload_bytes_up);
    assert_eq!((one.bytes_up % 1044, one.bytes_down % 1044), (0, 0), "sealed frames are whole");
}

/// With 100 ms as in CometBFT, a small message waits, and all messages leave in one sealed frame.
#[tokio::test]
async fn the_flush_throttle_collects_small_messages() {
    let throttled = Options { flush: Flush::Throttle(Duration::from_millis(100)), ..options() };
    let one = start(6, Preset::CatMerged.config(), throttled.clone()).await;
    let peers = vec![one.address()];
    let other = start(7, Preset::CatMerged.config(), Options { peers, ..throttled }).await;
    one.linked(1).await;
    let mut keys = BTreeSet::new();
    for number in 0..20 {
        keys.insert(one.submit(format!("small {number}")).await);
    }
    let before = std::time::Instant::now();
    other.has(&keys).await;
    assert!(before.elapsed() >= Duration::from_millis(50), "{:?}", before.elapsed());
    let frames = one.status().await.counters.bytes_up / 1044;
    assert!(frames <= 4, "{frames} sealed frames for 20 small transactions");
}

#[tokio::test]
async fn old_and_new_pools_agree_on_what_both_understand() {
    let cases = [
        (Preset::Cat, Preset::Cat, "cat/2"),
        (Preset::Cat, Preset::CatMerged, "cat/1"),
        (Preset::Cat2023, Preset::Cat, "cat/1"),
        (Preset::Cat, Preset::FloodFifo, "txs/1"),
        (Preset::CatMerged, Preset::FloodPriority, "txs/1"),
        (Preset::Cat, Preset::Cat2025, "cat/3"),
        (Preset::Cat2026, Preset::Cat, "cat/3"),
        (Preset::Cat2025, Preset::Cat2026, "cat/3"),
    ];
    for (number, (one, other, protocol)) in (10..).step_by(2).zip(cases) {
        let first = start(number, one.config(), options()).await;
        let peers = vec![first.address()];
        let second = start(number + 1, other.config(), Options { peers, ..options() }).await;
        for node in [&first, &second] {
            node.linked(1).await;
            assert_eq!(&*node.status().await.peers[0].protocol, protocol, "{one:?} and {other:?}");
        }
        if protocol != "cat/3" {
            let keys = BTreeSet::from([first.submit("one").await, second.submit("other").await]);
            first.has(&keys).await;
            second.has(&keys).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_transactions_reach_ten_nodes() {
    let mut nodes: Vec<Ours> = Vec::new();
    for number in 0..10u8 {
        let dial = nodes.iter().rev().take(3).map(Ours::address).collect::<Vec<_>>();
        nodes.push(ours(40 + number, &dial).await);
    }
    nodes[9].linked(3).await;
    nodes[0].linked(3).await;
    let mut keys = BTreeSet::new();
    for number in 0..200usize {
        keys.insert(nodes[number % 10].submit(format!("{number:>4096}")).await);
    }
    for node in &nodes {
        node.has(&keys).await;
        assert_eq!(node.status().await.counters.events_lost, 0);
    }
}
