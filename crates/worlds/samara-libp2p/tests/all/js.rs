//! Interoperability with js-libp2p's gossipsub (`interop/js`) over TCP; it has no QUIC.
//!
//! Needs Node.js and npm, which installs the packages of the lock file below the target directory.
//! Without them, these tests print that they were skipped; with `SAMARA_REQUIRE_PEERS` set, they
//! fail.

use crate::common::*;
use crate::delivery::a_mebibyte_there_and_back;
use crate::js_program;
use crate::process::start;

/// Starts a node of js-libp2p; `None` if this is not possible.
async fn javascript(flags: &[&str]) -> Option<Node> {
    let mut command = tokio::process::Command::new("node");
    command.arg(js_program::program()?).args(flags);
    Some(start(command).await)
}

#[tokio::test]
async fn messages_go_both_ways_with_javascript() {
    for (dial, with_author) in
        [(Dial::Ours, true), (Dial::Theirs, true), (Dial::Ours, false), (Dial::Theirs, false)]
    {
        let flags: &[&str] = if with_author { &[] } else { &["--unsigned"] };
        let Some(mut js) = javascript(flags).await else { return };
        let config = if with_author { like_go(signed()) } else { anonymous() };
        let mut our = ours(config, options()).await;
        meet(&mut our, &mut js, "t", dial).await;
        our.publish("t", b"from us");
        assert_eq!(js.message().await.1, b"from us", "{dial:?}, with author: {with_author}");
        js.publish("t", b"from js");
        assert_eq!(our.message().await.1, b"from js", "{dial:?}, with author: {with_author}");
    }
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways_with_javascript() {
    let Some(mut js) = javascript(&[]).await else { return };
    let mut our = ours(like_go(signed()), options()).await;
    a_mebibyte_there_and_back(&mut our, &mut js, Dial::Theirs).await;
}

/// A peer outside our mesh learns of a message by IHAVE, and requests it.
#[tokio::test]
async fn javascript_recovers_by_gossip() {
    let mut narrow = like_go(signed());
    narrow.mesh = samara_gossipsub::config::MeshParams {
        d: 1,
        d_low: 1,
        d_high: 1,
        d_score: 0,
        d_out: 0,
        ..narrow.mesh
    };
    narrow.flood_publish = false;
    let mut hub = ours(narrow, options()).await;
    hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..2 {
        let Some(mut leaf) = javascript(&[]).await else { return };
        leaf.subscribe("t");
        leaf.dial(&hub);
        leaf.joined(hub.peer).await;
        hub.joined(leaf.peer).await;
        leaves.push(leaf);
    }
    hub.mesh_of("t", 1).await;
    hub.publish("t", b"by gossip");
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by gossip");
    }
    hub.counted("an answered request", |metrics| metrics.answered_copies >= 1).await;
}
