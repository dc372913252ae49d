//! Limits of the memory that peers can use.

use std::collections::BTreeSet;

use crate::common::*;
use samara_gossipsub::Sizes;
use samara_gossipsub::config::SubscriptionFilter;
use samara_gossipsub::rpc::Rpc;
use samara_gossipsub::{Config, Event, Ignored};

fn names(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("topic-{number}")).collect()
}

#[test]
fn an_rpc_with_too_many_subscriptions_is_ignored() {
    let mut node = Node::new(plain());
    let peer = node.connect();
    node.rpc(peer, subscriptions(true, &names(0, 4097)));
    assert_eq!(node.engine.sizes().topics, 0);
    assert_eq!(node.ignored(Ignored::SubscriptionsOverLimit), 4097);
}

#[test]
fn subscriptions_per_peer_are_limited() {
    let config = changed(plain(), |config| config.subscriptions.per_peer_max = 100);
    let mut node = Node::new(config);
    let peer = node.connect();
    for round in 0..10 {
        node.rpc(peer, subscriptions(true, &names(round * 50, 50)));
    }
    assert_eq!(node.engine.sizes().topics, 100);
    assert_eq!(node.ignored(Ignored::SubscriptionPeerFull), 400);
    // Known topics can be repeated, and replaced by others.
    node.rpc(peer, subscriptions(true, &names(0, 50)));
    node.rpc(peer, subscriptions(false, &names(0, 50)));
    node.rpc(peer, subscriptions(true, &names(1000, 60)));
    assert_eq!(node.ignored(Ignored::SubscriptionPeerFull), 410);
    assert_eq!(node.engine.sizes().topics, 100);
}

#[test]
fn bytes_of_topics_per_peer_are_limited() {
    let config = changed(plain(), |config| config.subscriptions.bytes_per_peer_max = 10_000);
    let mut node = Node::new(config);
    let (first, second) = (node.connect(), node.connect());
    let long = |from: usize, count: usize| -> Vec<String> {
        (from..from + count).map(|number| format!("{number:01000}")).collect()
    };
    node.rpc(first, subscriptions(true, &long(0, 50)));
    assert_eq!(node.engine.sizes().topic_bytes, 10_000);
    assert_eq!(node.ignored(Ignored::SubscriptionPeerFull), 40);
    // Other peers have their own share, and topics that a peer leaves make room.
    node.rpc(second, subscriptions(true, &long(0, 20)));
    node.rpc(first, subscriptions(false, &long(0, 5)));
    node.rpc(first, subscriptions(true, &long(100, 50)));
    assert_eq!(node.engine.sizes().topic_bytes, 15_000);
    node.disconnect(first);
    node.disconnect(second);
    assert_eq!(node.engine.sizes().topic_bytes, 0);
}

#[test]
fn topics_vanish_with_their_last_subscriber() {
    let mut node = Node::new(plain());
    let (first, second) = (node.connect(), node.connect());
    for round in 0..100 {
        node.rpc(first, subscriptions(true, &names(round * 100, 100)));
        node.rpc(first, subscriptions(false, &names(round * 100, 100)));
    }
    assert_eq!(node.engine.sizes().topics, 0);
    node.rpc(first, subscriptions(true, &names(0, 100)));
    node.rpc(second, subscriptions(true, &names(50, 100)));
    node.disconnect(first);
    assert_eq!(node.engine.sizes().topics, 100);
    assert_eq!(node.engine.topic_peers(&topic("topic-60")), [second]);
    assert!(node.engine.topic_peers(&topic("topic-10")).is_empty());
    node.disconnect(second);
    assert_eq!(node.engine.sizes().topics, 0);
}

#[test]
fn a_reused_topic_number_carries_no_old_state() {
    let mut node = Node::new(plain());
    let peer = node.connect();
    node.rpc(peer, subscriptions(true, &names(0, 3)));
    node.rpc(peer, subscriptions(false, &names(0, 3)));
    node.subscribe("mine");
    let member = node.join_peer("mine", false);
    node.rpc(member, graft(&["mine", "topic-0", "topic-1"]));
    assert_eq!(node.mesh("mine"), [member]);
    assert!(node.engine.topic_peers(&topic("topic-0")).is_empty());
    assert_eq!(node.engine.topic_peers(&topic("mine")), [member]);
}

#[test]
fn filtered_topics_are_not_remembered() {
    let mut config = plain();
    config.report_subscriptions = true;
    config.subscriptions.filter = SubscriptionFilter::Only(BTreeSet::from([topic("topic-1")]));
    let mut node = Node::new(config);
    let peer = node.connect();
    node.rpc(peer, subscriptions(true, &names(0, 3)));
    assert_eq!(node.engine.sizes().topics, 1);
    assert_eq!(node.ignored(Ignored::SubscriptionFiltered), 2);
    let reported: Vec<_> =
        node.events.iter().filter(|e| matches!(e, Event::Subscription { joined: true, .. })).collect();
    assert_eq!(reported.len(), 1);
}

#[test]
fn messages_on_unjoined_topics_leave_no_trace() {
    let mut node = Node::new(plain());
    let peer = node.join_peer("t", false);
    let before = node.engine.sizes();
    for number in 0..1000 {
        node.rpc(peer, publish([message("t", number, 2000)]));
        node.rpc(peer, publish([message(&format!("unknown-{number}"), number, 2000)]));
    }
    assert_eq!(node.engine.sizes(), before);
    assert_eq!(node.ignored(Ignored::MessageNotSubscribed), 2000);
    assert!(node.sent().0.is_empty());
}

#[test]
fn messages_without_topic_or_beyond_the_limit_are_dropped() {
    let (mut node, peers) = Node::on_topic(Config { max_message_bytes: 100, ..plain() }, "t", 3, 0);
    let mut bare = samara_gossipsub::rpc::Message::default();
    bare.data = vec![1].into();
    node.rpc(peers[0], publish([std::sync::Arc::new(bare)]));
    node.rpc(peers[0], publish([message("t", 1, 101)]));
    assert_eq!(node.ignored(Ignored::MessageWithoutTopic), 1);
    assert_eq!(node.ignored(Ignored::MessageTooLong), 1);
    assert!(node.delivered().is_empty());
}

#[test]
fn frames_beyond_the_limit_are_ignored() {
    let config = Config { max_message_bytes: 100, max_rpc_bytes: 200, max_control_bytes: 200, ..plain() };
    let (mut node, peers) = Node::on_topic(config, "t", 3, 0);
    node.rpc(peers[0], publish((0..3).map(|number| message("t", number, 90))));
    assert_eq!(node.ignored(Ignored::RpcTooLong), 1);
    assert!(node.delivered().is_empty());
}

#[test]
fn frames_of_peers_without_a_link_are_ignored() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    node.disconnect(peers[0]);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    assert_eq!(node.ignored(Ignored::RpcUnknownPeer), 1);
    assert!(node.delivered().is_empty());
}

#[test]
fn empty_rpcs_do_nothing() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    let before = node.engine.sizes();
    node.rpc(peers[0], Rpc::default());
    node.rpc(peers[0], control(Default::default()));
    assert_eq!(node.engine.sizes(), before);
    assert!(node.sent().0.is_empty());
}

#[test]
fn the_caches_of_ids_are_bounded() {
    let (mut node, peers) = Node::on_topic(Config { seen_capacity: 1000, ..plain() }, "t", 3, 0);
    for number in 0..5000 {
        node.rpc(peers[0], publish([message("t", number, 1)]));
    }
    node.sent();
    assert_eq!(node.engine.sizes().seen, 1000);
}

#[test]
fn bytes_of_cached_messages_are_bounded() {
    let config =
        Config { max_message_bytes: 50_000, max_rpc_bytes: 60_000, history_bytes_max: 100_000, ..plain() };
    let (mut node, peers) = Node::on_topic(config, "t", 3, 0);
    for number in 0..1000 {
        node.rpc(peers[0], publish([message("t", number, 10_000)]));
        node.sent();
        assert!(node.engine.sizes().cached_bytes <= 100_000);
    }
    let sizes = node.engine.sizes();
    assert_eq!((sizes.cached, sizes.cached_evicted), (9, 991));
    assert_eq!(node.delivered().len(), 1000);
}

#[test]
fn state_of_departed_peers_expires() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 6, 6);
    for (at, peer) in peers.iter().enumerate() {
        let at = at as u64;
        node.rpc(*peer, ihave("t", ids(at * 1000, 50)));
        node.rpc(*peer, idontwant(ids(at * 1000, 10)));
        node.rpc(*peer, publish([message("t", at, 10)]));
        node.rpc(*peer, prune("t", None));
    }
    for peer in &peers {
        node.disconnect(*peer);
    }
    node.sent();
    node.advance(std::time::Duration::from_secs(200));
    assert_eq!(node.engine.sizes(), Sizes { topics: 1, topic_bytes: 1, ..Sizes::default() });
}
