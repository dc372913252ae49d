//! The invariants of `mempool/cat/reactor_test.go`, `requests_test.go` and `peers_test.go` of
//! celestia-core (v1.16), under their names.

use std::time::Duration;

use crate::net::{Delay, Net};
use crate::node::Node;
use crate::{App, tx};
use samara_cat::config::Jitter;
use samara_cat::{CatFrame, Config, Event, Ignored, Preset, Transaction};
use samara_engine::{PeerId, Time};

fn merged() -> Config {
    // Without the random sleep, so that announcements are sent at once. The sleep has its own
    // tests.
    Config { jitter: Jitter::None, ..Preset::CatMerged.config() }
}

fn node(peers: u32) -> Node {
    Node::among(peers, "cat/1", merged())
}

/// `TestReactorBroadcastTxsMessage`: transactions submitted at one of five reactors reach all, and
/// have the same order everywhere.
#[test]
fn reactor_broadcast_txs_message() {
    for preset in [Preset::Cat2023, Preset::Cat2From2023, Preset::CatMerged, Preset::Cat] {
        let mut net = Net::new(1, Delay::millis(1, 20));
        for _ in 0..5 {
            net.honest(preset.config(), App { priorities: true, ..App::default() });
        }
        for a in 0..5 {
            (0..a).for_each(|b| net.connect(a, b));
        }
        (0..100).for_each(|number| net.submit(Time::ZERO, 0, &tx(number, 50)));
        net.run_until(Time::from_secs(10));
        net.assert_all_delivered();
        let order = |host: u32| -> Vec<_> {
            net.engine(host).pool().iter().map(|entry| entry.transaction.key()).collect()
        };
        (1..5).for_each(|host| assert_eq!(order(host), order(0), "{}", preset.name()));
    }
}

/// `TestReactorSendWantTxAfterReceiveingSeenTx`.
#[test]
fn reactor_send_want_tx_after_receiving_seen_tx() {
    let mut node = node(1);
    let key = tx(1, 50).key();
    node.frame(0, CatFrame::seen(key));
    assert_eq!(node.take(0), [CatFrame::want(key)]);
    assert_eq!(node.engine.asked(&key), Some(PeerId(0)));
    assert!(node.engine.has_seen(PeerId(0), &key));
}

/// `TestReactorSendsTxAfterReceivingWantTx`: the peer then counts as having it.
#[test]
fn reactor_sends_tx_after_receiving_want_tx() {
    let mut node = node(0);
    let tx = tx(1, 50);
    node.submit(&tx);
    node.connect(0, "cat/1");
    node.frame(0, CatFrame::want(tx.key()));
    assert_eq!(node.take(0), [CatFrame::tx(tx.clone())]);
    assert!(node.engine.has_seen(PeerId(0), &tx.key()));
}

/// `TestReactorBroadcastsSeenTxAfterReceivingTx`: only to the peer that does not have it.
#[test]
fn reactor_broadcasts_seen_tx_after_receiving_tx() {
    let mut node = node(2);
    let tx = tx(1, 50);
    node.frame(0, CatFrame::tx(tx.clone()));
    assert!(node.has(&tx));
    assert_eq!(node.take(0), []);
    assert_eq!(node.take(1), [CatFrame::seen(tx.key())]);
    // An announcement does not mark the peer as having it.
    assert!(!node.engine.has_seen(PeerId(1), &tx.key()));
}

/// `TestRemovePeerRequestFromOtherPeer`: the request moves to another peer that has announced it.
#[test]
fn remove_peer_request_from_other_peer() {
    for config in [merged(), Preset::Cat2023.config(), Preset::Cat.config()] {
        let mut node = Node::among(2, "cat/1", config);
        let tx = tx(1, 50);
        (0..2).for_each(|peer| node.frame(peer, CatFrame::seen(tx.key())));
        assert_eq!((node.wants(0), node.wants(1)), (vec![tx.key()], vec![]));
        node.disconnect(0);
        assert_eq!(node.wants(1), [tx.key()]);
        assert_eq!(node.engine.asked(&tx.key()), Some(PeerId(1)));
        node.frame(1, CatFrame::tx(tx.clone()));
        assert!(node.has(&tx));
        assert_eq!(node.engine.asked(&tx.key()), None);
    }
}

/// `TestReactorEventuallyRemovesExpiredTransaction`: an expired transaction may come again.
#[test]
fn reactor_eventually_removes_expired_transaction() {
    let mut config = merged();
    config.pool.ttl = Duration::from_secs(5);
    let mut node = Node::new(config);
    node.connect(0, "cat/1");
    let tx = tx(1, 50);
    node.frame(0, CatFrame::tx(tx.clone()));
    node.millis(6_000);
    node.commit(1, &[]);
    assert!(!node.has(&tx) && node.events.contains(&Event::Expired(tx.key())));
    node.frame(0, CatFrame::tx(tx.clone()));
    assert!(node.has(&tx));
}

/// `TestLegacyReactorReceiveBasic`: a message without transactions is harmless.
#[test]
fn legacy_reactor_receive_basic() {
    let mut node = node(1);
    node.frame(0, CatFrame::txs(Vec::new()));
    assert_eq!(node.metrics().ignored(Ignored::EmptyTxs), 1);
    assert!(node.links.is_empty());
}

/// Own transactions are pushed in the order of submission (`TestTxPool_BroadcastQueue`), and not
/// announced.
#[test]
fn own_transactions_are_pushed_in_order() {
    let mut node = node(2);
    let txs: Vec<Transaction> = (0..20).map(|number| tx(number, 50)).collect();
    txs.iter().for_each(|tx| node.submit(tx));
    for peer in 0..2 {
        let expected: Vec<CatFrame> = txs.iter().cloned().map(CatFrame::tx).collect();
        assert_eq!(node.take(peer), expected);
    }
    assert!(txs.iter().all(|tx| node.engine.has_seen(PeerId(1), &tx.key())));
}

/// `TestRequestSchedulerRerequest`: a transaction has one live request. After its timeout the node
/// asks another peer, and still accepts a late answer of the first one.
#[test]
fn request_scheduler_rerequest() {
    for config in [merged(), Preset::Cat2026.config(), Preset::Cat.config()] {
        let protocol = config.protocols[0].name();
        let sequences = config.sequences.map(|_| std::collections::BTreeMap::new());
        let mut node = Node::with(config, App { sequences, ..App::default() });
        (0..3).for_each(|peer| node.connect(peer, protocol));
        let tx = crate::signed(0, 0);
        let seen = || {
            let details =
                samara_cat::wire::SeenDetails { from: None, sequence: 0, signer: Some(crate::signer(0)) };
            CatFrame::from(samara_cat::wire::SeenTx { key: tx.key(), details: Some(details) })
        };
        (0..2).for_each(|peer| node.frame(peer, seen()));
        assert_eq!((node.wants(0), node.wants(1)), (vec![tx.key()], vec![]), "{protocol}");
        node.millis(30_000);
        assert_eq!((node.wants(0), node.wants(1)), (vec![], vec![tx.key()]), "{protocol}");
        node.frame(0, CatFrame::tx(tx.clone()));
        assert!(node.has(&tx), "{protocol}: a late answer is accepted");
        // The ADR counts first and further requests separately.
        assert_eq!((node.metrics().requested_txs, node.metrics().rerequested_txs), (1, 1));
    }
}

/// `TestRequestSchedulerNonResponsivePeer`: no other peer has it, so the node gives up. A new
/// announcement by another peer starts over.
#[test]
fn request_scheduler_non_responsive_peer() {
    let mut node = node(2);
    let key = tx(1, 50).key();
    node.frame(0, CatFrame::seen(key));
    assert_eq!(node.wants(0), [key]);
    node.millis(201);
    assert_eq!(node.engine.asked(&key), None);
    assert_eq!(node.metrics().lost_txs, 1);
    // The same peer is not asked while its first answer may still arrive.
    node.frame(0, CatFrame::seen(key));
    assert_eq!(node.wants(0), []);
    node.frame(1, CatFrame::seen(key));
    assert_eq!(node.wants(1), [key]);
}

/// `TestRequestSchedulerConcurrencyAddsAndReads`, as far as it applies here: of many simultaneous
/// keys, each is requested from one peer only.
#[test]
fn request_scheduler_many_at_once() {
    let mut node = node(5);
    let keys: Vec<_> = (0..500).map(|number| tx(number, 50).key()).collect();
    for (place, key) in keys.iter().enumerate() {
        (0..5).for_each(|peer| node.frame((peer + place as u32) % 5, CatFrame::seen(*key)));
    }
    let mut asked: Vec<_> = (0..5).flat_map(|peer| node.wants(peer)).collect();
    asked.sort_unstable();
    let mut expected = keys.clone();
    expected.sort_unstable();
    assert_eq!(asked, expected);
    assert_eq!(node.engine.outstanding(), 500);
}

/// `TestPeerLifecycle`: frames of an unknown peer are ignored; a peer that returns starts anew.
#[test]
fn peer_lifecycle() {
    let mut node = node(1);
    let tx = tx(1, 50);
    node.frame(0, CatFrame::tx(tx.clone()));
    node.disconnect(0);
    node.frame(0, CatFrame::seen(tx.key()));
    assert_eq!(node.metrics().ignored(Ignored::UnknownPeer), 1);
    node.connect(0, "cat/1");
    assert!(!node.engine.has_seen(PeerId(0), &tx.key()), "the pool treats it as a new peer");
}

/// No generation checks for presence when a request times out: the chain continues although the
/// transaction has arrived.
#[test]
fn timeout_chain_of_2023_continues_without_a_commit() {
    let mut node = Node::among(3, "cat/1", Preset::Cat2023.config());
    let tx = tx(1, 50);
    (0..3).for_each(|peer| node.frame(peer, CatFrame::seen(tx.key())));
    // Each answer takes 210 ms.
    let mut bodies = 0;
    let mut due: Vec<(u64, u32)> = Vec::new();
    for step in 0..300u64 {
        for peer in 0..3 {
            node.wants(peer).iter().for_each(|_| due.push((step + 21, peer)));
        }
        let (now, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(at, _)| *at <= step);
        due = later;
        for (_, peer) in now {
            node.frame(peer, CatFrame::tx(tx.clone()));
            bodies += 1;
        }
        node.millis(10);
    }
    assert!(bodies >= 12, "{bodies} copies in 3 s");
    node.commit(1, &[tx.key()]);
    (0..3).for_each(|peer| {
        node.wants(peer);
    });
    node.millis(1_000);
    assert!((0..3).all(|peer| node.wants(peer).is_empty()), "a block ends the chain");
    assert_eq!(node.metrics().already_seen_txs, bodies - 1);
}

/// The receive loop sleeps 0 to 90 ms before it announces, and meanwhile processes nothing from
/// this peer (`cat-merged`).
#[test]
fn sleeping_receive_loop_delays_its_peer() {
    let mut node = Node::among(3, "cat/1", Preset::CatMerged.config());
    let mut blocked = false;
    for number in 0..50 {
        let (first, second, other) = (tx(3 * number, 50), tx(3 * number + 1, 50), tx(3 * number + 2, 50));
        node.frame(0, CatFrame::tx(first.clone()));
        node.frame(0, CatFrame::tx(second.clone()));
        node.frame(1, CatFrame::tx(other.clone()));
        assert!(node.has(&first));
        let sleeps = !node.has(&second);
        blocked |= sleeps;
        assert!(node.has(&other), "another peer is not blocked");
        node.millis(300);
        assert!(node.has(&second) && node.has(&other));
        assert_eq!(node.announced(2).len(), 3);
    }
    assert!(blocked, "some sleeps are not zero");
}

/// A check that takes time does not split the loop: it sleeps for one transaction after the other,
/// 45 ms on average, so that a link delivers at most some 22 per second.
#[test]
fn sleeping_receive_loop_sleeps_once_at_a_time() {
    let mut node = Node::with(Preset::CatMerged.config(), App { defers: true, ..App::default() });
    (0..2).for_each(|peer| node.connect(peer, "cat/1"));
    let txs: Vec<Transaction> = (0..100).map(|number| tx(number, 50)).collect();
    txs.iter().for_each(|tx| node.frame(0, CatFrame::tx(tx.clone())));
    for tx in &txs {
        let verdict = samara_cat::pool::Verdict::Accept(samara_cat::pool::Admission::default());
        let decided = samara_cat::Command::Decided { key: tx.key(), verdict };
        node.handle(samara_engine::Input::Command(decided));
    }
    node.millis(1_000);
    let early = node.announced(1).len();
    assert!((5..50).contains(&early), "{early} announced within a second");
    node.millis(9_000);
    assert_eq!(early + node.announced(1).len(), 100);
}

/// The frames that wait for a sleeping receive loop are limited in bytes, for each peer. Frames
/// beyond the limit are counted.
#[test]
fn frames_waiting_for_a_sleeping_loop_are_bounded() {
    let mut config = Preset::CatMerged.config();
    config.limits.waiting_bytes = 10_000;
    let mut node = Node::among(3, "cat/1", config);
    // Until it sleeps, since some sleeps are zero.
    let mut number = 0;
    while node.engine.scheduled() < 2 {
        node.frame(0, CatFrame::tx(tx(number, 50)));
        number += 1;
    }
    let dropped = |node: &Node| node.metrics().ignored(Ignored::WaitingQueueFull);
    (0..12).for_each(|other| node.frame(0, CatFrame::tx(tx(1_000 + other, 1_000))));
    assert_eq!(dropped(&node), 3, "9 of 1,006 bytes fit");
    node.millis(5_000);
    assert!((0..9).all(|other| node.has(&tx(1_000 + other, 1_000))));
    // The whole limit is available again.
    while node.engine.scheduled() < 2 {
        node.frame(0, CatFrame::tx(tx(number, 50)));
        number += 1;
    }
    (0..9).for_each(|other| node.frame(0, CatFrame::tx(tx(3_000 + other, 1_000))));
    assert_eq!(dropped(&node), 3);
}

/// `From` (CAT2): a node that is connected to the origin waits for its push, and asks the announcer
/// after that.
#[test]
fn reactor_waits_to_receive_tx_from_original_sender() {
    let mut node = Node::among(3, "cat/1", Preset::Cat2From2023.config());
    let (pushed, never) = (tx(1, 50), tx(2, 50));
    // The announcement of a pushed transaction names the peer that pushed it.
    node.frame(0, CatFrame::tx(pushed.clone()));
    let announced = node.take(1);
    let [CatFrame::SeenTx(seen)] = &announced[..] else { panic!("{announced:?}") };
    let from = seen.details.as_ref().and_then(|details| details.from.clone()).unwrap();
    assert_eq!(from.len(), 40);
    // Such an announcement of another transaction makes the node wait for that peer.
    let hinted = samara_cat::wire::SeenTx { key: never.key(), details: seen.details.clone() };
    node.take(2);
    node.frame(2, hinted.into());
    assert_eq!(node.wants(2), []);
    node.millis(201);
    assert_eq!(node.wants(2), [never.key()]);
    // The announcement of a requested transaction names no peer.
    node.frame(2, CatFrame::tx(never.clone()));
    let announced = node.take(1);
    let [CatFrame::SeenTx(seen)] = &announced[..] else { panic!("{announced:?}") };
    assert_eq!(seen.details.as_ref().and_then(|details| details.from.as_deref()), Some(""));
}

/// Flooding pools send each transaction to all peers but its senders, in order of arrival, and the
/// whole pool to a new peer.
#[test]
fn flooding_skips_senders() {
    for preset in [Preset::FloodFifo, Preset::FloodPriority] {
        let mut node = Node::among(3, "txs/1", preset.config());
        let tx = tx(1, 50);
        node.frame(0, CatFrame::tx(tx.clone()));
        assert_eq!(node.bodies(0), []);
        // The copy for peer 1 is still queued when the peer turns out to have it.
        node.frame(1, CatFrame::tx(tx.clone()));
        assert_eq!(node.bodies(1), []);
        assert_eq!(node.bodies(2), [tx.key()]);
        node.connect(3, "txs/1");
        assert_eq!(node.bodies(3), [tx.key()]);
    }
}

/// A pool that announces its whole content to new peers (G0), and one that does not (G1).
#[test]
fn new_peers_get_announcements_of_the_pool_except_as_merged() {
    for (preset, announced) in [(Preset::Cat2023, 3), (Preset::CatMerged, 0), (Preset::Cat, 3)] {
        let mut node = Node::new(preset.config());
        (0..3).for_each(|number| node.submit(&tx(number, 50)));
        node.connect(0, preset.config().protocols[0].name());
        assert_eq!(node.announced(0).len(), announced, "{}", preset.name());
    }
}

/// Peers that lag too far behind get neither bodies nor announcements.
#[test]
fn peers_far_behind_get_nothing() {
    let mut node = node(2);
    node.commit(100, &[]);
    let height = |peer, height| {
        samara_engine::Input::Command(samara_cat::Command::PeerHeight { peer: PeerId(peer), height })
    };
    node.handle(height(0, 89));
    node.handle(height(1, 90));
    node.submit(&tx(1, 50));
    assert_eq!((node.bodies(0).len(), node.bodies(1).len()), (0, 1));
}
