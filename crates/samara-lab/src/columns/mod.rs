//! Blocks of columns: one node publishes them, and every node keeps some of them.

pub mod app;
pub(crate) mod codec;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[workload]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "workload",
    metrics: metrics::ColumnMetrics::METRICS,
    has_topology: true,
    has_custody: true,
    is_chosen: |scenario| {
        scenario.messages.is_none()
            && scenario.transactions.is_none()
            && scenario.group.is_none()
            && scenario.handover.is_none()
            && scenario.relay.is_none()
    },
    check: |checks, scenario| {
        checks.workload(scenario);
        checks.topology(scenario);
        checks.no_group(scenario);
        checks.protocol(scenario);
        checks.no_transactions(scenario);
    },
    run: |point, options, watching| match run::run(point, options, None, watching.progress)? {
        Some(measured) => Ok(boxed(measured)),
        None => unreachable!("a process that is alone is the first"),
    },
    run_together: Some(|point, options, ranks, progress| {
        Ok(run::run(point, options, Some(ranks), progress)?.map(boxed))
    }),
};
