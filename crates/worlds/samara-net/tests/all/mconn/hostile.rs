//! Hostile and broken peers.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samara_cat::config::Preset;
use samara_net::mconn::{Broken, Closed, Options};

use crate::mconn::attacker::*;
use crate::mconn::common::*;

/// Starts a node with short timeouts, and an honest peer of it.
async fn victim(seed: u8) -> (Ours, Ours) {
    let options = Options {
        handshake_timeout: Duration::from_millis(500),
        ping_interval: Duration::from_millis(300),
        pong_timeout: Duration::from_millis(300),
        max_pending: 8,
        ..options()
    };
    let victim = start(seed, Preset::Cat.config(), options).await;
    let honest = ours(seed + 1, &[victim.address()]).await;
    victim.linked(1).await;
    (victim, honest)
}

/// Checks that transactions still arrive.
async fn works(victim: &Ours, honest: &Ours, text: &str) {
    let before = Instant::now();
    let keys = BTreeSet::from([
        honest.submit(format!("{text} from the honest one")).await,
        victim.submit(format!("{text} from the victim")).await,
    ]);
    victim.has(&keys).await;
    honest.has(&keys).await;
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_handshakes_end_without_harm_to_others() {
    let (mut victim, honest) = victim(100).await;
    let low_order = [&[0x22, 0x0a, 0x20][..], &[0; 32]].concat();
    let openings: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 2000], &[0xff; 2000], &low_order, &[0x22, 0x0a, 0x20, 1, 2]];
    for opening in openings {
        let host = victim.address().host;
        let opening = opening.to_vec();
        blocking(move || {
            let mut stream = TcpStream::connect(host).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            // The other end may hang up before all is written.
            let _ = stream.write_all(&opening);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        })
        .await;
        let (_, why) = victim.closed().await;
        assert!(matches!(why, Closed::Handshake(_) | Closed::HandshakeTimeout), "{why}");
    }
    works(&victim, &honest, "after bad handshakes").await;
}

/// The name of the case, and the message that the peer sends instead of a proof of its key.
type Proof = (&'static str, fn(&[u8]) -> Vec<u8>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_of_a_key_gets_its_name() {
    let (mut victim, honest) = victim(102).await;
    let cases: [Proof; 6] = [
        ("a signature of something else", |_| proof(9, &[0; 32])),
        ("a signature of another key", |challenge| {
            [&proof(9, challenge)[..39], &proof(8, challenge)[39..]].concat()
        }),
        ("bytes behind the signature", |challenge| [&proof(9, challenge)[..], &[0]].concat()),
        ("a full frame", |challenge| [&proof(9, challenge)[..], &[0; 921]].concat()),
        ("a short signature", |challenge| proof(9, challenge)[..102].to_vec()),
        ("nothing", |_| vec![0]),
    ];
    for (name, proof) in cases {
        let host = victim.address().host;
        blocking(move || Attacker::with_proof(&host, proof).until_closed()).await;
        let (peer, why) = victim.closed().await;
        assert_eq!(peer, None, "{name}");
        assert!(matches!(&why, Closed::Handshake(text) if text.contains("signature")), "{name}: {why}");
    }
    works(&victim, &honest, "after bad proofs").await;
}

/// More silent connections than there are places, and one that sends a byte now and then. The oldest
/// ones make room for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed_in_time() {
    let (mut victim, honest) = victim(104).await;
    let host = victim.address().host;
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&host).unwrap()).collect();
    let mut slow = silent[0].try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        let since = Instant::now();
        while slow.write_all(&[0x22]).is_ok() && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
        }
        since.elapsed()
    });
    works(&victim, &honest, "during silence").await;
    let (mut evicted, mut slow) = (0, 0);
    for _ in 0..20 {
        match victim.closed().await.1 {
            Closed::Evicted => evicted += 1,
            Closed::HandshakeTimeout | Closed::Handshake(_) => slow += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((evicted, slow), (12, 8));
    let late = ours(106, &[victim.address()]).await;
    late.linked(1).await;
    assert!(
        dripping.join().unwrap() < Duration::from_secs(10),
        "an occasional byte does not extend the timeout"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_a_node_info_is_closed() {
    let (mut victim, honest) = victim(107).await;
    let host = victim.address().host;
    let mut attacker = blocking(move || Attacker::secret(&host, 9)).await;
    assert_eq!(victim.closed().await, (None, Closed::HandshakeTimeout));
    works(&victim, &honest, "after it").await;
    blocking(move || attacker.until_closed()).await;
}

/// The name of the case, the bytes to send, and a check of the reported cause.
type Case = (&'static str, Vec<u8>, fn(&Broken) -> bool);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_breaks_the_rules_loses_only_its_link() {
    let (mut victim, honest) = victim(109).await;
    let longest = samara_net::mconn::CatCodec::new(&Preset::Cat.config());
    let longest = longest.channels()[0].longest_message;
    let endless: Vec<u8> = (0..longest / 1024 + 1).flat_map(|_| piece(0x30, false, &[0; 1024])).collect();
    let cases: Vec<Case> = vec![
        ("a packet that is too long", with_length(&field(3, &[0; 2000])), |why| *why == Broken::PacketLength),
        ("a length that never ends", vec![0xff; 16], |why| *why == Broken::PacketLength),
        ("an empty packet", vec![0], |why| *why == Broken::Packet),
        ("a malformed packet", with_length(&[0x1a, 0xff]), |why| *why == Broken::Packet),
        ("another channel", piece(0x20, true, b"x"), |why| *why == Broken::UnknownChannel(0x20)),
        ("an endless message", endless, |why| matches!(why, Broken::MessageTooLong { channel: 0x30, .. })),
        ("a malformed frame", piece(0x31, true, b"\xff\xff"), |why| {
            matches!(why, Broken::Frame { channel: 0x31, .. })
        }),
        ("a short key", piece(0x31, true, &field(2, &field(1, &[7; 31]))), |why| {
            matches!(why, Broken::Frame { .. })
        }),
    ];
    for (number, (name, bytes, expected)) in (150..).zip(cases) {
        let host = victim.address().host;
        let mut attacker = blocking(move || Attacker::peer(&host, number)).await;
        victim.linked(2).await;
        blocking(move || {
            // The other end may hang up before all is written.
            let _ = attacker.send(&bytes);
            attacker.until_closed();
        })
        .await;
        let (peer, why) = victim.closed().await;
        assert_eq!(peer, Some(key(number).id()), "{name}");
        assert!(matches!(&why, Closed::Broken(why) if expected(why)), "{name}: {why}");
        victim.linked(1).await;
    }
    works(&victim, &honest, "after all that").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_seal_ends_the_connection() {
    let (mut victim, honest) = victim(111).await;
    let host = victim.address().host;
    let mut attacker = blocking(move || Attacker::peer(&host, 9)).await;
    victim.linked(2).await;
    blocking(move || {
        attacker.stream.write_all(&[7; 1044]).unwrap();
        attacker.until_closed();
    })
    .await;
    assert_eq!(victim.closed().await, (Some(key(9).id()), Closed::Broken(Broken::Seal)));
    works(&victim, &honest, "after a broken seal").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_answers_no_ping_is_closed() {
    let (mut victim, honest) = victim(113).await;
    let host = victim.address().host;
    let attacker = blocking(move || Attacker::peer(&host, 9)).await;
    assert_eq!(victim.closed().await, (Some(key(9).id()), Closed::PongTimeout));
    drop(attacker);
    // The honest peer has answered several pings.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(victim.status().await.peers.len(), 1);
    works(&victim, &honest, "after silence").await;
}

/// The peer does not read: copies owed to it stay in the outbox, bounded, and the connection ends
/// by the next ping.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_costs_bounded_memory() {
    let patient = Options { ping_interval: PATIENCE, ..options() };
    let victim = start(115, Preset::Cat.config(), patient.clone()).await;
    let honest = ours(116, &[victim.address()]).await;
    let host = victim.address().host;
    let attacker = blocking(move || Attacker::peer(&host, 9)).await;
    victim.linked(2).await;
    let mut keys = BTreeSet::new();
    for number in 0..80u32 {
        keys.insert(victim.submit([vec![b'x'; 1_000_000], number.to_be_bytes().to_vec()].concat()).await);
    }
    honest.has(&keys).await;
    let status = victim.status().await;
    let stuck = status.peers.iter().find(|peer| peer.id == key(9).id()).expect("it is still there");
    // 80 MB were submitted; the lane of bodies holds 64 MiB, and one megabyte more is on its way.
    assert!(stuck.owed_copies > 50 && stuck.owed_copies <= 80, "{}", stuck.owed_copies);
    assert!(status.in_flight_bytes <= 64 * 1024 + 2 * 1_000_100, "{}", status.in_flight_bytes);
    drop(attacker);
}

/// A peer that reads nothing sends announcements of unknown transactions, requests for everything,
/// and pings, as fast as it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_does_not_hold_up_others() {
    // So long that no ping ends the connection.
    let victim = start(117, Preset::Cat.config(), Options { ping_interval: PATIENCE, ..options() }).await;
    let honest = ours(118, &[victim.address()]).await;
    victim.linked(1).await;
    let (host, over) = (victim.address().host, Arc::new(AtomicBool::new(false)));
    let flood = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let mut attacker = Attacker::peer(&host, 9);
            let mut sent = 0u32;
            while !over.load(Ordering::Relaxed) {
                let key: Vec<u8> = sent.to_be_bytes().repeat(8);
                let packets = [
                    piece(0x31, true, &field(2, &field(1, &key))),
                    piece(0x31, true, &field(3, &field(1, &key))),
                    with_length(&field(1, &[])),
                ];
                attacker.send(&packets.concat()).expect("the connection is open");
                sent += 1;
            }
            (sent, attacker)
        }
    });
    victim.linked(2).await;
    for round in 0..50 {
        works(&victim, &honest, &format!("flood {round}")).await;
    }
    over.store(true, Ordering::Relaxed);
    let (sent, attacker) = blocking(move || flood.join().unwrap()).await;
    assert!(sent > 1000, "{sent} rounds are no flood");
    let config = Preset::Cat.config();
    let keys = victim.node.call(|engine, _| engine.keys()).await.unwrap();
    assert!(keys <= config.limits.unknown_per_peer + 200, "{keys}");
    let status = victim.status().await;
    let flooder = status.peers.iter().find(|peer| peer.id == key(9).id()).expect("it is still there");
    let lanes: usize = config.sending.lanes.iter().map(|lane| lane.capacity.copies).sum();
    assert!(flooder.owed_copies <= lanes, "{}", flooder.owed_copies);
    assert!(status.in_flight_bytes <= 2 * (64 << 10), "{}", status.in_flight_bytes);
    drop(attacker);
    works(&victim, &honest, "after the flood").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_invalid_transactions_ends_with_the_link() {
    let (mut victim, honest) = victim(119).await;
    let host = victim.address().host;
    blocking(move || {
        let mut attacker = Attacker::peer(&host, 9);
        for number in 0..1_000_000u32 {
            let body = [b"bad".to_vec(), number.to_be_bytes().to_vec()].concat();
            if attacker.send(&piece(0x30, true, &field(1, &field(1, &body)))).is_err() {
                return;
            }
        }
        panic!("the connection was never closed");
    })
    .await;
    assert_eq!(victim.closed().await, (Some(key(9).id()), Closed::Here));
    assert!(victim.pool().await.is_empty());
    works(&victim, &honest, "after the flood").await;
}
