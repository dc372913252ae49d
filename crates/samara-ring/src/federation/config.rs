//! What can be chosen of a federated member, its events, and its counters.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::PeerIdentity;
use samara_engine::outbox::OutboxConfig;

use crate::config::check;
use crate::engine::causes;
use crate::{
    BroadcastError, Config, ConfigError, Detection, Early, Member, Membership, Order, SuspectCause, View,
    Window,
};

/// How a member of a site behaves. All members of a federation need the same sizes, and all of a site the same site and contacts.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationConfig {
    /// The number of this node's site.
    pub site: u16,
    /// The other sites, and nodes there that a leader dials: they tell it who leads. A site of which all that are named here are down
    /// can still dial itself.
    pub sites: Vec<(u16, Vec<PeerIdentity>)>,
    /// The ring of the site. Its shape is the site's.
    pub local: Config,
    /// The ring of the leaders. Its shape is that of the traffic between sites; its group names the federation.
    pub bridge: Config,
    /// The most bytes of a site's members that not all sites are known to have: each member may have its share of them.
    pub window_bytes: u64,
    /// The most bytes that a member keeps of messages that not all sites are known to have.
    pub memory_bytes: u64,
    /// The most senders that are remembered.
    pub senders_max: usize,
    /// So long after its leader is gone, messages are kept for a site, and senders wait for it if need be. Then the others go on
    /// without it.
    pub absent_after: Duration,
    /// How often leaders say what has arrived.
    pub progress_interval: Duration,
}

impl FederationConfig {
    /// The defaults for a node of a site, with these other sites.
    pub fn new(site: u16, sites: Vec<(u16, Vec<PeerIdentity>)>) -> Self {
        Self {
            site,
            sites,
            local: Config::default(),
            bridge: Self::bridge_default(),
            // 100 Mbit/s times 1.3 s: acknowledgements of a site take two round trips and the intervals of both leaders.
            window_bytes: 16 << 20,
            memory_bytes: 256 << 20,
            senders_max: 4_096,
            absent_after: Duration::from_secs(30),
            progress_interval: Duration::from_millis(50),
        }
    }

    /// A ring for slow and long links: larger windows, more patience.
    pub fn bridge_default() -> Config {
        let local = Config::default();
        Config {
            // What waits here when leaders change is sent twice.
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

    /// The outbox that a node with this configuration needs.
    pub fn outbox(&self) -> OutboxConfig {
        let (local, mut bridge) = (self.local.outbox(), self.bridge.outbox());
        // Both rings use the same lanes, each for other peers.
        for (lane, other) in bridge.lanes.iter_mut().zip(&local.lanes) {
            lane.capacity.bytes = lane.capacity.bytes.max(other.capacity.bytes);
        }
        bridge
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let early = self.local.early;
        check(early == Early::Hold, "local.early", early, "Hold: all messages are numbered")?;
        check(self.bridge.order == Order::Fifo, "bridge.order", self.bridge.order, "Fifo")?;
        let others_only = self.sites.iter().all(|(site, _)| *site != self.site);
        check(others_only, "sites", self.site, "the other sites")?;
        check(!self.progress_interval.is_zero(), "progress_interval", 0, "more than zero")?;
        let is_some = self.window_bytes > 0 && self.senders_max > 0;
        check(is_some, "window_bytes, senders_max", 0, "at least 1")
    }
}

/// What a federated member tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FederationEvent {
    /// A message of the federation; own ones too.
    Delivered {
        /// The site of its sender.
        site: u16,
        /// Who broadcast it.
        origin: Member,
        /// Its number among those of the sender: 1, 2, 3...
        number: u64,
        content: Bytes,
    },
    /// The site has a new view. Its first member leads the site.
    View(Arc<View>),
    /// At a leader: the leaders that are connected now, as members of the bridge.
    Leaders(Arc<View>),
    /// A member of the site, or a leader of another one, is taken for failed.
    Suspected {
        member: Member,
        /// Why.
        cause: SuspectCause,
    },
    /// A member of the site, or a leader of another one, takes nothing while others do.
    Slow { member: Member },
    /// At a leader: a site was away for too long. Messages are not kept for it any more.
    Absent { site: u16 },
    /// A message was not taken.
    Refused(BroadcastError),
    /// There is room again for messages, after one was refused.
    Room,
    /// This node has left: all that it broadcast is at all members of all sites that are not absent.
    Left,
}

causes! {
    /// Why something in the messages of a ring was ignored.
    pub enum Unused {
        /// A message that was here: sent again after a leader or a link failed.
        Duplicate = "duplicate",
        /// A message behind others that are still to come: it will be sent again.
        Gap = "gap",
        /// From a member that does not lead the site, or did not when it was sent.
        NotLeader = "not_leader",
        /// What cannot be read, or an answer to an older question.
        Malformed = "malformed",
        /// From one sender more than are remembered.
        TooManySenders = "too_many_senders",
        /// A frame of a leader to a node that leads no more, or of another federation.
        NoBridge = "no_bridge",
    }
}

/// Counters of one federated node, all since its start. Each of its rings counts for itself besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationMetrics {
    /// Messages that were taken to be broadcast.
    pub broadcast: u64,
    /// Messages that were not.
    pub refused: u64,
    /// Messages that were delivered, own ones included.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Messages that this node, as a leader, handed to the bridge, and their bytes.
    pub bridged: (u64, u64),
    /// Messages that this node, as a leader, handed to the ring of its site, and their bytes.
    pub relayed: (u64, u64),
    /// Messages before which others were missing for good: the site was absent for too long, or split.
    pub skipped: u64,
    /// Messages that were let go of before all sites had them: there were too many.
    pub overflowed: u64,
    /// How often this node began to lead.
    pub leaderships: u64,
    /// How often leaders told each other anew what they have.
    pub rounds: u64,
    unused: [u64; Unused::ALL.len()],
}

impl FederationMetrics {
    /// How often something was ignored for this cause.
    pub fn unused(&self, cause: Unused) -> u64 {
        self.unused[cause as usize]
    }

    pub(super) fn ignore(&mut self, cause: Unused) {
        self.unused[cause as usize] += 1;
    }
}
