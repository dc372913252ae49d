//! Schedules whose order follows events on real sockets: confirmations, announcements, and what
//! transports measure.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, Stream};
use samara_engine::outbox::{Dispatch, FeedbackSource, MessageOrder, PeerOrder, Schedule, Weight};
use samara_gossipsub::Config;
use samara_gossipsub::rpc::{Control, MessageId, Rpc, Topic};
use samara_libp2p::{Options, PublishError, ScheduleError, identity_of};
use tokio::net::UdpSocket;
use tokio::time::Instant;

use crate::common::*;
use crate::raw::*;

/// Returns a configuration without copies that no batch owes.
fn quiet() -> Config {
    let mut config = anonymous();
    config.idontwant.send = false;
    (config.mesh.d_lazy, config.mesh.gossip_factor) = (0, 0.0);
    config
}

/// Starts a peer that has joined the topic.
async fn joined(our: &Node, streams: Streams) -> (Raw, Stream) {
    let mut raw = Raw::with(our, streams, libp2p::identity::Keypair::generate_ed25519());
    let mut stream = raw.stream(our).await;
    send_rpc(&mut stream, &joins("t")).await;
    (raw, stream)
}

/// Publishes messages of this length. Returns their ids.
async fn publish(our: &Node, count: u8, len: usize, schedule: Schedule) -> Vec<MessageId> {
    let messages = (0..count).map(move |at| (Topic::new("t"), Bytes::from(vec![at; len])));
    let receipt = our.with(move |behaviour| behaviour.publish_batch(messages, &schedule)).await;
    receipt.expect("a known order").published().map(|receipt| receipt.id.clone()).collect()
}

fn has(ids: &[MessageId]) -> Rpc {
    let control = Some(Box::new(Control { idontwant: ids.to_vec(), ..Control::default() }));
    Rpc { control, ..Rpc::default() }
}

/// Returns the first byte of each message that a peer has read, in order.
fn read_by(raw: &Raw) -> Vec<u8> {
    let rpcs = raw.received();
    rpcs.iter().flat_map(|rpc| &rpc.publish).map(|message| message.data[0]).collect()
}

/// Waits until a peer has read so many messages.
async fn all_read(raw: &Raw, count: usize) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let read = read_by(raw);
        if read.len() >= count {
            return read;
        }
        assert!(Instant::now() < deadline, "{read:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until so many peers have a copy of the only message. Returns their places.
async fn copies(peers: &[(Raw, Stream)], count: usize) -> Vec<usize> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let with: Vec<usize> = (0..peers.len()).filter(|at| !read_by(&peers[*at].0).is_empty()).collect();
        assert!(with.len() <= count, "{with:?} have a copy; expected {count} of them");
        if with.len() == count {
            return with;
        }
        assert!(Instant::now() < deadline, "{with:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The next copy leaves when the peer confirms the last one, or after the timeout.
#[tokio::test]
async fn staggered_sends_one_copy_of_a_message_at_a_time() {
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let mut config = quiet();
        config.sending.dispatch = dispatch;
        let our = ours(config, options()).await;
        our.subscribe("t");
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(joined(&our, Streams::Read).await);
        }
        our.mesh_of("t", 3).await;
        let timeout = Duration::from_secs(3);
        let ids = publish(&our, 1, 20_000, Schedule::Staggered { timeout }).await;
        let first = copies(&peers, 1).await[0];
        tokio::time::sleep(Duration::from_millis(300)).await;
        copies(&peers, 1).await;
        // Somebody else has it: this confirms nothing.
        send_rpc(&mut peers[(first + 1) % 3].1, &has(&[MessageId::new(b"another message")])).await;
        let confirmed = Instant::now();
        send_rpc(&mut peers[first].1, &has(&ids)).await;
        copies(&peers, 2).await;
        assert!(confirmed.elapsed() < timeout, "the confirmation did not release the second copy");
        // The second peer stays silent.
        let left = Instant::now();
        copies(&peers, 3).await;
        assert!(left.elapsed() > timeout / 2, "{dispatch:?}: {:?}", left.elapsed());
    }
}

/// The messages of batches here, which do not fit into a stream that nobody reads.
const COUNT: u8 = 30;
const LEN: usize = 64 << 10;

fn feedback(source: FeedbackSource) -> Schedule {
    Schedule::Feedback { source, messages: MessageOrder::AsGiven, peers: PeerOrder::AsGiven }
}

/// Publishes to a peer that does not read yet. Meanwhile two peers announce four messages each, the
/// second of which is the observer. Returns the order in which the first peer gets the messages.
async fn order_after_announcements(source: FeedbackSource, dispatch: Dispatch) -> Vec<u8> {
    let mut config = quiet();
    config.sending.dispatch = dispatch;
    let our = ours(config, Options { in_flight_bytes: LEN, ..options() }).await;
    our.subscribe("t");
    let (reader, _kept) = joined(&our, Streams::Gated).await;
    our.mesh_of("t", 1).await;
    let mut others = Vec::new();
    for _ in 0..2 {
        let mut other = Raw::with(&our, Streams::Read, libp2p::identity::Keypair::generate_ed25519());
        let stream = other.stream(&our).await;
        others.push((other, stream));
    }
    let buddy = others[1].0.peer;
    our.with(move |behaviour| behaviour.set_observers([&buddy])).await;
    let deadline = Instant::now() + PATIENCE;
    while our.with(|behaviour| behaviour.engine().peers().len()).await < 3 {
        assert!(Instant::now() < deadline, "no links");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ids = publish(&our, COUNT, LEN, feedback(source)).await;
    send_rpc(&mut others[0].1, &has(&ids[16..20])).await;
    send_rpc(&mut others[1].1, &has(&ids[22..26])).await;
    our.counted("the announcements", |metrics| metrics.idontwant_ids_received == 8).await;
    let pending = our.with(|behaviour| behaviour.pending()).await;
    assert!(pending > 14, "{pending} copies wait; the others have left before the announcements");
    reader.begin_to_read();
    all_read(&reader, COUNT.into()).await
}

fn with_last(last: &[u8]) -> Vec<u8> {
    (0..COUNT).filter(|at| !last.contains(at)).chain(last.iter().copied()).collect()
}

#[tokio::test]
async fn feedback_defers_messages_that_peers_announced() {
    let source = FeedbackSource::Peers { cap: 4 };
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let order = order_after_announcements(source, dispatch).await;
        assert_eq!(order, with_last(&[16, 17, 18, 19, 22, 23, 24, 25]), "{dispatch:?}");
    }
}

#[tokio::test]
async fn only_announcements_of_the_observer_count() {
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let order = order_after_announcements(FeedbackSource::Observers, dispatch).await;
        assert_eq!(order, with_last(&[22, 23, 24, 25]), "{dispatch:?}");
    }
}

/// The observer reports every message, and gets none from the publisher.
#[tokio::test]
async fn an_observer_hears_of_messages_from_others_and_reports_them() {
    let mut our = ours(quiet(), options()).await;
    let config = Config { report_to: vec![identity_of(&our.peer)], ..quiet() };
    let mut buddy = ours(config, options()).await;
    let mut other = ours(quiet(), options()).await;
    let name = buddy.peer;
    our.with(move |behaviour| behaviour.set_observers([&name])).await;
    let unobserved = our.with(|behaviour| {
        let batch = [(Topic::new("t"), Bytes::from_static(b"too early"))];
        behaviour.publish_batch(batch, &feedback(FeedbackSource::Observers))
    });
    let error = unobserved.await.expect_err("no observer is connected");
    assert_eq!(error, ScheduleError::NotObserved { configured: 1 });
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    meet(&mut other, &mut buddy, "t", Dial::Ours).await;
    our.dial(&buddy);
    our.joined(buddy.peer).await;
    // A peer without the observer's role would be in the mesh by now.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(our.look("t").await.0, 1);
    publish(&our, 5, 100, feedback(FeedbackSource::Observers)).await;
    for _ in 0..5 {
        buddy.message().await;
    }
    let metrics = our.counted("the reports", |metrics| metrics.idontwant_ids_received >= 5).await;
    assert_eq!(metrics.unobserved_messages, 0);
    assert!(
        our.observed_so_far().iter().all(|seen| !matches!(seen, Observed::Sent(peer, _) if *peer == name))
    );

    our.disconnect(&buddy);
    our.next("the end of the link", |seen| matches!(seen, Observed::Gone(_)).then_some(())).await;
    let unobserved = our.with(|behaviour| {
        let batch = [(Topic::new("t"), Bytes::from_static(b"too late"))];
        behaviour.publish_batch(batch, &feedback(FeedbackSource::Observers))
    });
    assert!(unobserved.await.is_err());
    assert_eq!(our.metrics().await.messages_published, 5, "an error publishes nothing");
}

const fn weighted(weight: Weight) -> Schedule {
    Schedule::Interleaved { messages: MessageOrder::AsGiven, peers: PeerOrder::Weighted(weight) }
}

/// Carries packets of a peer to a node and back, each of them for this time. Returns the address to
/// dial.
async fn detour(node: &Node, delay: Duration) -> Multiaddr {
    let Some(Protocol::Udp(port)) = node.address.iter().nth(1) else { panic!("no address of UDP") };
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
    far.connect(("127.0.0.1", port)).await.expect("loopback");
    let at = near.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut outbound, mut inbound, mut peer) = (vec![0; 1 << 16], vec![0; 1 << 16], None);
        loop {
            tokio::select! {
                Ok((len, from)) = near.recv_from(&mut outbound) => {
                    peer = Some(from);
                    let (packet, far) = (outbound[..len].to_vec(), Arc::clone(&far));
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = far.send(&packet).await;
                    });
                }
                Ok(len) = far.recv(&mut inbound) => if let Some(peer) = peer {
                    let (packet, near) = (inbound[..len].to_vec(), Arc::clone(&near));
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = near.send_to(&packet, peer).await;
                    });
                }
            }
        }
    });
    format!("/ip4/127.0.0.1/udp/{at}/quic-v1/p2p/{}", node.peer).parse().expect("an address")
}

/// The share of first copies that goes to the near peer is that of its weight, which a busy machine
/// makes smaller.
#[tokio::test]
async fn weighted_orders_follow_measured_round_trips_and_rates() {
    let config = Config { sending: one_order().sending, ..quiet() };
    let mut our = ours_over(Transport::Quic, config, options()).await;
    our.subscribe("t");
    let mut peers = Vec::new();
    for delay in [5, 400] {
        let peer = ours_over(Transport::Quic, quiet(), options()).await;
        peer.subscribe("t");
        peer.send(Command::Dial(detour(&our, Duration::from_millis(delay)).await));
        our.joined(peer.peer).await;
        peer.mesh_of("t", 1).await;
        peers.push(peer);
    }
    our.mesh_of("t", 2).await;
    let (near, names) = (peers[0].peer, [peers[0].peer, peers[1].peer]);
    for (at, weight) in [Weight::Latency, Weight::Bandwidth].into_iter().enumerate() {
        let messages: Vec<(Topic, Bytes)> =
            (0..60).map(|number| (Topic::new("t"), Bytes::from(vec![at as u8, number]))).collect();
        let published = our.with(move |behaviour| {
            let receipt = behaviour.publish_batch(messages, &weighted(weight)).expect("a known order");
            let handles = names.map(|peer| behaviour.handle(&peer).expect("a link"));
            (receipt.copies(), handles.map(|handle| behaviour.weight(handle, weight)))
        });
        let (copies, weights) = published.await;
        assert_eq!(copies, 120);
        assert!(weights[0] > 2.0 * weights[1], "{weight:?}: {weights:?}");
        let share = weights[0] / (weights[0] + weights[1]);
        let mut first = Vec::new();
        for _ in 0..120 {
            let (peer, rank) = our
                .next("a copy", |seen| match seen {
                    Observed::Sent(peer, rank) => Some((*peer, *rank)),
                    _ => None,
                })
                .await;
            first.extend((rank == 0).then_some(peer));
        }
        assert_eq!(first.len(), 60);
        let nearer = first.iter().filter(|peer| **peer == near).count();
        // Five standard deviations.
        let least = 60.0 * share - 5.0 * (60.0 * share * (1.0 - share)).sqrt();
        assert!(nearer > 30 && nearer as f64 >= least.floor(), "{nearer} of 60 by {weight:?}: {weights:?}");
    }
    assert_eq!(our.metrics().await.unweighed_copies, 0);
}

fn one_order() -> Config {
    let mut config = quiet();
    config.sending.dispatch = Dispatch::Node;
    config
}

/// A transport that measures nothing is an error, and neither a random nor a constant order.
#[tokio::test]
async fn weights_that_a_transport_does_not_measure_are_errors() {
    for transport in [Transport::ForeignTcp, Transport::ForeignQuic] {
        let config = Config { schedule_publish: weighted(Weight::Latency), ..quiet() };
        let mut our = ours_over(transport, config, options()).await;
        let mut other = ours_over(transport, quiet(), options()).await;
        meet(&mut our, &mut other, "t", Dial::Ours).await;
        for (weight, name) in [(Weight::Latency, "latency"), (Weight::Bandwidth, "bandwidth")] {
            let batch = [(Topic::new("t"), Bytes::from_static(b"a"))];
            let refused = our.with(move |behaviour| behaviour.publish_batch(batch, &weighted(weight))).await;
            let error = refused.expect_err("nothing measures the link");
            let expected =
                ScheduleError::NotMeasured { weight, peer: other.peer, address: other.full_address() };
            assert_eq!(error, expected);
            let text = error.to_string();
            for part in
                [name, &other.peer.to_string(), &other.address.to_string(), "samara_libp2p::transport"]
            {
                assert!(text.contains(part), "{part} is not in: {text}");
            }
        }
        let refused = our.with(|behaviour| behaviour.publish(Topic::new("t"), &b"a"[..])).await;
        assert!(matches!(refused, Err(PublishError::Schedule(_))), "{refused:?}");
        assert_eq!(our.metrics().await.messages_published, 0);
        // Other topics and other orders are no concern of this peer.
        let elsewhere = [(Topic::new("elsewhere"), Bytes::from_static(b"a"))];
        let receipt =
            our.with(move |behaviour| behaviour.publish_batch(elsewhere, &weighted(Weight::Latency)));
        assert_eq!(receipt.await.expect("nobody to weigh").copies(), 0);
        assert_eq!(publish(&our, 1, 10, weighted(Weight::Score)).await.len(), 1);
        other.message().await;
    }
}
