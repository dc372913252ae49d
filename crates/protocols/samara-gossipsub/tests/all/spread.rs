//! Pushes to some peers, announcements to others, and one request at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::PeerId;
use samara_engine::outbox::{Dispatch, Weight};
use samara_gossipsub::config::{Announce, Authenticity, Pull, Spread};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, MessageId};
use samara_gossipsub::{Acceptance, Config, Piece};

use crate::common::*;

/// A node that pushes to two mesh peers and announces to the others at once.
fn study() -> Spread {
    Spread {
        push_copies: 2,
        publish_to_all: false,
        announce: Announce::Mesh,
        announce_delay: Duration::ZERO,
        pull: Pull { retry: ms(200), add_round_trip: false, ..Pull::default() },
        ..Spread::default()
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pieces(spread: Spread) -> Config {
    changed(plain(), |config| {
        config.spread = Some(spread);
        config.message_id = MessageIdFn::Pieces { len: Piece::ID_BYTES };
        config.authenticity = Authenticity::anonymous();
        config.sending.dispatch = Dispatch::Node;
        config.idontwant.threshold_bytes = 1;
        config.gossip.ihave_messages_max = 1_000;
    })
}

/// A piece of payload 1, which needs `needed` of `total` pieces.
fn piece(needed: u16, total: u16, index: u16) -> Arc<Message> {
    let header = Piece { payload: 1, needed, total }.header(index);
    Arc::new(Message::new(topic("t"), Bytes::from([&header[..], &[index as u8; 100]].concat())))
}

fn id(message: &Message) -> MessageId {
    MessageIdFn::Pieces { len: Piece::ID_BYTES }.id(message)
}

fn wait(node: &mut Node, time: Duration) {
    node.advance(time);
}

#[test]
fn ids_of_pieces_name_their_payload() {
    let message = piece(3, 4, 2);
    assert_eq!(Piece::of(&id(&message)), Some(Piece { payload: 1, needed: 3, total: 4 }));
    assert_eq!(id(&message).as_bytes().len(), 20);
    let long = MessageIdFn::Pieces { len: 101 }.id(&message);
    assert_eq!((long.as_bytes().len(), Piece::of(&long)), (101, Piece::of(&id(&message))));
    assert_eq!(long.as_bytes()[..20], *id(&message).as_bytes());
    // Other data, and headers that contradict themselves, are no pieces.
    for data in [vec![7; 40], Piece { payload: 1, needed: 5, total: 4 }.header(0).to_vec()] {
        assert_eq!(Piece::of(&id(&Message::new(topic("t"), Bytes::from(data)))), None);
    }
    // Content counts: nobody can take the id of a piece with other bytes.
    let mut other = message.data.to_vec();
    *other.last_mut().unwrap() ^= 1;
    assert_ne!(id(&Message::new(topic("t"), Bytes::from(other))), id(&message));
}

#[test]
fn two_mesh_peers_get_a_push_and_the_others_an_announcement() {
    let (mut node, _) = Node::on_topic(pieces(study()), "t", 6, 6);
    let mesh = node.mesh("t");
    let message = piece(2, 2, 0);
    node.rpc(mesh[0], publish([Arc::clone(&message)]));
    let sent = node.sent();
    let pushed: Vec<PeerId> = sent.messages().into_iter().map(|(peer, _)| peer).collect();
    let announced: Vec<PeerId> = sent.ihaves().into_iter().map(|(peer, _)| peer).collect();
    assert_eq!((pushed.len(), announced.len()), (2, 3));
    assert!(!pushed.contains(&mesh[0]) && pushed.iter().all(|peer| !announced.contains(peer)));
}

#[test]
fn peers_that_have_the_message_count_among_the_two() {
    for (holders, expected) in [(1, 1), (2, 0), (3, 0)] {
        let (mut node, _) = Node::on_topic(pieces(study()), "t", 6, 6);
        let mesh = node.mesh("t");
        let message = piece(2, 2, 0);
        node.rpcs(&mesh[1..=holders], idontwant(vec![id(&message)]));
        node.rpc(mesh[0], publish([Arc::clone(&message)]));
        let sent = node.sent();
        assert_eq!(sent.messages().len(), expected, "{holders} holders");
        assert_eq!(sent.ihaves().len(), 5 - holders - expected);
    }
}

#[test]
fn a_message_is_requested_from_one_announcer_and_then_from_the_next() {
    let (mut node, peers) = Node::on_topic(pieces(study()), "t", 6, 6);
    let wanted = vec![id(&piece(2, 2, 0))];
    node.rpcs(&peers[..3], ihave("t", wanted.clone()));
    assert_eq!(node.sent().iwants(), [(peers[0], wanted.clone())]);
    wait(&mut node, ms(199));
    assert!(node.sent().iwants().is_empty());
    wait(&mut node, ms(2));
    assert_eq!(node.sent().iwants(), [(peers[1], wanted.clone())]);
    wait(&mut node, ms(200));
    assert_eq!(node.sent().iwants(), [(peers[2], wanted)]);
    assert_eq!(node.engine.metrics().requests_overdue, 2);
}

#[test]
fn a_message_that_arrived_is_not_requested_again() {
    let (mut node, peers) = Node::on_topic(pieces(study()), "t", 6, 6);
    let message = piece(2, 2, 0);
    node.rpcs(&peers[..2], ihave("t", vec![id(&message)]));
    node.rpc(peers[2], publish([message]));
    let sent = node.sent();
    // The asked peer learns that it need not answer.
    assert!(sent.idontwant_receivers().contains(&peers[0]));
    wait(&mut node, ms(900));
    assert!(node.sent().iwants().is_empty());
    assert_eq!((node.engine.sizes().wanted, node.engine.metrics().peers_parked), (0, 0));
}

#[test]
fn a_peer_that_breaks_a_promise_is_parked_until_the_time_is_over() {
    let park_for = Duration::from_secs(2);
    let pull = Pull { park_for, ..study().pull };
    let (mut node, peers) = Node::on_topic(pieces(Spread { pull, ..study() }), "t", 6, 6);
    node.rpc(peers[0], ihave("t", vec![id(&piece(9, 9, 0))]));
    wait(&mut node, ms(450));
    node.sent();
    assert_eq!(node.engine.metrics().peers_parked, 1);
    let offered = [1, 2].map(|index| id(&piece(9, 9, index)));
    node.rpc(peers[0], ihave("t", offered.to_vec()));
    assert!(node.sent().iwants().is_empty());
    // Another peer is asked at once, and the first one after a while for what nobody else has.
    node.rpc(peers[1], ihave("t", vec![offered[1].clone()]));
    assert_eq!(node.sent().iwants(), [(peers[1], vec![offered[1].clone()])]);
    wait(&mut node, ms(400));
    let iwants = node.sent().iwants();
    let of_first: Vec<_> = iwants.into_iter().filter(|(peer, _)| *peer == peers[0]).collect();
    let again = id(&piece(9, 9, 0));
    assert_eq!(of_first, [(peers[0], vec![again]), (peers[0], vec![offered[0].clone()])]);
    // It is as before when its time is over.
    node.rpc(peers[1], publish([0, 1, 2].map(|index| piece(9, 9, index))));
    wait(&mut node, park_for);
    node.sent();
    node.rpc(peers[0], ihave("t", vec![id(&piece(9, 9, 3))]));
    assert_eq!(node.sent().iwants(), [(peers[0], vec![id(&piece(9, 9, 3))])]);
}

/// With room for one announcer, one that does not answer keeps no other out.
#[test]
fn an_announcer_that_did_not_answer_makes_room() {
    let pull = Pull { offers_max: 1, ..study().pull };
    let (mut node, peers) = Node::on_topic(pieces(Spread { pull, ..study() }), "t", 6, 6);
    let wanted = id(&piece(9, 9, 0));
    node.rpc(peers[0], ihave("t", vec![wanted.clone()]));
    node.rpc(peers[1], ihave("t", vec![wanted.clone()]));
    assert_eq!(node.sent().iwants(), [(peers[0], vec![wanted.clone()])]);
    assert_eq!(node.engine.metrics().offers_ignored, 1);
    wait(&mut node, ms(450));
    node.sent();
    node.rpc(peers[1], ihave("t", vec![wanted.clone()]));
    assert_eq!(node.sent().iwants(), [(peers[1], vec![wanted])]);
}

#[test]
fn no_piece_is_requested_after_the_last_that_is_needed() {
    let (mut node, peers) = Node::on_topic(pieces(study()), "t", 6, 6);
    node.rpc(peers[0], ihave("t", vec![id(&piece(2, 4, 3))]));
    node.sent();
    node.rpc(peers[1], publish([piece(2, 4, 0)]));
    node.rpc(peers[1], publish([piece(2, 4, 1)]));
    node.sent();
    assert_eq!(node.engine.sizes().wanted, 0);
    node.rpc(peers[2], ihave("t", vec![id(&piece(2, 4, 2))]));
    wait(&mut node, ms(500));
    assert!(node.sent().iwants().is_empty());
}

#[test]
fn pieces_that_are_not_valid_do_not_end_the_requests() {
    let validator = samara_gossipsub::config::ValidatorHook::deferred();
    let config = Config { validator: Some(validator), ..pieces(study()) };
    let (mut node, peers) = Node::on_topic(config, "t", 6, 6);
    for index in [0, 1] {
        let message = piece(2, 4, index);
        node.rpc(peers[1], publish([Arc::clone(&message)]));
        node.with(|engine, cx| engine.report_validation(&id(&message), Acceptance::Reject, cx));
    }
    let wanted = vec![id(&piece(2, 4, 2))];
    node.rpc(peers[0], ihave("t", wanted.clone()));
    assert_eq!(node.sent().iwants(), [(peers[0], wanted)]);
}

#[test]
fn each_message_of_a_frame_has_its_own_announcers() {
    let spread = Spread { announce: Announce::Nearest(9), ..Spread::default() };
    let (mut node, _) = Node::on_topic(pieces(spread), "t", 6, 6);
    let mesh = node.mesh("t");
    let [announced, other] = [piece(9, 9, 0), piece(9, 9, 1)];
    node.rpcs(&mesh[1..4], ihave("t", vec![id(&announced)]));
    node.sent();
    // Both arrive in one frame. Three peers have the first one, nobody but its sender the second.
    node.rpc(mesh[0], publish([Arc::clone(&announced), Arc::clone(&other)]));
    let pushed = node.sent().messages();
    assert!(pushed.iter().all(|(_, message)| *message == other), "{pushed:?}");
    assert_eq!(pushed.len(), 2);
}

#[test]
fn another_announcer_is_asked_after_the_round_trip_of_the_first() {
    // 150 ms beyond a round trip of 1 s while it is unknown, and of 10 s at most.
    for (trip, due) in [(Some(ms(40)), ms(190)), (None, ms(1150)), (Some(ms(60_000)), ms(10_150))] {
        let (mut node, peers) = Node::on_topic(pieces(Spread::default()), "t", 6, 6);
        node.outbox.set_round_trip(peers[0], trip);
        let wanted = vec![id(&piece(9, 9, 0))];
        node.rpcs(&peers[..2], ihave("t", wanted.clone()));
        assert_eq!(node.sent().iwants(), [(peers[0], wanted.clone())]);
        wait(&mut node, due - ms(1));
        assert_eq!(node.sent().iwants(), [], "{trip:?}");
        wait(&mut node, ms(1));
        assert_eq!(node.sent().iwants(), [(peers[1], wanted)], "{trip:?}");
    }
}

#[test]
fn any_weight_of_a_link_gives_a_time_to_wait() {
    let (mut node, peers) = Node::on_topic(pieces(Spread::default()), "t", 6, 6);
    for (index, weight) in [0.0, f64::NAN, f64::INFINITY, 1e300].into_iter().enumerate() {
        node.outbox.set_weight(peers[index], Weight::Latency, weight);
        node.rpc(peers[index], ihave("t", vec![id(&piece(9, 9, index as u16))]));
    }
    wait(&mut node, Duration::from_secs(11));
    assert!(node.engine.metrics().requests_overdue >= 4);
}

#[test]
fn requests_without_a_time_are_refused() {
    for (pull, field) in [
        (Pull { retry: Duration::ZERO, ..Pull::default() }, "spread.pull.retry"),
        (Pull { hedge_copies: 0, ..Pull::default() }, "spread.pull.hedge_copies"),
    ] {
        let error = pieces(Spread { pull, ..study() }).validate().unwrap_err();
        assert_eq!(error.field, field);
    }
}

#[test]
fn the_last_pieces_are_requested_from_several_announcers() {
    let pull = Pull { hedge_missing: 1, hedge_copies: 2, ..study().pull };
    let (mut node, peers) = Node::on_topic(pieces(Spread { pull, ..study() }), "t", 6, 6);
    let last = vec![id(&piece(2, 2, 1))];
    node.rpcs(&peers[..3], ihave("t", last.clone()));
    assert_eq!(node.sent().iwants().len(), 1);
    node.rpc(peers[3], publish([piece(2, 2, 0)]));
    assert_eq!(node.sent().iwants(), [(peers[1], last)]);
}

#[test]
fn the_publisher_spreads_copies_over_all_peers_and_stays_quiet() {
    let (mut node, peers) = Node::on_topic(pieces(Spread::default()), "t", 20, 20);
    let batch: Vec<Arc<Message>> = (0..20).map(|index| piece(20, 20, index)).collect();
    let schedule = samara_engine::outbox::Schedule::INTERLEAVED;
    node.with(|engine, cx| engine.publish_message_batch(batch, &schedule, cx));
    let sent = node.sent();
    let mut receivers: Vec<PeerId> = sent.messages().into_iter().map(|(peer, _)| peer).collect();
    receivers.sort_unstable();
    assert_eq!(receivers, peers.iter().flat_map(|peer| [*peer; 2]).collect::<Vec<_>>());
    assert!(sent.ihaves().is_empty());
    let quiet = node.sent_at_heartbeat().ihaves();
    let mesh = node.mesh("t");
    assert!(quiet.iter().all(|(peer, _)| !mesh.contains(peer)));
    wait(&mut node, ms(990));
    node.sent();
    wait(&mut node, ms(30));
    let announced = node.sent().ihaves();
    assert!(mesh.iter().all(|peer| announced.iter().any(|(announced, _)| announced == peer)));
}

#[test]
fn a_publisher_that_has_not_joined_announces_to_those_without_a_push() {
    let one = Spread { push_copies: 1, ..Spread::default() };
    let few = Spread { announce: Announce::Nearest(0), ..one.clone() };
    let loud = Spread { publish_to_all: false, ..few.clone() };
    for (spread, flood_publish) in
        [one, few, loud].into_iter().flat_map(|it| [(it.clone(), false), (it, true)])
    {
        let mut node = Node::new(Config { flood_publish, ..pieces(spread) });
        let peers = node.join_peers("t", 2, true);
        let schedule = samara_engine::outbox::Schedule::INTERLEAVED;
        node.with(|engine, cx| engine.publish_message_batch(vec![piece(1, 1, 0)], &schedule, cx));
        assert_eq!(node.sent().messages().len(), 1);
        node.heartbeats(2);
        wait(&mut node, ms(5));
        let mut announced: Vec<PeerId> = node.sent().ihaves().into_iter().map(|(peer, _)| peer).collect();
        announced.dedup();
        assert_eq!(announced, peers, "the receiver may be gone");
    }
}

#[test]
fn announcements_go_to_the_nearest_peers() {
    let spread = Spread { push_copies: 0, announce: Announce::Nearest(3), ..Spread::default() };
    let (mut node, peers) = Node::on_topic(pieces(spread), "t", 20, 20);
    for (peer, millis) in peers.iter().zip(10u32..) {
        node.outbox.set_round_trip(*peer, Some(Duration::from_millis(millis.into())));
    }
    node.rpc(peers[1], publish([piece(2, 2, 0)]));
    wait(&mut node, ms(5));
    let nearest: Vec<PeerId> = node.sent().ihaves().into_iter().map(|(peer, _)| peer).collect();
    assert_eq!(nearest, [peers[0], peers[2], peers[3]]);
}

#[test]
fn mesh_peers_that_are_not_near_hear_of_a_message_at_the_next_heartbeat() {
    let spread = Spread { push_copies: 1, announce: Announce::Nearest(1), ..Spread::default() };
    let (mut node, _) = Node::on_topic(pieces(spread), "t", 5, 5);
    let mesh = node.mesh("t");
    let message = piece(2, 2, 0);
    node.rpc(mesh[0], publish([Arc::clone(&message)]));
    wait(&mut node, ms(5));
    let sent = node.sent();
    let mut reached: Vec<PeerId> = sent.messages().into_iter().map(|(peer, _)| peer).collect();
    reached.extend(sent.ihaves().into_iter().map(|(peer, _)| peer));
    assert_eq!(reached.len(), 2);
    let heard: Vec<PeerId> = node.sent_at_heartbeat().ihaves().into_iter().map(|(peer, _)| peer).collect();
    assert!(mesh[1..].iter().all(|peer| reached.contains(peer) || heard.contains(peer)), "{heard:?}");
}

#[test]
fn a_peer_cannot_make_the_node_remember_more_offers_than_the_limits() {
    let (mut node, peers) = Node::on_topic(pieces(study()), "t", 20, 20);
    for index in 0..600 {
        node.rpc(peers[0], ihave("t", vec![id(&piece(600, 600, index))]));
    }
    let most = Pull::OFFERS_PER_PEER_MAX as usize;
    assert_eq!(node.engine.sizes().wanted, most);
    assert_eq!(node.engine.metrics().offers_ignored, 600 - most as u64);
    // Nor can many peers for one message.
    let pull = study().pull;
    let before = node.engine.metrics().offers_ignored;
    node.rpcs(&peers[1..], ihave("t", vec![id(&piece(2, 2, 1))]));
    assert_eq!(node.engine.metrics().offers_ignored - before, 19 - pull.offers_max as u64);
    node.disconnect(peers[0]);
    wait(&mut node, Pull::OFFER_TTL + Duration::from_secs(2));
    assert_eq!(node.engine.sizes().wanted, 0);
}

#[test]
fn payloads_that_peers_make_up_do_not_fill_the_memory() {
    let (mut node, peers) = Node::on_topic(pieces(study()), "t", 6, 6);
    for payload in 0..2_000u64 {
        let header = Piece { payload, needed: 2, total: 2 }.header(0);
        let message = Message::new(topic("t"), Bytes::copy_from_slice(&header));
        node.rpc(peers[0], publish([Arc::new(message)]));
    }
    assert_eq!(node.engine.sizes().payloads, 256);
}
