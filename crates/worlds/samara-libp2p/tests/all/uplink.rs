//! The limit over all links on real sockets: our transports beside libp2p's.

use std::time::Duration;

use samara_engine::outbox::Dispatch;
use samara_engine::uplink::LimitConfig;
use samara_gossipsub::Config;
use samara_libp2p::transport::Meters;
use samara_libp2p::{Options, Uplink};
use tokio::time::Instant;

use crate::common::*;
use crate::raw::*;

const BYTES: usize = 16 << 10;

/// The transports whose connections report what they know. TCP does so on Linux.
const METERED: &[Transport] =
    if cfg!(target_os = "linux") { &[Transport::Tcp, Transport::Quic] } else { &[Transport::Quic] };

fn one_order() -> Config {
    let mut config = signed();
    config.sending.dispatch = Dispatch::Node;
    config
}

async fn uplink(node: &Node) -> Uplink {
    node.with(|behaviour| behaviour.uplink()).await.expect("the limit is on")
}

/// Waits for a state of the limit.
async fn until(node: &Node, what: &str, wanted: impl Fn(&Uplink) -> bool) -> Uplink {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let uplink = uplink(node).await;
        if wanted(&uplink) {
            return uplink;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}: {uplink:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends so many messages, and waits for all of them.
async fn send(from: &Node, to: &mut Node, count: u8) {
    for number in 0..count {
        from.publish("t", &[number; BYTES]);
    }
    let mut arrived: Vec<u8> = Vec::new();
    for _ in 0..count {
        arrived.push(to.message().await.1[0]);
    }
    arrived.sort_unstable();
    assert_eq!(arrived, (0..count).collect::<Vec<u8>>());
}

#[tokio::test]
async fn both_ends_of_a_connection_report_acknowledgements_and_round_trips() {
    for transport in METERED {
        both_ends_report(*transport).await;
    }
}

async fn both_ends_report(transport: Transport) {
    let meters = [Meters::new(), Meters::new()];
    // So small that a slow machine uses it, too: a limit that is not used learns no rate.
    let first = 32 << 10;
    let uplink = Some(LimitConfig { first, ..LimitConfig::default() });
    let with = |at: usize| Options { meters: meters[at].clone(), uplink, ..options() };
    let mut our = ours_over(transport, one_order(), with(0)).await;
    let mut other = ours_over(transport, one_order(), with(1)).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    assert_eq!(meters.each_ref().map(Meters::len), [1, 1]);
    rate_is_learned(&our, &mut other, first).await;
    rate_is_learned(&other, &mut our, first).await;
    let peer = other.peer;
    let weight = our
        .with(move |behaviour| {
            let handle = behaviour.handle(&peer).expect("a link");
            behaviour.weight(handle, samara_engine::outbox::Weight::Latency)
        })
        .await;
    assert!(weight > 2.0, "less than half a second on loopback: {weight}");
    our.disconnect(&other);
    other.next("the end of the link", |seen| matches!(seen, Observed::Gone(_)).then_some(())).await;
    our.next("the end of the link", |seen| matches!(seen, Observed::Gone(_)).then_some(())).await;
    let deadline = Instant::now() + PATIENCE;
    while !meters.iter().all(Meters::is_empty) {
        assert!(Instant::now() < deadline, "{meters:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends until the limit of the sender is larger than at first, since nothing is scarce.
async fn rate_is_learned(from: &Node, to: &mut Node, first: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        send(from, to, 100).await;
        let uplink = until(from, "all bytes to arrive", |uplink| uplink.under_way_bytes == 0).await;
        assert_eq!((uplink.metered_links, uplink.other_links), (1, 0), "{uplink:?}");
        if uplink.bytes_per_second > 0.0 && uplink.limit_bytes > 2 * first {
            return;
        }
        assert!(Instant::now() < deadline, "{uplink:?}");
    }
}

/// The other node runs rust-libp2p's gossipsub over libp2p's own transport.
#[tokio::test]
async fn the_transports_are_compatible_with_libp2p() {
    let cases = METERED.iter().flat_map(|transport| [(transport, Dial::Ours), (transport, Dial::Theirs)]);
    for (transport, dial) in cases {
        let mut our = ours_over(*transport, one_order(), options()).await;
        let config = theirs_config().build().expect("the configuration");
        let mut their = theirs_over(*transport, config, true).await;
        meet(&mut our, &mut their, "t", dial).await;
        send(&our, &mut their, 50).await;
        send(&their, &mut our, 50).await;
        let uplink = until(&our, "all bytes to arrive", |uplink| uplink.under_way_bytes == 0).await;
        assert_eq!((uplink.metered_links, uplink.other_links), (1, 0), "{transport:?} {dial:?}: {uplink:?}");
    }
}

#[tokio::test]
async fn a_foreign_transport_works_without_the_limit() {
    for transport in [Transport::ForeignTcp, Transport::ForeignQuic] {
        let mut our = ours_over(transport, one_order(), options()).await;
        let mut other = ours_over(transport, one_order(), options()).await;
        meet(&mut our, &mut other, "t", Dial::Ours).await;
        send(&our, &mut other, 100).await;
        let uplink = uplink(&our).await;
        assert_eq!((uplink.metered_links, uplink.other_links), (0, 1), "{transport:?}: {uplink:?}");
        assert_eq!(uplink.under_way_bytes, 0);
    }
}

/// The time until another announcer of a message is asked.
#[cfg(target_os = "linux")]
mod announcers {
    use libp2p::identity::Keypair;
    use samara_gossipsub::config::Spread;
    use samara_gossipsub::rpc::{Control, IHave, MessageId, Rpc, Topic};

    use super::*;

    /// Announces a message over two peers that do not answer. Returns the time after which the node asks
    /// the second one.
    async fn asks_another_after(transport: Transport) -> Duration {
        let config = Config { spread: Some(Spread::default()), ..signed() };
        // Round trips are measured without the limit, too.
        let our = ours_over(transport, config, Options { uplink: None, ..options() }).await;
        our.subscribe("t");
        let wanted = MessageId::new(b"nobody has it");
        let mut links = Vec::new();
        for _ in 0..2 {
            let mut raw = Raw::with(&our, Streams::Read, Keypair::generate_ed25519());
            let mut stream = raw.stream(&our).await;
            send_rpc(&mut stream, &joins("t")).await;
            links.push((raw, stream));
        }
        our.mesh_of("t", 2).await;
        let ihave = vec![IHave { topic: Topic::new("t"), ids: vec![wanted.clone()] }];
        let control = Some(Box::new(Control { ihave, ..Control::default() }));
        let announcement = Rpc { control, ..Rpc::default() };
        let mut asked_at = Vec::new();
        for (raw, stream) in &mut links {
            send_rpc(stream, &announcement).await;
            // The node asks the first one at once.
            if asked_at.is_empty() {
                asked_at.push(asked(raw, &wanted).await);
            }
        }
        asked_at.push(asked(&links[1].0, &wanted).await);
        asked_at[1].duration_since(asked_at[0])
    }

    /// Waits until a peer has a request for a message. Returns the time.
    async fn asked(raw: &Raw, wanted: &MessageId) -> Instant {
        let asks = |rpc: &Rpc| rpc.control.as_ref().is_some_and(|control| control.iwant.contains(wanted));
        let deadline = Instant::now() + PATIENCE;
        while !raw.received().iter().any(asks) {
            assert!(Instant::now() < deadline, "no request");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Instant::now()
    }

    /// The default waits 150 ms and a round trip, which counts as 1 s while it is unknown.
    #[tokio::test]
    async fn another_announcer_is_asked_after_a_measured_round_trip() {
        let [measured, unknown] =
            [asks_another_after(Transport::Tcp).await, asks_another_after(Transport::ForeignTcp).await];
        assert!(measured < Duration::from_millis(700), "{measured:?}");
        assert!(unknown > Duration::from_millis(1_100), "{unknown:?}");
    }
}

/// The peer keeps its streams unread. Another one gets everything meanwhile.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_peer_that_does_not_read_holds_only_its_own_copies_back() {
    let mut our = ours(one_order(), options()).await;
    let mut other = ours(one_order(), options()).await;
    let mut raw = Raw::with(&our, Streams::Kept, libp2p::identity::Keypair::generate_ed25519());
    let mut stream = raw.stream(&our).await;
    send_rpc(&mut stream, &joins("t")).await;
    meet(&mut our, &mut other, "t", Dial::Ours).await;
    our.mesh_of("t", 2).await;
    send(&our, &mut other, 250).await;
    let (pending, sizes) = our.with(|behaviour| (behaviour.pending(), behaviour.sizes())).await;
    assert!(pending > 100, "{pending} copies wait in the outbox; {sizes:?}");
    assert!(sizes.in_flight_bytes < 2 << 20, "{sizes:?}");
    send(&our, &mut other, 100).await;
}
