//! Options of a member of a group.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use samara_engine::settings::{Ranges, above};
use samara_ring::wire::Limits;
use samara_ring::{Config, Federation, FederationConfig, Order, Ring};
use sha2::{Digest, Sha256};

use super::auth::{Authentication, Certificates, Frames, Secret};
use super::framed::{LinkOptions, identity_of, is_loopback};
use super::site::Site;
use crate::status::{OptionError, check};

/// The options that a member outside of loopback needs.
const AUTHENTICATION: &str = "a secret of at least 16 random bytes that all members have \
    (`openssl rand -hex 32`), certificates, or `Unauthenticated`, which lets everybody join";

samara_engine::ranges! {
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The name of the group. A member rejects nodes of another group.
        pub group: String,
        /// Address to listen on. With port 0 the system chooses a port.
        pub listen: SocketAddr,
        /// The address at which others dial this member, which is also its name. By default the address
        /// that it listens on.
        pub advertise: Option<SocketAddr>,
        /// Members to join; in a federation, of the own site.
        pub seeds: Vec<SocketAddr>,
        /// The member's site in a federation, for [`Group::join_site`](super::Group::join_site).
        pub site: Option<Site>,
        /// How members know each other. The default is for loopback addresses only.
        pub authentication: Authentication,
        /// With a time, the member founds no group: [`Group::join`](super::Group::join) fails if no
        /// seed answers within it. Without one, a member that reaches no seed forms a view alone.
        #[range(above(Duration::ZERO))]
        pub require_seed: Option<Duration>,
        /// Configuration of the protocol. `group`, `seeds`, `needs_others` and `own_queue_bytes` follow
        /// from the other options. A member rejects nodes with another order, shape, or size of chunks,
        /// batches, messages or the group.
        pub config: Config,
        /// Bytes of own messages that may wait to be broadcast. Beyond that, senders wait. Keep it
        /// short: a message that waits here is late already.
        #[range(Options::QUEUE_BYTES)]
        pub queue_bytes: usize,
        /// Bytes of frames that may be on their way from the outbox into the socket, for each link.
        /// Further frames wait in the outbox, where heartbeats and news of failures overtake them.
        #[range(1..)]
        pub in_flight_bytes: usize,
        /// Maximum number of unsent bytes in the kernel, where the platform can bound them
        /// (`TCP_NOTSENT_LOWAT`), for the same reason.
        pub not_sent_bytes: u32,
        /// Bytes of deliveries that the application has not taken. Beyond that, the engine holds back
        /// `held_bytes` more, and then the group waits.
        #[range(1..)]
        pub waiting_bytes: usize,
        /// Maximum time for dialling, and again for the handshake.
        #[range(above(Duration::ZERO))]
        pub handshake_timeout: Duration,
        /// A link that receives nothing for this long is closed. Members send heartbeats.
        pub idle_timeout: Duration,
        /// Maximum number of handshakes with nodes that dialled. The member hangs up on further ones.
        #[range(1..)]
        pub max_pending: usize,
    }
}

impl Options {
    /// The possible sizes of the queue of own messages. A semaphore counts its room.
    pub const QUEUE_BYTES: RangeInclusive<usize> = 1..=1 << 30;

    /// Returns the options of a member of `group` that listens on `listen`, with the defaults of
    /// the protocol: the ring, FIFO for each sender.
    pub fn new(group: impl Into<String>, listen: SocketAddr) -> Self {
        Self {
            group: group.into(),
            listen,
            advertise: None,
            seeds: Vec::new(),
            site: None,
            authentication: Authentication::default(),
            require_seed: None,
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

    /// Sets the members to join. The member's own address among them is harmless.
    #[must_use]
    pub fn with_seeds(mut self, seeds: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Makes the member one of a site in a federation. Its group is that of all sites.
    #[must_use]
    pub fn with_site(mut self, site: Site) -> Self {
        self.site = Some(site);
        self
    }

    /// Lets members prove to each other that they have this secret, and encrypts frames.
    #[must_use]
    pub fn with_secret(mut self, secret: Secret) -> Self {
        self.authentication = Authentication::Secret(secret, Frames::default());
        self
    }

    /// Lets [`Group::join`](super::Group::join) fail if no seed answers within this time, instead
    /// of founding a group of one.
    #[must_use]
    pub fn require_seed(mut self, within: Duration) -> Self {
        self.require_seed = Some(within);
        self
    }

    pub(super) fn group_number(&self) -> u64 {
        let digest = Sha256::digest(self.group.as_bytes());
        digest.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the options that all members of a group share, in words. A member sends them when it
    /// connects, and rejects nodes with others.
    pub(super) fn terms(&self) -> String {
        let Config { order, shape, chunk_bytes, batch_bytes, message_bytes_max, members_max, .. } =
            &self.config;
        let order = match order {
            Order::Fifo => "fifo",
            Order::Total => "total",
        };
        let site = self.site.as_ref().map_or_else(String::new, |site| format!(", {}", site.terms()));
        format!(
            "{order} order, shape {shape}, chunks of {chunk_bytes} B, batches of {batch_bytes} B, \
             messages of up to {message_bytes_max} B, up to {members_max} members{site}"
        )
    }

    /// Returns the configuration of a member of a federation.
    ///
    /// # Errors
    /// There is no site, or it cannot be part of a federation.
    pub(super) fn federation_config(&self) -> Result<FederationConfig, OptionError> {
        let expected = "the site of the member: call `with_site`";
        let site = self.site.as_ref().ok_or_else(|| OptionError {
            field: "site".into(),
            found: "none".to_owned(),
            expected: expected.into(),
        })?;
        site.check()?;
        let fifo = self.config.order == Order::Fifo;
        check(fifo, "config.order", self.config.order, "Fifo: a federation orders by sender, not totally")?;
        let local = self.engine_config();
        // All links have the same limits.
        let bridge = Config {
            group: local.group,
            chunk_bytes: local.chunk_bytes,
            batch_bytes: local.batch_bytes,
            message_bytes_max: local.message_bytes_max,
            ..FederationConfig::bridge_default()
        };
        let contacts = |contacts: &[SocketAddr]| contacts.iter().map(|at| identity_of(*at)).collect();
        let others = site.others().map(|(other, at)| (other, contacts(at))).collect();
        Ok(FederationConfig { local, bridge, ..FederationConfig::new(site.number(), others) })
    }

    /// Returns the members that this one dials by its options: seeds, and contacts of other sites.
    pub(super) fn dialled(&self) -> impl Iterator<Item = SocketAddr> {
        let contacts = self.site.iter().flat_map(Site::others).flat_map(|(_, contacts)| contacts);
        self.seeds.iter().chain(contacts).copied()
    }

    pub(super) fn engine_config(&self) -> Config {
        let seeds = self.seeds.iter().map(|seed| identity_of(*seed)).collect();
        Config {
            group: self.group_number(),
            seeds,
            needs_others: self.require_seed.is_some(),
            own_queue_bytes: self.queue_bytes,
            ..self.config.clone()
        }
    }

    /// The longest frame of a link: a batch and a chunk, the fields between them, and views of the largest
    /// size.
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

    /// Checks that strangers cannot join, unless the owner has accepted that.
    fn check_authentication(&self, own: SocketAddr) -> Result<(), OptionError> {
        match &self.authentication {
            Authentication::Loopback => {
                let mut all = [self.listen, own].into_iter().chain(self.dialled());
                all.try_for_each(|address| {
                    let is_local = is_loopback(address.ip());
                    check(is_local, "authentication", format!("none for {address}"), AUTHENTICATION)
                })
            }
            Authentication::Certificates(Certificates { identity, members }) => {
                let known = "the addresses of members, each with the fingerprint of its certificate";
                let all = self.dialled().all(|seed| members.contains_key(&seed));
                check(all && !members.is_empty(), "authentication.members", members, known)?;
                let expected = members.get(&own).copied().unwrap_or(identity.fingerprint());
                let is_own = expected == identity.fingerprint();
                let found = format_args!("a certificate with the fingerprint {}", identity.fingerprint());
                let expected = format!("the fingerprint {expected}, which the members have for {own}");
                check(is_own, "authentication.identity", found, expected)
            }
            Authentication::Unauthenticated | Authentication::Secret(..) => Ok(()),
        }
    }

    pub fn check(&self) -> Result<(), OptionError> {
        self.check_ranges()?;
        let address = self.advertise.unwrap_or(self.listen);
        check(
            !address.ip().is_unspecified(),
            "advertise",
            address,
            "an address that others can dial: set `advertise`",
        )?;
        self.check_authentication(address)?;
        let seedless = self.require_seed.is_some() && self.seeds.iter().all(|seed| *seed == address);
        let expected =
            "the address of another member; only the first member of a group leaves `require_seed` unset";
        check(!seedless, "seeds", &self.seeds, expected)?;
        let longest = self.config.message_bytes_max;
        let early = self.config.early == samara_ring::Early::Direct;
        let fits = !early || longest <= Limits::default().unit_bytes;
        check(fits, "config.message_bytes_max", longest, "at most 4 MiB with early messages")?;
        let idle = self.idle_timeout;
        let beats = 2 * self.config.detection.heartbeat;
        check(idle > beats, "idle_timeout", idle, "more than two heartbeats")?;
        match self.site {
            None => Ring::new(self.engine_config(), identity_of(address)).map(drop),
            Some(_) => Federation::new(self.federation_config()?, identity_of(address)).map(drop),
        }
    }
}
