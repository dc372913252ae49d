//! Values that are not possible.

use std::fmt::Debug;

use samara_engine::outbox::Lane;
use thiserror::Error;

use super::{Config, Hint, Jitter, Timeout};
use crate::wire::KeyList;

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Which one.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it can be.
    pub expected: &'static str,
}

fn check(
    holds: bool,
    field: &'static str,
    found: impl Debug,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { field, found: format!("{found:?}"), expected })
}

impl Config {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        check(!self.protocols.is_empty(), "protocols", &self.protocols, "at least one")?;
        match self.requests.timeout {
            Timeout::Fixed(time) => check(!time.is_zero(), "requests.timeout", time, "more than zero")?,
            Timeout::Adaptive { initial, slack, max } => check(
                !slack.is_zero() && slack <= initial && initial <= max,
                "requests.timeout",
                self.requests.timeout,
                "0 < slack <= initial <= max",
            )?,
        }
        check(self.requests.per_peer_max > 0, "requests.per_peer_max", 0, "at least 1")?;
        if let Jitter::Sleep { steps, .. } = self.jitter {
            check(steps > 0, "jitter.steps", steps, "at least 1")?;
        }
        if matches!(self.hint, Hint::From { .. }) {
            check(
                self.coalesce.is_zero(),
                "coalesce",
                self.coalesce,
                "zero: `From` has no frame of several keys",
            )?;
        }
        if let Some(bundles) = &self.bundles {
            let txs = bundles.txs_max;
            check((2..=1_024).contains(&txs), "bundles.txs_max", txs, "2 to 1024")?;
            check(!bundles.window.is_zero(), "bundles.window", bundles.window, "more than zero")?;
        }
        if let Some(blocks) = &self.compact_blocks {
            let kept = blocks.kept;
            check(kept > 0 && kept <= KeyList::MAX, "compact_blocks.kept", kept, "1 to 64")?;
        }
        check(self.limits.keys > 0, "limits.keys", self.limits.keys, "at least 1")?;
        self.validate_sending()
    }

    fn validate_sending(&self) -> Result<(), ConfigError> {
        let sending = &self.sending;
        let map = sending.map;
        let exists = |lane: &Lane| usize::from(lane.0) < sending.lanes.len();
        let used = [map.bodies, map.blocks, map.requests, map.announcements];
        check(used.iter().all(exists), "sending.map", map, "lanes that exist")?;
        let in_channels: Vec<Lane> =
            sending.channels.iter().flat_map(|channel| channel.lanes.iter().copied()).collect();
        let once = (0..sending.lanes.len())
            .all(|lane| in_channels.iter().filter(|found| usize::from(found.0) == lane).count() == 1);
        let complete = in_channels.iter().all(exists) && once;
        check(complete, "sending.channels", &sending.channels, "each lane in one channel")
    }
}
