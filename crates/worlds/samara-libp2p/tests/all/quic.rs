//! Messages over QUIC: dialled from either side, signed and unsigned, small and large.

use libp2p::gossipsub::{self, MessageId, ValidationMode};
use sha2::{Digest, Sha256};

use crate::common::*;
use crate::delivery::a_mebibyte_there_and_back;
use crate::go::golang_over;
use crate::go_program::Release;

async fn both_ways(our: &mut Node, other: &mut Node, dial: Dial) {
    meet(our, other, "t", dial).await;
    our.publish("t", b"from us");
    assert_eq!(other.message().await, ("t".to_owned(), b"from us".to_vec()), "{dial:?}");
    other.publish("t", b"from them");
    assert_eq!(our.message().await, ("t".to_owned(), b"from them".to_vec()), "{dial:?}");
}

/// Returns true if a node listens on QUIC, which is then the transport of every dial to it.
fn is_quic(node: &Node) -> bool {
    node.address.to_string().contains("/quic-v1")
}

/// Configures rust-libp2p, with ids of the content if messages have no author.
fn rust(signed: bool) -> gossipsub::Config {
    let id = |message: &gossipsub::Message| MessageId::from(Sha256::digest(&message.data)[..20].to_vec());
    let mut config = theirs_config();
    if !signed {
        config.validation_mode(ValidationMode::Anonymous).message_id_fn(id);
    }
    config.build().expect("the configuration")
}

#[tokio::test]
async fn our_nodes_exchange_messages() {
    for dial in [Dial::Ours, Dial::Theirs] {
        let (mut our, mut other) = (
            ours_over(Transport::Quic, signed(), options()).await,
            ours_over(Transport::Quic, signed(), options()).await,
        );
        assert!(is_quic(&our) && is_quic(&other));
        both_ways(&mut our, &mut other, dial).await;
    }
}

#[tokio::test]
async fn messages_go_both_ways_with_rust() {
    for (dial, with_author) in
        [(Dial::Ours, true), (Dial::Theirs, true), (Dial::Ours, false), (Dial::Theirs, false)]
    {
        let config = if with_author { signed() } else { anonymous() };
        let mut our = ours_over(Transport::Quic, config, options()).await;
        let mut their = theirs_over(Transport::Quic, rust(with_author), with_author).await;
        assert!(is_quic(&our) && is_quic(&their));
        both_ways(&mut our, &mut their, dial).await;
    }
}

#[tokio::test]
async fn messages_go_both_ways_with_go() {
    for release in Release::ALL {
        for (dial, with_author) in
            [(Dial::Ours, true), (Dial::Theirs, true), (Dial::Ours, false), (Dial::Theirs, false)]
        {
            let flags: &[&str] = if with_author { &[] } else { &["-unsigned"] };
            let Some(mut go) = golang_over(release, Transport::Quic, flags).await else { return };
            let config = if with_author { like_go(signed()) } else { anonymous() };
            let mut our = ours_over(Transport::Quic, config, options()).await;
            assert!(is_quic(&our) && is_quic(&go));
            both_ways(&mut our, &mut go, dial).await;
        }
    }
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways_with_rust() {
    for dial in [Dial::Ours, Dial::Theirs] {
        let mut our = ours_over(Transport::Quic, signed(), options()).await;
        let mut their = theirs_over(Transport::Quic, rust(true), true).await;
        a_mebibyte_there_and_back(&mut our, &mut their, dial).await;
    }
}

#[tokio::test]
async fn a_mebibyte_goes_both_ways_with_go() {
    for release in Release::ALL {
        for dial in [Dial::Ours, Dial::Theirs] {
            let Some(mut go) = golang_over(release, Transport::Quic, &[]).await else { return };
            let mut our = ours_over(Transport::Quic, like_go(signed()), options()).await;
            a_mebibyte_there_and_back(&mut our, &mut go, dial).await;
        }
    }
}

/// One node listens on TCP, the other on QUIC. A swarm has both, and neighbours over different
/// transports share a mesh.
#[tokio::test]
async fn a_mesh_may_mix_transports() {
    let (mut hub, mut over_tcp, mut over_quic) = (
        ours_over(Transport::Tcp, signed(), options()).await,
        theirs_over(Transport::Tcp, rust(true), true).await,
        theirs_over(Transport::Quic, rust(true), true).await,
    );
    meet(&mut hub, &mut over_tcp, "t", Dial::Ours).await;
    over_quic.subscribe("t");
    hub.dial(&over_quic);
    hub.mesh_of("t", 2).await;
    over_quic.mesh_of("t", 1).await;
    over_tcp.publish("t", b"from TCP");
    assert_eq!(over_quic.message().await.1, b"from TCP");
    over_quic.publish("t", b"from QUIC");
    assert_eq!(over_tcp.message().await.1, b"from QUIC");
}
