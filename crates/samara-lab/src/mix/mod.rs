//! Teams that mix batches of payloads.

pub mod app;
pub(crate) mod check;
pub mod handover;
pub mod measure;
pub(crate) mod measured;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[relay]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "relay",
    metrics: metrics::RelayMetrics::METRICS,
    has_topology: false,
    has_custody: false,
    is_chosen: |scenario| scenario.relay.is_some(),
    check: |checks, scenario| checks.relay(scenario, &scenario.relay.clone().unwrap_or_default()),
    run: |point, options, watching| run::run(point, options, watching.progress, watching.rounds).map(boxed),
    run_together: None,
};
