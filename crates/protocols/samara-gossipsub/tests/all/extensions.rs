//! Extensions (specification v1.3): announced once, first, and with no fields.

use crate::common::*;
use bytes::Bytes;
use samara_engine::{Frame, PeerId};
use samara_gossipsub::rpc::{Control, Rpc, RpcFrame};
use samara_gossipsub::{Config, Ignored};

const V1_3: &str = "/meshsub/1.3.0";

fn announces(extensions: &[u8]) -> Rpc {
    control(Control { extensions: Some(Bytes::copy_from_slice(extensions)), ..Control::default() })
}

/// Returns the frames to a peer in the order in which they leave.
fn leave_to(node: &mut Node, peer: PeerId) -> Vec<Rpc> {
    let now = node.now;
    std::iter::from_fn(|| node.outbox.pop_for(now, peer)).map(|copy| copy.frame.rpc().clone()).collect()
}

fn announced(rpc: &Rpc) -> bool {
    rpc.control.as_ref().is_some_and(|control| control.extensions.is_some())
}

#[test]
fn extensions_are_announced_once_in_the_first_frame_to_v1_3_peers() {
    let mut node = Node::new(plain());
    let early = node.connect_as(V1_3, false);
    node.subscribe("t");
    let late = node.connect_as(V1_3, false);
    let older = node.connect_as(V1_2, false);
    node.rpcs(&[early, late, older], subscriptions(true, &["t".to_owned()]));
    node.heartbeat();
    // IDONTWANT overtakes all frames except this one.
    node.rpc(older, publish([message("t", 1, 2000)]));
    for peer in [early, late] {
        let frames = leave_to(&mut node, peer);
        assert!(frames.len() > 2, "{frames:?}");
        assert!(announced(&frames[0]), "{frames:?}");
        assert_eq!(frames.iter().filter(|rpc| announced(rpc)).count(), 1);
        assert_eq!(frames[0].control.as_ref().unwrap().extensions, Some(Bytes::new()));
        assert_eq!(frames[0].subscriptions.len(), usize::from(peer == late));
        assert!(
            frames
                .iter()
                .any(|rpc| rpc.control.as_ref().is_some_and(|control| !control.idontwant.is_empty()))
        );
    }
    assert!(leave_to(&mut node, older).iter().all(|rpc| !announced(rpc)));
}

#[test]
fn subscriptions_beyond_one_frame_are_split() {
    let mut node = Node::new(Config { max_control_bytes: 1000, ..plain() });
    let mut topics: Vec<String> = (0..300).map(|number| format!("a topic with number {number}")).collect();
    topics.sort();
    for topic in &topics {
        node.subscribe(topic);
    }
    for protocol in [V1_2, V1_3] {
        let peer = node.connect_as(protocol, false);
        let frames = leave_to(&mut node, peer);
        assert!(frames.len() > 5, "{}", frames.len());
        assert!(frames.iter().all(|rpc| RpcFrame::new(rpc.clone()).encoded_len() <= 1000));
        assert_eq!(announced(&frames[0]), protocol == V1_3);
        let mut received: Vec<String> = frames
            .iter()
            .flat_map(|rpc| &rpc.subscriptions)
            .map(|change| change.topic.as_str().to_owned())
            .collect();
        received.sort();
        assert_eq!(received, topics);
    }
}

#[test]
fn a_new_link_announces_extensions_again() {
    let mut node = Node::new(plain());
    let peer = node.connect_as(V1_3, false);
    node.rpc(peer, announces(&[0x50, 1]));
    assert_eq!(node.engine.extensions_of(peer).unwrap(), &[0x50, 1][..]);
    leave_to(&mut node, peer);
    node.disconnect(peer);
    assert_eq!(node.engine.extensions_of(peer), None);
    node.connect_identity(peer, identity(peer.0), V1_3, false);
    assert!(announced(&leave_to(&mut node, peer)[0]));
    node.rpc(peer, announces(&[]));
    assert_eq!(node.engine.extensions_of(peer).unwrap(), &[][..]);
    assert_eq!(node.ignored(Ignored::ExtensionsAgain), 0);
}

#[test]
fn a_second_announcement_is_penalised_and_ignored() {
    let mut node = Node::new(scored());
    let peer = node.connect_as(V1_3, false);
    node.rpc(peer, announces(&[0x50, 1]));
    let before = node.engine.peer_score(peer);
    node.rpc(peer, announces(&[]));
    assert_eq!(node.ignored(Ignored::ExtensionsAgain), 1);
    assert_eq!(node.engine.extensions_of(peer).unwrap(), &[0x50, 1][..]);
    assert!(node.engine.peer_score(peer) < before, "the second announcement costs no score");
}

#[test]
fn extensions_of_a_peer_are_bounded() {
    let mut node = Node::new(scored());
    let peers = [0; 2].map(|_| node.connect_as(V1_3, false));
    node.rpc(peers[0], announces(&[0; 1024]));
    assert_eq!(node.engine.sizes().extension_bytes, 1024);
    node.rpc(peers[1], announces(&[0; 1025]));
    assert_eq!(node.engine.sizes().extension_bytes, 1024);
    assert_eq!(node.engine.extensions_of(peers[1]), None);
    assert_eq!(node.ignored(Ignored::ExtensionsTooLong), 1);
    assert!(node.engine.peer_score(peers[1]) < node.engine.peer_score(peers[0]));
    node.disconnect(peers[0]);
    assert_eq!(node.engine.sizes().extension_bytes, 0);
}

#[test]
fn peers_before_v1_3_have_no_extensions() {
    let mut node = Node::new(scored());
    let peer = node.connect_as(V1_2, false);
    for _ in 0..2 {
        node.rpc(peer, announces(&[0x50, 1]));
    }
    assert_eq!(node.engine.extensions_of(peer), None);
    assert_eq!(node.ignored(Ignored::ExtensionsVersion), 2);
    assert_eq!(node.engine.peer_score(peer), 0.0);
}
