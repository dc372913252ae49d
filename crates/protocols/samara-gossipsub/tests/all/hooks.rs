//! What an application changes: payloads, authors, refused peers, and scores of topics.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use samara_gossipsub::config::{Authenticity, Author, Hook, Transform, ValidatorHook, Verdict};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, Topic};
use samara_gossipsub::score::{PeerScoreParams, TopicScoreParams};
use samara_gossipsub::signature::SignaturePolicy;
use samara_gossipsub::{Config, Event, GossipSub, Ignored, PublishError};

use crate::common::*;

/// Runs of equal bytes as pairs of their length and the byte.
struct Runs;

impl Transform for Runs {
    fn inbound(&self, _: &Topic, data: &Bytes) -> Result<Bytes, String> {
        if !data.len().is_multiple_of(2) {
            return Err("half a pair".to_owned());
        }
        Ok(data.chunks(2).flat_map(|pair| vec![pair[1]; usize::from(pair[0])]).collect())
    }

    fn outbound(&self, topic: &Topic, data: &Bytes) -> Result<Bytes, String> {
        if topic.as_str() == "refused" {
            return Err("not on this topic".to_owned());
        }
        Ok(data.chunk_by(|a, b| a == b).flat_map(|run| [run.len() as u8, run[0]]).collect())
    }
}

fn transforming() -> Config {
    let message_id = MessageIdFn::custom(|message| message.data.to_vec().into());
    Config { transform: Some(Hook(Arc::new(Runs))), message_id, max_message_bytes: 100, ..plain() }
}

fn on_wire(data: &'static [u8]) -> Arc<Message> {
    Arc::new(Message::new(topic("t"), Bytes::from_static(data)))
}

#[test]
fn the_application_sees_payloads_that_peers_do_not() {
    let (mut node, peers) = Node::on_topic(transforming(), "t", 6, 0);
    let data = Bytes::from_static(b"aaaab");
    let receipt = node.with(|engine, cx| engine.publish(&topic("t"), data.clone(), cx)).unwrap();
    assert_eq!(receipt.id.as_bytes(), b"aaaab", "the id of what the application published");
    let sent = node.sent().messages();
    assert_eq!(sent.len(), 6);
    assert!(sent.iter().all(|(_, message)| *message.data == *b"\x04a\x01b"), "{sent:?}");
    assert_eq!(node.delivered()[0].data, data);

    node.rpc(peers[0], publish([on_wire(b"\x04a\x01b")]));
    assert_eq!(node.engine.metrics().duplicates_received, 1, "the same id");
    node.rpc(peers[0], publish([on_wire(b"\x02x")]));
    assert_eq!(node.sent().messages()[0].1.data, &b"\x02x"[..], "forwarded as it arrived");
    assert_eq!(node.delivered()[0].data, &b"xx"[..]);
}

#[test]
fn two_forms_of_one_payload_are_one_message() {
    let (mut node, peers) = Node::on_topic(transforming(), "t", 6, 0);
    node.rpc(peers[0], publish([on_wire(b"\x02x")]));
    node.rpc(peers[1], publish([on_wire(b"\x01x\x01x")]));
    assert_eq!((node.delivered().len(), node.engine.metrics().duplicates_received), (1, 1));
}

#[test]
fn validators_see_the_payload_of_the_application() {
    let accepts = |message: &Message| *message.data == *b"xx";
    let validator = ValidatorHook::new(move |_, _: &Topic, message: &Message| match accepts(message) {
        true => Verdict::Accept,
        false => Verdict::Reject,
    });
    let config = Config { validator: Some(validator), ..transforming() };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([on_wire(b"\x02x"), on_wire(b"\x02y")]));
    assert_eq!((node.delivered().len(), node.ignored(Ignored::MessageRejected)), (1, 1));

    let config = Config { validator: Some(ValidatorHook::deferred()), ..transforming() };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([on_wire(b"\x02x")]));
    assert!(
        node.events
            .iter()
            .any(|event| matches!(event, Event::NeedsValidation { message, .. } if *message.data == *b"xx"))
    );
}

#[test]
fn a_payload_that_the_transform_refuses_is_rejected() {
    let params = PeerScoreParams::neutral();
    let topic_score = TopicScoreParams {
        invalid_message_deliveries_weight: -1.0,
        invalid_message_deliveries_decay: 0.9,
        ..TopicScoreParams::neutral()
    };
    let config = Config { peer_score: Some(params), topic_score: Some(topic_score), ..transforming() };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 0);
    node.rpc(peers[0], publish([on_wire(b"\x02x\x00")]));
    assert_eq!(node.ignored(Ignored::MessageTransform), 1);
    // 200 bytes from two, above the maximum of 100.
    node.rpc(peers[1], publish([on_wire(b"\xc8x")]));
    assert_eq!(node.ignored(Ignored::MessageTooLong), 1);
    assert!(node.delivered().is_empty() && node.sent().messages().is_empty());
    for peer in &peers[..2] {
        assert_eq!(node.engine.peer_score(*peer), -1.0);
    }
    let refused = node.with(|engine, cx| engine.publish(&topic("refused"), Bytes::from_static(b"x"), cx));
    assert_eq!(refused, Err(PublishError::Transform("not on this topic".to_owned())));
}

#[test]
fn messages_of_blacklisted_peers_and_authors_are_dropped() {
    let (mut node, peers) = Node::on_topic(plain(), "t", 6, 0);
    node.engine.blacklist_peer(identity(peers[0].0));
    node.rpc(peers[0], publish([message("t", 1, 10)]));
    let by_listed = |number| {
        let author = Bytes::copy_from_slice(identity(peers[0].0).as_bytes());
        Arc::new(Message::with_author(topic("t"), Bytes::from_static(b"data"), author, number))
    };
    node.rpc(peers[1], publish([by_listed(2)]));
    assert_eq!(node.ignored(Ignored::MessageBlacklisted), 2);
    assert!(node.delivered().is_empty() && node.sent().messages().is_empty());
    // The same message from another peer is new.
    node.rpc(peers[1], publish([message("t", 1, 10)]));
    assert_eq!(node.delivered().len(), 1);

    assert!(node.engine.remove_blacklisted_peer(&identity(peers[0].0)));
    assert!(!node.engine.remove_blacklisted_peer(&identity(peers[0].0)), "only once");
    node.rpc(peers[1], publish([by_listed(2)]));
    assert_eq!(node.delivered().len(), 1);
}

#[test]
fn random_authors_differ_and_have_no_signature() {
    let config = Config { authenticity: Authenticity::random_author(), ..plain() };
    let (mut node, _) = Node::on_topic(config, "t", 6, 0);
    let receipts: BTreeSet<_> = (0..50).map(|_| node.publish("t", 10).id).collect();
    assert_eq!(receipts.len(), 50);
    let messages = node.delivered();
    let authors: BTreeSet<_> = messages.iter().map(|message| message.from.clone().unwrap()).collect();
    let numbers: BTreeSet<_> = messages.iter().map(|message| message.seqno.clone().unwrap()).collect();
    assert_eq!((authors.len(), numbers.len()), (50, 50));
    for message in messages {
        let author = message.from.as_ref().unwrap();
        assert_eq!((author.len(), &author[..2]), (34, &[0, 32][..]), "an identity of libp2p");
        assert_ne!(author, node.engine.identity().as_bytes());
        assert!(message.signature.is_none() && message.key.is_none());
    }

    let authenticity = Authenticity {
        policy: SignaturePolicy::StrictSign,
        author: Author::Random,
        ..Authenticity::unsigned()
    };
    let error = GossipSub::new(Config { authenticity, ..plain() }, identity(1)).unwrap_err();
    assert_eq!(error.field, "authenticity.policy");
}

#[test]
fn parameters_of_a_topic_change_while_it_is_joined() {
    let in_mesh = |weight| TopicScoreParams { time_in_mesh_weight: weight, ..TopicScoreParams::neutral() };
    let config = Config { topic_score: Some(in_mesh(1.0)), ..scored() };
    let (mut node, peers) = Node::on_topic(config, "t", 1, 0);
    node.heartbeats(3);
    let before = node.engine.peer_score(peers[0]);
    assert!(before > 0.0);
    node.engine.set_topic_params(&topic("t"), in_mesh(2.0)).unwrap();
    assert_eq!(node.engine.peer_score(peers[0]), 2.0 * before);
    assert_eq!(node.engine.topic_params(&topic("t")).unwrap().time_in_mesh_weight, 2.0);

    // A topic that is joined later.
    node.engine.set_topic_params(&topic("later"), in_mesh(3.0)).unwrap();
    node.subscribe("later");
    assert_eq!(node.engine.topic_params(&topic("later")).unwrap().time_in_mesh_weight, 3.0);

    let wrong = node.engine.set_topic_params(&topic("t"), in_mesh(-1.0)).unwrap_err();
    assert_eq!(wrong.field, "topic_score.time_in_mesh_weight");
    assert_eq!(node.engine.topic_params(&topic("t")).unwrap().time_in_mesh_weight, 2.0, "unchanged");
    let (mut unscored, _) = Node::on_topic(plain(), "t", 1, 0);
    assert_eq!(unscored.engine.set_topic_params(&topic("t"), in_mesh(1.0)).unwrap_err().field, "peer_score");
}
