//! TCP on tokio, with a meter for each connection.
//!
//! [`Transport`] is libp2p's own [`libp2p::tcp::tokio::Transport`] with two additions. It registers
//! each connection with [`Meters`], and on Linux it sets `TCP_NOTSENT_LOWAT`: no more than
//! [`NOTSENT_BYTES`] wait in a socket, beyond the control of the outbox. On other systems it registers
//! nothing, and the behaviour does without.
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
use libp2p::core::transport::{DialOpts, ListenerId, TransportError, TransportEvent};

pub use libp2p::tcp::Config;
pub use stream::Stream;

use super::registry::{Ends, Meters, peer_of, socket_address};

/// Maximum number of bytes that wait unsent in a socket when it takes more: a frame of usual length.
pub const NOTSENT_BYTES: u32 = 16 << 10;

/// A TCP transport whose connections can be read.
pub struct Transport {
    inner: libp2p::tcp::tokio::Transport,
    meters: Meters,
}

impl Transport {
    /// Creates a transport that registers its connections.
    pub fn new(config: Config, meters: &Meters) -> Self {
        Self { inner: libp2p::tcp::tokio::Transport::new(config), meters: meters.clone() }
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
        let meters = self.meters.clone();
        let dial = self.inner.dial(address, options)?;
        Ok(async move { Ok(Stream::new(dial.await?.into(), ends, &meters)) }.boxed())
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

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("meters", &self.meters).finish_non_exhaustive()
    }
}
