//! Interoperability with go-libp2p-pubsub, the most widely used implementation (`interop/go`).
//!
//! Needs Go. Without it, these tests print that they were skipped; with `SAMARA_REQUIRE_PEERS` set,
//! they fail.

use std::time::Duration;

use libp2p::{StreamProtocol, gossipsub};

use crate::common::*;
use crate::go_program::{GoProgram, Release};
use crate::process::start;

static PROGRAM: GoProgram = GoProgram::new("go", "nothing was tested with go-libp2p-pubsub");
static BENCH: GoProgram =
    GoProgram::new("go-bench", "the program of the comparison of throughput was not built");

/// Starts a node of go-libp2p-pubsub over TCP; `None` without Go.
pub(crate) async fn golang(release: Release, flags: &[&str]) -> Option<Node> {
    golang_over(release, Transport::Tcp, flags).await
}

/// Starts a node of go-libp2p-pubsub over any transport; `None` without Go.
pub(crate) async fn golang_over(release: Release, transport: Transport, flags: &[&str]) -> Option<Node> {
    let mut command = tokio::process::Command::new(PROGRAM.path(release)?);
    command.arg("-listen").arg(transport.any_port().to_string()).args(flags);
    Some(start(command).await)
}

/// Configures rust-libp2p with the message ids of go.
fn rust_like_go() -> gossipsub::Config {
    let id = |message: &gossipsub::Message| {
        let mut id = message.source.map(|peer| peer.to_bytes()).unwrap_or_default();
        id.extend(message.sequence_number.unwrap_or(0).to_be_bytes());
        gossipsub::MessageId::from(id)
    };
    theirs_config().message_id_fn(id).build().expect("the configuration")
}

/// The example `throughput` runs this program.
#[test]
fn the_program_of_the_comparison_starts_with_each_release() {
    for release in Release::ALL {
        let Some(program) = BENCH.path(release) else { return };
        let output = std::process::Command::new(program).stdin(std::process::Stdio::null()).output();
        let output = String::from_utf8(output.expect("the program starts").stdout).expect("text");
        assert!(output.starts_with("listening /ip4/127.0.0.1/tcp/"), "{release:?}: {output}");
    }
}

#[tokio::test]
async fn every_version_speaks_to_go() {
    let versions =
        ["/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0", "/floodsub/1.0.0"];
    let signed_or_not = versions.into_iter().flat_map(|version| [(version, false), (version, true)]);
    let all = signed_or_not.flat_map(|kind| Release::ALL.map(|release| (release, kind)));
    for (release, (version, unsigned)) in all {
        let mut flags = vec!["-protocol", version];
        flags.extend(unsigned.then_some("-unsigned"));
        let Some(mut go) = golang(release, &flags).await else { return };
        let mut options = options();
        options.protocols = [StreamProtocol::new(version)].into();
        let config = if unsigned { anonymous() } else { like_go(signed()) };
        let mut our = ours(config, options).await;
        our.subscribe("t");
        go.subscribe("t");
        if unsigned {
            our.dial(&go)
        } else {
            go.dial(&our)
        }
        our.joined(go.peer).await;
        go.joined(our.peer).await;
        if version != "/floodsub/1.0.0" {
            our.mesh_of("t", 1).await;
            go.mesh_of("t", 1).await;
        }
        our.publish("t", b"from us");
        assert_eq!(go.message().await.1, b"from us", "{release:?}, {version}, unsigned: {unsigned}");
        go.publish("t", b"from go");
        assert_eq!(our.message().await.1, b"from go", "{release:?}, {version}, unsigned: {unsigned}");
    }
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways_and_causes_an_idontwant() {
    for release in Release::ALL {
        let Some(mut go) = golang(release, &[]).await else { return };
        let mut our = ours(like_go(signed()), options()).await;
        crate::delivery::a_mebibyte_there_and_back(&mut our, &mut go, Dial::Theirs).await;
        // Go speaks v1.2, so it has sent an IDONTWANT for the first message.
        our.counted("an IDONTWANT", |metrics| metrics.idontwant_ids_received > 0).await;
    }
}

#[tokio::test]
async fn both_recover_by_gossip() {
    for release in Release::ALL {
        recover_by_gossip(release).await;
    }
}

async fn recover_by_gossip(release: Release) {
    // A hub of ours with a mesh of one, and then a hub of go with a mesh of one.
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
    let our_hub = ours(narrow, options()).await;
    our_hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..3 {
        let Some(mut leaf) = golang(release, &[]).await else { return };
        leaf.subscribe("t");
        leaf.dial(&our_hub);
        leaf.joined(our_hub.peer).await;
        leaves.push(leaf);
    }
    our_hub.mesh_of("t", 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    our_hub.publish("t", b"by our gossip");
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by our gossip");
    }
    assert!(our_hub.look("t").await.1.unwrap().answered_copies >= 1, "no leaf requested the message");

    let Some(mut hub) = golang(release, &["-narrow"]).await else { return };
    hub.subscribe("t");
    let mut leaves = Vec::new();
    for _ in 0..4 {
        let leaf = ours(like_go(signed()), options()).await;
        leaf.subscribe("t");
        leaf.dial(&hub);
        hub.joined(leaf.peer).await;
        leaves.push(leaf);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    hub.publish("t", b"by go's gossip");
    let mut asked = 0;
    for leaf in &mut leaves {
        assert_eq!(leaf.message().await.1, b"by go's gossip");
        asked += leaf.look("t").await.1.unwrap().iwant_ids_sent;
    }
    assert!(asked >= 1, "no leaf requested the message");
}

/// Runs seven nodes of each implementation; those of go have its releases in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mesh_of_three_implementations_delivers_everything() {
    let mut nodes = Vec::new();
    for at in 0..21 {
        nodes.push(match at % 3 {
            0 => ours(like_go(signed()), options()).await,
            1 => theirs(rust_like_go(), true).await,
            _ => match golang(Release::ALL[at % 2], &[]).await {
                Some(node) => node,
                None => return,
            },
        });
    }
    crate::delivery::everything_arrives(nodes, 1050).await;
}
