//! Recovery of messages that the mesh does not deliver: gossip, and broken connections.

use std::time::Duration;

use libp2p::gossipsub::ConfigBuilder;
use libp2p::identity::Keypair;
use samara_gossipsub::Config;

use crate::common::*;
use crate::raw::{Raw, Streams, joins, send_rpc};

/// Configures a hub whose mesh has room for one peer. The others learn of messages by IHAVE and
/// request them by IWANT.
fn narrow() -> Config {
    let mut config = signed();
    config.mesh.d = 1;
    config.mesh.d_low = 1;
    config.mesh.d_high = 1;
    config.mesh.d_score = 0;
    config.mesh.d_out = 0;
    config.flood_publish = false;
    config
}

fn narrow_theirs() -> ConfigBuilder {
    let mut config = theirs_config();
    config.mesh_n(1).mesh_n_low(1).mesh_n_high(1).mesh_outbound_min(0).flood_publish(false);
    config
}

#[tokio::test]
async fn theirs_recover_from_us_by_gossip() {
    let hub = ours(narrow(), options()).await;
    hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let leaf = theirs(theirs_config().build().unwrap(), true).await;
        leaf.subscribe("t");
        leaf.dial(&hub);
        leaves.push(leaf);
    }
    hub.mesh_of("t", 1).await;
    for leaf in &mut leaves {
        leaf.joined(hub.peer).await;
    }
    // PRUNEs have answered the rejected GRAFTs.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(hub.look("t").await.0, 1);
    hub.publish("t", b"by gossip");
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by gossip");
    }
    let metrics = hub.look("t").await.1.unwrap();
    assert!(metrics.ihave_ids_sent >= 2 && metrics.answered_copies >= 2, "{metrics:?}");
}

#[tokio::test]
async fn we_recover_from_theirs_by_gossip() {
    let mut hub = theirs(narrow_theirs().build().unwrap(), true).await;
    hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let leaf = ours(signed(), options()).await;
        leaf.subscribe("t");
        leaf.dial(&hub);
        leaves.push(leaf);
    }
    for leaf in &leaves {
        hub.joined(leaf.peer).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    hub.publish("t", b"by gossip");
    let mut asked = 0;
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by gossip");
        asked += leaf.look("t").await.1.unwrap().iwant_ids_sent;
    }
    assert!(asked >= 2, "{asked} ids were requested");
}

#[tokio::test]
async fn a_departed_node_is_reported_and_the_others_continue() {
    let (mut our, their, mut stays) = (
        ours(signed(), options()).await,
        theirs(theirs_config().build().unwrap(), true).await,
        theirs(theirs_config().build().unwrap(), true).await,
    );
    for node in [&our, &their, &stays] {
        node.subscribe("t");
    }
    our.dial(&their);
    our.dial(&stays);
    our.mesh_of("t", 2).await;
    let gone = their.peer;
    // The task and the connections of the node end with its inbox.
    drop(their);
    our.next("the end", |observed| (*observed == Observed::Gone(gone)).then_some(())).await;
    our.publish("t", b"still here");
    assert_eq!(stays.message().await.1, b"still here");
    assert_eq!(our.look("t").await.0, 1);
}

/// go-libp2p-pubsub forgets the topics of a peer when its own stream to it ends, and opens another
/// one. It would wait for the topics for ever.
#[tokio::test]
async fn topics_are_announced_again_on_a_new_stream_of_the_peer() {
    let our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::Read, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    send_rpc(&mut stream, &joins("t")).await;
    let announced = |raw: &Raw| raw.received().iter().map(|rpc| rpc.subscriptions.len()).sum::<usize>();
    while announced(&raw) == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((announced(&raw), raw.accepted()), (1, 1));
    drop(stream);
    let _stream = raw.stream(&our).await;
    let again = async {
        while announced(&raw) == 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("the topic is announced again");
    assert_eq!((announced(&raw), raw.accepted()), (2, 1), "over the same stream");
}
