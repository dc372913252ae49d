//! Teams that mix batches of payloads.

pub mod app;
mod bound;
mod calibrate;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind, boxed};
use crate::report::Results;

/// The family of experiments that the section `[mix]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "mix",
    content: PartType::of::<spec::Mix>(),
    protocols: &[ProtocolKind::of::<samara_mix::Parameters>("cmix")],
    metrics: metrics::MixMetrics::METRICS,
    unused: &[
        NO_CHANNELS,
        NO_UNSENT,
        ("network.topology", "nodes of a pool have links to all others"),
        ("network.validation_time", "`mix.cpu` says how long work takes"),
        ("transport.links", "nodes of a pool dial each other"),
    ],
    // The scheduler.
    extra_hosts: |_| 1,
    check: |checks, scenario| checks.mix(scenario),
    run: |point, options, watching| run::run(point, options, watching.progress, watching.rounds).map(boxed),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    ..Family::BASE
};
