//! The links of a host of an experiment: an application with its engine on TCP.
//!
//! The hosts of a run trust each other.

mod layer;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_engine::outbox;
use samara_engine::places::Shares;
use samara_engine::{Driver, Engine, FrameCodec, Input, PeerIdentity};
use tokio::net::TcpListener;

use self::layer::Plain;
pub use self::layer::TOKEN_BYTES;
use crate::hub::{Event, Hub, Limits};
use crate::status::Closed;
pub use crate::status::Counters;

/// Handshakes for each host of the run that may be under way: it dials again while an earlier one
/// has not ended.
const PENDING_SHARE: usize = 4;

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

/// An application on TCP connections, each frame behind its length.
pub struct Framed<E: Engine + 'static> {
    hub: Hub<Plain<E>>,
    /// Hosts to dial as soon as their links are gone.
    again: Vec<u32>,
}

impl<E: Engine + 'static> Framed<E> {
    /// Begins to accept links.
    pub fn new(
        options: &Options,
        listener: TcpListener,
        codec: Arc<dyn FrameCodec<E::Frame>>,
        driver: Driver<E>,
    ) -> Self {
        let limits = Limits {
            in_flight_bytes: options.in_flight_bytes,
            pending_max: PENDING_SHARE * options.peers.len() + PENDING_SHARE,
            // Each host has one link to another one, and a second one while both dial.
            inbound: Shares::per_host(usize::MAX),
            dials_max: usize::MAX,
        };
        let hub = Hub::new(driver, Plain::new(options, codec), Some(listener), limits, Vec::new());
        Self { hub, again: Vec::new() }
    }

    /// Passes an input to the application.
    pub fn command(&mut self, command: E::Command) {
        self.hub.driver.input(Input::Command(command));
    }

    pub fn dial(&mut self, host: u32) {
        self.hub.dial(host);
    }

    /// Loses the link to a host, and dials it again if `again`.
    pub fn disconnect(&mut self, host: u32, again: bool) {
        if let Some((peer, _)) = self.hub.links.of(&host) {
            if again {
                self.again.push(host);
            }
            self.hub.take_down(peer, Closed::Here);
        }
    }

    /// Handles what the engine asks for, and returns the events of the application.
    pub fn settle(&mut self) -> Vec<E::Event> {
        self.hub.driver.fire_timers();
        self.hub.settle();
        let mut told = Vec::new();
        for event in self.hub.take_events() {
            match event {
                Event::Engine(event) => told.push(event),
                Event::LinkDown { name, .. } if self.again.contains(&name) => {
                    self.again.retain(|again| *again != name);
                    self.hub.dial(name);
                }
                _ => {}
            }
        }
        self.hub.drain();
        told
    }

    /// Waits for the next thing that happens on the links, or until a time, and handles it. Dropping
    /// the wait loses nothing.
    pub async fn next(&mut self, until: Option<Instant>) {
        let turn = self.hub.next(until).await;
        if let Some((stream, remote)) = self.hub.handle(turn) {
            let doorway = Arc::clone(&self.hub.layer.doorway);
            self.hub.greet(remote, doorway.greet(stream, remote));
        }
    }

    pub fn engine(&self) -> &E {
        self.hub.driver.engine()
    }

    /// Returns the counters of links since the host started.
    pub fn counters(&self) -> Counters {
        self.hub.counters()
    }

    /// Returns the counters of the outbox by lane.
    pub fn lanes(&mut self) -> Vec<(&'static str, outbox::Counters)> {
        self.hub.lanes()
    }

    /// Returns the number of copies that the outbox holds.
    pub fn owed(&mut self) -> usize {
        self.hub.driver.outbox().pending()
    }

    /// Ends the links as soon as they have sent what they have.
    pub async fn finish(mut self) {
        self.hub.stop();
        self.hub.finish().await;
    }
}

impl<E: Engine + 'static> fmt::Debug for Framed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Framed").finish_non_exhaustive()
    }
}
