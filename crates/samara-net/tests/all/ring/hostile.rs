//! Tests of connections that break the rules: the member closes them, counts the cause, and is
//! otherwise unaffected.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use samara_net::ring::{Group, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::ring::common::{Node, PATIENCE, options, start};

/// The options that all members share, as members with the default ones write them.
const TERMS: &str = "fifo order, shape ring, chunks of 65536 B, batches of 65536 B, \
                     messages of up to 67108864 B, up to 256 members";

/// The first message of a member.
fn hello(group: &[u8], name: &str) -> Vec<u8> {
    hello_with(group, TERMS, name)
}

fn hello_with(group: &[u8], terms: &str, name: &str) -> Vec<u8> {
    let mut hello = b"samring\x02".to_vec();
    hello.extend_from_slice(group);
    for text in [terms, name] {
        hello.push(text.len() as u8);
        hello.extend_from_slice(text.as_bytes());
    }
    hello
}

/// The group on the wire, as members of "test" write it: the first 8 bytes of SHA-256 of its name.
fn group() -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(b"test")[..8].to_vec()
}

/// Writes these bytes, and waits until the other side hangs up.
async fn attack(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may hang up during the write.
    let _ = stream.write_all(bytes).await;
    let mut buffer = [0; 1024];
    let closed = async { while stream.read(&mut buffer).await.is_ok_and(|len| len > 0) {} };
    timeout(PATIENCE, closed).await.expect("the member hangs up");
}

async fn closed(group: &Group, cause: &str) -> u64 {
    let counters = group.status().await.unwrap().transport;
    counters.closed.get(cause).copied().unwrap_or(0)
}

async fn wait_for_cause(group: &Group, cause: &str, count: u64) {
    let until = Instant::now() + PATIENCE;
    while closed(group, cause).await < count {
        assert!(Instant::now() < until, "{cause}: {:?}", group.status().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that all members still deliver a broadcast.
async fn still_works(nodes: &mut [Node]) {
    let before = nodes[0].delivered.len();
    nodes[0].group.broadcast("still").await.unwrap();
    for node in nodes {
        node.wait_for_messages(before + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_rules_end_a_connection_with_a_counted_cause() {
    let change = |_, options| Options { handshake_timeout: Duration::from_millis(500), ..options };
    let mut nodes = start(3, change).await;
    let target = nodes[1].group.clone();
    let own = target.address();
    let name = |port: u16| format!("127.0.0.9:{port}");
    let framed = |port, frame: &[u8]| {
        let mut bytes = hello(&group(), &name(port));
        bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        bytes.extend_from_slice(frame);
        bytes
    };
    let mut endless = hello(&group(), &name(1));
    endless.extend_from_slice(&u32::MAX.to_le_bytes());
    let cases: [(&str, Vec<u8>); 12] = [
        ("handshake", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("handshake", hello(&group(), "nobody")),
        ("handshake", hello(&group(), &name(6)).iter().map(|byte| byte.max(&3)).copied().collect()),
        ("handshake", hello_with(&group(), &"x".repeat(201), &name(7))),
        ("other_options", hello_with(&group(), "total order", &name(8))),
        ("handshake", hello(&group(), &"9".repeat(65))),
        // The attacker sends half of its first message, then nothing.
        ("handshake_timeout", hello(&group(), &name(2))[..12].to_vec()),
        ("other_group", hello(&[7; 8], &name(3))),
        ("other_node", hello(&group(), &own.to_string())),
        ("frame_too_long", endless),
        ("malformed", framed(4, b"\x01\xff")),
        ("malformed", framed(5, b"")),
    ];
    let mut expected = std::collections::BTreeMap::new();
    for (cause, bytes) in cases {
        attack(own, &bytes).await;
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
    attack(nodes[0].group.address(), &hello(&group(), "127.0.0.9:1")).await;
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
    wait_for_cause(&target, "full", 16).await;
    still_works(&mut nodes).await;
    // Once those have ended, others are accepted.
    wait_for_cause(&target, "handshake_timeout", 4).await;
    let seeds = [target.address()];
    let joined = timeout(PATIENCE, Group::join(options().with_seeds(seeds))).await.expect("joins in time");
    let _member = joined.unwrap();
    nodes[0].wait_for_view(3).await;
}

/// The engine ignores well-formed frames without meaning, and nothing else is affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_floods_does_no_harm() {
    let mut nodes = start(3, |_, options| options).await;
    let address = nodes[0].group.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&hello(&group(), "127.0.0.9:1")).await.unwrap();
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
                let mut bytes = hello(&group(), &format!("127.0.{stranger}.9:{port}"));
                // A frame without content, so that the member hangs up.
                bytes.extend_from_slice(&[0; 4]);
                attack(address, &bytes).await;
            }
        })
    });
    for stranger in strangers.collect::<Vec<_>>() {
        stranger.await.unwrap();
    }
    // More than the number of peers that the node can remember.
    wait_for_cause(&target, "malformed", 16 * 1_100).await;
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
    for port in 1..=10 {
        let mut stream = TcpStream::connect(target.address()).await.unwrap();
        let terms = TERMS.replace("256", "4");
        let hello = hello_with(&group(), &terms, &format!("127.0.0.9:{port}"));
        stream.write_all(&hello).await.unwrap();
        strangers.push(stream);
    }
    wait_for_cause(&target, "full", 6).await;
    assert_eq!(target.status().await.unwrap().links, 4);
    let from = TcpSocket::new_v4().unwrap();
    from.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = from.connect(target.address()).await.unwrap();
    let terms = TERMS.replace("256", "4");
    other.write_all(&hello_with(&group(), &terms, "127.0.0.2:1")).await.unwrap();
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
