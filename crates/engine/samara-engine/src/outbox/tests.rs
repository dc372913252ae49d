//! Tests of the memory of an outbox, which is visible only from inside.

use std::time::Duration;

use super::queue::Link;
use super::{Dispatch, Lane, LaneConfig, Outbox, OutboxConfig, Owe, Schedule, UNSET, Weight};
use crate::{Frame, MessageKey, NodeRng, PeerId, Purpose, Time};

#[derive(Clone, Debug)]
struct Blob;

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        100
    }

    fn payload_len(&self) -> usize {
        100
    }
}

const PEERS: u32 = 80;

fn used(dispatch: Dispatch) -> Outbox<Blob> {
    let lanes = [0, 1, 1].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
    let mut outbox = Outbox::new(OutboxConfig { dispatch, lanes });
    let peers: Vec<PeerId> = (0..PEERS).map(PeerId).collect();
    peers.iter().for_each(|peer| outbox.link_up(*peer));
    let mut rng = NodeRng::new(1, 0, Purpose::Engine);
    for lane in 0..3 {
        let owe = |id| Owe { message: MessageKey(id), frame: Blob, peers: peers.clone(), deadline: None };
        let batch: Vec<_> = (0..20).map(owe).collect();
        outbox.owe_batch(Time::ZERO, Lane(lane), batch, &Schedule::INTERLEAVED, &mut rng, &mut Vec::new());
    }
    outbox
}

#[test]
fn an_idle_link_is_one_small_record() {
    assert_eq!(size_of::<Link>(), 48);
    assert_eq!(size_of::<Option<Link>>(), 48, "a slot without a link needs no extra memory");
}

#[test]
fn drained_links_own_no_memory() {
    for dispatch in [Dispatch::PerLink, Dispatch::Node] {
        let mut outbox = used(dispatch);
        let owning =
            |outbox: &Outbox<Blob>| outbox.links.iter().flatten().filter(|link| link.owns_memory()).count();
        assert_eq!(owning(&outbox), PEERS as usize);
        // Some copies leave, others are withdrawn.
        outbox.withdraw_message(MessageKey(3));
        match dispatch {
            Dispatch::Node => while outbox.pop(Time::ZERO, |_| true).is_some() {},
            Dispatch::PerLink => {
                (0..PEERS).for_each(|p| while outbox.pop_for(Time::ZERO, PeerId(p)).is_some() {})
            }
        }
        assert_eq!(owning(&outbox), 0, "{dispatch:?}");
        assert!(outbox.active.iter().all(Vec::is_empty));
        assert!(outbox.store.is_empty());
        assert!(outbox.wakes.is_empty());
        assert_eq!(outbox.weights.capacity(), 0, "no weight was ever set");
    }
}

#[test]
fn round_trips_are_weights_and_unknown_until_they_are_set() {
    let mut outbox = used(Dispatch::PerLink);
    outbox.set_weight(PeerId(1), Weight::Bandwidth, 5.0);
    let trip = Duration::from_nanos(81_234_567);
    outbox.set_round_trip(PeerId(0), Some(trip));
    assert_eq!([0, 1, 99].map(|peer| outbox.round_trip(PeerId(peer))), [Some(trip), None, None]);
    assert_eq!([0, 1].map(|peer| outbox.weight(PeerId(peer), Weight::Latency)), [1.0 / 0.081_234_567, 1.0]);
    outbox.set_round_trip(PeerId(0), None);
    assert_eq!((outbox.round_trip(PeerId(0)), outbox.weight(PeerId(0), Weight::Latency)), (None, 1.0));
}

#[test]
fn weights_take_three_numbers_per_peer() {
    let mut outbox = used(Dispatch::PerLink);
    for peer in (0..PEERS).rev() {
        outbox.set_weight(PeerId(peer), Weight::Latency, 20.0);
        outbox.set_weight(PeerId(peer), Weight::Bandwidth, f64::NAN);
    }
    assert_eq!(outbox.weights, vec![[UNSET, 20.0, f64::MIN_POSITIVE]; PEERS as usize]);
    assert_eq!(outbox.weights.capacity(), PEERS as usize);
}
