//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.

pub mod app;
pub(crate) mod cat;
pub(crate) mod check;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, boxed};

/// The family of experiments that the section `[transactions]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "transactions",
    metrics: metrics::TransactionMetrics::METRICS,
    has_topology: true,
    has_custody: false,
    is_chosen: |scenario| scenario.transactions.is_some(),
    check: |checks, scenario| {
        let transactions = scenario.transactions.clone().unwrap_or_default();
        checks.transactions(scenario, &transactions);
        checks.topology(scenario);
        checks.no_group(scenario);
    },
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    run_together: None,
};
