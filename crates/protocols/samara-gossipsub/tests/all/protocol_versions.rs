//! The behaviour towards peers of each protocol version.

use std::time::Duration;

use crate::common::*;
use samara_gossipsub::Protocol;

#[test]
fn protocol_names_map_to_versions() {
    let versions = [
        (FLOODSUB, Protocol::Floodsub),
        (V1_0, Protocol::V1_0),
        (V1_1, Protocol::V1_1),
        (V1_2, Protocol::V1_2),
        ("/meshsub/1.3.0", Protocol::V1_3),
        ("/meshsub/1.4.0", Protocol::V1_3),
        ("", Protocol::V1_2),
        ("/meshsub/2.0.0", Protocol::Floodsub),
        ("/randomsub/1.0.0", Protocol::Floodsub),
    ];
    for (name, protocol) in versions {
        assert_eq!(Protocol::of(name), protocol, "{name:?}");
    }
}

#[test]
fn all_versions_of_gossipsub_share_a_mesh() {
    let mut node = Node::new(plain());
    let peers: Vec<_> = [V1_0, V1_1, V1_2, "/meshsub/1.3.0"].map(|name| node.connect_as(name, true)).into();
    node.rpcs(&peers, subscriptions(true, &["t".to_owned()]));
    node.subscribe("t");
    assert_eq!(node.mesh("t"), peers);
    node.sent();
    node.rpc(peers[0], publish([message("t", 1, 2000)]));
    let sent = node.sent();
    assert_eq!(sent.receivers(), peers[1..]);
    assert_eq!(sent.idontwant_receivers(), peers[2..], "IDONTWANT since 1.2");
    node.unsubscribe("t");
    for (peer, prune) in node.sent().prunes("t") {
        assert_eq!(prune.backoff.is_some(), peer != peers[0], "a backoff since 1.1");
    }
}

#[test]
fn a_prune_of_v1_0_without_backoff_is_honoured() {
    let mut node = Node::new(plain());
    let old = node.join_as(V1_0, "t", true);
    node.subscribe("t");
    node.rpc(old, prune("t", None));
    node.sent();
    node.advance(Duration::from_secs(30));
    assert!(node.sent().grafts("t").is_empty());
}

#[test]
fn idontwant_is_honoured_from_peers_of_any_version() {
    let mut node = Node::new(plain());
    let old = node.connect_as(V1_1, true);
    let new = node.connect_as(V1_2, true);
    node.rpcs(&[old, new], subscriptions(true, &["t".to_owned()]));
    node.subscribe("t");
    node.sent();
    let coming = message("t", 1, 2000);
    node.rpc(old, idontwant(vec![id_of(&coming)]));
    node.rpc(new, publish([coming]));
    assert!(node.sent().receivers().is_empty());
}
