//! The behaviour from the application's side: verdicts, direct peers, peer exchange, and events of
//! broken streams.

use std::time::Duration;

use libp2p::core::{PeerRecord, SignedEnvelope};
use libp2p::identity::Keypair;
use samara_gossipsub::config::ValidatorHook;
use samara_gossipsub::rpc::{Control, ExchangedPeer, MessageId, Prune, Rpc, Topic};
use samara_gossipsub::score::{PeerScoreParams, TopicScoreParams};
use samara_gossipsub::{Acceptance, Config, Ignored};

use crate::common::*;
use crate::raw::*;

/// Returns a configuration with deferred verdicts, whose scores depend only on invalid messages
/// (P4).
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
    our.next("a message that awaits its verdict", |observed| match observed {
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
async fn verdicts_determine_forwarding_and_penalties() {
    let mut our = ours(judging(), options()).await;
    let mut author = theirs(theirs_config().build().expect("the configuration"), true).await;
    let mut reader = theirs(theirs_config().build().expect("the configuration"), true).await;
    meet(&mut our, &mut author, "t", Dial::Ours).await;
    meet(&mut our, &mut reader, "t", Dial::Ours).await;
    our.mesh_of("t", 2).await;

    author.publish("t", b"good");
    let id = waiting(&mut our, b"good").await;
    assert_eq!(our.metrics().await.forwarded_copies, 0, "a message was forwarded without a verdict");
    verdict(&our, id, Acceptance::Accept).await;
    assert_eq!(reader.message().await.1, b"good");
    assert_eq!(our.message().await.1, b"good");
    assert_eq!(our.metrics().await.forwarded_copies, 1);

    author.publish("t", b"of no interest");
    let id = waiting(&mut our, b"of no interest").await;
    verdict(&our, id, Acceptance::Ignore).await;
    let metrics = our.metrics().await;
    assert_eq!((metrics.forwarded_copies, metrics.ignored(Ignored::MessageIgnored)), (1, 1));
    assert!(score(&our, author.peer).await >= 0.0, "the author was penalised for an ignored message");

    author.publish("t", b"bad");
    let id = waiting(&mut our, b"bad").await;
    verdict(&our, id, Acceptance::Reject).await;
    let metrics = our.metrics().await;
    assert_eq!((metrics.forwarded_copies, metrics.ignored(Ignored::MessageRejected)), (1, 1));
    assert!(score(&our, author.peer).await < 0.0, "the author was not penalised");
    assert!(score(&our, reader.peer).await >= 0.0, "the reader was penalised for another peer's message");

    // Neither of the two messages has reached the reader before this one.
    our.publish("t", b"the end");
    assert_eq!(reader.message().await.1, b"the end");
}

#[tokio::test]
async fn direct_peers_are_redialled_and_get_messages_outside_meshes() {
    let mut config = signed();
    // Every fifth heartbeat here, and every seventh at the other node. If two nodes dial each other
    // at the same time, each from its listening port, the connections meet and both dials fail.
    config.direct_connect_ticks = 5;
    let mut our = ours(config.clone(), options()).await;
    config.direct_connect_ticks = 7;
    let mut other = ours(config, options()).await;
    let (us, them) = (our.peer, other.peer);
    our.with(move |behaviour| behaviour.add_explicit_peer(&them)).await;
    other.with(move |behaviour| behaviour.add_explicit_peer(&us)).await;
    our.subscribe("t");
    other.subscribe("t");
    // This is the first address that any node knows; identify remembers it.
    our.dial(&other);
    let (mut joined, mut identified) = (false, false);
    while !(joined && identified) {
        let observed = |observed: &Observed| match observed {
            Observed::Joined(peer, _) if *peer == them => Some((true, false)),
            Observed::Identified(peer) if *peer == them => Some((false, true)),
            _ => None,
        };
        let (now_joined, now_identified) = our.next("a link and an address", observed).await;
        (joined, identified) = (joined | now_joined, identified | now_identified);
    }
    other.joined(us).await;
    other.send(Command::Disconnect(us));
    our.next("the end of the link", |observed| (*observed == Observed::Gone(them)).then_some(())).await;
    // Only the behaviours dial.
    our.joined(them).await;
    other.joined(us).await;
    our.publish("t", b"to a direct peer");
    assert_eq!(other.message().await.1, b"to a direct peer");
    assert_eq!((our.look("t").await.0, other.look("t").await.0), (0, 0), "direct peers are in no mesh");
}

/// Returns a peer's record, signed by `key`, which should be the peer's own.
fn record(node: &Node, key: &Keypair) -> SignedEnvelope {
    PeerRecord::new(key, vec![node.address.clone()]).expect("signed").into_signed_envelope()
}

/// Lets a raw peer prune us and recommend a node by its record.
async fn recommend(our: &mut Node, node: &Node, signer: &Keypair) -> Raw {
    let mut raw = Raw::new(our);
    let mut stream = raw.stream(our).await;
    send_rpc(&mut stream, &joins("t")).await;
    our.mesh_of("t", 1).await;
    let envelope = record(node, signer);
    let peers = vec![ExchangedPeer {
        identity: node.peer.to_bytes().into(),
        signed_record: Some(envelope.into_protobuf_encoding().into()),
    }];
    let prune = Prune { topic: Topic::new("t"), peers, backoff: Some(Duration::from_secs(60)) };
    let control = Control { prune: vec![prune], ..Control::default() };
    send_rpc(&mut stream, &Rpc { control: Some(Box::new(control)), ..Rpc::default() }).await;
    our.counted("the PRUNE", |metrics| metrics.exchange_dials == 1).await;
    raw
}

/// Accepts recommendations from any peer.
fn trusting() -> Config {
    let mut config = signed();
    config.thresholds.accept_px = 0.0;
    config
}

#[tokio::test]
async fn signed_addresses_of_recommended_peers_are_dialled() {
    let mut our = ours(trusting(), options()).await;
    our.subscribe("t");
    let node = ours(signed(), options()).await;
    node.subscribe("t");
    let own = node.key.clone().expect("one of our nodes");
    let _raw = recommend(&mut our, &node, &own).await;
    our.joined(node.peer).await;
}

#[tokio::test]
async fn addresses_signed_by_another_peer_are_not_dialled() {
    let mut our = ours(trusting(), options()).await;
    our.subscribe("t");
    let mut node = ours(signed(), options()).await;
    node.subscribe("t");
    let _raw = recommend(&mut our, &node, &Keypair::generate_ed25519()).await;
    // The dial without an address fails and leaves no state.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while our.with(|behaviour| behaviour.engine().sizes().dialling).await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the dial never ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(our.with(|behaviour| behaviour.sizes().recommended).await, 0);
    assert!(node.observed_so_far().is_empty(), "the node was dialled");
}

/// A full hub passes on the record of one neighbour to another, which dials it.
#[tokio::test]
async fn a_full_node_passes_on_records() {
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
    let envelope = record(&first, first.key.as_ref().expect("one of our nodes"));
    assert!(hub.with(move |behaviour| behaviour.set_signed_record(&envelope)).await);
    // The mesh is full, so a PRUNE that names the first node answers the GRAFT.
    second.subscribe("t");
    second.dial(&hub);
    second.joined(first.peer).await;
}

#[tokio::test]
async fn repeatedly_closed_streams_are_reported_and_end_the_connection() {
    let mut our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::Dropped, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    send_rpc(&mut stream, &joins("t")).await;
    let peer = raw.peer;
    let (mut cut, mut gone) = (0, false);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !gone {
        // More than a stream accepts while the peer reads nothing.
        for _ in 0..20 {
            our.publish("t", &[7; 32 << 10]);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        for observed in our.observed_so_far() {
            match observed {
                Observed::Cut(who, copies) if who == peer => cut += copies,
                Observed::Gone(who) if who == peer => gone = true,
                _ => {}
            }
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the connection is still open; {cut} copies were cut"
        );
    }
    assert!(cut >= 1, "lost copies were not reported");
    assert_eq!(raw.accepted(), 5, "streams were opened");
    let left = our.with(|behaviour| behaviour.sizes()).await;
    assert_eq!((left.peers, left.connections, left.in_flight_bytes), (0, 0, 0), "{left:?}");
}

/// The announcement was written but never read. The next stream repeats it.
#[tokio::test]
async fn announcements_lost_with_a_stream_are_repeated() {
    let our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::FirstClosed, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    send_rpc(&mut stream, &joins("t")).await;
    our.mesh_of("t", 1).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let announces = |rpc: &Rpc| {
        let graft = rpc.control.as_ref().is_some_and(|control| control.graft.contains(&Topic::new("t")));
        (rpc.subscriptions.iter().any(|change| change.subscribe && change.topic.as_str() == "t"), graft)
    };
    loop {
        // No frame is written meanwhile: the node must notice the closed stream without one.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let received = raw.received();
        if received.iter().any(|rpc| announces(rpc).0) && received.iter().any(|rpc| announces(rpc).1) {
            break;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the announcement is not repeated; received {} frames",
            received.len()
        );
    }
    assert_eq!(raw.accepted(), 2);
}
