//! Peers that come back: restarts behind an open connection, further streams and connections, and
//! streams that end.

use std::time::Duration;

use libp2p::futures::AsyncWriteExt;
use libp2p::identity::Keypair;
use samara_gossipsub::Config;
use samara_gossipsub::Ignored;
use samara_gossipsub::rpc::{Control, Rpc, Topic};
use samara_gossipsub::score::PeerScoreParams;
use samara_libp2p::Options;

use crate::common::*;
use crate::hostile::{honest_traffic_goes_on, neighbours};
use crate::raw::*;

const V1_3: &str = "/meshsub/1.3.0";

fn scored(config: Config) -> Config {
    let score = PeerScoreParams { ip_colocation_weight: 0.0, ..PeerScoreParams::default() };
    Config { peer_score: Some(score), ..config }
}

/// Returns the first frame of a stream: a topic, a GRAFT and extensions.
fn hello(topic: &str) -> Rpc {
    let mut rpc = joins(topic);
    rpc.control.as_mut().expect("a GRAFT").extensions = Some(Vec::new().into());
    rpc
}

fn announces(rpc: &Rpc) -> bool {
    rpc.subscriptions.iter().any(|change| change.subscribe && change.topic.as_str() == "t")
        && rpc.control.as_ref().is_some_and(|control| control.extensions.is_some())
}

/// Waits for a condition.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn copies(raw: &Raw, of: &[u8]) -> usize {
    raw.received().iter().flat_map(|rpc| &rpc.publish).filter(|message| message.data[..] == *of).count()
}

async fn score(our: &Node, raw: &Raw) -> f64 {
    let peer = raw.peer;
    our.with(move |behaviour| {
        behaviour.handle(&peer).map_or(0.0, |handle| behaviour.engine().peer_score(handle))
    })
    .await
}

#[tokio::test]
async fn a_peer_that_restarts_behind_its_old_connection_hears_everything_on_the_new_one() {
    let our = ours(scored(signed()), options()).await;
    our.subscribe("t");
    let key = Keypair::generate_ed25519();
    let mut old = Raw::speaking(&our, V1_3, Streams::Read, key.clone());
    let mut stream = old.stream(&our).await;
    send_rpc(&mut stream, &hello("t")).await;
    our.mesh_of("t", 1).await;
    until("the first greeting", async || old.received().first().is_some_and(announces)).await;

    let mut new = Raw::speaking(&our, V1_3, Streams::Read, key);
    let mut second = new.stream(&our).await;
    send_rpc(&mut second, &hello("t")).await;
    until("the greeting of the new process", async || !new.received().is_empty()).await;
    let greeting = new.received().remove(0);
    assert!(announces(&greeting), "{greeting:?}");
    assert_eq!(greeting.control.expect("extensions").graft, [Topic::new("t")]);
    let before = old.received().len();
    our.publish("t", b"to the new process");
    until("a copy", async || copies(&new, b"to the new process") == 1).await;
    assert_eq!((old.received().len(), old.accepted(), new.accepted()), (before, 1, 1));
    assert_eq!(our.metrics().await.ignored(Ignored::ExtensionsAgain), 0);
    assert!(score(&our, &new).await >= 0.0);

    // The old connection ends: nothing changes.
    drop((stream, old));
    let sizes = async || our.with(|behaviour| behaviour.sizes()).await;
    until("the end of the old connection", async || sizes().await.connections == 1).await;
    our.publish("t", b"afterwards");
    until("a copy", async || copies(&new, b"afterwards") == 1).await;
    assert_eq!((new.accepted(), our.look("t").await.0), (1, 1));
}

/// Two connections of one process: whichever is used last carries the frames, and the other one
/// takes over when it ends.
#[tokio::test]
async fn two_connections_carry_each_message_once() {
    let our = ours(scored(signed()), options()).await;
    our.subscribe("t");
    let key = Keypair::generate_ed25519();
    let mut first = Raw::speaking(&our, V1_3, Streams::Read, key.clone());
    let mut stream = first.stream(&our).await;
    send_rpc(&mut stream, &hello("t")).await;
    our.mesh_of("t", 1).await;
    // The second one belongs to another protocol: nothing moves.
    let mut second = Raw::speaking(&our, V1_3, Streams::Read, key);
    until("two connections", async || our.with(|behaviour| behaviour.sizes().connections).await == 2).await;
    for number in 0..20_u8 {
        our.publish("t", &[1, number]);
    }
    until("all messages", async || copies(&first, &[1, 19]) == 1).await;
    assert_eq!(second.accepted(), 0);
    let mut other = second.stream(&our).await;
    send_rpc(&mut other, &hello("t")).await;
    until("the move", async || second.accepted() == 1).await;
    // Frames may arrive on either stream.
    send_rpc(&mut stream, &joins("u")).await;
    for number in 0..20_u8 {
        our.publish("t", &[2, number]);
    }
    let both = |message: [u8; 2]| copies(&first, &message) + copies(&second, &message);
    until("all messages", async || (0..20).all(|number| both([2, number]) > 0)).await;
    assert!((0..20).all(|number| both([2, number]) == 1), "a message has two copies");
    drop((other, second));
    until("the other connection", async || our.with(|behaviour| behaviour.sizes().connections).await == 1)
        .await;
    until("a second stream", async || first.accepted() == 2).await;
    our.publish("t", b"back");
    until("a copy", async || copies(&first, b"back") == 1).await;
    assert!(score(&our, &first).await >= 0.0);
}

#[tokio::test]
async fn a_peer_that_opens_its_stream_again_loses_no_score_and_is_heard() {
    let mut our = ours(scored(signed()), options()).await;
    our.subscribe("t");
    let mut raw = Raw::speaking(&our, V1_3, Streams::Read, Keypair::generate_ed25519());
    for number in 0..20_u8 {
        let mut stream = raw.stream(&our).await;
        send_rpc(&mut stream, &hello("t")).await;
        our.mesh_of("t", 1).await;
        let id = our.with(|behaviour| behaviour.engine().mesh_peers(&Topic::new("t")).len()).await;
        assert_eq!(id, 1, "stream {number}");
        let mut left = hello("t");
        left.control = None;
        left.subscriptions[0].subscribe = false;
        send_rpc(&mut stream, &left).await;
        our.next("its leaving", |observed| matches!(observed, Observed::Left(..)).then_some(())).await;
        assert_eq!(our.look("t").await.0, 0);
    }
    assert_eq!(our.metrics().await.ignored(Ignored::ExtensionsAgain), 0);
    assert!(score(&our, &raw).await >= 0.0);
    assert_eq!(our.with(|behaviour| behaviour.sizes().connections).await, 1);
}

/// The limit of streams on a connection ends it, so that both sides notice.
#[tokio::test]
async fn a_peer_that_opens_streams_without_end_loses_its_connection() {
    let mut our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::speaking(&our, V1_3, Streams::Read, Keypair::generate_ed25519());
    let mut streams = vec![raw.stream(&our).await];
    send_rpc(&mut streams[0], &hello("t")).await;
    our.mesh_of("t", 1).await;
    let (peer, target) = (raw.peer, our.peer);
    let gone = our.next("the end", |observed| (*observed == Observed::Gone(peer)).then_some(()));
    let flood = async {
        loop {
            match raw.try_stream(target).await {
                Some(stream) => streams.push(stream),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::select! {
        () = gone => {}
        () = flood => {}
    }
    assert_eq!(our.look("t").await.0, 0);
}

#[tokio::test]
async fn a_peer_that_cannot_be_heard_is_in_no_mesh() {
    let our = ours(scored(signed()), options()).await;
    our.subscribe("t");
    let mut raw = Raw::speaking(&our, V1_3, Streams::Read, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    send_rpc(&mut stream, &hello("t")).await;
    our.mesh_of("t", 1).await;
    // Half-closed: the peer still reads.
    stream.close().await.expect("closed");
    until("the mesh without it", async || our.look("t").await.0 == 0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(our.look("t").await.0, 0, "no heartbeat grafts it");
    let mut again = raw.stream(&our).await;
    send_rpc(&mut again, &Rpc { subscriptions: vec![subscribes("t")], ..Rpc::default() }).await;
    our.mesh_of("t", 1).await;
    assert!(score(&our, &raw).await >= 0.0);
}

/// Frames that were written before a stream ended are read, although the next stream is open.
#[tokio::test]
async fn the_last_frames_of_a_stream_are_read_beside_its_successor() {
    let mut our = ours(anonymous(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::speaking(&our, V1_3, Streams::Read, Keypair::generate_ed25519());
    for number in 0..10_u8 {
        let mut stream = raw.stream(&our).await;
        let message = samara_gossipsub::rpc::Message::new(Topic::new("t"), vec![number; 100_000].into());
        let rpc = Rpc { publish: [message.into()].into_iter().collect(), ..hello("t") };
        send_rpc(&mut stream, &rpc).await;
        stream.close().await.expect("closed");
    }
    for number in 0..10_u8 {
        assert_eq!(our.message().await.1, vec![number; 100_000]);
    }
}

#[tokio::test]
async fn graft_without_subscription_ends_with_unsubscribe() {
    let our = ours(signed(), options()).await;
    our.subscribe("t");
    let mut raw = Raw::with(&our, Streams::Read, Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    let graft = Control { graft: vec![Topic::new("t")], ..Control::default() };
    let graft = Rpc { control: Some(Box::new(graft)), ..Rpc::default() };
    let mut left = subscribes("t");
    left.subscribe = false;
    send_rpc(&mut stream, &graft).await;
    our.mesh_of("t", 1).await;
    send_rpc(&mut stream, &Rpc { subscriptions: vec![left.clone()], ..Rpc::default() }).await;
    until("the mesh without it", async || our.look("t").await.0 == 0).await;
    // Both in one RPC, in any order.
    send_rpc(&mut stream, &Rpc { subscriptions: vec![subscribes("t")], ..Rpc::default() }).await;
    send_rpc(&mut stream, &Rpc { subscriptions: vec![left], ..graft }).await;
    our.counted("the GRAFT", |metrics| metrics.ignored(Ignored::GraftUnsubscribed) == 1).await;
    assert_eq!(our.look("t").await.0, 0);
    our.publish("t", b"not for it");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(copies(&raw, b"not for it"), 0);
}

/// Frames that never end share a bound, and the oldest one makes room.
#[tokio::test]
async fn unfinished_frames_take_bounded_memory() {
    let bounded = Options { unfinished_bytes: 300 << 10, ..options() };
    let mut our = ours(signed(), bounded).await;
    let mut streams = Vec::new();
    for number in 0..6 {
        let mut raw = Raw::new(&our);
        let mut stream = raw.stream(&our).await;
        // A length of 200,000, and half of it.
        stream.write_all(&[0xc0, 0x9a, 0x0c]).await.expect("written");
        stream.write_all(&vec![0x12; 100_000]).await.expect("written");
        stream.flush().await.expect("written");
        streams.push((raw, stream));
        let held = async || our.with(|behaviour| behaviour.sizes().unfinished_bytes).await;
        if number == 0 {
            until("the first frame", async || held().await > 100_000).await;
        }
        assert!(held().await <= 300 << 10);
    }
    let first = streams[0].0.peer;
    our.next("the oldest", |observed| (*observed == Observed::Malformed(first)).then_some(())).await;
    let others = async || our.with(|behaviour| behaviour.sizes().unfinished_bytes).await;
    assert!(others().await <= 300 << 10);
    drop(streams);
    until("nothing left", async || others().await == 0).await;
    let (mut our, mut their) = neighbours().await;
    honest_traffic_goes_on(&mut our, &mut their, "after unfinished frames").await;
}
