//! RandomSub: one node without a network.

use crate::common::*;
use samara_baselines::{Command, PubSub, PubSubConfig, RpcFrame};
use samara_engine::PeerId;

/// Returns a node on the topic with `peers` subscribed peers, `flooding` of which speak FloodSub.
fn on_topic(network_size: usize, peers: u32, flooding: u32) -> Node<PubSub> {
    let mut node = randomsub(PubSubConfig::default(), network_size);
    node.command(Command::Subscribe(topic()));
    for number in 0..peers {
        // Every third of the first peers, so that FloodSub peers are not contiguous.
        let floods = number % 3 == 0 && number / 3 < flooding;
        let peer = node.connect(if floods { "/floodsub/1.0.0" } else { "/randomsub/1.0.0" });
        node.frame(peer, joined());
    }
    node.sent();
    node
}

#[test]
fn the_fanout_is_the_root_of_the_size_rounded_up_and_at_least_six() {
    let expected = [
        (0, 6),
        (1, 6),
        (36, 6),
        (37, 7),
        (49, 7),
        (50, 8),
        (95, 10),
        (100, 10),
        (101, 11),
        (1000, 32),
        (10_000, 100),
    ];
    let fanout = |size| PubSub::randomsub(PubSubConfig::default(), identity(0), size).unwrap().fanout();
    for (size, expected) in expected {
        assert_eq!(fanout(size), Some(expected), "size {size}");
    }
    for size in 0..5000_usize {
        let root = (size as f64).sqrt().ceil() as usize;
        assert_eq!(fanout(size), Some(root.max(6)));
    }
}

#[test]
fn messages_go_to_exactly_fanout_peers() {
    // (size, peers, expected receivers of a message that peer 0 sends and of an own one)
    for (size, peers, forwarded, own) in [
        (95, 20, 10, 10),
        (95, 10, 9, 10),
        (10, 20, 6, 6),
        (10, 6, 5, 6),
        (1000, 100, 32, 32),
        (1000, 20, 19, 20),
    ] {
        let mut node = on_topic(size, peers, 0);
        node.frame(PeerId(0), RpcFrame::Publish(message(1)));
        let receivers = receivers(&node.sent());
        assert_eq!(receivers.len(), forwarded, "size {size}, {peers} peers");
        assert!(receivers.windows(2).all(|pair| pair[0] < pair[1]), "a peer got two copies");
        assert!(receivers.iter().all(|(peer, _)| *peer != PeerId(0)));
        node.command(Command::PublishMessage(message(2)));
        assert_eq!(crate::common::receivers(&node.sent()).len(), own, "size {size}, {peers} peers");
    }
}

#[test]
fn every_peer_is_drawn_equally_often() {
    let mut node = on_topic(95, 41, 0);
    let rounds = 4000;
    let mut counts = [0_f64; 41];
    for number in 0..rounds {
        node.frame(PeerId(0), RpcFrame::Publish(message(number)));
        for (peer, _) in receivers(&node.sent()) {
            counts[peer.index()] += 1.0;
        }
    }
    assert_eq!(counts[0], 0.0);
    // Each of 40 with probability 1/4: mean 1,000, deviation 27. Five deviations.
    assert!(counts[1..].iter().all(|count| (count - 1000.0).abs() < 140.0), "{counts:?}");
}

#[test]
fn floodsub_peers_get_every_message_in_addition() {
    let mut node = on_topic(95, 40, 5);
    for number in 0..50 {
        node.frame(PeerId(1), RpcFrame::Publish(message(number)));
        let receivers = receivers(&node.sent());
        assert_eq!(receivers.len(), 5 + 10);
        for flooding in [0, 3, 6, 9, 12] {
            assert!(receivers.contains(&(PeerId(flooding), number)));
        }
    }
}
