//! Everything about a federated member that can be chosen.

use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::outbox::OutboxConfig;

use crate::{Config, ConfigError, Detection, Early, Membership, Order, Window};

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
            lane.capacity_bytes = lane.capacity_bytes.max(other.capacity_bytes);
        }
        bridge
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let error = |field, found: String, expected| Err(ConfigError { field, found, expected });
        if self.local.early != Early::Hold {
            return error(
                "local.early",
                format!("{:?}", self.local.early),
                "Hold: all messages are numbered",
            );
        }
        if self.bridge.order != Order::Fifo {
            return error("bridge.order", format!("{:?}", self.bridge.order), "Fifo");
        }
        if self.sites.iter().any(|(site, _)| *site == self.site) {
            return error("sites", self.site.to_string(), "the other sites");
        }
        if self.progress_interval.is_zero() {
            return error("progress_interval", "0".into(), "more than zero");
        }
        if self.window_bytes == 0 || self.senders_max == 0 {
            return error("window_bytes, senders_max", "0".into(), "at least 1");
        }
        Ok(())
    }
}
