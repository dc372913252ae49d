//! The configuration, the events and the counters of a federated member.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::PeerIdentity;
use samara_engine::config::check;
use samara_engine::outbox::{OutboxConfig, Tally};

use crate::{
    BroadcastError, Config, ConfigError, Detection, Early, Member, Membership, Order, SuspectCause, View,
    Window,
};

/// The configuration of a member of a site. All members of a federation need the same sizes, and
/// all members of a site the same site number and contacts.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationConfig {
    pub site: u16,
    /// The other sites, each with contacts: nodes that a leader dials and asks for the site's
    /// leader. If all contacts of a site are down, that site can still dial this one.
    pub sites: Vec<(u16, Vec<PeerIdentity>)>,
    /// The ring of the site. Its shape suits the site.
    pub local: Config,
    /// The ring of the leaders. Its shape suits the traffic between sites, and its group identifies
    /// the federation.
    pub bridge: Config,
    /// Maximum bytes of messages of this site's members that are not yet known to be at all sites.
    /// Each member has an equal share.
    pub window_bytes: u64,
    /// Maximum bytes that a member keeps of messages that are not yet known to be at all sites.
    pub memory_bytes: u64,
    /// Maximum number of senders whose messages a member keeps, besides the members of its site.
    /// Each site has an equal share.
    pub senders_max: usize,
    /// Time after the loss of a site's leader for which the others keep messages for the site, and
    /// for which senders wait if necessary. Then the others continue without it.
    pub absent_after: Duration,
    /// Interval at which leaders report the messages that have arrived.
    pub progress_interval: Duration,
}

impl FederationConfig {
    /// Returns the defaults for a node of `site`, with these other sites.
    pub fn new(site: u16, sites: Vec<(u16, Vec<PeerIdentity>)>) -> Self {
        Self {
            site,
            sites,
            local: Config::default(),
            bridge: Self::bridge_default(),
            // 100 Mbit/s times 1.3 s: acknowledgements of a site take two round trips and the
            // intervals of both leaders.
            window_bytes: 16 << 20,
            memory_bytes: 256 << 20,
            senders_max: 4_096,
            absent_after: Duration::from_secs(30),
            progress_interval: Duration::from_millis(50),
        }
    }

    /// Returns the configuration of a ring for slow and long links: larger windows and longer
    /// timeouts.
    pub fn bridge_default() -> Config {
        let local = Config::default();
        Config {
            // A change of leaders sends the contents of this queue twice.
            own_queue_bytes: 64 << 10,
            hop_window_bytes: 4 << 20,
            window: Window {
                max_bytes: 16 << 20,
                slack: Duration::from_millis(250),
                slack_per_member: Duration::from_millis(50),
                ..local.window
            },
            detection: Detection {
                heartbeat: Duration::from_millis(200),
                timeout_min: Duration::from_secs(1),
                timeout_max: Duration::from_secs(8),
                link_grace: Duration::from_millis(500),
                verify: Duration::from_millis(600),
                ..local.detection
            },
            membership: Membership {
                flush_timeout: Duration::from_secs(2),
                repair_timeout: Duration::from_secs(20),
                ..local.membership
            },
            ..local
        }
    }

    pub fn outbox(&self) -> OutboxConfig {
        let (local, mut bridge) = (self.local.outbox(), self.bridge.outbox());
        // Both rings use the same lanes, each for different peers.
        for (lane, other) in bridge.lanes.iter_mut().zip(&local.lanes) {
            lane.capacity.bytes = lane.capacity.bytes.max(other.capacity.bytes);
        }
        bridge
    }

    /// Maximum number of senders of one site that a member keeps: each configured site, former
    /// members of the own one, and all other sites together have a share.
    pub(super) fn share_of_senders(&self) -> usize {
        (self.senders_max / (self.sites.len() + 2)).max(1)
    }

    /// Maximum number of senders in a statement of a correct leader.
    pub(super) fn entries_max(&self) -> usize {
        self.senders_max.max(self.sites.len() + 2) + self.local.members_max
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let early = self.local.early;
        check(early == Early::Hold, "local.early", early, "Hold: all messages are numbered")?;
        check(self.bridge.order == Order::Fifo, "bridge.order", self.bridge.order, "Fifo")?;
        let others_only = self.sites.iter().all(|(site, _)| *site != self.site);
        check(others_only, "sites", self.site, "only other sites")?;
        check(!self.progress_interval.is_zero(), "progress_interval", 0, "more than zero")?;
        let is_some = self.window_bytes > 0 && self.senders_max > 0;
        check(is_some, "window_bytes, senders_max", 0, "at least 1")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FederationEvent {
    /// A message of the federation. `number` counts the messages of its origin: 1, 2, 3... Own
    /// messages are included.
    Delivered { site: u16, origin: Member, number: u64, content: Bytes },
    /// The site has a new view. Its first member leads the site.
    View(Arc<View>),
    /// At a leader: the leaders that are connected now, as members of the bridge.
    Leaders(Arc<View>),
    /// A member of the site, or the leader of another site, is suspected to have failed.
    Suspected { member: Member, cause: SuspectCause },
    /// A member of the site, or the leader of another site, takes nothing while others do.
    Slow { member: Member },
    /// At a leader: a site was absent for too long. Messages are no longer kept for it.
    Absent { site: u16 },
    /// A message was rejected.
    Refused(BroadcastError),
    /// There is room for messages again, after a rejection.
    Room,
    /// This node has left: all members of all sites that are not absent have its messages.
    Left,
}

samara_engine::names! {
    /// Reasons to ignore part of a ring's message.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "snake_case"))]
    pub enum Unused {
        /// A message that already arrived: a leader sent it again after another leader or a link
        /// failed.
        Duplicate = "duplicate",
        /// A message ahead of missing ones. It will be sent again.
        Gap = "gap",
        /// A message from a member that does not lead the site, or did not when it sent the
        /// message.
        NotLeader = "not_leader",
        /// An unreadable message, or an answer to an older request.
        Malformed = "malformed",
        /// A message of one more sender than the limit.
        TooManySenders = "too_many_senders",
        /// A frame of a leader to a node that does not lead, or a frame of another federation.
        NoBridge = "no_bridge",
    }
}

samara_engine::counters! {
    /// Counters of one federated node since its start. Each of its rings has counters of its own.
    #[derive(Eq)]
    pub struct FederationMetrics {
        /// Own messages that the federation accepted.
        pub broadcast: u64,
        /// Own messages that the federation refused.
        pub refused: u64,
        /// Delivered messages, own ones included.
        pub delivered: u64,
        /// Bytes of delivered messages.
        pub delivered_bytes: u64,
        /// Messages that this node, as a leader, passed to the bridge.
        pub bridged: Tally,
        /// Messages that this node, as a leader, passed to the ring of its site.
        pub relayed: Tally,
        /// Messages whose predecessors are lost for good because the site was absent for too long,
        /// or split.
        pub skipped: u64,
        /// Messages dropped before all sites had them, because of the memory limit.
        pub overflowed: u64,
        /// Number of times this node became leader.
        pub leaderships: u64,
        /// Number of rounds in which leaders exchanged their states.
        pub rounds: u64,
        /// Messages and frames without effect.
        pub unused[cause: Unused]: u64,
    }
}

impl FederationMetrics {
    pub(super) fn ignore(&mut self, cause: Unused) {
        self.unused[cause] += 1;
    }
}
