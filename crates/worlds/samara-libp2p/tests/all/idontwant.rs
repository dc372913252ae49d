//! IDONTWANT is honoured in both directions. Each case has a counterpart without IDONTWANT, which
//! distinguishes a suppressed copy from a link that carries nothing.

use libp2p::gossipsub::{self, MessageId, ValidationMode};
use samara_gossipsub::Config;
use samara_gossipsub::config::ValidatorHook;
use sha2::{Digest, Sha256};

use crate::common::*;
use crate::go::golang;
use crate::go_program::Release;

/// Returns a payload above the threshold of every implementation (1,024 bytes in go, 1,000 in
/// rust-libp2p).
fn large() -> Vec<u8> {
    (0..20_000_u32).map(|at| at as u8).collect()
}

/// Returns a configuration that forwards nothing, because it never returns a verdict.
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

/// Lets `other` send us copies of a message that we have from another peer. Returns their number.
async fn copies_from(mut other: Node, idontwant: bool) -> u64 {
    let mut our = ours(holding(idontwant), options()).await;
    let mut first = ours(anonymous(), options()).await;
    let mut second = ours(anonymous(), options()).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    meet(&mut first, &mut our, "t", Dial::Ours).await;
    meet(&mut second, &mut other, "t", Dial::Ours).await;

    first.publish("t", &large());
    our.next("the first copy", |observed| matches!(observed, Observed::NeedsValidation(..)).then_some(()))
        .await;
    // Sent on the same stream after the IDONTWANT: a peer that has this message has read the
    // IDONTWANT.
    our.publish("t", b"behind the IDONTWANT");
    assert_eq!(other.message().await.1, b"behind the IDONTWANT");

    second.publish("t", &large());
    assert!(other.message().await.1 == large(), "the data differ");
    // Forwarded after the other copy, if there is one.
    second.publish("t", b"behind the copy");
    our.next("the message after the copy", |observed| {
        matches!(observed, Observed::NeedsValidation(_, data, _) if data == b"behind the copy").then_some(())
    })
    .await;
    our.metrics().await.duplicates_received
}

/// Lets us send `other` copies of a message that it has from another peer. Returns the number of
/// suppressed copies, and our node. Its last message may still be in flight, and would be lost with
/// it.
async fn copies_kept_back(other: &mut Node, data: &[u8]) -> (u64, Node) {
    let mut our = ours(anonymous(), options()).await;
    let mut first = ours(anonymous(), options()).await;
    let mut second = ours(anonymous(), options()).await;
    meet(&mut our, other, "t", Dial::Ours).await;
    meet(&mut first, other, "t", Dial::Ours).await;
    meet(&mut second, &mut our, "t", Dial::Ours).await;

    first.publish("t", data);
    // rust-libp2p reports the message at once, and delays everything else.
    let has_it =
        |event: &Observed| matches!(event, Observed::Held(got) | Observed::Message(_, got) if got == data);
    other.next("the first copy", |observed| has_it(observed).then_some(())).await;
    if data.len() >= 1024 {
        our.counted("their IDONTWANT", |metrics| metrics.idontwant_ids_received > 0).await;
    }
    second.publish("t", data);
    assert!(our.message().await.1 == data, "the data differ");
    // Used by the caller, which counts copies at the other end.
    our.publish("t", b"behind the copy");
    let metrics = our.metrics().await;
    assert_eq!(metrics.forwarded_copies + metrics.suppressed_copies, 1, "{metrics:?}");
    (metrics.suppressed_copies, our)
}

#[tokio::test]
async fn go_honours_our_idontwant() {
    for release in Release::ALL {
        let Some(go) = golang(release, &["-unsigned"]).await else { return };
        assert_eq!(copies_from(go, true).await, 0, "a copy arrived despite IDONTWANT");
        let Some(go) = golang(release, &["-unsigned"]).await else { return };
        assert_eq!(copies_from(go, false).await, 1, "no copy arrived without IDONTWANT");
    }
}

#[tokio::test]
async fn rust_honours_our_idontwant() {
    assert_eq!(
        copies_from(theirs(rust(false), false).await, true).await,
        0,
        "a copy arrived despite IDONTWANT"
    );
    let without = copies_from(theirs(rust(false), false).await, false).await;
    assert_eq!(without, 1, "no copy arrived without IDONTWANT");
}

#[tokio::test]
async fn we_honour_idontwant_of_go() {
    for release in Release::ALL {
        // Go holds received messages until they are released. Otherwise we would receive the message
        // from go itself.
        for (data, kept_back) in [(large(), 1), (b"below the threshold".to_vec(), 0)] {
            let Some(mut go) = golang(release, &["-unsigned", "-hold"]).await else { return };
            let (kept, our) = copies_kept_back(&mut go, &data).await;
            assert_eq!(kept, kept_back);
            go.send(Command::Release);
            // A copy of the publisher does not count: it announces the message to a peer that just joined
            // its mesh, and go requests a message that it is still validating.
            let (mut duplicates, mut done) = (0, false);
            while !done {
                (duplicates, done) = go
                    .next("the end", |observed| match observed {
                        Observed::Duplicate(from) => Some((duplicates + u64::from(*from == our.peer), false)),
                        Observed::Message(_, data) => Some((duplicates, data == b"behind the copy")),
                        _ => None,
                    })
                    .await;
            }
            assert_eq!(duplicates, 1 - kept_back, "{} bytes", data.len());
        }
    }
}

#[tokio::test]
async fn we_honour_idontwant_of_rust() {
    // Without a verdict, rust-libp2p forwards nothing.
    for (data, kept_back) in [(large(), 1), (b"below the threshold".to_vec(), 0)] {
        let mut their = theirs(rust(true), false).await;
        assert_eq!(copies_kept_back(&mut their, &data).await.0, kept_back);
    }
}
