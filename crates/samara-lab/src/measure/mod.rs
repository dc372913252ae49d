//! From what nodes tell their applications to the figures that a run is judged by.
//!
//! | file | concern |
//! |---|---|
//! | `collector` | takes deliveries and duplicates as they happen |
//! | `statistics` | mean and quantiles |
//! | `metrics` | the figures of a run, under the names of its machine-readable result |

mod collector;
mod metrics;
mod statistics;

pub use collector::{Collector, Delivery};
pub use metrics::{Bytes, Drops, Metrics, NodeTraffic, SlotMetrics, Totals, Utilisation};
pub use statistics::{Interval, Statistics, confidence_interval, quantile};
