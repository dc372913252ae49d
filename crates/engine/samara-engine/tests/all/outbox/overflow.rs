//! Bounded lanes against a plain model with one queue for each link.

use std::collections::VecDeque;

use super::{Blob, bounded, outbox};
use proptest::prelude::*;
use samara_engine::outbox::{Counters, Dispatch, Lane, LossCause, Overflow, Tally};
use samara_engine::{MessageKey, PeerId, Time};

const PEER_COUNT: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    Owe {
        peer: u32,
        len: usize,
        deadline_ms: Option<u64>,
    },
    Pop(u32),
    /// One of the copies ever owed, counted from the last.
    Withdraw(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEER_COUNT;
    prop_oneof![
        6 => (peer.clone(), 0..120usize, proptest::option::of(0..20u64))
            .prop_map(|(peer, len, deadline_ms)| Step::Owe { peer, len, deadline_ms }),
        2 => peer.prop_map(Step::Pop),
        1 => (0..20usize).prop_map(Step::Withdraw),
        1 => (0..8u64).prop_map(Step::Wait),
    ]
}

#[derive(Clone, Debug)]
struct Waiting {
    id: u64,
    len: usize,
    deadline: Option<u64>,
}

/// A queue that holds `copies` copies and `bytes` bytes.
#[derive(Debug)]
struct Model {
    copies: usize,
    bytes: u64,
    overflow: Overflow,
    queues: Vec<VecDeque<Waiting>>,
    counts: Counters,
}

fn add(tally: &mut Tally, len: usize) {
    tally.add(len as u32);
}

impl Model {
    fn fits(&self, peer: usize, len: usize) -> bool {
        let bytes: usize = self.queues[peer].iter().map(|waiting| waiting.len).sum();
        self.queues[peer].len() < self.copies && (bytes + len) as u64 <= self.bytes
    }

    fn expire(&mut self, now: u64, peer: usize) {
        let expired = |waiting: &Waiting| waiting.deadline.is_some_and(|deadline| deadline < now);
        let counts = &mut self.counts;
        self.queues[peer].iter().filter(|waiting| expired(waiting)).for_each(|waiting| {
            add(&mut counts.expired, waiting.len);
        });
        self.queues[peer].retain(|waiting| !expired(waiting));
    }

    /// Returns whether the copy is taken, and the lost copies: ids and causes in order.
    fn owe(&mut self, now: u64, peer: usize, new: Waiting) -> (bool, Vec<(u64, LossCause)>) {
        let mut lost = Vec::new();
        if !self.fits(peer, new.len) {
            self.expire(now, peer);
        }
        if !self.fits(peer, new.len) {
            let hopeless = self.copies == 0 || new.len as u64 > self.bytes;
            match self.overflow {
                Overflow::Block => {
                    add(&mut self.counts.refused, new.len);
                    return (false, vec![(new.id, LossCause::Refused)]);
                }
                Overflow::DropOldest if !hopeless => {
                    while !self.fits(peer, new.len) {
                        let oldest = self.queues[peer].pop_front().unwrap();
                        add(&mut self.counts.dropped_oldest, oldest.len);
                        lost.push((oldest.id, LossCause::DroppedOldest));
                    }
                }
                Overflow::DropNewest | Overflow::DropOldest => {
                    add(&mut self.counts.dropped_newest, new.len);
                    return (false, vec![(new.id, LossCause::DroppedNewest)]);
                }
            }
        }
        add(&mut self.counts.owed, new.len);
        self.queues[peer].push_back(new);
        (true, lost)
    }

    fn pop(&mut self, now: u64, peer: usize) -> Option<u64> {
        // Only copies before the one that leaves are checked.
        while let Some(first) = self.queues[peer].pop_front() {
            if first.deadline.is_none_or(|deadline| now <= deadline) {
                add(&mut self.counts.sent, first.len);
                return Some(first.id);
            }
            add(&mut self.counts.expired, first.len);
        }
        None
    }

    fn withdraw(&mut self, id: u64) -> usize {
        for queue in &mut self.queues {
            if let Some(place) = queue.iter().position(|waiting| waiting.id == id) {
                add(&mut self.counts.withdrawn, queue[place].len);
                queue.remove(place);
                return 1;
            }
        }
        0
    }

    fn counters(&self) -> Counters {
        let mut counts = self.counts;
        self.queues.iter().flatten().for_each(|waiting| add(&mut counts.pending, waiting.len));
        counts
    }
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![Just(Overflow::Block), Just(Overflow::DropNewest), Just(Overflow::DropOldest)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Taken, lost and popped copies, their causes and the counters match the model, in copies and
    /// bytes.
    #[test]
    fn full_lanes_match_the_model(
        steps in proptest::collection::vec(step(), 1..150),
        dispatch in prop_oneof![Just(Dispatch::PerLink), Just(Dispatch::Node)],
        overflow in overflow(),
        copies in prop_oneof![0..6usize, Just(usize::MAX)],
        bytes in prop_oneof![0..300u64, Just(u64::MAX)],
    ) {
        let lane = bounded("a", 0, copies, bytes, overflow);
        let mut outbox = outbox(dispatch, vec![lane], PEER_COUNT);
        let queues = vec![VecDeque::new(); PEER_COUNT as usize];
        let mut model = Model { copies, bytes, overflow, queues, counts: Counters::default() };
        let (mut now, mut next) = (0, 0);
        for step in steps {
            let at = Time::from_millis(now);
            match step {
                Step::Owe { peer, len, deadline_ms } => {
                    let (id, deadline) = (next, deadline_ms.map(|ms| now + ms));
                    next += 1;
                    let mut lost = Vec::new();
                    let (frame, until) = (Blob { id, len }, deadline.map(Time::from_millis));
                    let key = Some(MessageKey(id));
                    let taken = outbox.owe_into(at, PeerId(peer), Lane(0), frame, key, until, &mut lost);
                    prop_assert!(lost.iter().all(|lost| lost.peer == PeerId(peer)));
                    let lost = lost.into_iter().map(|lost| (lost.message.unwrap().0, lost.cause)).collect();
                    prop_assert_eq!((taken, lost), model.owe(now, peer as usize, Waiting { id, len, deadline }));
                }
                Step::Pop(peer) => {
                    let copy = match dispatch {
                        Dispatch::Node => outbox.pop(at, |other| other.0 == peer),
                        Dispatch::PerLink => outbox.pop_for(at, PeerId(peer)),
                    };
                    prop_assert_eq!(copy.map(|copy| copy.frame.id), model.pop(now, peer as usize));
                }
                Step::Withdraw(back) => {
                    let id = (next as usize).saturating_sub(1 + back) as u64;
                    let both = (0..PEER_COUNT).map(|peer| outbox.withdraw(PeerId(peer), MessageKey(id))).sum::<usize>();
                    prop_assert_eq!(both, model.withdraw(id));
                }
                Step::Wait(ms) => now += ms,
            }
            prop_assert_eq!(*outbox.counters(Lane(0)), model.counters());
        }
    }
}

/// A full lane refuses a million copies without a look at all that it has for each of them, which would
/// take minutes.
#[test]
fn refusals_take_no_longer_if_a_lane_has_many_copies() {
    let lane = bounded("a", 0, 20_000, u64::MAX, Overflow::DropNewest);
    let mut outbox = outbox(Dispatch::PerLink, vec![lane], 1);
    let start = std::time::Instant::now();
    let mut owe = |at: Time, id: u64, deadline| {
        outbox.owe(at, PeerId(0), Lane(0), Blob { id, len: 1 }, Some(MessageKey(id)), deadline).is_ok()
    };
    let soon = Some(Time::from_secs(1));
    let taken = (0..1_000_000).filter(|id| owe(Time::ZERO, *id, soon)).count();
    assert_eq!(taken, 20_000);
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    // Expired copies still make room.
    assert!(owe(Time::from_secs(2), 1_000_000, None));
    assert_eq!(outbox.counters(Lane(0)).expired.copies, 20_000);
}
