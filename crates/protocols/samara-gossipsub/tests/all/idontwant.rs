//! IDONTWANT in both directions.

use crate::common::*;
use samara_engine::PeerId;
use samara_gossipsub::config::{LaneLayout, Lanes, Withdraw};
use samara_gossipsub::{Config, Ignored};

const LONG: usize = 2000;

#[test]
fn a_long_message_sends_idontwant_ahead_of_copies_but_not_to_its_sender() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let new = message("t", 1, LONG);
    node.rpc(peers[0], publish([new.clone()]));
    let sent = node.sent();
    assert_eq!(sent.idontwant_receivers(), peers[1..]);
    assert!(sent.idontwants().iter().all(|(_, ids)| *ids == [id_of(&new)]));
    // IDONTWANT precedes the copy to each peer.
    for peer in &peers[1..] {
        let frames: Vec<_> = sent.0.iter().filter(|(to, ..)| to == peer).collect();
        assert!(frames[0].2.rpc().control.is_some() && !frames[1].2.rpc().publish.is_empty());
    }
}

#[test]
fn short_messages_send_no_idontwant() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, 1023)]));
    assert!(node.sent().idontwants().is_empty());
    node.rpc(peers[0], publish([message("t", 2, 1024)]));
    assert_eq!(node.sent().idontwants().len(), 5);
}

#[test]
fn idontwant_is_sent_before_a_deferred_validation() {
    let config = changed(plain(), |config| {
        config.validator = Some(samara_gossipsub::config::ValidatorHook::deferred())
    });
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, LONG)]));
    let sent = node.sent();
    assert_eq!(sent.idontwants().len(), 5);
    assert!(sent.messages().is_empty());
}

#[test]
fn duplicates_send_no_idontwant() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, LONG)]));
    node.sent();
    node.rpc(peers[1], publish([message("t", 1, LONG)]));
    assert!(node.sent().0.is_empty());
}

#[test]
fn only_mesh_peers_since_v1_2_receive_idontwant() {
    let mut node = Node::new(plain());
    let old = node.connect_as(V1_1, false);
    let new = node.connect_as(V1_2, false);
    let sender = node.connect_as(V1_2, false);
    node.rpcs(&[old, new, sender], subscriptions(true, &["t".to_owned()]));
    node.subscribe("t");
    let outside = node.join_peer("t", false);
    node.sent();
    node.rpc(sender, publish([message("t", 1, LONG)]));
    assert_eq!(node.sent().idontwant_receivers(), [new]);
    assert!(!node.mesh("t").contains(&outside));
}

#[test]
fn messages_of_one_rpc_share_an_idontwant_of_at_most_ten_ids() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 2, 0);
    node.rpc(peers[0], publish((0..25).map(|number| message("t", number, LONG))));
    let sent = node.sent().idontwants();
    assert_eq!(sent.iter().map(|(_, ids)| ids.len()).collect::<Vec<_>>(), [10, 10, 5]);
}

#[test]
fn own_messages_send_idontwant_unless_configured_otherwise() {
    let (mut node, _) = Node::on_topic(plain(), "t", 6, 0);
    let receipt = node.publish("t", LONG);
    let sent = node.sent();
    assert_eq!(sent.idontwants().len(), 6);
    assert!(sent.idontwants().iter().all(|(_, ids)| *ids == [receipt.id.clone()]));
    assert_eq!(sent.messages().len(), 6);

    let config = changed(plain(), |config| config.idontwant.on_publish = false);
    let (mut node, _) = Node::on_topic(config, "t", 6, 0);
    node.publish("t", LONG);
    assert!(node.sent().idontwants().is_empty());
}

#[test]
fn an_unwanted_message_is_not_sent() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let new = message("t", 1, LONG);
    node.rpc(peers[1], idontwant(vec![id_of(&new)]));
    node.rpc(peers[0], publish([new]));
    assert_eq!(node.sent().receivers(), peers[2..]);
    assert_eq!(node.engine.metrics().suppressed_copies, 1);
}

#[test]
fn idontwant_withdraws_an_owed_copy() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let new = message("t", 1, LONG);
    node.rpc(peers[0], publish([new.clone()]));
    node.rpc(peers[1], idontwant(vec![id_of(&new)]));
    assert_eq!(node.sent().receivers(), peers[2..]);
    assert_eq!(node.engine.metrics().withdrawn_copies, 1);
}

#[test]
fn without_withdrawal_queued_copies_are_sent() {
    let config = Config { withdraw: Withdraw::NEVER, ..plain() };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    let new = message("t", 1, LONG);
    node.rpc(peers[0], publish([new.clone()]));
    node.rpc(peers[1], idontwant(vec![id_of(&new)]));
    node.rpc(peers[2], publish([new]));
    assert_eq!(node.sent().receivers(), peers[1..]);
}

#[test]
fn a_received_copy_withdraws_the_owed_one() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    node.rpc(peers[3], publish([message("t", 1, 10)]));
    let receivers = node.sent().receivers();
    assert_eq!(receivers, [peers[1], peers[2], peers[4], peers[5]]);
}

#[test]
fn an_ihave_withdraws_the_owed_copy() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    node.rpc(peers[3], ihave("t", vec![id_of(&new)]));
    assert_eq!(node.sent().receivers().len(), 4);
}

#[test]
fn iwant_is_not_answered_after_idontwant() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let new = message("t", 1, LONG);
    node.rpc(peers[0], publish([new.clone()]));
    node.sent();
    node.rpc(peers[1], idontwant(vec![id_of(&new)]));
    node.rpc(peers[1], iwant(vec![id_of(&new)]));
    assert!(node.sent().messages().is_empty());
    assert_eq!(node.ignored(Ignored::IWantUnwanted), 1);
}

#[test]
fn idontwant_is_forgotten_after_three_heartbeats() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 2, 0);
    let new = message("t", 1, LONG);
    for (heartbeats, expected) in [(2, 0), (3, 1)] {
        node.rpc(peers[1], idontwant(vec![id_of(&new)]));
        node.heartbeats(heartbeats);
        assert_eq!(node.engine.sizes().unwanted, 1 - expected, "after {heartbeats}");
    }
    node.sent();
    node.rpc(peers[0], publish([new]));
    assert_eq!(node.sent().receivers(), [peers[1]]);
}

#[test]
fn idontwant_is_kept_until_the_message_arrives_for_at_most_the_seen_ttl() {
    let config = changed(plain(), |config| {
        config.idontwant.until_arrival = true;
        config.seen_ttl = config.heartbeat_interval * 30;
    });
    let (mut node, peers) = Node::on_topic(config, "t", 2, 0);
    let new = message("t", 1, LONG);
    // The second message never arrives.
    let never = id_of(&message("t", 2, LONG));
    node.rpc(peers[1], idontwant(vec![id_of(&new), never]));
    node.heartbeats(20);
    assert_eq!(node.engine.sizes().unwanted, 2);
    node.sent();
    node.rpc(peers[0], publish([new]));
    assert!(node.sent().receivers().is_empty(), "the peer still does not want it");
    node.heartbeats(3);
    assert_eq!(
        node.engine.sizes().unwanted,
        1,
        "the entry of an arrived message ends after three heartbeats"
    );
    node.heartbeats(7);
    assert_eq!(node.engine.sizes().unwanted, 0, "ids that never arrive end after seen_ttl");
}

#[test]
fn repeated_idontwant_prolongs_the_entry_without_growing_the_table() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 2, 0);
    for _ in 0..10 {
        for _ in 0..50 {
            node.rpc(peers[1], idontwant(ids(0, 5)));
        }
        assert_eq!(node.engine.sizes().unwanted, 5);
        node.heartbeat();
    }
    node.heartbeats(3);
    assert_eq!(node.engine.sizes().unwanted, 0);
}

#[test]
fn floods_are_cut_per_rpc_per_heartbeat_and_per_peer() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 2, 0);
    node.rpc(peers[1], idontwant(ids(0, 1000)));
    assert_eq!(node.engine.sizes().unwanted, 10);
    assert_eq!(node.ignored(Ignored::IDontWantIdsOverLimit), 990);
    for number in 0..2000 {
        node.rpc(peers[1], idontwant(ids(10_000 + number * 10, 10)));
    }
    assert_eq!(node.engine.sizes().unwanted, 10_000, "1000 RPCs of 10 ids");
    assert_eq!(node.ignored(Ignored::IDontWantMessagesOverLimit), 10_010);
    node.heartbeat();
    for number in 0..1000 {
        node.rpc(peers[1], idontwant(ids(1_000_000 + number * 10, 10)));
    }
    assert_eq!(node.engine.sizes().unwanted, 10_000, "the limit per peer");
    assert_eq!(node.ignored(Ignored::IDontWantPeerFull), 10_000);
    // Other peers are not affected, and the ids of a peer that leaves are forgotten.
    node.rpc(peers[0], idontwant(ids(0, 10)));
    node.disconnect(peers[1]);
    assert_eq!(node.engine.sizes().unwanted, 10);
}

#[test]
fn an_observer_gets_no_messages_and_may_send_any_number_of_idontwants() {
    let config = changed(plain(), |config| config.observers = vec![identity(6)]);
    let (mut node, peers) = Node::on_topic(config, "t", 7, 0);
    node.rpc(peers[6], graft(&["t"]));
    assert!(!node.mesh("t").contains(&peers[6]));
    let receipt = node.publish("t", 10);
    node.rpc(peers[6], idontwant(ids(0, 500)));
    node.rpc(peers[6], idontwant(vec![receipt.id]));
    let sent = node.sent();
    assert_eq!(
        sent.receivers(),
        peers[..6],
        "the IDONTWANT of an observer concerns the network, not the observer itself"
    );
    assert_eq!(node.engine.sizes().unwanted, 0);
    assert_eq!(node.ignored(Ignored::IDontWantIdsOverLimit), 0);
}

#[test]
fn an_observing_node_reports_every_message_at_once() {
    let config = changed(plain(), |config| config.report_to = vec![identity(9)]);
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    let publisher = PeerId(9);
    node.connect_identity(publisher, identity(9), V1_2, false);
    node.sent();
    let short = message("t", 1, 10);
    node.rpc(peers[0], publish([short.clone()]));
    let sent = node.sent();
    assert_eq!(sent.idontwants(), [(publisher, vec![id_of(&short)])]);
    assert!(!sent.receivers().contains(&publisher));
}

#[test]
fn urgent_frames_overtake_in_the_shared_layout_but_need_room_in_it() {
    let mut config = plain();
    config.sending.layout = LaneLayout::Shared;
    config.sending.control.copies = 4;
    config.sending.publish.copies = 4;
    config.idontwant.on_publish = false;
    let (mut node, peers) = Node::on_topic(config, "t", 2, 0);
    node.publish("t", 10);
    node.rpc(peers[0], publish([message("t", 1, LONG)]));
    let sent = node.sent();
    let to_1: Vec<_> = sent.0.iter().filter(|(peer, ..)| *peer == peers[1]).collect();
    assert_eq!(to_1.len(), 3);
    assert_eq!((to_1[0].1, to_1[1].1), (Lanes::SHARED.urgent, Lanes::SHARED.publish));
    for _ in 0..4 {
        node.publish("t", 10);
    }
    node.rpc(peers[0], publish([message("t", 2, LONG)]));
    assert!(node.sent().idontwants().is_empty());
}
