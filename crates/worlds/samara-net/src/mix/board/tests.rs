//! Tests of the answers to senders, and of the bounds of a board.

use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_mix::{Group, Outcome, Plan, Sealed, SenderId, Transfer};
use tokio::sync::{oneshot, watch};
use tonic::{Code, Status};

use super::{Board, Ended};
use crate::mix::node::Tally;
use crate::mix::options::GatewayOptions;
use crate::mix::proto::OpenRounds;

const GROUP: Group = Group::Model;

/// A board on which one sender can fill a batch.
fn board(change: impl FnOnce(&mut GatewayOptions)) -> (Board, watch::Receiver<OpenRounds>) {
    let mut options = GatewayOptions::new(([127, 0, 0, 1], 0).into());
    (options.senders_min, options.sender_share_percent) = (1, 100);
    change(&mut options);
    let (sender, rounds) = watch::channel(OpenRounds::default());
    (Board::new(4, options, GROUP, sender, Tally::default()), rounds)
}

const SENDER: SenderId = SenderId([1; 32]);

fn plan(round: u64) -> Arc<Plan> {
    plan_of(round, vec![4, 2])
}

fn plan_of(round: u64, team: Vec<u32>) -> Arc<Plan> {
    Arc::new(Plan {
        round,
        team,
        incarnations: Vec::new(),
        batch: 3,
        precomputation_slots: 1,
        realtime_slots: 1,
        transfer: Transfer::Streamed,
        shape: samara_mix::Config::default().result_shape(),
    })
}

fn slots(count: usize) -> Vec<Sealed> {
    vec![Sealed::void(GROUP, 2); count]
}

#[test]
fn a_batch_starts_when_it_is_full_or_has_waited() {
    let (mut board, rounds) = board(|options| options.fill = Duration::from_secs(1));
    let start = Instant::now();
    board.open(plan(7));
    board.open(plan(8));
    assert_eq!(rounds.borrow().rounds.iter().map(|round| round.room).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(board.submit(7, SENDER, slots(2), start).expect("there is room"), 1);
    let refused = board.submit(7, SENDER, slots(2), start).expect_err("there is no room");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(board.submit(9, SENDER, slots(1), start).expect_err("it is not open").code(), Code::NotFound);
    let wrong = vec![Sealed::void(GROUP, 3)];
    assert_eq!(
        board.submit(8, SENDER, wrong, start).expect_err("another team").code(),
        Code::InvalidArgument
    );
    assert!(board.take_full(start).is_empty());
    board.submit(7, SENDER, slots(1), start).expect("there is room");
    let full = board.take_full(start);
    assert_eq!(full.iter().map(|(round, batch)| (*round, batch.len())).collect::<Vec<_>>(), [(7, 3)]);
    // The other round is empty and waits for ever. With one payload, it waits for a second.
    assert_eq!(board.next_due(), None);
    board.submit(8, SENDER, slots(1), start).expect("there is room");
    let due = board.next_due().expect("it is due");
    board.fill(due - Duration::from_millis(1));
    assert!(board.take_full(start).is_empty());
    board.fill(due);
    assert_eq!(board.take_full(due).len(), 1);
    let counters = board.status().counters;
    assert_eq!((counters.payloads_taken, counters.slots_filled, counters.batches), (4, 2, 2));
    assert_eq!(counters.calls_refused, [("not_open", 1), ("room", 1), ("wrong_form", 1)].into());
    assert!(rounds.borrow().rounds.is_empty());
}

#[test]
fn payloads_that_are_withdrawn_neither_come_out_nor_count_as_a_sender() {
    let (mut board, rounds) = board(|options| (options.senders_min, options.sender_share_percent) = (2, 60));
    let wanted = || rounds.borrow().rounds.first().map(|round| (round.room, round.senders_wanted));
    let start = Instant::now();
    let other = SenderId([2; 32]);
    board.open(plan(7));
    assert_eq!(wanted(), Some((3, 2)));
    board.submit(7, SENDER, slots(1), start).expect("there is room");
    board.submit(7, other, slots(1), start).expect("there is room");
    assert_eq!(wanted(), Some((1, 0)));
    assert_eq!(board.withdraw(7, other).expect("the round waits"), 1);
    assert_eq!((board.withdraw(7, other).expect("the round waits"), wanted()), (0, Some((2, 1))));
    // Of its share, the sender has all again, and the round is full with another one.
    board.submit(7, other, slots(1), start).expect("there is room");
    let third = SenderId([3; 32]);
    board.submit(7, third, slots(1), start).expect("there is room");
    assert_eq!(board.take_full(start).len(), 1);
    assert_eq!(board.withdraw(7, other).expect_err("it mixes").code(), Code::NotFound);
    let counters = board.status().counters;
    assert_eq!((counters.payloads_taken, counters.payloads_withdrawn), (4, 1));
    assert_eq!(counters.calls_refused, [("not_open", 1)].into());
}

/// A first payload leaves `hold` for others before the nodes end the round.
#[test]
fn a_round_without_payloads_ends_while_there_is_time_for_others() {
    let (board, _rounds) = board(|options| {
        (options.senders_min, options.sender_share_percent) = (2, 50);
        options.hold = Duration::from_secs(60);
    });
    let mut board = board.with_queue_timeout(Duration::from_secs(180));
    let start = Instant::now();
    board.open(plan(7));
    board.open(plan(8));
    let closes = board.next_due().expect("rounds without payloads have a time");
    let left = (start + Duration::from_secs(180)).duration_since(closes);
    assert!((Duration::from_secs(60)..=Duration::from_secs(62)).contains(&left), "{left:?}");
    let late = closes - Duration::from_millis(1);
    assert!(board.take_abandoned(late).is_empty());
    board.submit(8, SENDER, slots(1), late).expect("the round is open");
    assert_eq!(board.take_abandoned(closes + Duration::from_secs(1)), [7]);
    assert_eq!(board.next_due(), Some(late + Duration::from_secs(60)));
    assert_eq!(board.take_abandoned(late + Duration::from_secs(60)), [8]);
}

#[test]
fn every_node_of_a_team_announces_a_round_until_it_is_full_or_over() {
    let (mut board, rounds) = board(|_| {});
    let announced = || -> Vec<(u64, Vec<u32>, u32, u32)> {
        let rounds = rounds.borrow().rounds.clone();
        rounds.into_iter().map(|round| (round.round, round.team, round.room, round.batch)).collect()
    };
    for (round, team) in [(9, vec![2, 4]), (7, vec![1, 2, 4]), (8, vec![4, 2])] {
        board.join(plan_of(round, team));
    }
    // This node is the first one of round 8.
    assert_eq!(announced(), [(7, vec![1, 2, 4], 0, 3), (9, vec![2, 4], 0, 3)]);
    board.open(plan(8));
    assert_eq!(announced()[1], (8, vec![4, 2], 3, 3));
    board.start(9);
    board.end(7, Ended::Failed { cause: "timeout".to_owned(), culprit: None }, Instant::now());
    board.end(8, Ended::Failed { cause: "timeout".to_owned(), culprit: None }, Instant::now());
    assert_eq!(announced(), []);
}

/// Asks for the result of a round from a host.
fn ask_from(board: &mut Board, from: &str, round: u64) -> oneshot::Receiver<Result<Arc<Ended>, Status>> {
    let (sender, receiver) = oneshot::channel();
    board.wait_for(round, from.parse().expect("an address"), sender);
    receiver
}

fn ask(board: &mut Board, round: u64) -> oneshot::Receiver<Result<Arc<Ended>, Status>> {
    ask_from(board, "127.0.0.1", round)
}

#[test]
fn results_reach_early_and_late_waiters_until_forgotten() {
    let (mut board, _rounds) = board(|options| (options.results_max, options.waiters_max) = (2, 32));
    let now = Instant::now();
    (1..=3).for_each(|round| board.open(plan(round)));
    let mut early = ask(&mut board, 1);
    assert!(early.try_recv().is_err(), "the round has not ended yet");
    let delivered = Ended::Delivered(vec![Outcome::Void]);
    board.end(1, delivered.clone(), now);
    // A second end does not change the result.
    board.end(1, Ended::Failed { cause: "timeout".to_owned(), culprit: None }, now);
    assert_eq!(**early.try_recv().expect("answered").as_ref().expect("known"), delivered);
    assert_eq!(**ask(&mut board, 1).try_recv().expect("answered").as_ref().expect("known"), delivered);
    for round in [2, 3] {
        board.end(round, delivered.clone(), now);
    }
    let forgotten = ask(&mut board, 1).try_recv().expect("answered").expect_err("forgotten");
    assert_eq!(forgotten.code(), Code::NotFound);
    // Two requests of a host may wait. A request that gives up makes room.
    board.open(plan(10));
    let (waits, gives_up) = (ask(&mut board, 10), ask(&mut board, 10));
    let refused = ask(&mut board, 10).try_recv().expect("answered").expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(board.status().counters.calls_refused, [("unknown_round", 1), ("waiters", 1)].into());
    drop(gives_up);
    let mut third = ask(&mut board, 10);
    assert!(third.try_recv().is_err(), "it waits");
    drop(waits);
}

/// Nobody waits for rounds that may never end, and a round counts as known at each node of its team
/// from its announcement to its end.
#[test]
fn only_known_rounds_have_waiters() {
    let (mut board, _rounds) = board(|_| {});
    let (now, failed) = (Instant::now(), || Ended::Failed { cause: "timeout".to_owned(), culprit: None });
    for unknown in [0, 7, 8, u64::MAX] {
        let refused = ask(&mut board, unknown).try_recv().expect("answered").expect_err("unknown");
        assert_eq!(refused.code(), Code::NotFound);
    }
    assert_eq!(board.status().counters.calls_refused, [("unknown_round", 4)].into());
    // Another node is the first of round 7, this one of round 8.
    board.join(plan_of(7, vec![2, 4]));
    board.open(plan(8));
    let mut waiting = vec![ask(&mut board, 7), ask(&mut board, 8)];
    board.start(7);
    board.submit(8, SENDER, slots(3), now).expect("there is room");
    assert_eq!(board.take_full(now).len(), 1);
    waiting.extend([ask(&mut board, 7), ask(&mut board, 8)]);
    assert_eq!(board.status().counters.waiters, 4);
    [7, 8].into_iter().for_each(|round| board.end(round, failed(), now));
    for waiter in &mut waiting {
        assert_eq!(**waiter.try_recv().expect("answered").as_ref().expect("it ended"), failed());
    }
    assert_eq!((board.status().counters.waiters, board.places.len(), board.running.len()), (0, 0, 0));
}

/// Hosts share the places: none has more than a sixteenth of them, and if all are taken, a newcomer
/// gets one of the network with the most.
#[test]
fn waiting_hosts_do_not_lock_others_out() {
    let (mut board, _rounds) = board(|options| options.waiters_max = 64);
    board.open(plan(7));
    let mut greedy = Vec::new();
    for (network, host) in (0..4).flat_map(|network| (0..99).map(move |host| (network, host))) {
        greedy.push(ask_from(&mut board, &format!("2001:db8:{network}:{host}00::1"), 7));
    }
    greedy.retain_mut(|waiter| waiter.try_recv().is_err());
    assert_eq!((greedy.len(), board.status().counters.waiters), (64, 64));
    let mut honest = ask_from(&mut board, "198.51.100.7", 7);
    assert!(honest.try_recv().is_err(), "it waits");
    let evicted: Vec<_> = greedy.iter_mut().filter_map(|waiter| waiter.try_recv().ok()).collect();
    assert_eq!(evicted.len(), 1);
    assert_eq!(evicted[0].as_ref().expect_err("too many").code(), Code::ResourceExhausted);
    // A host has four places, whatever its number of addresses.
    let of_host = (0..9).map(|last| ask_from(&mut board, &format!("2001:db8:9:9::{last}"), 7));
    let mut of_host: Vec<_> = of_host.collect();
    assert_eq!(of_host.iter_mut().filter_map(|waiter| waiter.try_recv().err()).count(), 4);
}

#[test]
fn a_sender_has_a_share_of_each_batch() {
    let (mut board, rounds) = board(|options| (options.senders_min, options.sender_share_percent) = (2, 50));
    let now = Instant::now();
    board.open(Arc::new(Plan { batch: 10, ..Plan::clone(&plan(7)) }));
    board.open(Arc::new(Plan { batch: 10, ..Plan::clone(&plan(8)) }));
    let other = SenderId([2; 32]);
    let mut submit = |round, sender, count| {
        let submitted = board.submit(round, sender, slots(count), now);
        submitted.map_err(|status| status.message().to_owned())
    };
    let refused = || Err("a sender may have 5 payloads in this round".to_owned());
    assert_eq!(submit(7, SENDER, 6), refused());
    assert_eq!((submit(7, SENDER, 3), submit(7, SENDER, 3)), (Ok(7), refused()));
    assert_eq!((submit(7, SENDER, 2), submit(7, SENDER, 1)), (Ok(5), refused()));
    // Each round and each sender has a share of its own.
    assert_eq!((submit(8, SENDER, 5), submit(7, other, 5)), (Ok(5), Ok(0)));
    assert_eq!(board.status().counters.calls_refused, [("sender_share", 3)].into());
    assert_eq!(board.take_full(now).len(), 1);
    assert_eq!(rounds.borrow().rounds[0].room, 5);
    // A small batch has a slot for each sender.
    assert_eq!(board.options.sender_share(1), 1);
}

#[test]
fn a_batch_waits_for_enough_senders_and_is_abandoned_without_them() {
    let (mut board, rounds) = board(|options| {
        (options.senders_min, options.sender_share_percent, options.dummies) = (2, 60, false);
        (options.fill, options.hold) = (Duration::from_secs(1), Duration::from_secs(10));
    });
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    for round in [7, 8] {
        board.open(plan(round));
        board.submit(round, SENDER, slots(1), start).expect("there is room");
    }
    board.fill(after(9));
    assert_eq!((board.take_full(after(9)), board.take_abandoned(after(9))), (vec![], vec![]));
    assert_eq!(board.next_due(), Some(after(10)));
    // A second sender comes: the batch is due at once.
    board.submit(8, SenderId([2; 32]), slots(1), after(9)).expect("there is room");
    assert_eq!(board.next_due(), Some(after(1)));
    board.fill(after(9));
    assert_eq!(board.take_full(after(9)).len(), 1);
    assert_eq!(board.take_abandoned(after(10)), [7]);
    assert!(rounds.borrow().rounds.is_empty());
    let counters = board.status().counters;
    assert_eq!((counters.rounds_abandoned, counters.slots_filled, counters.rounds_open), (1, 1, 0));
}

#[test]
fn dummies_are_all_different_and_void_slots_are_not() {
    let different = |dummies: bool| {
        let slots = (0..10).map(|_| super::filling(GROUP, 2, dummies).into_parts());
        slots.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!((different(true), different(false)), (10, 1));
}
