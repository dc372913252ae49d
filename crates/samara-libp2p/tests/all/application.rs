//! What an application does with the behaviour: verdicts, direct peers, peer exchange, and what it is told of streams that break.

use std::time::Duration;

use libp2p::core::{PeerRecord, SignedEnvelope};
use libp2p::identity::Keypair;
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::rpc::{Control, ExchangedPeer, MessageId, Prune, Rpc, Topic};
use samara_gossipsub::score::{PeerScoreParams, TopicScoreParams};
use samara_gossipsub::{Acceptance, Config, Ignored};

use crate::common::*;
use crate::raw::*;

/// A node that gives its verdicts later, and for which invalid messages (P4) are all that counts.
fn judging() -> Config {
    let mut config = signed();
    config.validator = Some(ValidatorHook::deferred());
    config.peer_score = Some(PeerScoreParams { ip_colocation_weight: 0.0, ..PeerScoreParams::default() });
    config.topic_score = Some(TopicScoreParams {
        invalid_message_deliveries_weight: -1.0,
        invalid_message_deliveries_decay: 0.9,
        ..TopicScoreParams::neutral()
    });
    config
}

async fn waiting(our: &mut Node, data: &'static [u8]) -> MessageId {
    our.next("a message that waits", |told| match told {
        Observed::NeedsValidation(id, got, _) if got == data => Some(id.clone()),
        _ => None,
    })
    .await
}

async fn verdict(our: &Node, id: MessageId, acceptance: Acceptance) {
    our.with(move |behaviour| behaviour.report_validation(&id, acceptance)).await;
}

async fn score(our: &Node, peer: libp2p::PeerId) -> f64 {
    our.with(move |behaviour| {
        let handle = behaviour.handle(&peer).expect("a link");
        behaviour.engine().peer_score(handle)
    })
    .await
}

#[tokio::test]
async fn verdicts_decide_what_is_forwarded_and_who_is_to_blame() {
    let mut our = ours(judging(), options()).await;
    let mut author = theirs(theirs_config().build().expect("the configuration"), true).await;
    let mut reader = theirs(theirs_config().build().expect("the configuration"), true).await;
    meet(&mut our, &mut author, "t", Dial::Ours).await;
    meet(&mut our, &mut reader, "t", Dial::Ours).await;
    our.mesh_of("t", 2).await;

    author.publish("t", b"good");
    let id = waiting(&mut our, b"good").await;
    assert_eq!(our.metrics().await.copies_forwarded, 0, "forwarded without a verdict");
    verdict(&our, id, Acceptance::Accept).await;
    assert_eq!(reader.message().await.1, b"good");
    assert_eq!(our.message().await.1, b"good");
    assert_eq!(our.metrics().await.copies_forwarded, 1);

    author.publish("t", b"of no interest");
    let id = waiting(&mut our, b"of no interest").await;
    verdict(&our, id, Acceptance::Ignore).await;
    let metrics = our.metrics().await;
    assert_eq!((metrics.copies_forwarded, metrics.ignored(Ignored::MessageIgnored)), (1, 1));
    assert!(score(&our, author.peer).await >= 0.0, "blamed for what was only ignored");

    author.publish("t", b"bad");
    let id = waiting(&mut our, b"bad").await;
    verdict(&our, id, Acceptance::Reject).await;
    let metrics = our.metrics().await;
    assert_eq!((metrics.copies_forwarded, metrics.ignored(Ignored::MessageRejected)), (1, 1));
    assert!(score(&our, author.peer).await < 0.0, "not blamed");
    assert!(score(&our, reader.peer).await >= 0.0, "blamed for another's message");

    // Neither of the two has reached the reader before this.
    our.publish("t", b"the end");
    assert_eq!(reader.message().await.1, b"the end");
}

#[tokio::test]
async fn direct_peers_are_dialled_again_and_get_everything_outside_of_meshes() {
    let mut config = signed();
    // Every fifth heartbeat, and every seventh of the other: two that dial each other at the same moment, each from the port that it
    // listens on, meet in the middle and both fail.
    config.direct_connect_ticks = 5;
    let mut our = ours(config.clone(), options()).await;
    config.direct_connect_ticks = 7;
    let mut other = ours(config, options()).await;
    let (us, them) = (our.peer, other.peer);
    our.with(move |behaviour| behaviour.add_direct_peer(&them)).await;
    other.with(move |behaviour| behaviour.add_direct_peer(&us)).await;
    our.subscribe("t");
    other.subscribe("t");
    // Nobody knows an address before this one; identify remembers it.
    our.dial(&other);
    let (mut joined, mut identified) = (false, false);
    while !(joined && identified) {
        let told = |told: &Observed| match told {
            Observed::Joined(peer, _) if *peer == them => Some((true, false)),
            Observed::Identified(peer) if *peer == them => Some((false, true)),
            _ => None,
        };
        let (now_joined, now_identified) = our.next("a link and an address", told).await;
        (joined, identified) = (joined | now_joined, identified | now_identified);
    }
    other.joined(us).await;
    other.tell(Command::Disconnect(us));
    our.next("the end of the link", |told| (*told == Observed::Gone(them)).then_some(())).await;
    // Nobody but the behaviours dials.
    our.joined(them).await;
    other.joined(us).await;
    our.publish("t", b"to a direct peer");
    assert_eq!(other.message().await.1, b"to a direct peer");
    assert_eq!((our.look("t").await.0, other.look("t").await.0), (0, 0), "direct peers are in no mesh");
}

/// What a peer says of itself, signed by `key`, which should be its own.
fn record(node: &Node, key: &Keypair) -> SignedEnvelope {
    PeerRecord::new(key, vec![node.address.clone()]).expect("signed").into_signed_envelope()
}

/// A raw peer prunes us and recommends a node by its record.
async fn recommend(our: &mut Node, node: &Node, signer: &Keypair) -> Raw {
    let mut raw = Raw::new(our);
    let mut stream = raw.stream(our).await;
    say(&mut stream, &joins("t")).await;
    our.mesh_of("t", 1).await;
    let envelope = record(node, signer);
    let peers = vec![ExchangedPeer {
        identity: node.peer.to_bytes().into(),
        signed_record: Some(envelope.into_protobuf_encoding().into()),
    }];
    let prune = Prune { topic: Topic::new("t"), peers, backoff: Some(Duration::from_secs(60)) };
    let control = Control { prune: vec![prune], ..Control::default() };
    say(&mut stream, &Rpc { control: Some(Box::new(control)), ..Rpc::default() }).await;
    our.counted("the PRUNE", |metrics| metrics.exchange_dials == 1).await;
    raw
}

/// Accepts recommendations from anybody.
fn trusting() -> Config {
    let mut config = signed();
    config.thresholds.accept_px = 0.0;
    config
}

#[tokio::test]
async fn addresses_of_recommended_peers_are_dialled_if_they_are_signed() {
    let mut our = ours(trusting(), options()).await;
    our.subscribe("t");
    let node = ours(signed(), options()).await;
    node.subscribe("t");
    let own = node.key.clone().expect("one of ours");
    let _raw = recommend(&mut our, &node, &own).await;
    our.joined(node.peer).await;
}

#[tokio::test]
async fn addresses_that_somebody_else_signed_are_not_dialled() {
    let mut our = ours(trusting(), options()).await;
    our.subscribe("t");
    let mut node = ours(signed(), options()).await;
    node.subscribe("t");
    let _raw = recommend(&mut our, &node, &Keypair::generate_ed25519()).await;
    // The dial without an address fails, and nothing is kept of it.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while our.with(|behaviour| behaviour.engine().sizes().dialling).await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the dial never ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(our.with(|behaviour| behaviour.sizes().recommended).await, 0);
    assert!(node.told_so_far().is_empty(), "somebody dialled it");
}

/// A hub of ours that is full passes on the record of one neighbour to another, which dials it.
#[tokio::test]
async fn records_are_passed_on_by_a_node_that_is_full() {
    let mut config = signed();
    config.mesh = samara_gossipsub::config::MeshParams {
        d: 1,
        d_low: 1,
        d_high: 1,
        d_score: 0,
        d_out: 0,
        ..config.mesh
    };
    let mut hub = ours(config, options()).await;
    let mut first = ours(trusting(), options()).await;
    let mut second = ours(trusting(), options()).await;
    meet(&mut hub, &mut first, "t", Dial::Theirs).await;
    let envelope = record(&first, first.key.as_ref().expect("one of ours"));
    assert!(hub.with(move |behaviour| behaviour.set_signed_record(&envelope)).await);
    // There is no room for it, so that its GRAFT is answered by a PRUNE that names the first.
    second.subscribe("t");
    second.dial(&hub);
    second.joined(first.peer).await;
}

#[tokio::test]
async fn streams_that_keep_closing_are_told_and_end_the_connection() {
    let mut our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::Dropped, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    say(&mut stream, &joins("t")).await;
    let peer = raw.peer;
    let (mut cut, mut gone) = (0, false);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !gone {
        // More than a stream takes that is not read.
        for _ in 0..20 {
            our.publish("t", &[7; 32 << 10]);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        for told in our.told_so_far() {
            match told {
                Observed::Cut(who, copies) if who == peer => cut += copies,
                Observed::Gone(who) if who == peer => gone = true,
                _ => {}
            }
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the connection is still there; {cut} copies were cut"
        );
    }
    assert!(cut >= 1, "copies were lost in silence");
    assert_eq!(raw.accepted(), 5, "streams were opened");
    let left = our.with(|behaviour| behaviour.sizes()).await;
    assert_eq!((left.peers, left.connections, left.in_flight_bytes), (0, 0, 0), "{left:?}");
}

/// The announcement was written, and never read: it is made again on the next stream.
#[tokio::test]
async fn what_a_broken_stream_has_swallowed_is_said_again() {
    let our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::FirstClosed, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    say(&mut stream, &joins("t")).await;
    our.mesh_of("t", 1).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let told = |rpc: &Rpc| {
        let graft = rpc.control.as_ref().is_some_and(|control| control.graft.contains(&Topic::new("t")));
        (rpc.subscriptions.iter().any(|change| change.subscribe && change.topic.as_str() == "t"), graft)
    };
    loop {
        // Nothing else is written: that the stream is closed has to be seen.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let heard = raw.heard();
        if heard.iter().any(|rpc| told(rpc).0) && heard.iter().any(|rpc| told(rpc).1) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "it is never said again; {} frames", heard.len());
    }
    assert_eq!(raw.accepted(), 2);
}
