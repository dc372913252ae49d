use std::future::poll_fn;
use std::time::Instant;

use futures::{AsyncReadExt, AsyncWrite as _, AsyncWriteExt};
use libp2p::core::Transport as _;
use libp2p::core::muxing::StreamMuxerExt;
use tokio::time::timeout;

use super::*;
use crate::transport::{Meter, Reading};

/// Timeout of every wait. A correct test never takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Node {
    transport: Transport,
    meters: Meters,
    peer: PeerId,
}

fn node(config: Config) -> Node {
    node_of(&Keypair::generate_ed25519(), config)
}

fn node_of(key: &Keypair, config: Config) -> Node {
    let meters = Meters::new();
    let transport = Transport::new(config, key, &meters).unwrap();
    Node { transport, meters, peer: key.public().to_peer_id() }
}

fn dial_options(port_use: PortUse) -> DialOpts {
    DialOpts { role: Role::Dialer, port_use }
}

fn with_peer(address: &Multiaddr, peer: PeerId) -> Multiaddr {
    address.clone().with(Protocol::P2p(peer))
}

impl Node {
    async fn next(&mut self) -> TransportEvent<Handshake, Error> {
        let event = poll_fn(|cx| Pin::new(&mut self.transport).poll(cx));
        timeout(PATIENCE, event).await.expect("an event")
    }

    /// Listens, and returns the first address.
    async fn listen(&mut self, address: &str) -> (ListenerId, Multiaddr) {
        let id = ListenerId::next();
        self.transport.listen_on(id, address.parse().unwrap()).unwrap();
        match self.next().await {
            TransportEvent::NewAddress { listener_id, listen_addr } if listener_id == id => (id, listen_addr),
            event => panic!("{event:?}"),
        }
    }

    fn dial(&mut self, address: Multiaddr) -> Handshake {
        self.transport.dial(address, dial_options(PortUse::Reuse)).unwrap()
    }

    async fn upgrade(&mut self) -> Handshake {
        match self.next().await {
            TransportEvent::Incoming { upgrade, .. } => upgrade,
            event => panic!("{event:?}"),
        }
    }

    /// Connects to a node that listens at this address. Returns both ends.
    async fn connect(&mut self, other: &mut Self, address: &Multiaddr) -> (Connection, Connection) {
        let dial = self.dial(with_peer(address, other.peer));
        let ((found, ours), (dialler, theirs)) =
            futures::try_join!(dial, async { other.upgrade().await.await }).unwrap();
        assert_eq!((found, dialler), (other.peer, self.peer));
        (ours, theirs)
    }
}

/// Opens a stream with one byte, which the peer has to see first.
async fn open(ours: &mut Connection, theirs: &mut Connection) -> (Stream, Stream) {
    let mut stream = poll_fn(|cx| ours.poll_outbound_unpin(cx)).await.unwrap();
    stream.write_all(&[7]).await.unwrap();
    let mut other = poll_fn(|cx| theirs.poll_inbound_unpin(cx)).await.unwrap();
    other.read_exact(&mut [0]).await.unwrap();
    (stream, other)
}

async fn transfer(from: &mut Stream, to: &mut Stream, bytes: usize) {
    let data = vec![5; bytes];
    let mut received = vec![0; bytes];
    let (sent, arrived) = futures::join!(from.write_all(&data), to.read_exact(&mut received));
    sent.unwrap();
    arrived.unwrap();
    assert!(data == received);
}

async fn until(meter: &Flow, what: &str, wanted: impl Fn(&Reading) -> bool) -> Reading {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reading = meter.read().unwrap();
        if wanted(&reading) {
            return reading;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}: {reading:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_meter_counts_what_arrives_and_its_round_trips() {
    let (mut our, mut other) = (node(Config::default()), node(Config::default()));
    for any in ["/ip4/127.0.0.1/udp/0/quic-v1", "/ip6/::1/udp/0/quic-v1"] {
        let (_, address) = other.listen(any).await;
        let (mut ours, mut theirs) = our.connect(&mut other, &address).await;
        assert_eq!((our.meters.len(), other.meters.len()), (1, 1));
        let meter = Arc::clone(ours.flow());
        let before = meter.read().unwrap();
        assert!(before.round_trip_min > Duration::ZERO, "{before:?}");
        assert!(before.round_trip_min < Duration::from_millis(300), "the first estimate: {before:?}");

        let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
        let mut written = 1;
        for bytes in [100, 16 << 10, 1 << 20, 8 << 20] {
            transfer(&mut stream, &mut other_end, bytes).await;
            written += bytes as u64;
            let idle = until(&meter, "all bytes to arrive", |reading| {
                reading.acknowledged >= written && reading.under_way == 0
            });
            let reading = idle.await;
            assert_eq!((reading.written, reading.unsent), (written, 0), "{reading:?}");
            // Headers, the handshake, and packets that were sent again.
            assert!(reading.acknowledged < written + written / 4 + 10_000, "{reading:?}");
            assert!(reading.round_trip_min <= reading.round_trip_mean, "{reading:?}");
            let trip = reading.round_trip;
            assert!(trip > Duration::ZERO && trip < Duration::from_secs(5), "{reading:?}");
        }
        let reading = meter.read().unwrap();
        assert_eq!(reading.round_trip, Duration::ZERO, "nothing since the last reading: {reading:?}");

        // The other direction has counters of its own, and receiving counts as nothing.
        let before = meter.read().unwrap();
        transfer(&mut other_end, &mut stream, 1 << 20).await;
        let their = until(theirs.flow(), "all bytes to arrive", |reading| reading.under_way == 0).await;
        assert_eq!(their.written, 1 << 20);
        let after = until(&meter, "the last acknowledgement", |reading| reading.under_way == 0).await;
        assert_eq!((after.written, after.unsent), (before.written, 0));
        drop((stream, other_end, ours, theirs));
        assert!(our.meters.is_empty() && other.meters.is_empty());
    }
}

/// A peer that reads nothing bounds what leaves, and the rest stays with the writer.
#[tokio::test]
async fn a_connection_holds_no_more_than_its_windows() {
    let (mut our, mut other) =
        (node(Config::default()), node(Config { stream_window: 50_000, ..Config::default() }));
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (mut ours, mut theirs) = our.connect(&mut other, &address).await;
    let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
    let data = vec![1; 100_000];
    let writing = timeout(Duration::from_millis(300), stream.write_all(&data)).await;
    assert!(writing.is_err(), "the peer has not read");
    let meter = Arc::clone(ours.flow());
    let reading = until(&meter, "all bytes to arrive", |reading| reading.under_way == 0).await;
    assert_eq!((reading.written, reading.unsent), (50_000, 0), "{reading:?}");
    other_end.read_exact(&mut vec![0; 49_999]).await.unwrap();
    transfer(&mut stream, &mut other_end, 1000).await;
}

#[tokio::test]
async fn a_full_window_leaves_little_unsent() {
    let (mut our, mut other) = (node(Config::default()), node(Config::default()));
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (mut ours, mut theirs) = our.connect(&mut other, &address).await;
    let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
    let meter = Arc::clone(ours.flow());
    let mut first = 0;
    // One poll: nothing can be acknowledged meanwhile.
    let data = vec![1; 10 << 20];
    poll_fn(|cx| {
        while let Poll::Ready(taken) = Pin::new(&mut stream).poll_write(cx, &data) {
            first += taken.unwrap() as u64;
        }
        Poll::Ready(())
    })
    .await;
    let window = meter.read().unwrap().window;
    assert!(first <= window + UNSENT_BYTES && first > window / 2, "{first} of {window}");
    other_end.read_exact(&mut vec![0; first as usize]).await.unwrap();
    until(&meter, "all bytes to arrive", |reading| reading.under_way == 0 && reading.unsent == 0).await;
}

#[tokio::test]
async fn a_wrong_peer_is_refused() {
    let (mut our, mut other) = (node(Config::default()), node(Config::default()));
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let expected = PeerId::random();
    let dial = our.dial(with_peer(&address, expected));
    let upgrade = async { other.upgrade().await.await };
    let (dialled, accepted) = futures::join!(dial, upgrade);
    match dialled {
        Err(Error::WrongPeer { expected: wanted, found }) => {
            assert_eq!((*wanted, *found), (expected, other.peer));
        }
        other => panic!("{other:?}"),
    }
    assert!(our.meters.is_empty());
    // The other end learns it from its connection.
    if let Ok((_, mut theirs)) = accepted {
        let end = timeout(PATIENCE, poll_fn(|cx| theirs.poll_inbound_unpin(cx))).await.unwrap();
        assert!(matches!(end, Err(Error::Connection(_))), "{end:?}");
    }
}

#[tokio::test]
async fn a_removed_listener_ends_and_its_connections_go_on() {
    let (mut our, mut other) = (node(Config::default()), node(Config::default()));
    let (id, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (mut ours, mut theirs) = our.connect(&mut other, &address).await;
    assert!(other.transport.remove_listener(id) && !other.transport.remove_listener(id));
    let event = other.next().await;
    assert!(
        matches!(event, TransportEvent::ListenerClosed { listener_id, reason: Ok(()) } if listener_id == id),
        "{event:?}"
    );
    let refused = timeout(PATIENCE, our.dial(address.clone())).await.unwrap();
    assert!(refused.is_err(), "{refused:?}");
    let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
    transfer(&mut stream, &mut other_end, 1000).await;
    // The port is free when the last connection has ended.
    poll_fn(|cx| theirs.poll_close_unpin(cx)).await.unwrap();
    drop((stream, other_end, ours, theirs));
    let deadline = Instant::now() + PATIENCE;
    while other.transport.listen_on(ListenerId::next(), address.clone()).is_err() {
        assert!(Instant::now() < deadline, "{address} is still in use");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_handshake_has_a_deadline_in_both_directions() {
    let config = Config { handshake_timeout: Duration::from_millis(200), ..Config::default() };
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut our = node(config.clone());
    let dialled = our.dial(multiaddr(silent.local_addr().unwrap())).await;
    assert!(
        matches!(dialled, Err(Error::Timeout(after)) if after == config.handshake_timeout),
        "{dialled:?}"
    );

    // The first packet of a client that stays silent after it.
    let mut first = [0; 2000];
    let (len, _) = silent.recv_from(&mut first).unwrap();
    let mut other = node(config);
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    silent.send_to(&first[..len], socket_of(&address).unwrap().0).unwrap();
    let accepted = timeout(PATIENCE, other.upgrade().await).await.unwrap();
    assert!(matches!(accepted, Err(Error::Timeout(_))), "{accepted:?}");
    assert_eq!(other.transport.handshakes.available_permits(), other.transport.handshakes_max);
}

#[tokio::test]
async fn handshakes_are_bounded_and_addresses_proved_before() {
    let (mut our, mut other) =
        (node(Config::default()), node(Config { handshakes_max: 2, ..Config::default() }));
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let dials: Vec<Handshake> = (0..3).map(|_| our.dial(address.clone())).collect();
    let dials = tokio::spawn(futures::future::join_all(dials));
    // Each holds its permit.
    let held = [other.upgrade().await, other.upgrade().await];
    let polled = timeout(Duration::from_millis(300), poll_fn(|cx| Pin::new(&mut other.transport).poll(cx)));
    assert!(polled.await.is_err(), "a third handshake");
    let accepted = futures::future::join_all(held).await;
    assert!(accepted.iter().all(Result::is_ok), "{accepted:?}");
    let refused = dials.await.unwrap().into_iter().filter(Result::is_err).count();
    assert_eq!(refused, 1);
    our.connect(&mut other, &address).await;
}

/// Both processes end without a word: the first by a crash, and its successor must tell the peer.
#[tokio::test]
async fn a_peer_returns_on_the_same_port_and_ends_its_old_connections() {
    let key = Keypair::generate_ed25519();
    let mut our = node(Config::default());
    let crashing =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first_key = key.clone();
    let (listening, address) = tokio::sync::oneshot::channel();
    let first = crashing.spawn(async move {
        let mut node = node_of(&first_key, Config::default());
        let (_, address) = node.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
        listening.send(address).unwrap();
        let connection = node.upgrade().await.await.unwrap();
        (node, connection)
    });
    let address = address.await.unwrap();
    let (peer, mut old) = our.dial(address.clone()).await.unwrap();
    assert_eq!(peer, key.public().to_peer_id());
    let first = first.await.unwrap();
    // Nothing drives the sockets of a runtime that has ended, so no end of the connection is sent.
    tokio::task::spawn_blocking(|| drop(crashing)).await.unwrap();
    drop(first);

    let mut second = node_of(&key, Config::default());
    let deadline = Instant::now() + PATIENCE;
    let id = ListenerId::next();
    while second.transport.listen_on(id, address.clone()).is_err() {
        assert!(Instant::now() < deadline, "{address} is still in use");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    second.next().await;
    let start = Instant::now();
    let (mut ours, mut theirs) = our.connect(&mut second, &address).await;
    let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
    transfer(&mut stream, &mut other_end, 1000).await;
    // A stream on the old connection finds its peer gone long before the idle timeout.
    // It may have found it already.
    if let Ok(mut lost) = poll_fn(|cx| old.poll_outbound_unpin(cx)).await {
        let _ = lost.write_all(&[1; 100]).await;
    }
    let end = timeout(PATIENCE, poll_fn(|cx| old.poll_inbound_unpin(cx))).await.unwrap();
    assert!(matches!(end, Err(Error::Connection(quinn::ConnectionError::Reset))), "{end:?}");
    assert!(start.elapsed() < Config::default().idle_timeout, "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_unspecified_address_reports_those_of_the_interfaces() {
    for (any, loopback) in [("/ip4/0.0.0.0/udp/0/quic-v1", "127.0.0.1"), ("/ip6/::/udp/0/quic-v1", "::1")] {
        let mut other = node(Config::default());
        let (_, mut address) = other.listen(any).await;
        let loopback: IpAddr = loopback.parse().unwrap();
        while socket_of(&address).unwrap().0.ip() != loopback {
            match other.next().await {
                TransportEvent::NewAddress { listen_addr, .. } => address = listen_addr,
                event => panic!("{event:?}"),
            }
        }
        // The listener's own socket dials, so the peer sees an address that it can dial.
        let mut our = node(Config::default());
        let (_, back) = our.listen(any).await;
        let port = socket_of(&back).unwrap().0.port();
        let dial = our.dial(with_peer(&address, other.peer));
        let upgrade = async {
            loop {
                match other.next().await {
                    TransportEvent::Incoming { upgrade, local_addr, send_back_addr, .. } => {
                        upgrade.await.unwrap();
                        return (local_addr, send_back_addr);
                    }
                    TransportEvent::NewAddress { .. } => {}
                    event => panic!("{event:?}"),
                }
            }
        };
        let (dialled, (local, from)) = futures::join!(dial, upgrade);
        dialled.unwrap();
        assert_eq!(local, address);
        assert_eq!(socket_of(&from).unwrap().0, SocketAddr::new(loopback, port));
    }
}

#[tokio::test]
async fn other_addresses_belong_to_other_transports() {
    let mut our = node(Config::default());
    for address in [
        "/ip4/127.0.0.1/tcp/1",
        "/ip4/127.0.0.1/udp/1",
        "/ip4/127.0.0.1/udp/1/quic",
        "/ip4/127.0.0.1/udp/1/quic-v1/webtransport",
        "/dns4/example.org/udp/1/quic-v1",
    ] {
        let address: Multiaddr = address.parse().unwrap();
        let listened = our.transport.listen_on(ListenerId::next(), address.clone());
        assert!(matches!(listened, Err(TransportError::MultiaddrNotSupported(_))), "{address}");
        let dialled = our.transport.dial(address.clone(), dial_options(PortUse::Reuse)).err();
        assert!(matches!(dialled, Some(TransportError::MultiaddrNotSupported(_))), "{address}");
    }
    for address in ["/ip4/0.0.0.0/udp/1/quic-v1", "/ip4/127.0.0.1/udp/0/quic-v1"] {
        let dialled = our.transport.dial(address.parse().unwrap(), dial_options(PortUse::New)).err();
        assert!(matches!(dialled, Some(TransportError::MultiaddrNotSupported(_))), "{address}");
    }
    let as_listener = DialOpts { role: Role::Listener, port_use: PortUse::Reuse };
    let punched = our.transport.dial("/ip4/127.0.0.1/udp/1/quic-v1".parse().unwrap(), as_listener).err();
    assert!(matches!(punched, Some(TransportError::Other(Error::HolePunch))), "{punched:?}");
}

/// A node with a limit hands a link what its window lets out, and never more.
#[tokio::test]
async fn a_window_that_is_never_full_grows_while_it_is_used() {
    let (mut our, mut other) = (node(Config::default()), node(Config::default()));
    let (_, address) = other.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (mut ours, mut theirs) = our.connect(&mut other, &address).await;
    let (mut stream, mut other_end) = open(&mut ours, &mut theirs).await;
    let meter = Arc::clone(ours.flow());
    let first = meter.read().unwrap().window;
    for _ in 0..40 {
        let window = until(&meter, "an idle connection", |reading| reading.under_way == 0).await.window;
        transfer(&mut stream, &mut other_end, window as usize * 3 / 4).await;
    }
    let used = until(&meter, "an idle connection", |reading| reading.under_way == 0).await.window;
    assert!(used > 4 * first, "{used} after {first}");
    for _ in 0..40 {
        transfer(&mut stream, &mut other_end, 1_000).await;
        until(&meter, "an idle connection", |reading| reading.under_way == 0).await;
    }
    let idle = meter.read().unwrap().window;
    assert!(idle < used + used / 4, "{idle} after {used}");
}
