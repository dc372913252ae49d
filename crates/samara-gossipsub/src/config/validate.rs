//! Which values are possible.

use std::fmt::{Debug, Display};

use thiserror::Error;

use super::{Config, LaneCapacity, MeshParams};
use crate::score::ParameterError;

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Which one.
    pub field: String,
    /// What it is.
    pub found: String,
    /// What it can be.
    pub expected: String,
}

fn check(
    holds: bool,
    field: impl Into<String>,
    found: impl Debug,
    expected: impl Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { field: field.into(), found: format!("{found:?}"), expected: expected.to_string() })
}

fn scored(prefix: &str, result: Result<(), ParameterError>) -> Result<(), ConfigError> {
    result.map_err(|error| ConfigError {
        field: format!("{prefix}.{}", error.field),
        found: error.value.to_string(),
        expected: format!("a value for which holds: {}", error.rule),
    })
}

impl MeshParams {
    fn check(&self, prefix: &str) -> Result<(), ConfigError> {
        let Self { d, d_low, d_high, d_score, d_out, gossip_factor, .. } = *self;
        check(d >= 1, format!("{prefix}.d"), d, "at least 1")?;
        check(d_low <= d, format!("{prefix}.d_low"), d_low, format!("at most d = {d}"))?;
        check(d_high >= d, format!("{prefix}.d_high"), d_high, format!("at least d = {d}"))?;
        check(d_score <= d, format!("{prefix}.d_score"), d_score, format!("at most d = {d}"))?;
        // Specification v1.1: "D_out < D_low and D_out < D / 2". A quota of 0 turns it off.
        let holds = d_out == 0 || (d_out < d_low && d_out < d.div_ceil(2));
        let expected = format!("0, or less than d_low = {d_low} and less than half of d = {d}");
        check(holds, format!("{prefix}.d_out"), d_out, expected)?;
        let holds = (0.0..=1.0).contains(&gossip_factor);
        check(holds, format!("{prefix}.gossip_factor"), gossip_factor, "0 to 1")
    }
}

impl Config {
    /// Checks that the values are possible, alone and together.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.mesh.check("mesh")?;
        let at_least_1 = "at least 1";
        let positive = "more than 0";
        check(!self.heartbeat_interval.is_zero(), "heartbeat_interval", self.heartbeat_interval, positive)?;
        check(self.history_length >= 1, "history_length", self.history_length, at_least_1)?;
        let expected = format!("at most history_length = {}", self.history_length);
        let holds = self.history_gossip <= self.history_length;
        check(holds, "history_gossip", self.history_gossip, expected)?;
        check(!self.seen_ttl.is_zero(), "seen_ttl", self.seen_ttl, positive)?;
        check(self.seen_capacity >= 1, "seen_capacity", self.seen_capacity, at_least_1)?;
        let ticks = self.opportunistic_graft_ticks;
        check(ticks >= 1, "opportunistic_graft_ticks", ticks, at_least_1)?;
        check(self.direct_connect_ticks >= 1, "direct_connect_ticks", self.direct_connect_ticks, at_least_1)?;
        check(self.max_message_bytes >= 1, "max_message_bytes", self.max_message_bytes, at_least_1)?;
        let expected = format!("more than max_message_bytes = {}", self.max_message_bytes);
        check(self.max_rpc_bytes > self.max_message_bytes, "max_rpc_bytes", self.max_rpc_bytes, expected)?;
        let expected = format!("64 to max_rpc_bytes = {}", self.max_rpc_bytes);
        let fits = (64..=self.max_rpc_bytes).contains(&self.max_control_bytes);
        check(fits, "max_control_bytes", self.max_control_bytes, expected)?;
        let backoff = self.prune_backoff;
        check(backoff.as_secs() >= 1, "prune_backoff", backoff, "at least 1 s (whole seconds travel)")?;
        let expected = format!("at least prune_backoff = {backoff:?}");
        check(self.remote_backoff_max >= backoff, "remote_backoff_max", self.remote_backoff_max, expected)?;
        self.check_limits()?;
        self.check_sending()?;
        if let Some(params) = &self.peer_score {
            scored("peer_score", params.validate())?;
        }
        scored("thresholds", self.thresholds.validate())?;
        if let Some(params) = &self.topic_score {
            scored("topic_score", params.validate())?;
        }
        for (name, topic) in &self.topics {
            let prefix = format!("topics.{name:?}");
            if let Some(mesh) = &topic.mesh {
                mesh.check(&format!("{prefix}.mesh"))?;
            }
            if let Some(score) = &topic.score {
                scored(&format!("{prefix}.score"), score.validate())?;
            }
            if let Some(bytes) = topic.max_message_bytes {
                let expected = format!("1 to less than max_rpc_bytes = {}", self.max_rpc_bytes);
                let holds = bytes >= 1 && bytes < self.max_rpc_bytes;
                check(holds, format!("{prefix}.max_message_bytes"), bytes, expected)?;
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let at_least_1 = "at least 1";
        let gossip = &self.gossip;
        check(gossip.ihave_ids_max >= 1, "gossip.ihave_ids_max", gossip.ihave_ids_max, at_least_1)?;
        let follow_up = gossip.iwant_follow_up;
        check(!follow_up.is_zero(), "gossip.iwant_follow_up", follow_up, "more than 0")?;
        let idontwant = &self.idontwant;
        let ids = idontwant.ids_per_rpc_max;
        check(ids >= 1, "idontwant.ids_per_rpc_max", ids, at_least_1)?;
        let ttl = idontwant.ttl_heartbeats;
        check(ttl >= 1, "idontwant.ttl_heartbeats", ttl, at_least_1)?;
        let pending = self.pending_validations_max;
        check(pending >= 1, "pending_validations_max", pending, at_least_1)
    }

    fn check_sending(&self) -> Result<(), ConfigError> {
        let sending = &self.sending;
        let lanes = [
            ("control", sending.control),
            ("publish", sending.publish),
            ("forward", sending.forward),
            ("answer", sending.answer),
        ];
        for (name, LaneCapacity { copies, bytes, .. }) in lanes {
            check(copies >= 1, format!("sending.{name}.copies"), copies, "at least 1")?;
            check(bytes >= 1, format!("sending.{name}.bytes"), bytes, "at least 1")?;
        }
        Ok(())
    }
}
