//! Crowds of peers leave no state behind once they are gone.

use std::time::Duration;

use libp2p::futures::StreamExt;
use libp2p::identity::Keypair;
use libp2p::swarm::{SwarmEvent, dummy};
use samara_gossipsub::rpc::{Control, MessageId, Rpc};
use samara_gossipsub::{Ignored, Sizes as EngineSizes};
use samara_libp2p::Sizes;

use crate::common::*;
use crate::hostile::{honest_traffic_goes_on, neighbours};
use crate::raw::*;

/// Returns the numbers of entries in the behaviour and its engine, except seen messages, which stay
/// for minutes.
async fn kept(node: &Node) -> (Sizes, EngineSizes) {
    node.with(|behaviour| {
        let engine = EngineSizes { seen: 0, cached: 0, ..behaviour.engine().sizes() };
        (Sizes { actions: 0, in_flight_bytes: 0, ..behaviour.sizes() }, engine)
    })
    .await
}

/// Waits until only the state of the honest neighbour is left.
async fn only_the_neighbour_is_left(our: &Node) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (net, engine) = kept(our).await;
        let clean = net.peers == 1
            && net.connections == 1
            && net.recommended == 0
            && engine.topics == 1
            && engine.unwanted == 0
            && engine.promises == 0
            && engine.dialling == 0;
        if clean {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "state of other peers is left: {net:?}, {engine:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the socket address of a node over TCP.
fn socket(node: &Node) -> std::net::SocketAddr {
    let mut parts = node.address.iter();
    match (parts.next(), parts.next()) {
        (Some(libp2p::multiaddr::Protocol::Ip4(ip)), Some(libp2p::multiaddr::Protocol::Tcp(port))) => {
            (ip, port).into()
        }
        other => panic!("{other:?} is not TCP"),
    }
}

#[tokio::test]
async fn silent_connections_take_no_state_in_the_behaviour() {
    let (mut our, mut their) = neighbours().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(tokio::net::TcpStream::connect(socket(&our)).await.expect("a connection"));
    }
    honest_traffic_goes_on(&mut our, &mut their, "beside a hundred silent sockets").await;
    let (net, _) = kept(&our).await;
    assert_eq!((net.peers, net.handles), (1, 1), "{net:?}");
    drop(silent);
    only_the_neighbour_is_left(&our).await;
}

/// The peers negotiate Noise and Yamux, and then read nothing more.
#[tokio::test]
async fn peers_that_stop_after_the_handshake_get_no_link() {
    let (mut our, mut their) = neighbours().await;
    let mut stopped = Vec::new();
    for _ in 0..20 {
        let mut silent = swarm(Keypair::generate_ed25519(), |_| dummy::Behaviour);
        silent.dial(our.full_address()).expect("an address");
        while !matches!(silent.select_next_some().await, SwarmEvent::ConnectionEstablished { .. }) {}
        // Never polled again, but kept open.
        stopped.push(silent);
    }
    honest_traffic_goes_on(&mut our, &mut their, "beside twenty that stopped").await;
    let (net, engine) = kept(&our).await;
    assert!(net.peers <= 21 && net.connections <= 21, "{net:?}");
    assert_eq!((net.handles, engine.topics), (1, 1), "a silent peer has a link");
    drop(stopped);
    only_the_neighbour_is_left(&our).await;
}

/// Connects two hundred times, with a returning identity and with new ones, and with some state to
/// forget each time.
#[tokio::test]
async fn peers_that_come_and_go_leave_no_state() {
    let (mut our, mut their) = neighbours().await;
    let known = Keypair::generate_ed25519();
    for round in 0..200_u32 {
        let key = if round % 2 == 0 { known.clone() } else { Keypair::generate_ed25519() };
        let mut flapping = Raw::with(&our, Streams::Kept, key);
        let mut stream = flapping.stream(&our).await;
        let mut rpc = joins("t");
        rpc.subscriptions.extend((0..20).map(|at| subscribes(&format!("topic {round} {at}"))));
        rpc.control.as_mut().expect("a GRAFT").idontwant =
            (0..10_u32).map(|at| MessageId::new(&[round.to_be_bytes(), at.to_be_bytes()].concat())).collect();
        send_rpc(&mut stream, &rpc).await;
        let (peer, last) = (flapping.peer, format!("topic {round} 19"));
        our.next("its last topic", |observed| {
            matches!(observed, Observed::Joined(who, topic) if *who == peer && *topic == last).then_some(())
        })
        .await;
        drop((stream, flapping));
        our.next("its end", |observed| (*observed == Observed::Gone(peer)).then_some(())).await;
    }
    let (net, engine) = kept(&our).await;
    // The neighbour, the returning peer (with the same number), and a hundred others.
    assert_eq!(net.handles, 102, "{net:?}");
    // A peer that returned too early was pruned, which leaves a backoff by peer and topic.
    assert!(engine.backoffs <= 3, "{engine:?}");
    honest_traffic_goes_on(&mut our, &mut their, "after two hundred visits").await;
    only_the_neighbour_is_left(&our).await;
}

#[tokio::test]
async fn floods_of_subscriptions_and_idontwants_are_bounded_and_forgotten() {
    let (mut our, mut their) = neighbours().await;
    let mut hostile = Raw::new(&our);
    let mut stream = hostile.stream(&our).await;
    for round in 0..20_u32 {
        let subscriptions = (0..1000).map(|at| subscribes(&format!("topic {round} {at}"))).collect();
        send_rpc(&mut stream, &Rpc { subscriptions, ..Rpc::default() }).await;
    }
    for round in 0..3000_u32 {
        let id = |at: u32| MessageId::new(&(round * 10 + at).to_be_bytes());
        let control = Control { idontwant: (0..10).map(id).collect(), ..Control::default() };
        send_rpc(&mut stream, &Rpc { control: Some(Box::new(control)), ..Rpc::default() }).await;
    }
    let all = |metrics: &samara_gossipsub::Metrics| metrics.idontwant_ids_received >= 30_000;
    let metrics = our.counted("the whole flood", all).await;
    let config = signed();
    let topics_max = config.subscriptions.per_peer_max;
    assert_eq!(metrics.ignored(Ignored::SubscriptionPeerFull), 20_000 - topics_max as u64, "{metrics:?}");
    let (net, engine) = kept(&our).await;
    assert_eq!(engine.topics, topics_max + 1, "{engine:?}");
    assert!(engine.unwanted <= config.idontwant.ids_per_peer_max as usize, "{engine:?}");
    assert_eq!(net.handles, 2, "{net:?}");
    honest_traffic_goes_on(&mut our, &mut their, "in the flood").await;
    drop((stream, hostile));
    only_the_neighbour_is_left(&our).await;
}
