//! A stream of messages, each published by a node drawn at random.

pub mod app;
pub mod baselines;
pub mod file;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[messages]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "messages",
    metrics: metrics::MessageMetrics::METRICS,
    has_topology: true,
    has_custody: false,
    is_chosen: |scenario| scenario.messages.is_some(),
    check: |checks, scenario| {
        let messages = scenario.messages.clone().unwrap_or_default();
        checks.messages(scenario, &messages);
        checks.topology(scenario);
        checks.no_group(scenario);
        checks.protocol(scenario);
        checks.no_transactions(scenario);
    },
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    run_together: None,
};
