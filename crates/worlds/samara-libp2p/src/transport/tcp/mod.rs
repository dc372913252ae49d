//! TCP on tokio, with a meter for each connection.
//!
//! [`Transport`] is libp2p's own [`libp2p::tcp::tokio::Transport`] with three additions. It
//! registers each connection with [`Meters`], and on Linux it sets `TCP_NOTSENT_LOWAT`: no more than
//! [`NOTSENT_BYTES`] wait in a socket, beyond the control of the outbox. On other systems it
//! registers nothing, and the behaviour does without. It dials from a new port where the listening
//! port cannot be used.
//!
//! ```
//! use libp2p::core::Transport as _;
//! use libp2p::core::upgrade::Version;
//! use libp2p::{Swarm, noise, yamux};
//! use samara_gossipsub::Config;
//! use samara_libp2p::transport::{Meters, tcp};
//! use samara_libp2p::{Behaviour, Options};
//!
//! # fn swarm() -> Result<Swarm<Behaviour>, Box<dyn std::error::Error>> {
//! let options = Options::default();
//! let meters = options.meters.clone();
//! let swarm = libp2p::SwarmBuilder::with_new_identity()
//!     .with_tokio()
//!     .with_other_transport(|key| {
//!         let tcp = tcp::Transport::new(tcp::Config::default(), &meters);
//!         Ok(tcp
//!             .upgrade(Version::V1Lazy)
//!             .authenticate(noise::Config::new(key)?)
//!             .multiplex(yamux::Config::default()))
//!     })?
//!     .with_behaviour(|key| Ok(Behaviour::new(key, Config::ethereum(), options)?))?
//!     .build();
//! # Ok(swarm)
//! # }
//! ```

#[cfg(target_os = "linux")]
mod info;
mod stream;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{Ready, ready};
use libp2p::Multiaddr;
use libp2p::core::Transport as _;
use libp2p::core::transport::{DialOpts, ListenerId, PortUse, TransportError, TransportEvent};

pub use libp2p::tcp::Config;
pub use stream::Stream;

use super::registry::{Ends, Meters, peer_of, socket_address};

/// Maximum number of bytes that wait unsent in a socket when it takes more: a frame of usual length.
pub const NOTSENT_BYTES: u32 = 16 << 10;

/// A TCP transport whose connections can be read.
pub struct Transport {
    inner: libp2p::tcp::tokio::Transport,
    config: Config,
    meters: Meters,
}

impl Transport {
    /// Creates a transport that registers its connections.
    pub fn new(config: Config, meters: &Meters) -> Self {
        let inner = libp2p::tcp::tokio::Transport::new(config.clone());
        Self { inner, config, meters: meters.clone() }
    }
}

impl libp2p::core::Transport for Transport {
    type Output = Stream;
    type Error = io::Error;
    type ListenerUpgrade = Ready<io::Result<Stream>>;
    type Dial = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<io::Error>> {
        let ends = socket_address(&address).map(|remote| Ends::Outbound { remote, peer: peer_of(&address) });
        let (config, meters) = (self.config.clone(), self.meters.clone());
        let dial = self.inner.dial(address.clone(), options)?;
        Ok(async move {
            let dialled = match dial.await {
                // libp2p binds the listening port at all addresses of the machine. That fails as
                // long as another socket has the port at any of them, at each further attempt.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && options.port_use == PortUse::Reuse =>
                {
                    dial_from_new_port(config, address, options).await
                }
                dialled => dialled,
            };
            Ok(Stream::new(dialled?.into(), ends, &meters))
        }
        .boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        Pin::new(&mut self.inner).poll(cx).map(|event| match event {
            TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr } => {
                let ends = socket_address(&local_addr)
                    .zip(socket_address(&send_back_addr))
                    .map(|(local, remote)| Ends::Inbound { local, remote });
                let stream = upgrade.into_inner();
                let stream = stream.map(|stream| Stream::new(stream.into(), ends, &self.meters));
                TransportEvent::Incoming { listener_id, upgrade: ready(stream), local_addr, send_back_addr }
            }
            event => event.map_upgrade(|_| unreachable!("only incoming connections have upgrades")),
        })
    }
}

async fn dial_from_new_port(
    config: Config,
    address: Multiaddr,
    options: DialOpts,
) -> io::Result<libp2p::tcp::tokio::TcpStream> {
    let options = DialOpts { port_use: PortUse::New, ..options };
    let dial = libp2p::tcp::tokio::Transport::new(config).dial(address, options);
    let dial = dial.map_err(|error| match error {
        TransportError::Other(error) => error,
        other => io::Error::other(other.to_string()),
    })?;
    dial.await
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("meters", &self.meters).finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use libp2p::core::Endpoint;

    use super::*;

    /// Addresses of loopback that nothing else uses have free ports.
    #[tokio::test]
    async fn a_listening_port_that_is_taken_at_another_address_prevents_no_dial() {
        let peer = TcpListener::bind("127.0.13.1:0").unwrap();
        let taken = TcpListener::bind("127.0.13.2:0").unwrap();
        let address = |ip: &str, of: &TcpListener| {
            let port = of.local_addr().unwrap().port();
            format!("/ip4/{ip}/tcp/{port}").parse::<Multiaddr>().unwrap()
        };
        let mut transport = Transport::new(Config::default(), &Meters::new());
        transport.listen_on(ListenerId::next(), address("127.0.13.3", &taken)).unwrap();
        let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::Reuse };
        let dial = transport.dial(address("127.0.13.1", &peer), options).unwrap();
        dial.await.unwrap();
        peer.accept().unwrap();
    }
}
