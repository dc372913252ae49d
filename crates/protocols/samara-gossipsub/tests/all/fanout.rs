//! Publishing to topics that are not joined.

use std::time::Duration;

use crate::common::*;

#[test]
fn fanout_uses_the_same_d_peers_each_time() {
    let mut node = Node::new(plain());
    node.join_peers("t", 20, false);
    assert_eq!(node.publish("t", 10).peers, 6);
    let fanout = node.engine.fanout(&topic("t")).to_vec();
    assert_eq!(node.sent().receivers(), fanout);
    node.heartbeat();
    node.sent();
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), fanout);
    assert!(node.mesh("t").is_empty());
}

#[test]
fn fanout_expires_a_minute_after_the_last_message() {
    let mut node = Node::new(plain());
    node.join_peers("t", 20, false);
    node.publish("t", 10);
    node.advance(Duration::from_secs(50));
    node.publish("t", 10);
    node.advance(Duration::from_secs(59));
    assert_eq!(node.engine.fanout(&topic("t")).len(), 6);
    node.advance(Duration::from_secs(3));
    assert!(node.engine.fanout(&topic("t")).is_empty());
}

#[test]
fn the_heartbeat_replaces_peers_that_left() {
    let mut node = Node::new(plain());
    node.join_peers("t", 20, false);
    node.publish("t", 10);
    let before = node.engine.fanout(&topic("t")).to_vec();
    node.disconnect(before[0]);
    node.rpc(before[1], subscriptions(false, &["t".to_owned()]));
    assert_eq!(node.engine.fanout(&topic("t")), &before[2..]);
    node.heartbeat();
    let after = node.engine.fanout(&topic("t"));
    assert_eq!(after.len(), 6);
    assert!(!after.contains(&before[0]) && !after.contains(&before[1]));
}

#[test]
fn peers_below_the_publish_threshold_are_replaced() {
    let mut node = Node::new(scored());
    let peers = node.join_peers("t", 8, false);
    node.set_score(peers[0], -20.5);
    // A negative score, but high enough for own messages.
    node.set_score(peers[1], -19.5);
    node.publish("t", 10);
    assert!(!node.engine.fanout(&topic("t")).contains(&peers[0]));
    let member = node.engine.fanout(&topic("t"))[3];
    node.set_score(member, -25.0);
    node.heartbeat();
    assert!(!node.engine.fanout(&topic("t")).contains(&member));
    assert_eq!(node.engine.fanout(&topic("t")).len(), 6);
}

#[test]
fn joining_turns_fanout_into_mesh_without_negative_scores() {
    let mut node = Node::new(scored());
    let peers = node.join_peers("t", 7, false);
    node.publish("t", 10);
    let fanout = node.engine.fanout(&topic("t")).to_vec();
    node.set_score(fanout[2], -1.0);
    node.sent();
    node.subscribe("t");
    let expected: Vec<_> = peers.iter().copied().filter(|peer| *peer != fanout[2]).collect();
    assert_eq!(node.mesh("t"), expected, "the remaining fanout and the only other peer");
    assert!(node.engine.fanout(&topic("t")).is_empty());
    assert_eq!(node.sent().grafts("t").len(), 6);
}

#[test]
fn fanout_messages_are_announced_to_other_peers() {
    let mut node = Node::new(plain());
    node.join_peers("t", 20, false);
    let id = node.publish("t", 10).id;
    let ihaves = node.sent_at_heartbeat().ihaves();
    assert_eq!(ihaves.len(), 6);
    assert!(ihaves.iter().all(|(peer, ihave)| {
        ihave.ids == [id.clone()] && !node.engine.fanout(&topic("t")).contains(peer)
    }));
}

#[test]
fn later_peers_become_the_fanout_of_an_empty_topic() {
    let mut node = Node::new(plain());
    assert_eq!(node.publish("t", 10).peers, 0);
    assert_eq!(node.engine.metrics().messages_published_to_nobody, 1);
    let peer = node.join_peer("t", false);
    assert_eq!(node.publish("t", 10).peers, 1);
    assert_eq!(node.engine.fanout(&topic("t")), [peer]);
}
