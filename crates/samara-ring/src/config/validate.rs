//! Values that are not possible.

use std::fmt::Debug;

use thiserror::Error;

use super::{Config, Order, ShapeChoice};
use samara_engine::Shape;

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
        let ring = matches!(self.shape, ShapeChoice::Fixed(Shape::Ring));
        // That nothing smaller is still to come is known only because the ring keeps the order of all its messages.
        check(self.order == Order::Fifo || ring, "shape", self.shape, "the ring, for total order")?;
        let chunk = self.chunk_bytes;
        check((1..=1 << 20).contains(&chunk), "chunk_bytes", chunk, "1 to 1 MiB")?;
        let batch = self.batch_bytes;
        check((1..=1 << 20).contains(&batch), "batch_bytes", batch, "1 to 1 MiB")?;
        check((1..=1_024).contains(&self.members_max), "members_max", self.members_max, "1 to 1024")?;
        check(self.message_bytes_max > 0, "message_bytes_max", 0, "at least 1")?;
        let hop = self.hop_window_bytes;
        check(hop >= (batch + chunk) as u64, "hop_window_bytes", hop, "at least a batch and a chunk")?;
        let window = &self.window;
        let possible = (chunk as u64) <= window.min_bytes && window.min_bytes <= window.max_bytes;
        check(possible, "window", window, "chunk_bytes <= min_bytes <= max_bytes")?;
        check(self.own_queue_bytes > 0, "own_queue_bytes", 0, "at least 1")?;
        let detection = &self.detection;
        check(!detection.heartbeat.is_zero(), "detection.heartbeat", detection.heartbeat, "more than zero")?;
        let ordered =
            detection.heartbeat < detection.timeout_min && detection.timeout_min <= detection.timeout_max;
        check(ordered, "detection", detection, "heartbeat < timeout_min <= timeout_max")
    }
}
