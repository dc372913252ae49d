//! Behaviour of the outbox in single situations.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Blob, bounded, drain, everybody, messages, one_lane, outbox, owe_all, rng};
use samara_engine::outbox::{
    Dispatch, FeedbackSource, Lane, LaneConfig, LossCause, MessageOrder, Overflow, PeerOrder, Schedule,
    Weight,
};
use samara_engine::{Context, Effects, MessageKey, Outbox, PeerId, Time, TimerToken};

fn owe(outbox: &mut Outbox<Blob>, peer: u32, lane: u8, id: u64, len: usize) -> Result<(), LossCause> {
    let frame = Blob { id, len };
    outbox.owe(Time::ZERO, PeerId(peer), Lane(lane), frame, None, None).map_err(|lost| lost.cause)
}

fn ids_for(outbox: &mut Outbox<Blob>, peer: u32) -> Vec<u64> {
    std::iter::from_fn(|| outbox.pop_for(Time::ZERO, PeerId(peer))).map(|copy| copy.frame.id).collect()
}

#[test]
fn lanes_keep_priorities_and_take_turns() {
    let lanes = || [1, 0, 1].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
    let fill = |outbox: &mut Outbox<Blob>| {
        for id in 0..3 {
            (0..3).for_each(|lane| owe(outbox, (id % 2) as u32, lane, 10 * u64::from(lane) + id, 1).unwrap());
        }
    };
    let mut per_link = outbox(Dispatch::PerLink, lanes(), 2);
    fill(&mut per_link);
    assert_eq!(ids_for(&mut per_link, 0), [10, 12, 0, 20, 2, 22]);
    assert_eq!(ids_for(&mut per_link, 1), [11, 1, 21]);
    let mut node = outbox(Dispatch::Node, lanes(), 2);
    fill(&mut node);
    let ids: Vec<u64> = drain(&mut node).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, [10, 11, 12, 0, 20, 1, 21, 2, 22]);
}

#[test]
fn single_lanes_of_a_link_can_be_drained() {
    let lanes = [1, 0, 1, 1].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
    let mut outbox = outbox(Dispatch::PerLink, lanes, 2);
    for id in 0..3 {
        (0..3).for_each(|lane| owe(&mut outbox, 0, lane, 10 * u64::from(lane) + id, 1).unwrap());
    }
    owe(&mut outbox, 1, 0, 99, 1).unwrap();
    let (peer, now) = (PeerId(0), Time::ZERO);
    let mut take = |lanes: &[u8], count: usize| -> Vec<u64> {
        let lanes: Vec<Lane> = lanes.iter().copied().map(Lane).collect();
        std::iter::from_fn(|| outbox.pop_lanes_for(now, peer, &lanes))
            .map(|copy| copy.frame.id)
            .take(count)
            .collect()
    };
    assert_eq!(take(&[2], 1), [20]);
    assert_eq!(take(&[], 9), [0; 0]);
    assert_eq!(take(&[3, 200], 9), [0; 0], "nothing is owed there");
    assert_eq!(take(&[0, 1], 2), [10, 11], "the smaller priority goes first");
    assert_eq!(take(&[2, 1, 0], 3), [12, 0, 21], "turns continue after lane 2");
    let pending = |lane| outbox.pending_on(peer, Lane(lane));
    assert_eq!([pending(0), pending(1), pending(2), pending(3), pending(200)], [2, 0, 1, 0, 0]);
    assert_eq!(outbox.pending_on(PeerId(7), Lane(0)), 0);
    assert_eq!(ids_for(&mut outbox, 0), [1, 22, 2]);
    for (lane, sent) in [(0, 3), (1, 3), (2, 3), (3, 0)] {
        let counters = outbox.counters(Lane(lane));
        assert!(counters.add_up());
        assert_eq!(counters.sent.copies, sent);
    }
}

/// Copies of the smallest priority leave over all links with room, in turn over their lanes, and
/// never any other copy.
#[test]
fn urgent_copies_of_all_links_can_be_drained() {
    let lanes = [1, 0, 0].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
    let mut outbox = outbox(Dispatch::Node, lanes, 3);
    for peer in 0..3 {
        (0..3).for_each(|lane| {
            owe(&mut outbox, peer, lane, u64::from(10 * peer) + u64::from(lane), 1).unwrap()
        });
    }
    let mut take = |closed: u32| -> Vec<u64> {
        let room = |peer: PeerId| peer.0 != closed;
        std::iter::from_fn(|| outbox.pop_urgent(Time::ZERO, room)).map(|copy| copy.frame.id).collect()
    };
    assert_eq!(take(0), [11, 12, 21, 22]);
    assert_eq!(take(9), [1, 2]);
    assert_eq!(take(9), [0; 0]);
    assert_eq!(outbox.pending(), 3);
}

#[test]
fn draining_one_lane_counts_only_its_expired_copies() {
    let lanes = [0, 0].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
    let mut outbox = outbox(Dispatch::PerLink, lanes, 1);
    let (peer, deadline) = (PeerId(0), Some(Time::from_millis(5)));
    for (lane, id, deadline) in [(0, 1, deadline), (1, 2, deadline), (0, 3, None)] {
        let frame = Blob { id, len: 10 };
        outbox.owe(Time::ZERO, peer, Lane(lane), frame, None, deadline).unwrap();
    }
    let late = Time::from_millis(6);
    assert_eq!(outbox.pop_lanes_for(late, peer, &[Lane(0)]).unwrap().frame.id, 3);
    let expired = |outbox: &Outbox<Blob>, lane| outbox.counters(Lane(lane)).expired.copies;
    assert_eq!((expired(&outbox, 0), expired(&outbox, 1)), (1, 0), "the other lane is untouched");
    assert!(outbox.pop_lanes_for(late, peer, &[Lane(1)]).is_none());
    assert_eq!((expired(&outbox, 0), expired(&outbox, 1)), (1, 1));
}

#[test]
fn full_lanes_follow_their_policy() {
    for (overflow, expected, causes) in [
        (Overflow::Block, vec![0, 1], vec![LossCause::Refused; 2]),
        (Overflow::DropNewest, vec![0, 1], vec![LossCause::DroppedNewest; 2]),
        (Overflow::DropOldest, vec![3], vec![LossCause::DroppedOldest; 2]),
    ] {
        let lane = bounded("a", 0, 2, 10, overflow);
        let mut outbox = outbox(Dispatch::PerLink, vec![lane], 1);
        let results: Vec<_> =
            [(0, 4), (1, 4), (2, 4), (3, 9)].map(|(id, len)| owe(&mut outbox, 0, 0, id, len)).into();
        assert_eq!(results.into_iter().filter_map(Result::err).collect::<Vec<_>>(), causes);
        assert!(owe(&mut outbox, 0, 0, 4, 11).is_err(), "larger than the lane");
        assert_eq!(ids_for(&mut outbox, 0), expected);
        assert!(outbox.counters(Lane(0)).add_up());
    }
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 1);
    assert_eq!(owe(&mut outbox, 7, 0, 0, 1), Err(LossCause::NotConnected));
}

#[test]
fn expired_copies_make_room_and_are_counted() {
    let lane = bounded("a", 0, 1, u64::MAX, Overflow::Block);
    let mut outbox = outbox(Dispatch::PerLink, vec![lane], 1);
    let owe = |ms, id, outbox: &mut Outbox<Blob>| {
        let deadline = Some(Time::from_millis(ms + 5));
        outbox.owe(Time::from_millis(ms), PeerId(0), Lane(0), Blob { id, len: 1 }, None, deadline)
    };
    owe(0, 0, &mut outbox).unwrap();
    assert!(owe(5, 1, &mut outbox).is_err());
    owe(6, 2, &mut outbox).unwrap();
    assert_eq!(outbox.counters(Lane(0)).expired.copies, 1);
    assert!(outbox.pop_for(Time::from_millis(12), PeerId(0)).is_none());
    assert_eq!(outbox.counters(Lane(0)).expired.copies, 2);
}

#[test]
fn staggered_waits_for_confirmation_or_the_timeout() {
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 4);
    owe_all(&mut outbox, &everybody(4, 1), &Schedule::Staggered { timeout: Duration::from_millis(20) });
    let (mut touched, key) = (Vec::new(), MessageKey(0));
    let mut released = |outbox: &mut Outbox<Blob>| {
        touched.clear();
        outbox.take_touched(&mut touched);
        touched.clone()
    };
    assert_eq!(released(&mut outbox), [PeerId(0)]);
    assert_eq!(outbox.next_wake(), None);
    assert!(outbox.pop_for(Time::from_millis(1), PeerId(1)).is_none());
    assert_eq!(outbox.pop_for(Time::from_millis(1), PeerId(0)).unwrap().rank, 0);
    assert_eq!(outbox.next_wake(), Some(Time::from_millis(21)));
    outbox.note_has(Time::from_millis(2), PeerId(3), key);
    assert_eq!(released(&mut outbox), []);
    outbox.note_has(Time::from_millis(3), PeerId(0), key);
    assert_eq!(released(&mut outbox), [PeerId(1)]);
    assert!(outbox.pop_for(Time::from_millis(4), PeerId(1)).is_some());
    outbox.wake(Time::from_millis(23));
    assert_eq!(released(&mut outbox), []);
    outbox.wake(Time::from_millis(24));
    assert_eq!(released(&mut outbox), [PeerId(2)]);
    assert!(outbox.owes(PeerId(2), key) && !outbox.owes(PeerId(1), key));
    assert_eq!(outbox.withdraw(PeerId(2), key), 1);
    assert!(!outbox.owes(PeerId(2), key));
    assert_eq!(released(&mut outbox), [PeerId(3)]);
    assert_eq!(outbox.pop_for(Time::from_millis(25), PeerId(3)).unwrap().rank, 2);
    assert_eq!((outbox.next_wake(), outbox.progress(key)), (None, None));
}

#[test]
fn feedback_puts_unseen_messages_first() {
    for (source, observer, first) in [
        (FeedbackSource::Peers { cap: 1 }, 2, vec![1, 2, 0]),
        (FeedbackSource::Peers { cap: 0 }, 2, vec![0, 1, 2]),
        (FeedbackSource::Observers, 3, vec![1, 2, 1]),
        (FeedbackSource::Observers, 2, vec![0, 1, 2]),
    ] {
        let mut outbox = outbox(Dispatch::Node, one_lane(), 4);
        outbox.set_observer(PeerId(observer), true);
        let (messages, peers) = (MessageOrder::AsGiven, PeerOrder::AsGiven);
        owe_all(&mut outbox, &everybody(3, 3), &Schedule::Feedback { source, messages, peers });
        (0..2).for_each(|_| outbox.note_has(Time::ZERO, PeerId(3), MessageKey(0)));
        assert_eq!(outbox.progress(MessageKey(0)).unwrap().noted, 1);
        let ids: Vec<u64> = (0..3).map(|_| outbox.pop(Time::ZERO, |_| true).unwrap().frame.id).collect();
        assert_eq!(ids, first, "{source:?} {observer}");
    }
}

#[test]
fn a_peer_is_an_observer_until_it_is_none_or_its_link_ends() {
    let first = |change: fn(&mut Outbox<Blob>)| {
        let mut outbox = outbox(Dispatch::Node, one_lane(), 4);
        outbox.set_observer(PeerId(3), true);
        change(&mut outbox);
        let source = FeedbackSource::Observers;
        let (messages, peers) = (MessageOrder::AsGiven, PeerOrder::AsGiven);
        owe_all(&mut outbox, &everybody(2, 2), &Schedule::Feedback { source, messages, peers });
        // More peers than are remembered claim to have the message.
        (100..200).for_each(|peer| outbox.note_has(Time::ZERO, PeerId(peer), MessageKey(0)));
        outbox.note_has(Time::ZERO, PeerId(3), MessageKey(0));
        (outbox.observers(), outbox.pop(Time::ZERO, |_| true).unwrap().frame.id)
    };
    assert_eq!(first(|_| {}), (1, 1));
    assert_eq!(first(|outbox| outbox.set_observer(PeerId(3), false)), (0, 0));
    let leaves = |outbox: &mut Outbox<Blob>| {
        outbox.link_down(PeerId(3));
    };
    assert_eq!(first(leaves), (0, 0));
    let returns = |outbox: &mut Outbox<Blob>| {
        outbox.link_down(PeerId(3));
        outbox.link_up(PeerId(3));
    };
    assert_eq!(first(returns), (0, 0), "the engine says again who its observers are");
    assert_eq!(first(|outbox| outbox.set_observer(PeerId(9), true)), (1, 1), "there is no link to peer 9");
}

#[test]
fn weights_are_unknown_until_they_are_set_and_after_they_are_forgotten() {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 2);
    let known = |outbox: &Outbox<Blob>| {
        [Weight::Score, Weight::Latency, Weight::Bandwidth].map(|weight| outbox.has_weight(PeerId(1), weight))
    };
    assert_eq!(known(&outbox), [false; 3]);
    outbox.set_weight(PeerId(1), Weight::Bandwidth, 5.0);
    outbox.set_round_trip(PeerId(1), Some(Duration::from_millis(10)));
    assert_eq!(known(&outbox), [false, true, true]);
    outbox.forget_weights(PeerId(1));
    outbox.forget_weights(PeerId(7));
    assert_eq!((known(&outbox), outbox.round_trip(PeerId(1))), ([false; 3], None));
    assert_eq!(outbox.weight(PeerId(1), Weight::Bandwidth), 1.0);
}

#[test]
fn peers_with_larger_weights_come_first_more_often() {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 2);
    outbox.set_weight(PeerId(1), Weight::Score, 3.0);
    let schedule =
        Schedule::Interleaved { messages: MessageOrder::AsGiven, peers: PeerOrder::Weighted(Weight::Score) };
    owe_all(&mut outbox, &everybody(2, 4000), &schedule);
    let first: u32 = (0..4000).map(|_| outbox.pop(Time::ZERO, |_| true).unwrap().peer.0).sum();
    assert!((2900..3100).contains(&first), "{first} of 4000 instead of 3000");
}

#[test]
fn a_link_that_comes_back_is_empty() {
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 2);
    let mut lost = Vec::new();
    let batch = messages(0, &everybody(2, 3), None);
    outbox.owe_batch(Time::ZERO, Lane(0), batch, &Schedule::Sequential, &mut rng(), &mut lost);
    assert_eq!(outbox.link_down(PeerId(0)), 3);
    outbox.link_up(PeerId(0));
    let mut touched = Vec::new();
    outbox.take_touched(&mut touched);
    assert_eq!((touched, outbox.pending_to(PeerId(0))), (vec![PeerId(1)], 0));
    assert_eq!(ids_for(&mut outbox, 1), [0, 1, 2]);
}

#[test]
fn a_nested_context_shares_everything_but_events() {
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 1);
    let (mut rng, mut effects, mut inner) = (rng(), Effects::<u8>::default(), Vec::<&str>::new());
    let mut cx = Context::new(Time::from_secs(1), &mut rng, &mut outbox, &mut effects);
    let mut nested = cx.nested(&mut inner);
    nested.emit("inner");
    nested.set_timer(nested.now() + Duration::from_secs(1), TimerToken(3));
    cx.emit(1);
    assert_eq!((inner, &effects.events, effects.timers[0].at), (vec!["inner"], &vec![1], Time::from_secs(2)));
    assert_eq!((Time::MAX + Duration::from_secs(1), Time::ZERO - Time::MAX), (Time::MAX, Duration::ZERO));
}

/// Owes one copy of message 0 to each peer in turn, on its lane and with its deadline. Each copy
/// holds back the next.
fn owe_staggered(outbox: &mut Outbox<Blob>, copies: &[(u32, u8, Option<u64>)]) {
    let schedule = Schedule::Staggered { timeout: Duration::from_secs(1) };
    for (peer, lane, deadline_ms) in copies {
        let targets = [BTreeSet::from([*peer])];
        let batch = messages(0, &targets, deadline_ms.map(Time::from_millis));
        let mut lost = Vec::new();
        outbox.owe_batch(Time::ZERO, Lane(*lane), batch, &schedule, &mut rng(), &mut lost);
        assert_eq!(lost, []);
    }
}

/// An expired copy released the next one of its message into a lane that was already found empty:
/// `pop` returned `None` although a copy was waiting.
#[test]
fn expired_copy_releases_another_into_a_lane_already_passed() {
    for (dispatch, second) in [(Dispatch::Node, 1), (Dispatch::Node, 0), (Dispatch::PerLink, 0)] {
        for priorities in [[0, 1], [0, 0]] {
            let lanes = priorities.map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
            let mut outbox = outbox(dispatch, lanes, 2);
            owe_staggered(&mut outbox, &[(0, 1, Some(5)), (second, 0, None)]);
            let now = Time::from_millis(6);
            let copy = match dispatch {
                Dispatch::Node => outbox.pop(now, |_| true),
                Dispatch::PerLink => outbox.pop_for(now, PeerId(0)),
            };
            let copy = copy.expect("the second copy was released");
            assert_eq!((copy.peer, copy.lane), (PeerId(second), Lane(0)));
            assert_eq!((outbox.pending(), outbox.counters(Lane(1)).expired.copies), (0, 1));
        }
    }
}

/// The same with another copy behind the expired one: that copy left first, although the released
/// one has priority.
#[test]
fn copy_released_by_an_expired_one_keeps_its_priority() {
    for dispatch in [Dispatch::Node, Dispatch::PerLink] {
        let lanes = [0, 1].map(|priority| LaneConfig::unbounded("a", priority)).to_vec();
        let mut outbox = outbox(dispatch, lanes, 1);
        owe_staggered(&mut outbox, &[(0, 1, Some(5)), (0, 0, Some(5)), (0, 0, None)]);
        owe(&mut outbox, 0, 1, 7, 1).unwrap();
        let mut pop = || match dispatch {
            Dispatch::Node => outbox.pop(Time::from_millis(6), |_| true),
            Dispatch::PerLink => outbox.pop_for(Time::from_millis(6), PeerId(0)),
        };
        assert_eq!(pop().map(|copy| (copy.lane, copy.frame.id)), Some((Lane(0), 0)));
        assert_eq!(pop().map(|copy| (copy.lane, copy.frame.id)), Some((Lane(1), 7)));
        assert_eq!(pop(), None);
    }
}

/// A balanced plan serves the peer with the fewest copies even among peers that are owed different
/// messages.
#[test]
fn balanced_serves_the_peer_with_the_fewest_copies() {
    let mut outbox = outbox(Dispatch::Node, one_lane(), 2);
    let targets = [vec![0], vec![0], vec![1], vec![0, 1]].map(BTreeSet::from_iter);
    let (messages, peers) = (MessageOrder::AsGiven, PeerOrder::Balanced);
    owe_all(&mut outbox, &targets, &Schedule::Interleaved { messages, peers });
    let peers: Vec<u32> = drain(&mut outbox).into_iter().map(|(peer, _)| peer).collect();
    assert_eq!(peers, [0, 0, 1, 1, 0]);
}

#[test]
fn pending_messages_are_counted_by_peer_without_other_frames() {
    let mut outbox = outbox(Dispatch::PerLink, one_lane(), 3);
    owe(&mut outbox, 2, 0, 9, 1).unwrap();
    owe_all(&mut outbox, &[[0, 1].into(), [1].into()], &Schedule::Sequential);
    assert_eq!(outbox.pending_messages(), [(PeerId(0), 1), (PeerId(1), 2)].into());
    outbox.pop_for(Time::ZERO, PeerId(1)).unwrap();
    assert_eq!(outbox.pending_messages(), [(PeerId(0), 1), (PeerId(1), 1)].into());
}
