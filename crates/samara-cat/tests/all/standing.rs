//! Peers that announce and do not deliver lose their place, and get it back when they deliver again.

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
fn disappoint(node: &mut Node, number: u64) {
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
fn a_peer_that_let_a_first_request_time_out_is_not_asked_first() {
    let mut node = node(2);
    disappoint(&mut node, 0);
    for number in 1..20 {
        let tx = tx(number, 50);
        announce(&mut node, SILENT, &tx);
        node.millis(10);
        assert_eq!((node.wants(SILENT), node.wants(HONEST)), (vec![], vec![]));
        announce(&mut node, HONEST, &tx);
        assert_eq!(node.wants(HONEST), [tx.key()], "at once");
        node.frame(HONEST, CatFrame::tx(tx));
    }
    assert_eq!((node.metrics().timeouts, node.metrics().held_back), (1, 19));
}

/// What nobody else announces is asked for all the same: one at a time, for as long as nothing comes.
#[test]
fn the_only_source_is_asked_whatever_its_standing() {
    let mut node = node(2);
    disappoint(&mut node, 0);
    let all: Vec<Transaction> = (1..4).map(|number| tx(number, 50)).collect();
    all.iter().for_each(|tx| announce(&mut node, SILENT, tx));
    node.advance(rules().patience - Duration::from_millis(1));
    assert_eq!(node.wants(SILENT), []);
    node.millis(1);
    let asked = node.wants(SILENT);
    assert_eq!(asked, [all[0].key()]);
    // It answers: the next ones follow.
    for tx in &all {
        node.frame(SILENT, CatFrame::tx(tx.clone()));
        node.millis(1_000);
    }
    assert!(all.iter().all(|tx| node.has(tx)));
}

/// One that has answered nothing yet has one frame of keys to show that it does.
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

/// What waits for a new peer that turns out to be silent goes to others as soon as that is known.
#[test]
fn what_waits_for_a_silent_peer_moves_on() {
    let mut node = node(3);
    serve(&mut node, HONEST, 1_000);
    let (first, second) = (tx(1, 50), tx(2, 50));
    announce(&mut node, SILENT, &first);
    announce(&mut node, SILENT, &second);
    assert_eq!(node.wants(SILENT), [first.key()]);
    announce(&mut node, HONEST, &first);
    // As long as the slowest of those that have answered: 1 ms, and 200 ms of slack.
    node.millis(200);
    assert_eq!(node.wants(HONEST), []);
    node.millis(2);
    assert_eq!(node.wants(HONEST), [first.key()]);
    announce(&mut node, 2, &second);
    assert_eq!(node.wants(2), [second.key()]);
    assert_eq!(node.metrics().early_timeouts, 0);
}

/// A long good record survives single losses: nothing is held back.
#[test]
fn single_timeouts_cost_no_place() {
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
    assert_eq!(node.metrics().held_back, 0);
}

/// Now and then it is asked for what is here already, ever more rarely: nothing waits for that.
#[test]
fn probes_cost_nobody_anything() {
    let mut node = node(2);
    disappoint(&mut node, 0);
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
    // After 1, 2, 4, ... 64 s; a probe itself takes up to a second until it has failed.
    assert!((6..=9).contains(&probes.len()), "{probes:?}");
    let gaps: Vec<u64> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.last().is_some_and(|gap| (64..=67).contains(gap)), "{gaps:?}");
}

/// Four answers to probes, and it is asked first again.
#[test]
fn a_peer_that_answers_again_gets_its_place_back() {
    let mut node = node(2);
    disappoint(&mut node, 0);
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

/// Garbage counts as what it is, before any timeout.
#[test]
fn garbage_costs_the_place_at_once() {
    let mut node = node(2);
    node.frame(SILENT, CatFrame::tx(invalid(1, 50)));
    announce(&mut node, SILENT, &tx(1, 50));
    assert_eq!(node.wants(SILENT), []);
    assert_eq!(node.metrics().held_back, 1);
    // What was asked for and is invalid here says nothing about its sender.
    let invalid = invalid(2, 50);
    announce(&mut node, HONEST, &invalid);
    assert_eq!(node.wants(HONEST), [invalid.key()]);
    node.frame(HONEST, CatFrame::tx(invalid));
    announce(&mut node, HONEST, &tx(2, 50));
    assert_eq!(node.wants(HONEST), [tx(2, 50).key()]);
}

/// A peer that does not deliver cannot make a node wait for a push by naming a neighbour; others can.
#[test]
fn hints_of_a_bad_peer_are_not_believed() {
    let mut node = node(3);
    disappoint(&mut node, 0);
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

/// What is announced again and again, or not at all there, fills no queue without end.
#[test]
fn queues_of_what_waits_are_bounded() {
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
    assert!(node.metrics().requested_txs < 200, "{} requests", node.metrics().requested_txs);
}
