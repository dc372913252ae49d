//! Broken invariants, planted in the state of a pool.

use samara_engine::outbox::Lane;
use samara_engine::testing::{Single, identity_of};

use super::*;
use crate::pool::{CheckKind, Verdict};
use crate::{Protocol, Transaction};

fn defer(_: &Transaction, _: CheckKind) -> Verdict {
    Verdict::Later
}

type App = fn(&Transaction, CheckKind) -> Verdict;

/// A node with one peer.
fn node() -> Single<Cat<App>> {
    let config = Config::default();
    let outbox = Outbox::new(config.outbox());
    let cat = Cat::new(config, &identity_of(0), defer as App).expect("a valid configuration");
    let mut node = Single::start(cat, outbox, 1);
    node.connect(PeerId(0), identity_of(1), Protocol::Cat.name(), true);
    node
}

#[test]
#[should_panic(expected = "peer0 has 1 requests in 0 slots")]
fn a_request_without_a_slot_is_found() {
    node().with(|cat, _| cat.peers.get_mut(PeerId(0)).expect("a peer").live += 1);
}

#[test]
#[should_panic(expected = "frames are owed to peer9, which is gone")]
fn a_frame_for_a_departed_peer_is_found() {
    let mut node = node();
    node.outbox.link_up(PeerId(9));
    node.with(|_, cx| {
        let now = cx.now();
        let _ = cx.outbox().owe(now, PeerId(9), Lane(0), CatFrame::Txs(Arc::default()), None, None);
    });
}
