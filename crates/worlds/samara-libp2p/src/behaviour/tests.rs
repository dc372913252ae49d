use libp2p::swarm::{ConnectionId, FromSwarm, ListenError, ListenFailure, NetworkBehaviour};

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
