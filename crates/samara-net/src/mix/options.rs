//! Options of nodes, of the scheduler and of gateways.

use std::net::SocketAddr;
use std::time::Duration;

use samara_mix::Config;

use crate::identity::{Fingerprint, Identity};
use crate::status::{OptionError, check};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    pub fingerprint: Fingerprint,
    /// The address that the other nodes dial.
    pub address: SocketAddr,
}

/// Maximum number of bytes that others may have in flight to a receiver, as HTTP/2 counts them (RFC
/// 9113, 5.2). The setting takes effect at the receiver: a node announces the windows of the data
/// sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Windows of constant size.
    Fixed {
        /// Bytes of each call.
        stream: u32,
        /// Bytes of all calls of a connection together.
        connection: u32,
    },
    /// 65,535 bytes at first, then hyper's estimate of what bandwidth and round trip require.
    Adaptive,
}

impl Default for Windows {
    /// 8 MiB: 500 Mbit/s over a round trip of 90 ms are 5.6 MB.
    fn default() -> Self {
        Self::Fixed { stream: 8 << 20, connection: 8 << 20 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sockets {
    /// Maximum number of unsent bytes in the kernel, where the platform can bound them
    /// (`TCP_NOTSENT_LOWAT`): nothing can overtake bytes that are in the kernel.
    pub not_sent_bytes: u32,
    /// Interval at which each side of a connection checks that the other is alive (PING of HTTP/2),
    /// even on an idle connection. Also the maximum wait for the answer.
    pub keepalive: Duration,
}

impl Default for Sockets {
    fn default() -> Self {
        // The original's keepalive is 5 s.
        Self { not_sent_bytes: 128 << 10, keepalive: Duration::from_secs(5) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOptions {
    pub listen: SocketAddr,
    /// Time that a round waits for more payloads after its first one. Afterwards void slots fill
    /// it.
    pub fill: Duration,
    pub connections_max: usize,
    /// Maximum KiB of received payloads that wait for a batch, of all senders together.
    pub waiting_kib: u32,
    /// Number of the last rounds whose results the gateway keeps.
    pub results_max: usize,
    /// Maximum number of requests that wait for the end of a round.
    pub waiters_max: usize,
}

impl GatewayOptions {
    pub const fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            fill: Duration::from_secs(1),
            connections_max: 1024,
            waiting_kib: 64 << 10,
            results_max: 64,
            waiters_max: 4096,
        }
    }
}

/// The options of a node or the scheduler. The certificate decides which of the two it is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Certificate and private key.
    pub identity: Identity,
    /// Address to listen on for other nodes. With port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// All nodes, in the order that is the same at every node.
    pub pool: Vec<Contact>,
    /// The scheduler, which creates rounds.
    pub scheduler: Contact,
    /// The gateway for senders, if any. The scheduler has none.
    pub gateway: Option<GatewayOptions>,
    /// Configuration of the protocol. `pool` and `scheduler` follow from the other options, and
    /// `jobs_max` from `threads`.
    pub config: Config,
    /// Threads that compute; 0 stands for the number of cores.
    pub threads: usize,
    /// HTTP/2 windows for the data that this node receives.
    pub windows: Windows,
    pub sockets: Sockets,
    /// Bytes of frames that may be on their way from the outbox into a link, for each link. Further
    /// frames wait in the outbox, where real time overtakes precomputation.
    pub in_flight_bytes: usize,
    /// Maximum KiB of frames from one link that wait for the engine. A longer frame waits alone.
    pub waiting_kib: u32,
    /// Maximum time until a link is up.
    pub handshake_timeout: Duration,
    /// Maximum number of connections in their handshake. The node hangs up on further ones.
    pub pending_max: usize,
    /// Maximum number of events that the application has not taken. The node drops and counts
    /// further ones.
    pub events_max: usize,
}

impl Options {
    /// Returns the defaults of the protocol, without a gateway.
    pub fn new(identity: Identity, listen: SocketAddr, pool: Vec<Contact>, scheduler: Contact) -> Self {
        Self {
            identity,
            listen,
            pool,
            scheduler,
            gateway: None,
            config: Config::default(),
            threads: 0,
            windows: Windows::default(),
            sockets: Sockets::default(),
            in_flight_bytes: 256 << 10,
            waiting_kib: 1 << 10,
            handshake_timeout: Duration::from_secs(5),
            pending_max: 64,
            events_max: 1 << 14,
        }
    }

    /// The number of this node: its place in the pool, or the number after the last for the
    /// scheduler. `None` if it is neither.
    pub fn number(&self) -> Option<u32> {
        let me = self.identity.fingerprint();
        let all = self.pool.iter().chain([&self.scheduler]);
        all.map(|contact| contact.fingerprint).position(|fingerprint| fingerprint == me).map(|at| at as u32)
    }

    /// The contact of a node or of the scheduler, by number.
    pub(super) fn contact(&self, number: u32) -> Option<&Contact> {
        let number = number as usize;
        if number == self.pool.len() { Some(&self.scheduler) } else { self.pool.get(number) }
    }

    pub fn engine_config(&self) -> Config {
        Config {
            pool: self.pool.iter().map(|node| node.fingerprint.peer()).collect(),
            scheduler: self.scheduler.fingerprint.peer(),
            ..self.config.clone()
        }
    }

    pub fn check(&self) -> Result<(), OptionError> {
        let own = "the certificate of a node of the pool, or of the scheduler";
        check(self.number().is_some(), "identity", self.identity.fingerprint(), own)?;
        if let Some(gateway) = &self.gateway {
            let is_node = self.number() != Some(self.pool.len() as u32);
            check(is_node, "gateway", gateway, "no gateway, as the scheduler accepts no payloads")?;
            let bounds = [gateway.connections_max, gateway.results_max, gateway.waiters_max];
            let is_bounded = !bounds.contains(&0) && gateway.waiting_kib > 0;
            check(is_bounded, "gateway", gateway, "bounds of at least 1")?;
        }
        if let Windows::Fixed { stream, connection } = self.windows {
            // A connection of HTTP/2 begins with 65,535 bytes, which it cannot reduce; its limit is
            // 2^31 - 1.
            let fits = (1 << 10..1 << 31).contains(&stream) && (65_535..1 << 31).contains(&connection);
            check(fits, "windows", self.windows, "1 KiB (of a connection 64 KiB) to 2 GiB")?;
        }
        let bounds = [
            ("in_flight_bytes", self.in_flight_bytes > 0),
            ("waiting_kib", self.waiting_kib > 0),
            ("pending_max", self.pending_max > 0),
            ("events_max", self.events_max > 0),
            ("handshake_timeout", !self.handshake_timeout.is_zero()),
            ("keepalive", !self.sockets.keepalive.is_zero()),
        ];
        bounds.into_iter().try_for_each(|(field, holds)| check(holds, field, 0, "more than 0"))?;
        self.engine_config().validate()
    }
}
