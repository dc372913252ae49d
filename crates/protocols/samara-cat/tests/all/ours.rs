//! The behaviour of our default beyond the generations of celestia-core.

use std::sync::Arc;
use std::time::Duration;

use crate::node::{Node, seen};
use crate::{App, invalid, tx};
use samara_cat::config::{Bundles, CompactBlocks, Inline, Recipients};
use samara_cat::pool::Cause;
use samara_cat::wire::{Bundle, CompactBlock, KeyList, Kind, Member, SeenKeys};
use samara_cat::{CatFrame, Command, Config, Event, Ignored, Misbehaviour, Preset, Transaction, TxKey};
use samara_engine::{Input, LinkRequest, PeerId};

fn node(peers: u32) -> Node {
    with(default(), peers)
}

fn with(config: Config, peers: u32) -> Node {
    Node::among(peers, "cat/2", config)
}

/// The default with a shorter window of announcements, since these tests wait for many, and without
/// inline bodies, since the transactions here are short.
fn default() -> Config {
    Config { coalesce: Duration::from_millis(25), inline: Inline::Never, ..Config::default() }
}

fn keys(range: std::ops::Range<u64>) -> Vec<TxKey> {
    range.map(|number| tx(number, 50).key()).collect()
}

#[test]
fn several_keys_are_requested_in_one_frame() {
    let mut node = node(1);
    let all = keys(0..10);
    node.frame(0, seen(&all));
    assert_eq!(node.take(0), [CatFrame::want_keys(KeyList::new(all))]);
}

/// The first announcement leaves at once. Those of the next window share a frame, and each peer
/// gets only the keys that it does not have.
#[test]
fn announcements_share_a_frame() {
    let mut node = node(3);
    node.frame(0, CatFrame::tx(tx(0, 50)));
    node.millis(0);
    assert_eq!(node.announced(1), [tx(0, 50).key()]);
    (1..4).for_each(|number| node.frame(0, CatFrame::tx(tx(number, 50))));
    node.frame(2, seen(&[tx(2, 50).key()]));
    assert_eq!((node.take(1).len(), node.announced(2).len()), (0, 1));
    node.millis(25);
    let frames = node.take(1);
    assert_eq!(frames.len(), 1);
    assert_eq!(node.announced(0), []);
    assert_eq!(node.announced(2), [tx(1, 50).key(), tx(3, 50).key()]);
}

#[test]
fn received_transactions_are_not_requested_again() {
    let mut node = node(3);
    let tx = tx(1, 50);
    (0..2).for_each(|peer| node.frame(peer, seen(&[tx.key()])));
    assert_eq!(node.wants(0), [tx.key()]);
    node.frame(2, CatFrame::tx(tx.clone()));
    assert!(node.has(&tx));
    node.millis(20_000);
    assert_eq!(node.wants(1), []);
    assert_eq!((node.metrics().timeouts, node.metrics().rerequested_txs), (0, 0));
}

/// The timeout follows the response time: a peer that answers in 400 ms is not given up after 500
/// ms, a peer that answers in 1 ms is.
#[test]
fn timeout_follows_the_response_time_of_each_peer() {
    for (usual, patience) in [(1u64, 300), (400, 700)] {
        let mut node = node(2);
        for number in 0..60 {
            node.frame(0, seen(&[tx(number, 50).key()]));
            node.millis(usual);
            node.frame(0, CatFrame::tx(tx(number, 50)));
            node.millis(50);
        }
        node.take(0);
        node.take(1);
        let wanted = tx(1_000, 50).key();
        (0..2).for_each(|peer| node.frame(peer, seen(&[wanted])));
        node.millis(usual + 150);
        assert_eq!(node.wants(1), [], "{usual} ms: it may still answer");
        node.millis(patience - usual - 150);
        assert_eq!(node.wants(1), [wanted], "{usual} ms: it should have answered");
    }
}

/// A peer with a slow link that works through many requests is not overdue: later requests wait for
/// earlier ones.
#[test]
fn a_peer_that_answers_in_order_is_not_overdue() {
    let mut node = node(2);
    let all = keys(0..50);
    (0..2).for_each(|peer| node.frame(peer, seen(&all)));
    assert_eq!(node.wants(0).len(), 50);
    for number in 0..50 {
        node.millis(150);
        node.frame(0, CatFrame::tx(tx(number, 50)));
    }
    assert_eq!((node.wants(1), node.metrics().timeouts), (vec![], 0));
}

/// A peer that skips a request while it answers later ones is overdue.
#[test]
fn a_skipped_request_is_overdue() {
    let mut node = node(2);
    let all = keys(0..50);
    (0..2).for_each(|peer| node.frame(peer, seen(&all)));
    node.take(0);
    for number in 1..50 {
        node.millis(150);
        node.frame(0, CatFrame::tx(tx(number, 50)));
    }
    // The last answers took more than seven seconds, and the longest wait is ten.
    node.millis(3_000);
    assert_eq!(node.wants(1), [all[0]]);
}

#[test]
fn not_found_moves_a_request_to_another_peer_at_once() {
    let mut node = node(2);
    let key = tx(1, 50).key();
    (0..2).for_each(|peer| node.frame(peer, seen(&[key])));
    assert_eq!(node.wants(0), [key]);
    node.frame(0, CatFrame::not_found(KeyList::one(key)));
    assert_eq!(node.wants(1), [key]);
    node.frame(1, CatFrame::not_found(KeyList::one(key)));
    assert_eq!((node.metrics().not_found, node.metrics().lost_txs), (2, 1));
    node.frame(1, CatFrame::not_found(KeyList::one(key)));
    assert_eq!(node.metrics().ignored(Ignored::NotFoundUnasked), 1);
}

#[test]
fn missing_transactions_are_denied_to_peers_that_understand() {
    let mut node = node(1);
    node.connect(1, "cat/1");
    let key = tx(1, 50).key();
    node.frame(0, CatFrame::want(key));
    node.frame(1, CatFrame::want(key));
    assert_eq!(node.take(0), [CatFrame::not_found(KeyList::one(key))]);
    assert_eq!(node.take(1), []);
}

/// An announcement may name the peer that pushed the transaction. A node that is also connected to
/// that peer waits for its own push.
#[test]
fn requests_wait_for_a_push_under_way() {
    let mut announcer = node(2);
    let (first, second) = (tx(1, 50), tx(2, 50));
    announcer.frame(0, CatFrame::tx(first.clone()));
    announcer.millis(0);
    let frames = announcer.take(1);
    let [CatFrame::SeenKeys(hinted)] = &frames[..] else { panic!("{frames:?}") };
    assert!(hinted.pushed_by.is_some());
    // Peer 0 of this node has the same identity as peer 0 of the other one.
    let mut node = node(3);
    node.frame(1, CatFrame::SeenKeys(hinted.clone()));
    assert_eq!(node.wants(1), []);
    node.frame(2, seen(&[first.key()]));
    assert_eq!(node.wants(2), [], "no other peer is asked meanwhile");
    node.frame(0, CatFrame::tx(first.clone()));
    node.millis(2_000);
    assert!(node.has(&first));
    assert_eq!((node.wants(1), node.wants(2)), (vec![], vec![]));
    // If the push does not arrive, the node asks the announcer.
    let again = SeenKeys { keys: KeyList::one(second.key()), ..SeenKeys::clone(hinted) };
    node.frame(1, again.into());
    node.millis(501);
    assert_eq!(node.wants(1), [second.key()]);
}

#[test]
fn old_peers_get_frames_of_their_protocol() {
    let mut node = node(0);
    for (peer, protocol) in [(0, "cat/2"), (1, "cat/1"), (2, "txs/1"), (3, "cat/3")] {
        node.connect(peer, protocol);
    }
    let tx = tx(1, 50);
    node.frame(0, CatFrame::tx(tx.clone()));
    node.millis(0);
    assert_eq!(node.take(1), [CatFrame::seen(tx.key())]);
    // The peer learns of transactions in no other way.
    assert_eq!(node.take(2), [CatFrame::tx(tx.clone())]);
    let frames = node.take(3);
    let [CatFrame::SeenTx(seen)] = &frames[..] else { panic!("{frames:?}") };
    assert!(seen.details.as_ref().is_some_and(|details| details.signer.is_some()));
    // Extensions from peers that did not agree on them are misbehaviour.
    node.frame(1, CatFrame::not_found(KeyList::one(tx.key())));
    let why = Misbehaviour::NotNegotiated;
    assert!(node.events.contains(&Event::Misbehaved { peer: PeerId(1), why }));
    assert_eq!(node.links, [LinkRequest::Close(PeerId(1))]);
}

#[test]
fn own_transactions_are_not_pushed_to_peers_that_drop_pushes() {
    let mut node = node(0);
    node.connect(0, "cat/3");
    let tx = tx(1, 50);
    node.submit(&tx);
    node.millis(0);
    assert_eq!(node.announced(0), [tx.key()]);
}

/// A peer that repeats its requests gets a limited number of answers.
#[test]
fn repeated_requests_are_limited() {
    let mut config = default();
    config.limits.repeated_answers = 3;
    let mut node = with(config, 1);
    let tx = tx(1, 50);
    node.submit(&tx);
    node.take(0);
    for _ in 0..10 {
        node.frame(0, CatFrame::want(tx.key()));
        // A transaction that is already owed is not owed twice.
        node.frame(0, CatFrame::want(tx.key()));
        node.take(0);
    }
    assert_eq!(node.metrics().ignored(Ignored::WantOwed), 3);
    assert_eq!(node.metrics().ignored(Ignored::WantRepeated), 14);
}

/// Keys that a peer announces beyond the limits are neither remembered nor requested. Keys in the
/// pool do not count.
#[test]
fn announcements_are_limited() {
    let mut config = default();
    config.limits.unknown_per_peer = 100;
    config.requests.per_peer_max = 10;
    let mut node = with(config, 2);
    for chunk in keys(0..1_000).chunks(50) {
        node.frame(0, seen(chunk));
    }
    assert_eq!((node.engine.keys(), node.wants(0).len()), (100, 10));
    assert_eq!(node.metrics().ignored(Ignored::SeenPeerFull), 900);
    // Other peers are not affected.
    let good = tx(5_000, 50);
    node.frame(1, seen(&[good.key()]));
    assert_eq!(node.wants(1), [good.key()]);
    node.frame(1, CatFrame::tx(good.clone()));
    assert!(node.has(&good));
    // Answers make room for the waiting requests.
    node.frame(0, CatFrame::tx(tx(0, 50)));
    assert_eq!(node.wants(0).len(), 1);
    // The rest is forgotten with time.
    node.millis(400_000);
    assert!(node.engine.keys() <= 2, "{} keys", node.engine.keys());
    assert_eq!(node.engine.outstanding(), 0);
}

#[test]
fn too_many_invalid_transactions_are_misbehaviour() {
    let mut config = default();
    config.limits.invalid_bodies = 5;
    let mut node = with(config, 1);
    (0..5).for_each(|number| node.frame(0, CatFrame::tx(invalid(number, 50))));
    let refused = Event::Refused { key: invalid(0, 50).key(), from: Some(PeerId(0)), cause: Cause::Invalid };
    assert!(node.events.contains(&refused));
    assert_eq!(node.links, [LinkRequest::Close(PeerId(0))]);
    assert_eq!(node.engine.keys(), 0, "they leave no state");
}

/// During deferred validation, the transaction is not announced or requested, and copies count as
/// duplicates.
#[test]
fn deferred_validation() {
    let mut node = Node::with(default(), App { defers: true, ..App::default() });
    (0..2).for_each(|peer| node.connect(peer, "cat/2"));
    let (good, bad) = (tx(1, 50), invalid(2, 50));
    node.frame(0, CatFrame::tx(good.clone()));
    node.frame(0, CatFrame::tx(bad.clone()));
    node.frame(1, seen(&[good.key()]));
    node.frame(1, CatFrame::tx(good.clone()));
    node.millis(50);
    assert_eq!((node.take(0), node.take(1)), (vec![], vec![]));
    assert_eq!(node.metrics().settled_duplicates, 1);
    node.connect(2, "cat/2");
    for tx in [&good, &bad] {
        let verdict = App::default().verdict(tx, samara_cat::pool::CheckKind::New);
        node.handle(Input::Command(Command::Decided { key: tx.key(), verdict }));
    }
    node.millis(0);
    assert_eq!((node.announced(0), node.announced(1), node.announced(2)), (vec![], vec![], vec![good.key()]));
    assert!(node.events.contains(&Event::Added { key: good.key(), from: Some(PeerId(0)) }));
    let cause = Cause::Invalid;
    assert!(node.events.contains(&Event::Refused { key: bad.key(), from: Some(PeerId(0)), cause }));
}

#[test]
fn evicted_transactions_are_not_requested_without_room() {
    let mut config = default();
    config.pool.capacity_txs = 1;
    let mut node = Node::with(config, App { priorities: true, ..App::default() });
    (0..2).for_each(|peer| node.connect(peer, "cat/2"));
    let (low, high) = (tx(1, 50), tx(2, 50));
    node.frame(0, CatFrame::tx(low.clone()));
    node.frame(0, CatFrame::tx(high.clone()));
    assert!(node.events.contains(&Event::Evicted(low.key())) && node.has(&high));
    node.frame(1, seen(&[low.key()]));
    assert_eq!(node.wants(1), []);
    node.commit(1, &[high.key()]);
    node.frame(1, seen(&[low.key(), high.key()]));
    assert_eq!(node.wants(1), [low.key()], "there is room again; the committed one is settled");
}

/// A full queue loses no announcement: the peer gets it later.
#[test]
fn announcements_rejected_by_a_full_queue_are_sent_later() {
    let mut config = default();
    config.sending.lanes[3].capacity.copies = 1;
    let mut node = with(config, 2);
    for number in 0..3 {
        node.frame(0, CatFrame::tx(tx(number, 50)));
        node.millis(30);
    }
    assert_eq!(node.announced(1), [tx(0, 50).key()]);
    assert!(node.metrics().refused_frames > 0);
    node.millis(1_000);
    let announced = node.announced(1);
    assert!(announced.contains(&tx(1, 50).key()) && announced.contains(&tx(2, 50).key()));
}

#[test]
fn neighbourhoods_push_on_few_links_and_announce_on_the_others() {
    let config = Config { push: Recipients::Some(2), forward: Recipients::Some(2), ..default() };
    let mut node = with(config, 6);
    let own = tx(1, 50);
    node.submit(&own);
    node.millis(30);
    let frames: Vec<Vec<CatFrame>> = (0..6).map(|peer| node.take(peer)).collect();
    let pushed = |frames: &[CatFrame]| frames.iter().any(|frame| !frame.bodies().is_empty());
    assert_eq!(frames.iter().filter(|frames| pushed(frames)).count(), 2);
    assert!(frames.iter().all(|frames| frames.len() == 1), "the others get announcements");
    // Transactions from peers use the same links.
    let near: Vec<usize> = (0..6).filter(|peer| pushed(&frames[*peer])).collect();
    let far = (0..6u32).find(|peer| !near.contains(&(*peer as usize))).unwrap();
    node.frame(far, CatFrame::tx(tx(2, 50)));
    let again: Vec<usize> = (0..6).filter(|peer| !node.bodies(*peer as u32).is_empty()).collect();
    assert_eq!(again, near);
}

fn bundling() -> Config {
    let bundles = Bundles { window: Duration::from_millis(100), txs_max: 64, bytes_max: 1 << 20 };
    Config { bundles: Some(bundles), push: Recipients::Nobody, ..default() }
}

#[test]
fn bundles_are_announced_by_one_key() {
    let mut origin = with(bundling(), 1);
    origin.connect(1, "cat/1");
    let txs: Vec<Transaction> = (0..20).map(|number| tx(number, 50)).collect();
    txs.iter().for_each(|tx| origin.submit(tx));
    origin.millis(99);
    assert_eq!((origin.take(0), origin.take(1)), (vec![], vec![]));
    origin.millis(30);
    let frames = origin.take(0);
    let [CatFrame::SeenKeys(announced)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((announced.kind, announced.keys.len()), (Kind::Bundle, 1));
    assert_eq!(origin.announced(1).len(), 20, "a peer that does not know bundles gets each key");

    let mut node = with(bundling(), 2);
    node.frame(0, frames[0].clone());
    let want = node.take(0);
    let [CatFrame::WantTx(key)] = &want[..] else { panic!("{want:?}") };
    origin.frame(0, CatFrame::want(**key));
    let answer = origin.take(0);
    assert_eq!(answer.len(), 1);
    node.frame(0, answer[0].clone());
    assert!(txs.iter().all(|tx| node.has(tx)));
    // The bundle is announced as a whole.
    node.millis(30);
    assert_eq!(node.announced(1), [**key]);
    // Once a block has some of its transactions, the bundle is served without them, under the same
    // key.
    node.commit(1, &[txs[0].key(), txs[1].key()]);
    node.frame(1, CatFrame::want(**key));
    let rest = node.take(1);
    let [CatFrame::Bundle(bundle)] = &rest[..] else { panic!("{rest:?}") };
    assert_eq!(bundle.key(), **key);
    assert_eq!(bundle.members().iter().filter(|member| matches!(member, Member::Full(_))).count(), 18);
}

#[test]
fn full_bundles_are_closed_and_single_transactions_are_not_bundled() {
    let mut config = bundling();
    config.bundles = Some(Bundles { window: Duration::from_millis(100), txs_max: 3, bytes_max: 1_000 });
    let mut node = with(config, 1);
    (0..3).for_each(|number| node.submit(&tx(number, 50)));
    node.millis(30);
    assert_eq!(node.announced(0).len(), 1);
    node.submit(&tx(3, 900));
    node.submit(&tx(4, 900));
    node.millis(30);
    assert_eq!(node.announced(0), [tx(3, 900).key()], "only one of both fits");
    node.millis(200);
    assert_eq!(node.announced(0), [tx(4, 900).key()]);
    assert_eq!(node.metrics().bundles, 1);
}

fn with_blocks() -> Config {
    let blocks = CompactBlocks { kept: 2, patience: Duration::from_secs(5) };
    Config { compact_blocks: Some(blocks), ..default() }
}

fn block(height: u64, keys: Vec<TxKey>) -> CatFrame {
    CatFrame::CompactBlock(Arc::new(CompactBlock::new(height, keys)))
}

#[test]
fn compact_blocks_are_completed_and_announced() {
    let mut node = with(with_blocks(), 3);
    let txs: Vec<Transaction> = (0..4).map(|number| tx(number, 50)).collect();
    txs[..3].iter().for_each(|tx| node.frame(0, CatFrame::tx(tx.clone())));
    node.millis(30);
    (0..3).for_each(|peer| {
        node.take(peer);
    });
    let frame = block(7, txs.iter().map(Transaction::key).collect());
    let CatFrame::CompactBlock(inner) = &frame else { unreachable!() };
    let key = inner.key();
    node.frame(1, frame.clone());
    assert!(node.events.contains(&Event::Block { key, height: 7, hits: 3, misses: 1 }));
    assert_eq!(node.wants(1), [txs[3].key()]);
    node.millis(30);
    assert_eq!(node.announced(2), [], "an incomplete block is not announced");
    node.frame(1, CatFrame::tx(txs[3].clone()));
    assert!(node.events.contains(&Event::BlockComplete { key, height: 7 }));
    assert_eq!(node.announced(2), [key], "at once, without waiting for the window");
    node.frame(2, CatFrame::want(key));
    assert_eq!(node.take(2), std::slice::from_ref(&frame));
    node.frame(0, frame);
    assert_eq!(node.metrics().ignored(Ignored::BlockKnown), 1);
    assert_eq!((node.metrics().block_hits, node.metrics().block_misses), (3, 1));
}

#[test]
fn proposer_sends_keys() {
    let mut node = with(with_blocks(), 1);
    (0..3).for_each(|number| node.submit(&tx(number, 50)));
    node.take(0);
    node.handle(Input::Command(Command::Propose { height: 1, max_bytes: 120, max_gas: u64::MAX }));
    let frames = node.take(0);
    let [CatFrame::CompactBlock(block)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(block.keys(), keys(0..block.keys().len() as u64));
    assert!(!block.keys().is_empty() && block.keys().len() < 3);
    let event = Event::Proposed { key: block.key(), height: 1, txs: block.keys().len() as u32 };
    assert!(node.events.contains(&event));
}

#[test]
fn incomplete_blocks_are_given_up() {
    let mut node = with(with_blocks(), 1);
    for height in 1..=3 {
        node.frame(0, block(height, keys(100 * height..100 * height + 5)));
    }
    let given_up = |node: &Node| {
        node.events.iter().filter(|event| matches!(event, Event::BlockGivenUp { missing: 5, .. })).count()
    };
    assert_eq!(given_up(&node), 1, "two are kept");
    node.millis(5_001);
    assert_eq!(given_up(&node), 3);
    // A block of a settled height is ignored.
    node.commit(9, &[]);
    node.frame(0, block(9, keys(900..905)));
    assert_eq!(node.metrics().ignored(Ignored::BlockKnown), 1);
}

#[test]
fn unrequested_bundles_are_accepted_as_pushes() {
    let mut node = with(Preset::Cat.config(), 2);
    let txs: Vec<Transaction> = (0..3).map(|number| tx(number, 50)).collect();
    let bundle = Bundle::new(txs.iter().cloned().map(Member::Full).collect());
    let key = bundle.key();
    node.frame(0, CatFrame::Bundle(Arc::new(bundle)));
    node.millis(0);
    assert!(txs.iter().all(|tx| node.has(tx)));
    assert_eq!(node.announced(1), [key]);
}
