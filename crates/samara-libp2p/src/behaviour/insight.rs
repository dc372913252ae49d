//! What a behaviour tells of itself when asked.

use std::collections::BTreeMap;

use libp2p::PeerId;
use samara_engine::outbox::{Counters, Lane};
use samara_engine::{MessageKey, PeerId as Handle};
use samara_gossipsub::GossipSub;
use samara_gossipsub::rpc::Topic;

use super::Behaviour;
use crate::event::Traffic;
use crate::peer::Sizes;

impl Behaviour {
    /// How much is kept here.
    pub fn sizes(&self) -> Sizes {
        let connections = || self.peers.values().flat_map(|peer| &peer.connections);
        Sizes {
            peers: self.peers.len(),
            connections: connections().count(),
            handles: self.handles.len(),
            recommended: self.recommended.len(),
            in_flight_bytes: connections().map(|connection| connection.in_flight_bytes).sum(),
            actions: self.actions.len(),
        }
    }

    /// The engine: topics, meshes, scores, metrics.
    pub fn engine(&self) -> &GossipSub {
        self.driver.engine()
    }

    /// Copies that are owed, over all links.
    pub fn pending(&mut self) -> usize {
        self.driver.outbox().pending()
    }

    /// Who is owed a copy of a message still, and for whom one is on its way into a stream: once for each copy.
    pub fn owed_to(&mut self, message: MessageKey) -> Vec<PeerId> {
        let mut owed = Vec::new();
        let pending = self.driver.outbox().progress(message).is_some();
        for (at, peer) in self.handles.iter().enumerate() {
            let Some(peer) = *peer else { continue };
            if pending && self.driver.outbox().owes(Handle(at as u32), message) {
                owed.push(peer);
            }
            let connections = self.peers.get(&peer).into_iter().flat_map(|peer| &peer.connections);
            let on_their_way = connections.flat_map(|connection| &connection.in_flight);
            let copies = on_their_way.filter(|frame| frame.copy.is_some_and(|(key, _)| key == message));
            owed.extend(copies.map(|_| peer));
        }
        owed
    }

    /// How many copies of messages each peer is owed, or are on their way into its stream. Peers without any are left out.
    pub fn owed_by_peer(&mut self) -> BTreeMap<PeerId, usize> {
        let mut owed = BTreeMap::new();
        for (handle, copies) in self.driver.outbox().pending_messages() {
            owed.extend(self.peer_id(handle).map(|peer| (peer, copies)));
        }
        for (peer, state) in &self.peers {
            let on_the_way = state.connections.iter().flat_map(|connection| &connection.in_flight);
            let copies = on_the_way.filter(|frame| frame.copy.is_some()).count();
            if copies > 0 {
                *owed.entry(*peer).or_default() += copies;
            }
        }
        owed
    }

    /// What became of the copies of each lane, by its name.
    pub fn counters(&mut self) -> Vec<(&'static str, Counters)> {
        let outbox = self.driver.outbox();
        let lanes = outbox.config().lanes.iter().zip(0..);
        lanes.map(|(lane, at)| (lane.name, *outbox.counters(Lane(at)))).collect()
    }

    /// What went over the streams.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Who has a number in the engine.
    pub fn peer_id(&self, handle: Handle) -> Option<PeerId> {
        self.handles.get(handle.index()).copied().flatten()
    }

    /// The engine's number of a peer whose link is up.
    pub fn handle(&self, peer: &PeerId) -> Option<Handle> {
        self.peers.get(peer)?.handle
    }

    /// The members of a topic's mesh.
    pub fn mesh_peers(&self, topic: &Topic) -> Vec<PeerId> {
        self.engine().mesh_peers(topic).iter().filter_map(|handle| self.peer_id(*handle)).collect()
    }
}
