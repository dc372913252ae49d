//! Limits on connections: in all, of a peer, being dialled, and of those that open them from one
//! address or prefix.
//!
//! `libp2p-connection-limits` has no limit by address, and keeps an entry for each peer that has
//! ever been connected.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use samara_engine::places::{Places, Shares};

use crate::config::{Network, ip_of};

use super::handshakes::Handshakes;

samara_engine::names! {
    /// The limit that a connection exceeds.
    enum Limit {
        All = "all",
        Peer = "peer",
        Address = "address",
        Pending = "pending",
        Evicted = "evicted",
        Inbound = "inbound",
    }
}

samara_engine::counters! {
    #[derive(Copy)]
    pub(crate) struct Refused {
        /// Connections refused because of a limit of `[network]`.
        connections_refused[limit: Limit]: u64,
    }
}

/// A behaviour without a protocol, which refuses connections beyond the limits.
pub(super) struct Limits {
    connections_max: usize,
    per_peer_max: usize,
    pending_max: usize,
    /// Connections that are established or in the handshake, at most `connections_max` and twice
    /// `pending_max`.
    connections: BTreeMap<ConnectionId, Connection>,
    /// Inbound connections, in the handshake or established, by prefix.
    places: Places<ConnectionId>,
    /// The places of inbound handshakes, which the transport assigns.
    handshakes: Handshakes,
    refused: Refused,
}

struct Connection {
    is_inbound: bool,
    /// The peer, once the handshake has ended.
    peer: Option<PeerId>,
}

impl Limits {
    pub(super) fn new(network: &Network, handshakes: Handshakes) -> Self {
        Self {
            connections_max: network.connections_max as usize,
            per_peer_max: network.connections_per_peer_max as usize,
            pending_max: network.pending_max as usize,
            connections: BTreeMap::new(),
            // The maxima of all and of handshakes are checked elsewhere.
            places: Places::new(usize::MAX, Shares::per_host(network.connections_per_address_max as usize)),
            handshakes,
            refused: Refused::default(),
        }
    }

    /// Returns the numbers of refused connections, with the handshakes that found no place or lost it.
    pub(super) fn refused(&self) -> Refused {
        let mut refused = self.refused;
        let handshakes = self.handshakes.counters();
        refused.connections_refused[Limit::Pending] += handshakes.refused_all + handshakes.refused_prefix;
        refused.connections_refused[Limit::Evicted] += handshakes.evicted;
        refused.connections_refused[Limit::Address] += self.places.counters().refused_prefix;
        refused
    }

    fn count(&self, is_counted: impl Fn(&Connection) -> bool) -> usize {
        self.connections.values().filter(|connection| is_counted(connection)).count()
    }

    fn check(&mut self, count: usize, max: usize, limit: Limit) -> Result<(), ConnectionDenied> {
        if count < max {
            return Ok(());
        }
        self.refused.connections_refused[limit] += 1;
        let of = match limit {
            Limit::All => "in all",
            Limit::Peer => "of one peer",
            Limit::Address => "from one address or prefix",
            Limit::Pending => "being dialled",
            Limit::Evicted => "in the handshake",
            Limit::Inbound => "that others opened",
        };
        Err(ConnectionDenied::new(format!("the limit of {max} connections {of} is reached")))
    }

    fn begin(&mut self, id: ConnectionId, is_inbound: bool) {
        self.connections.insert(id, Connection { is_inbound, peer: None });
    }

    fn established(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
    ) -> Result<dummy::ConnectionHandler, ConnectionDenied> {
        let of_peer = self.count(|other| other.peer == Some(peer));
        self.check(of_peer, self.per_peer_max, Limit::Peer)?;
        let all = self.count(|other| other.peer.is_some());
        self.check(all, self.connections_max, Limit::All)?;
        if self.connections.get(&id).is_some_and(|connection| connection.is_inbound) {
            let inbound = self.count(|other| other.peer.is_some() && other.is_inbound);
            // The rest is for peers that this node dials: strangers cannot cut it off from them.
            self.check(inbound, self.connections_max - self.connections_max / 8, Limit::Inbound)?;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.peer = Some(peer);
        }
        Ok(dummy::ConnectionHandler)
    }
}

impl NetworkBehaviour for Limits {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.places.take(id, ip_of(remote)).map_err(|_| {
            ConnectionDenied::new("the limit of connections from one address or prefix is reached")
        })?;
        self.begin(id, true);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.established(id, peer)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        _: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        let dialled = self.count(|other| other.peer.is_none() && !other.is_inbound);
        self.check(dialled, self.pending_max, Limit::Pending)?;
        self.begin(id, false);
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.established(id, peer)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        let ended = match event {
            FromSwarm::ConnectionClosed(closed) => closed.connection_id,
            FromSwarm::DialFailure(failure) => failure.connection_id,
            // Connections that this or another behaviour refuses end here too.
            FromSwarm::ListenFailure(failure) => failure.connection_id,
            _ => return,
        };
        self.connections.remove(&ended);
        self.places.free(&ended);
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use libp2p::core::ConnectedPoint;
    use libp2p::swarm::{ConnectionClosed, ListenError, ListenFailure};

    use super::*;

    fn address(text: &str) -> Multiaddr {
        text.parse().expect("an address")
    }

    /// The limits of a node, and the number of the next connection.
    struct Played(Limits, usize);

    impl Played {
        fn new(network: Network) -> Self {
            let handshakes = Handshakes::new(network.pending_max as usize);
            Self(Limits::new(&network, handshakes), 0)
        }

        /// Begins a handshake.
        fn begin(&mut self, from: &str) -> Result<ConnectionId, ConnectionDenied> {
            self.1 += 1;
            let id = ConnectionId::new_unchecked(self.1);
            self.0.handle_pending_inbound_connection(id, &address("/ip4/192.0.2.1/tcp/1"), &address(from))?;
            Ok(id)
        }

        /// Opens a connection of a new peer. The swarm reports refusals as failures.
        fn open(&mut self, from: &str) -> Option<ConnectionId> {
            self.open_by(from, PeerId::random())
        }

        fn open_by(&mut self, from: &str, peer: PeerId) -> Option<ConnectionId> {
            let here = address("/ip4/192.0.2.1/tcp/1");
            let id = self.begin(from).ok()?;
            match self.0.handle_established_inbound_connection(id, peer, &here, &address(from)) {
                Ok(_) => Some(id),
                Err(cause) => {
                    self.fail(id, ListenError::Denied { cause });
                    None
                }
            }
        }

        fn fail(&mut self, connection_id: ConnectionId, error: ListenError) {
            self.0.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
                local_addr: &address("/ip4/192.0.2.1/tcp/1"),
                send_back_addr: &address("/ip4/192.0.2.2/tcp/1"),
                error: &error,
                connection_id,
                peer_id: None,
            }));
        }

        fn close(&mut self, connection_id: ConnectionId) {
            let (local_addr, send_back_addr) = (address("/memory/1"), address("/memory/2"));
            self.0.on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id: PeerId::random(),
                connection_id,
                endpoint: &ConnectedPoint::Listener { local_addr, send_back_addr },
                cause: None,
                remaining_established: 0,
            }));
        }

        fn refused(&self, limit: Limit) -> u64 {
            self.0.refused().connections_refused(limit)
        }
    }

    #[test]
    fn one_address_has_some_of_the_connections() {
        let mut node = Played::new(Network { connections_per_address_max: 2, ..Network::default() });
        let first = node.open("/ip4/198.51.100.7/tcp/1000").unwrap();
        // An IPv4 address in the form of IPv6, and another transport.
        assert!(node.open("/ip6/::ffff:198.51.100.7/tcp/1001").is_some());
        assert!(node.open("/ip4/198.51.100.7/udp/1002/quic-v1").is_none());
        assert!(node.begin("/ip4/198.51.100.7/tcp/1003").is_err(), "refused before the handshake");
        assert!(node.open("/ip4/198.51.100.8/tcp/1004").is_some());
        assert_eq!(node.refused(Limit::Address), 2);
        node.close(first);
        assert!(node.open("/ip4/198.51.100.7/tcp/1005").is_some());
        assert!(node.open("/ip4/198.51.100.7/tcp/1006").is_none());
    }

    #[test]
    fn an_ipv6_host_has_a_prefix_of_64_bits() {
        let mut node = Played::new(Network { connections_per_address_max: 2, ..Network::default() });
        let opened = [1, 2, 3].map(|host| node.open(&format!("/ip6/2001:db8:1:2::{host}/tcp/1")).is_some());
        assert_eq!(opened, [true, true, false]);
        assert!(node.open("/ip6/2001:db8:1:3::1/tcp/1").is_some());
    }

    #[test]
    fn handshakes_count_for_their_address() {
        let mut node = Played::new(Network { connections_per_address_max: 2, ..Network::default() });
        let first = node.begin("/ip4/198.51.100.7/tcp/1").unwrap();
        assert!(node.begin("/ip4/198.51.100.7/tcp/2").is_ok());
        assert!(node.begin("/ip4/198.51.100.7/tcp/3").is_err());
        node.fail(first, ListenError::Aborted);
        assert!(node.begin("/ip4/198.51.100.7/tcp/4").is_ok());
    }

    #[test]
    fn loopback_has_no_limit_by_address() {
        let mut node = Played::new(Network { connections_per_address_max: 1, ..Network::default() });
        for from in ["/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1", "/ip6/::ffff:127.0.0.1/tcp/1"] {
            assert!(node.open(from).is_some() && node.open(from).is_some(), "{from}");
        }
    }

    #[test]
    fn connections_of_a_peer_and_in_all_are_bounded() {
        let network = Network { connections_max: 3, connections_per_peer_max: 2, ..Network::default() };
        let mut node = Played::new(network);
        let peer = PeerId::random();
        let of_peer =
            [1, 2, 3].map(|host| node.open_by(&format!("/ip4/192.0.2.{host}/tcp/1"), peer).is_some());
        assert_eq!(of_peer, [true, true, false]);
        assert!(node.open("/ip4/192.0.2.4/tcp/1").is_some());
        assert!(node.open("/ip4/192.0.2.5/tcp/1").is_none());
        assert_eq!((node.refused(Limit::Peer), node.refused(Limit::All)), (1, 1));
        assert_eq!(node.0.connections.len(), 3);
    }

    #[test]
    fn an_eighth_of_the_connections_is_for_dialled_peers() {
        let mut node = Played::new(Network { connections_max: 8, ..Network::default() });
        let opened = (1..=8).filter(|host| node.open(&format!("/ip4/192.0.2.{host}/tcp/1")).is_some());
        assert_eq!(opened.count(), 7);
        assert_eq!(node.refused(Limit::Inbound), 1);
        let id = ConnectionId::new_unchecked(100);
        let there = address("/ip4/192.0.2.9/tcp/1");
        node.0.handle_pending_outbound_connection(id, None, &[], Endpoint::Dialer).unwrap();
        let dialled = node.0.handle_established_outbound_connection(
            id,
            PeerId::random(),
            &there,
            Endpoint::Dialer,
            PortUse::New,
        );
        assert!(dialled.is_ok());
        assert!(node.open("/ip4/192.0.2.10/tcp/1").is_none());
        assert_eq!(node.refused(Limit::All), 1);
    }

    #[test]
    fn dials_are_bounded() {
        let mut node = Played::new(Network { pending_max: 1, ..Network::default() });
        let mut dial = |number| {
            let id = ConnectionId::new_unchecked(number);
            node.0.handle_pending_outbound_connection(id, None, &[], Endpoint::Dialer).is_ok()
        };
        assert!(dial(10) && !dial(11));
        assert_eq!(node.refused(Limit::Pending), 1);
    }

    #[test]
    fn prefixes_share_connections() {
        let network = Network { connections_per_address_max: 2, ..Network::default() };
        for (froms, expected) in [
            ((0..20).map(|n| format!("/ip6/2001:db8:1:2{n:02x}::1/tcp/1")).collect::<Vec<_>>(), 4),
            ((0..20).map(|n| format!("/ip6/2001:db8:1:{n:x}00::1/tcp/1")).collect(), 8),
            ((0..20).map(|n| format!("/ip4/198.51.100.{n}/tcp/1")).collect(), 4),
            ((0..20).map(|n| format!("/ip4/198.51.{n}.1/tcp/1")).collect(), 8),
            // Hosts of a testbed.
            ((0..20).map(|n| format!("/ip4/10.79.{n}.1/tcp/1")).collect(), 20),
        ] {
            let mut node = Played::new(network.clone());
            assert_eq!(froms.iter().filter_map(|from| node.open(from)).count(), expected, "{}", froms[0]);
            assert_eq!(node.refused(Limit::Address), 20 - expected as u64);
        }
    }
}
