//! Limits of the memory that peers can use.

use std::collections::BTreeSet;

use crate::common::*;
use samara_gossipsub::Sizes;
use samara_gossipsub::config::SubscriptionFilter;
use samara_gossipsub::rpc::Rpc;
use samara_gossipsub::{Config, Event, Ignored, PublishError};

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
fn forwarded_copies_that_do_not_fit_are_not_counted() {
    let mut config = plain();
    config.sending.forward.copies = 1;
    let (mut node, peers) = Node::on_topic(config, "t", 3, 0);
    node.rpc(peers[0], publish((0..4).map(|number| message("t", number, 10))));
    let metrics = node.engine.metrics();
    assert_eq!((metrics.forwarded_copies, metrics.queue_drops.total()), (2, 6));
    assert_eq!(node.sent().messages().len(), 2);
}

/// Peers would drop the frame, and nobody would learn of it.
#[test]
fn messages_whose_frame_is_too_long_are_not_published() {
    let config = Config { max_message_bytes: 199, max_rpc_bytes: 200, max_control_bytes: 200, ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 3, 0);
    let topic = samara_gossipsub::rpc::Topic::new("t");
    let error = node.with(|engine, cx| engine.publish(&topic, vec![0; 199].into(), cx)).unwrap_err();
    assert!(matches!(error, PublishError::FrameTooLong { found: 201.., allowed: 200, .. }), "{error:?}");
    assert!(error.to_string().contains("max_rpc_bytes allows 200: raise it"), "{error}");
    assert!(node.with(|engine, cx| engine.publish(&topic, vec![0; 100].into(), cx)).is_ok());
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

fn long_ids(from: u64, count: u64) -> Vec<samara_gossipsub::rpc::MessageId> {
    let id = |number: u64| [&number.to_be_bytes()[..], &[7; 248]].concat();
    (from..from + count).map(|number| samara_gossipsub::rpc::MessageId::new(&id(number))).collect()
}

#[test]
fn bytes_of_idontwant_ids_are_limited_for_a_peer_and_in_all() {
    let config = changed(plain(), |config| {
        config.idontwant.bytes_max = 160_000;
        config.idontwant.ids_per_rpc_max = 1000;
    });
    let mut node = Node::new(config);
    let peers: Vec<_> = (0..20).map(|_| node.connect()).collect();
    node.rpc(peers[0], idontwant(long_ids(0, 1000)));
    let of_one = node.engine.sizes();
    assert!((5_000..=10_000).contains(&of_one.unwanted_bytes), "{of_one:?}");
    assert_eq!(node.ignored(Ignored::IDontWantPeerFull), 1000 - of_one.unwanted as u64);
    for (peer, from) in peers.iter().zip((0..).step_by(1000)) {
        node.rpc(*peer, idontwant(long_ids(from, 1000)));
    }
    assert!(node.engine.sizes().unwanted_bytes <= 160_000);
    assert!(node.ignored(Ignored::IDontWantTableFull) > 0);
    // All of it comes back, by time and with the peer.
    node.disconnect(peers[0]);
    node.heartbeats(5);
    assert_eq!(node.engine.sizes().unwanted_bytes, 0);
    node.rpc(peers[1], idontwant(long_ids(0, 10)));
    assert_eq!(node.engine.sizes().unwanted, 10);
    node.disconnect(peers[1]);
    assert_eq!(node.engine.sizes().unwanted_bytes, 0);
}

#[test]
fn bytes_of_all_topics_are_limited() {
    let mut node = Node::new(changed(plain(), |config| config.subscriptions.bytes_max = 100_000));
    node.subscribe("ours");
    let peers: Vec<_> = (0..10).map(|_| node.connect()).collect();
    for (at, peer) in peers.iter().enumerate() {
        node.rpc(*peer, subscriptions(true, &names(at * 100, 100)));
    }
    let known = node.engine.sizes().topics;
    assert!((200..450).contains(&known), "{known} topics");
    assert_eq!(node.ignored(Ignored::SubscriptionTableFull), 1000 - (known as u64 - 1));
    // Known topics need no more room, and those that all peers leave make room.
    node.rpc(peers[9], subscriptions(true, &["ours".to_owned()]));
    assert_eq!(node.engine.topic_peers(&topic("ours")), [peers[9]]);
    node.disconnect(peers[0]);
    node.rpc(peers[9], subscriptions(true, &names(5000, 50)));
    assert_eq!(node.engine.sizes().topics, known - 50);
}

#[test]
fn bytes_of_seen_ids_are_limited() {
    let mut node = Node::new(changed(plain(), |config| config.seen_bytes_max = 100_000));
    node.subscribe("t");
    let peer = node.join_peer("t", false);
    // Authors are part of ids, and as long as their sender likes.
    for number in 0..100 {
        let author = bytes::Bytes::from(vec![number as u8; 10_000]);
        let message = samara_gossipsub::rpc::Message::with_author(topic("t"), "data".into(), author, number);
        node.rpc(peer, publish([std::sync::Arc::new(message)]));
    }
    let sizes = node.engine.sizes();
    assert!(sizes.seen_bytes <= 100_000 && sizes.seen > 5, "{sizes:?}");
    assert_eq!(sizes.seen_evicted, 100 - sizes.seen as u64);
    node.advance(std::time::Duration::from_secs(200));
    assert_eq!(node.engine.sizes().seen_bytes, 0);
}
