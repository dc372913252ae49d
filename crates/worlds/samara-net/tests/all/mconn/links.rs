//! Tests of links that start and end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use samara_cat::config::Preset;
use samara_net::mconn::{Closed, Event, Incompatible, Node, Options, PeerAddress};

use crate::mconn::attacker::*;
use crate::mconn::common::*;

/// Both ends keep the connection that the smaller node dialled, in any order of events.
#[tokio::test]
async fn two_nodes_that_dial_each_other_keep_one_connection() {
    for round in 0..10 {
        let one = ours(60 + 2 * round, &[]).await;
        let other = ours(61 + 2 * round, &[]).await;
        let (to_other, to_one) = tokio::join!(one.node.dial(other.address()), other.node.dial(one.address()));
        to_other.and(to_one).unwrap();
        one.linked(1).await;
        other.linked(1).await;
        // Both connections have been made, and one has ended.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let keys = BTreeSet::from([one.submit("one").await, other.submit("other").await]);
        one.has(&keys).await;
        other.has(&keys).await;
        let smaller = one.node.id() < other.node.id();
        for (node, dialled) in [(&one, smaller), (&other, !smaller)] {
            let status = node.status().await;
            assert_eq!(status.peers.len(), 1);
            assert_eq!(status.peers[0].outbound, dialled, "{status:?}");
            assert!(status.counters.links_up <= 2, "{status:?}");
        }
    }
}

#[tokio::test]
async fn incompatible_nodes_refuse_each_other() {
    let mut hub = ours(80, &[]).await;
    let elsewhere = Options { network: "other".to_owned(), peers: vec![hub.address()], ..options() };
    let mut stranger = start(81, Preset::Cat.config(), elsewhere).await;
    let failed = |event| match event {
        Event::DialFailed { why, .. } => Some(why),
        _ => None,
    };
    // Both sides detect it. The first one hangs up on the other.
    let (_, why) = hub.closed().await;
    assert!(
        matches!(why, Closed::Incompatible(Incompatible::Network { .. }) | Closed::Handshake(_)),
        "{why}"
    );
    let why = stranger.event(failed).await;
    assert!(
        matches!(why, Closed::Incompatible(Incompatible::Network { .. }) | Closed::Handshake(_)),
        "{why}"
    );

    let other_blocks = Options { block_version: 12, peers: vec![hub.address()], ..options() };
    let mut newer = start(82, Preset::Cat.config(), other_blocks).await;
    let why = newer.event(failed).await;
    assert!(
        matches!(
            why,
            Closed::Incompatible(Incompatible::BlockVersion { expected: 12, found: 11 })
                | Closed::Handshake(_)
        ),
        "{why}"
    );

    // Another node listens at the address.
    let wrong = PeerAddress { id: key(83).id(), host: hub.address().host };
    let mut caller = ours(84, &[wrong]).await;
    let why = caller.event(failed).await;
    assert!(matches!(why, Closed::Incompatible(Incompatible::OtherNode { .. })), "{why}");

    let own = hub.address();
    hub.node.dial(own).await.unwrap();
    let why = hub.event(failed).await;
    assert!(matches!(why, Closed::Incompatible(Incompatible::Myself)), "{why}");
    assert!(hub.status().await.peers.is_empty());
}

#[tokio::test]
async fn a_peer_that_was_away_is_dialled_again() {
    let hub = ours(85, &[]).await;
    let address = hub.address();
    let leaf = ours(86, std::slice::from_ref(&address)).await;
    leaf.linked(1).await;
    hub.node.stop(Duration::from_secs(1)).await.unwrap();
    drop(hub);
    leaf.linked(0).await;
    let listen = Some(address.host.parse().unwrap());
    let hub = start(85, Preset::Cat.config(), Options { listen, ..options() }).await;
    leaf.linked(1).await;
    let keys = BTreeSet::from([leaf.submit("again").await]);
    hub.has(&keys).await;
}

#[tokio::test]
async fn a_stopping_node_sends_owed_copies_before_it_hangs_up() {
    let hub = ours(87, &[]).await;
    let leaf = ours(88, &[hub.address()]).await;
    hub.linked(1).await;
    let mut keys = BTreeSet::new();
    for number in 0..20u32 {
        keys.insert(leaf.submit([vec![b'x'; 200_000], number.to_be_bytes().to_vec()].concat()).await);
    }
    let stopped = leaf.node.stop(Duration::from_secs(10)).await.unwrap();
    assert_eq!(stopped.left_copies, 0);
    hub.has(&keys).await;
    assert!(leaf.node.status().await.is_err(), "a stopped node does not answer");
}

/// A peer that does not read delays the stop for the given time only. The node reports the copies
/// that it did not send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_node_waits_no_longer_than_allowed() {
    let hub = ours(140, &[]).await;
    let leaf = ours(141, &[hub.address()]).await;
    let host = hub.address().host;
    let stuck = blocking(move || Attacker::peer(&host, 9)).await;
    hub.linked(2).await;
    let mut keys = BTreeSet::new();
    for number in 0..20u8 {
        keys.insert(hub.submit(vec![number; 1_000_000]).await);
    }
    leaf.has(&keys).await;
    let since = Instant::now();
    let stopped = hub.node.stop(Duration::from_secs(3)).await.unwrap();
    assert!((3.0..30.0).contains(&since.elapsed().as_secs_f64()), "{:?}", since.elapsed());
    assert_eq!(stopped.left.keys().collect::<Vec<_>>(), [&key(9).id()]);
    assert!(stopped.left_copies >= 10 && stopped.left_copies <= 20, "{}", stopped.left_copies);
    drop(stuck);
}

#[tokio::test]
async fn connections_are_limited() {
    let few = Options { max_inbound: 2, ..options() };
    let mut hub = start(89, Preset::Cat.config(), few).await;
    let one = ours(90, &[hub.address()]).await;
    let two = ours(91, &[hub.address()]).await;
    one.linked(1).await;
    two.linked(1).await;
    hub.linked(2).await;
    let _three = ours(92, &[hub.address()]).await;
    assert_eq!(hub.closed().await, (None, Closed::Full));
    // A persistent peer is accepted beyond the limit.
    hub.node.dial(PeerAddress { id: key(93).id(), host: "127.0.0.1:1".to_owned() }).await.unwrap();
    let invited = ours(93, &[hub.address()]).await;
    invited.linked(1).await;
    hub.linked(3).await;

    let per_ip = Options { max_inbound_per_ip: 1, ..options() };
    let mut hub = start(94, Preset::Cat.config(), per_ip).await;
    let one = ours(95, &[hub.address()]).await;
    one.linked(1).await;
    let _two = ours(96, &[hub.address()]).await;
    assert_eq!(hub.closed().await, (None, Closed::Full));
    assert_eq!(hub.status().await.counters.links_closed["full"], 1);
}

#[tokio::test]
async fn a_peer_can_be_disconnected() {
    let hub = ours(97, &[]).await;
    let leaf = ours(98, &[hub.address()]).await;
    leaf.linked(1).await;
    leaf.node.disconnect(hub.node.id()).await.unwrap();
    leaf.linked(0).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(leaf.status().await.peers.is_empty(), "the node does not dial it again");
}

#[tokio::test]
async fn invalid_options_are_rejected_at_the_start() {
    let config = Preset::Cat.config();
    let try_with = async |options: Options| {
        let engine =
            samara_cat::Cat::new(config.clone(), &key(1).id().identity(), application as App).unwrap();
        let outbox = samara_engine::Outbox::new(config.outbox());
        let codec = samara_net::mconn::CatCodec::new(&config);
        Node::start(key(1), options, codec, engine, outbox).await.map(|_| ()).unwrap_err().to_string()
    };
    let moniker = Options { moniker: "é".to_owned(), ..options() };
    assert!(try_with(moniker).await.contains("moniker: found \"é\", expected ASCII"));
    let pending = Options { max_pending: 0, ..options() };
    assert!(try_with(pending).await.contains("max_pending: found 0"));
    let nowhere = Options { listen: Some(([192, 0, 2, 1], 1).into()), ..options() };
    assert!(try_with(nowhere).await.contains("; expected a free port at an address of this machine"));
    for wrong in ["x", "abc@host:1", &format!("{}@host", "a".repeat(40)), &format!("{}@:1", "a".repeat(40))] {
        let error = wrong.parse::<PeerAddress>().unwrap_err().to_string();
        assert!(error.contains("expected id@host:port"), "{error}");
    }
}
