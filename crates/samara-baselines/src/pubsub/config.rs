//! Parameters of FloodSub and RandomSub.

use samara_engine::outbox::OutboxConfig;

use crate::common::{Common, ConfigError, check};

/// How a [`FloodSub`](crate::FloodSub) or [`RandomSub`](crate::RandomSub) node behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct PubSubConfig {
    /// What all engines have in common.
    pub common: Common,
    /// An RPC with more changes of subscriptions is not looked at.
    pub subscriptions_per_rpc_max: usize,
    /// Most topics of one peer that are remembered.
    pub topics_per_peer_max: usize,
    /// The longest name of a topic, in bytes.
    pub topic_bytes_max: usize,
}

impl Default for PubSubConfig {
    /// No implementation limits subscriptions by default; these are the limits of `samara-gossipsub`.
    fn default() -> Self {
        Self {
            common: Common::default(),
            subscriptions_per_rpc_max: 4096,
            topics_per_peer_max: 4096,
            topic_bytes_max: 1024,
        }
    }
}

impl PubSubConfig {
    /// The outbox that a node with this configuration needs.
    pub fn outbox_config(&self) -> OutboxConfig {
        self.common.outbox_config()
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.common.validate()?;
        for (field, found) in [
            ("subscriptions_per_rpc_max", self.subscriptions_per_rpc_max),
            ("topics_per_peer_max", self.topics_per_peer_max),
            ("topic_bytes_max", self.topic_bytes_max),
        ] {
            check(found >= 1, field, found, "at least 1")?;
        }
        Ok(())
    }
}
