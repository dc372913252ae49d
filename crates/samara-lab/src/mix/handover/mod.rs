//! Batches that one node hands to another.

pub mod app;
pub(crate) mod check;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, NO_CHANNELS, NO_UNSENT, NoParameters, PartType, ProtocolKind, boxed};
use crate::report::Results;

/// The family of experiments that the section `[handover]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "handover",
    content: PartType::of::<spec::Handover>(),
    protocols: &[ProtocolKind::of::<NoParameters>("cmix")],
    metrics: metrics::HandoverMetrics::METRICS,
    unused: &[
        NO_CHANNELS,
        NO_UNSENT,
        ("network.topology", "two nodes have one link"),
        ("network.validation_time", "`handover.compute` says how long work takes"),
        ("transport.links", "the link is there from the start"),
        ("fault", "nothing fails"),
    ],
    check: |checks, scenario| checks.handover(scenario),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    ..Family::BASE
};
