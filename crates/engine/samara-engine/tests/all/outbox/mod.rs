//! Tests of the outbox.

mod behaviour;
mod overflow;
mod plans;
mod policy;
mod properties;

use std::collections::BTreeSet;

use proptest::prelude::*;
use samara_engine::outbox::{
    Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig, Overflow, Owe, Schedule,
};
use samara_engine::{Frame, MessageKey, NodeRng, Outbox, PeerId, Purpose, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Blob {
    id: u64,
    len: usize,
}

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        self.len
    }

    fn payload_len(&self) -> usize {
        self.len
    }
}

fn rng() -> NodeRng {
    NodeRng::new(5, 0, Purpose::Engine)
}

fn outbox(dispatch: Dispatch, lanes: Vec<LaneConfig>, peers: u32) -> Outbox<Blob> {
    let mut outbox = Outbox::new(OutboxConfig { dispatch, lanes });
    (0..peers).for_each(|peer| outbox.link_up(PeerId(peer)));
    outbox
}

fn bounded(name: &'static str, priority: u8, copies: usize, bytes: u64, overflow: Overflow) -> LaneConfig {
    LaneConfig { capacity: LaneCapacity { copies, bytes, overflow }, ..LaneConfig::unbounded(name, priority) }
}

/// Messages of different lengths, with ids from `first` on.
fn messages(first: u64, targets: &[BTreeSet<u32>], deadline: Option<Time>) -> Vec<Owe<Blob>> {
    let owe = |(id, peers): (u64, &BTreeSet<u32>)| Owe {
        message: MessageKey(id),
        frame: Blob { id, len: 100 + 50 * (id as usize % 5) },
        peers: peers.iter().map(|peer| PeerId(*peer)).collect(),
        deadline,
    };
    (first..).zip(targets).map(owe).collect()
}

fn owe_all(outbox: &mut Outbox<Blob>, targets: &[BTreeSet<u32>], schedule: &Schedule) {
    let mut lost = Vec::new();
    outbox.owe_batch(Time::ZERO, Lane(0), messages(0, targets, None), schedule, &mut rng(), &mut lost);
    assert_eq!(lost, []);
}

fn drain(outbox: &mut Outbox<Blob>) -> Vec<(u32, u64)> {
    std::iter::from_fn(|| outbox.pop(Time::ZERO, |_| true)).map(|copy| (copy.peer.0, copy.frame.id)).collect()
}

/// For up to `count` messages, the peers that each message is owed to.
fn targets(count: usize, peers: u32) -> impl Strategy<Value = Vec<BTreeSet<u32>>> {
    let set = proptest::collection::btree_set(0..peers, 1..=peers as usize);
    proptest::collection::vec(set, 1..=count)
}

fn everybody(peers: u32, count: usize) -> Vec<BTreeSet<u32>> {
    vec![(0..peers).collect(); count]
}

fn one_lane() -> Vec<LaneConfig> {
    vec![LaneConfig::unbounded("a", 0)]
}
