//! Requests that wait for a free slot of their peer leave as soon as there is one, whatever freed
//! it.

use std::time::Duration;

use proptest::prelude::*;
use samara_cat::config::{Requests, Timeout};
use samara_cat::pool::PoolConfig;
use samara_cat::wire::{Bundle, CompactBlock, KeyList, Member};
use samara_cat::{CatFrame, Config, Event, Ignored, Preset, Transaction, TxKey};

use crate::node::{Node, seen};
use crate::{App, tx};

fn txs(count: u64) -> Vec<Transaction> {
    (0..count).map(|number| tx(number, 50)).collect()
}

fn keys(txs: &[Transaction]) -> Vec<TxKey> {
    txs.iter().map(Transaction::key).collect()
}

/// Our default with this number of slots for each peer, whose peers need not prove themselves.
fn slots(per_peer_max: usize) -> Config {
    let base = Config::default();
    let compact_blocks =
        Some(samara_cat::config::CompactBlocks { kept: 4, patience: Duration::from_secs(5) });
    Config { requests: Requests { per_peer_max, standing: None, ..base.requests }, compact_blocks, ..base }
}

/// Peer 0 has one slot and has announced two transactions. Returns its node after the request for
/// the first one.
fn one_slot(peers: u32) -> (Node, Vec<Transaction>) {
    let (mut node, txs) = (Node::among(peers, "cat/2", slots(1)), txs(2));
    node.frame(0, seen(&keys(&txs)));
    assert_eq!(node.wants(0), [txs[0].key()]);
    (node, txs)
}

#[test]
fn an_answer_frees_a_slot() {
    let (mut node, txs) = one_slot(1);
    node.frame(0, CatFrame::tx(txs[0].clone()));
    assert_eq!(node.wants(0), [txs[1].key()]);
}

#[test]
fn a_denial_frees_a_slot() {
    let (mut node, txs) = one_slot(1);
    node.frame(0, CatFrame::not_found(KeyList::one(txs[0].key())));
    assert_eq!(node.wants(0), [txs[1].key()]);
}

#[test]
fn a_block_frees_a_slot() {
    let (mut node, txs) = one_slot(1);
    node.commit(1, &[txs[0].key()]);
    assert_eq!(node.wants(0), [txs[1].key()]);
}

#[test]
fn a_block_frees_slots_of_all_announcers() {
    let (mut node, txs) = (Node::among(2, "cat/2", slots(1)), txs(4));
    (0..2).for_each(|peer| node.frame(peer, seen(&keys(&txs))));
    let mut asked = [node.wants(0), node.wants(1)].concat();
    node.commit(1, &asked);
    asked.extend([node.wants(0), node.wants(1)].concat());
    asked.sort_unstable();
    let mut all = keys(&txs);
    all.sort_unstable();
    assert_eq!(asked, all);
}

#[test]
fn a_copy_from_another_peer_frees_a_slot() {
    let (mut node, txs) = one_slot(2);
    node.frame(1, CatFrame::tx(txs[0].clone()));
    assert_eq!(node.wants(0), [txs[1].key()]);
    // The late answer still counts as one.
    node.frame(0, CatFrame::tx(txs[0].clone()));
    assert_eq!(node.metrics().unrequested_bodies, 1);
}

#[test]
fn a_submission_frees_a_slot() {
    let (mut node, txs) = one_slot(1);
    node.submit(&txs[0]);
    assert_eq!(node.wants(0), [txs[1].key()]);
}

#[test]
fn a_bundle_of_another_peer_frees_a_slot() {
    let (mut node, txs) = one_slot(2);
    let bundle = Bundle::new(vec![Member::Full(txs[0].clone()), Member::Full(tx(9, 50))]);
    node.frame(1, CatFrame::Bundle(bundle.into()));
    assert_eq!(node.wants(0), [txs[1].key()]);
}

/// The request was for the block itself.
#[test]
fn a_compact_block_of_another_peer_frees_a_slot() {
    let mut node = Node::among(2, "cat/2", slots(1));
    let (block, wanted) = (CompactBlock::new(1, vec![]), tx(0, 50));
    let announcement = samara_cat::wire::SeenKeys {
        keys: KeyList::one(block.key()),
        kind: samara_cat::wire::Kind::Block,
        pushed_by: None,
    };
    node.frame(0, announcement.into());
    node.frame(0, seen(&[wanted.key()]));
    assert_eq!(node.wants(0), [block.key()]);
    node.frame(1, CatFrame::CompactBlock(block.into()));
    assert_eq!(node.wants(0), [wanted.key()]);
}

/// With the default of 256 slots and 300 announcements.
#[test]
fn all_announced_transactions_are_requested_after_a_block() {
    let (mut node, txs) = (Node::among(1, "cat/2", slots(256)), txs(300));
    keys(&txs).chunks(KeyList::MAX).for_each(|keys| node.frame(0, seen(keys)));
    let first = node.wants(0);
    assert_eq!(first.len(), 256);
    node.commit(1, &first);
    assert_eq!(node.wants(0), keys(&txs)[256..]);
}

/// In every generation that limits requests, and with the standing of peers.
#[test]
fn every_preset_wakes_its_requests() {
    for preset in Preset::ALL {
        let base = preset.config();
        let Some(protocol) = base.protocols.first().filter(|it| it.name() != "txs/1") else { continue };
        if protocol.name() == "cat/3" {
            continue;
        }
        let config = Config { requests: Requests { per_peer_max: 1, ..base.requests }, ..base.clone() };
        let (mut node, txs) = (Node::among(1, protocol.name(), config), txs(3));
        for tx in &txs {
            let details = None;
            node.frame(0, samara_cat::wire::SeenTx { key: tx.key(), details }.into());
        }
        let mut asked = node.wants(0);
        for height in 1..3 {
            node.commit(height, &asked.clone());
            asked.extend(node.wants(0));
        }
        assert_eq!(asked, keys(&txs), "{preset:?}");
    }
}

/// The remembered request of a peer that never answers holds its slot for a minute. No block or
/// other timeout is needed to end it.
#[test]
fn the_end_of_a_remembered_request_frees_its_slot() {
    let (mut node, txs) = one_slot(1);
    let stale = slots(1).requests.stale;
    node.millis(10_000);
    assert_eq!((node.metrics().timeouts, node.wants(0)), (1, vec![]));
    node.advance(stale);
    assert_eq!(node.wants(0), [txs[1].key()]);
}

/// Keys that wait for a peer which departs are requested from another one.
#[test]
fn a_departure_moves_waiting_requests() {
    let (mut node, txs) = one_slot(2);
    node.frame(1, seen(&[txs[1].key()]));
    assert_eq!(node.wants(1), [txs[1].key()]);
    let more = tx(7, 50);
    (0..2).for_each(|peer| node.frame(peer, seen(&[more.key()])));
    assert_eq!((node.wants(0), node.wants(1)), (vec![], vec![]));
    node.frame(1, CatFrame::not_found(KeyList::one(txs[1].key())));
    node.disconnect(0);
    let mut rest = node.wants(1);
    while let Some(key) = rest.pop() {
        node.frame(1, CatFrame::not_found(KeyList::one(key)));
        rest.extend(node.wants(1));
    }
    assert!(
        node.events
            .iter()
            .any(|event| *event == Event::Requested { key: more.key(), from: samara_engine::PeerId(1) })
    );
}

/// A key that was announced and never requested is counted when it is forgotten.
#[test]
fn forgotten_announcements_are_counted() {
    let base = slots(1);
    // The only request waits longer than the node remembers announcements.
    let timeout = Timeout::Fixed(2 * base.limits.seen_ttl);
    let config = Config { requests: Requests { timeout, ..base.requests }, ..base.clone() };
    let (mut node, txs) = (Node::among(1, "cat/2", config), txs(3));
    node.frame(0, seen(&keys(&txs)));
    assert_eq!(node.wants(0), [txs[0].key()]);
    node.advance(base.limits.seen_ttl + Duration::from_secs(2));
    assert_eq!(node.metrics().ignored(Ignored::SeenForgotten), 2);
    for tx in &txs[1..] {
        assert!(node.events.contains(&Event::GivenUp(tx.key())));
    }
}

/// The maximum age in time needs no block.
#[test]
fn transactions_expire_without_blocks() {
    let ttl = Duration::from_secs(10);
    let config = Config { pool: PoolConfig { ttl, ..PoolConfig::default() }, ..Config::default() };
    let mut node = Node::new(config);
    let txs = txs(2);
    node.submit(&txs[0]);
    node.millis(4_000);
    node.submit(&txs[1]);
    node.millis(6_000);
    assert!(node.has(&txs[0]), "as old as allowed");
    node.millis(1);
    assert!(!node.has(&txs[0]) && node.has(&txs[1]));
    assert!(node.events.contains(&Event::Expired(txs[0].key())));
    node.millis(4_000);
    assert!(!node.has(&txs[1]));
    assert_eq!((node.engine.pool().metrics().expired_txs, node.engine.keys()), (2, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Announce { peer: u32, first: u64, count: u64 },
    Answer { peer: u32 },
    Deny { peer: u32 },
    Push { peer: u32, number: u64 },
    Submit { number: u64 },
    Block { first: u64, count: u64 },
    Reconnect { peer: u32 },
    Wait { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (peer, number) = (0..3u32, 0..60u64);
    prop_oneof![
        4 => (peer.clone(), number.clone(), 1..12u64)
            .prop_map(|(peer, first, count)| Step::Announce { peer, first, count }),
        2 => peer.clone().prop_map(|peer| Step::Answer { peer }),
        1 => peer.clone().prop_map(|peer| Step::Deny { peer }),
        2 => (peer.clone(), number.clone()).prop_map(|(peer, number)| Step::Push { peer, number }),
        1 => number.clone().prop_map(|number| Step::Submit { number }),
        2 => (number, 1..12u64).prop_map(|(first, count)| Step::Block { first, count }),
        1 => peer.prop_map(|peer| Step::Reconnect { peer }),
        2 => prop_oneof![1..500u64, 500..20_000u64].prop_map(|millis| Step::Wait { millis }),
    ]
}

/// Three peers, among them one that speaks the protocol of 2023.
struct Random {
    node: Node,
    asked: [Vec<TxKey>; 3],
    height: u64,
}

impl Random {
    const PROTOCOLS: [&str; 3] = ["cat/2", "cat/2", "cat/1"];

    fn new(config: Config) -> Self {
        let mut node = Node::with(config, App::default());
        (0..3).for_each(|peer| node.connect(peer, Self::PROTOCOLS[peer as usize]));
        Self { node, asked: Default::default(), height: 0 }
    }

    fn announce(&mut self, peer: u32, key: TxKey) {
        let old = samara_cat::wire::SeenTx { key, details: None };
        let frame = if peer == 2 { old.into() } else { seen(&[key]) };
        self.node.frame(peer, frame);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Announce { peer, first, count } => {
                (first..first + count).for_each(|number| self.announce(peer, tx(number, 50).key()));
            }
            Step::Answer { peer } => {
                for key in std::mem::take(&mut self.asked[peer as usize]) {
                    let tx = (0..72).map(|number| tx(number, 50)).find(|tx| tx.key() == key).unwrap();
                    self.node.frame(peer, CatFrame::tx(tx));
                }
            }
            // It does not speak a protocol with denials.
            Step::Deny { peer: 2 } => {}
            Step::Deny { peer } => {
                for key in std::mem::take(&mut self.asked[peer as usize]) {
                    self.node.frame(peer, CatFrame::not_found(KeyList::one(key)));
                }
            }
            Step::Push { peer, number } => self.node.frame(peer, CatFrame::tx(tx(number, 50))),
            Step::Submit { number } => self.node.submit(&tx(number, 50)),
            Step::Block { first, count } => {
                self.height += 1;
                let keys: Vec<TxKey> = (first..first + count).map(|number| tx(number, 50).key()).collect();
                self.node.commit(self.height, &keys);
            }
            Step::Reconnect { peer } => {
                self.node.disconnect(peer);
                self.asked[peer as usize].clear();
                self.node.connect(peer, Self::PROTOCOLS[peer as usize]);
            }
            Step::Wait { millis } => self.node.millis(millis),
        }
        for peer in 0..3 {
            let wants = self.node.wants(peer);
            self.asked[peer as usize].extend(wants);
        }
        assert_eq!(self.node.engine.idle_slots(), 0, "after {step:?}");
    }
}

proptest! {
    /// After each input, no peer has a free slot beside keys that wait for it. Once peers answer,
    /// no key is left over.
    #[test]
    fn no_slot_is_free_beside_a_waiting_request(
        slots in 1..5usize, rules in any::<bool>(), steps in prop::collection::vec(step(), 1..80),
    ) {
        let base = Config::default();
        let standing = base.requests.standing.filter(|_| rules);
        let requests = Requests { per_peer_max: slots, standing, ..base.requests };
        let mut random = Random::new(Config { requests, ..base });
        steps.into_iter().for_each(|step| random.take(step));
        // From now on, peers answer.
        for _ in 0..200 {
            for peer in 0..3 {
                random.take(Step::Answer { peer });
            }
            random.take(Step::Wait { millis: 1_000 });
        }
        prop_assert!(random.asked.iter().all(Vec::is_empty));
    }
}
