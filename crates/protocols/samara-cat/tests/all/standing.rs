//! Peers that announce and do not deliver are demoted, and recover when they deliver again.

use std::time::Duration;

use crate::node::{Node, seen};
use crate::{invalid, tx};
use samara_cat::config::Standing;
use samara_cat::wire::{KeyList, Kind, PushedBy, SeenKeys};
use samara_cat::{CatFrame, Config, Transaction, TxKey};

const SILENT: u32 = 0;
const HONEST: u32 = 1;

fn node(peers: u32) -> Node {
    Node::among(peers, "cat/2", Config::default())
}

fn rules() -> Standing {
    Config::default().requests.standing.unwrap()
}

fn announce(node: &mut Node, peer: u32, tx: &Transaction) {
    node.frame(peer, seen(&[tx.key()]));
}

/// The peer lets a request time out.
fn let_request_time_out(node: &mut Node, number: u64) {
    let tx = tx(number, 50);
    announce(node, SILENT, &tx);
    assert_eq!(node.wants(SILENT), [tx.key()]);
    node.millis(1_000);
    assert_eq!(node.metrics().timeouts, 1);
}

/// The peer answers a request at once.
fn serve(node: &mut Node, peer: u32, number: u64) {
    let tx = tx(number, 50);
    announce(node, peer, &tx);
    assert_eq!(node.wants(peer), [tx.key()]);
    node.millis(1);
    node.frame(peer, CatFrame::tx(tx));
}

#[test]
fn a_peer_whose_first_request_timed_out_is_not_asked_first() {
    let mut node = node(2);
    let_request_time_out(&mut node, 0);
    for number in 1..20 {
        let tx = tx(number, 50);
        announce(&mut node, SILENT, &tx);
        node.millis(10);
        assert_eq!((node.wants(SILENT), node.wants(HONEST)), (vec![], vec![]));
        announce(&mut node, HONEST, &tx);
        assert_eq!(node.wants(HONEST), [tx.key()], "at once");
        node.frame(HONEST, CatFrame::tx(tx));
    }
    assert_eq!((node.metrics().timeouts, node.metrics().held_back_txs), (1, 19));
}

/// Transactions that no other peer announces are requested nevertheless: one at a time until an
/// answer arrives.
#[test]
fn the_only_source_is_asked_despite_a_bad_standing() {
    let mut node = node(2);
    let_request_time_out(&mut node, 0);
    let all: Vec<Transaction> = (1..4).map(|number| tx(number, 50)).collect();
    all.iter().for_each(|tx| announce(&mut node, SILENT, tx));
    node.advance(rules().patience - Duration::from_millis(1));
    assert_eq!(node.wants(SILENT), []);
    node.millis(1);
    let asked = node.wants(SILENT);
    assert_eq!(asked, [all[0].key()]);
    // It answers, so the next requests follow.
    for tx in &all {
        node.frame(SILENT, CatFrame::tx(tx.clone()));
        node.millis(1_000);
    }
    assert!(all.iter().all(|tx| node.has(tx)));
}

/// A peer without any answer so far gets one frame of keys to prove itself.
#[test]
fn a_new_peer_is_asked_for_one_frame_until_it_answers() {
    let mut node = node(1);
    let all: Vec<Transaction> = (0..130).map(|number| tx(number, 50)).collect();
    let keys: Vec<TxKey> = all.iter().map(Transaction::key).collect();
    keys.chunks(KeyList::MAX).for_each(|keys| node.frame(0, seen(keys)));
    assert_eq!(node.wants(0), keys[..64]);
    node.millis(10);
    node.frame(0, CatFrame::tx(all[0].clone()));
    assert_eq!(node.wants(0), keys[64..]);
}

/// Requests that wait for a new peer move to other peers as soon as it turns out to be silent.
#[test]
fn requests_waiting_for_a_silent_peer_move_to_others() {
    let mut node = node(3);
    serve(&mut node, HONEST, 1_000);
    let (first, second) = (tx(1, 50), tx(2, 50));
    announce(&mut node, SILENT, &first);
    announce(&mut node, SILENT, &second);
    assert_eq!(node.wants(SILENT), [first.key()]);
    announce(&mut node, HONEST, &first);
    // The timeout is that of the slowest peer that has answered: 1 ms, and 200 ms of slack.
    node.millis(200);
    assert_eq!(node.wants(HONEST), []);
    node.millis(2);
    assert_eq!(node.wants(HONEST), [first.key()]);
    announce(&mut node, 2, &second);
    assert_eq!(node.wants(2), [second.key()]);
    assert_eq!(node.metrics().early_timeouts, 0);
}

/// A long good record survives single losses: no request is delayed.
#[test]
fn single_timeouts_do_not_demote_a_peer() {
    let mut node = node(2);
    (0..50).for_each(|number| serve(&mut node, SILENT, number));
    for number in 100..102 {
        announce(&mut node, SILENT, &tx(number, 50));
        node.take(SILENT);
        node.millis(2_000);
    }
    assert_eq!(node.metrics().timeouts, 2);
    announce(&mut node, SILENT, &tx(200, 50));
    assert_eq!(node.wants(SILENT), [tx(200, 50).key()]);
    assert_eq!(node.metrics().held_back_txs, 0);
}

/// The node occasionally requests a transaction that it already has, at growing intervals. Nothing
/// waits for the answer.
#[test]
fn probes_delay_no_transaction() {
    let mut node = node(2);
    let_request_time_out(&mut node, 0);
    let mut probes = Vec::new();
    for number in 1..200 {
        let tx = tx(number, 50);
        announce(&mut node, HONEST, &tx);
        node.frame(HONEST, CatFrame::tx(tx.clone()));
        announce(&mut node, SILENT, &tx);
        if !node.wants(SILENT).is_empty() {
            probes.push(node.now.as_secs_f64() as u64);
        }
        node.millis(1_000);
    }
    assert_eq!(node.metrics().probes, probes.len() as u64);
    // After 1, 2, 4, ... 64 s. A probe itself takes up to a second until it has failed.
    assert!((6..=9).contains(&probes.len()), "{probes:?}");
    let gaps: Vec<u64> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.last().is_some_and(|gap| (64..=67).contains(gap)), "{gaps:?}");
}

/// After four answered probes, the peer is asked first again.
#[test]
fn a_peer_that_answers_again_is_asked_first_again() {
    let mut node = node(2);
    let_request_time_out(&mut node, 0);
    let mut answered = 0;
    for number in 1..100 {
        let here = tx(number, 50);
        node.frame(HONEST, CatFrame::tx(here.clone()));
        announce(&mut node, SILENT, &here);
        if node.wants(SILENT) == [here.key()] {
            node.millis(1);
            node.frame(SILENT, CatFrame::tx(here));
            answered += 1;
        }
        node.millis(100);
    }
    assert!((2..=4).contains(&answered), "{answered} duplicates");
    let next = tx(1_000, 50);
    announce(&mut node, SILENT, &next);
    assert_eq!(node.wants(SILENT), [next.key()]);
}

/// Garbage counts as a failure, without waiting for a timeout.
#[test]
fn garbage_demotes_a_peer_at_once() {
    let mut node = node(2);
    node.frame(SILENT, CatFrame::tx(invalid(1, 50)));
    announce(&mut node, SILENT, &tx(1, 50));
    assert_eq!(node.wants(SILENT), []);
    assert_eq!(node.metrics().held_back_txs, 1);
    // A requested transaction that is invalid here says nothing about its sender.
    let invalid = invalid(2, 50);
    announce(&mut node, HONEST, &invalid);
    assert_eq!(node.wants(HONEST), [invalid.key()]);
    node.frame(HONEST, CatFrame::tx(invalid));
    announce(&mut node, HONEST, &tx(2, 50));
    assert_eq!(node.wants(HONEST), [tx(2, 50).key()]);
}

/// An unreliable peer cannot make a node wait for a push by naming a neighbour; other peers can.
#[test]
fn hints_of_an_unreliable_peer_are_ignored() {
    let mut node = node(3);
    let_request_time_out(&mut node, 0);
    // The address of the honest peer: identities of these tests are hashed.
    let name = TxKey::of(crate::identity(HONEST + 1).as_bytes());
    let address = name.as_bytes().first_chunk().map(|first| PushedBy(u64::from_be_bytes(*first)));
    let mut hint = |peer, number, expected: &[TxKey]| {
        let tx = tx(number, 50);
        let keys = KeyList::one(tx.key());
        let hinted = SeenKeys { keys, kind: Kind::Transaction, pushed_by: address };
        node.frame(peer, hinted.into());
        announce(&mut node, HONEST, &tx);
        assert_eq!(node.wants(HONEST), expected, "{peer}");
    };
    hint(2, 1, &[]);
    hint(SILENT, 2, &[tx(2, 50).key()]);
}

/// Repeated announcements, and announcements of keys that are never delivered, do not fill queues
/// without limit.
#[test]
fn queues_of_waiting_requests_are_bounded() {
    let mut config = Config::default();
    config.limits.unknown_per_peer = 100;
    let mut node = Node::new(config);
    node.connect(0, "cat/2");
    for round in 0..50 {
        let keys: Vec<TxKey> = (0..64).map(|number| tx(round * 64 + number, 50).key()).collect();
        node.frame(0, seen(&keys));
        node.frame(0, seen(&keys));
    }
    assert_eq!(node.wants(0).len(), 64);
    assert!(node.engine.scheduled() < 300, "{} tasks", node.engine.scheduled());
    node.millis(60_000);
    assert!(node.metrics().requests() < 200, "{} requests", node.metrics().requests());
}
