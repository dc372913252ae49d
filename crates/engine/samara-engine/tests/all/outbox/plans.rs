//! The planned order of a batch, against a model that shares no code with it, and the order on
//! links.
//!
//! A lane without any room reveals the plan: it refuses all copies in the planned order.

use std::collections::{BTreeMap, BTreeSet};

use super::{Blob, bounded, drain, messages, outbox, owe_all, rng, targets};
use proptest::prelude::*;
use samara_engine::outbox::{Dispatch, Lane, MessageOrder, Overflow, PeerOrder, Schedule, Weight};
use samara_engine::{Outbox, PeerId, Time};

const PEER_COUNT: u32 = 8;

/// A peer and a message.
type Planned = (u32, u64);

fn weight_of(peer: u32) -> f64 {
    f64::from(1 + peer * peer)
}

fn empty(dispatch: Dispatch, copies: usize) -> Outbox<Blob> {
    let lane = bounded("a", 0, copies, u64::MAX, Overflow::Block);
    let mut outbox = outbox(dispatch, vec![lane], PEER_COUNT);
    // One peer keeps the default weight.
    (1..PEER_COUNT).for_each(|peer| outbox.set_weight(PeerId(peer), Weight::Bandwidth, weight_of(peer)));
    outbox
}

fn plan(targets: &[BTreeSet<u32>], schedule: &Schedule) -> Vec<Planned> {
    let mut outbox = empty(Dispatch::PerLink, 0);
    let mut lost = Vec::new();
    outbox.owe_batch(Time::ZERO, Lane(0), messages(0, targets, None), schedule, &mut rng(), &mut lost);
    lost.into_iter().map(|lost| (lost.peer.0, lost.message.unwrap().0)).collect()
}

fn message_order() -> impl Strategy<Value = MessageOrder> {
    prop_oneof![Just(MessageOrder::AsGiven), Just(MessageOrder::Shuffled)]
}

fn peer_order() -> impl Strategy<Value = PeerOrder> {
    prop_oneof![
        Just(PeerOrder::AsGiven),
        Just(PeerOrder::Random),
        Just(PeerOrder::Balanced),
        Just(PeerOrder::Weighted(Weight::Bandwidth)),
    ]
}

/// The peers of each message in the order of their copies, for predictable orders.
fn model(targets: &[BTreeSet<u32>], messages: MessageOrder, peers: PeerOrder) -> Option<Vec<Vec<u32>>> {
    let mut rng = rng();
    if messages == MessageOrder::Shuffled {
        rng.next_u64();
    }
    let mut order = |set: &BTreeSet<u32>| {
        let mut order: Vec<u32> = set.iter().copied().collect();
        match peers {
            PeerOrder::AsGiven => {}
            PeerOrder::Random => rng.shuffle(&mut order),
            PeerOrder::Weighted(_) => {
                // Efraimidis and Spirakis: by u^(1/weight), largest first.
                let keys: BTreeMap<u32, f64> =
                    order.iter().map(|peer| (*peer, (1.0 - rng.unit()).ln() / weight_of(*peer))).collect();
                order.sort_by(|a, b| keys[b].total_cmp(&keys[a]));
            }
            PeerOrder::Balanced => return None,
        }
        Some(order)
    };
    targets.iter().map(&mut order).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each round contains each message once, in the order of messages; each copy goes to the peer
    /// of the model.
    #[test]
    fn plans_match_the_model(targets in targets(12, PEER_COUNT), messages in message_order(), peers in peer_order()) {
        let planned = plan(&targets, &Schedule::Interleaved { messages, peers });
        let mut left = planned.as_slice();
        for round in 0..PEER_COUNT as usize {
            let expected: Vec<u64> =
                (0..targets.len()).filter(|m| targets[*m].len() > round).map(|m| m as u64).collect();
            let (this, rest) = left.split_at(expected.len());
            let mut ids: Vec<u64> = this.iter().map(|(_, id)| *id).collect();
            if messages == MessageOrder::Shuffled {
                ids.sort_unstable();
            }
            prop_assert_eq!(ids, expected);
            left = rest;
        }
        prop_assert!(left.is_empty());
        let by_message = |id: usize| -> Vec<u32> {
            planned.iter().filter(|(_, other)| *other == id as u64).map(|(peer, _)| *peer).collect()
        };
        let found: Vec<Vec<u32>> = (0..targets.len()).map(by_message).collect();
        match model(&targets, messages, peers) {
            Some(expected) => prop_assert_eq!(found, expected),
            None => for (found, targets) in found.iter().zip(&targets) {
                prop_assert_eq!(found.len(), targets.len());
                prop_assert_eq!(&found.iter().copied().collect::<BTreeSet<_>>(), targets);
            },
        }
    }

    /// Per link, the copies of each link leave exactly in the planned order. In node dispatch with
    /// room everywhere, all copies do.
    #[test]
    fn links_follow_the_planned_order(
        targets in targets(12, PEER_COUNT),
        messages in message_order(),
        peers in peer_order(),
        links in proptest::collection::vec(0..PEER_COUNT, 0..100),
    ) {
        let schedule = Schedule::Interleaved { messages, peers };
        let planned = plan(&targets, &schedule);
        let mut node = empty(Dispatch::Node, usize::MAX);
        owe_all(&mut node, &targets, &schedule);
        prop_assert_eq!(&drain(&mut node), &planned);

        let mut outbox = empty(Dispatch::PerLink, usize::MAX);
        owe_all(&mut outbox, &targets, &schedule);
        let mut expected: Vec<_> = (0..PEER_COUNT)
            .map(|peer| planned.iter().filter(move |(other, _)| *other == peer).map(|(_, id)| *id))
            .collect();
        // Links drain at any pace; in the end, all of them are empty.
        let rest = (0..PEER_COUNT).flat_map(|peer| vec![peer; targets.len() + 1]);
        for peer in links.into_iter().chain(rest) {
            let id = outbox.pop_for(Time::ZERO, PeerId(peer)).map(|copy| copy.frame.id);
            prop_assert_eq!(id, expected[peer as usize].next());
        }
        prop_assert_eq!(outbox.pending(), 0);
    }

    /// A balanced plan: at every prefix, peers that are owed the same messages differ by at most
    /// one copy.
    #[test]
    fn balanced_plans_keep_twins_together(
        classes in proptest::collection::vec((targets(1, PEER_COUNT), 1..9usize), 1..6),
        messages in message_order(),
    ) {
        let sets: Vec<BTreeSet<u32>> =
            classes.iter().flat_map(|(set, times)| vec![set[0].clone(); *times]).collect();
        let owed = |peer: u32| sets.iter().map(|set| set.contains(&peer)).collect::<Vec<_>>();
        let mut counts = [0_i32; PEER_COUNT as usize];
        for (peer, _) in plan(&sets, &Schedule::Interleaved { messages, peers: PeerOrder::Balanced }) {
            counts[peer as usize] += 1;
            let twins = (0..PEER_COUNT).filter(|other| owed(*other) == owed(peer));
            for twin in twins {
                prop_assert!((counts[twin as usize] - counts[peer as usize]).abs() <= 1, "{:?}", counts);
            }
        }
    }
}
