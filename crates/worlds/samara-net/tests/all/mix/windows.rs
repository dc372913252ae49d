//! Tests that the HTTP/2 windows that a node announces bound the bytes in flight to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use samara_mix::{Group, Transfer};
use samara_net::mix::{Client, ClientOptions, Ended, Options, Windows};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::mix::common::{Network, PATIENCE, config, soon};

/// Latency in one direction.
const LATENCY: Duration = Duration::from_millis(25);
/// Slots of 512 bytes: eight windows of 64 KiB.
const BATCH: u32 = 1_024;
const WINDOW: u32 = 65_535;
/// Bytes that a window does not count: headers, records of TLS, and frames that are no data.
const OVERHEAD: usize = 8 << 10;

/// Copies bytes in one direction, each piece delayed by the latency. Notes the most bytes that were
/// on the way.
async fn delay(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    most: Arc<AtomicUsize>,
) {
    // Unbounded, as a link of any bandwidth.
    let (sender, mut queue) = mpsc::unbounded_channel();
    let on_the_way = &AtomicUsize::new(0);
    let write = async {
        while let Some((due, bytes)) = queue.recv().await {
            let bytes: Vec<u8> = bytes;
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
            on_the_way.fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        let _ = to.shutdown().await;
    };
    let read = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len @ 1..) = from.read(&mut buffer).await {
            most.fetch_max(on_the_way.fetch_add(len, Ordering::Relaxed) + len, Ordering::Relaxed);
            if sender.send((Instant::now() + LATENCY, buffer[..len].to_vec())).is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}

/// Returns an address that forwards to `address` with latency.
async fn far(address: SocketAddr, most: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let far = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(other) = TcpStream::connect(address).await else { continue };
            for stream in [&near, &other] {
                stream.set_nodelay(true).expect("a socket");
            }
            let (near_read, near_write) = near.into_split();
            let (other_read, other_write) = other.into_split();
            tokio::spawn(delay(near_read, other_write, Arc::clone(&most)));
            tokio::spawn(delay(other_read, near_write, Arc::clone(&most)));
        }
    });
    far
}

/// Mixes batches at two nodes that are far from each other, until this many bytes were on the way
/// to one of them. Returns the least time of a batch, and the most bytes on the way.
async fn mix(windows: Windows, enough: usize) -> (Duration, usize) {
    let mut config = config(BATCH);
    (config.group, config.team, config.transfer) = (Group::Model, 2, Transfer::Unary);
    // One after another: with narrow windows, one precomputation takes a second or two.
    (config.precomputing_max, config.rounds_max, config.ping) = (1, 3, None);
    (config.precomputation_timeout, config.realtime_timeout) = (PATIENCE, PATIENCE);
    config.silence = PATIENCE;
    let most = Arc::new(AtomicUsize::new(0));
    let dialled = |address| far(address, Arc::clone(&most));
    let network =
        Network::start_far(2, config, dialled, |options: &mut Options| options.windows = windows).await;
    let options = ClientOptions { group: Group::Model, team_min: 2, ..network.client_options() };
    let client = Client::start(options).expect("it starts");
    soon(client.ready()).await;
    let (start, mut least) = (Instant::now(), PATIENCE);
    loop {
        let round = soon(client.next_round()).await;
        let contents = vec![vec![7; Group::Model.content_bytes()]; BATCH as usize];
        let sealed = client.seal(&round, contents).await.expect("sealed");
        client.submit(&round, sealed).await.expect("there is room");
        assert!(matches!(soon(client.result(&round)).await, Ok(Ended::Delivered(_))));
        let gateway = network.status(round.team[0] as usize).await.gateway;
        let times = gateway.expect("it has one").times;
        least = least.min(times.last().expect("a round").batch);
        let most = most.load(Ordering::Relaxed);
        // On a busy machine, adaptive windows take some batches to grow.
        if most >= enough || start.elapsed() > 5 * PATIENCE {
            return (least, most);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_64_kib_holds_a_batch_back() {
    let window = WINDOW as usize + OVERHEAD;
    let wide = Windows::Fixed { stream: 8 << 20, connection: 8 << 20 };
    let narrow = Windows::Fixed { stream: WINDOW, connection: WINDOW };
    let ((_, wide), (narrow, few), (_, adaptive)) =
        tokio::join!(mix(wide, 2 * window), mix(narrow, 1), mix(Windows::Adaptive, window + 1));
    assert!(few <= window, "{few} bytes were on the way to a node with narrow windows");
    // Decryption, permutation and the result each carry 512 KiB and more one way: eight round trips
    // each with narrow windows.
    assert!(narrow > 3 * 7 * 2 * LATENCY, "{narrow:?} is less than the windows allow");
    assert!(wide >= 2 * window, "{wide} bytes were on the way to a node with wide windows");
    assert!(adaptive > window, "{adaptive} bytes were on the way to a node with adaptive windows");
}
