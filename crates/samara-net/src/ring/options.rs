//! Options of a member.

use std::net::SocketAddr;
use std::time::Duration;

use samara_ring::wire::Limits;
use samara_ring::{Config, Ring};
use sha2::{Digest, Sha256};

use super::framed::{LinkOptions, identity_of};
use crate::status::{OptionError, check};

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The name of the group: a member refuses nodes of another group.
    pub group: String,
    /// Where to listen. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// The address at which others dial this member, and its name; the one that it listens at, if not given.
    pub advertise: Option<SocketAddr>,
    pub seeds: Vec<SocketAddr>,
    /// The protocol's. Its `group`, `seeds` and `own_queue_bytes` follow from the other options.
    pub config: Config,
    /// Bytes of own messages that wait to be broadcast; beyond, whoever broadcasts waits. Short: what waits here is late already.
    pub queue_bytes: usize,
    /// Bytes of frames that may be on their way from the outbox into the socket, for each link. What is owed beyond waits where
    /// heartbeats and news of failures overtake it.
    pub in_flight_bytes: usize,
    /// Bytes in the kernel that were not sent yet at most, where the platform can bound them (`TCP_NOTSENT_LOWAT`), for the same
    /// reason.
    pub not_sent_bytes: u32,
    /// Bytes of deliveries that the application has not taken; beyond, the engine holds back `held_bytes` more, and then the group
    /// waits.
    pub waiting_bytes: usize,
    /// How long dialling may take, and how long the handshake.
    pub handshake_timeout: Duration,
    /// A link on which nothing has come for so long is closed. Members send heartbeats.
    pub idle_timeout: Duration,
    /// Most handshakes with nodes that dialled; further ones are hung up on.
    pub max_pending: usize,
}

impl Options {
    /// A member of this group that listens there, with the defaults of the protocol: the ring, FIFO for each sender.
    pub fn new(group: impl Into<String>, listen: SocketAddr) -> Self {
        Self {
            group: group.into(),
            listen,
            advertise: None,
            seeds: Vec::new(),
            config: Config::default(),
            queue_bytes: 256 << 10,
            in_flight_bytes: 256 << 10,
            not_sent_bytes: 128 << 10,
            waiting_bytes: 4 << 20,
            handshake_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_secs(10),
            max_pending: 64,
        }
    }

    /// Sets the members to look for. Its own address among them does no harm.
    #[must_use]
    pub fn with_seeds(mut self, seeds: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    pub(super) fn group_number(&self) -> u64 {
        let digest = Sha256::digest(self.group.as_bytes());
        digest.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    pub(super) fn engine_config(&self) -> Config {
        let seeds = self.seeds.iter().map(|seed| identity_of(*seed)).collect();
        let own_queue_bytes = self.queue_bytes;
        Config { group: self.group_number(), seeds, own_queue_bytes, ..self.config.clone() }
    }

    /// What links accept: a batch and a chunk, the fields between them, and views of the largest size.
    pub(super) fn link_options(&self) -> LinkOptions {
        let limits = Limits::default();
        let Config { batch_bytes, chunk_bytes, members_max, .. } = self.config;
        // A unit has at most 32 bytes of fields, an acknowledgement 24, a member its name and 16.
        let fields = 32 * limits.units + (48 + 2 * (limits.identity_bytes + 16)) * members_max;
        let early = self.config.message_bytes_max.min(limits.unit_bytes);
        let early = if self.config.early == samara_ring::Early::Direct { early } else { 0 };
        LinkOptions {
            frame_max: (batch_bytes + chunk_bytes).max(early) + fields + 4_096,
            limits: Limits { unit_bytes: chunk_bytes.max(early), ..limits },
            idle_timeout: self.idle_timeout,
        }
    }

    pub fn check(&self) -> Result<(), OptionError> {
        let address = self.advertise.unwrap_or(self.listen);
        check(!address.ip().is_unspecified(), "advertise", address, "an address that others can dial")?;
        let queue = self.queue_bytes;
        // A semaphore counts the room in the queue.
        check((1..=1 << 30).contains(&queue), "queue_bytes", queue, "1 B to 1 GiB")?;
        let longest = self.config.message_bytes_max;
        let early = self.config.early == samara_ring::Early::Direct;
        let fits = !early || longest <= Limits::default().unit_bytes;
        check(fits, "config.message_bytes_max", longest, "at most 4 MiB with early messages")?;
        let bounds = [
            ("in_flight_bytes", self.in_flight_bytes > 0),
            ("waiting_bytes", self.waiting_bytes > 0),
            ("max_pending", self.max_pending > 0),
            ("handshake_timeout", !self.handshake_timeout.is_zero()),
        ];
        bounds.into_iter().try_for_each(|(field, holds)| check(holds, field, 0, "more than 0"))?;
        let idle = self.idle_timeout;
        let beats = 2 * self.config.detection.heartbeat;
        check(idle > beats, "idle_timeout", idle, "more than two heartbeats")?;
        Ring::new(self.engine_config(), identity_of(address)).map(drop)
    }
}
