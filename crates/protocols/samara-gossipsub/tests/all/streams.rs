//! Streams that end and begin again on a link, and peers that restart behind one.

use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Frame, PeerId, PeerInfo};
use samara_gossipsub::rpc::{Control, Rpc, RpcFrame};
use samara_gossipsub::{Config, Ignored};

use crate::common::*;

const V1_3: &str = "/meshsub/1.3.0";

/// Opens a stream to a peer. Returns its first frames.
fn open(node: &mut Node, peer: PeerId, protocol: &str) -> Vec<Rpc> {
    let info =
        PeerInfo { identity: identity(peer.0), outbound: false, address: None, protocol: protocol.into() };
    let frames = node.with(|engine, cx| engine.greeting(peer, info, cx));
    frames.iter().map(|frame| frame.rpc().clone()).collect()
}

fn begins(node: &mut Node, peer: PeerId) {
    node.with(|engine, cx| engine.stream_begins(peer, cx));
}

fn hear(node: &mut Node, peer: PeerId, is_heard: bool) {
    node.with(|engine, cx| engine.set_heard(peer, is_heard, cx));
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the first frame of a peer: its topics and extensions.
fn hello(of: &[&str]) -> Rpc {
    let control = Control { extensions: Some(Bytes::from_static(&[0x50, 1])), ..Control::default() };
    Rpc { control: Some(Box::new(control)), ..subscriptions(true, &names(of)) }
}

fn streaming(config: Config) -> Node {
    let mut node = Node::new(config);
    node.engine.greet_streams();
    node
}

#[test]
fn each_stream_begins_with_topics_extensions_and_meshes() {
    let mut node = streaming(plain());
    node.subscribe("a");
    node.subscribe("b");
    let peer = node.connect_as(V1_3, false);
    assert!(node.sent().0.is_empty(), "the driver writes the greeting");
    let first = open(&mut node, peer, V1_3);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].subscriptions.len(), 2);
    let control = first[0].control.as_ref().unwrap();
    assert!(control.extensions.is_some() && control.graft.is_empty());
    begins(&mut node, peer);
    node.rpc(peer, hello(&["a"]));
    node.rpc(peer, graft(&["a"]));
    let again = open(&mut node, peer, V1_3);
    assert_eq!(again[0].subscriptions, first[0].subscriptions);
    let control = again[0].control.as_ref().unwrap();
    assert!(control.extensions.is_some());
    assert_eq!(control.graft, [topic("a")]);
    // Nothing of it is repeated later.
    node.sent();
    let later = node.sent_at_heartbeat();
    assert!(later.announced().is_empty() && later.grafts("a").is_empty());
}

#[test]
fn a_greeting_of_many_topics_is_split_and_begins_with_extensions() {
    let mut node = streaming(Config { max_control_bytes: 1000, ..plain() });
    let mut all: Vec<String> = (0..300).map(|number| format!("a topic with number {number}")).collect();
    all.sort();
    all.iter().for_each(|name| node.subscribe(name));
    for protocol in [FLOODSUB, V1_2, V1_3] {
        let peer = node.connect_as(protocol, false);
        node.rpc(peer, subscriptions(true, &all));
        node.heartbeat();
        let frames = open(&mut node, peer, protocol);
        assert!(frames.iter().all(|rpc| RpcFrame::new(rpc.clone()).encoded_len() <= 1000));
        let extended = |rpc: &Rpc| rpc.control.as_ref().is_some_and(|control| control.extensions.is_some());
        assert_eq!(extended(&frames[0]), protocol == V1_3);
        assert_eq!(frames.iter().filter(|rpc| extended(rpc)).count(), usize::from(protocol == V1_3));
        let changes = frames.iter().flat_map(|rpc| &rpc.subscriptions);
        let mut received: Vec<String> = changes.map(|change| change.topic.as_str().to_owned()).collect();
        received.sort();
        assert_eq!(received, all);
        let grafts = frames.iter().filter_map(|rpc| rpc.control.as_ref()).map(|control| control.graft.len());
        let in_mesh = all.iter().filter(|name| node.mesh(name).contains(&peer)).count();
        assert_eq!(grafts.sum::<usize>(), in_mesh);
        assert_eq!(in_mesh > 0, protocol != FLOODSUB);
    }
}

#[test]
fn a_node_without_topics_greets_older_peers_with_nothing() {
    let mut node = streaming(plain());
    let peer = node.connect_as(V1_2, false);
    assert_eq!(open(&mut node, peer, V1_2), []);
}

#[test]
fn extensions_count_once_for_each_stream() {
    let mut node = streaming(scored());
    let peer = node.connect_as(V1_3, false);
    for stream in 0..5 {
        begins(&mut node, peer);
        node.rpc(peer, hello(&["t"]));
        assert_eq!(node.ignored(Ignored::ExtensionsAgain), 0, "stream {stream}");
    }
    assert_eq!(node.engine.peer_score(peer), 0.0);
    node.rpc(peer, hello(&["t"]));
    assert_eq!(node.ignored(Ignored::ExtensionsAgain), 1);
    assert!(node.engine.peer_score(peer) < 0.0);
}

#[test]
fn a_peer_that_begins_anew_has_only_the_topics_that_it_announces() {
    // With extensions, and without: a topic that it had announced is the sign.
    for protocol in [V1_3, V1_2] {
        let mut node = streaming(plain());
        for name in ["a", "b", "c"] {
            node.subscribe(name);
        }
        let peer = node.connect_as(protocol, false);
        begins(&mut node, peer);
        node.rpc(peer, subscriptions(true, &names(&["a", "b"])));
        node.rpc(peer, graft(&["a", "b"]));
        begins(&mut node, peer);
        if protocol == V1_3 {
            node.rpc(peer, hello(&[]));
        }
        // rust-libp2p announces each topic in a frame of its own.
        node.rpc(peer, subscriptions(true, &names(&["c"])));
        node.rpc(peer, subscriptions(true, &names(&["b"])));
        node.heartbeat();
        let joined = |name: &str| node.engine.topic_peers(&topic(name)).contains(&peer);
        assert_eq!(["a", "b", "c"].map(joined), [false, true, true], "{protocol}");
        assert!(!node.mesh("a").contains(&peer) && node.mesh("b").contains(&peer));
    }
}

/// rust-libp2p opens a stream on each connection, and announces nothing on the second one.
#[test]
fn a_second_stream_of_the_same_process_forgets_nothing() {
    let mut node = streaming(scored());
    node.subscribe("a");
    node.subscribe("b");
    let peer = node.connect_as(V1_3, false);
    begins(&mut node, peer);
    node.rpc(peer, hello(&["a"]));
    node.rpc(peer, graft(&["a"]));
    begins(&mut node, peer);
    node.rpc(peer, publish([message("a", 1, 10)]));
    node.rpc(peer, subscriptions(true, &names(&["b"])));
    node.heartbeats(3);
    assert_eq!(node.engine.topic_peers(&topic("a")), [peer]);
    assert_eq!(node.engine.topic_peers(&topic("b")), [peer]);
    assert_eq!(node.mesh("a"), [peer]);
    assert!(node.engine.peer_score(peer) >= 0.0);
}

#[test]
fn a_peer_that_begins_anew_wants_what_it_had_declined() {
    let mut node = streaming(plain());
    node.subscribe("t");
    let peer = node.connect_as(V1_3, false);
    let other = node.join_peer("t", false);
    begins(&mut node, peer);
    node.rpc(peer, hello(&["t"]));
    node.rpc(peer, graft(&["t"]));
    let (declined, other_one) = (message("t", 1, 10), message("t", 2, 10));
    node.rpc(peer, idontwant(vec![id_of(&declined), id_of(&other_one)]));
    assert_eq!(node.engine.sizes().unwanted, 2);
    node.rpc(other, publish([declined]));
    assert!(!node.sent().receivers().contains(&peer));
    begins(&mut node, peer);
    node.rpc(peer, hello(&["t"]));
    assert_eq!(node.engine.sizes().unwanted, 0);
    node.rpc(other, publish([other_one]));
    assert!(node.sent().receivers().contains(&peer));
}

#[test]
fn a_peer_that_cannot_be_heard_is_in_no_mesh_until_it_can() {
    let mut node = streaming(scored());
    node.subscribe("t");
    let peer = node.join_as(V1_2, "t", false);
    node.rpc(peer, graft(&["t"]));
    hear(&mut node, peer, false);
    assert_eq!(node.mesh("t"), []);
    node.heartbeats(3);
    assert_eq!(node.mesh("t"), [], "no heartbeat grafts it");
    assert!(node.sent().prunes("t").is_empty());
    hear(&mut node, peer, true);
    assert_eq!(node.mesh("t"), [peer]);
    assert_eq!(node.sent_at_heartbeat().grafts("t"), [peer], "the peer learns of it");
    assert_eq!(node.engine.peer_score(peer), 0.0);
    // A peer that left the topic meanwhile does not return.
    hear(&mut node, peer, false);
    node.rpc(peer, subscriptions(false, &names(&["t"])));
    hear(&mut node, peer, true);
    node.heartbeat();
    assert_eq!(node.mesh("t"), []);
}

#[test]
fn promises_that_were_in_flight_are_forgiven() {
    for breaks in [open as fn(&mut Node, PeerId, &str) -> Vec<Rpc>, |node, peer, _| {
        begins(node, peer);
        Vec::new()
    }] {
        let mut node = streaming(scored());
        node.subscribe("t");
        let peer = node.connect_as(V1_3, false);
        open(&mut node, peer, V1_3);
        begins(&mut node, peer);
        node.rpc(peer, hello(&["t"]));
        node.rpc(peer, ihave("t", ids(0, 3)));
        assert_eq!(node.sent().iwants().len(), 1);
        breaks(&mut node, peer, V1_3);
        node.advance(Duration::from_secs(10));
        assert_eq!(node.engine.metrics().promises_broken, 0);
        assert_eq!(node.engine.peer_score(peer), 0.0);
        // Those of the new stream count.
        node.rpc(peer, ihave("t", ids(10, 3)));
        node.advance(Duration::from_secs(10));
        assert_eq!(node.engine.metrics().promises_broken, 1);
    }
}

/// A peer chooses when its streams end. Promises that it never keeps count although each IHAVE has a
/// stream of its own, in whatever way the one before ended.
#[test]
fn promises_cannot_be_dodged_with_streams() {
    type Breaks = fn(&mut Node, PeerId);
    let all: [Breaks; 3] = [
        begins,
        |node, peer| drop(open(node, peer, V1_3)),
        |node, peer| node.with(|engine, _| engine.stream_broke(peer)),
    ];
    for (way, breaks) in all.into_iter().enumerate() {
        let mut node = streaming(scored());
        node.subscribe("t");
        let peer = node.connect_as(V1_3, false);
        open(&mut node, peer, V1_3);
        begins(&mut node, peer);
        node.rpc(peer, hello(&["t"]));
        let mut promised = 0;
        for second in 0..60 {
            node.sent();
            node.rpc(peer, ihave("t", ids(10 * second, 3)));
            // A peer with too low a score gets no request any more.
            promised += node.sent().iwants().len() as u64;
            node.advance(Duration::from_secs(1));
            breaks(&mut node, peer);
        }
        node.advance(Duration::from_secs(10));
        let broken = node.engine.metrics().promises_broken;
        assert!(promised >= 10 && 3 * broken >= promised, "way {way}: {broken} of {promised} promises count");
        assert!(node.engine.peer_score(peer) < 0.0);
    }
}

/// A stream of an honest peer may break now and then.
#[test]
fn an_honest_peer_whose_streams_break_loses_no_score() {
    let mut node = streaming(scored());
    node.subscribe("t");
    let peer = node.connect_as(V1_3, false);
    open(&mut node, peer, V1_3);
    for round in 0..20 {
        begins(&mut node, peer);
        node.rpc(peer, hello(&["t"]));
        node.rpc(peer, ihave("t", ids(10 * round, 3)));
        node.advance(Duration::from_secs(1));
        begins(&mut node, peer);
        node.rpc(peer, hello(&["t"]));
        // Also three times at short intervals.
        node.advance(Duration::from_secs(if round % 4 < 2 { 1 } else { 20 }));
    }
    assert_eq!((node.engine.metrics().promises_broken, node.engine.peer_score(peer)), (0, 0.0));
}

#[test]
fn gossip_repeats_messages_that_were_in_flight() {
    let mut node = streaming(plain());
    node.subscribe("t");
    let peer = node.join_as(V1_2, "t", false);
    open(&mut node, peer, V1_2);
    node.rpc(peer, graft(&["t"]));
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), [peer]);
    // The stream breaks before the peer has read the message. A member of a mesh gets no gossip.
    open(&mut node, peer, V1_2);
    let ihaves = node.sent_at_heartbeat().ihaves();
    assert_eq!(ihaves.len(), 1);
    assert_eq!((ihaves[0].0, ihaves[0].1.ids.len()), (peer, 1));
}

#[test]
fn a_grafter_that_cannot_know_of_a_backoff_is_refused_without_penalty() {
    let mut node = streaming(scored());
    node.subscribe("t");
    let peer = node.connect_as(V1_3, false);
    begins(&mut node, peer);
    node.rpc(peer, hello(&["t"]));
    node.rpc(peer, prune("t", Some(Duration::from_secs(60))));
    node.sent();
    node.advance(Duration::from_secs(1));
    begins(&mut node, peer);
    node.rpc(peer, hello(&["t"]));
    node.rpc(peer, graft(&["t"]));
    assert_eq!((node.mesh("t"), node.sent().pruned("t")), (vec![], vec![peer]));
    assert_eq!(node.engine.peer_score(peer), 0.0);
    // Now it knows.
    node.advance(Duration::from_secs(1));
    node.rpc(peer, graft(&["t"]));
    assert!(node.engine.peer_score(peer) < 0.0);
}

#[test]
fn the_version_of_the_newest_stream_counts() {
    let mut node = streaming(plain());
    node.subscribe("t");
    let peer = node.join_as(V1_3, "t", false);
    node.rpc(peer, graft(&["t"]));
    open(&mut node, peer, FLOODSUB);
    assert_eq!(node.mesh("t"), []);
    node.publish("t", 10);
    assert_eq!(node.sent().receivers(), [peer], "a floodsub peer gets every message");
    open(&mut node, peer, V1_2);
    node.heartbeat();
    assert_eq!(node.mesh("t"), [peer]);
}

#[test]
fn leaving_ends_a_membership_without_a_subscription() {
    for limit in [10, 4096] {
        let mut node = Node::new(changed(plain(), |config| config.subscriptions.per_rpc_max = limit));
        node.subscribe("t");
        let peer = node.connect();
        node.rpc(peer, graft(&["t"]));
        assert_eq!(node.mesh("t"), [peer]);
        let others: Vec<String> = (0..20).map(|number| format!("other {number}")).collect();
        node.rpc(peer, subscriptions(false, &[names(&["t"]), others].concat()));
        assert_eq!(node.mesh("t"), [], "a limit of {limit}");
        node.heartbeats(3);
        node.sent();
        node.publish("t", 10);
        assert_eq!(node.sent().receivers(), []);
    }
}

#[test]
fn an_rpc_that_leaves_a_topic_does_not_graft_it() {
    let leaves = |then: &[bool]| {
        let changes =
            then.iter().flat_map(|subscribe| subscriptions(*subscribe, &names(&["t"])).subscriptions);
        Rpc { subscriptions: changes.collect(), ..graft(&["t"]) }
    };
    for (first, rpc, stays) in [
        (subscriptions(true, &names(&["t"])), leaves(&[false]), false),
        (Rpc::default(), leaves(&[false]), false),
        (Rpc::default(), leaves(&[true, false]), false),
        (subscriptions(true, &names(&["t"])), leaves(&[false, true]), true),
        (
            Rpc { control: graft(&["t"]).control, ..subscriptions(true, &names(&["t"])) },
            leaves(&[false]),
            false,
        ),
    ] {
        let mut node = Node::new(scored());
        node.subscribe("t");
        let peer = node.connect();
        node.rpc(peer, first);
        node.rpc(peer, rpc);
        assert_eq!(node.mesh("t").contains(&peer), stays);
        assert_eq!(node.ignored(Ignored::GraftUnsubscribed), u64::from(!stays));
        assert_eq!(node.sent().pruned("t"), if stays { vec![] } else { vec![peer] });
        assert_eq!(node.engine.peer_score(peer), 0.0);
        node.rpc(peer, prune("t", None));
        assert_eq!(node.mesh("t"), []);
        node.publish("t", 10);
        assert_eq!(node.sent().receivers(), []);
    }
}

#[test]
fn an_honest_peer_loses_no_score_with_a_link() {
    let mut node = Node::new(scored());
    node.subscribe("t");
    let peer = node.join_as(V1_2, "t", false);
    node.rpc(peer, graft(&["t"]));
    node.rpc(peer, ihave("t", ids(0, 3)));
    assert_eq!(node.sent().iwants().len(), 1);
    // A backoff begins, of which the process behind the next link need not know, and the answer to the
    // request is lost with the link.
    node.rpc(peer, prune("t", Some(Duration::from_secs(60))));
    node.disconnect(peer);
    node.advance(Duration::from_secs(1));
    node.connect_identity(peer, identity(peer.0), V1_2, false);
    node.rpc(peer, subscriptions(true, &names(&["t"])));
    node.rpc(peer, graft(&["t"]));
    node.advance(Duration::from_secs(10));
    assert_eq!((node.engine.metrics().promises_broken, node.engine.peer_score(peer)), (0, 0.0));
    assert_eq!(node.engine.metrics().misbehaviours, 0);
    // Now it knows of the backoff.
    node.rpc(peer, graft(&["t"]));
    assert!(node.engine.peer_score(peer) < 0.0);
    assert!(node.engine.metrics().misbehaviours > 0);
}
