use libp2p::swarm::{ConnectionId, FromSwarm, ListenError, ListenFailure, NetworkBehaviour};

use samara_gossipsub::config::{Authenticity, ValidatorHook};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, Rpc, SubOpts};

use super::*;
use crate::handler::FromHandler;

/// Opens and closes a link. Returns the number that it had.
fn visit(behaviour: &mut Behaviour, peer: PeerId, number: usize) -> Handle {
    let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
    let id = ConnectionId::new_unchecked(number);
    behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
    behaviour.on_connection_handler_event(peer, id, FromHandler::Opened(1, crate::PROTOCOLS[0].clone()));
    let handle = behaviour.handle(&peer).unwrap();
    assert_eq!(behaviour.peer_id(handle), Some(peer));
    behaviour.closed(peer, id);
    handle
}

#[test]
fn a_returning_peer_keeps_its_number() {
    let key = Keypair::generate_ed25519();
    let mut behaviour = Behaviour::new(&key, Config::spec(), Options::default()).unwrap();
    let (known, other) = (PeerId::random(), PeerId::random());
    let first = visit(&mut behaviour, known, 0);
    assert_ne!(visit(&mut behaviour, other, 1), first);
    assert_eq!(visit(&mut behaviour, known, 2), first);
}

#[test]
fn numbers_of_the_longest_departed_peers_are_reused() {
    let key = Keypair::generate_ed25519();
    let mut config = Config::spec();
    config.peer_score.as_mut().unwrap().ip_colocation_weight = 0.0;
    let mut behaviour = Behaviour::new(&key, config, Options::default()).unwrap();
    let bad = visit(&mut behaviour, PeerId::random(), 0);
    behaviour.call(|engine, _| engine.set_app_score(bad, -5.0));
    assert!(behaviour.engine().peer_score(bad) < 0.0, "the score outlives the link");
    for number in 1..DEPARTED_MAX {
        assert_ne!(visit(&mut behaviour, PeerId::random(), number), bad);
    }
    assert_eq!(visit(&mut behaviour, PeerId::random(), DEPARTED_MAX), bad);
    // The peer that reuses the number does not inherit the score.
    assert_eq!(behaviour.engine().peer_score(bad), 0.0);
    assert_eq!(behaviour.sizes().handles, DEPARTED_MAX);
}

/// Otherwise, peers behind one address could each carry frames on a connection from another one.
#[test]
fn peers_count_at_the_addresses_of_all_their_connections() {
    let key = Keypair::generate_ed25519();
    let mut config = Config::spec();
    config.peer_score.as_mut().unwrap().ip_colocation_threshold = 1.0;
    let mut behaviour = Behaviour::new(&key, config, Options::default()).unwrap();
    let peers = [PeerId::random(), PeerId::random()];
    let connect = |behaviour: &mut Behaviour, peer, number: usize, host: usize| {
        let address: Multiaddr = format!("/ip4/10.0.0.{host}/tcp/1").parse().unwrap();
        let id = ConnectionId::new_unchecked(number);
        behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
    };
    for (number, peer) in peers.iter().enumerate() {
        connect(&mut behaviour, *peer, number, number);
        let opened = FromHandler::Opened(1, crate::PROTOCOLS[0].clone());
        behaviour.on_connection_handler_event(*peer, ConnectionId::new_unchecked(number), opened);
    }
    assert_eq!(peers.map(|peer| behaviour.peer_score(&peer)), [Some(0.0); 2]);
    for (number, peer) in peers.iter().enumerate() {
        connect(&mut behaviour, *peer, 10 + number, 9);
    }
    assert_eq!(peers.map(|peer| behaviour.peer_score(&peer)), [Some(-5.0); 2]);
    behaviour.closed(peers[0], ConnectionId::new_unchecked(10));
    assert_eq!(peers.map(|peer| behaviour.peer_score(&peer)), [Some(0.0); 2]);
}

/// Otherwise, peers that a connection limit rejects would fill memory here.
#[test]
fn connections_rejected_by_other_behaviours_leave_no_state() {
    let key = Keypair::generate_ed25519();
    let mut behaviour = Behaviour::new(&key, Config::spec(), Options::default()).unwrap();
    let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
    for number in 0..100 {
        let (id, peer) = (ConnectionId::new_unchecked(number), PeerId::random());
        behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
        assert_eq!(behaviour.peers.len(), 1);
        behaviour.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
            local_addr: &address,
            send_back_addr: &address,
            error: &ListenError::Aborted,
            connection_id: id,
            peer_id: Some(peer),
        }));
        assert!(behaviour.peers.is_empty());
    }
}

/// Returns a behaviour on the topic "t" with a peer that has joined it and reads nothing.
fn with_silent_peer(config: Config, options: Options) -> (Behaviour, PeerId) {
    let mut behaviour = Behaviour::new(&Keypair::generate_ed25519(), config, options).unwrap();
    behaviour.subscribe(&Topic::new("t")).unwrap();
    let (peer, address) = (PeerId::random(), "/ip4/127.0.0.1/tcp/1".parse::<Multiaddr>().unwrap());
    let id = ConnectionId::new_unchecked(0);
    behaviour.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
    behaviour.on_connection_handler_event(peer, id, FromHandler::Opened(1, crate::PROTOCOLS[0].clone()));
    let joins = SubOpts {
        subscribe: true,
        topic: Topic::new("t"),
        partial: Default::default(),
        unknown: Default::default(),
    };
    let frame = RpcFrame::new(Rpc { subscriptions: vec![joins], ..Rpc::default() });
    behaviour.on_connection_handler_event(peer, id, FromHandler::Frame(frame, true));
    (behaviour, peer)
}

/// Returns the copies and bytes that wait in the lane of own messages.
fn published(behaviour: &mut Behaviour) -> samara_engine::outbox::Tally {
    let lanes = behaviour.counters();
    let lane = lanes.0.iter().find(|(name, _)| *name == "publish").expect("a lane");
    *lane.1.pending
}

/// Otherwise, one peer that does not read could make a node keep 5,000 messages of a mebibyte.
#[test]
fn a_peer_that_reads_nothing_is_owed_at_most_16_mib_on_a_lane() {
    let (mut behaviour, peer) = with_silent_peer(Config::spec(), Options::default());
    let receipts: Vec<Receipt> =
        (0..40).map(|number| behaviour.publish(Topic::new("t"), vec![number; 1 << 20]).unwrap()).collect();
    let waiting = published(&mut behaviour);
    assert!((15 << 20..=16 << 20).contains(&waiting.bytes), "{waiting:?}");
    // One frame is in flight.
    let owed: usize = receipts.iter().map(Receipt::owed).sum();
    assert_eq!((owed, behaviour.pending()), (16, 15));
    assert_eq!(behaviour.owed_by_peer(), BTreeMap::from([(peer, 16)]));
    assert!(receipts.iter().all(|receipt| receipt.peers == 1 && receipt.lost + receipt.owed() == 1));
    assert_eq!(behaviour.engine().metrics().published_copies, 16);
    let lost = |action: &ToSwarm<Event, ToHandler>| matches!(action, ToSwarm::GenerateEvent(Event::Lost(lost)) if Some(lost.peer) == behaviour.handle(&peer));
    assert_eq!(behaviour.actions.iter().filter(|action| lost(action)).count(), 24);
}

#[test]
fn the_bound_of_a_lane_follows_the_configuration() {
    let bytes_of = |behaviour: &mut Behaviour| {
        let lanes = &behaviour.driver.outbox().config().lanes;
        lanes.iter().map(|lane| lane.capacity.bytes).collect::<Vec<_>>()
    };
    let new = |config: &Config, options| {
        Behaviour::new(&Keypair::generate_ed25519(), config.clone(), options).unwrap()
    };
    let mut config = Config::spec();
    assert_eq!(bytes_of(&mut new(&config, Options::default())), [16 << 20; 4]);
    let more = Options { lane_bytes: 1 << 30, ..Options::default() };
    assert_eq!(bytes_of(&mut new(&config, more)), [1 << 30; 4]);
    // The longest message always fits.
    (config.max_message_bytes, config.max_rpc_bytes) = (32 << 20, (32 << 20) + 1024);
    assert!(bytes_of(&mut new(&config, Options::default())).iter().all(|bytes| *bytes > (32 << 20) + 1024));
    config.sending.forward.bytes = 48 << 20;
    assert_eq!(bytes_of(&mut new(&config, Options::default()))[2], 48 << 20);
}

#[test]
fn limits_below_the_longest_frame_are_refused() {
    let limits = Some(Limits::with_frame_bytes(1 << 20));
    let options = Options { limits, ..Options::default() };
    let error = Behaviour::new(&Keypair::generate_ed25519(), Config::spec(), options).unwrap_err();
    let expected = "options.limits.frame_bytes: found 1048576, expected at least max_rpc_bytes = 1049600; \
                    None follows it";
    assert_eq!(error.to_string(), expected);
}

/// What the guide "from libp2p-gossipsub" says of `MessageAcceptance` and of scores.
#[test]
fn rejected_messages_cost_score_once_topics_are_scored() {
    for (topic_score, expected) in [(None, 0.0), (Some(TopicScoreParams::default()), -0.5)] {
        let config = Config {
            authenticity: Authenticity::anonymous(),
            message_id: MessageIdFn::Sha256Data { len: 20 },
            validator: Some(ValidatorHook::deferred()),
            topic_score,
            ..Config::spec()
        };
        let id_of = config.message_id.clone();
        let (mut behaviour, peer) = with_silent_peer(config, Options::default());
        let message = Arc::new(Message::new(Topic::new("t"), vec![1].into()));
        let frame = FromHandler::Frame(RpcFrame::message(&message), false);
        behaviour.on_connection_handler_event(peer, ConnectionId::new_unchecked(0), frame);
        assert!(behaviour.report_validation(&id_of.id(&message), Acceptance::Reject));
        assert_eq!(behaviour.peer_score(&peer), Some(expected));
    }
}
