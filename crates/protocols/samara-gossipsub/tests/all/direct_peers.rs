//! Dialling, delivery and scores of direct peers.

use std::time::Duration;

use crate::common::*;
use samara_engine::{LinkRequest, PeerId};
use samara_gossipsub::{Config, Ignored};

/// Creates a node and peers on a topic; peer 0 is direct.
fn with_direct(config: Config, count: usize) -> (Node, Vec<PeerId>) {
    Node::on_topic(Config { direct_peers: vec![identity(0)], ..config }, "t", count, 0)
}

#[test]
fn missing_direct_peers_are_dialled_at_the_start_and_again() {
    let mut node = Node::new(Config { direct_peers: vec![identity(0), identity(1)], ..plain() });
    node.advance(Duration::from_millis(900));
    assert!(node.links.is_empty());
    node.advance(Duration::from_millis(200));
    let dial = |number| LinkRequest::Dial(identity(number));
    assert_eq!(node.links, [dial(0), dial(1)]);
    node.links.clear();
    node.connect_identity(PeerId(0), identity(0), V1_2, true);
    node.heartbeats(300);
    assert_eq!(node.links, [dial(1)], "every 300 heartbeats");
}

#[test]
fn direct_peers_get_every_message_and_are_in_no_mesh() {
    let (mut node, peers) = with_direct(plain(), 20);
    assert!(!node.mesh("t").contains(&peers[0]));
    node.rpc(node.mesh("t")[0], publish([message("t", 1, 10)]));
    assert!(node.sent().receivers().contains(&peers[0]));
    node.publish("t", 10);
    assert!(node.sent().receivers().contains(&peers[0]));
    node.heartbeats(5);
    assert!(!node.mesh("t").contains(&peers[0]));
    assert!(node.sent().ihaves().iter().all(|(peer, _)| *peer != peers[0]), "direct peers receive no gossip");
}

#[test]
fn direct_peers_get_only_topics_that_they_joined() {
    let mut node = Node::new(Config { direct_peers: vec![identity(0)], ..plain() });
    node.connect();
    node.subscribe("t");
    node.publish("t", 10);
    assert!(node.sent().receivers().is_empty());
}

#[test]
fn a_graft_from_a_direct_peer_is_answered_by_prune() {
    let (mut node, peers) = with_direct(plain(), 3);
    node.rpc(peers[0], graft(&["t"]));
    assert_eq!(node.sent().pruned("t"), [peers[0]]);
    assert_eq!(node.ignored(Ignored::GraftDirectPeer), 1);
    assert!(!node.mesh("t").contains(&peers[0]));
}

#[test]
fn direct_peers_are_exempt_from_scores() {
    let (mut node, peers) = with_direct(scored(), 6);
    node.set_score(peers[0], -1000.0);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    assert_eq!(node.delivered().len(), 1);
    node.sent();
    node.rpc(peers[1], publish([message("t", 2, 10)]));
    assert!(node.sent().receivers().contains(&peers[0]));
}

#[test]
fn direct_peers_can_be_added_and_removed_at_run_time() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    assert!(node.mesh("t").contains(&peers[3]));
    node.with(|engine, cx| engine.add_direct_peer(identity(3), cx));
    assert!(!node.mesh("t").contains(&peers[3]));
    assert_eq!(node.sent().pruned("t"), [peers[3]]);
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), peers);

    node.with(|engine, cx| engine.remove_direct_peer(&identity(3), cx));
    node.publish("t", 10);
    assert!(!node.sent().receivers().contains(&peers[3]));
    node.with(|engine, cx| engine.add_direct_peer(identity(99), cx));
    assert_eq!(node.links.last(), Some(&LinkRequest::Dial(identity(99))));
}
