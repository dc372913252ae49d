//! Members of a group that broadcast to each other.

pub mod app;
pub(crate) mod check;
pub(crate) mod gateways;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[group]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "group",
    metrics: metrics::GroupMetrics::METRICS,
    has_topology: false,
    has_custody: false,
    is_chosen: |scenario| scenario.group.is_some(),
    check: |checks, scenario| checks.group(scenario, &scenario.group.clone().unwrap_or_default()),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    run_together: None,
};
