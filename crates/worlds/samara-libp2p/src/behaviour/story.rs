//! Random stories of one peer for a behaviour without sockets: the test plays the swarm, the
//! connections and the peer.

use std::collections::BTreeMap;

use futures::channel::mpsc::UnboundedReceiver;
use futures::task::noop_waker_ref;
use libp2p::core::ConnectedPoint;
use libp2p::swarm::{ConnectionClosed, ConnectionId, NotifyHandler};
use proptest::prelude::*;
use samara_gossipsub::rpc::{Control, Rpc, SubOpts};
use samara_gossipsub::score::PeerScoreParams;

use super::*;
use crate::PROTOCOLS;

/// A connection as the peer sees it.
#[derive(Default)]
struct Wire {
    /// Frames of the stream that the node opens, or has open.
    frames: Option<UnboundedReceiver<RpcFrame>>,
    is_open: bool,
    /// The number of the stream.
    stream: u64,
    /// Frames read from the stream.
    read: usize,
    /// Whether the peer has a stream, and has written its greeting.
    theirs: bool,
}

struct Story {
    node: Behaviour,
    peer: PeerId,
    wires: BTreeMap<usize, Wire>,
    next: usize,
    topic: Topic,
    /// Copies that arrived of each message.
    arrived: BTreeMap<Vec<u8>, usize>,
}

impl Story {
    fn new() -> Self {
        let mut config = Config::spec();
        let score = PeerScoreParams { ip_colocation_weight: 0.0, ..PeerScoreParams::default() };
        config.peer_score = Some(score);
        let mut node = Behaviour::new(&Keypair::generate_ed25519(), config, Options::default()).unwrap();
        let topic = Topic::new("t");
        node.subscribe(&topic).unwrap();
        let (wires, arrived) = Default::default();
        Self { node, peer: PeerId::random(), wires, next: 0, topic, arrived }
    }

    fn tell(&mut self, number: usize, event: FromHandler) {
        self.node.on_connection_handler_event(self.peer, ConnectionId::new_unchecked(number), event);
        self.settle();
    }

    /// Carries out what the node requests, and reads what has arrived.
    fn settle(&mut self) {
        let mut cx = Context::from_waker(noop_waker_ref());
        let mut replaced = Vec::new();
        while let Poll::Ready(action) = NetworkBehaviour::poll(&mut self.node, &mut cx) {
            match action {
                ToSwarm::NotifyHandler { handler: NotifyHandler::One(id), event, .. } => {
                    let ToHandler::Open(stream, frames) = event;
                    let wire = self.wires.iter_mut().find(|(n, _)| ConnectionId::new_unchecked(**n) == id);
                    if let Some((number, wire)) = wire {
                        if std::mem::take(&mut wire.is_open) {
                            replaced.push((*number, wire.stream));
                        }
                        (wire.frames, wire.stream, wire.read) = (Some(frames), stream, 0);
                    }
                }
                ToSwarm::CloseConnection { connection: CloseConnection::One(id), .. } => {
                    let number = self.wires.keys().copied().find(|n| ConnectionId::new_unchecked(*n) == id);
                    number.into_iter().for_each(|number| self.close(number));
                }
                _ => {}
            }
        }
        for (number, stream) in replaced {
            let id = ConnectionId::new_unchecked(number);
            self.node.on_connection_handler_event(self.peer, id, FromHandler::Broken(stream));
        }
        for (number, wire) in self.wires.iter_mut().filter(|(_, wire)| wire.is_open) {
            let mut written = 0;
            while let Some(Ok(frame)) = wire.frames.as_mut().map(UnboundedReceiver::try_recv) {
                let rpc = frame.rpc();
                let extensions = rpc.control.as_ref().is_some_and(|control| control.extensions.is_some());
                let topics = rpc.subscriptions.iter().filter(|change| change.subscribe);
                let is_greeting = extensions && topics.count() == 1;
                assert_eq!(is_greeting, wire.read == 0, "a greeting begins each stream, and only that");
                wire.read += 1;
                written += 1;
                for message in &rpc.publish {
                    *self.arrived.entry(message.data.to_vec()).or_default() += 1;
                }
            }
            if written > 0 {
                let (peer, id) = (self.peer, ConnectionId::new_unchecked(*number));
                self.node.on_connection_handler_event(peer, id, FromHandler::Written(written));
            }
        }
        self.check();
    }

    fn check(&self) {
        let Some(handle) = self.node.handle(&self.peer) else { return };
        let is_heard = self.wires.values().any(|wire| wire.theirs);
        let in_mesh = self.node.engine().mesh_peers(&self.topic).contains(&handle);
        assert!(is_heard || !in_mesh, "a peer that cannot be heard is in the mesh");
        assert!(self.node.engine().peer_score(handle) >= 0.0, "an honest peer lost score");
        let state = &self.node.peers[&self.peer];
        let carriers = state.connections.iter().filter(|connection| connection.writable).count();
        assert!(carriers <= 1, "{carriers} streams carry frames");
    }

    fn connect(&mut self) {
        self.next += 1;
        let address: Multiaddr = format!("/ip4/192.0.2.{}/tcp/1", self.next % 250 + 1).parse().unwrap();
        let (id, peer) = (ConnectionId::new_unchecked(self.next), self.peer);
        self.wires.insert(self.next, Wire::default());
        if self.next.is_multiple_of(2) {
            self.node.handle_established_inbound_connection(id, peer, &address, &address).unwrap();
        } else {
            let (role, port) = (Endpoint::Dialer, PortUse::New);
            self.node.handle_established_outbound_connection(id, peer, &address, role, port).unwrap();
        }
        self.settle();
    }

    fn close(&mut self, number: usize) {
        self.wires.remove(&number);
        let (local_addr, send_back_addr): (Multiaddr, Multiaddr) =
            ("/memory/1".parse().unwrap(), "/memory/2".parse().unwrap());
        self.node.on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
            peer_id: self.peer,
            connection_id: ConnectionId::new_unchecked(number),
            endpoint: &ConnectedPoint::Listener { local_addr, send_back_addr },
            cause: None,
            remaining_established: self.wires.len(),
        }));
        self.settle();
    }

    /// Accepts the stream of the node.
    fn accept(&mut self, number: usize) {
        let wire = self.wires.get_mut(&number).unwrap();
        if wire.frames.is_some() && !wire.is_open {
            wire.is_open = true;
            let stream = wire.stream;
            self.tell(number, FromHandler::Opened(stream, PROTOCOLS[0].clone()));
        }
    }

    /// Ends the stream of the node.
    fn reset(&mut self, number: usize) {
        let wire = self.wires.get_mut(&number).unwrap();
        if wire.frames.take().is_some() {
            wire.is_open = false;
            let stream = wire.stream;
            self.tell(number, FromHandler::Broken(stream));
        }
    }

    /// Opens a stream to the node, and greets it, as after a restart.
    fn speak(&mut self, number: usize) {
        self.wires.get_mut(&number).unwrap().theirs = true;
        self.tell(number, FromHandler::TheirsOpened { protocol: PROTOCOLS[0].clone(), is_late: false });
        if !self.wires.contains_key(&number) {
            return;
        }
        let change = SubOpts {
            subscribe: true,
            topic: self.topic.clone(),
            partial: Default::default(),
            unknown: Bytes::new(),
        };
        let control =
            Control { extensions: Some(Bytes::new()), graft: vec![self.topic.clone()], ..Control::default() };
        let rpc = Rpc { subscriptions: vec![change], control: Some(Box::new(control)), ..Rpc::default() };
        self.tell(number, FromHandler::Frame(RpcFrame::new(rpc), true));
    }

    fn silence(&mut self, number: usize) {
        if std::mem::take(&mut self.wires.get_mut(&number).unwrap().theirs) {
            self.tell(number, FromHandler::TheirsEnded);
        }
    }

    /// Publishes a message. Returns true if the peer gets it: it is in the mesh, and a stream is open.
    fn publish(&mut self, number: u32) {
        let data = number.to_be_bytes().to_vec();
        let peer = self.node.handle(&self.peer);
        let in_mesh = peer.is_some_and(|peer| self.node.engine().mesh_peers(&self.topic).contains(&peer));
        let carries = self
            .node
            .peers
            .get(&self.peer)
            .is_some_and(|peer| peer.connections.iter().any(|connection| connection.writable));
        self.node.publish(&self.topic, data.clone()).unwrap();
        self.settle();
        let copies = self.arrived.get(&data).copied().unwrap_or(0);
        assert!(copies <= 1, "a message arrived over two streams");
        assert!(copies == 1 || !(in_mesh && carries), "a message published while connected is lost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_peer_that_comes_back_in_any_order_hears_everything_once(
        events in prop::collection::vec((0..10_u8, 0..3_usize), 1..80),
    ) {
        let mut story = Story::new();
        let mut published = 0;
        for (event, which) in events {
            let existing: Vec<usize> = story.wires.keys().copied().collect();
            let Some(number) = existing.get(which % existing.len().max(1)).copied().filter(|_| event > 0) else {
                if existing.len() < 3 {
                    story.connect();
                }
                continue;
            };
            match event {
                1 => story.close(number),
                2..=4 => story.accept(number),
                5 => story.reset(number),
                6 | 7 => story.speak(number),
                8 => story.silence(number),
                _ => {
                    published += 1;
                    story.publish(published);
                }
            }
        }
        // The peer starts afresh behind whatever is left.
        if story.wires.len() < 3 {
            story.connect();
        }
        let newest = *story.wires.keys().next_back().unwrap();
        story.speak(newest);
        for number in story.wires.keys().copied().collect::<Vec<_>>() {
            if story.wires.contains_key(&number) {
                story.accept(number);
            }
        }
        story.publish(1_000_000);
        if story.wires.contains_key(&newest) {
            prop_assert_eq!(story.arrived.get(&1_000_000_u32.to_be_bytes()[..]), Some(&1));
        }
        for number in story.wires.keys().copied().collect::<Vec<_>>() {
            story.close(number);
        }
        prop_assert_eq!(story.node.sizes().peers, 0);
        prop_assert_eq!(story.node.sizes().in_flight_bytes, 0);
    }
}
