//! Flood publishing of own messages.

use crate::common::*;
use samara_gossipsub::Config;

#[test]
fn own_messages_go_to_all_subscribers_and_forwarded_ones_to_the_mesh() {
    let (mut node, peers) = Node::on_topic(Config { flood_publish: true, ..plain() }, "t", 20, 2);
    assert_eq!(node.publish("t", 10).peers, 20);
    assert_eq!(node.sent().receivers(), peers);
    let mesh = node.mesh("t");
    node.rpc(mesh[0], publish([message("t", 1, 10)]));
    assert_eq!(node.sent().receivers(), mesh[1..]);
}

#[test]
fn without_flood_publishing_own_messages_go_to_the_mesh() {
    let (mut node, _) = Node::on_topic(plain(), "t", 20, 2);
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), node.mesh("t"));
}

#[test]
fn messages_beyond_the_flooding_limit_are_not_flooded() {
    let config = Config { flood_publish: true, flood_publish_max_bytes: 100, ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 20, 2);
    assert_eq!(node.publish("t", 100).peers, 20);
    assert_eq!(node.publish("t", 101).peers, 6);
}

#[test]
fn flooding_skips_peers_below_the_publish_threshold_unless_direct() {
    let mut config = Config { flood_publish: true, ..scored() };
    config.direct_peers = vec![identity(1)];
    let (mut node, peers) = Node::on_topic(config, "t", 4, 2);
    for peer in &peers[..2] {
        node.set_score(*peer, -25.0);
    }
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), peers[1..]);
}

#[test]
fn peers_of_unjoined_topics_are_flooded_too() {
    let mut node = Node::new(Config { flood_publish: true, ..plain() });
    let peers = node.join_peers("t", 10, false);
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), peers);
    assert!(node.engine.fanout(&topic("t")).is_empty());
}
