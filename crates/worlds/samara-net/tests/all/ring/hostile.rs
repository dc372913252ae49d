//! Tests of connections that break the rules: the member closes them, counts the cause, and is
//! otherwise unaffected.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use samara_engine::PeerIdentity;
use samara_net::ring::{Group, Options};
use samara_ring::wire::{Heartbeat, encode};
use samara_ring::{RingFrame, ViewId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::ring::attacker::{Attacker, FIELDS, TERMS, closed, hung_up, wait_for_cause};
use crate::ring::common::{Node, PATIENCE, options, start};

/// A frame with its length in front.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes(), frame].concat()
}

/// Checks that all members still deliver a broadcast.
async fn still_works(nodes: &mut [Node]) {
    let before = nodes[0].delivered.len();
    nodes[0].group.broadcast("still").await.unwrap();
    for node in nodes {
        node.wait_for_messages(before + 1).await;
    }
}

/// Connects from the address 127.0.0.`host`.
async fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let from = TcpSocket::new_v4().unwrap();
    from.bind(SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    from.connect(to).await.unwrap()
}

/// A member says nothing but a nonce until the other side has proved that it knows the group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_tells_strangers_nothing() {
    let change = |_, options| Options { handshake_timeout: Duration::from_millis(500), ..options };
    let nodes = start(1, change).await;
    let target = nodes[0].group.clone();
    let address = target.address();
    let mut silent = TcpStream::connect(address).await.unwrap();
    assert_eq!(hung_up(&mut silent).await, b"");
    wait_for_cause(&target, "handshake_timeout", 1).await;

    let wrong = Attacker { group: "another", ..Attacker::new("127.0.0.9:1") };
    let mut nonces = Vec::new();
    for ends_early in [true, false] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&wrong.hello()).await.unwrap();
        let mut nonce = vec![0; 32];
        stream.read_exact(&mut nonce).await.unwrap();
        if !ends_early {
            stream.write_all(&wrong.rest(&nonce, address)).await.unwrap();
        }
        assert_eq!(hung_up(&mut stream).await, b"");
        nonces.push(nonce);
    }
    assert_ne!(nonces[0], nonces[1]);
    wait_for_cause(&target, "handshake_timeout", 2).await;
    wait_for_cause(&target, "other_group", 1).await;
}

/// A handshake that ends after any of its bytes is counted, and takes no room afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_handshakes_end_at_once() {
    let change = |_, options| Options { handshake_timeout: 10 * PATIENCE, max_pending: 2, ..options };
    let mut nodes = start(1, change).await;
    let target = nodes[0].group.clone();
    let attacker = Attacker::new("127.0.0.9:1");
    let (hello, whole) = (attacker.hello().len(), attacker.hello().len() + 16 + 2 + 11 + 15 + 32);
    for len in 0..whole {
        let mut stream = TcpStream::connect(target.address()).await.unwrap();
        stream.write_all(&attacker.hello()[..len.min(hello)]).await.unwrap();
        if len > hello {
            let mut nonce = [0; 32];
            stream.read_exact(&mut nonce).await.unwrap();
            let rest = attacker.rest(&nonce, target.address());
            stream.write_all(&rest[..len - hello]).await.unwrap();
        }
        stream.shutdown().await.unwrap();
        hung_up(&mut stream).await;
        wait_for_cause(&target, "handshake", len as u64 + 1).await;
    }
    still_works(&mut nodes).await;
}

/// A node that claims the name of a living member gets no link, whatever instance it names. The
/// link of the member carries on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_does_not_take_over_a_name() {
    let mut nodes = start(3, |_, options| options).await;
    let target = nodes[0].group.clone();
    let victim = nodes[2].group.address();
    let sending = crate::ring::common::send(&nodes[2].group, 2, 500, 1_000);
    // The victim has another instance for the target than the one that the stranger sees.
    let mut stream = TcpStream::connect(victim).await.unwrap();
    let seen = Attacker::new("127.0.0.9:1").greet(&mut stream, victim).await.unwrap();
    for (count, instance) in (1..).zip([seen, [0; 16], [1; 16], [2; 16]]) {
        Attacker { instance, ..Attacker::new(victim) }.attack(target.address(), b"").await;
        wait_for_cause(&target, "name_taken", count).await;
    }
    sending.await.unwrap();
    nodes[0].wait_for_messages(500).await;
    assert_eq!(closed(&target, "duplicate").await, 0);
    assert_eq!(target.view().unwrap().len(), 3);
    still_works(&mut nodes[..1]).await;
}

/// A member that restarts without a trace, as after a loss of power, gets its name back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_free_once_its_link_is_silent() {
    let quick = |_, mut options: Options| {
        options.config.detection.timeout_max = Duration::from_secs(1);
        Options { idle_timeout: 10 * PATIENCE, ..options }
    };
    let nodes = start(1, quick).await;
    let target = nodes[0].group.clone();
    let first = Attacker::new("127.0.0.9:1");
    let _first = first.dial(target.address()).await;
    let second = Attacker { instance: [8; 16], ..first.clone() };
    // The same instance replaces its link at once.
    let _again = first.dial(target.address()).await;
    wait_for_cause(&target, "duplicate", 1).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let mut stream = TcpStream::connect(target.address()).await.unwrap();
        second.greet(&mut stream, target.address()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if closed(&target, "duplicate").await == 2 {
            break;
        }
        assert!(Instant::now() < until, "{:?}", target.status().await);
    }
    assert!(closed(&target, "name_taken").await > 0);
}

/// A member on loopback dials no other address, whatever a stranger names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_on_loopback_dials_loopback_only() {
    let nodes = start(1, |_, options| options).await;
    let target = nodes[0].group.clone();
    let mut stream = Attacker::new("127.0.0.9:1").dial(target.address()).await;
    let heartbeat = Heartbeat {
        group: u64::from_le_bytes(group_number()),
        incarnation: 7,
        leader: Some(PeerIdentity::new(b"192.0.2.1:80")),
        view: Some(ViewId { counter: 1, proposer: 7 }),
        ..Heartbeat::default()
    };
    let mut frame = Vec::new();
    encode(&RingFrame::Heartbeat(heartbeat.into()), &mut frame);
    stream.write_all(&framed(&frame)).await.unwrap();
    wait_for_cause(&target, "no_address", 1).await;
    assert_eq!(closed(&target, "unreachable").await, 0);
}

/// The number of the group "test" in heartbeats.
fn group_number() -> [u8; 8] {
    use sha2::Digest;
    sha2::Sha256::digest(b"test")[..8].try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_rules_end_a_connection_with_a_counted_cause() {
    let change = |_, options| Options { handshake_timeout: Duration::from_millis(500), ..options };
    let mut nodes = start(3, change).await;
    let target = nodes[1].group.clone();
    let own = target.address();
    let stranger = |port: u16| Attacker::new(format!("127.0.0.9:{port}"));
    let cases: [(&str, Attacker, Vec<u8>); 13] = [
        ("handshake", Attacker { magic: *b"GET / HT", ..stranger(1) }, Vec::new()),
        ("handshake", Attacker { magic: *b"samring\x01", ..stranger(1) }, Vec::new()),
        ("handshake", Attacker { protection: FIELDS, ..stranger(1) }, Vec::new()),
        ("handshake", Attacker::new("nobody"), Vec::new()),
        ("handshake", Attacker::new("9".repeat(65)), Vec::new()),
        ("other_group", Attacker { group: "another", ..stranger(3) }, Vec::new()),
        ("other_group", Attacker { secret: b"a secret that nobody needs", ..stranger(3) }, Vec::new()),
        ("other_node", Attacker::new(own), Vec::new()),
        ("other_node", Attacker { meant: Some("127.0.0.9:2".to_owned()), ..stranger(1) }, Vec::new()),
        ("other_address", Attacker::new("192.0.2.9:1"), Vec::new()),
        ("frame_too_long", stranger(1), u32::MAX.to_le_bytes().to_vec()),
        ("malformed", stranger(4), framed(b"\x01\xff")),
        ("malformed", stranger(5), framed(b"")),
    ];
    let mut expected = std::collections::BTreeMap::new();
    for (cause, attacker, bytes) in cases {
        attacker.attack(own, &bytes).await;
        *expected.entry(cause).or_insert(0) += 1;
        wait_for_cause(&target, cause, expected[cause]).await;
        still_works(&mut nodes).await;
    }
    assert_eq!(target.view().unwrap().len(), 3);
    assert_eq!(target.status().await.unwrap().links, 2);
}

/// A node that is silent after its first message holds a link, but not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_closed() {
    let change = |_, options| Options { idle_timeout: Duration::from_secs(1), ..options };
    let mut nodes = start(2, change).await;
    Attacker::new("127.0.0.9:1").attack(nodes[0].group.address(), b"").await;
    wait_for_cause(&nodes[0].group, "idle", 1).await;
    still_works(&mut nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_do_not_end_are_bounded() {
    let change =
        |_, options| Options { max_pending: 4, handshake_timeout: Duration::from_secs(2), ..options };
    let mut nodes = start(2, change).await;
    let target = nodes[0].group.clone();
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(target.address()).await.unwrap());
    }
    // All but the last four have made room for others, and these end in time.
    wait_for_cause(&target, "evicted", 16).await;
    still_works(&mut nodes).await;
    wait_for_cause(&target, "handshake_timeout", 4).await;
}

/// However many hosts take all places for handshakes, others get one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_hosts_keep_nobody_out() {
    let change = |_, options| Options { handshake_timeout: 10 * PATIENCE, ..options };
    let mut nodes = start(1, change).await;
    let target = nodes[0].group.clone();
    let mut silent = Vec::new();
    for host in 2..5 {
        for _ in 0..32 {
            silent.push(connect_from(host, target.address()).await);
        }
    }
    wait_for_cause(&target, "evicted", 32).await;
    let seeds = [target.address()];
    let joined = timeout(PATIENCE, Group::join(options().with_seeds(seeds))).await.expect("joins in time");
    let _member = joined.unwrap();
    nodes[0].wait_for_view(2).await;
}

/// The engine ignores well-formed frames without meaning, and nothing else is affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_floods_does_no_harm() {
    let mut nodes = start(3, |_, options| options).await;
    let address = nodes[0].group.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert!(Attacker::new("127.0.0.9:1").greet(&mut stream, address).await.is_some());
    // Data of a view that never existed: version, kind, counter, proposer, no units, no
    // acknowledgements.
    let mut frame = vec![1, 2, 200, 1];
    frame.extend_from_slice(&[9; 8]);
    frame.extend_from_slice(&[0, 0]);
    let mut flood = Vec::new();
    for _ in 0..10_000 {
        flood.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        flood.extend_from_slice(&frame);
    }
    // The attacker must read the heartbeats that it receives.
    let (mut reader, mut writer) = stream.split();
    let mut sink = vec![0; 4096];
    tokio::select! {
        written = writer.write_all(&flood) => written.unwrap(),
        () = async { while reader.read(&mut sink).await.is_ok_and(|len| len > 0) {} } => panic!("hung up"),
    }
    still_works(&mut nodes).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let metrics = nodes[0].group.status().await.unwrap().ring;
        if metrics.ignored(samara_ring::Ignored::StaleView) >= 10_000 {
            break;
        }
        assert!(Instant::now() < until, "{metrics:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(nodes[0].group.view().unwrap().len(), 3);
}

/// Names are free. A node that has seen very many of them still accepts new members, and keeps its
/// own ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_names_do_not_keep_members_out() {
    let mut nodes = start(2, |_, options| options).await;
    let target = nodes[0].group.clone();
    let address = target.address();
    let strangers = (0..16).map(|stranger| {
        tokio::spawn(async move {
            for port in 1..=1_100 {
                // A frame without content, so that the member hangs up.
                Attacker::new(format!("127.0.{stranger}.9:{port}")).attack(address, &framed(b"")).await;
            }
        })
    });
    for stranger in strangers.collect::<Vec<_>>() {
        stranger.await.unwrap();
    }
    // More than the number of peers that the node can remember.
    wait_for_cause(&target, "malformed", 16 * 1_100).await;
    // Beside the last ones without a link, the member of the view, and strangers that had a link
    // at the same time.
    let remembered = target.status().await.unwrap().remembered;
    assert!((1_024..1_024 + 20).contains(&remembered), "{remembered} nodes are remembered");
    still_works(&mut nodes).await;
    let joined = timeout(PATIENCE, Group::join(options().with_seeds([address]))).await;
    let (group, events) = joined.expect("joins in time").expect("joins");
    nodes.push(Node::new(group, events));
    for node in &mut nodes {
        node.wait_for_view(3).await;
    }
    assert_eq!(target.status().await.unwrap().links, 2);
}

/// Strangers of one host take half of the places for links, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_host_does_not_take_all_links() {
    let few = |mut options: Options| {
        options.config.members_max = 4;
        // The silent strangers stay as long as the test may take.
        options.idle_timeout = 10 * PATIENCE;
        options
    };
    let nodes = start(1, |_, options| few(options)).await;
    let target = nodes[0].group.clone();
    let mut strangers = Vec::new();
    let stranger = |name: String| {
        let terms = TERMS.replace("256 members", "4 members");
        Attacker { terms, ..Attacker::new(name) }
    };
    for port in 1..=10 {
        strangers.push(stranger(format!("127.0.0.9:{port}")).dial(target.address()).await);
    }
    wait_for_cause(&target, "full", 6).await;
    assert_eq!(target.status().await.unwrap().links, 4);
    let mut other = connect_from(2, target.address()).await;
    assert!(stranger("127.0.0.2:1".to_owned()).greet(&mut other, target.address()).await.is_some());
    let until = Instant::now() + PATIENCE;
    while target.status().await.unwrap().links < 5 {
        assert!(Instant::now() < until, "{:?}", target.status().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// At most as many concurrent dials as there can be members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_dials_are_bounded() {
    let mut listeners = Vec::new();
    for host in 1..=20 {
        listeners.push(TcpListener::bind(format!("127.0.9.{host}:0")).await.unwrap());
    }
    let seeds: Vec<SocketAddr> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let mut options = Options { handshake_timeout: 10 * PATIENCE, ..options() }.with_seeds(seeds);
    options.config.members_max = 4;
    let (group, _events) = Group::join(options).await.unwrap();
    wait_for_cause(&group, "full", 16).await;
    let mut dialled = 0;
    for listener in &listeners {
        let accepted = timeout(Duration::from_millis(100), listener.accept()).await;
        dialled += usize::from(accepted.is_ok());
    }
    assert_eq!(dialled, 4);
}
