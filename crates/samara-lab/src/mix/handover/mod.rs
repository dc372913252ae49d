//! Batches that one node hands to another.

pub mod app;
pub(crate) mod check;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[handover]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "handover",
    metrics: metrics::HandoverMetrics::METRICS,
    has_topology: false,
    has_custody: false,
    is_chosen: |scenario| scenario.handover.is_some(),
    check: |checks, scenario| checks.handover(scenario, &scenario.handover.clone().unwrap_or_default()),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    run_together: None,
};
