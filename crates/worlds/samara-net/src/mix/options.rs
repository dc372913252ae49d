//! Options of nodes, of the scheduler and of gateways.

#[cfg(feature = "config")]
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

#[cfg(feature = "config")]
use samara_engine::settings::Form;
use samara_engine::settings::{Ranges, above};
#[cfg(feature = "config")]
use samara_engine::units::{Share, Size, Span};
use samara_mix::{Config, Group};

use super::board::CLOSE_EARLY;
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

impl Windows {
    fn check(self) -> Result<(), OptionError> {
        let Self::Fixed { stream, connection } = self else { return Ok(()) };
        // A connection of HTTP/2 begins with 65,535 bytes, which it cannot reduce; its limit is
        // 2^31 - 1.
        let fits = (1 << 10..1 << 31).contains(&stream) && (65_535..1 << 31).contains(&connection);
        check(fits, "windows", self, "1 KiB (of a connection 64 KiB) to 2 GiB")
    }
}

impl Default for Windows {
    /// 8 MiB: 500 Mbit/s over a round trip of 90 ms are 5.6 MB.
    fn default() -> Self {
        Self::Fixed { stream: 8 << 20, connection: 8 << 20 }
    }
}

samara_engine::ranges! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sockets {
        /// Maximum number of unsent bytes in the kernel, where the platform can bound them
        /// (`TCP_NOTSENT_LOWAT`): nothing can overtake bytes that are in the kernel.
        pub not_sent_bytes: u32,
        /// Interval at which each side of a connection checks that the other is alive (PING of HTTP/2),
        /// even on an idle connection. Also the maximum wait for the answer.
        #[range(above(Duration::ZERO))]
        pub keepalive: Duration,
    }
}

impl Default for Sockets {
    fn default() -> Self {
        // The original's keepalive is 5 s.
        Self { not_sent_bytes: 128 << 10, keepalive: Duration::from_secs(5) }
    }
}

samara_engine::settings! {
    /// The options of a gateway. Senders make their own certificates, so limits by certificate hold
    /// for programs that keep to the rules. Limits by address hold for all: an IPv4 address, or the /64
    /// of an IPv6 address. A /24 (IPv6: /56) has twice as much as an address, a /16 (/48) four times.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GatewayOptions {
        pub listen: SocketAddr,
        /// Time that a round waits for more payloads after its first one. Afterwards dummies fill it,
        /// if it has payloads of enough senders.
        pub fill: Duration,
        /// Minimum number of different senders in a batch: the size of the set in which each of them is
        /// anonymous. The first node of a team waits for them, and each node counts them
        /// ([`Config::senders_min`]).
        #[range(1..)]
        pub senders_min: u32 => senders_min,
        /// Time that a round waits for payloads of enough senders after its first one. Afterwards it
        /// fails, and the senders keep their payloads. Less than [`Config::queue_timeout`]: a round
        /// without payloads ends so much before.
        pub hold: Duration => hold as Span,
        /// Maximum percentage of a batch that one sender may fill, but at least one slot.
        #[range(1..=100)]
        pub sender_share_percent: u32 => sender_share as Percent,
        /// True to fill batches with random contents of nobody. Otherwise void slots fill them, which
        /// show everybody how many payloads a batch has.
        pub dummies: bool => dummies,

        #[range(1..)]
        pub connections_max: usize => connections_max,
        /// Maximum number of connections of one address, those in their handshake included.
        #[range(1..)]
        pub connections_per_address_max: usize => connections_per_address_max,
        /// Maximum number of concurrent calls of a connection.
        #[range(1..)]
        pub calls_max: u32 => calls_max,
        /// Time without a call after which the gateway closes a connection.
        #[range(above(Duration::ZERO))]
        pub idle_timeout: Duration => idle_timeout as Span,
        /// HTTP/2 windows for the data that the gateway receives: what a connection can make it buffer.
        pub windows: Windows => window as Size,
        /// Time within which all payloads of a call must arrive.
        #[range(above(Duration::ZERO))]
        pub receive_timeout: Duration => receive_timeout as Span,
        /// Time within which a sender must take each part of an answer.
        #[range(above(Duration::ZERO))]
        pub send_timeout: Duration => send_timeout as Span,
        /// Maximum KiB a second of announcements and results to one address. Those of a second can leave
        /// at once.
        #[range(1..)]
        pub answers_per_address_kib: u32 => answers_per_address as Kib,
        /// Maximum KiB of payloads in calls that have not ended, of all senders together.
        #[range(1..)]
        pub waiting_kib: u32 => waiting as Kib,
        /// Maximum KiB of payloads in calls that have not ended, of one address.
        #[range(1..)]
        pub waiting_per_address_kib: u32 => waiting_per_address as Kib,
        /// Maximum number of registrations of one certificate within a minute.
        #[range(1..)]
        pub registrations_per_minute_max: u32 => registrations_per_minute_max,
        /// Maximum number of registrations of one address within a minute.
        #[range(1..)]
        pub registrations_per_minute_per_address_max: u32 => registrations_per_minute_per_address_max,
        /// Minimum time between two announcements to a sender. Changes within it are announced
        /// together.
        pub announce_interval: Duration => announce_interval as Span,
        /// Number of the last rounds whose results the gateway keeps.
        #[range(1..)]
        pub results_max: usize => results_max,
        /// Maximum KiB of the results that the gateway keeps. The oldest leave first; the last one
        /// stays, whatever its size.
        #[range(1..)]
        pub results_kib: u32 => results as Kib,
        /// Time for which the gateway keeps results.
        #[range(above(Duration::ZERO))]
        pub results_kept: Duration => results_kept as Span,
        /// Maximum number of requests that wait for the end of a round. A sixteenth of them is for one
        /// address, an eighth for a /24 (/56), a quarter for a /16 (/48).
        #[range(1..)]
        pub waiters_max: usize => waiters_max,
    }
}

/// Whole percents in a file.
#[cfg(feature = "config")]
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub(super) struct Percent(Share);

#[cfg(feature = "config")]
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "config")]
impl Form<u32> for Percent {
    fn put(self, percent: &mut u32) {
        *percent = (self.0.fraction() * 100.0).round() as u32;
    }

    fn of(percent: &u32) -> Self {
        Self(Share::from_fraction(f64::from(*percent) / 100.0))
    }
}

/// A size in a file, in whole KiB.
#[cfg(feature = "config")]
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub(super) struct Kib(Size);

#[cfg(feature = "config")]
impl fmt::Display for Kib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "config")]
impl Form<u32> for Kib {
    fn put(self, kib: &mut u32) {
        *kib = u32::try_from(self.0.bytes() / 1024).unwrap_or(u32::MAX);
    }

    fn of(kib: &u32) -> Self {
        Self(Size::from_bytes(u64::from(*kib) * 1024))
    }
}

/// Windows of this size for each call and connection, or adaptive ones for 0.
#[cfg(feature = "config")]
impl Form<Windows> for Size {
    fn put(self, windows: &mut Windows) {
        *windows = match u32::try_from(self.bytes()).unwrap_or(u32::MAX) {
            0 => Windows::Adaptive,
            bytes => Windows::Fixed { stream: bytes, connection: bytes },
        };
    }

    fn of(windows: &Windows) -> Self {
        match windows {
            Windows::Adaptive => Self::default(),
            Windows::Fixed { stream, .. } => Self::from_bytes(u64::from(*stream)),
        }
    }
}

#[cfg(feature = "config")]
impl Default for GatewayOptions {
    /// Returns the options of a gateway whose address is set later.
    fn default() -> Self {
        Self::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

impl GatewayOptions {
    pub const fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            fill: Duration::from_secs(1),
            senders_min: 4,
            hold: Duration::from_secs(60),
            sender_share_percent: 25,
            dummies: true,
            connections_max: 1024,
            connections_per_address_max: 16,
            // A client waits for the results of several rounds at a time.
            calls_max: 32,
            idle_timeout: Duration::from_secs(60),
            // Together with `connections_max`, 256 MiB.
            windows: Windows::Fixed { stream: 256 << 10, connection: 256 << 10 },
            receive_timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(10),
            answers_per_address_kib: 32 << 10,
            waiting_kib: 64 << 10,
            waiting_per_address_kib: 16 << 10,
            registrations_per_minute_max: 10,
            registrations_per_minute_per_address_max: 120,
            announce_interval: Duration::from_millis(100),
            results_max: 65_536,
            results_kib: 256 << 10,
            results_kept: Duration::from_secs(24 * 60 * 60),
            waiters_max: 4096,
        }
    }

    /// Returns the number of slots of a batch that one sender may fill.
    pub(super) fn sender_share(&self, batch: u32) -> u32 {
        let share = u64::from(batch) * u64::from(self.sender_share_percent) / 100;
        (share as u32).max(1)
    }

    fn check(&self) -> Result<(), OptionError> {
        self.check_ranges()?;
        check(self.hold >= self.fill, "hold", self.hold, "at least fill")?;
        let share = self.sender_share_percent;
        // Otherwise fewer senders fill a batch, and the round can only fail.
        let is_fillable = u64::from(share) * u64::from(self.senders_min - 1) < 100;
        let expected = "a share that leaves room for senders_min senders";
        check(is_fillable, "sender_share_percent", share, expected)?;
        self.windows.check()
    }
}

samara_engine::ranges! {
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
        /// True to accept [`Group::Model`], which has no secrets, on addresses that other machines can
        /// reach. For measurements in private networks.
        pub allow_model: bool,
        /// Threads that compute; 0 stands for the number of cores.
        pub threads: usize,
        /// HTTP/2 windows for the data that this node receives.
        pub windows: Windows,
        #[range(..)]
        pub sockets: Sockets,
        /// Bytes of frames that may be on their way from the outbox into a link, for each link. Further
        /// frames wait in the outbox, where real time overtakes precomputation.
        #[range(1..)]
        pub in_flight_bytes: usize,
        /// Maximum KiB of frames from one link that wait for the engine. A longer frame waits alone.
        #[range(1..)]
        pub waiting_kib: u32,
        /// Maximum time until a link is up.
        #[range(above(Duration::ZERO))]
        pub handshake_timeout: Duration,
        /// Maximum number of connections in their handshake. The node hangs up on further ones.
        #[range(1..)]
        pub pending_max: usize,
        /// Maximum number of events that the application has not taken. The node drops and counts
        /// further ones.
        #[range(1..)]
        pub events_max: usize,
    }
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
            allow_model: false,
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
        let senders_min = self.gateway.as_ref().map_or(0, |gateway| gateway.senders_min);
        Config {
            pool: self.pool.iter().map(|node| node.fingerprint.peer()).collect(),
            scheduler: self.scheduler.fingerprint.peer(),
            senders_min: self.config.senders_min.max(senders_min as usize),
            ..self.config.clone()
        }
    }

    pub fn check(&self) -> Result<(), OptionError> {
        let own = "the certificate of a node of the pool, or of the scheduler";
        check(self.number().is_some(), "identity", self.identity.fingerprint(), own)?;
        if let Some(gateway) = &self.gateway {
            let is_node = self.number() != Some(self.pool.len() as u32);
            check(is_node, "gateway", gateway, "no gateway, as the scheduler accepts no payloads")?;
            gateway.check()?;
        }
        if let Some(gateway) = &self.gateway {
            // Otherwise rounds end at the nodes while their payloads wait for those of others.
            let (hold, time) = (gateway.hold, self.config.queue_timeout);
            let expected = format!("some seconds less than queue_timeout = {time:?}");
            check(hold + CLOSE_EARLY < time, "hold", hold, expected)?;
        }
        self.windows.check()?;
        let gateway = self.gateway.as_ref().map(|gateway| gateway.listen);
        let is_local = [Some(self.listen), gateway].into_iter().flatten().all(is_loopback);
        let is_secret = self.config.group != Group::Model || self.allow_model || is_local;
        let expected = "a group with secrets, as other machines can reach this node";
        check(is_secret, "group", self.config.group.name(), expected)?;
        self.check_ranges()?;
        self.engine_config().validate()
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
