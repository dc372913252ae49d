//! Members of a group that broadcast to each other.

pub mod app;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
pub(crate) mod spec;

use crate::family::{Family, NO_CHANNELS, PartType, ProtocolKind, boxed};
use crate::report::Results;

/// The family of experiments that the section `[group]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "group",
    content: PartType::of::<spec::Group>(),
    protocols: &[ProtocolKind::of::<samara_ring::Parameters>("ring")],
    metrics: metrics::GroupMetrics::METRICS,
    unused: &[
        NO_CHANNELS,
        ("network.topology", "members of a group have links to all others"),
        ("network.validation_time", "members of a group validate nothing"),
        ("transport.links", "members of a group dial each other"),
    ],
    transport: spec::framed,
    can_leave: true,
    check: |checks, scenario| checks.group(scenario),
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    ..Family::BASE
};
