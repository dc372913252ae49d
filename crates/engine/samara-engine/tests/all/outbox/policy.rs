//! Schedules by a custom policy.

#![expect(clippy::ptr_arg, reason = "the signature of Orderer::order")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Blob, drain, everybody, messages, one_lane, outbox, owe_all, rng, targets};
use proptest::prelude::*;
use samara_engine::outbox::{Custom, Dispatch, Lane, Orderer, PendingCopy, Policy, Room, Schedule};
use samara_engine::{MessageKey, Outbox, PeerId, Time};

const PEER_COUNT: u32 = 8;

/// A function that orders the indices of copies.
type Order = fn(&[PendingCopy], &mut Vec<u32>);

/// A stateless policy that counts its calls.
#[derive(Clone)]
struct By(Order, Arc<AtomicUsize>);

impl By {
    fn schedule(order: Order) -> Schedule {
        Self::counted(order).0
    }

    fn counted(order: Order) -> (Schedule, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        (Schedule::Custom(Custom::new(Self(order, Arc::clone(&calls)))), calls)
    }
}

impl Policy for By {
    fn name(&self) -> &str {
        "by"
    }

    fn orderer(&self, _seed: u64) -> Box<dyn Orderer> {
        Box::new(self.clone())
    }
}

impl Orderer for By {
    fn order(&mut self, _now: Time, _lane: &'static str, pending: &[PendingCopy], order: &mut Vec<u32>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert_eq!(order.len(), pending.len());
        (self.0)(pending, order);
    }
}

/// The order of `interleaved` in node dispatch while all links have room.
fn rounds(pending: &[PendingCopy], order: &mut Vec<u32>) {
    order.sort_by_key(|at| {
        let copy = &pending[*at as usize];
        (copy.owed_at + Duration::from_secs(4) * copy.sent, copy.sent, copy.batch, copy.index, copy.rank)
    });
}

/// The order of `interleaved` in per-link dispatch.
fn ranks(pending: &[PendingCopy], order: &mut Vec<u32>) {
    order.sort_by_key(|at| {
        let copy = &pending[*at as usize];
        (copy.owed_at + Duration::from_secs(4) * copy.rank, copy.rank, copy.batch, copy.index)
    });
}

fn last_first(_: &[PendingCopy], order: &mut Vec<u32>) {
    order.reverse();
}

#[test]
fn policy_decides_the_order() {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 2);
    owe_all(&mut outbox, &everybody(2, 2), &By::schedule(last_first));
    // Owed as a batch: (0, 0), (0, 1), (1, 0), (1, 1). The rest is reversed each time.
    assert_eq!(drain(&mut outbox), [(1, 1), (1, 0), (0, 1), (0, 0)]);
}

#[test]
fn policy_is_called_only_after_changes() {
    let (schedule, calls) = By::counted(last_first);
    let mut outbox = outbox(Dispatch::Node, one_lane(), 2);
    owe_all(&mut outbox, &everybody(2, 2), &schedule);
    let count = || calls.load(Ordering::Relaxed);
    assert_eq!(count(), 0, "nothing has left yet");
    for _ in 0..3 {
        assert!(outbox.pop(Time::ZERO, |_| Room::NONE).is_none());
    }
    assert_eq!(count(), 1);
    assert!(outbox.pop(Time::ZERO, |_| true).is_some());
    assert_eq!(count(), 1);
    outbox.note_has(Time::ZERO, PeerId(7), MessageKey(0));
    assert!(outbox.pop(Time::ZERO, |_| true).is_some());
    assert_eq!(count(), 2);
    assert_eq!(outbox.withdraw_message(MessageKey(1)) + outbox.withdraw_message(MessageKey(0)), 2);
    assert!(outbox.pop(Time::ZERO, |_| true).is_none());
    assert_eq!(count(), 2, "there is nothing to order");
}

#[test]
fn invalid_order_loses_no_copies() {
    let broken: [Order; 4] = [
        |_, order| order.clear(),
        |_, order| order.fill(3),
        |_, order| order.extend([77, u32::MAX]),
        |_, order| *order = vec![5, 5, 4],
    ];
    for order in broken {
        let mut outbox = outbox(Dispatch::Node, one_lane(), 3);
        owe_all(&mut outbox, &everybody(3, 4), &By::schedule(order));
        let all: BTreeSet<(u32, u64)> = drain(&mut outbox).into_iter().collect();
        assert_eq!(all.len(), 12);
        assert!(outbox.counters(Lane(0)).add_up());
    }
}

#[test]
fn other_copies_wait_no_longer_than_without_a_policy() {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 1);
    let (schedule, mut rng, mut lost) = (By::schedule(last_first), rng(), Vec::new());
    let mut policy = |outbox: &mut Outbox<Blob>, at: u64, first| {
        let batch = messages(first, &everybody(1, 2), None);
        outbox.owe_batch(Time::from_millis(at), Lane(0), batch, &schedule, &mut rng, &mut lost);
    };
    policy(&mut outbox, 1, 0);
    outbox.owe(Time::from_millis(2), PeerId(0), Lane(0), Blob { id: 99, len: 5 }, None, None).unwrap();
    policy(&mut outbox, 3, 2);
    let now = Time::from_millis(3);
    let ids: Vec<u64> = std::iter::from_fn(|| outbox.pop(now, |_| true)).map(|copy| copy.frame.id).collect();
    assert_eq!(ids, [3, 2, 99, 1, 0], "the other copy leaves behind as many copies as were owed before it");
}

#[test]
fn policy_sees_the_progress_of_a_message() {
    let seen = |pending: &[PendingCopy], order: &mut Vec<u32>| {
        let first = pending[0];
        assert_eq!((first.message, first.index, first.owed_at), (MessageKey(0), 0, Time::ZERO));
        assert_eq!(first.deadline, None);
        assert_eq!((first.sent, first.noted, first.len), (2 - pending.len() as u32 / 2, 1, 100));
        order.sort_by_key(|at| std::cmp::Reverse(pending[*at as usize].peer));
    };
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 4);
    owe_all(&mut outbox, &everybody(4, 1), &By::schedule(seen));
    outbox.note_has(Time::ZERO, PeerId(3), MessageKey(0));
    assert_eq!(outbox.pop_for(Time::ZERO, PeerId(3)).map(|copy| copy.rank), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A policy that imitates a schedule yields the same copies in the same order.
    #[test]
    fn policy_can_imitate_interleaved_schedules(
        first in targets(10, PEER_COUNT),
        second in targets(10, PEER_COUNT),
        between in 0..20usize,
        per_link in any::<bool>(),
        asked in proptest::collection::vec(0..PEER_COUNT, 0..200),
    ) {
        let dispatch = if per_link { Dispatch::PerLink } else { Dispatch::Node };
        let policy = By::schedule(if per_link { ranks } else { rounds });
        let run = |schedule: &Schedule| {
            let mut outbox = outbox(dispatch, one_lane(), PEER_COUNT);
            let (mut rng, mut lost, mut out) = (rng(), Vec::new(), Vec::new());
            let mut now = Time::ZERO;
            let everyone: Vec<u32> = (0..PEER_COUNT).cycle().take(PEER_COUNT as usize * 20).collect();
            let mut links = asked.iter().chain(&everyone);
            let mut pop = |outbox: &mut Outbox<Blob>, now| match dispatch {
                Dispatch::Node => outbox.pop(now, |_| true),
                Dispatch::PerLink => links.next().and_then(|peer| outbox.pop_for(now, PeerId(*peer))),
            };
            outbox.owe_batch(now, Lane(0), messages(0, &first, None), schedule, &mut rng, &mut lost);
            out.extend((0..between).map(|_| pop(&mut outbox, now)));
            now = Time::from_millis(4100);
            outbox.owe_batch(now, Lane(0), messages(100, &second, None), schedule, &mut rng, &mut lost);
            out.extend((0..400).map(|_| pop(&mut outbox, now)));
            assert_eq!(outbox.pending(), 0);
            out
        };
        prop_assert_eq!(run(&policy), run(&Schedule::INTERLEAVED));
    }
}
