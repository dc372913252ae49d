//! The terms of a network beyond the wire: names of peers, and contents.

use std::sync::Arc;

use libp2p::{Multiaddr, PeerId, StreamProtocol};
use samara_engine::PeerIdentity;
use samara_gossipsub::rpc::RpcFrame;

use crate::identity::{identity_of, peer_id_of};

/// How an engine names the peers of a swarm, and what it knows of them and of their frames beforehand.
pub trait Terms: Send + Sync {
    /// Returns the engine's identity of a peer.
    fn identity(&self, peer: &PeerId) -> PeerIdentity;

    /// Returns the peer of an identity, if it has one.
    fn peer(&self, identity: &PeerIdentity) -> Option<PeerId>;

    /// Returns addresses at which a peer can be dialled.
    fn addresses(&self, _peer: &PeerId) -> Vec<Multiaddr> {
        Vec::new()
    }

    /// Returns the protocols to speak with a peer that this node has dialled, or that has dialled it;
    /// `None` for all of the [options](crate::Options::protocols).
    fn protocols(&self, _peer: &PeerId, _is_outbound: bool) -> Option<Arc<[StreamProtocol]>> {
        None
    }

    /// Puts what this process has anyway in place of what it received.
    fn recognise(&self, frame: RpcFrame) -> RpcFrame {
        frame
    }
}

/// The terms of libp2p: an identity is the bytes of a peer id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libp2pTerms;

impl Terms for Libp2pTerms {
    fn identity(&self, peer: &PeerId) -> PeerIdentity {
        identity_of(peer)
    }

    fn peer(&self, identity: &PeerIdentity) -> Option<PeerId> {
        peer_id_of(identity)
    }
}
