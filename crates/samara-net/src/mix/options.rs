//! What can be set.

use std::net::SocketAddr;
use std::time::Duration;

use samara_mix::Config;

use super::identity::{Fingerprint, Identity};
use crate::status::{OptionError, check};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    pub fingerprint: Fingerprint,
    /// Where the others dial.
    pub address: SocketAddr,
}

/// How much a receiver lets others have on their way to it, as HTTP/2 counts it (RFC 9113, 5.2). This is set where it has its effect:
/// the windows of what a node is sent are those that the node itself announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Always so many bytes.
    Fixed {
        /// Of each call.
        stream: u32,
        /// Of all calls of a connection together.
        connection: u32,
    },
    /// 65,535 bytes at first, and then what bandwidth and round trip are found to need: hyper's estimate.
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
    /// Bytes in the kernel that were not sent yet at most, where the platform can bound them (`TCP_NOTSENT_LOWAT`): what is there
    /// already cannot be overtaken.
    pub not_sent_bytes: u32,
    /// How often each side of a connection asks whether the other is there (PING of HTTP/2), also while nothing is said; and how
    /// long it waits for the answer.
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
    /// How long a round waits for more payloads once it has one; it is filled up with void slots then.
    pub fill: Duration,
    pub connections_max: usize,
    /// KiB of payloads at most that have come and are in no batch yet, of all senders together.
    pub waiting_kib: u32,
    /// Rounds whose results are kept for those who ask: the last ones.
    pub results_max: usize,
    /// Requests at most that wait for the end of a round.
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

/// How a node or the scheduler is set up. Which of them it is follows from its certificate.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its certificate, and the key of that.
    pub identity: Identity,
    /// Where to listen for the others. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// All nodes, in the order in which everybody has them.
    pub pool: Vec<Contact>,
    /// Who makes rounds.
    pub scheduler: Contact,
    /// Where senders come; nowhere if there is none. The scheduler has none.
    pub gateway: Option<GatewayOptions>,
    /// The protocol's. Its `pool` and `scheduler` follow from the other options, and its `jobs_max` from `threads`.
    pub config: Config,
    /// Threads that compute; 0 stands for as many as there are cores.
    pub threads: usize,
    /// What this one lets others have on their way.
    pub windows: Windows,
    pub sockets: Sockets,
    /// Bytes of frames that may be on their way from the outbox into a link, for each. What is owed beyond waits where real time
    /// overtakes precomputation.
    pub in_flight_bytes: usize,
    /// KiB of frames that came by one link and wait for the engine at most; a longer frame waits alone.
    pub waiting_kib: u32,
    /// How long it may take until a link is up.
    pub handshake_timeout: Duration,
    /// Connections that are being set up at most; further ones are hung up on.
    pub pending_max: usize,
    /// Events that the application has not taken at most; further ones are dropped, and counted.
    pub events_max: usize,
}

impl Options {
    /// The defaults of the protocol, and no senders.
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

    /// The number of this one: its place in the pool, or the number after the last for the scheduler. `None` if it is neither.
    pub fn number(&self) -> Option<u32> {
        let me = self.identity.fingerprint();
        let all = self.pool.iter().chain([&self.scheduler]);
        all.map(|contact| contact.fingerprint).position(|fingerprint| fingerprint == me).map(|at| at as u32)
    }

    /// Everybody by number.
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
            check(is_node, "gateway", gateway, "none: the scheduler takes no payloads")?;
            let bounds = [gateway.connections_max, gateway.results_max, gateway.waiters_max];
            let is_bounded = !bounds.contains(&0) && gateway.waiting_kib > 0;
            check(is_bounded, "gateway", gateway, "bounds of at least 1")?;
        }
        if let Windows::Fixed { stream, connection } = self.windows {
            // A connection of HTTP/2 begins with 65,535 bytes, which cannot be taken back; 2^31 - 1 is its limit.
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
