//! Every protocol version, signed and unsigned, in both directions.

use libp2p::StreamProtocol;
use libp2p::gossipsub::{MessageId, ValidationMode};
use sha2::{Digest, Sha256};

use crate::common::*;

async fn both_ways(mut our: Node, mut their: Node, protocol: &str) {
    our.subscribe("t");
    their.subscribe("t");
    our.dial(&their);
    let spoken = our.next("a link", |observed| match observed {
        Observed::Peer(_, protocol) => Some(protocol.clone()),
        _ => None,
    });
    assert_eq!(spoken.await, protocol);
    // Both know that the other node has joined.
    our.joined(their.peer).await;
    their.joined(our.peer).await;
    if protocol != "/floodsub/1.0.0" {
        our.mesh_of("t", 1).await;
        their.mesh_of("t", 1).await;
    }
    our.publish("t", b"from us");
    assert_eq!(their.message().await, ("t".to_owned(), b"from us".to_vec()));
    their.publish("t", b"from them");
    assert_eq!(our.message().await, ("t".to_owned(), b"from them".to_vec()));
}

#[tokio::test]
async fn every_version_exchanges_signed_messages_with_rust() {
    for version in ["/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0", "/floodsub/1.0.0"]
    {
        let mut options = options();
        options.protocols = [StreamProtocol::new(version)].into();
        let mut config = theirs_config();
        if version == "/floodsub/1.0.0" {
            config.support_floodsub();
        }
        both_ways(ours(signed(), options).await, theirs(config.build().unwrap(), true).await, version).await;
    }
}

#[tokio::test]
async fn the_newest_common_version_is_chosen() {
    let config = theirs_config().build().unwrap();
    both_ways(ours(signed(), options()).await, theirs(config, true).await, "/meshsub/1.3.0").await;
}

#[tokio::test]
async fn unsigned_messages_go_both_ways() {
    let id =
        |message: &libp2p::gossipsub::Message| MessageId::from(Sha256::digest(&message.data)[..20].to_vec());
    let config =
        theirs_config().validation_mode(ValidationMode::Anonymous).message_id_fn(id).build().unwrap();
    both_ways(ours(anonymous(), options()).await, theirs(config, false).await, "/meshsub/1.3.0").await;
}

#[tokio::test]
async fn unsigned_messages_are_rejected() {
    let (mut our, their) = (
        ours(signed(), options()).await,
        theirs(theirs_config().validation_mode(ValidationMode::Anonymous).build().unwrap(), false).await,
    );
    our.subscribe("t");
    their.subscribe("t");
    our.dial(&their);
    their.mesh_of("t", 1).await;
    their.publish("t", b"unsigned");
    // Ignored and counted, with no other effect.
    let refused = async {
        while our.look("t").await.1.unwrap().ignored.total() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("the message is counted");
    assert!(
        our.observed_so_far()
            .iter()
            .all(|observed| !matches!(observed, Observed::Message(..) | Observed::Gone(_)))
    );
}
