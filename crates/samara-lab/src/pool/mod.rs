//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.

pub mod app;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
pub mod spec;

use crate::family::{Family, NO_TOPICS, NO_UNSENT, PartType, ProtocolKind, boxed};
use crate::report::Results;

/// The family of experiments that the section `[pool]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "pool",
    content: PartType::of::<spec::Transactions>(),
    protocols: &[ProtocolKind::of::<samara_cat::config::Parameters>("cat")],
    metrics: metrics::TransactionMetrics::METRICS,
    unused: &[NO_UNSENT, NO_TOPICS],
    transport: spec::with_channels,
    check: |checks, scenario| checks.pool(scenario),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    ..Family::BASE
};
