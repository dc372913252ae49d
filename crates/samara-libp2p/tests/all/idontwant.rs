//! IDONTWANT is honoured: theirs by us, ours by them. Each case has its counterpart without IDONTWANT, so that silence can be
//! told from a link that carries nothing.

use libp2p::gossipsub::{self, MessageId, ValidationMode};
use samara_gossipsub::Config;
use samara_gossipsub::config::ValidatorHook;
use sha2::{Digest, Sha256};

use crate::common::*;
use crate::go::golang;

/// Above everybody's threshold (1,024 bytes in go, 1,000 in rust-libp2p).
fn large() -> Vec<u8> {
    (0..20_000_u32).map(|at| at as u8).collect()
}

/// A node of ours that keeps what comes for itself: it never gives a verdict.
fn holding(idontwant: bool) -> Config {
    let mut config = anonymous();
    config.validator = Some(ValidatorHook::deferred());
    config.idontwant.send = idontwant;
    config
}

fn rust(hold: bool) -> gossipsub::Config {
    let id = |message: &gossipsub::Message| MessageId::from(Sha256::digest(&message.data)[..20].to_vec());
    let mut config = theirs_config();
    config.validation_mode(ValidationMode::Anonymous).message_id_fn(id);
    if hold {
        config.validate_messages();
    }
    config.build().expect("the configuration")
}

/// `other` would send us a copy of a message that we have from somebody else. How many copies it sends us.
async fn copies_from(mut other: Node, idontwant: bool) -> u64 {
    let mut our = ours(holding(idontwant), options()).await;
    let mut first = ours(anonymous(), options()).await;
    let mut second = ours(anonymous(), options()).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    meet(&mut first, &mut our, "t", Dial::Ours).await;
    meet(&mut second, &mut other, "t", Dial::Ours).await;

    first.publish("t", &large());
    our.next("the first copy", |told| matches!(told, Observed::NeedsValidation(..)).then_some(())).await;
    // On the same stream, behind the IDONTWANT: whoever has this has that.
    our.publish("t", b"behind the IDONTWANT");
    assert_eq!(other.message().await.1, b"behind the IDONTWANT");

    second.publish("t", &large());
    assert!(other.message().await.1 == large(), "something else");
    // Forwarded behind the other copy, if there is one.
    second.publish("t", b"behind the copy");
    our.next("what comes behind the copy", |told| {
        matches!(told, Observed::NeedsValidation(_, data, _) if data == b"behind the copy").then_some(())
    })
    .await;
    our.metrics().await.duplicates_received
}

/// We would send `other` a copy of a message that it has from somebody else. How many copies we keep back, and the node that did:
/// what it published last may still be on its way, and is lost with it.
async fn copies_kept_back(other: &mut Node, data: &[u8]) -> (u64, Node) {
    let mut our = ours(anonymous(), options()).await;
    let mut first = ours(anonymous(), options()).await;
    let mut second = ours(anonymous(), options()).await;
    meet(&mut our, other, "t", Dial::Ours).await;
    meet(&mut first, other, "t", Dial::Ours).await;
    meet(&mut second, &mut our, "t", Dial::Ours).await;

    first.publish("t", data);
    // rust-libp2p tells of it at once, and waits with the rest.
    let has_it =
        |told: &Observed| matches!(told, Observed::Held(got) | Observed::Message(_, got) if got == data);
    other.next("the first copy", |told| has_it(told).then_some(())).await;
    if data.len() >= 1024 {
        our.counted("their IDONTWANT", |metrics| metrics.idontwant_ids_received > 0).await;
    }
    second.publish("t", data);
    assert!(our.message().await.1 == data, "something else");
    // For the test of whoever counts copies at the other end.
    our.publish("t", b"behind the copy");
    let metrics = our.metrics().await;
    assert_eq!(metrics.copies_forwarded + metrics.copies_suppressed, 1, "{metrics:?}");
    (metrics.copies_suppressed, our)
}

#[tokio::test]
async fn go_honours_ours() {
    let Some(go) = golang(&["-unsigned"]).await else { return };
    assert_eq!(copies_from(go, true).await, 0, "IDONTWANT was of no use");
    let Some(go) = golang(&["-unsigned"]).await else { return };
    assert_eq!(copies_from(go, false).await, 1, "nothing was asked, and yet nothing came");
}

#[tokio::test]
async fn rust_honours_ours() {
    assert_eq!(copies_from(theirs(rust(false), false).await, true).await, 0, "IDONTWANT was of no use");
    let without = copies_from(theirs(rust(false), false).await, false).await;
    assert_eq!(without, 1, "nothing was asked, and yet nothing came");
}

#[tokio::test]
async fn we_honour_that_of_go() {
    // What comes is held there until it is released: otherwise we would have the message from go itself.
    for (data, kept_back) in [(large(), 1), (b"below the threshold".to_vec(), 0)] {
        let Some(mut go) = golang(&["-unsigned", "-hold"]).await else { return };
        let (kept, _our) = copies_kept_back(&mut go, &data).await;
        assert_eq!(kept, kept_back);
        go.tell(Command::Release);
        let (mut duplicates, mut done) = (0, false);
        while !done {
            (duplicates, done) = go
                .next("the end", |told| match told {
                    Observed::Duplicate(_) => Some((duplicates + 1, false)),
                    Observed::Message(_, data) => Some((duplicates, data == b"behind the copy")),
                    _ => None,
                })
                .await;
        }
        assert_eq!(duplicates, 1 - kept_back, "{} bytes", data.len());
    }
}

#[tokio::test]
async fn we_honour_that_of_rust() {
    // Without a verdict nothing is forwarded there.
    for (data, kept_back) in [(large(), 1), (b"below the threshold".to_vec(), 0)] {
        let mut their = theirs(rust(true), false).await;
        assert_eq!(copies_kept_back(&mut their, &data).await.0, kept_back);
    }
}
