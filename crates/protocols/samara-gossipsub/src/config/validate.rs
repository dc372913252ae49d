//! Validation of configurations.

use samara_engine::config::{ConfigError, check};
use samara_engine::settings::Ranges;

use super::{Author, Config, MeshParams};
use crate::score::{ParameterError, TopicScoreParams};

fn scored(prefix: &str, result: Result<(), ParameterError>) -> Result<(), ConfigError> {
    result.map_err(|error| ConfigError {
        field: format!("{prefix}.{}", error.field).into(),
        found: error.value.to_string(),
        expected: error.rule.into(),
    })
}

impl TopicScoreParams {
    pub(crate) fn check(&self, prefix: &str) -> Result<(), ConfigError> {
        scored(prefix, self.validate())
    }
}

impl MeshParams {
    fn check(&self, prefix: &str) -> Result<(), ConfigError> {
        let Self { d, d_low, d_high, d_score, d_out, .. } = *self;
        check(d_low <= d, format!("{prefix}.d_low"), d_low, format!("at most d = {d}"))?;
        check(d_high >= d, format!("{prefix}.d_high"), d_high, format!("at least d = {d}"))?;
        check(d_score <= d, format!("{prefix}.d_score"), d_score, format!("at most d = {d}"))?;
        // Specification v1.1: "D_out < D_low and D_out < D / 2". A quota of 0 turns it off.
        let holds = d_out == 0 || (d_out < d_low && d_out < d.div_ceil(2));
        let expected = format!("0, or less than d_low = {d_low} and less than half of d = {d}");
        check(holds, format!("{prefix}.d_out"), d_out, expected)
    }
}

impl Config {
    /// Checks every value, and the relations between values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        self.mesh.check("mesh")?;
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
        let backoff = self.prune_backoff;
        let expected = format!("at least prune_backoff = {backoff:?}");
        check(self.remote_backoff_max >= backoff, "remote_backoff_max", self.remote_backoff_max, expected)?;
        let authenticity = &self.authenticity;
        let holds = authenticity.author != Author::Random || !authenticity.policy.signs();
        let expected = "a policy without signatures beside a random author";
        check(holds, "authenticity.policy", authenticity.policy, expected)?;
        self.check_scores_and_topics()
    }

    fn check_scores_and_topics(&self) -> Result<(), ConfigError> {
        if let Some(params) = &self.peer_score {
            scored("peer_score", params.validate())?;
        }
        scored("thresholds", self.thresholds.validate())?;
        if let Some(params) = &self.topic_score {
            params.check("topic_score")?;
        }
        for (name, topic) in &self.topics {
            let prefix = format!("topics.{name:?}");
            if let Some(mesh) = &topic.mesh {
                let prefix = format!("{prefix}.mesh");
                mesh.check_ranges().map_err(|error| error.below(&prefix))?;
                mesh.check(&prefix)?;
            }
            if let Some(score) = &topic.score {
                score.check(&format!("{prefix}.score"))?;
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
