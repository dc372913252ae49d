//! QUIC on tokio, with a meter for each connection.
//!
//! [`Transport`] speaks libp2p's QUIC (`/quic-v1`): version 1 of QUIC with the handshake of libp2p's
//! TLS, so its peers may have any implementation. Beside libp2p's own transport in Rust, which is
//! built on the same quinn, it does three things:
//!
//! - It registers each connection with [`Meters`].
//! - quinn takes at most the congestion window and [`UNSENT_BYTES`] of a connection. Further bytes
//!   stay with their writer, where the outbox can still order and withdraw them.
//! - A congestion window of which more than half is used may grow. A node with a limit over all links
//!   hands a link what its window lets out, and quinn would take that for an idle connection.
//!
//! It does not punch holes: a dial in the role of the listener fails with [`Error::HolePunch`].
//! Connections do not migrate to other addresses of the peer.
//!
//! ```
//! use libp2p::Swarm;
//! use samara_gossipsub::Config;
//! use samara_libp2p::transport::quic;
//! use samara_libp2p::{Behaviour, Options};
//!
//! # fn swarm() -> Result<Swarm<Behaviour>, Box<dyn std::error::Error>> {
//! let options = Options::default();
//! let meters = options.meters.clone();
//! let swarm = libp2p::SwarmBuilder::with_new_identity()
//!     .with_tokio()
//!     .with_other_transport(|key| {
//!         Ok(quic::Transport::new(quic::Config::default(), key, &meters)?)
//!     })?
//!     .with_behaviour(|key| Ok(Behaviour::new(key, Config::ethereum(), options)?))?
//!     .build();
//! # Ok(swarm)
//! # }
//! ```

mod config;
mod connection;
mod flow;
mod listener;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use libp2p::core::Endpoint as Role;
use libp2p::core::transport::{DialOpts, ListenerId, PortUse, TransportError, TransportEvent};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::Semaphore;

pub use config::Config;
pub use connection::{Connection, Stream};
pub use quinn::congestion;

use self::config::Quinn;
use self::connection::{Handshake, shake_hands};
use self::flow::Flow;
use self::listener::{Listener, News};
use super::registry::{Ends, Meters, Socket};

/// Maximum number of bytes that wait unsent in a connection when its window is full: a frame of usual
/// length, as over TCP.
pub const UNSENT_BYTES: u64 = 16 << 10;

/// The name of every peer in the handshake. No peer sees it; rustls requires one.
const NAME: &str = "libp2p";

/// The ways in which a connection fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No certificate can be made with the node's key.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// A connection cannot be begun.
    #[error(transparent)]
    Connect(#[from] quinn::ConnectError),
    /// A connection has ended.
    #[error(transparent)]
    Connection(#[from] quinn::ConnectionError),
    /// The handshake was not finished in this time.
    #[error("the handshake took longer than {0:?}")]
    Timeout(Duration),
    /// The peer has no certificate of libp2p.
    #[error("the peer has not named itself")]
    NoPeer,
    /// Another peer than the one in the address has answered.
    #[error("the peer is {found} instead of {expected}")]
    WrongPeer {
        /// The peer in the address.
        expected: Box<PeerId>,
        /// The peer that has answered.
        found: Box<PeerId>,
    },
    /// A dial in the role of the listener, which only a hole punch needs.
    #[error("this transport does not punch holes")]
    HolePunch,
}

impl From<Error> for TransportError<Error> {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// A QUIC transport whose connections can be read. It listens and dials within a runtime of tokio.
pub struct Transport {
    quinn: Quinn,
    meters: Meters,
    handshake_timeout: Duration,
    handshakes_max: usize,
    /// Permits for handshakes that peers begin.
    handshakes: Arc<Semaphore>,
    listeners: Vec<Listener>,
    /// The sockets for dials that no listener can send: IPv4 and IPv6.
    dialers: [Option<quinn::Endpoint>; 2],
    closed: Vec<ListenerId>,
    waker: Option<Waker>,
}

impl Transport {
    /// Creates a transport for the node with this key, which registers its connections.
    ///
    /// # Errors
    ///
    /// [`Error::Tls`] if no certificate can be made with the key.
    pub fn new(config: Config, key: &Keypair, meters: &Meters) -> Result<Self, Error> {
        Ok(Self {
            meters: meters.clone(),
            handshake_timeout: config.handshake_timeout,
            handshakes_max: config.handshakes_max,
            handshakes: Arc::new(Semaphore::new(config.handshakes_max)),
            quinn: Quinn::new(config, key)?,
            listeners: Vec::new(),
            dialers: [None, None],
            closed: Vec::new(),
            waker: None,
        })
    }

    /// Opens a socket.
    fn endpoint(&self, local: SocketAddr, with_listener: bool) -> io::Result<quinn::Endpoint> {
        let kind = socket2::Type::DGRAM;
        let socket = socket2::Socket::new(socket2::Domain::for_address(local), kind, None)?;
        if local.is_ipv6() {
            // IPv4 has sockets of its own.
            socket.set_only_v6(true)?;
        }
        socket.bind(&local.into())?;
        let server = with_listener.then(|| self.quinn.listener());
        quinn::Endpoint::new(
            self.quinn.endpoint.clone(),
            server,
            socket.into(),
            Arc::new(quinn::TokioRuntime),
        )
    }

    /// Returns the socket for a dial: that of a listener, so that the peer sees an address at which
    /// this node can be reached, or a common one, or a new one.
    fn dialer(&mut self, remote: SocketAddr, port: PortUse) -> io::Result<quinn::Endpoint> {
        let any = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let any = SocketAddr::new(any, 0);
        if port == PortUse::New {
            return self.endpoint(any, false);
        }
        if let Some(listener) = self.listeners.iter().find(|listener| listener.reaches(remote)) {
            return Ok(listener.endpoint.clone());
        }
        let at = usize::from(remote.is_ipv6());
        if let Some(endpoint) = &self.dialers[at] {
            return Ok(endpoint.clone());
        }
        let endpoint = self.endpoint(any, false)?;
        self.dialers[at] = Some(endpoint.clone());
        Ok(endpoint)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Begins the handshake of a peer, if there is room for one.
    fn accept(
        &self,
        id: ListenerId,
        port: SocketAddr,
        incoming: quinn::Incoming,
    ) -> Option<TransportEvent<Handshake, Error>> {
        let remote = incoming.remote_address();
        let is_busy = self.handshakes.available_permits() <= self.handshakes_max / 2;
        if is_busy && !incoming.remote_address_validated() && incoming.may_retry() {
            // It fails only for those that may not.
            let _ = incoming.retry();
            return None;
        }
        let Ok(permit) = Arc::clone(&self.handshakes).try_acquire_owned() else {
            tracing::debug!(%remote, "refused a QUIC connection: too many handshakes");
            incoming.refuse();
            return None;
        };
        let local = SocketAddr::new(incoming.local_ip().unwrap_or(port.ip()), port.port());
        let flow = Flow::new();
        let connecting = match incoming.accept_with(self.quinn.inbound(&flow)) {
            Ok(connecting) => connecting,
            Err(error) => {
                return Some(TransportEvent::ListenerError { listener_id: id, error: error.into() });
            }
        };
        let ends = Ends::Inbound { local: Socket::Udp(local), remote: Socket::Udp(remote) };
        let (timeout, meters) = (self.handshake_timeout, self.meters.clone());
        let upgrade = async move {
            let _permit = permit;
            shake_hands(connecting, timeout, flow, ends, meters).await
        };
        Some(TransportEvent::Incoming {
            listener_id: id,
            upgrade: upgrade.boxed(),
            local_addr: multiaddr(local),
            send_back_addr: multiaddr(remote),
        })
    }
}

impl libp2p::core::Transport for Transport {
    type Output = (PeerId, Connection);
    type Error = Error;
    type ListenerUpgrade = Handshake;
    type Dial = Handshake;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<Error>> {
        let Some((local, _)) = socket_of(&address) else {
            return Err(TransportError::MultiaddrNotSupported(address));
        };
        let endpoint = self.endpoint(local, true).map_err(Error::from)?;
        self.listeners.push(Listener::new(id, endpoint).map_err(Error::from)?);
        self.wake();
        Ok(())
    }

    /// Takes no more connections on a listener. Those that it has go on, and its port stays in use
    /// until they end.
    fn remove_listener(&mut self, id: ListenerId) -> bool {
        let Some(at) = self.listeners.iter().position(|listener| listener.id == id) else { return false };
        self.listeners.swap_remove(at).close();
        self.closed.push(id);
        self.wake();
        true
    }

    fn dial(&mut self, address: Multiaddr, options: DialOpts) -> Result<Handshake, TransportError<Error>> {
        let Some((remote, peer)) = socket_of(&address) else {
            return Err(TransportError::MultiaddrNotSupported(address));
        };
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(TransportError::MultiaddrNotSupported(address));
        }
        if options.role == Role::Listener {
            return Err(Error::HolePunch.into());
        }
        let endpoint = self.dialer(remote, options.port_use).map_err(Error::from)?;
        let flow = Flow::new();
        let config = self.quinn.outbound(&flow);
        let ends = Ends::Outbound { remote: Socket::Udp(remote), peer };
        let (timeout, meters) = (self.handshake_timeout, self.meters.clone());
        Ok(async move {
            let connecting = endpoint.connect_with(config, remote, NAME)?;
            shake_hands(connecting, timeout, flow, ends, meters).await
        }
        .boxed())
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TransportEvent<Handshake, Error>> {
        if let Some(listener_id) = self.closed.pop() {
            return Poll::Ready(TransportEvent::ListenerClosed { listener_id, reason: Ok(()) });
        }
        let mut at = 0;
        while let Some(listener) = self.listeners.get_mut(at) {
            let (id, port) = (listener.id, listener.local);
            let event = match listener.poll(cx) {
                Poll::Pending => {
                    at += 1;
                    continue;
                }
                Poll::Ready(News::Event(event)) => Some(event),
                Poll::Ready(News::Incoming(incoming)) => self.accept(id, port, *incoming),
                Poll::Ready(News::Lost) => {
                    self.listeners.swap_remove(at).close();
                    let reason = Err(io::Error::from(io::ErrorKind::NotConnected).into());
                    return Poll::Ready(TransportEvent::ListenerClosed { listener_id: id, reason });
                }
            };
            if let Some(event) = event {
                // Another listener comes first the next time.
                self.listeners.rotate_left(at + 1);
                return Poll::Ready(event);
            }
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let listeners: Vec<SocketAddr> = self.listeners.iter().map(|listener| listener.local).collect();
        f.debug_struct("Transport")
            .field("listeners", &listeners)
            .field("meters", &self.meters)
            .finish_non_exhaustive()
    }
}

/// Returns the socket and the peer of an address like `/ip4/192.0.2.1/udp/9000/quic-v1/p2p/PEER`, where
/// the peer may be missing. Other addresses are those of other transports.
fn socket_of(address: &Multiaddr) -> Option<(SocketAddr, Option<PeerId>)> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => IpAddr::V4(ip),
        Protocol::Ip6(ip) => IpAddr::V6(ip),
        _ => return None,
    };
    let (Protocol::Udp(port), Protocol::QuicV1) = (parts.next()?, parts.next()?) else { return None };
    let peer = match parts.next() {
        None => None,
        Some(Protocol::P2p(peer)) if parts.next().is_none() => Some(peer),
        Some(_) => return None,
    };
    Some((SocketAddr::new(ip, port), peer))
}

fn multiaddr(socket: SocketAddr) -> Multiaddr {
    Multiaddr::from(socket.ip()).with(Protocol::Udp(socket.port())).with(Protocol::QuicV1)
}

#[cfg(test)]
mod tests;
