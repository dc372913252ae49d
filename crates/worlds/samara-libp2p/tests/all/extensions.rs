//! `/meshsub/1.3.0`: the extensions control message, with implementations that support it.

use libp2p::PeerId;
use libp2p::identity::Keypair;
use samara_gossipsub::rpc::{Control, Rpc};
use samara_gossipsub::score::PeerScoreParams;
use samara_gossipsub::{Config, Ignored};

use crate::common::*;
use crate::go::golang;
use crate::go_program::Release;
use crate::raw::*;

const V1_3: &str = "/meshsub/1.3.0";

fn scored(config: Config) -> Config {
    let score = PeerScoreParams { ip_colocation_weight: 0.0, ..PeerScoreParams::default() };
    Config { peer_score: Some(score), ..config }
}

/// Returns the fields of a peer's extensions, and its score.
async fn seen(our: &Node, peer: PeerId) -> (Option<Vec<u8>>, f64) {
    our.with(move |behaviour| {
        let handle = behaviour.handle(&peer).expect("a link");
        let engine = behaviour.engine();
        (engine.extensions_of(handle).map(|fields| fields.to_vec()), engine.peer_score(handle))
    })
    .await
}

async fn spoken(our: &mut Node) -> String {
    our.next("a link", |observed| match observed {
        Observed::Peer(_, protocol) => Some(protocol.clone()),
        _ => None,
    })
    .await
}

async fn messages_go_both_ways(our: &mut Node, other: &mut Node) {
    our.mesh_of("t", 1).await;
    other.mesh_of("t", 1).await;
    our.publish("t", b"from us");
    assert_eq!(other.message().await.1, b"from us");
    other.publish("t", b"from them");
    assert_eq!(our.message().await.1, b"from them");
}

#[tokio::test]
async fn our_nodes_announce_empty_extensions() {
    let (mut our, other) = (ours(scored(signed()), options()).await, ours(scored(signed()), options()).await);
    our.subscribe("t");
    other.subscribe("t");
    our.dial(&other);
    assert_eq!(spoken(&mut our).await, V1_3);
    our.joined(other.peer).await;
    assert_eq!(seen(&our, other.peer).await.0, Some(Vec::new()));
    assert_eq!(our.metrics().await.ignored(Ignored::ExtensionsAgain), 0);
}

#[tokio::test]
async fn extensions_of_rust_are_recorded() {
    let mut our = ours(scored(signed()), options()).await;
    let mut their = theirs(theirs_config().build().expect("the configuration"), true).await;
    our.subscribe("t");
    their.subscribe("t");
    our.dial(&their);
    assert_eq!(spoken(&mut our).await, V1_3);
    our.joined(their.peer).await;
    messages_go_both_ways(&mut our, &mut their).await;
    let (extensions, score) = seen(&our, their.peer).await;
    // Field 10, true: compiled with partial messages, rust-libp2p announces them even if it enables
    // them for no topic.
    assert_eq!(extensions, Some(vec![0x50, 1]));
    assert!(score >= 0.0, "{score}");
}

/// With the test extension of go: go announces it, and sends it only to peers that have announced
/// it.
#[tokio::test]
async fn extensions_of_go_are_recorded() {
    for release in Release::ALL {
        let Some(mut go) = golang(release, &["-test-extension"]).await else { return };
        let mut our = ours(scored(like_go(signed())), options()).await;
        our.subscribe("t");
        go.subscribe("t");
        our.dial(&go);
        assert_eq!(spoken(&mut our).await, V1_3);
        our.joined(go.peer).await;
        messages_go_both_ways(&mut our, &mut go).await;
        let (extensions, score) = seen(&our, go.peer).await;
        // Field 6492434 (specification, `extensions.proto`), with the value true.
        assert_eq!(extensions, Some(vec![0x90, 0x91, 0xe2, 0x18, 1]));
        assert!(score >= 0.0, "{score}");
    }
}

#[tokio::test]
async fn a_second_announcement_is_penalised_but_the_peer_stays() {
    let our = ours(scored(signed()), options()).await;
    our.subscribe("t");
    let mut raw = Raw::speaking(&our, V1_3, Streams::Kept, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    let control = Control { extensions: Some(vec![0x50, 1].into()), ..Control::default() };
    let announcement = Rpc { control: Some(Box::new(control)), ..Rpc::default() };
    send_rpc(&mut stream, &announcement).await;
    send_rpc(&mut stream, &announcement).await;
    our.counted("the second announcement", |metrics| metrics.ignored(Ignored::ExtensionsAgain) == 1).await;
    let (extensions, score) = seen(&our, raw.peer).await;
    assert_eq!(extensions, Some(vec![0x50, 1]));
    assert!(score < 0.0, "the second announcement costs no score");
}
