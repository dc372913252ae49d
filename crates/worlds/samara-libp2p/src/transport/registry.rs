//! The meters of a node's connections, and the way in which a behaviour finds them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};

use super::Meter;

/// The meters of a node's connections. Clones share them: one belongs to the transport, and one to
/// the [`Options`](crate::Options) of the behaviour.
///
/// A swarm does not tell a behaviour which connection of which transport it has got. The behaviour
/// finds its meter by the addresses at both ends. It does not know its own end of a connection that
/// it has dialled. If there are two such connections to one address, the two readings may be
/// exchanged; both describe the same path.
#[derive(Clone, Default)]
pub struct Meters(Arc<Mutex<Registry>>);

#[derive(Default)]
struct Registry {
    next: u64,
    /// By their order.
    entries: BTreeMap<u64, Entry>,
}

struct Entry {
    ends: Ends,
    meter: Weak<dyn Meter>,
    is_claimed: bool,
}

/// The address of a socket. Ports of TCP and UDP are different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// A socket of TCP.
    Tcp(SocketAddr),
    /// A socket of UDP.
    Udp(SocketAddr),
}

/// The ends of a connection as its transport sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// A connection that a peer has opened.
    Inbound {
        /// The address of this node.
        local: Socket,
        /// The address of the peer.
        remote: Socket,
    },
    /// A connection that this node has opened.
    Outbound {
        /// The address of the peer.
        remote: Socket,
        /// The peer, if the address that was dialled names it.
        peer: Option<PeerId>,
    },
}

/// Keeps a meter registered. A connection owns it.
#[derive(Debug)]
pub struct Registered {
    meters: Meters,
    number: u64,
}

impl Meters {
    /// Creates a registry without meters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the meter of a connection until the returned value is dropped.
    pub fn register(&self, ends: Ends, meter: Weak<dyn Meter>) -> Registered {
        let mut registry = self.lock();
        let number = registry.next;
        registry.next += 1;
        registry.entries.insert(number, Entry { ends, meter, is_claimed: false });
        Registered { meters: self.clone(), number }
    }

    /// Returns the number of registered meters.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns true if no meter is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the meter of a connection with these addresses, as the swarm reports them, that no
    /// earlier call has returned. `local` is `None` for a connection that this node has dialled.
    pub fn claim(
        &self,
        peer: &PeerId,
        local: Option<&Multiaddr>,
        remote: &Multiaddr,
    ) -> Option<Weak<dyn Meter>> {
        let is_relayed = |address: &Multiaddr| address.iter().any(|part| part == Protocol::P2pCircuit);
        if is_relayed(remote) || local.is_some_and(is_relayed) {
            return None;
        }
        let (local, remote) = (local.map(socket_address), socket_address(remote));
        let is_it = |ends: &Ends| match (ends, local) {
            (Ends::Inbound { local: ours, remote: theirs }, Some(local)) => {
                Some(*ours) == local && Some(*theirs) == remote
            }
            (Ends::Outbound { remote: theirs, peer: dialled }, None) => match remote {
                Some(remote) => *theirs == remote,
                // A name, which another transport has resolved.
                None => *dialled == Some(*peer),
            },
            _ => false,
        };
        let mut registry = self.lock();
        let mut entries = registry.entries.values_mut();
        let entry = entries.find(|entry| !entry.is_claimed && is_it(&entry.ends))?;
        entry.is_claimed = true;
        Some(Weak::clone(&entry.meter))
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // No code in this module panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.meters.lock().entries.remove(&self.number);
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").field("len", &self.len()).finish()
    }
}

/// Returns the socket address at the start of an address, whatever runs over it.
pub(super) fn socket_address(address: &Multiaddr) -> Option<Socket> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::V4(ip),
        Protocol::Ip6(ip) => IpAddr::V6(ip),
        _ => return None,
    };
    match parts.next()? {
        Protocol::Tcp(port) => Some(Socket::Tcp(SocketAddr::new(ip, port))),
        Protocol::Udp(port) => Some(Socket::Udp(SocketAddr::new(ip, port))),
        _ => None,
    }
}

/// Returns the peer that an address ends with.
#[cfg(feature = "tcp")]
pub(super) fn peer_of(address: &Multiaddr) -> Option<PeerId> {
    match address.iter().last()? {
        Protocol::P2p(peer) => Some(peer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    struct Fixed(u64);

    impl Meter for Fixed {
        fn read(&self) -> Option<Reading> {
            Some(Reading { written: self.0, ..Reading::default() })
        }
    }

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    fn socket(text: &str) -> Socket {
        Socket::Tcp(text.parse().unwrap())
    }

    fn register(meters: &Meters, ends: Ends, written: u64) -> (Arc<Fixed>, Registered) {
        let meter = Arc::new(Fixed(written));
        let weak = Arc::downgrade(&meter);
        (meter, meters.register(ends, weak))
    }

    fn written(meter: Option<Weak<dyn Meter>>) -> Option<u64> {
        meter?.upgrade()?.read().map(|reading| reading.written)
    }

    #[test]
    fn a_meter_is_found_by_both_ends_once_and_until_its_connection_ends() {
        let meters = Meters::new();
        let peer = PeerId::random();
        let (local, remote) = (socket("192.0.2.1:1"), socket("192.0.2.2:2"));
        let inbound = register(&meters, Ends::Inbound { local, remote }, 1);
        let outbound = register(&meters, Ends::Outbound { remote, peer: None }, 2);
        let (ours, theirs) = (address("/ip4/192.0.2.1/tcp/1"), address("/ip4/192.0.2.2/tcp/2/ws"));
        for other in ["/ip4/192.0.2.1/tcp/9", "/ip4/192.0.2.1/udp/1/quic-v1"] {
            assert_eq!(written(meters.claim(&peer, Some(&address(other)), &theirs)), None);
        }
        assert_eq!(written(meters.claim(&peer, Some(&ours), &theirs)), Some(1));
        assert_eq!(written(meters.claim(&peer, Some(&ours), &theirs)), None);
        assert_eq!(written(meters.claim(&peer, None, &theirs)), Some(2));
        drop((inbound, outbound));
        assert!(meters.is_empty());
    }

    #[test]
    fn a_name_is_found_by_its_peer_and_a_relayed_connection_not_at_all() {
        let meters = Meters::new();
        let peer = PeerId::random();
        let remote = socket("192.0.2.2:2");
        let _kept = register(&meters, Ends::Outbound { remote, peer: Some(peer) }, 1);
        let relayed = address("/ip4/192.0.2.2/tcp/2").with(Protocol::P2pCircuit);
        assert_eq!(written(meters.claim(&peer, None, &relayed)), None);
        let name = address("/dns4/example.org/tcp/2");
        assert_eq!(written(meters.claim(&PeerId::random(), None, &name)), None);
        assert_eq!(written(meters.claim(&peer, None, &name)), Some(1));
    }
}
