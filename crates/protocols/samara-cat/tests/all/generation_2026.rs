//! The invariants that the test suite of celestia-core gained with sequences, sticky peers and
//! limits (`reactor_test.go`, `reactor_sequence_test.go`, `sticky_peers_test.go`, `cache_test.go`
//! at dda8d507), under their names.

use std::collections::BTreeMap;

use crate::net::{Delay, Net};
use crate::node::Node;
use crate::{App, identity, signed, signer, tx};
use samara_cat::pool::Signer;
use samara_cat::wire::{SeenDetails, SeenTx};
use samara_cat::{CatFrame, Config, Event, Ignored, Misbehaviour, Preset, Transaction, TxKey};
use samara_engine::{LinkRequest, PeerId, Time};

const OWNER: u64 = 7;

fn app() -> App {
    App { sequences: Some(BTreeMap::new()), ..App::default() }
}

fn with(config: Config, peers: u32) -> Node {
    let mut node = Node::with(config, app());
    (0..peers).for_each(|peer| node.connect(peer, "cat/3"));
    node
}

fn node(peers: u32) -> Node {
    with(Preset::Cat2026.config(), peers)
}

fn seen_by(key: TxKey, sequence: u64, signer: Option<Signer>) -> CatFrame {
    SeenTx { key, details: Some(SeenDetails { from: None, sequence, signer }) }.into()
}

fn seen(sequence: u64) -> CatFrame {
    seen_by(signed(OWNER, sequence).key(), sequence, Some(signer(OWNER)))
}

fn key(sequence: u64) -> TxKey {
    signed(OWNER, sequence).key()
}

fn body(sequence: u64) -> CatFrame {
    CatFrame::tx(signed(OWNER, sequence))
}

/// `TestReactorDropsUnrequestedTx`: the sender counts as having the transaction.
#[test]
fn reactor_drops_unrequested_tx() {
    let mut node = node(1);
    node.frame(0, body(0));
    assert!(!node.has(&signed(OWNER, 0)));
    assert!(node.engine.has_seen(PeerId(0), &key(0)));
    assert_eq!(node.metrics().ignored(Ignored::Unrequested), 1);
}

/// `TestReactorSequenceValidation`: the node requests the expected transaction, queues a later one,
/// and drops an earlier one.
#[test]
fn reactor_sequence_validation() {
    let mut node = node(1);
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 5);
    (4..7).for_each(|sequence| node.frame(0, seen(sequence)));
    assert_eq!(node.wants(0), [key(5)]);
    assert_eq!(node.metrics().ignored(Ignored::SeenStaleSequence), 1);
    node.frame(0, body(5));
    assert_eq!(node.wants(0), [key(6)]);
}

/// `TestReactorDropsStaleSequenceTx`: the sequence number was used while the body was in flight.
#[test]
fn reactor_drops_stale_sequence_tx() {
    let mut node = node(2);
    (0..4).for_each(|sequence| node.frame(0, seen(sequence)));
    node.frame(0, body(0));
    assert_eq!(node.take(0).len(), 4, "consecutive transactions are requested at once");
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 3);
    node.frame(0, body(2));
    assert!(!node.has(&signed(OWNER, 2)));
    assert_eq!(node.metrics().ignored(Ignored::StaleSequence), 1);
}

/// `TestReactorRequestsQueuedTxAfterSequenceBecomesAvailable`: a block closes the gap.
#[test]
fn reactor_requests_queued_tx_after_sequence_becomes_available() {
    let mut node = node(1);
    node.frame(0, seen(2));
    assert_eq!(node.wants(0), []);
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 2);
    node.commit(1, &[key(0), key(1)]);
    assert_eq!(node.wants(0), [key(2)]);
}

/// `TestProcessPendingSeenForSigner...`: consecutive transactions are requested in parallel, up to
/// the gap, within the limit, and without those in the pool.
#[test]
fn process_pending_seen_for_signer() {
    let mut node = node(1);
    for sequence in (1..=40).chain(42..45) {
        node.frame(0, seen(sequence));
    }
    node.frame(0, seen(0));
    assert_eq!(node.wants(0), [key(0)]);
    node.frame(0, body(0));
    // 30 at a time, all from the one peer that has them.
    let expected: Vec<TxKey> = (1..=30).map(key).collect();
    assert_eq!(node.wants(0), expected);
    for sequence in 1..=40 {
        node.frame(0, body(sequence));
    }
    assert!((0..=40).all(|sequence| node.has(&signed(OWNER, sequence))));
    assert!(
        !node.wants(0).iter().any(|wanted| (42..45).any(|sequence| *wanted == key(sequence))),
        "requests stop at a gap"
    );
}

/// `received_buffer_test.go`: bodies that arrive too early are kept, and added in order.
#[test]
fn received_buffer_applies_in_order() {
    let mut node = node(3);
    (0..10).for_each(|sequence| node.frame((sequence % 3) as u32, seen(sequence)));
    node.frame(0, body(0));
    for sequence in (1..10).rev() {
        node.frame((sequence % 3) as u32, body(sequence));
        assert_eq!(node.has(&signed(OWNER, sequence)), sequence == 1);
    }
    assert!((0..10).all(|sequence| node.has(&signed(OWNER, sequence))));
    let added: Vec<TxKey> = node
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Added { key, .. } => Some(*key),
            _ => None,
        })
        .collect();
    assert_eq!(added, (0..10).map(key).collect::<Vec<_>>());
}

/// Bodies behind a gap that does not close are dropped with their keys, and their sender has room for
/// others.
#[test]
fn received_buffer_drops_what_waits_too_long() {
    let mut node = node(1);
    (0..=31).for_each(|sequence| node.frame(0, seen(sequence)));
    node.frame(0, body(0));
    let behind_the_gap = 2..=30;
    behind_the_gap.clone().for_each(|sequence| node.frame(0, body(sequence)));
    let ttl = Preset::Cat2026.config().limits.seen_ttl;
    node.millis(ttl.as_millis() as u64 - 1);
    let ignored =
        |node: &Node| [Ignored::GapOverdue, Ignored::TooFarAhead].map(|cause| node.metrics().ignored(cause));
    assert_eq!(ignored(&node), [0, 0]);
    node.millis(ttl.as_millis() as u64);
    assert_eq!(ignored(&node), [29, 0]);
    // The gap closes too late for them.
    (1..=31).for_each(|sequence| node.frame(0, seen(sequence)));
    node.frame(0, body(1));
    assert!(node.has(&signed(OWNER, 1)) && !node.has(&signed(OWNER, 2)));
    // A peer may have 30 of them in the buffer.
    (3..=31).for_each(|sequence| node.frame(0, body(sequence)));
    assert_eq!(ignored(&node), [29, 0]);
    node.frame(0, body(2));
    assert!((1..=31).all(|sequence| node.has(&signed(OWNER, sequence))));
}

/// `TestPendingSeenClearedOnPeerRemoval`, `TestPendingSeenDroppedWhenSequenceAdvances`:
/// transactions that no peer has, or that are no longer needed, are not requested.
#[test]
fn pending_seen_is_cleared() {
    let mut node = node(2);
    node.frame(0, seen(1));
    node.frame(0, seen(2));
    node.frame(1, seen(2));
    node.disconnect(0);
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 1);
    node.commit(1, &[]);
    assert_eq!(node.wants(1), [key(2)], "no peer has the one before it, which may arrive from elsewhere");
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 9);
    node.commit(2, &[]);
    assert_eq!(node.wants(1), []);
}

/// `TestRequestTimeoutDropsUnresponsivePeerAndAsksAnother`, `TestTimedOutPeerCannotBeReAdded`.
#[test]
fn request_timeout_drops_unresponsive_peer_and_asks_another() {
    let mut node = node(2);
    (0..2).for_each(|peer| node.frame(peer, seen(0)));
    assert_eq!(node.wants(0), [key(0)]);
    node.millis(20_001);
    assert_eq!(node.wants(1), [key(0)]);
    assert!(!node.engine.has_seen(PeerId(0), &key(0)));
    node.frame(0, seen(0));
    node.millis(20_001);
    assert_eq!(node.wants(0), [], "its slot is taken as long as a late answer may arrive");
}

/// `TestLateResponseDoesNotClobberRerequest`.
#[test]
fn late_response_does_not_clobber_rerequest() {
    let mut node = node(2);
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 0);
    (0..2).for_each(|peer| node.frame(peer, seen(0)));
    node.millis(20_001);
    assert_eq!(node.engine.asked(&key(0)), Some(PeerId(1)));
    // The late answer is not added, because a block has used the sequence number meanwhile.
    node.engine.application_mut().sequences.as_mut().unwrap().insert(OWNER, 1);
    node.frame(0, body(0));
    assert_eq!(node.engine.asked(&key(0)), Some(PeerId(1)));
}

/// `TestTryRequestQueuedTxRespectsPerPeerLimit`, `TestSeenTxDirectPathEnforcesPerPeerRequestLimit`,
/// `TestReactorSeenTxAtPeerCapacityIsQueued`, `TestReactorFindNewPeerSkipsFullPeer`: a peer gets 30
/// requests; the next one waits, or goes to another peer.
#[test]
fn per_peer_limit() {
    let mut node = node(2);
    for owner in 0..40 {
        node.frame(0, seen_by(signed(owner, 0).key(), 0, Some(signer(owner))));
    }
    assert_eq!(node.wants(0).len(), 30);
    let waits = signed(35, 0).key();
    node.frame(1, seen_by(waits, 0, Some(signer(35))));
    assert_eq!(node.wants(1), [waits]);
    node.frame(0, CatFrame::tx(signed(0, 0)));
    assert_eq!(node.wants(0), [signed(30, 0).key()], "an answer makes room");
}

/// `TestReactorSeenTxDuringFailedSendIsNotLost`, `TestReactorFailedSendFallsBackToOtherSeenPeer`,
/// `TestRequestTxRollsBackReservationOnFailedSend`, `TestRequestTxReservesBeforeSending`: a full
/// queue moves the request to another peer.
#[test]
fn failed_send_falls_back_to_other_seen_peer() {
    let mut config = Preset::Cat2026.config();
    config.sending.lanes[1].capacity.copies = 1;
    let mut node = with(config, 2);
    // Both peers announce it, but the queue to peer 0 is full.
    node.frame(0, seen_by(signed(1, 0).key(), 0, Some(signer(1))));
    node.frame(1, seen_by(signed(2, 0).key(), 0, Some(signer(2))));
    let contested = signed(3, 0).key();
    node.frame(0, seen_by(contested, 0, Some(signer(3))));
    assert_eq!(node.engine.asked(&contested), None, "the node does not wait for a peer that it did not ask");
    assert!(!node.engine.has_seen(PeerId(0), &contested));
    node.wants(1);
    node.frame(1, seen_by(contested, 0, Some(signer(3))));
    assert_eq!((node.wants(1), node.engine.asked(&contested)), (vec![contested], Some(PeerId(1))));
}

fn banned(frame: CatFrame, why: Misbehaviour) {
    let mut node = node(1);
    node.frame(0, frame);
    assert_eq!(node.links, [LinkRequest::Close(PeerId(0))]);
    assert!(node.events.contains(&Event::Misbehaved { peer: PeerId(0), why }));
}

/// `TestTxsWithTooManyTxsBansPeer`, `TestTxsBatchBansPeer`, `TestTxsWithEmptyTxBansPeer`,
/// `TestSeenTxWithEmptySignerDisconnects`. The codec rejects signers that are too long.
#[test]
fn misbehaviour_disconnects() {
    banned(CatFrame::txs(vec![tx(1, 20), tx(2, 20)]), Misbehaviour::TooManyTxs);
    banned(CatFrame::tx(Transaction::new(Vec::new())), Misbehaviour::EmptyTx);
    banned(CatFrame::txs(Vec::new()), Misbehaviour::EmptyTx);
    banned(CatFrame::seen(key(0)), Misbehaviour::MissingSigner);
}

/// `TestSeenTxWithValidSignerNotBanned`.
#[test]
fn seen_tx_with_valid_signer_not_banned() {
    let mut node = node(1);
    node.frame(0, seen(0));
    assert!(node.links.is_empty());
}

/// `TestBroadcastSeenTx...`: 15 peers, the same for every transaction of a signer, and up to 4
/// persistent ones beyond them. A peer counts as having a transaction once it was announced to it.
#[test]
fn sticky_peers() {
    let announced_to = |persistent: std::ops::Range<u32>, sequences: std::ops::Range<u64>| -> Vec<Vec<u32>> {
        let config = Config {
            persistent: persistent.map(|peer| identity(peer + 1)).collect(),
            ..Preset::Cat2026.config()
        };
        let mut node = with(config, 40);
        sequences
            .map(|sequence| {
                node.submit(&signed(OWNER, sequence));
                (0..40).filter(|peer| !node.announced(*peer).is_empty()).collect()
            })
            .collect()
    };
    let natural = announced_to(0..0, 0..3);
    assert_eq!(natural[0].len(), 15);
    assert!(natural.iter().all(|peers| *peers == natural[0]), "the choice is stable");
    let with_persistent = announced_to(0..40, 0..1);
    assert_eq!(with_persistent[0].len(), 15, "persistent peers among the first 15 count towards the four");
    let outside: Vec<u32> = (0..40).filter(|peer| !natural[0].contains(peer)).collect();
    let some = announced_to(outside[0]..outside[0] + 1, 0..1);
    assert_eq!(some[0].len(), 16);
    assert!(some[0].contains(&outside[0]) && natural[0].iter().all(|peer| some[0].contains(peer)));
}

/// `TestSeenTracker...`: 1,000 keys per peer; per signer the 1,000 waiting transactions with the
/// lowest numbers.
#[test]
fn seen_tracker_limits() {
    let mut node = node(2);
    (1..=1_200).for_each(|sequence| node.frame(0, seen(sequence)));
    assert_eq!(node.metrics().ignored(Ignored::SeenPeerFull), 200);
    assert!(node.engine.keys() <= 1_200);
    (1..=1_200).rev().for_each(|sequence| node.frame(1, seen(sequence)));
    node.frame(0, seen(0));
    node.frame(1, seen(0));
    assert_eq!(node.wants(0), [key(0)]);
}

/// All transactions of a signer reach all nodes in order, although announcements overtake each
/// other.
#[test]
fn transactions_of_a_signer_reach_all_nodes_in_order() {
    for seed in 0..5 {
        let mut net = Net::new(seed, Delay::millis(1, 100));
        (0..20).for_each(|_| _ = net.honest(Preset::Cat2026.config(), app()));
        net.connect_randomly(5);
        for owner in 0..5 {
            for sequence in 0..40u64 {
                let at = Time::from_millis(20 * sequence + owner);
                net.submit(at, owner as u32, &signed(owner, sequence));
            }
        }
        net.run_until(Time::from_secs(60));
        net.assert_all_delivered();
        // A buffered transaction is not in the pool, so an announcement can cause another request,
        // as in celestia-core.
        assert!(net.copies() <= 1.05, "{} copies", net.copies());
    }
}
