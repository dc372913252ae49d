//! Peers that speak floodsub.

use crate::common::*;
use samara_gossipsub::Ignored;

#[test]
fn floodsub_peers_get_every_message_and_are_in_no_mesh() {
    let (mut node, mut peers) = Node::on_topic(plain(), "t", 3, 0);
    let flooding = node.join_as(FLOODSUB, "t", false);
    node.join_as(FLOODSUB, "u", false);
    node.heartbeat();
    let sent = node.sent();
    assert_eq!(node.mesh("t"), peers);
    assert!(sent.grafts("t").is_empty());

    node.rpc(peers[0], publish([message("t", 1, 2000)]));
    let sent = node.sent();
    assert_eq!(sent.receivers(), [peers[1], peers[2], flooding]);
    assert!(sent.idontwants().iter().all(|(peer, _)| *peer != flooding));
    node.publish("t", 10);
    peers.push(flooding);
    assert_eq!(node.sent().receivers(), peers);
}

#[test]
fn messages_of_floodsub_peers_are_forwarded() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    let flooding = node.join_as(FLOODSUB, "t", false);
    node.rpc(flooding, publish([message("t", 1, 10)]));
    assert_eq!(node.sent().receivers(), peers);
}

#[test]
fn floodsub_peers_get_messages_of_unjoined_topics_and_are_in_no_fanout() {
    let mut node = Node::new(plain());
    let flooding = node.join_as(FLOODSUB, "t", false);
    assert_eq!(node.publish("t", 10).peers, 1);
    assert!(node.engine.fanout(&topic("t")).is_empty());
    assert_eq!(node.sent().receivers(), [flooding]);
}

#[test]
fn floodsub_peers_get_no_gossip_and_cannot_graft() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 6);
    assert_eq!(peers.len(), 6);
    let flooding = node.join_as(FLOODSUB, "t", false);
    node.rpc(flooding, graft(&["t"]));
    assert_eq!(node.ignored(Ignored::GraftRole), 1);
    node.publish("t", 10);
    assert!(node.sent_at_heartbeat().0.is_empty());
}

#[test]
fn floodsub_peers_below_the_publish_threshold_get_nothing() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 1, 0);
    let flooding = node.join_as(FLOODSUB, "t", false);
    node.set_score(flooding, -20.5);
    node.sent();
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    assert!(node.sent().0.is_empty());
}
