//! FloodSub: one node without a network.

use crate::common::*;
use bytes::Bytes;
use samara_baselines::{
    Baseline, Command, Common, Event, Ignored, LaneCapacity, PubSub, PubSubConfig, RequestError, RpcFrame,
    Sending, Topic,
};
use samara_engine::outbox::LossCause;
use samara_engine::{Input, PeerId};

/// Returns a node on the topic with `peers` subscribed peers, and nothing owed.
fn on_topic(config: PubSubConfig, peers: u32) -> Node<PubSub> {
    let mut node = floodsub(config);
    node.command(Command::Subscribe(topic()));
    for _ in 0..peers {
        let peer = node.connect("");
        node.frame(peer, joined());
    }
    node.sent();
    node
}

#[test]
fn a_new_message_goes_to_all_subscribers_but_its_sender_and_its_author() {
    let mut node = on_topic(PubSubConfig::default(), 5);
    node.connect("");
    node.frame(PeerId(1), RpcFrame::Publish(message_of(&identity(3), 9)));
    assert_eq!(receivers(&node.sent()), [(PeerId(0), 9), (PeerId(2), 9), (PeerId(4), 9)]);
    assert_eq!(node.delivered(), [(9, Some(PeerId(1)))]);
    // Another copy has no effect, from any sender.
    node.frame(PeerId(2), RpcFrame::Publish(message_of(&identity(3), 9)));
    assert!(node.sent().is_empty() && node.delivered().is_empty());
    assert_eq!(node.engine.metrics().duplicates_received, 1);
}

#[test]
fn own_messages_go_to_all_subscribers_even_without_joining() {
    let mut node = on_topic(PubSubConfig::default(), 3);
    let data = Bytes::from_static(b"data");
    node.command(Command::Publish { topic: topic(), data: data.clone() });
    assert_eq!(receivers(&node.sent()).len(), 3);
    let Some(Event::Published(receipt)) = node.events.pop() else { panic!("{:?}", node.events) };
    assert_eq!((receipt.copies, receipt.lost), (3, 0));
    assert_eq!(node.delivered().len(), 1);
    node.command(Command::Unsubscribe(topic()));
    node.sent();
    let receipt = node.with(|node, cx| node.publish(&topic(), data, cx)).unwrap();
    assert_eq!(receipt.copies, 3);
    assert!(node.delivered().is_empty());
}

#[test]
fn topics_are_announced_to_current_and_future_peers() {
    let mut node = floodsub(PubSubConfig::default());
    let first = node.connect("");
    assert!(node.sent().is_empty());
    node.command(Command::Subscribe(topic()));
    node.command(Command::Subscribe(Topic::new("other")));
    let expected = [subscriptions(&[(true, "blocks")]), subscriptions(&[(true, "other")])];
    assert_eq!(node.sent(), expected.map(|frame| (first, frame)));
    let second = node.connect("");
    assert_eq!(node.sent(), [(second, subscriptions(&[(true, "blocks"), (true, "other")]))]);
    node.command(Command::Unsubscribe(topic()));
    let left = subscriptions(&[(false, "blocks")]);
    assert_eq!(node.sent(), [(first, left.clone()), (second, left)]);
    // Repeated commands change nothing.
    node.command(Command::Unsubscribe(topic()));
    node.command(Command::Subscribe(Topic::new("other")));
    assert!(node.sent().is_empty());
}

#[test]
fn announcements_without_room_are_retried_with_the_current_state() {
    let queue = LaneCapacity::copies(1);
    let sending = Sending { control: queue, ..Sending::default() };
    let config = PubSubConfig { common: Common { sending, ..Common::default() }, ..PubSubConfig::default() };
    let mut node = floodsub(config);
    node.connect("");
    for name in ["a", "b", "c"] {
        node.command(Command::Subscribe(Topic::new(name)));
    }
    node.command(Command::Unsubscribe(Topic::new("b")));
    assert_eq!(node.engine.metrics().queue_drops(LossCause::DroppedNewest), 3);
    let lost = node.events.iter().filter(|event| matches!(event, Event::Lost(_))).count();
    assert_eq!(lost, 3);
    assert_eq!(node.sent(), [(PeerId(0), subscriptions(&[(true, "a")]))]);
    node.advance(ms(1000));
    assert_eq!(node.sent(), [(PeerId(0), subscriptions(&[(false, "b"), (true, "c")]))]);
    node.advance(ms(10_000));
    assert!(node.sent().is_empty() && node.timers() == 0);
}

#[test]
fn unsubscribed_and_disconnected_peers_get_nothing() {
    let mut node = on_topic(PubSubConfig::default(), 3);
    node.frame(PeerId(0), subscriptions(&[(false, "blocks")]));
    node.disconnect(PeerId(1));
    node.frame(PeerId(2), RpcFrame::Publish(message(1)));
    assert!(node.sent().is_empty());
    // The peer is back, but not on the topic until it subscribes.
    node.reconnect(PeerId(1), "");
    node.sent();
    node.frame(PeerId(2), RpcFrame::Publish(message(2)));
    assert!(node.sent().is_empty());
    node.frame(PeerId(1), joined());
    node.frame(PeerId(2), RpcFrame::Publish(message(3)));
    assert_eq!(receivers(&node.sent()), [(PeerId(1), 3)]);
}

#[test]
fn unwanted_frames_are_ignored_and_counted() {
    let common = Common { max_frame_bytes: 200, ..Common::default() };
    let mut node = on_topic(PubSubConfig { common, ..PubSubConfig::default() }, 2);
    let me = samara_engine::PeerIdentity::new(b"me");
    node.frame(PeerId(0), RpcFrame::Publish(message_of(&me, 1)));
    assert_eq!(node.ignored(Ignored::MessageFromSelf), 1);
    node.frame(PeerId(9), RpcFrame::Publish(message(1)));
    assert_eq!(node.ignored(Ignored::FrameUnknownPeer), 1);
    let long = samara_baselines::Message::new(identity(0), 1, topic(), vec![0; 200].into());
    node.frame(PeerId(0), RpcFrame::Publish(long.into()));
    assert_eq!(node.ignored(Ignored::FrameTooLong), 1);
    node.command(Command::Unsubscribe(topic()));
    node.sent();
    node.frame(PeerId(0), RpcFrame::Publish(message(1)));
    assert_eq!(node.ignored(Ignored::MessageNotSubscribed), 1);
    assert!(node.sent().is_empty() && node.delivered().is_empty());
}

#[test]
fn ids_are_forgotten_after_two_minutes() {
    let mut node = on_topic(PubSubConfig::default(), 2);
    node.frame(PeerId(0), RpcFrame::Publish(message(1)));
    node.advance(ms(119_999));
    node.frame(PeerId(0), RpcFrame::Publish(message(1)));
    assert_eq!(node.delivered().len(), 1);
    node.advance(ms(1));
    node.frame(PeerId(0), RpcFrame::Publish(message(1)));
    assert_eq!(node.delivered().len(), 1);
    assert_eq!(node.engine.sizes(), (1, 1));
}

#[test]
fn useless_copies_are_withdrawn_if_configured() {
    for withdraw in [true, false] {
        let common = Common { withdraw, ..Common::default() };
        let mut node = on_topic(PubSubConfig { common, ..PubSubConfig::default() }, 3);
        node.frame(PeerId(0), RpcFrame::Publish(message(1)));
        node.frame(PeerId(1), RpcFrame::Publish(message(1)));
        let left = receivers(&node.sent());
        let expected: &[_] = if withdraw { &[(PeerId(2), 1)] } else { &[(PeerId(1), 1), (PeerId(2), 1)] };
        assert_eq!(left, expected);
        assert_eq!(node.engine.metrics().withdrawn_copies, u64::from(withdraw));
    }
}

#[test]
fn impossible_requests_are_refused_with_a_reason() {
    let common = Common { max_frame_bytes: 300, ..Common::default() };
    let config = PubSubConfig { common, topic_bytes_max: 10, ..PubSubConfig::default() };
    let mut node = on_topic(config, 1);
    let long = Topic::new("eleven byte");
    node.command(Command::Subscribe(long.clone()));
    let refused = RequestError::TopicTooLong { found: 11, allowed: 10 };
    assert!(matches!(node.events.pop(), Some(Event::Refused(error)) if error == refused));
    assert!(node.with(|node, cx| node.publish(&long, Bytes::new(), cx)).is_err());
    let result = node.with(|node, cx| node.publish(&topic(), vec![0; 300].into(), cx));
    assert!(matches!(result, Err(RequestError::TooLong { allowed: 300, .. })));
    node.command(Command::PublishMessage(message(1)));
    node.command(Command::PublishMessage(message(1)));
    let refused = RequestError::Duplicate(message(1).id());
    assert!(matches!(node.events.pop(), Some(Event::Refused(error)) if error == refused));
    assert_eq!(receivers(&node.sent()), [(PeerId(0), 1)]);
}

#[test]
fn floods_of_subscriptions_are_bounded() {
    let config = PubSubConfig {
        subscriptions_per_rpc_max: 100,
        topics_per_peer_max: 50,
        topic_bytes_max: 20,
        ..PubSubConfig::default()
    };
    let mut node = on_topic(config, 1);
    let names: Vec<String> = (0..101).map(|number| format!("topic {number}")).collect();
    let all: Vec<(bool, &str)> = names.iter().map(|name| (true, &name[..])).collect();
    node.frame(PeerId(0), subscriptions(&all));
    assert_eq!(node.ignored(Ignored::SubscriptionsOverLimit), 101);
    node.frame(PeerId(0), subscriptions(&all[..100]));
    assert_eq!(node.ignored(Ignored::SubscriptionPeerFull), 51);
    node.frame(PeerId(0), subscriptions(&[(true, "a name of 21 bytes...")]));
    assert_eq!(node.ignored(Ignored::SubscriptionTopicTooLong), 1);
    assert_eq!(node.engine.sizes().0, 50);
    // Ever new topics: the node remembers only current subscriptions.
    for round in 0..100 {
        let left: Vec<String> = (0..50).map(|number| format!("{} {number}", round)).collect();
        let joins: Vec<(bool, &str)> = left.iter().map(|name| (true, &name[..])).collect();
        let leaves: Vec<(bool, &str)> = left.iter().map(|name| (false, &name[..])).collect();
        node.frame(PeerId(0), subscriptions(&leaves));
        node.frame(PeerId(0), subscriptions(&joins));
        node.frame(PeerId(0), subscriptions(&leaves));
        assert!(node.engine.sizes().0 <= 50);
    }
    // The peer's topics vanish with the peer.
    node.disconnect(PeerId(0));
    assert_eq!(node.engine.sizes().0, 1);
}

#[test]
fn a_link_that_is_reported_twice_counts_once() {
    let mut node = on_topic(PubSubConfig::default(), 2);
    node.reconnect(PeerId(1), "");
    node.frame(PeerId(1), joined());
    node.frame(PeerId(1), joined());
    node.sent();
    node.frame(PeerId(0), RpcFrame::Publish(message(1)));
    assert_eq!(receivers(&node.sent()), [(PeerId(1), 1)]);
    assert_eq!(node.engine.topic_peers(&topic()), [PeerId(0), PeerId(1)]);
}

#[test]
fn errors_name_invalid_parameters() {
    let zero = PubSubConfig { topics_per_peer_max: 0, ..PubSubConfig::default() };
    let error = PubSub::floodsub(zero, identity(0)).unwrap_err();
    assert_eq!(error.to_string(), "topics_per_peer_max: found 0, expected at least 1");
    let common = Common { seen_capacity: 0, ..Common::default() };
    let config = PubSubConfig { common, ..PubSubConfig::default() };
    assert_eq!(PubSub::floodsub(config, identity(0)).unwrap_err().field, "common.seen_capacity");
}

#[test]
fn foreign_timers_and_failed_dials_do_nothing() {
    let mut node = on_topic(PubSubConfig::default(), 1);
    node.handle(Input::Timer(samara_engine::TimerToken(77)));
    node.handle(Input::DialFailed { identity: identity(3) });
    assert!(node.sent().is_empty() && node.events.is_empty());
}
