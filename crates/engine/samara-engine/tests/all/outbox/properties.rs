//! Properties of the outbox over random batches, schedules and patterns of room.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Blob, bounded, messages, one_lane, outbox, owe_all, rng, targets};
use proptest::prelude::*;
use samara_engine::outbox::{
    Counters, Custom, Dispatch, FeedbackSource, Lane, LaneConfig, LossCause, MessageOrder, Orderer, Overflow,
    PeerOrder, PendingCopy, Policy, Room, Schedule, Weight,
};
use samara_engine::{MessageKey, PeerId, Time};

const PEER_COUNT: u32 = 8;

fn message_order() -> impl Strategy<Value = MessageOrder> {
    prop_oneof![Just(MessageOrder::AsGiven), Just(MessageOrder::Shuffled)]
}

fn peer_order() -> impl Strategy<Value = PeerOrder> {
    prop_oneof![
        Just(PeerOrder::AsGiven),
        Just(PeerOrder::Random),
        Just(PeerOrder::Balanced),
        Just(PeerOrder::Weighted(Weight::Latency)),
    ]
}

fn dispatch() -> impl Strategy<Value = Dispatch> {
    prop_oneof![Just(Dispatch::PerLink), Just(Dispatch::Node)]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let interleaved = (message_order(), peer_order())
        .prop_map(|(messages, peers)| Schedule::Interleaved { messages, peers });
    let feedback =
        (message_order(), peer_order(), 0..5u32, any::<bool>()).prop_map(|(messages, peers, cap, all)| {
            let source = if all { FeedbackSource::Peers { cap } } else { FeedbackSource::Observers };
            Schedule::Feedback { source, messages, peers }
        });
    let staggered = (0..50u64).prop_map(|ms| Schedule::Staggered { timeout: Duration::from_millis(ms) });
    let custom = any::<u32>().prop_map(|salt| Schedule::Custom(Custom::new(Salted(salt))));
    prop_oneof![Just(Schedule::Sequential), interleaved, feedback, staggered, custom]
}

/// A policy with an arbitrary order.
struct Salted(u32);

impl Policy for Salted {
    fn name(&self) -> &str {
        "salted"
    }

    fn orderer(&self, seed: u64) -> Box<dyn Orderer> {
        Box::new(Self(self.0 ^ seed as u32))
    }
}

impl Orderer for Salted {
    fn order(&mut self, _now: Time, _lane: &'static str, pending: &[PendingCopy], order: &mut Vec<u32>) {
        self.0 = self.0.wrapping_add(1);
        order.sort_by_key(|at| {
            let copy = &pending[*at as usize];
            (copy.peer.0 ^ copy.message.0 as u32 ^ copy.sent).wrapping_add(self.0).wrapping_mul(0x9e37_79b9)
        });
    }
}

#[derive(Clone, Debug)]
enum Step {
    Owe {
        targets: Vec<BTreeSet<u32>>,
        lane: u8,
        schedule: Schedule,
        deadline_ms: Option<u64>,
    },
    Single {
        peer: u32,
        lane: u8,
    },
    /// A bit for each link with room. Per link, optionally a bit for each lane to pop from.
    Pop {
        rooms: u8,
        lanes: Option<u8>,
    },
    Withdraw {
        peer: u32,
        message: u64,
    },
    WithdrawMessage(u64),
    Has {
        peer: u32,
        message: u64,
    },
    Down(u32),
    Up(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEER_COUNT;
    prop_oneof![
        2 => (targets(6, PEER_COUNT), 0..3u8, schedule(), proptest::option::of(0..40u64))
            .prop_map(|(targets, lane, schedule, deadline_ms)| Step::Owe { targets, lane, schedule, deadline_ms }),
        1 => (peer.clone(), 0..3u8).prop_map(|(peer, lane)| Step::Single { peer, lane }),
        8 => (any::<u8>(), proptest::option::of(0..8u8)).prop_map(|(rooms, lanes)| Step::Pop { rooms, lanes }),
        1 => (peer.clone(), 0..20u64).prop_map(|(peer, message)| Step::Withdraw { peer, message }),
        1 => (0..20u64).prop_map(Step::WithdrawMessage),
        3 => (peer.clone(), 0..20u64).prop_map(|(peer, message)| Step::Has { peer, message }),
        1 => peer.clone().prop_map(Step::Down),
        1 => peer.prop_map(Step::Up),
        2 => (0..60u64).prop_map(Step::Wait),
    ]
}

fn lanes(overflow: Overflow) -> Vec<LaneConfig> {
    let narrow = bounded("b", 1, 5, 900, overflow);
    vec![LaneConfig::unbounded("a", 0), narrow, LaneConfig::unbounded("c", 1)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every copy leaves once or is counted, and the outbox ends up empty.
    #[test]
    fn every_copy_is_accounted_for(
        steps in proptest::collection::vec(step(), 1..80),
        dispatch in dispatch(),
        overflow in prop_oneof![Just(Overflow::Block), Just(Overflow::DropNewest), Just(Overflow::DropOldest)],
    ) {
        let mut outbox = outbox(dispatch, lanes(overflow), PEER_COUNT);
        let (mut now, mut rng, mut lost) = (0, rng(), Vec::new());
        let (mut next, mut taken, mut popped, mut withdrawn) = (0, 0, 0, 0);
        for step in steps {
            let at = Time::from_millis(now);
            match step {
                Step::Owe { targets, lane, schedule, deadline_ms } => {
                    let deadline = deadline_ms.map(|ms| Time::from_millis(now + ms));
                    let batch = messages(next % 20, &targets, deadline);
                    next += targets.len() as u64;
                    let asked: usize = targets.iter().map(BTreeSet::len).sum();
                    let before = lost.len();
                    let got = outbox.owe_batch(at, Lane(lane), batch, &schedule, &mut rng, &mut lost);
                    let gone = lost[before..].iter().filter(|lost| lost.cause != LossCause::DroppedOldest).count();
                    prop_assert_eq!(got + gone, asked);
                    taken += got;
                }
                Step::Single { peer, lane } => {
                    let frame = Blob { id: 99, len: 300 };
                    taken += usize::from(outbox.owe_into(at, PeerId(peer), Lane(lane), frame, None, None, &mut lost));
                }
                Step::Pop { rooms, lanes } => {
                    let of_mask = |mask: u8| (0..3).filter(|lane| mask & (1 << lane) != 0).map(Lane).collect::<Vec<_>>();
                    let lanes = lanes.map(of_mask);
                    let peer = PeerId(u32::from(rooms) % PEER_COUNT);
                    let mut pop = || match dispatch {
                        Dispatch::Node => outbox.pop(at, |peer| rooms & (1 << peer.0) != 0),
                        Dispatch::PerLink => match &lanes {
                            None => outbox.pop_for(at, peer),
                            Some(lanes) => outbox.pop_lanes_for(at, peer, lanes),
                        },
                    };
                    let copy = pop();
                    if let (Dispatch::PerLink, Some(lanes), Some(copy)) = (dispatch, &lanes, &copy) {
                        prop_assert!(lanes.contains(&copy.lane) && copy.peer == peer);
                    }
                    prop_assert!(copy.is_some() || pop().is_none(), "pop missed a waiting copy");
                    popped += usize::from(copy.is_some());
                }
                Step::Withdraw { peer, message } => withdrawn += outbox.withdraw(PeerId(peer), MessageKey(message)),
                Step::WithdrawMessage(message) => withdrawn += outbox.withdraw_message(MessageKey(message)),
                Step::Has { peer, message } => outbox.note_has(at, PeerId(peer), MessageKey(message)),
                Step::Down(peer) => withdrawn += outbox.link_down(PeerId(peer)),
                Step::Up(peer) => {
                    outbox.link_up(PeerId(peer));
                    outbox.set_observer(PeerId(peer), peer == 0);
                }
                Step::Wait(ms) => now += ms,
            }
            prop_assert!((0..3).all(|lane| outbox.counters(Lane(lane)).add_up()));
            prop_assert_eq!((0..PEER_COUNT).map(|p| outbox.pending_to(PeerId(p))).sum::<usize>(), outbox.pending());
            for p in (0..PEER_COUNT).map(PeerId) {
                let by_lane: usize = (0..3).map(|lane| outbox.pending_on(p, Lane(lane))).sum();
                prop_assert_eq!(by_lane, outbox.pending_to(p));
            }
            let bytes: u64 = (0..PEER_COUNT).map(|p| outbox.pending_bytes_to(PeerId(p))).sum();
            prop_assert_eq!(bytes, (0..3).map(|lane| outbox.counters(Lane(lane)).pending.bytes).sum::<u64>());
        }
        // The remaining copies leave; staggered copies take time.
        loop {
            while outbox.pop(Time::from_millis(now), |_| true).is_some() {
                popped += 1;
            }
            let Some(at) = outbox.next_wake() else { break };
            prop_assert!(at > Time::from_millis(now));
            now = at.as_nanos().div_ceil(1_000_000);
        }
        prop_assert_eq!(outbox.pending(), 0);
        let total = |pick: fn(&Counters) -> u64| -> usize {
            (0..3).map(|lane| pick(outbox.counters(Lane(lane)))).sum::<u64>() as usize
        };
        prop_assert_eq!(total(|c| c.owed.copies), taken);
        prop_assert_eq!(total(|c| c.sent.copies), popped);
        prop_assert_eq!(total(|c| c.withdrawn.copies), withdrawn);
        let dropped = lost.iter().filter(|lost| lost.cause == LossCause::DroppedOldest).count();
        prop_assert_eq!(total(|c| c.dropped_oldest.copies), dropped);
    }

    /// Node dispatch: no peer with room waits for an earlier round while a later one is served, and
    /// peers with room for the whole copy go before peers with room for a part of it.
    #[test]
    fn interleaved_goes_round_by_round(
        targets in targets(12, PEER_COUNT),
        messages in message_order(),
        peers in peer_order(),
        rooms in proptest::collection::vec((any::<u8>(), any::<u8>()), 1..200),
    ) {
        let mut outbox = outbox(Dispatch::Node, vec![LaneConfig::unbounded("a", 0)], PEER_COUNT);
        owe_all(&mut outbox, &targets, &Schedule::Interleaved { messages, peers });
        let balanced = peers == PeerOrder::Balanced;
        let mut owed: Vec<BTreeSet<u32>> = targets.clone();
        let mut sent = vec![0; targets.len()];
        for (rooms, whole) in rooms.into_iter().chain(std::iter::repeat((u8::MAX, u8::MAX))) {
            let room = |peer: PeerId| match (rooms & (1 << peer.0) != 0, whole & (1 << peer.0) != 0) {
                (false, _) => Room::NONE,
                (true, false) => Room(1),
                (true, true) => Room::WHOLE,
            };
            let Some(copy) = outbox.pop(Time::ZERO, room) else {
                prop_assert!(owed.iter().flatten().all(|peer| rooms & (1 << peer) == 0));
                if owed.iter().all(BTreeSet::is_empty) {
                    break;
                }
                continue;
            };
            let index = copy.frame.id as usize;
            prop_assert_eq!(copy.rank, sent[index]);
            for (other, peers) in owed.iter().enumerate() {
                let waits = peers.iter().any(|peer| rooms & (1 << peer) != 0);
                prop_assert!(!waits || sent[other] >= sent[index], "a copy of an earlier round waits");
            }
            let fits = |peer: u32| room(PeerId(peer)).takes(copy.len);
            let wider = owed[index].iter().any(|peer| fits(*peer));
            prop_assert!(balanced || fits(copy.peer.0) || !wider, "a link with a wider window waits");
            prop_assert!(owed[index].remove(&copy.peer.0));
            sent[index] += 1;
        }
    }

    /// Peers that are owed the same messages never differ by more than one copy.
    #[test]
    fn balanced_keeps_twins_together(
        classes in proptest::collection::vec((targets(1, 9), 1..9usize), 1..6),
        order in message_order(),
    ) {
        // Few different sets of peers, so that some peers are owed the same messages.
        let sets: Vec<BTreeSet<u32>> =
            classes.iter().flat_map(|(set, times)| vec![set[0].clone(); *times]).collect();
        let owed = |peer: u32| -> Vec<bool> { sets.iter().map(|set| set.contains(&peer)).collect() };
        let mut counts = [0_i32; 9];
        let schedule = Schedule::Interleaved { messages: order, peers: PeerOrder::Balanced };
        for (peer, _) in drain_node(&sets, &schedule) {
            counts[peer as usize] += 1;
            for (a, b) in (0..9).flat_map(|a| (0..a).map(move |b| (a, b))) {
                if owed(a) == owed(b) {
                    prop_assert!((counts[a as usize] - counts[b as usize]).abs() <= 1, "{counts:?}");
                }
            }
        }
    }

    /// The three invariants of go-libp2p-pubsub's round robin: nothing is lost, no message repeats
    /// before all were seen, and the copies that come out are those that went in.
    #[test]
    fn round_robin_invariants(peers in 1..=64u32, count in 1..60usize) {
        let targets: Vec<BTreeSet<u32>> = vec![(0..peers).collect(); count];
        let out = drain_node(&targets, &Schedule::INTERLEAVED);
        prop_assert_eq!(out.len(), peers as usize * count);
        for round in out.chunks(count) {
            prop_assert_eq!(round.iter().map(|(_, id)| *id).collect::<BTreeSet<_>>().len(), count);
        }
        let expected: BTreeSet<(u32, u64)> = (0..peers).flat_map(|p| (0..count as u64).map(move |m| (p, m))).collect();
        prop_assert_eq!(out.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// The same seed yields the same order.
    #[test]
    fn same_seed_yields_the_same_order(targets in targets(10, PEER_COUNT), schedule in schedule()) {
        prop_assert_eq!(drain_node(&targets, &schedule), drain_node(&targets, &schedule));
    }

    /// False reports and a steady inflow of new messages hold no copy back for longer than
    /// documented.
    #[test]
    fn feedback_starves_no_copy(
        liars in proptest::collection::vec((0..PEER_COUNT, 0..4u64), 0..60),
        cap in 0..4u32,
        observed in any::<bool>(),
        dispatch in dispatch(),
    ) {
        let patience = Duration::from_millis(10);
        let lane = LaneConfig { patience, ..LaneConfig::unbounded("a", 0) };
        let mut outbox = outbox(dispatch, vec![lane], PEER_COUNT);
        outbox.set_observer(PeerId(0), true);
        let source = if observed { FeedbackSource::Observers } else { FeedbackSource::Peers { cap } };
        let (messages, peers) = (MessageOrder::Shuffled, PeerOrder::Random);
        let schedule = Schedule::Feedback { source, messages, peers };
        let targets: Vec<BTreeSet<u32>> = vec![(0..PEER_COUNT).collect(); 4];
        owe_all(&mut outbox, &targets, &schedule);
        for (peer, message) in liars {
            outbox.note_has(Time::ZERO, PeerId(peer), MessageKey(message));
        }
        // Each link gets a new message and sends a copy in every millisecond.
        let rounds = u64::from(PEER_COUNT - 1) + if observed { 8 } else { u64::from(cap) };
        let bound = rounds * 10;
        for ms in 1.. {
            let now = Time::from_millis(ms);
            for peer in 0..PEER_COUNT {
                let _ = outbox.owe(now, PeerId(peer), Lane(0), Blob { id: 1000, len: 9 }, None, None);
            }
            for peer in 0..PEER_COUNT {
                let copy = outbox.pop(now, |other| other.0 == peer);
                // Copies owed after the bound leave later. Before it, one copy per millisecond and
                // the 4 old ones were owed.
                let old = copy.is_some_and(|copy| copy.frame.id < 1000);
                prop_assert!(!old || ms <= bound + 6, "a copy left after {ms} ms");
            }
            if (0..4).all(|message| outbox.progress(MessageKey(message)).is_none()) {
                break;
            }
            prop_assert!(ms <= bound + 6, "copies are still pending after {ms} ms");
        }
    }
}

fn drain_node(targets: &[BTreeSet<u32>], schedule: &Schedule) -> Vec<(u32, u64)> {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 64);
    owe_all(&mut outbox, targets, schedule);
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    loop {
        while let Some(copy) = outbox.pop(now, |_| true) {
            out.push((copy.peer.0, copy.frame.id));
        }
        match outbox.next_wake() {
            Some(at) => now = at,
            None => return out,
        }
    }
}
