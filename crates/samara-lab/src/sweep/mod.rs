//! Sweeps: many points of a scenario, each run in a process of its own, of which only the metrics are kept.
//!
//! A point is one run of a scenario with one seed and one value of every axis. Its [`id`](point_id) is a hash of everything that its result
//! depends on, so that finished points are recognised, and those of a changed scenario are not. What a point leaves is a [`PointRecord`];
//! a [`SweepDirectory`] collects them, one file each, and a [`SweepSummary`] with the table [`points_table`] makes one data set of all.

mod columns;
mod directory;
mod point;
mod report;
mod summary;

pub use columns::points_table;
pub use directory::{Opened, SweepDirectory, SweepError};
pub(crate) use point::flatten;
pub use point::{Planned, PointRecord, SWEEP_POINTS_MAX, plan, point_id, relate_points};
pub use report::page;
pub(crate) use report::plain;
pub use summary::{Aggregate, FailedPoint, Spread, SweepSummary, metric_paths};

/// The version that points are identified with.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
