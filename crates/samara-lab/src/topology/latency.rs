//! Latencies as data.

use std::time::Duration;

use crate::scenario::Latency;
use crate::units::Span;

/// Latencies below this are raised to it, so that the simulator always has a window in which hosts are independent.
pub const LATENCY_FLOOR: Duration = Duration::from_micros(50);

/// One-way latency between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LatencyModel {
    /// The same between all.
    Constant(Duration),
    /// Drawn once for each pair, uniformly.
    Uniform {
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// By the regions of both ends: row and column.
    Regions(Vec<Vec<Duration>>),
}

impl LatencyModel {
    /// A model without regions; `None` for one with regions, which needs their table.
    pub(super) fn plain(latency: &Latency) -> Option<Self> {
        match latency {
            Latency::Constant { value } => Some(Self::Constant(value.duration())),
            Latency::Uniform { min, max } => Some(Self::Uniform { min: min.duration(), max: max.duration() }),
            Latency::Regions(_) => None,
        }
    }

    /// The least that is written.
    fn least(&self) -> Duration {
        match self {
            Self::Constant(latency) => *latency,
            Self::Uniform { min, .. } => *min,
            Self::Regions(matrix) => matrix.iter().flatten().min().copied().unwrap_or_default(),
        }
    }

    /// The least latency of any pair, with the floor: how far the simulator can look ahead.
    pub fn min(&self) -> Duration {
        self.least().max(LATENCY_FLOOR)
    }

    /// Whether some latency is raised to the floor.
    pub fn is_raised(&self) -> bool {
        self.least() < LATENCY_FLOOR
    }
}

/// A table of milliseconds.
pub(super) fn spans(matrix: &[Vec<Span>]) -> LatencyModel {
    LatencyModel::Regions(matrix.iter().map(|row| row.iter().map(|span| span.duration()).collect()).collect())
}
