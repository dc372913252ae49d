//! The links of a host of an experiment: an application with its engine on sockets.
//!
//! The hosts of a run trust each other. Their links are those of [`framed`], the connections of
//! CometBFT (`mconn::host`), or gRPC (`mix::host`).

mod layer;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::outbox::ByLane;
use samara_engine::places::Shares;
use samara_engine::{Driver, Engine, FrameCodec, Input, PeerIdentity};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};

use self::layer::Plain;
pub use self::layer::TOKEN_BYTES;
use crate::hub::{Attempted, ChannelQueue, Event, Hub, Limits, LinkLayer, Task};
use crate::status::Closed;
pub use crate::status::Counters;

/// Handshakes for each host of the run that may be under way: it dials again while an earlier one
/// has not ended.
pub(crate) const PENDING_SHARE: usize = 4;

/// The names of hosts in the engine, by their numbers in the run.
#[derive(Clone)]
pub struct Names {
    /// Returns the identity of a host.
    pub identity: fn(u32) -> PeerIdentity,
    /// Returns the host with an identity.
    pub host: fn(&PeerIdentity) -> Option<u32>,
    /// Returns the protocol that a dialler and a listener agree on.
    pub protocol: Arc<dyn Fn(u32, u32) -> Arc<str> + Send + Sync>,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The number of this host.
    pub own: u32,
    /// A secret of the run: others cannot connect.
    pub token: [u8; TOKEN_BYTES],
    pub listen: SocketAddr,
    /// The address at which this host dials each host.
    pub peers: Vec<SocketAddr>,
    pub names: Names,
    /// Bytes of a link between the outbox and the socket.
    pub in_flight_bytes: usize,
    /// Maximum number of unsent bytes of a socket in the kernel (`TCP_NOTSENT_LOWAT`).
    pub not_sent_bytes: u32,
    /// Maximum time until a link is up.
    pub dial_timeout: Duration,
}

/// The links of a host, and the application behind them.
pub trait Host<E: Engine> {
    /// Passes a command to the application.
    fn command(&mut self, command: E::Command);

    fn dial(&mut self, host: u32);

    /// Loses the link to a host, and dials it again if `again`.
    fn disconnect(&mut self, host: u32, again: bool);

    /// Handles what the engine asks for, and returns the events of the application.
    fn settle(&mut self) -> Vec<E::Event>;

    /// Waits for the next thing that happens on the links, or until a time, and handles it. Dropping
    /// the wait loses nothing.
    fn next(&mut self, until: Option<Instant>) -> impl Future<Output = ()>;

    fn engine(&self) -> &E;

    /// Calls the application without an input, for what its runtime asks of it.
    fn with<R>(&mut self, call: impl FnOnce(&mut E) -> R) -> R;

    /// Returns the counters of links since the host started.
    fn counters(&self) -> Counters;

    /// Returns the counters of the outbox by lane.
    fn lanes(&mut self) -> ByLane;

    /// Returns the number of copies that the outbox holds.
    fn owed(&mut self) -> usize;

    /// Ends the links as soon as they have sent what they have.
    fn finish(self) -> impl Future<Output = ()>;
}

/// Begins to accept links of TCP, with each frame behind its length.
pub fn framed<E: Engine + 'static>(
    options: &Options,
    listener: TcpListener,
    codec: Arc<dyn FrameCodec<E::Frame>>,
    driver: Driver<E>,
) -> impl Host<E> + use<E> {
    Hosting::new(options, listener, Plain::new(options, codec), Vec::new(), driver)
}

/// Returns the secret of a host's key: all hosts of a run know the names of all, and nobody else can
/// have one.
pub fn secret_of(token: &[u8; TOKEN_BYTES], host: u32) -> [u8; 32] {
    let mut secret = Sha256::new();
    secret.update(b"the key of a host of a run");
    secret.update(token);
    secret.update(host.to_le_bytes());
    secret.finalize().into()
}

/// A link layer that knows hosts by their numbers.
pub(crate) trait Numbered: LinkLayer<Name = u32> {
    /// Greets a host that dialled.
    fn greet(&self, stream: TcpStream, from: SocketAddr) -> Task<Attempted<Self>>;
}

/// An application on the links of any layer.
pub(crate) struct Hosting<L: Numbered> {
    hub: Hub<L>,
    /// Hosts to dial as soon as their links are gone.
    again: Vec<u32>,
}

impl<L: Numbered> Hosting<L> {
    pub(crate) fn new(
        options: &Options,
        listener: TcpListener,
        layer: L,
        channels: Vec<ChannelQueue>,
        driver: Driver<L::Engine>,
    ) -> Self {
        let limits = Limits {
            in_flight_bytes: options.in_flight_bytes,
            pending_max: PENDING_SHARE * options.peers.len() + PENDING_SHARE,
            // Each host has one link to another one, and a second one while both dial.
            inbound: Shares::per_host(usize::MAX),
            dials_max: usize::MAX,
        };
        Self::around(Hub::new(driver, layer, Some(listener), limits, channels))
    }

    pub(crate) fn around(hub: Hub<L>) -> Self {
        Self { hub, again: Vec::new() }
    }
}

impl<L: Numbered> Host<L::Engine> for Hosting<L> {
    fn command(&mut self, command: <L::Engine as Engine>::Command) {
        self.hub.driver.input(Input::Command(command));
    }

    fn dial(&mut self, host: u32) {
        self.hub.dial(host);
    }

    fn disconnect(&mut self, host: u32, again: bool) {
        if let Some((peer, _)) = self.hub.links.of(&host) {
            if again {
                self.again.push(host);
            }
            self.hub.take_down(peer, Closed::Here);
        }
    }

    fn settle(&mut self) -> Vec<<L::Engine as Engine>::Event> {
        self.hub.driver.fire_timers();
        self.hub.settle();
        let mut emitted = Vec::new();
        for event in self.hub.take_events() {
            match event {
                Event::Engine(event) => emitted.push(event),
                Event::LinkDown { name, .. } if self.again.contains(&name) => {
                    self.again.retain(|again| *again != name);
                    self.hub.dial(name);
                }
                _ => {}
            }
        }
        self.hub.drain();
        emitted
    }

    async fn next(&mut self, until: Option<Instant>) {
        let turn = self.hub.next(until).await;
        if let Some((stream, remote)) = self.hub.handle(turn) {
            let greeting = self.hub.layer.greet(stream, remote);
            self.hub.greet(remote, greeting);
        }
    }

    fn engine(&self) -> &L::Engine {
        self.hub.driver.engine()
    }

    fn with<R>(&mut self, call: impl FnOnce(&mut L::Engine) -> R) -> R {
        self.hub.driver.with(|engine, _| call(engine))
    }

    fn counters(&self) -> Counters {
        self.hub.counters()
    }

    fn lanes(&mut self) -> ByLane {
        self.hub.lanes()
    }

    fn owed(&mut self) -> usize {
        self.hub.driver.outbox().pending()
    }

    async fn finish(mut self) {
        self.hub.stop();
        self.hub.finish().await;
    }
}
