//! Traces for observers of the protocol, and their absence by default.

use std::sync::Arc;

use crate::common::*;
use bytes::Bytes;
use samara_engine::PeerId;
use samara_engine::outbox::{LossCause, Overflow};
use samara_gossipsub::config::{Authenticity, LaneCapacity};
use samara_gossipsub::rpc::Message;
use samara_gossipsub::signature::{SignatureError, Verifier};
use samara_gossipsub::{Config, Event, Ignored, Trace};

fn traced(config: Config) -> Config {
    Config { trace: true, ..config }
}

fn traces(node: &mut Node) -> Vec<Trace> {
    let of = |event| match event {
        Event::Trace(trace) => Some(trace),
        _ => None,
    };
    node.events.drain(..).filter_map(of).collect()
}

#[test]
fn duplicates_are_traced_with_id_and_topic() {
    let (mut node, peers) = Node::on_topic(traced(plain()), "t", 6, 0);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    traces(&mut node);
    node.rpc(peers[1], publish([new.clone()]));
    let copy = Trace::Duplicate { id: id_of(&new), topic: topic("t"), from: peers[1] };
    assert_eq!(copy.peer(), Some(peers[1]));
    assert_eq!(traces(&mut node), [copy]);
}

struct RejectAll;
impl Verifier for RejectAll {
    fn verify(&self, _: &[u8], _: Option<&[u8]>, _: &[u8], _: &[u8]) -> bool {
        false
    }
}

#[test]
fn rejected_messages_are_traced_with_the_reason() {
    let signed = Config { authenticity: Authenticity::strict(RejectAll), max_message_bytes: 100, ..plain() };
    let (mut node, peers) = Node::on_topic(traced(signed), "t", 3, 0);
    traces(&mut node);
    let make = |number: u64, len: usize, signature: Option<&'static [u8]>| {
        let (data, author) = (Bytes::from(vec![0; len]), Bytes::from_static(b"author"));
        let mut new = Message::with_author(topic("t"), data, author, number);
        new.signature = signature.map(Bytes::from_static);
        Arc::new(new)
    };
    let cases = [
        (make(1, 10, None), Ignored::MessageSignature, Some(SignatureError::MissingSignature)),
        (make(2, 10, Some(b"x")), Ignored::MessageSignature, Some(SignatureError::InvalidSignature)),
        (make(3, 101, Some(b"x")), Ignored::MessageTooLong, None),
    ];
    for (message, cause, signature) in cases {
        node.rpc(peers[0], publish([message.clone()]));
        let dropped =
            Trace::Dropped { id: id_of(&message), topic: topic("t"), from: peers[0], cause, signature };
        assert_eq!(traces(&mut node), [dropped]);
    }
    // These messages have no id in the trace: its computation depends on the topic.
    node.rpc(peers[0], publish([message("another", 1, 1)]));
    assert_eq!(traces(&mut node), []);
}

fn lost(node: &mut Node) -> Vec<(PeerId, LossCause, Option<usize>)> {
    let of = |trace| match trace {
        Trace::Lost { peer, cause, frame } => {
            Some((peer, cause, frame.map(|frame| frame.rpc().publish.len())))
        }
        _ => None,
    };
    traces(node).into_iter().filter_map(of).collect()
}

#[test]
fn lost_frames_are_traced_in_full_while_known() {
    for (overflow, cause) in
        [(Overflow::DropNewest, LossCause::DroppedNewest), (Overflow::DropOldest, LossCause::DroppedOldest)]
    {
        let mut config = plain();
        config.sending.publish = LaneCapacity { overflow, ..LaneCapacity::copies(1) };
        config.sending.control = LaneCapacity { overflow, ..LaneCapacity::copies(1) };
        let (mut node, peers) = Node::on_topic(traced(config), "t", 1, 0);
        node.sent();
        traces(&mut node);
        node.publish("t", 10);
        assert_eq!(lost(&mut node), []);
        node.publish("t", 10);
        assert_eq!(lost(&mut node), [(peers[0], cause, Some(1))]);
        // A rejected control message is still available; one dropped for another is not.
        node.subscribe("a");
        node.subscribe("b");
        let known = (overflow == Overflow::DropNewest).then_some(0);
        assert_eq!(lost(&mut node), [(peers[0], cause, known)]);
    }
}

#[test]
fn nothing_is_traced_by_default() {
    let config = changed(plain(), |config| config.sending.publish = LaneCapacity::copies(1));
    let (mut node, peers) = Node::on_topic(config, "t", 2, 0);
    let new = message("t", 1, 10);
    node.rpc(peers[0], publish([new.clone()]));
    node.rpc(peers[1], publish([new]));
    node.publish("t", 10);
    node.publish("t", 10);
    node.heartbeat();
    node.disconnect(peers[0]);
    assert!(node.events.iter().any(|event| matches!(event, Event::Lost(_))));
    assert_eq!(traces(&mut node), []);
}
