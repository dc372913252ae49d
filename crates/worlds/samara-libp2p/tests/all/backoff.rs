//! PRUNE and its consequences: both sides wait for backoffs, and reject a GRAFT that arrives too
//! early.

use std::time::Duration;

use libp2p::StreamProtocol;
use libp2p::gossipsub::{self, Version};
use samara_gossipsub::score::PeerScoreParams;
use samara_gossipsub::{Config, Ignored};

use crate::common::*;
use crate::go::golang;
use crate::go_program::Release;

/// Backoffs in whole seconds, as on the wire.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

fn rust(change: impl FnOnce(&mut gossipsub::ConfigBuilder)) -> gossipsub::Config {
    let mut config = theirs_config();
    change(&mut config);
    config.build().expect("the configuration")
}

/// We prune a peer with a long backoff, but the peer assumes a short one: v1.0 has no field for it.
async fn early_grafts_are_refused(mut other: Node, mut config: Config) {
    config.unsubscribe_backoff = LONG;
    config.prune_backoff = LONG;
    config.peer_score = Some(PeerScoreParams { ip_colocation_weight: 0.0, ..Default::default() });
    let mut options = options();
    options.protocols = [StreamProtocol::new("/meshsub/1.0.0")].into();
    let mut our = ours(config, options).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    let grafts_before = our.metrics().await.grafts_received;
    our.unsubscribe("t");
    other.next("that we left", |observed| matches!(observed, Observed::Left(..)).then_some(())).await;
    our.subscribe("t");
    other.joined(our.peer).await;
    let early = |metrics: &samara_gossipsub::Metrics| metrics.ignored(Ignored::GraftBackoff) >= 1;
    let metrics = our.counted("a GRAFT that comes too early", early).await;
    assert!(metrics.grafts_received > grafts_before, "{metrics:?}");
    // One PRUNE for leaving, and one for every early GRAFT.
    assert_eq!(metrics.prunes_sent, 1 + metrics.ignored(Ignored::GraftBackoff), "{metrics:?}");
    assert_eq!(our.look("t").await.0, 0, "the peer is in our mesh despite the rejection");
    let peer = other.peer;
    let score = our.with(move |behaviour| {
        let handle = behaviour.handle(&peer).expect("a link");
        behaviour.engine().peer_score(handle)
    });
    assert!(score.await < 0.0, "the early GRAFT costs no score");
}

#[tokio::test]
async fn we_refuse_an_early_graft_of_go() {
    for release in Release::ALL {
        let flags = ["-protocol", "/meshsub/1.0.0", "-prune-backoff", "1s", "-unsubscribe-backoff", "1s"];
        let Some(go) = golang(release, &flags).await else { return };
        early_grafts_are_refused(go, like_go(signed())).await;
    }
}

#[tokio::test]
async fn we_refuse_an_early_graft_of_rust() {
    let config = rust(|config| {
        config.protocol_id("/meshsub/1.0.0", Version::V1_0);
        config.prune_backoff(SHORT).unsubscribe_backoff(SHORT);
    });
    early_grafts_are_refused(theirs(config, true).await, signed()).await;
}

/// A peer prunes us with a long backoff, but we accept only a short one.
async fn our_early_graft_is_refused(mut other: Node, mut config: Config) {
    config.prune_backoff = SHORT;
    config.remote_backoff_max = SHORT;
    config.backoff_slack = Duration::ZERO;
    let mut our = ours(config, options()).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    other.unsubscribe("t");
    our.next("that they left", |observed| matches!(observed, Observed::Left(..)).then_some(())).await;
    let before = our.counted("a PRUNE", |metrics| metrics.prunes_received >= 1).await;
    other.subscribe("t");
    let refused = our.counted("a refusal", |metrics| metrics.prunes_received > before.prunes_received).await;
    assert!(refused.grafts_sent > before.grafts_sent, "{refused:?}");
    assert_eq!(other.look("t").await.0, 0, "we are in their mesh despite the rejection");
}

#[tokio::test]
async fn go_refuses_our_early_graft() {
    for release in Release::ALL {
        let Some(go) = golang(release, &["-unsubscribe-backoff", "60s"]).await else { return };
        our_early_graft_is_refused(go, like_go(signed())).await;
    }
}

#[tokio::test]
async fn rust_refuses_our_early_graft() {
    let config = rust(|config| {
        config.unsubscribe_backoff(LONG);
    });
    our_early_graft_is_refused(theirs(config, true).await, signed()).await;
}

/// One side leaves and returns. Both wait until the backoff is over, and no GRAFT is rejected.
async fn backoffs_are_waited_for(mut other: Node, mut config: Config, who_leaves: Dial) {
    config.unsubscribe_backoff = SHORT;
    config.backoff_slack = Duration::from_millis(400);
    let mut our = ours(config, options()).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    match who_leaves {
        Dial::Ours => {
            our.unsubscribe("t");
            other.next("that we left", |observed| matches!(observed, Observed::Left(..)).then_some(())).await;
            our.subscribe("t");
        }
        Dial::Theirs => {
            other.unsubscribe("t");
            our.next("that they left", |observed| matches!(observed, Observed::Left(..)).then_some(())).await;
            other.subscribe("t");
        }
    }
    our.mesh_of("t", 1).await;
    other.mesh_of("t", 1).await;
    let metrics = our.metrics().await;
    assert_eq!(metrics.ignored(Ignored::GraftBackoff), 0, "{metrics:?}");
    assert_eq!(metrics.prunes_sent + metrics.prunes_received, 1, "{metrics:?}");
    our.publish("t", b"together again");
    assert_eq!(other.message().await.1, b"together again");
}

#[tokio::test]
async fn both_wait_for_backoffs_with_go() {
    for release in Release::ALL {
        for who_leaves in [Dial::Ours, Dial::Theirs] {
            let Some(go) = golang(release, &["-unsubscribe-backoff", "1s"]).await else { return };
            backoffs_are_waited_for(go, like_go(signed()), who_leaves).await;
        }
    }
}

#[tokio::test]
async fn both_wait_for_backoffs_with_rust() {
    for who_leaves in [Dial::Ours, Dial::Theirs] {
        let config = rust(|config| {
            // There, the longer of the two backoffs applies to a peer that only unsubscribes.
            config.prune_backoff(SHORT).unsubscribe_backoff(SHORT);
        });
        backoffs_are_waited_for(theirs(config, true).await, signed(), who_leaves).await;
    }
}
