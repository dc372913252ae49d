//! Verdicts on messages, immediate and deferred.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use samara_engine::PeerId;
use samara_gossipsub::config::{Authenticity, TopicConfig, ValidatorHook, Verdict};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, MessageId, Topic};
use samara_gossipsub::score::TopicScoreParams;
use samara_gossipsub::signature::Verifier;
use samara_gossipsub::{Acceptance, Config, Event, Ignored};

fn deferring(config: Config) -> Config {
    Config { validator: Some(ValidatorHook::deferred()), ..config }
}

fn waiting(node: &Node) -> Vec<MessageId> {
    let of = |event: &Event| match event {
        Event::NeedsValidation { id, .. } => Some(id.clone()),
        _ => None,
    };
    node.events.iter().filter_map(of).collect()
}

fn report(node: &mut Node, id: &MessageId, acceptance: Acceptance) -> bool {
    node.with(|engine, cx| engine.report_validation(id, acceptance, cx))
}

#[test]
fn a_deferred_message_is_delivered_and_forwarded_once_accepted() {
    let (mut node, peers) = Node::on_topic(deferring(plain()), "t", 6, 0);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    assert_eq!(waiting(&node), [id_of(&new)]);
    assert!(node.sent().messages().is_empty());
    assert!(report(&mut node, &id_of(&new), Acceptance::Accept));
    assert_eq!(node.sent().receivers(), peers[1..]);
    assert_eq!(node.delivered().len(), 1);
    assert!(!report(&mut node, &id_of(&new), Acceptance::Accept), "only once");
}

#[test]
fn a_pending_message_is_not_requested_answered_or_announced() {
    let (mut node, peers) = Node::on_topic(deferring(plain()), "t", 20, 20);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    node.rpc(peers[1], publish([new.clone()]));
    assert_eq!(waiting(&node).len(), 1);
    node.rpc(peers[2], iwant(vec![id_of(&new)]));
    node.heartbeat();
    let sent = node.sent();
    assert!(sent.messages().is_empty() && sent.ihaves().is_empty());
}

#[test]
fn peers_that_sent_a_pending_message_do_not_get_it() {
    let (mut node, peers) = Node::on_topic(deferring(plain()), "t", 6, 0);
    let new = message("t", 1, 10);
    node.rpcs(&peers[..3], publish([new.clone()]));
    node.rpc(peers[3], idontwant(vec![id_of(&new)]));
    report(&mut node, &id_of(&new), Acceptance::Accept);
    assert_eq!(node.sent().receivers(), peers[4..]);
}

#[test]
fn ignored_and_rejected_messages_are_dropped_and_counted() {
    let (mut node, peers) = Node::on_topic(deferring(plain()), "t", 6, 0);
    for (number, acceptance) in [(1, Acceptance::Ignore), (2, Acceptance::Reject)] {
        let new = message("t", number, 10);
        node.rpc(peers[0], publish([new.clone()]));
        assert!(report(&mut node, &id_of(&new), acceptance));
        node.rpc(peers[1], publish([new]));
    }
    assert!(node.sent().messages().is_empty());
    assert!(node.delivered().is_empty());
    assert_eq!((node.ignored(Ignored::MessageIgnored), node.ignored(Ignored::MessageRejected)), (1, 1));
    assert_eq!(node.engine.metrics().duplicates_received, 2, "dropped messages stay known");
}

#[test]
fn a_message_without_a_verdict_times_out() {
    let config = Config { validation_timeout: Duration::from_secs(5), ..deferring(plain()) };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    node.advance(Duration::from_secs(3));
    node.rpc(peers[0], publish([message("t", 2, 10)]));
    node.advance(Duration::from_secs(3));
    assert_eq!(node.ignored(Ignored::ValidationTimedOut), 1);
    assert_eq!(node.engine.sizes().pending_validations, 1);
    assert!(!report(&mut node, &id_of(&message("t", 1, 10)), Acceptance::Accept));
    assert!(report(&mut node, &id_of(&message("t", 2, 10)), Acceptance::Accept));
}

#[test]
fn messages_beyond_the_limit_can_arrive_again() {
    let config = Config { pending_validations_max: 2, ..deferring(plain()) };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    let new: Vec<_> = (0..3).map(|number| message("t", number, 10)).collect();
    node.rpc(peers[0], publish(new.clone()));
    assert_eq!(node.ignored(Ignored::ValidationThrottled), 1);
    report(&mut node, &id_of(&new[0]), Acceptance::Accept);
    // The message does not count as seen, so it can arrive again.
    node.rpc(peers[1], publish([new[2].clone()]));
    assert_eq!(waiting(&node).len(), 3);
}

#[test]
fn payloads_beyond_the_bytes_can_arrive_again() {
    let config = Config { pending_validation_bytes_max: 1_500, ..deferring(plain()) };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    let new: Vec<_> = (0..3).map(|number| message("t", number, 1_000)).collect();
    for message in &new {
        node.rpc(peers[0], publish([message.clone()]));
    }
    assert_eq!(node.engine.sizes().pending_validation_bytes, 2_000);
    assert_eq!(node.ignored(Ignored::ValidationThrottled), 1);
    report(&mut node, &id_of(&new[0]), Acceptance::Accept);
    assert_eq!(node.engine.sizes().pending_validation_bytes, 1_000);
    node.rpc(peers[1], publish([new[2].clone()]));
    assert_eq!(waiting(&node).len(), 3);
}

#[test]
fn a_message_accepted_after_leaving_the_topic_is_dropped() {
    let (mut node, peers) = Node::on_topic(deferring(plain()), "t", 6, 0);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    node.unsubscribe("t");
    node.sent();
    report(&mut node, &id_of(&new), Acceptance::Accept);
    assert!(node.sent().messages().is_empty());
    assert!(node.delivered().is_empty());
}

#[test]
fn topics_can_override_validator_and_ids() {
    let mut config = plain();
    let reject = ValidatorHook::new(|_: PeerId, _: &Topic, _: &Message| Verdict::Reject);
    let own = TopicConfig {
        validator: Some(reject),
        message_id: Some(MessageIdFn::Sha256Data { len: 20 }),
        max_message_bytes: Some(50),
        ..TopicConfig::default()
    };
    config.topics.insert(topic("own"), own);
    let (mut node, peers) = Node::on_topic(config, "t", 2, 0);
    node.subscribe("own");
    node.sent();
    node.rpc(peers[0], publish([message("t", 1, 60)]));
    assert_eq!(node.delivered().len(), 1);
    node.rpc(peers[0], publish([message("own", 1, 60)]));
    assert_eq!(node.ignored(Ignored::MessageTooLong), 1);
    node.rpc(peers[0], publish([message("own", 1, 50)]));
    assert_eq!(node.ignored(Ignored::MessageRejected), 1);
    // On this topic, the same payload with another sequence number is the same message.
    let data = Bytes::from(vec![1; 50]);
    let same = Message::with_author(topic("own"), data, Bytes::from_static(b"author"), 2);
    node.rpc(peers[1], publish([Arc::new(same)]));
    assert_eq!(node.engine.metrics().duplicates_received, 1);
}

#[test]
fn forged_messages_of_this_node_are_dropped() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    node.publish("t", 10);
    let own = node.sent().messages()[0].1.clone();
    node.rpc(peers[0], publish([own]));
    assert_eq!(node.engine.metrics().duplicates_received, 1, "a copy of an own message is a duplicate");
    let forged = Message::with_author(topic("t"), Bytes::from_static(b"x"), Bytes::from_static(b"me"), 3);
    node.rpc(peers[0], publish([Arc::new(forged)]));
    assert_eq!(node.ignored(Ignored::MessageFromSelf), 1);
}

/// A node that has restarted does not know its earlier messages, which honest peers still pass on.
#[test]
fn own_messages_of_an_earlier_life_cost_no_score() {
    struct Honest;
    impl Verifier for Honest {
        fn verify(&self, _: &[u8], _: Option<&[u8]>, _: &[u8], signature: &[u8]) -> bool {
            signature == b"honest"
        }
    }
    let config = Config {
        authenticity: Authenticity::strict(Honest),
        topic_score: Some(TopicScoreParams::default()),
        ..scored()
    };
    let (mut node, peers) = Node::on_topic(config, "t", 3, 0);
    let own = |number: u64, signature: &'static [u8]| {
        let data = Bytes::from_static(b"x");
        let mut own = Message::with_author(topic("t"), data, Bytes::from_static(b"me"), number);
        own.signature = Some(Bytes::from_static(signature));
        Arc::new(own)
    };
    let before = node.engine.peer_score(peers[0]);
    for number in 0..20 {
        node.rpc(peers[0], publish([own(number, b"honest")]));
    }
    assert_eq!(node.ignored(Ignored::MessageFromSelf), 20);
    assert!(node.delivered().is_empty());
    assert!(node.engine.peer_score(peers[0]) >= before, "an honest peer loses score");
    node.rpc(peers[1], publish([own(0, b"honest")]));
    assert_eq!(node.engine.metrics().duplicates_received, 1, "the message is known now");
    let before = node.engine.peer_score(peers[2]);
    node.rpc(peers[2], publish([own(20, b"forged")]));
    assert!(node.engine.peer_score(peers[2]) < before, "a forged message costs no score");
}

#[test]
fn a_message_is_not_sent_to_its_author() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    let author = Bytes::copy_from_slice(identity(3).as_bytes());
    let new = Message::with_author(topic("t"), Bytes::from_static(b"x"), author, 3);
    node.rpc(peers[0], publish([Arc::new(new)]));
    assert_eq!(node.sent().receivers(), [peers[1], peers[2], peers[4], peers[5]]);
}

#[test]
fn a_forged_message_does_not_block_the_genuine_one() {
    struct Honest;
    impl Verifier for Honest {
        fn verify(&self, _: &[u8], _: Option<&[u8]>, _: &[u8], signature: &[u8]) -> bool {
            signature == b"honest"
        }
    }
    let config = Config { authenticity: Authenticity::strict(Honest), ..plain() };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    let signed = |signature: Option<&'static [u8]>| {
        let mut new =
            Message::with_author(topic("t"), Bytes::from_static(b"x"), Bytes::from_static(b"author"), 3);
        new.signature = signature.map(Bytes::from_static);
        Arc::new(new)
    };
    node.rpc(peers[0], publish([signed(Some(b"forged"))]));
    node.rpc(peers[0], publish([signed(None)]));
    assert_eq!(node.ignored(Ignored::MessageSignature), 2);
    assert!(node.sent().0.is_empty());
    node.rpc(peers[1], publish([signed(Some(b"honest"))]));
    assert_eq!(node.delivered().len(), 1);
    // Without a signer, this node cannot publish and returns an error.
    let error = node.with(|engine, cx| engine.publish(&topic("t"), Bytes::from_static(b"x"), cx));
    assert!(error.unwrap_err().to_string().contains("no signer"));
}
