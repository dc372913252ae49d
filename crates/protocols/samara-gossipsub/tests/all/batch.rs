//! Batches of own messages.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use samara_engine::outbox::{Dispatch, FeedbackSource, MessageOrder, PeerOrder, Schedule, Weight};
use samara_engine::{Input, MessageKey, PeerId};
use samara_gossipsub::rpc::Topic;
use samara_gossipsub::{BatchReceipt, Command, Config, Event, PublishError};

fn columns(count: usize) -> Vec<(Topic, Bytes)> {
    (0..count).map(|at| (topic(&format!("column-{at}")), Bytes::from(vec![at as u8; 100]))).collect()
}

/// Creates a node that has joined `count` topics with `peers` peers on each.
fn publisher(config: Config, count: usize, peers: usize) -> Node {
    let mut node = Node::new(config);
    for _ in 0..peers {
        let peer = node.connect_as(V1_2, true);
        let names: Vec<String> = (0..count).map(|at| format!("column-{at}")).collect();
        node.rpc(peer, subscriptions(true, &names));
    }
    for at in 0..count {
        node.subscribe(&format!("column-{at}"));
    }
    node.sent();
    node
}

fn node_wide() -> Config {
    changed(plain(), |config| config.sending.dispatch = Dispatch::Node)
}

fn batch(node: &mut Node, messages: Vec<(Topic, Bytes)>, schedule: &Schedule) -> BatchReceipt {
    node.with(|engine, cx| engine.publish_batch(messages, schedule, cx))
}

/// Returns the messages in the order in which they leave.
fn order(node: &mut Node) -> Vec<MessageKey> {
    let mut keys = Vec::new();
    while let Some(copy) = node.pop() {
        keys.extend(copy.message);
    }
    keys
}

#[test]
fn sequential_sends_all_copies_of_a_message_before_the_next() {
    let mut node = publisher(node_wide(), 8, 6);
    let receipt = batch(&mut node, columns(8), &Schedule::Sequential);
    let expected: Vec<MessageKey> = receipt.published().flat_map(|one| vec![one.key; 6]).collect();
    assert_eq!(order(&mut node), expected);
}

#[test]
fn interleaved_sends_first_copies_of_all_messages_before_second_ones() {
    let mut node = publisher(node_wide(), 8, 6);
    let receipt = batch(&mut node, columns(8), &Schedule::INTERLEAVED);
    let round: Vec<MessageKey> = receipt.published().map(|one| one.key).collect();
    assert_eq!(order(&mut node), round.repeat(6));
    assert_eq!(receipt.copies(), 48);
}

#[test]
fn answers_to_iwant_do_not_overtake_first_copies() {
    let mut node = publisher(node_wide(), 8, 6);
    let receipt = batch(&mut node, columns(8), &Schedule::INTERLEAVED);
    // Every peer requests the first three messages, as after gossip in the middle of a burst.
    let ids = receipt.published().take(3).map(|one| one.id.clone()).collect::<Vec<_>>();
    for peer in (0..6).map(PeerId) {
        node.rpc(peer, iwant(ids.clone()));
    }
    let round: Vec<MessageKey> = receipt.published().map(|one| one.key).collect();
    assert_eq!(order(&mut node), round.repeat(6));
}

#[test]
fn shuffled_sends_every_message_once_a_round_in_a_new_order() {
    let mut node = publisher(node_wide(), 16, 6);
    let schedule = Schedule::Interleaved { messages: MessageOrder::Shuffled, peers: PeerOrder::Random };
    let receipt = batch(&mut node, columns(16), &schedule);
    let all: Vec<MessageKey> = receipt.published().map(|one| one.key).collect();
    let order = order(&mut node);
    let rounds: Vec<&[MessageKey]> = order.chunks(16).collect();
    assert_eq!(rounds.len(), 6);
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort();
        assert_eq!(sorted, all);
    }
    assert_ne!(rounds[0], rounds[1]);
}

#[test]
fn feedback_delays_announced_messages() {
    let mut node = publisher(node_wide(), 4, 6);
    let schedule = Schedule::Feedback {
        source: FeedbackSource::Peers { cap: 4 },
        messages: MessageOrder::AsGiven,
        peers: PeerOrder::AsGiven,
    };
    let receipt = batch(&mut node, columns(4), &schedule);
    let receipts: Vec<_> = receipt.published().collect();
    let announcing = node.engine.peers()[0];
    node.rpc(announcing, ihave("column-0", vec![receipts[0].id.clone()]));
    let order = order(&mut node);
    assert_eq!(order[..4], [receipts[1].key, receipts[2].key, receipts[3].key, receipts[0].key]);
    assert_eq!(order.len(), 23, "the announcing peer is owed one copy less");
}

#[test]
fn topics_without_peers_are_reported_and_delay_no_other() {
    let mut node = publisher(plain(), 2, 3);
    let mut messages = columns(2);
    messages.insert(1, (topic("lonely"), Bytes::from_static(b"data")));
    let receipt = batch(&mut node, messages, &Schedule::INTERLEAVED);
    assert_eq!(receipt.topics_without_peers().collect::<Vec<_>>(), [&topic("lonely")]);
    assert_eq!(receipt.published().map(|one| one.peers).collect::<Vec<_>>(), [3, 0, 3]);
    assert_eq!(node.sent().messages().len(), 6);
}

#[test]
fn unpublishable_messages_are_reported_and_delay_no_other() {
    let mut node = publisher(plain(), 2, 3);
    let known = message("column-0", 5, 10);
    node.with(|engine, cx| engine.publish_message(known.clone(), cx)).unwrap();
    node.sent();
    let long = message("column-1", 6, (1 << 20) + 1);
    let batch = [known.clone(), long, message("column-1", 7, 10), message("column-1", 7, 10)];
    let receipt = node.with(|engine, cx| engine.publish_message_batch(batch, &Schedule::INTERLEAVED, cx));
    let [known_again, long, new, twice] = &receipt.messages[..] else { panic!("{receipt:?}") };
    assert_eq!(*known_again, Err(PublishError::Duplicate(id_of(&known))));
    assert!(matches!(long, Err(PublishError::TooLong { found: 1_048_577, allowed: 1_048_576, .. })));
    assert_eq!(new.as_ref().unwrap().peers, 3);
    assert!(matches!(twice, Err(PublishError::Duplicate(_))));
    assert_eq!(node.sent().messages().len(), 3);
}

#[test]
fn copies_that_do_not_fit_are_counted_in_the_receipt() {
    // The configuration that lost 30 % of the copies in practice: one queue of 32 frames per peer.
    let config = Config { heartbeat_spread: Some(Duration::ZERO), ..Config::go_libp2p_pubsub() };
    let mut node = publisher(config, 40, 5);
    let receipt = batch(&mut node, columns(40), &Schedule::INTERLEAVED);
    let lost: usize = receipt.published().map(|one| one.lost).sum();
    assert_eq!(lost, 8 * 5);
    assert_eq!(receipt.copies(), 32 * 5);
    assert!(receipt.published().all(|one| one.peers == 5 && one.owed() == 5 - one.lost));
    assert_eq!(node.engine.metrics().published_copies, 32 * 5);
    assert_eq!(node.sent().messages().len(), 32 * 5);
}

#[test]
fn a_publish_command_returns_its_receipt_as_an_event() {
    let mut node = publisher(plain(), 3, 3);
    let schedule = Schedule::INTERLEAVED;
    node.handle(Input::Command(Command::PublishBatch { messages: columns(3), schedule }));
    let receipts = node.events.iter().find_map(|event| match event {
        Event::Published(receipt) => Some(receipt.clone()),
        _ => None,
    });
    assert_eq!(receipts.unwrap().copies(), 9);
}

#[test]
fn own_messages_are_delivered_locally_unless_configured_otherwise() {
    let mut node = publisher(plain(), 3, 3);
    batch(&mut node, columns(3), &Schedule::INTERLEAVED);
    assert_eq!(node.delivered().len(), 3);
    let mut node = publisher(Config { deliver_own: false, ..plain() }, 3, 3);
    batch(&mut node, columns(3), &Schedule::INTERLEAVED);
    assert!(node.delivered().is_empty());
}

#[test]
fn idontwant_of_a_batch_is_one_list_per_peer() {
    let config = changed(plain(), |config| config.idontwant.threshold_bytes = 50);
    let mut node = publisher(config, 25, 6);
    batch(&mut node, columns(25), &Schedule::INTERLEAVED);
    let lengths: Vec<usize> = node.sent().idontwants().iter().map(|(_, ids)| ids.len()).collect();
    assert_eq!(lengths, [10, 10, 5].repeat(6));

    // In go-libp2p-pubsub, every message has a separate RPC.
    let mut config = Config { heartbeat_spread: Some(Duration::ZERO), ..Config::go_libp2p_pubsub() };
    config.idontwant.threshold_bytes = 50;
    let mut node = publisher(config, 12, 6);
    batch(&mut node, columns(12), &Schedule::INTERLEAVED);
    let lengths: Vec<usize> = node.sent().idontwants().iter().map(|(_, ids)| ids.len()).collect();
    assert_eq!(lengths, vec![1; 12 * 6]);
}

#[test]
fn a_weighted_order_prefers_peers_with_good_scores() {
    let config = changed(scored(), |config| config.sending.dispatch = Dispatch::Node);
    let mut node = publisher(config, 200, 3);
    let peers = node.engine.peers().to_vec();
    for (peer, score) in peers.iter().zip([90.0, 9.0, 1.0]) {
        node.set_score(*peer, score);
    }
    let schedule =
        Schedule::Interleaved { messages: MessageOrder::AsGiven, peers: PeerOrder::Weighted(Weight::Score) };
    batch(&mut node, columns(200), &schedule);
    let mut first = [0; 3];
    for _ in 0..200 {
        let copy = node.pop().unwrap();
        first[peers.iter().position(|peer| *peer == copy.peer).unwrap()] += 1;
    }
    assert!(first[0] > 160 && first[1] < 40 && first[2] < 10, "{first:?}");
}

#[test]
fn the_seed_determines_the_order() {
    let run = |seed| {
        let mut node = Node::with_seed(node_wide(), seed);
        node.join_peers("t", 20, false);
        node.subscribe("t");
        node.sent();
        node.publish("t", 10);
        let mut peers = Vec::new();
        while let Some(copy) = node.pop() {
            peers.push(copy.peer);
        }
        peers
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn staggered_sends_the_next_copy_on_arrival_of_the_last_or_after_the_timeout() {
    let mut node = publisher(node_wide(), 1, 3);
    let timeout = std::time::Duration::from_millis(200);
    let receipt = batch(&mut node, columns(1), &Schedule::Staggered { timeout });
    let id = receipt.published().next().unwrap().id.clone();
    let first = node.pop().unwrap().peer;
    assert!(node.pop().is_none(), "the first copy has not arrived yet");
    node.rpc(first, idontwant(vec![id]));
    let second = node.pop().unwrap().peer;
    assert_ne!(first, second);
    assert!(node.pop().is_none());
    node.advance(timeout);
    assert!(node.pop().is_some());
}

#[test]
fn only_the_observer_gives_feedback() {
    let mut node = publisher(node_wide(), 2, 6);
    let observer = node.connect();
    node.sent();
    node.with(|engine, cx| engine.set_observers([identity(observer.0)], cx));
    let schedule = Schedule::Feedback {
        source: FeedbackSource::Observers,
        messages: MessageOrder::AsGiven,
        peers: PeerOrder::AsGiven,
    };
    let run = |node: &mut Node, from| {
        let receipt = batch(node, columns(2), &schedule);
        let receipts: Vec<_> = receipt.published().cloned().collect();
        node.rpc(from, idontwant(vec![receipts[0].id.clone()]));
        let next = node.pop().unwrap().message;
        order(node);
        receipts.iter().position(|receipt| Some(receipt.key) == next).unwrap()
    };
    let untrusted = node.engine.peers()[0];
    assert_eq!(run(&mut node, untrusted), 0, "the IDONTWANT of an untrusted peer is no feedback");
    assert_eq!(run(&mut node, observer), 1);
}

#[test]
fn orders_by_what_nobody_knows_are_counted() {
    let mut node = publisher(node_wide(), 2, 3);
    let peers = node.engine.peers().to_vec();
    let weighted = |weight| Schedule::Interleaved {
        messages: MessageOrder::AsGiven,
        peers: PeerOrder::Weighted(weight),
    };
    let counted = |node: &Node| {
        let metrics = node.engine.metrics();
        (metrics.unweighed_copies, metrics.unobserved_messages)
    };
    batch(&mut node, columns(2), &weighted(Weight::Score));
    assert_eq!(counted(&node), (0, 0), "the engine knows scores");
    let others = |from: u8| {
        let names = (0..2).map(|at| topic(&format!("column-{at}")));
        names.enumerate().map(|(at, topic)| (topic, Bytes::from(vec![from + at as u8; 100]))).collect()
    };
    node.outbox.set_round_trip(peers[0], Some(Duration::from_millis(30)));
    batch(&mut node, others(10), &weighted(Weight::Latency));
    assert_eq!(counted(&node), (4, 0));
    batch(&mut node, others(20), &weighted(Weight::Bandwidth));
    assert_eq!(counted(&node), (10, 0));
    let observed = Schedule::Feedback {
        source: FeedbackSource::Observers,
        messages: MessageOrder::AsGiven,
        peers: PeerOrder::AsGiven,
    };
    batch(&mut node, others(30), &observed);
    assert_eq!(counted(&node), (10, 2));
    let observer = node.connect();
    node.with(|engine, cx| engine.set_observers([identity(observer.0)], cx));
    batch(&mut node, others(40), &observed);
    assert_eq!(counted(&node), (10, 2));
}
