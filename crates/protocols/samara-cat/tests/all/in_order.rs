//! Our pool before an application that accepts the transactions of a signer in the order of their
//! sequence numbers only, among peers of several generations.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::net::{Delay, Net};
use crate::node::Node;
use crate::{App, content, signed, signer};
use samara_cat::config::Sequences;
use samara_cat::wire::{SeenDetails, SeenTx};
use samara_cat::{CatFrame, Config, Event, Ignored, Preset, Transaction, TxKey};
use samara_engine::Time;

const OWNER: u64 = 7;

fn app() -> App {
    App { sequences: Some(BTreeMap::new()), ..App::default() }
}

fn with(change: impl FnOnce(&mut Sequences), protocol: &str, peers: u32) -> Node {
    let mut config = Config::default();
    change(config.sequences.as_mut().unwrap());
    let mut node = Node::with(config, app());
    (0..peers).for_each(|peer| node.connect(peer, protocol));
    node
}

fn node(protocol: &str, peers: u32) -> Node {
    with(|_| (), protocol, peers)
}

fn key(sequence: u64) -> TxKey {
    signed(OWNER, sequence).key()
}

fn keys(sequences: impl IntoIterator<Item = u64>) -> Vec<TxKey> {
    sequences.into_iter().map(key).collect()
}

fn seen_as(key: TxKey, sequence: u64) -> CatFrame {
    SeenTx { key, details: Some(SeenDetails { from: None, sequence, signer: Some(signer(OWNER)) }) }.into()
}

fn seen(sequence: u64) -> CatFrame {
    seen_as(key(sequence), sequence)
}

fn body(sequence: u64) -> CatFrame {
    CatFrame::tx(signed(OWNER, sequence))
}

fn added(node: &Node) -> Vec<TxKey> {
    let keys = node.events.iter().filter_map(|event| match event {
        Event::Added { key, .. } => Some(*key),
        _ => None,
    });
    keys.collect()
}

// ---- requests ----

/// Announcements behind a gap wait. Those after the expected one are requested together, and their
/// bodies are added in order, whichever comes first.
#[test]
fn announced_transactions_are_requested_when_their_turn_comes() {
    let mut node = node("cat/3", 1);
    [2, 1, 3, 5].into_iter().for_each(|sequence| node.frame(0, seen(sequence)));
    assert_eq!(node.wants(0), []);
    node.frame(0, seen(0));
    assert_eq!(node.wants(0), [key(0)]);
    node.frame(0, body(0));
    assert_eq!(node.wants(0), keys([1, 2, 3]));
    [3, 2, 1].into_iter().for_each(|sequence| node.frame(0, body(sequence)));
    assert_eq!(added(&node), keys(0..4), "the fifth one still waits for the fourth");
    assert_eq!(node.wants(0), []);
    assert_eq!(node.engine.buffered(), (0, 0));
}

/// The unknown sequence number, and the one of a signer that the application does not know, hold
/// nothing back.
#[test]
fn transactions_without_account_are_requested_at_once() {
    let mut node = Node::new(Config::default());
    node.connect(0, "cat/3");
    node.frame(0, seen(8));
    assert_eq!(node.wants(0), [key(8)]);
    node.frame(0, CatFrame::tx(signed(OWNER, 8)));
    assert!(node.has(&signed(OWNER, 8)));
}

/// A peer that states a false number for a transaction of others delays nothing.
#[test]
fn contradicting_announcements_delay_nothing() {
    let mut node = node("cat/3", 2);
    node.frame(0, seen_as(key(0), 9));
    assert_eq!(node.wants(0), []);
    node.frame(1, seen(0));
    assert_eq!(node.wants(1), [key(0)]);
    let mut node = self::node("cat/3", 2);
    node.frame(0, seen_as(key(1), 9));
    node.frame(1, seen(1));
    assert_eq!(node.wants(1), [key(1)], "one of them is wrong, so the body decides");
    // Another transaction with the same number does not end the search either.
    node.frame(1, body(1));
    let forged = content(crate::Kind::Valid, OWNER + 1, 0, 64).key();
    let mut node = self::node("cat/3", 2);
    node.frame(0, seen_as(forged, 1));
    node.frame(1, seen(1));
    node.frame(1, seen(0));
    node.frame(1, body(0));
    assert_eq!((node.wants(0), node.wants(1)), (vec![forged], keys([0, 1])));
}

// ---- bodies that come too early ----

/// Between our pools nothing announces sequence numbers, so bodies come in any order.
#[test]
fn bodies_are_added_in_order() {
    let mut node = node("cat/2", 2);
    for sequence in [3, 1, 4, 2] {
        node.frame(0, body(sequence));
    }
    assert_eq!((added(&node), node.engine.buffered()), (vec![], (4, 4 * 64)));
    // A body that waits is not requested from others.
    node.frame(1, crate::node::seen(&keys([3])));
    assert_eq!(node.wants(1), []);
    node.frame(1, body(0));
    assert_eq!((added(&node), node.engine.buffered()), (keys(0..5), (0, 0)));
    assert_eq!(node.metrics().ignored(Ignored::TooFarAhead), 0);
}

/// The number of one peer's waiting bodies is limited, and the others are requested again when their
/// turn comes.
#[test]
fn a_peer_has_a_limited_number_of_waiting_bodies() {
    let mut node = with(|rules| rules.buffered_per_peer_max = 3, "cat/2", 1);
    (1..=5).for_each(|sequence| node.frame(0, body(sequence)));
    assert_eq!((node.engine.buffered().0, node.metrics().ignored(Ignored::TooFarAhead)), (3, 2));
    node.frame(0, body(0));
    assert_eq!(added(&node), keys(0..4));
    assert_eq!(node.wants(0), keys([4]));
    node.frame(0, body(4));
    node.frame(0, body(5));
    assert_eq!(added(&node), keys(0..6));
}

/// So is their size, of one peer and of all, including those that have left.
#[test]
fn waiting_bodies_have_a_limited_size() {
    let mut node = with(|rules| rules.buffered_bytes_per_peer = 200, "cat/2", 2);
    (1..=4).for_each(|sequence| node.frame(0, body(sequence)));
    assert_eq!((node.engine.buffered(), node.metrics().ignored(Ignored::TooFarAhead)), ((3, 192), 1));
    node.frame(1, body(4));
    assert_eq!(node.engine.buffered(), (4, 256), "the others have room of their own");

    let mut node = with(|rules| rules.buffered_bytes = 200, "cat/2", 1);
    for round in 0..5u64 {
        for sequence in 1..=4 {
            node.frame(0, CatFrame::tx(signed(round, sequence)));
        }
        node.disconnect(0);
        node.connect(0, "cat/2");
    }
    assert_eq!(node.engine.buffered(), (3, 192), "a peer that returns gets no more room");
}

/// Bodies far ahead of their turn are dropped, whatever the room.
#[test]
fn a_body_far_ahead_is_dropped() {
    let mut node = node("cat/2", 1);
    let most = Preset::Cat.config().sequences.unwrap().ahead_max;
    node.frame(0, body(most + 1));
    assert_eq!((node.engine.buffered().0, node.metrics().ignored(Ignored::TooFarAhead)), (0, 1));
    node.frame(0, body(most));
    assert_eq!(node.engine.buffered().0, 1);
}

/// Bodies whose gap does not close are dropped after two minutes, and their peer has room again.
#[test]
fn waiting_bodies_have_a_deadline() {
    let mut node = with(|rules| rules.buffered_per_peer_max = 2, "cat/2", 1);
    [1, 2].into_iter().for_each(|sequence| node.frame(0, body(sequence)));
    let ttl = Config::default().limits.seen_ttl;
    node.millis(ttl.as_millis() as u64 - 1_000);
    assert_eq!(node.engine.buffered(), (2, 128));
    node.millis(ttl.as_millis() as u64 + 1_000);
    assert_eq!(node.engine.buffered(), (0, 0));
    assert_eq!(node.metrics().ignored(Ignored::GapOverdue), 2);
    node.frame(0, body(3));
    assert_eq!(node.engine.buffered().0, 1);
}

/// A block that uses the numbers of waiting bodies ends their wait.
#[test]
fn a_block_ends_the_wait_of_used_numbers() {
    let mut node = node("cat/2", 1);
    (2..=4).for_each(|sequence| node.frame(0, body(sequence)));
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 4);
    node.commit(1, &keys(0..3));
    assert_eq!((added(&node), node.engine.buffered()), (keys([4]), (0, 0)));
    assert_eq!(node.metrics().ignored(Ignored::StaleSequence), 2);
}

/// The announcements of a signer that wait are limited; those with the highest numbers go first.
#[test]
fn a_signer_has_a_limited_number_of_waiting_announcements() {
    let mut node = with(|rules| rules.pending_per_signer_max = 3, "cat/3", 1);
    [5, 4, 3, 2, 1].into_iter().for_each(|sequence| node.frame(0, seen(sequence)));
    assert_eq!(node.metrics().ignored(Ignored::SeenSignerFull), 2);
}

// ---- announcements ----

fn submitted(count: u64) -> Node {
    let mut node = node("cat/3", 1);
    (0..count).for_each(|sequence| node.submit(&signed(OWNER, sequence)));
    node.millis(200);
    node
}

/// A peer of 2025 forgets what it needs next if it hears of too much at once.
#[test]
fn announcements_follow_the_requests_of_a_peer() {
    let mut node = submitted(100);
    assert_eq!(node.announced(0), keys(0..32));
    node.frame(0, CatFrame::want(key(0)));
    assert_eq!(node.announced(0), keys([32]));
    // A request for a later one shows that the peer has the earlier ones.
    node.frame(0, CatFrame::want(key(9)));
    assert_eq!(node.announced(0), keys(33..42));
    // So does an announcement.
    node.frame(0, seen(19));
    assert_eq!(node.announced(0), keys(42..52));
    // Other signers have windows of their own.
    node.submit(&signed(OWNER + 1, 0));
    node.millis(400);
    assert_eq!(node.announced(0), [signed(OWNER + 1, 0).key()]);
    node.commit(1, &keys(0..30));
    assert_eq!(node.announced(0), keys(52..62), "a block ends what it has");
}

/// A window that does not move for a second moves by itself: the peer has the transactions from
/// elsewhere.
#[test]
fn announcements_go_on_without_requests() {
    let mut node = submitted(70);
    assert_eq!(node.announced(0), keys(0..32));
    node.millis(1_000);
    assert_eq!(node.announced(0), keys(32..64));
    node.millis(1_000);
    assert_eq!(node.announced(0), keys(64..70));
    node.millis(3_000);
    assert_eq!(node.announced(0), []);
    // The peer may have lost them, so all are announced again after 4, 8, 16 seconds.
    node.millis(4_000);
    assert_eq!(node.announced(0), keys(0..70));
    node.millis(6_000);
    assert_eq!(node.announced(0), []);
    node.millis(5_000);
    assert_eq!(node.announced(0), keys(0..70));
    node.commit(1, &keys(0..70));
    node.millis(100_000);
    assert_eq!((node.announced(0), node.engine.scheduled()), (vec![], 0), "a block ends it");
}

/// A peer that has lost announcements gets all that it lacks once it requests one of them.
#[test]
fn lost_announcements_are_repeated() {
    let mut node = submitted(70);
    node.millis(3_000);
    assert_eq!(node.announced(0), keys(0..70));
    node.frame(0, CatFrame::want(key(9)));
    assert_eq!(node.announced(0), keys(10..42));
    node.frame(0, CatFrame::want(key(10)));
    assert_eq!(node.announced(0), [key(42)]);
}

/// A new peer gets the whole pool in this way.
#[test]
fn a_new_peer_gets_the_pool_in_order() {
    let mut node = node("cat/2", 1);
    (0..100).rev().for_each(|sequence| node.frame(0, body(sequence)));
    node.connect(5, "cat/3");
    let mut heard = node.announced(5);
    for sequence in 0..100 {
        node.frame(5, CatFrame::want(key(sequence)));
        heard.extend(node.announced(5));
    }
    assert_eq!(heard, keys(0..100));
}

// ---- networks ----

/// Our pools among those of 2025, in a sparse network. Half of the nodes join when all transactions
/// are submitted.
#[test]
fn ours_keeps_the_order_among_pools_of_2025() {
    for seed in 0..3 {
        let mut net = Net::new(seed, Delay::millis(1, 20));
        let configs = [Preset::Cat, Preset::Cat2025];
        (0..12).for_each(|host| _ = net.honest(configs[host % 2].config(), app()));
        // A ring; the nodes from the sixth on join later, each to one of ours.
        (0..6).for_each(|host| net.connect(host, (host + 1) % 6));
        for owner in 0..4u64 {
            for sequence in 0..150 {
                let at = Time::from_millis(10 * sequence + owner);
                net.submit(at, owner as u32, &signed(owner, sequence));
            }
        }
        net.run_until(Time::from_secs(2));
        (6..12).for_each(|host| net.connect(host, 2 * (host % 3)));
        net.run_until(Time::from_secs(120));
        let refused = net.sum(|metrics| metrics.ignored(Ignored::SeenSignerFull));
        assert_eq!(net.missing(&net.all_honest()), [], "seed {seed}, {refused} announcements displaced");
        assert!(net.copies() <= 1.02, "{} copies", net.copies());
    }
}

/// Only ours, with an application that needs the order.
#[test]
fn ours_keeps_the_order_among_ours() {
    for seed in 0..3 {
        let mut net = Net::new(seed, Delay::millis(1, 100));
        (0..20).for_each(|_| _ = net.honest(Config::default(), app()));
        net.connect_randomly(5);
        for owner in 0..5u64 {
            for sequence in 0..200 {
                let at = Time::from_millis(5 * sequence + owner);
                net.submit(at, owner as u32, &signed(owner, sequence));
            }
        }
        net.run_until(Time::from_secs(60));
        net.assert_all_delivered();
        assert!(net.copies() <= 1.02, "{} copies", net.copies());
    }
}

/// Larger bodies than the buffer takes at once arrive all the same.
#[test]
fn a_small_buffer_costs_time_and_no_transaction() {
    let mut config = Config::default();
    let rules = config.sequences.as_mut().unwrap();
    (rules.buffered_bytes_per_peer, rules.buffered_bytes) = (2_000, 4_000);
    let mut net = Net::new(1, Delay::millis(1, 100));
    (0..10).for_each(|_| _ = net.honest(config.clone(), app()));
    net.connect_randomly(4);
    let txs: Vec<Transaction> =
        (0..60).map(|sequence| content(crate::Kind::Valid, 1, sequence, 700)).collect();
    txs.iter().for_each(|tx| net.submit(Time::ZERO, 0, tx));
    net.run_until(Time::ZERO + Duration::from_secs(60));
    net.assert_all_delivered();
}
