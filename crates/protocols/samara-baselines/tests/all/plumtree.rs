//! Plumtree: one node without a network.

use std::sync::Arc;

use crate::common::*;
use samara_baselines::{
    Baseline, Command, Common, Event, Graft, IHave, Ignored, LaneCapacity, Message, MessageId, Plumtree,
    PlumtreeConfig, PlumtreeFrame, RequestError, Sending, Topic,
};
use samara_engine::PeerId;
use samara_engine::outbox::LossCause;

const P: [PeerId; 5] = [PeerId(0), PeerId(1), PeerId(2), PeerId(3), PeerId(4)];

fn ihave(messages: &[(MessageId, u32)]) -> PlumtreeFrame {
    PlumtreeFrame::IHave(Arc::new(IHave { topic: topic(), messages: messages.to_vec() }))
}

fn graft(id: Option<MessageId>, round: u32) -> PlumtreeFrame {
    PlumtreeFrame::Graft(Arc::new(Graft { topic: topic(), id, round }))
}

fn prune() -> PlumtreeFrame {
    PlumtreeFrame::Prune(topic())
}

/// Returns a node with the given lazy neighbours, and nothing owed.
fn with_lazy(config: PlumtreeConfig, neighbours: u32, lazy: &[PeerId]) -> Node<Plumtree> {
    let mut node = plumtree(config, neighbours);
    lazy.iter().for_each(|peer| node.frame(*peer, prune()));
    assert_eq!(node.engine.lazy_peers(), lazy);
    node
}

#[test]
fn new_neighbours_are_eager_and_receive_messages_with_one_more_hop() {
    let mut node = plumtree(PlumtreeConfig::default(), 4);
    assert_eq!(node.engine.eager_peers(), &P[..4]);
    node.frame(P[2], gossip(1, 3));
    assert_eq!(node.sent(), [P[0], P[1], P[3]].map(|peer| (peer, gossip(1, 4))));
    assert!(matches!(node.events[..], [Event::Message { from: Some(PeerId(2)), hops: Some(4), .. }]));
    node.command(Command::PublishMessage(message(2)));
    assert_eq!(node.sent(), [P[0], P[1], P[2], P[3]].map(|peer| (peer, gossip(2, 0))));
    // Nobody is lazy, so nothing is announced.
    node.advance(ms(1000));
    assert!(node.sent().is_empty() && node.timers() == 0);
}

#[test]
fn each_duplicate_prunes_its_sender() {
    let mut node = plumtree(PlumtreeConfig::default(), 3);
    node.frame(P[0], gossip(1, 0));
    node.sent();
    node.frame(P[1], gossip(1, 5));
    assert_eq!(node.sent(), [(P[1], prune())]);
    assert_eq!((node.engine.eager_peers(), node.engine.lazy_peers()), (&[P[0], P[2]][..], &[P[1]][..]));
    node.frame(P[1], gossip(1, 5));
    assert_eq!(node.sent(), [(P[1], prune())]);
    assert_eq!(node.delivered(), [(1, Some(P[0]))]);
    // A first copy makes it eager again.
    node.frame(P[1], gossip(2, 5));
    assert_eq!(node.engine.eager_peers(), &P[..3]);
}

#[test]
fn lazy_neighbours_get_announcements_together_after_the_interval() {
    let mut node = with_lazy(PlumtreeConfig::default(), 4, &[P[1], P[3]]);
    node.frame(P[0], gossip(1, 0));
    node.advance(ms(3));
    node.frame(P[3], gossip(2, 7));
    node.command(Command::PublishMessage(message(3)));
    let messages = node.sent();
    assert!(messages.iter().all(|(_, frame)| matches!(frame, PlumtreeFrame::Gossip { .. })));
    node.advance(ms(1));
    assert!(node.sent().is_empty());
    node.advance(ms(1));
    let [one, two, three] = [1, 2, 3].map(|number| message(number).id());
    // The sender of the second message gets no announcement of it. It is eager since, and got the
    // third in full.
    let expected = [(P[1], ihave(&[(one, 1), (two, 8), (three, 0)])), (P[3], ihave(&[(one, 1)]))];
    assert_eq!(node.sent(), expected);
    assert!(messages.contains(&(P[3], gossip(3, 0))));
    assert_eq!(node.engine.metrics().ihave_ids_sent, 4);
}

#[test]
fn missing_messages_are_grafted_after_80_ms_and_then_every_40_ms() {
    let mut node = with_lazy(PlumtreeConfig::default(), 4, &[P[1], P[2], P[3]]);
    let wanted = message(1).id();
    node.frame(P[2], ihave(&[(wanted, 4)]));
    node.advance(ms(10));
    node.frame(P[1], ihave(&[(wanted, 3)]));
    node.frame(P[3], ihave(&[(wanted, 5)]));
    node.advance(ms(69));
    assert!(node.sent().is_empty());
    node.advance(ms(1));
    assert_eq!(node.sent(), [(P[2], graft(Some(wanted), 4))]);
    assert_eq!(node.engine.eager_peers(), [P[0], P[2]]);
    node.advance(ms(39));
    assert!(node.sent().is_empty());
    node.advance(ms(1));
    assert_eq!(node.sent(), [(P[1], graft(Some(wanted), 3))]);
    // The message arrives, so no other neighbour is asked.
    node.frame(P[1], gossip(1, 3));
    node.advance(ms(1000));
    let grafts = node.sent().into_iter().filter(|(_, frame)| matches!(frame, PlumtreeFrame::Graft(_)));
    assert_eq!(grafts.count(), 0);
    assert_eq!(node.engine.lazy_peers(), [P[3]]);
    assert_eq!(node.engine.sizes().missing, 0);
    assert_eq!(node.engine.metrics().grafts_sent, 2);
}

#[test]
fn unavailable_messages_are_given_up_and_can_be_announced_again() {
    let mut node = with_lazy(PlumtreeConfig::default(), 2, &[P[1]]);
    node.frame(P[1], ihave(&[(id(1), 0)]));
    node.frame(P[1], ihave(&[(id(1), 0)]));
    assert_eq!(node.ignored(Ignored::IHaveRepeated), 1);
    node.advance(ms(119));
    assert_eq!((node.engine.sizes().missing, node.engine.metrics().missing_given_up), (1, 0));
    node.advance(ms(1));
    assert_eq!((node.engine.sizes().missing, node.engine.metrics().missing_given_up), (0, 1));
    assert_eq!(node.sent(), [(P[1], graft(Some(id(1)), 0))]);
    node.frame(P[1], ihave(&[(id(1), 0)]));
    node.advance(ms(80));
    assert_eq!(node.sent(), [(P[1], graft(Some(id(1)), 0))]);
}

#[test]
fn timeouts_are_parameters() {
    let config = PlumtreeConfig {
        graft_timeout: ms(500),
        graft_retry: ms(200),
        dispatch_interval: ms(0),
        ..PlumtreeConfig::default()
    };
    let mut node = with_lazy(config, 3, &[P[1], P[2]]);
    node.frame(P[1], ihave(&[(id(1), 0)]));
    node.frame(P[2], ihave(&[(id(1), 0)]));
    node.advance(ms(499));
    assert!(node.sent().is_empty());
    node.advance(ms(1));
    assert_eq!(node.sent(), [(P[1], graft(Some(id(1)), 0))]);
    node.advance(ms(200));
    assert_eq!(node.sent(), [(P[2], graft(Some(id(1)), 0))]);
    node.frame(P[1], prune());
    node.command(Command::PublishMessage(message(1)));
    node.advance(ms(0));
    assert!(node.sent().contains(&(P[1], ihave(&[(message(1).id(), 0)]))));
}

#[test]
fn graft_is_answered_with_the_message_and_all_later_ones() {
    let mut node = with_lazy(PlumtreeConfig::default(), 3, &[P[1]]);
    node.frame(P[0], gossip(1, 6));
    node.advance(ms(10));
    node.sent();
    node.frame(P[1], graft(Some(message(1).id()), 7));
    assert_eq!(node.engine.eager_peers(), &P[..3]);
    assert_eq!(node.sent(), [(P[1], gossip(1, 7))]);
    node.frame(P[0], gossip(2, 0));
    assert_eq!(node.sent(), [(P[1], gossip(2, 1)), (P[2], gossip(2, 1))]);
    assert_eq!(node.engine.metrics().answered_copies, 1);
}

#[test]
fn graft_for_an_owed_unknown_or_expired_message_only_changes_the_tree() {
    let mut node = with_lazy(PlumtreeConfig::default(), 3, &[P[2]]);
    node.frame(P[0], gossip(1, 0));
    // The copy still waits in the queue, and is not duplicated.
    node.frame(P[1], graft(Some(message(1).id()), 0));
    assert_eq!(node.ignored(Ignored::GraftOwed), 1);
    assert_eq!(node.sent(), [(P[1], gossip(1, 1))]);
    node.frame(P[2], graft(Some(id(5)), 0));
    assert_eq!(node.ignored(Ignored::GraftUnknown), 1);
    node.frame(P[2], graft(None, 0));
    assert_eq!(node.engine.eager_peers(), &P[..3]);
    node.advance(ms(30_000));
    node.sent();
    node.frame(P[2], graft(Some(message(1).id()), 0));
    assert_eq!(node.ignored(Ignored::GraftUnknown), 2);
    assert!(node.sent().is_empty());
}

#[test]
fn a_link_seven_hops_shorter_replaces_the_tree_link() {
    // (round announced, round of the copy, threshold, whether the tree changes)
    let cases = [
        (2, 9, Some(7), true),
        (2, 8, Some(7), false),
        (9, 2, Some(7), false),
        (2, 5, Some(3), true),
        (2, 100, None, false),
        (2, 2, Some(0), false),
    ];
    for (announced, came, optimization_threshold, changes) in cases {
        let config = PlumtreeConfig { optimization_threshold, ..PlumtreeConfig::default() };
        let mut node = with_lazy(config, 4, &[P[1], P[2]]);
        node.frame(P[2], ihave(&[(message(1).id(), announced + 1)]));
        node.frame(P[1], ihave(&[(message(1).id(), announced)]));
        node.frame(P[0], gossip(1, came));
        let control: Vec<_> = node
            .sent()
            .into_iter()
            .filter(|(_, frame)| !matches!(frame, PlumtreeFrame::Gossip { .. }))
            .collect();
        let label = format!("{announced} announced, {came} came, threshold {optimization_threshold:?}");
        if changes {
            assert_eq!(control, [(P[0], prune()), (P[1], graft(None, announced))], "{label}");
            assert_eq!(node.engine.eager_peers(), [P[1], P[3]], "{label}");
        } else {
            assert_eq!(control, [], "{label}");
            assert_eq!(node.engine.eager_peers(), [P[0], P[3]], "{label}");
        }
        assert_eq!(node.engine.metrics().optimizations, u64::from(changes));
    }
}

#[test]
fn departed_neighbours_are_not_asked_and_return_eager() {
    let mut node = with_lazy(PlumtreeConfig::default(), 3, &[P[1], P[2]]);
    node.frame(P[1], ihave(&[(id(1), 0), (id(2), 0)]));
    node.frame(P[2], ihave(&[(id(1), 0)]));
    node.disconnect(P[1]);
    node.advance(ms(80));
    assert_eq!(node.sent(), [(P[2], graft(Some(id(1)), 0))]);
    assert_eq!(node.engine.metrics().missing_given_up, 1);
    node.reconnect(P[1], "");
    assert_eq!(node.engine.eager_peers(), &P[..3]);
    assert!(node.engine.lazy_peers().is_empty());
    node.disconnect(P[0]);
    node.disconnect(P[0]);
    assert_eq!(node.engine.eager_peers(), [P[1], P[2]]);
    node.frame(P[0], gossip(1, 0));
    assert_eq!(node.ignored(Ignored::FrameUnknownPeer), 1);
}

#[test]
fn announcement_of_an_owed_message_withdraws_the_copy() {
    let mut node = plumtree(PlumtreeConfig::default(), 3);
    node.frame(P[0], gossip(1, 0));
    node.frame(P[1], ihave(&[(message(1).id(), 3)]));
    assert_eq!(node.sent(), [(P[2], gossip(1, 1))]);
    assert_eq!(node.engine.metrics().withdrawn_copies, 1);
    assert_eq!(node.engine.sizes().missing, 0);
}

#[test]
fn other_topics_are_rejected() {
    let mut node = plumtree(PlumtreeConfig::default(), 2);
    let other = Topic::new("other");
    let message = Arc::new(Message::new(identity(7), 1, other.clone(), vec![1].into()));
    node.frame(P[0], PlumtreeFrame::Gossip { message: Arc::clone(&message), round: 0 });
    node.frame(P[0], PlumtreeFrame::Prune(other.clone()));
    assert_eq!(node.ignored(Ignored::OtherTopic), 2);
    assert_eq!(node.engine.eager_peers(), &P[..2]);
    let refused = RequestError::OtherTopic { found: other.clone(), expected: topic() };
    for command in [Command::Subscribe(other), Command::PublishMessage(message)] {
        node.command(command);
        assert!(matches!(node.events.pop(), Some(Event::Refused(error)) if error == refused));
    }
}

#[test]
fn without_joining_a_node_forwards_without_events() {
    let mut node = plumtree(PlumtreeConfig::default(), 2);
    node.command(Command::Unsubscribe(topic()));
    node.frame(P[0], gossip(1, 0));
    assert_eq!(node.sent(), [(P[1], gossip(1, 1))]);
    assert!(node.events.is_empty());
}

#[test]
fn graft_without_room_is_retried() {
    let sending = Sending { control: LaneCapacity::copies(1), ..Sending::default() };
    let common = Common { sending, ..PlumtreeConfig::default().common };
    let mut node = with_lazy(PlumtreeConfig { common, ..PlumtreeConfig::default() }, 2, &[P[1]]);
    node.frame(P[1], ihave(&[(id(1), 0), (id(2), 0)]));
    node.advance(ms(80));
    assert_eq!(node.sent(), [(P[1], graft(Some(id(1)), 0))]);
    assert_eq!(node.engine.metrics().queue_drops(LossCause::DroppedNewest), 1);
    node.advance(ms(40));
    assert_eq!(node.sent(), [(P[1], graft(Some(id(2)), 0))]);
}

// ---- hostile neighbours ----

#[test]
fn a_flood_of_announcements_is_bounded_and_leaves_room_for_others() {
    let config = PlumtreeConfig {
        missing_max: 1000,
        missing_per_peer_max: 300,
        ihave_ids_max: 200,
        ..PlumtreeConfig::default()
    };
    let mut node = with_lazy(config, 5, &[P[1], P[2]]);
    let mut next = 0;
    for _ in 0..100 {
        for _ in 0..10 {
            let ids: Vec<_> = (next..next + 250).map(|number| (id(number), 0)).collect();
            next += 250;
            node.frame(P[1], ihave(&ids));
        }
        // 300 announcements not yet grafted, and as many grafted ones.
        assert!(node.engine.sizes().missing <= 600);
        assert!(node.engine.sizes().deadlines <= 2 * 600 + 64);
        node.advance(ms(10));
        node.sent();
    }
    assert_eq!(node.ignored(Ignored::IHaveIdsOverLimit), 100 * 10 * 50);
    assert!(node.ignored(Ignored::IHavePeerFull) > 100_000);
    // The node still requests messages that an honest neighbour announces.
    node.frame(P[2], ihave(&[(message(1).id(), 0)]));
    node.advance(ms(80));
    assert!(node.sent().contains(&(P[2], graft(Some(message(1).id()), 0))));
    // Several flooding neighbours fill the table, but do not exceed it.
    for (peer, first) in [(P[0], 1 << 40), (P[1], 1 << 41), (P[3], 1 << 42), (P[4], 1 << 43)] {
        for part in 0..2 {
            let first = first + part * 200;
            let ids: Vec<_> = (first..first + 200).map(|number| (id(number), 0)).collect();
            node.frame(peer, ihave(&ids));
        }
    }
    assert_eq!(node.engine.sizes().missing, 1000);
    assert!(node.ignored(Ignored::IHaveTableFull) > 0);
    node.advance(ms(1000));
    assert_eq!(node.engine.sizes().missing, 0);
}

#[test]
fn timers_do_not_accumulate() {
    let mut node = with_lazy(PlumtreeConfig::default(), 2, &[P[1]]);
    for number in 0..1000 {
        // One message that never arrives, and one that does.
        node.frame(P[1], ihave(&[(id(number), 0), (message(number).id(), 0)]));
        node.frame(P[0], gossip(number, 0));
        node.advance(ms(1));
        node.sent();
        assert!(node.timers() <= 4, "{} timers", node.timers());
        assert!(node.engine.sizes().missing <= 120);
        assert!(node.engine.sizes().deadlines <= 2 * 120 + 64);
    }
}

#[test]
fn a_flood_of_grafts_gets_a_bounded_number_of_copies() {
    let config = PlumtreeConfig { grafts_per_second_max: 50, ..PlumtreeConfig::default() };
    let mut node = with_lazy(config, 2, &[P[1]]);
    node.frame(P[0], gossip(1, 0));
    let mut copies = 0;
    for _ in 0..3000 {
        node.frame(P[1], graft(Some(message(1).id()), 0));
        copies += node.sent().len();
        node.advance(ms(1));
    }
    // 3 s, plus a second that had already begun.
    assert!((150..=200).contains(&copies), "{copies}");
    assert!(node.ignored(Ignored::GraftOverLimit) >= 2800);
}

#[test]
fn queue_to_a_peer_that_never_reads_is_bounded() {
    let sending = Sending { control: LaneCapacity::copies(100), ..Sending::default() };
    let common = Common { sending, ..PlumtreeConfig::default().common };
    let mut node = plumtree(PlumtreeConfig { common, ..PlumtreeConfig::default() }, 2);
    node.frame(P[0], gossip(1, 0));
    for _ in 0..10_000 {
        node.frame(P[1], gossip(1, u32::MAX));
        node.frame(P[1], prune());
    }
    assert_eq!(node.outbox.pending_to(P[1]), 100);
    assert_eq!(node.engine.metrics().queue_drops(LossCause::DroppedNewest), 9900);
}

#[test]
fn rounds_do_not_overflow() {
    let mut node = with_lazy(PlumtreeConfig::default(), 3, &[P[1]]);
    node.frame(P[1], ihave(&[(message(1).id(), u32::MAX)]));
    node.frame(P[0], gossip(1, u32::MAX));
    assert!(node.sent().contains(&(P[2], gossip(1, u32::MAX))));
}

#[test]
fn the_cache_is_bounded_in_messages_and_bytes() {
    for (cache_messages_max, cache_bytes_max) in [(10, 1 << 20), (1000, 1050)] {
        let config = PlumtreeConfig { cache_messages_max, cache_bytes_max, ..PlumtreeConfig::default() };
        let mut node = with_lazy(config, 2, &[P[1]]);
        for number in 0..100 {
            node.frame(P[0], gossip(number, 0));
            assert!(node.engine.sizes().cached <= 10);
        }
        node.sent();
        for number in 0..100 {
            node.frame(P[1], graft(Some(message(number).id()), 0));
        }
        let answered: Vec<_> = (90..100).map(|number| (P[1], gossip(number, 1))).collect();
        assert_eq!(node.sent(), answered);
    }
}

#[test]
fn errors_name_invalid_parameters() {
    let make = |config: PlumtreeConfig| Plumtree::new(config, identity(0), topic()).unwrap_err();
    let base = PlumtreeConfig::default;
    assert_eq!(make(PlumtreeConfig { graft_retry: ms(0), ..base() }).field, "graft_retry");
    assert_eq!(make(PlumtreeConfig { cache_ttl: ms(90_001), ..base() }).field, "cache_ttl");
    let error = make(PlumtreeConfig { ihave_ids_max: 50_000, ..base() });
    let expected = "ihave_ids_max: found 50000, expected at most 49879 with common.max_frame_bytes = 1048579";
    assert_eq!(error.to_string(), expected);
}
