//! Peer exchange through PRUNE.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use samara_engine::{Input, LinkRequest};
use samara_gossipsub::rpc::{Control, ExchangedPeer, Prune, Rpc};
use samara_gossipsub::{Config, Event, Ignored};

fn exchanging(config: Config) -> Config {
    Config { peer_exchange: true, ..config }
}

fn recommended(number: u32) -> ExchangedPeer {
    let identity = Bytes::copy_from_slice(identity(number).as_bytes());
    ExchangedPeer { identity, signed_record: Some(Bytes::from_static(b"record")) }
}

fn prune_with(peers: Vec<ExchangedPeer>) -> Rpc {
    let prune = vec![Prune { topic: topic("t"), peers, backoff: Some(Duration::from_secs(60)) }];
    control(Control { prune, ..Control::default() })
}

#[test]
fn a_prune_recommends_other_subscribers_with_their_records() {
    let (mut node, peers) = Node::on_topic(exchanging(plain()), "t", 30, 0);
    for peer in &peers {
        node.engine.set_signed_record(*peer, Bytes::from(format!("record of {}", peer.0)));
    }
    node.rpcs(&peers[..14], graft(&["t"]));
    let prunes = node.sent_at_heartbeat().prunes("t");
    assert!(!prunes.is_empty());
    for (pruned, prune) in prunes {
        assert_eq!(prune.peers.len(), 16);
        for peer in prune.peers {
            let number: u32 = std::str::from_utf8(&peer.identity[5..]).unwrap().parse().unwrap();
            assert_ne!(number, pruned.0);
            assert_eq!(peer.signed_record.unwrap(), format!("record of {number}"));
        }
    }
}

#[test]
fn peers_with_negative_scores_neither_appear_in_nor_receive_recommendations() {
    let (mut node, peers) = Node::on_topic(exchanging(scored()), "t", 6, 0);
    node.set_score(peers[0], -1.0);
    node.set_score(peers[1], -1.0);
    node.heartbeat();
    let prunes = node.sent().prunes("t");
    assert_eq!(prunes.len(), 2);
    assert!(prunes.iter().all(|(_, prune)| prune.peers.is_empty()));
    node.unsubscribe("t");
    for (_, prune) in node.sent().prunes("t") {
        assert_eq!(prune.peers.len(), 3, "all peers except the receiver and the two with negative scores");
    }
}

#[test]
fn a_graft_that_also_names_an_unknown_topic_reveals_no_peers() {
    let mut node = Node::new(exchanging(plain()));
    node.subscribe("t");
    let peers = node.join_peers("t", 20, false);
    node.rpcs(&peers[..12], graft(&["t"]));
    node.sent();
    node.rpc(peers[18], graft(&["t"]));
    assert_eq!(node.sent().prunes("t")[0].1.peers.len(), 16);
    node.rpc(peers[19], graft(&["unknown", "t"]));
    assert!(node.sent().prunes("t")[0].1.peers.is_empty());
}

#[test]
fn recommended_peers_are_dialled_up_to_the_limit_with_their_records() {
    let (mut node, peers) = Node::on_topic(exchanging(plain()), "t", 1, 0);
    // Without scoring every score is 0, which is below the threshold of the specification's preset.
    node.rpc(peers[0], prune_with((100..140).map(recommended).collect()));
    assert_eq!(node.ignored(Ignored::ExchangeScore), 40);
    assert!(node.links.is_empty());

    let mut config = exchanging(plain());
    config.thresholds.accept_px = 0.0;
    let (mut node, peers) = Node::on_topic(config, "t", 1, 0);
    node.rpc(peers[0], prune_with((100..140).map(recommended).collect()));
    assert_eq!(node.links.len(), 16);
    assert_eq!(node.ignored(Ignored::ExchangeOverLimit), 24);
    let records = node.events.iter().filter(|event| {
        matches!(event, Event::PeerExchanged { from, signed_record: Some(record), .. }
            if *from == peers[0] && record == &b"record"[..])
    });
    assert_eq!(records.count(), 16);
}

#[test]
fn known_peers_are_not_dialled() {
    let mut config = exchanging(plain());
    config.thresholds.accept_px = 0.0;
    let (mut node, peers) = Node::on_topic(config, "t", 2, 0);
    let me = ExchangedPeer { identity: Bytes::from_static(b"me"), signed_record: None };
    node.rpc(peers[0], prune_with(vec![recommended(1), recommended(50), recommended(50), me]));
    assert_eq!(node.links, [LinkRequest::Dial(identity(50))]);
}

#[test]
fn concurrent_dials_are_limited() {
    let mut config = exchanging(plain());
    config.thresholds.accept_px = 0.0;
    config.pending_dials_max = 10;
    let (mut node, peers) = Node::on_topic(config, "t", 3, 0);
    node.rpc(peers[0], prune_with((100..116).map(recommended).collect()));
    assert_eq!((node.links.len(), node.engine.sizes().dialling), (10, 10));
    let identity = dialled(&node.links[0]);
    node.handle(Input::DialFailed { identity });
    let next = node.engine.sizes().dialling;
    assert_eq!(next, 9);
    node.connect_identity(samara_engine::PeerId(50), dialled(&node.links[1]), V1_2, true);
    assert_eq!(node.engine.sizes().dialling, 8);
    node.rpc(peers[1], prune_with((200..216).map(recommended).collect()));
    assert_eq!(node.links.len(), 12);
}

fn dialled(request: &LinkRequest) -> samara_engine::PeerIdentity {
    match request {
        LinkRequest::Dial(identity) => identity.clone(),
        LinkRequest::Close(peer) => panic!("{peer:?} was closed"),
    }
}

#[test]
fn only_recommendations_from_peers_at_or_above_the_threshold_count() {
    let (mut node, peers) = Node::on_topic(exchanging(scored()), "t", 2, 0);
    node.set_score(peers[0], 4.9);
    node.set_score(peers[1], 5.0);
    node.rpc(peers[0], prune_with(vec![recommended(100)]));
    assert!(node.links.is_empty());
    node.rpc(peers[1], prune_with(vec![recommended(101)]));
    assert_eq!(node.links, [LinkRequest::Dial(identity(101))]);
}

#[test]
fn peers_of_v1_0_get_neither_backoff_nor_recommendations() {
    let mut node = Node::new(exchanging(plain()));
    let old = node.connect_as(V1_0, false);
    let new = node.connect_as(V1_1, false);
    node.rpcs(&[old, new], subscriptions(true, &["t".to_owned()]));
    node.subscribe("t");
    node.sent();
    node.unsubscribe("t");
    for (peer, prune) in node.sent().prunes("t") {
        assert_eq!(prune.backoff.is_some(), peer == new);
        assert_eq!(prune.peers.len(), usize::from(peer == new));
    }
}
