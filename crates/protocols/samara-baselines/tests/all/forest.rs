//! Plumtree on several topics, and batches of messages.

use std::sync::Arc;

use bytes::Bytes;
use samara_baselines::{
    Baseline, Command, Event, Forest, Ignored, Message, PlumtreeConfig, PlumtreeFrame, PubSub, PubSubConfig,
    RequestError, RpcFrame, SubOpts, Topic,
};
use samara_engine::outbox::{Dispatch, Outgoing, Room, Schedule};
use samara_engine::{PeerId, PeerIdentity};

use crate::common::{Node, floodsub, subscriptions};

const P: [PeerId; 2] = [PeerId(0), PeerId(1)];

fn forest() -> Node<Forest> {
    let config = PlumtreeConfig::default();
    let outbox = config.common.outbox_config();
    Node::new(Forest::new(config, PeerIdentity::new(b"me")).unwrap(), outbox)
}

fn joins(names: &[&str]) -> PlumtreeFrame {
    let change = |name: &&str| SubOpts { subscribe: true, topic: Topic::new(name) };
    PlumtreeFrame::Subscriptions(names.iter().map(change).collect())
}

fn on(topic: &str, number: u64) -> Arc<Message> {
    let data = Bytes::from(vec![number as u8; 50]);
    Arc::new(Message::new(PeerIdentity::new(b"author"), number, Topic::new(topic), data))
}

fn gossip(message: &Arc<Message>) -> PlumtreeFrame {
    PlumtreeFrame::Gossip { message: Arc::clone(message), round: 0 }
}

/// Returns the topics and receivers of all messages sent.
fn messages(node: &mut Node<Forest>) -> Vec<(PeerId, String)> {
    let sent = node.sent().into_iter();
    let message = |(peer, frame)| match frame {
        PlumtreeFrame::Gossip { message, .. } => Some((peer, message.topic().as_str().to_owned())),
        _ => None,
    };
    sent.filter_map(message).collect()
}

#[test]
fn each_topic_has_a_tree_of_the_peers_that_joined_it() {
    let mut node = forest();
    node.command(Command::Subscribe(Topic::new("a")));
    node.connect("");
    node.connect("");
    node.frame(P[0], joins(&["a", "b"]));
    node.frame(P[1], joins(&["b"]));
    // Peers that announced a topic before the node joined it belong to its tree too.
    node.command(Command::Subscribe(Topic::new("b")));
    let [a, b] = ["a", "b"].map(|name| node.engine.targets(&Topic::new(name)));
    assert_eq!((a, b), (1, 2));
    node.sent();
    node.frame(P[0], gossip(&on("b", 1)));
    assert_eq!(messages(&mut node), [(P[1], "b".to_owned())]);
    node.frame(P[0], gossip(&on("a", 1)));
    assert_eq!(messages(&mut node), []);
    node.frame(P[0], gossip(&on("c", 1)));
    assert_eq!(node.ignored(Ignored::OtherTopic), 1);
    node.disconnect(P[0]);
    assert_eq!(node.engine.targets(&Topic::new("b")), 1);
}

#[test]
fn trees_do_not_share_numbers_of_messages_or_timers() {
    let mut node = forest();
    for name in ["a", "b"] {
        node.command(Command::Subscribe(Topic::new(name)));
    }
    node.connect("");
    node.connect("");
    node.frame(P[0], joins(&["a", "b"]));
    node.frame(P[1], joins(&["a", "b"]));
    node.sent();
    // The first message of each tree would have the same number at both; a copy that a peer sends
    // must withdraw only its own.
    node.frame(P[0], gossip(&on("a", 1)));
    node.frame(P[0], gossip(&on("b", 1)));
    node.frame(P[1], gossip(&on("a", 1)));
    assert_eq!(messages(&mut node), [(P[1], "b".to_owned())]);
    assert_eq!(node.engine.tree(&Topic::new("a")).unwrap().eager_peers(), [P[0]]);
    assert_eq!(node.engine.tree(&Topic::new("b")).unwrap().eager_peers(), P);
    assert_eq!(node.engine.metrics().duplicates_received, 1);
}

#[test]
fn publishing_needs_a_tree() {
    let mut node = forest();
    node.command(Command::PublishMessage(on("a", 1)));
    let expected = RequestError::NotJoined { topic: Topic::new("a") };
    assert!(matches!(node.events.pop(), Some(Event::Refused(error)) if error == expected));
}

/// First copies of all messages leave before second copies.
#[test]
fn batches_leave_in_the_order_of_their_schedule() {
    let mut config = PubSubConfig::default();
    config.common.dispatch = Dispatch::Node;
    let mut node = floodsub(config);
    node.connect("");
    node.connect("");
    for peer in P {
        node.frame(peer, subscriptions(&[(true, "blocks"), (true, "b")]));
    }
    let batch = |schedule: &Schedule, node: &mut Node<PubSub>, first: u64| -> Vec<u64> {
        let messages = (first..first + 4).map(|number| on("b", number)).collect();
        node.with(|engine: &mut PubSub, cx| {
            let receipts = engine.publish_all(messages, Some(schedule), cx);
            assert!(receipts.iter().flatten().all(|receipt| receipt.copies == 2 && receipt.lost == 0));
            assert_eq!(receipts.iter().flatten().count(), 4);
        });
        let now = node.now;
        let next = || node.outbox.pop(now, |_| Room(u64::MAX));
        let number = |copy: Outgoing<RpcFrame>| match copy.frame {
            RpcFrame::Publish(message) => message.seqno() - first,
            RpcFrame::Subscriptions(_) => panic!("no topic was joined"),
        };
        std::iter::from_fn(next).map(number).collect()
    };
    assert_eq!(batch(&Schedule::INTERLEAVED, &mut node, 0), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(batch(&Schedule::Sequential, &mut node, 10), [0, 0, 1, 1, 2, 2, 3, 3]);
}
