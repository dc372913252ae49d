//! Meshes: joining, leaving, GRAFT, PRUNE, backoff.

use std::time::Duration;

use crate::common::*;
use samara_gossipsub::config::MeshRules;
use samara_gossipsub::{Config, Ignored};

#[test]
fn join_grafts_d_peers_and_announces_the_topic() {
    let mut node = Node::new(plain());
    let peers = node.join_peers("t", 20, false);
    node.subscribe("t");
    let sent = node.sent();
    assert_eq!(node.mesh("t").len(), 6);
    let mut grafted = sent.grafts("t");
    grafted.sort_unstable();
    assert_eq!(grafted, node.mesh("t"));
    let announced = sent.announced();
    assert_eq!(announced.len(), peers.len());
    assert!(announced.iter().all(|(_, subscribe, name)| *subscribe && *name == topic("t")));
}

#[test]
fn all_joined_topics_are_announced_to_a_new_peer_in_one_rpc() {
    let mut node = Node::new(plain());
    node.subscribe("a");
    node.subscribe("b");
    let peer = node.connect();
    let sent = node.sent();
    assert_eq!(sent.0.len(), 1);
    assert_eq!(sent.announced(), [(peer, true, topic("a")), (peer, true, topic("b"))]);
}

#[test]
fn leave_prunes_the_mesh_with_the_unsubscribe_backoff() {
    let (mut node, _) = Node::on_topic(plain(), "t", 20, 0);
    let mesh = node.mesh("t");
    node.unsubscribe("t");
    let sent = node.sent();
    let mut pruned = sent.prunes("t");
    pruned.sort_by_key(|(peer, _)| *peer);
    assert_eq!(pruned.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), mesh);
    assert!(pruned.iter().all(|(_, prune)| prune.backoff == Some(Duration::from_secs(10))));
    assert!(sent.announced().iter().all(|(_, subscribe, _)| !subscribe));
    assert!(node.mesh("t").is_empty());
}

#[test]
fn rejoining_within_the_unsubscribe_backoff_grafts_other_peers() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 20, 0);
    let old = node.mesh("t");
    node.unsubscribe("t");
    node.subscribe("t");
    assert!(node.mesh("t").iter().all(|peer| !old.contains(peer)));
    // After the backoff and the slack, every peer can be chosen again.
    node.unsubscribe("t");
    node.advance(Duration::from_secs(13));
    for peer in &peers[6..] {
        node.disconnect(*peer);
    }
    node.subscribe("t");
    assert_eq!(node.mesh("t"), peers[..6]);
}

#[test]
fn the_heartbeat_fills_a_mesh_below_d_low_up_to_d() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    assert_eq!(node.mesh("t").len(), 3);
    node.join_peers("t", 10, false);
    assert_eq!(node.mesh("t"), peers, "only the heartbeat grafts");
    node.sent();
    node.heartbeat();
    assert_eq!(node.mesh("t").len(), 6);
    assert_eq!(node.sent().grafts("t").len(), 3);
}

#[test]
fn a_mesh_between_d_low_and_d_high_is_left_alone() {
    let (mut node, _) = Node::on_topic(plain(), "t", 5, 2);
    node.join_peers("t", 10, false);
    node.sent();
    node.heartbeat();
    assert_eq!(node.mesh("t").len(), 5);
    assert!(node.sent().grafts("t").is_empty());
}

#[test]
fn grafts_are_accepted_up_to_d_high_and_the_heartbeat_prunes_to_d() {
    let (mut node, _) = Node::on_topic(plain(), "t", 0, 0);
    let peers = node.join_peers("t", 14, false);
    node.rpcs(&peers, graft(&["t"]));
    assert_eq!(node.mesh("t").len(), 12, "a full mesh rejects GRAFT");
    assert_eq!(node.sent().pruned("t"), peers[12..]);
    assert_eq!(node.ignored(Ignored::GraftMeshFull), 2);
    node.heartbeat();
    assert_eq!(node.mesh("t").len(), 6);
    let sent = node.sent();
    assert_eq!(sent.prunes("t").len(), 6);
    assert!(sent.prunes("t").iter().all(|(_, prune)| prune.backoff == Some(Duration::from_secs(60))));
}

#[test]
fn a_full_mesh_accepts_outbound_peers() {
    let mut node = Node::new(plain());
    node.subscribe("t");
    for _ in 0..12 {
        let peer = node.join_peer("t", false);
        node.rpc(peer, graft(&["t"]));
    }
    let dialled = node.join_peer("t", true);
    node.rpc(dialled, graft(&["t"]));
    assert!(node.mesh("t").contains(&dialled));
}

#[test]
fn pruning_keeps_the_outbound_quota() {
    for seed in 0..20 {
        let mut node = Node::with_seed(plain(), seed);
        node.subscribe("t");
        let peers: Vec<_> = (0..12).map(|at| node.join_peer("t", at < 2)).collect();
        node.rpcs(&peers, graft(&["t"]));
        node.heartbeat();
        let mesh = node.mesh("t");
        assert_eq!(mesh.len(), 6);
        assert!(mesh.contains(&peers[0]) && mesh.contains(&peers[1]), "seed {seed}");
    }
}

#[test]
fn a_mesh_without_outbound_peers_grafts_some() {
    let mut node = Node::new(plain());
    let inbound = node.join_peers("t", 6, false);
    node.subscribe("t");
    assert_eq!(node.mesh("t"), inbound);
    let outbound = node.join_peers("t", 4, true);
    let grafted = node.sent_at_heartbeat().grafts("t");
    assert_eq!(grafted.len(), 2);
    assert!(grafted.iter().all(|peer| outbound.contains(peer)));
}

#[test]
fn a_pruned_peer_is_not_grafted_before_backoff_and_slack_are_over() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 1, 0);
    node.rpc(peers[0], prune("t", Some(Duration::from_secs(20))));
    assert!(node.mesh("t").is_empty());
    node.advance(Duration::from_secs(21));
    assert!(node.sent().grafts("t").is_empty(), "within the slack");
    node.advance(Duration::from_millis(2500));
    assert_eq!(node.sent().grafts("t"), peers);
}

#[test]
fn a_prune_without_backoff_uses_the_default() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 1, 0);
    node.rpc(peers[0], prune("t", None));
    node.advance(Duration::from_secs(59));
    assert!(node.sent().grafts("t").is_empty());
    node.advance(Duration::from_secs(5));
    assert_eq!(node.sent().grafts("t"), peers);
}

#[test]
fn a_graft_during_backoff_is_rejected_penalised_and_prolongs_it() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 1, 0);
    node.rpc(peers[0], prune("t", None));
    node.advance(Duration::from_secs(15));
    node.sent();
    node.rpc(peers[0], graft(&["t"]));
    assert_eq!(node.sent().pruned("t"), peers);
    assert_eq!(node.ignored(Ignored::GraftBackoff), 1);
    assert_eq!(node.engine.peer_score(peers[0]), -1.0, "P7 with one penalty");
    // The backoff lasts 60 s from the GRAFT, not from the PRUNE.
    node.set_score(peers[0], 100.0);
    node.advance(Duration::from_secs(58));
    assert!(node.sent().grafts("t").is_empty());
}

#[test]
fn a_graft_right_after_the_prune_costs_twice() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 1, 0);
    node.rpc(peers[0], prune("t", None));
    node.advance(Duration::from_millis(500));
    node.rpc(peers[0], graft(&["t"]));
    assert_eq!(node.engine.peer_score(peers[0]), -4.0, "P7 with two penalties, squared");
}

#[test]
fn a_huge_backoff_is_cut_to_the_maximum() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 1, 0);
    node.rpc(peers[0], prune("t", Some(Duration::from_secs(u64::MAX))));
    node.heartbeat();
    assert!(node.mesh("t").is_empty());
    node.advance(Config::spec().remote_backoff_max + Duration::from_secs(5));
    assert_eq!(node.mesh("t"), peers);
}

#[test]
fn a_prune_for_an_unjoined_topic_changes_nothing() {
    let mut node = Node::new(plain());
    let peer = node.join_peer("t", false);
    let before = node.engine.sizes();
    node.rpc(peer, prune("t", Some(Duration::from_secs(3600))));
    node.rpc(peer, prune("unknown", Some(Duration::from_secs(3600))));
    assert_eq!(node.engine.sizes(), before);
    assert_eq!(node.ignored(Ignored::PruneNotSubscribed), 2);
    // The node keeps no backoff, so the peer is not excluded when the topic is joined later.
    node.subscribe("t");
    assert_eq!(node.mesh("t"), [peer]);
}

#[test]
fn grafts_for_unknown_topics_take_no_memory_and_get_no_answer() {
    let mut node = Node::new(plain());
    let peer = node.connect();
    let before = node.engine.sizes();
    let names: Vec<String> = (0..10_000).map(|number| format!("invented-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    node.rpc(peer, graft(&names));
    assert_eq!(node.engine.sizes(), before);
    assert!(node.sent().0.is_empty());
    assert_eq!(node.ignored(Ignored::GraftNotSubscribed), 10_000);
}

#[test]
fn a_peer_that_disconnects_or_unsubscribes_leaves_mesh_and_topic() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    node.disconnect(peers[0]);
    node.rpc(peers[1], subscriptions(false, &["t".to_owned()]));
    assert_eq!(node.mesh("t"), [peers[2]]);
    assert_eq!(node.engine.topic_peers(&topic("t")), [peers[2]]);
}

#[test]
fn grafts_that_did_not_fit_into_the_queue_are_retried() {
    let config = changed(plain(), |config| config.sending.control.copies = 1);
    let mut node = Node::new(config);
    let peer = node.join_peer("t", false);
    node.subscribe("t");
    // The announcement took the only place in the queue.
    let sent = node.sent();
    assert_eq!(sent.announced().len(), 1);
    assert!(sent.grafts("t").is_empty());
    node.heartbeat();
    assert_eq!(node.sent().grafts("t"), [peer]);
}

#[test]
fn announcements_that_did_not_fit_into_the_queue_are_retried() {
    let config = changed(plain(), |config| config.sending.control.copies = 1);
    let mut node = Node::new(config);
    let peer = node.connect();
    node.subscribe("a");
    node.subscribe("b");
    assert_eq!(node.sent().announced(), [(peer, true, topic("a"))]);
    node.heartbeat();
    assert_eq!(node.sent().announced(), [(peer, true, topic("b"))]);
}

#[test]
fn graft_on_subscribe_grafts_new_peers_at_once() {
    let mut node = Node::new(Config { graft_on_subscribe: true, ..plain() });
    node.subscribe("t");
    let peers = node.join_peers("t", 10, false);
    assert_eq!(node.mesh("t"), peers[..4], "up to D_low");
}

#[test]
fn topics_can_override_the_mesh_size() {
    let mut config = plain();
    let small = samara_gossipsub::config::MeshParams {
        d: 2,
        d_low: 1,
        d_high: 3,
        d_score: 1,
        d_out: 0,
        ..config.mesh
    };
    let own = samara_gossipsub::config::TopicConfig { mesh: Some(small), ..Default::default() };
    config.topics.insert(topic("small"), own);
    let mut node = Node::new(config);
    for _ in 0..10 {
        let peer = node.join_peer("small", false);
        node.rpc(peer, subscriptions(true, &["big".to_owned()]));
    }
    node.subscribe("small");
    node.subscribe("big");
    assert_eq!((node.mesh("small").len(), node.mesh("big").len()), (2, 6));
}

#[test]
fn several_topics_are_joined_with_one_announcement_and_one_graft_to_each_peer() {
    let mut node = Node::new(plain());
    let names = ["a", "b", "c"];
    let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let peers: Vec<_> = (0..4).map(|_| node.connect()).collect();
    node.rpcs(&peers, subscriptions(true, &owned));
    let topics: Vec<_> = names.iter().map(|name| topic(name)).collect();
    assert_eq!(node.with(|engine, cx| engine.subscribe_all(&topics, cx)), 3);
    let sent = node.sent();
    assert_eq!(sent.0.len(), 8);
    for name in names {
        assert_eq!(sent.grafts(name), peers);
        assert_eq!(node.mesh(name), peers);
    }
    assert_eq!(node.with(|engine, cx| engine.subscribe_all(&topics, cx)), 0);
    assert!(node.sent().0.is_empty());
}

/// Version 1.0 has neither backoffs nor full meshes. Heartbeats trim meshes that have grown too
/// large.
#[test]
fn open_meshes_accept_every_graft() {
    let config = Config { mesh_rules: MeshRules::Open, ..plain() };
    let (mut node, peers) = Node::on_topic(config, "t", 30, 0);
    node.rpcs(&peers, graft(&["t"]));
    assert_eq!(node.mesh("t").len(), 30);
    let pruned = node.sent_at_heartbeat().pruned("t");
    assert_eq!((node.mesh("t").len(), pruned.len()), (6, 24));
    node.rpc(pruned[0], graft(&["t"]));
    assert!(node.mesh("t").contains(&pruned[0]), "the GRAFT is accepted at once, without a backoff");
    assert!(node.sent().prunes("t").is_empty());
}

#[test]
fn a_broken_stream_repeats_subscriptions_and_grafts() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 3, 0);
    node.heartbeat();
    let sent = node.sent_at_heartbeat();
    assert!(
        sent.announced().is_empty() && sent.grafts("t").is_empty(),
        "nothing is repeated without a reason"
    );
    node.with(|engine, _| engine.stream_broke(peers[1]));
    node.heartbeat();
    let sent = node.sent();
    assert_eq!(sent.announced(), [(peers[1], true, topic("t"))]);
    assert_eq!(sent.grafts("t"), [peers[1]]);
    node.heartbeat();
    assert!(node.sent().announced().is_empty());
}
