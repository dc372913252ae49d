//! Validation of configurations.

use samara_engine::config::{ConfigError, check};

use super::{Config, LaneCapacity, MeshParams, Spread};
use crate::score::ParameterError;

fn scored(prefix: &str, result: Result<(), ParameterError>) -> Result<(), ConfigError> {
    result.map_err(|error| ConfigError {
        field: format!("{prefix}.{}", error.field).into(),
        found: error.value.to_string(),
        expected: error.rule.into(),
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
    /// Checks every value, and the relations between values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.mesh.check("mesh")?;
        let (gossip, idontwant) = (&self.gossip, &self.idontwant);
        for (field, found) in [
            ("heartbeat_interval", self.heartbeat_interval),
            ("seen_ttl", self.seen_ttl),
            ("gossip.iwant_follow_up", gossip.iwant_follow_up),
        ] {
            check(!found.is_zero(), field, found, "more than 0")?;
        }
        for (field, found) in [
            ("history_length", self.history_length as u64),
            ("seen_capacity", self.seen_capacity as u64),
            ("opportunistic_graft_ticks", self.opportunistic_graft_ticks),
            ("direct_connect_ticks", self.direct_connect_ticks),
            ("max_message_bytes", self.max_message_bytes as u64),
            ("pending_validations_max", self.pending_validations_max as u64),
            ("pending_validation_bytes_max", self.pending_validation_bytes_max as u64),
            ("gossip.ihave_ids_max", gossip.ihave_ids_max as u64),
            ("idontwant.ids_per_rpc_max", idontwant.ids_per_rpc_max as u64),
            ("idontwant.ttl_heartbeats", idontwant.ttl_heartbeats),
        ] {
            check(found >= 1, field, found, "at least 1")?;
        }
        let expected = format!("at most history_length = {}", self.history_length);
        let holds = self.history_gossip <= self.history_length;
        check(holds, "history_gossip", self.history_gossip, expected)?;
        let expected = format!("more than max_message_bytes = {}", self.max_message_bytes);
        check(self.max_rpc_bytes > self.max_message_bytes, "max_rpc_bytes", self.max_rpc_bytes, expected)?;
        let expected = format!("at least max_rpc_bytes = {}", self.max_rpc_bytes);
        let holds = self.history_bytes_max >= self.max_rpc_bytes;
        check(holds, "history_bytes_max", self.history_bytes_max, expected)?;
        let expected = format!("64 to max_rpc_bytes = {}", self.max_rpc_bytes);
        let fits = (64..=self.max_rpc_bytes).contains(&self.max_control_bytes);
        check(fits, "max_control_bytes", self.max_control_bytes, expected)?;
        if let Some(pull) = self.spread.as_ref().and_then(Spread::pull) {
            // A request without a time would be repeated at once, for ever.
            check(!pull.retry.is_zero(), "spread.pull.retry", pull.retry, "more than 0")?;
            let copies = pull.hedge_copies;
            check(copies >= 1, "spread.pull.hedge_copies", copies, "at least 1")?;
        }
        let backoff = self.prune_backoff;
        check(
            backoff.as_secs() >= 1,
            "prune_backoff",
            backoff,
            "at least 1 s (the wire carries whole seconds)",
        )?;
        let expected = format!("at least prune_backoff = {backoff:?}");
        check(self.remote_backoff_max >= backoff, "remote_backoff_max", self.remote_backoff_max, expected)?;
        let sending = &self.sending;
        for (name, LaneCapacity { copies, bytes, .. }) in [
            ("control", sending.control),
            ("publish", sending.publish),
            ("forward", sending.forward),
            ("answer", sending.answer),
        ] {
            check(copies >= 1, format!("sending.{name}.copies"), copies, "at least 1")?;
            check(bytes >= 1, format!("sending.{name}.bytes"), bytes, "at least 1")?;
        }
        self.check_scores_and_topics()
    }

    fn check_scores_and_topics(&self) -> Result<(), ConfigError> {
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
}
