//! The invariants of `mempool/cat` of celestia-core v0.39.10 (`reactor_test.go`, `pending_test.go`),
//! where they differ from those of its predecessors and of 2026.

use std::collections::BTreeMap;

use crate::net::{Delay, Net};
use crate::node::Node;
use crate::{App, signed, signer, tx};
use samara_cat::wire::{SeenDetails, SeenTx};
use samara_cat::{CatFrame, Ignored, Preset, TxKey};
use samara_engine::Time;

const OWNER: u64 = 7;

fn app() -> App {
    App { sequences: Some(BTreeMap::new()), ..App::default() }
}

fn node(peers: u32) -> Node {
    let mut node = Node::with(Preset::Cat2025.config(), app());
    (0..peers).for_each(|peer| node.connect(peer, "cat/3"));
    node
}

fn key(sequence: u64) -> TxKey {
    signed(OWNER, sequence).key()
}

fn seen(sequence: u64) -> CatFrame {
    let details = SeenDetails { from: None, sequence, signer: Some(signer(OWNER)) };
    SeenTx { key: key(sequence), details: Some(details) }.into()
}

fn body(sequence: u64) -> CatFrame {
    CatFrame::tx(signed(OWNER, sequence))
}

/// `TestReactorProcessesQueuedSeenTx...`: one transaction of a signer at a time, although the next
/// ones are announced.
#[test]
fn transactions_of_a_signer_are_requested_one_by_one() {
    let mut node = node(2);
    (0..5).for_each(|sequence| node.frame((sequence % 2) as u32, seen(sequence)));
    for sequence in 0..5 {
        let asked = (sequence % 2) as u32;
        assert_eq!((node.wants(asked), node.wants(1 - asked)), (vec![key(sequence)], vec![]));
        node.frame(asked, body(sequence));
        assert!(node.has(&signed(OWNER, sequence)));
    }
}

/// An announcement without signer is requested at once, and no misbehaviour.
#[test]
fn announcements_without_signer_are_requested() {
    let mut node = node(1);
    node.frame(0, CatFrame::seen(key(9)));
    assert_eq!(node.wants(0), [key(9)]);
    assert!(node.links.is_empty());
}

/// A transaction without signer is announced to no peer that would take that for misbehaviour, and the
/// node counts it.
#[test]
fn keys_without_signer_are_counted() {
    let mut node = Node::with(Preset::Cat.config(), App { unsigned: true, ..App::default() });
    (0..2).for_each(|peer| node.connect(peer, "cat/3"));
    node.submit(&tx(1, 100));
    node.millis(500);
    assert_eq!((node.announced(0), node.announced(1), node.bodies(0)), (vec![], vec![], vec![]));
    assert_eq!((node.metrics().unsigned_keys, node.metrics().announced_keys), (2, 0));
}

/// `TestPendingSeenTracker_Limit`: 64 announcements of a signer wait; one more displaces the one that
/// arrived first.
#[test]
fn the_oldest_of_too_many_announcements_is_lost() {
    let mut node = node(1);
    (1..=65).for_each(|sequence| node.frame(0, seen(sequence)));
    assert_eq!(node.metrics().ignored(Ignored::SeenSignerFull), 1);
    node.frame(0, seen(0));
    assert_eq!(node.wants(0), [key(0)]);
    node.frame(0, body(0));
    assert_eq!(node.wants(0), [], "the next one is forgotten, so the later ones wait for ever");
    node.frame(0, seen(1));
    assert_eq!(node.wants(0), [key(1)], "unless it is announced again");
}

/// A pushed body is added, and a block does not make the node look for waiting announcements.
#[test]
fn pushes_are_accepted_and_blocks_resume_nothing() {
    let mut node = node(1);
    node.frame(0, body(0));
    assert!(node.has(&signed(OWNER, 0)));
    node.frame(0, seen(3));
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 3);
    node.commit(1, &[key(0), key(1), key(2)]);
    assert_eq!(node.wants(0), []);
    node.frame(0, seen(3));
    assert_eq!(node.wants(0), [key(3)]);
}

/// All transactions of a signer reach all nodes, and never out of order: the applications would
/// refuse them.
#[test]
fn transactions_of_a_signer_reach_all_nodes_in_order() {
    for seed in 0..5 {
        let mut net = Net::new(seed, Delay::millis(1, 20));
        (0..20).for_each(|_| _ = net.honest(Preset::Cat2025.config(), app()));
        net.connect_randomly(5);
        for owner in 0..5 {
            for sequence in 0..40u64 {
                let at = Time::from_millis(200 * sequence + owner);
                net.submit(at, owner as u32, &signed(owner, sequence));
            }
        }
        net.run_until(Time::from_secs(60));
        net.assert_all_delivered();
        assert!(net.copies() <= 1.0, "{} copies", net.copies());
    }
}
