//! Lazy gossip: IHAVE, IWANT, promises.

use std::time::Duration;

use crate::common::*;
use samara_engine::PeerId;
use samara_gossipsub::config::Answers;
use samara_gossipsub::rpc::{Control, MessageId};
use samara_gossipsub::{Config, Event, Ignored};

#[test]
fn a_heartbeat_announces_recent_messages_to_d_lazy_peers_outside_the_mesh() {
    let (mut node, _) = Node::on_topic(plain(), "t", 20, 2);
    let mesh = node.mesh("t");
    let new = message("t", 1, 10);
    node.rpc(mesh[0], publish([new.clone()]));
    let ihaves = node.sent_at_heartbeat().ihaves();
    assert_eq!(ihaves.len(), 6);
    assert!(ihaves.iter().all(|(peer, ihave)| !mesh.contains(peer) && ihave.ids == [id_of(&new)]));
}

#[test]
fn with_many_peers_a_share_of_them_receives_gossip() {
    let (mut node, _) = Node::on_topic(plain(), "t", 86, 86);
    node.publish("t", 10);
    assert_eq!(node.sent_at_heartbeat().ihaves().len(), 20, "a quarter of the 80 peers outside the mesh");
}

#[test]
fn messages_are_announced_for_three_heartbeats_and_answered_for_five() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 20, 2);
    let id = node.publish("t", 10).id;
    node.sent();
    // A different peer sends each request, so that no limit interferes.
    for (heartbeat, asking) in (1..=6).zip(&peers) {
        node.heartbeat();
        let announced = !node.sent().ihaves().is_empty();
        assert_eq!(announced, heartbeat <= 3, "heartbeat {heartbeat}");
        node.rpc(*asking, iwant(vec![id.clone()]));
        let answered = !node.sent().messages().is_empty();
        assert_eq!(answered, heartbeat < 5, "heartbeat {heartbeat}");
    }
    assert_eq!(node.ignored(Ignored::IWantUnknown), 2);
}

#[test]
fn only_unknown_ids_are_requested() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let known = message("t", 1, 10);
    node.rpc(peers[0], publish([known.clone()]));
    node.sent();
    let mut announced = ids(0, 3);
    announced.push(id_of(&known));
    node.rpc(peers[1], ihave("t", announced));
    let iwants = node.sent().iwants();
    assert_eq!(iwants.len(), 1);
    let mut asked = iwants[0].1.clone();
    asked.sort();
    assert_eq!((iwants[0].0, asked), (peers[1], ids(0, 3)));
}

#[test]
fn announcements_on_unjoined_topics_are_ignored() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 1, 0);
    node.rpc(peers[0], ihave("other", ids(0, 3)));
    assert!(node.sent().0.is_empty());
    assert_eq!(node.ignored(Ignored::IHaveNotSubscribed), 3);
    assert_eq!(node.engine.sizes().topics, 1);
}

#[test]
fn a_message_is_sent_to_a_peer_at_most_three_times() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let id = node.publish("t", 10).id;
    node.sent();
    let mut answers = 0;
    for _ in 0..10 {
        node.rpc(peers[0], iwant(vec![id.clone()]));
        answers += node.sent().messages().len();
    }
    assert_eq!(answers, 3);
    assert_eq!(node.ignored(Ignored::IWantRetransmissions), 7);
    node.rpc(peers[1], iwant(vec![id]));
    assert_eq!(node.sent().receivers(), [peers[1]]);
}

#[test]
fn iwant_does_not_double_an_owed_copy() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let id = node.publish("t", 10).id;
    node.rpc(peers[0], iwant(vec![id]));
    assert_eq!(node.sent().receivers(), peers);
}

#[test]
fn ten_announcements_per_heartbeat_are_processed() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    for number in 0..20 {
        node.rpc(peers[0], ihave("t", ids(number * 10, 10)));
    }
    assert_eq!(node.sent().iwants().len(), 10);
    assert_eq!(node.ignored(Ignored::IHaveMessagesOverLimit), 100);
    node.heartbeat();
    node.rpc(peers[0], ihave("t", ids(0, 10)));
    assert_eq!(node.sent().iwants().len(), 1);
}

#[test]
fn five_thousand_ids_per_heartbeat_are_requested() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let asked = |node: &mut Node| -> usize { node.sent().iwants().iter().map(|(_, ids)| ids.len()).sum() };
    node.rpc(peers[0], ihave("t", ids(0, 6000)));
    assert_eq!(asked(&mut node), 5000);
    node.rpc(peers[0], ihave("t", ids(10_000, 1000)));
    assert_eq!(asked(&mut node), 0);
    node.heartbeat();
    node.rpc(peers[0], ihave("t", ids(20_000, 3000)));
    node.rpc(peers[0], ihave("t", ids(30_000, 3000)));
    assert_eq!(asked(&mut node), 5000);
}

#[test]
fn an_id_announced_twice_in_one_rpc_is_requested_once() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let twice = [ids(0, 5), ids(0, 5)].concat();
    node.rpc(peers[0], ihave("t", twice));
    assert_eq!(node.sent().iwants()[0].1.len(), 5);
}

#[test]
fn iwant_floods_are_cut() {
    let config = changed(plain(), |config| config.gossip.iwant_ids_max = 100);
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], iwant(ids(0, 1000)));
    assert_eq!(node.ignored(Ignored::IWantUnknown), 100);
    assert_eq!(node.ignored(Ignored::IWantIdsOverLimit), 900);
    node.rpc(peers[0], iwant(ids(0, 1000)));
    assert_eq!(node.ignored(Ignored::IWantUnknown), 100);
}

#[test]
fn a_broken_promise_costs_a_penalty_and_a_kept_one_does_not() {
    let (mut node, peers) = Node::on_topic(scored(), "t", 6, 0);
    let coming = message("t", 1, 10);
    node.rpc(peers[0], ihave("t", ids(0, 20)));
    node.rpc(peers[1], ihave("t", vec![id_of(&coming)]));
    node.advance(Duration::from_secs(2));
    // The message arrives from another peer, which also keeps the promise.
    node.rpc(peers[2], publish([coming]));
    node.advance(Duration::from_secs(3));
    assert_eq!(node.engine.metrics().promises_broken, 1, "one of the ids is tracked");
    assert!(node.engine.peer_score(peers[0]) < 0.0);
    assert_eq!(node.engine.peer_score(peers[1]), 0.0);
}

#[test]
fn each_peer_gets_a_different_part_of_a_long_list() {
    let config = changed(plain(), |config| config.gossip.ihave_ids_max = 10);
    let (mut node, _) = Node::on_topic(config, "t", 20, 2);
    for _ in 0..40 {
        node.publish("t", 10);
    }
    let ihaves = node.sent_at_heartbeat().ihaves();
    assert!(ihaves.iter().all(|(_, ihave)| ihave.ids.len() == 10));
    let mut announced: Vec<_> = ihaves.into_iter().flat_map(|(_, ihave)| ihave.ids).collect();
    announced.sort();
    announced.dedup();
    assert!(announced.len() > 20, "{} different ids", announced.len());
}

#[test]
fn lists_beyond_the_frame_limit_are_split() {
    let config = Config { max_control_bytes: 500, ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 12, 2);
    let mut published = Vec::new();
    for _ in 0..100 {
        published.push(node.publish("t", 10).id);
    }
    published.sort();
    let sent = node.sent_at_heartbeat();
    use samara_engine::Frame;
    assert!(sent.0.iter().all(|(.., frame)| frame.encoded_len() <= 500));
    let first = sent.ihaves()[0].0;
    let to_first = sent.ihaves().into_iter().filter(|(peer, _)| *peer == first);
    let mut announced: Vec<_> = to_first.flat_map(|(_, ihave)| ihave.ids).collect();
    announced.sort();
    assert_eq!(announced, published);
}

#[test]
fn one_rpc_can_carry_all_kinds_of_messages() {
    let (mut node, _) = Node::on_topic(plain(), "t", 0, 0);
    let peer = node.connect();
    node.sent();
    let mut rpc = subscriptions(true, &["t".to_owned()]);
    rpc.publish.push(message("t", 1, 10));
    rpc.control = Some(Box::new(Control {
        graft: vec![topic("t")],
        ihave: vec![samara_gossipsub::rpc::IHave { topic: topic("t"), ids: ids(0, 2) }],
        idontwant: ids(5, 2),
        ..Control::default()
    }));
    node.rpc(peer, rpc);
    assert_eq!(node.mesh("t"), [peer]);
    assert_eq!(node.sent().iwants()[0].1.len(), 2);
    assert_eq!(node.engine.sizes().unwanted, 2);
    assert_eq!(node.delivered().len(), 1);
}

#[test]
fn duplicates_are_counted_and_optionally_reported() {
    let (mut node, peers) = Node::on_topic(Config { report_duplicates: true, ..plain() }, "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    node.rpc(peers[1], publish([message("t", 1, 10)]));
    assert_eq!(node.engine.metrics().duplicates_received, 1);
    let from = node.events.iter().find_map(|event| match event {
        Event::Duplicate { from, .. } => Some(*from),
        _ => None,
    });
    assert_eq!(from, Some(peers[1]));
    assert_eq!(node.delivered().len(), 1);
}

/// A rejected peer may have no other mesh. It receives an announcement of every message at every
/// heartbeat until it may graft again.
#[test]
fn peers_rejected_by_a_full_mesh_get_gossip_about_every_message() {
    for enabled in [true, false] {
        let mut config = Config { gossip_to_pruned: enabled, ..plain() };
        config.mesh.gossip_factor = 0.0;
        config.mesh.d_lazy = 1;
        let (mut node, peers) = Node::on_topic(config, "t", 40, 0);
        node.rpcs(&peers, graft(&["t"]));
        let refused = node.ignored(Ignored::GraftMeshFull) as usize;
        assert_eq!(
            (node.mesh("t").len(), refused),
            (12, 28),
            "the mesh accepts D_high peers and rejects all others"
        );
        for number in 0..5 {
            node.rpc(peers[0], publish([message("t", number, 100)]));
            let sent = node.sent_at_heartbeat();
            let announced: std::collections::BTreeSet<_> =
                sent.ihaves().into_iter().map(|(peer, _)| peer).collect();
            if enabled {
                // The peers that the heartbeat pruned receive gossip too.
                assert!(announced.len() >= refused, "{} of {refused}", announced.len());
            } else {
                assert_eq!(announced.len(), 1);
            }
        }
        node.advance(Duration::from_secs(70));
        node.rpc(peers[0], publish([message("t", 99, 100)]));
        assert!(node.sent_at_heartbeat().ihaves().len() <= 1, "the rejected peers may graft again");
    }
}

/// A node of 2019 with 14 of 20 peers outside its mesh, after publishing messages.
fn node_of_2019(messages: usize) -> (Node, Vec<MessageId>) {
    let config = Config { heartbeat_spread: Some(Duration::ZERO), ..Config::go_libp2p_pubsub_0_2() };
    let (mut node, _) = Node::on_topic(config, "t", 20, 0);
    let ids = (0..messages).map(|_| node.publish("t", 1000).id).collect();
    node.sent();
    (node, ids)
}

#[test]
fn one_frame_with_200_answers_takes_one_place_in_a_queue_of_32() {
    let (mut node, ids) = node_of_2019(200);
    let peer = PeerId(0);
    node.rpc(peer, iwant(ids.clone()));
    assert_eq!(node.outbox.pending_to(peer), 1);
    assert_eq!(node.engine.metrics().answered_copies, 200);
    let sent = node.sent();
    assert_eq!((sent.0.len(), sent.messages().len()), (1, 200));

    node.events.clear();
    // The queue has room for 32 answers; the next one is lost with all of its messages.
    for _ in 0..33 {
        node.rpc(peer, iwant(ids[..10].to_vec()));
    }
    assert_eq!(node.outbox.pending_to(peer), 32);
    let lost =
        node.events.iter().filter(|event| matches!(event, Event::Lost(lost) if lost.message.is_some()));
    assert_eq!(lost.count(), 10);
}

#[test]
fn a_frame_for_each_of_200_answers_overflows_a_queue_of_32() {
    let go = Config { heartbeat_spread: Some(Duration::ZERO), ..Config::go_libp2p_pubsub() };
    for (answers, sent) in [(go.answers, 200), (Answers::FramePerMessage, 32)] {
        let (mut node, _) = Node::on_topic(Config { answers, ..go.clone() }, "t", 1, 0);
        let ids: Vec<_> = (0..200).map(|_| node.publish("t", 1000).id).collect();
        node.sent();
        node.rpc(PeerId(0), iwant(ids));
        assert_eq!(node.sent().messages().len(), sent, "{answers:?}");
    }
}

#[test]
fn an_answer_is_split_at_the_maximum_length_of_a_frame() {
    let answers = Answers::OneFrame { bytes_max: 10_500 };
    let config = Config { answers, ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 1, 0);
    let ids: Vec<_> = (0..25).map(|_| node.publish("t", 1000).id).collect();
    node.sent();
    let twice = ids.iter().chain(&ids).cloned().collect();
    node.rpc(PeerId(0), iwant(twice));
    let sent = node.sent();
    let lengths: Vec<_> = sent.0.iter().map(|(_, _, frame)| frame.rpc().publish.len()).collect();
    assert_eq!(lengths, [10, 10, 5], "no message is sent twice in an answer");
}

#[test]
fn waiting_gossip_leaves_with_the_next_rpc_or_the_next_heartbeat() {
    let (mut node, ids) = node_of_2019(1);
    assert!(node.sent_at_heartbeat().ihaves().is_empty(), "it waits");
    assert_eq!(node.sent_at_heartbeat().ihaves().len(), 6, "no RPC carried it");
    for peer in (0..20).map(PeerId) {
        node.rpc(peer, iwant(ids.clone()));
    }
    let sent = node.sent();
    assert_eq!((sent.ihaves().len(), sent.messages().len()), (6, 20), "it goes ahead of the next RPC");
    assert!(node.sent_at_heartbeat().ihaves().is_empty());
}

#[test]
fn gossip_drawn_from_all_subscribers_leaves_out_the_mesh() {
    let config = Config { gossip_draws_from_all: true, ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 12, 12);
    let mesh = node.mesh("t");
    let mut announced = 0;
    for number in 0..20 {
        node.rpc(mesh[0], publish([message("t", number, 10)]));
        let ihaves = node.sent_at_heartbeat().ihaves();
        assert!(ihaves.iter().all(|(peer, _)| !node.mesh("t").contains(peer)));
        announced += ihaves.len();
    }
    // Six of twelve peers are in the mesh, so that three of six draws count on average.
    assert!((40..80).contains(&announced), "{announced}");
}

/// What the guide "from libp2p-gossipsub" says of a message before its peers.
#[test]
fn later_peers_learn_of_messages_of_the_last_heartbeats() {
    for (is_joined, gossip_to_pruned, late, expected) in
        [(true, true, 2, 1), (true, true, 3, 0), (true, false, 2, 0), (false, true, 0, 0)]
    {
        let mut node = Node::new(Config { gossip_to_pruned, flood_publish: true, ..plain() });
        if is_joined {
            node.subscribe("t");
        }
        let receipt = node.publish("t", 10);
        assert_eq!(receipt.peers, 0);
        (0..late).for_each(|_| node.heartbeat());
        node.join_peer("t", false);
        let ihaves = node.sent_at_heartbeat().ihaves();
        let case = (is_joined, gossip_to_pruned, late);
        assert_eq!(ihaves.len(), expected, "{case:?}");
        assert!(ihaves.iter().all(|(_, ihave)| ihave.ids == [receipt.id.clone()]));
    }
}
