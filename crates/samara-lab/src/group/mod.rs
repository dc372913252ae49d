//! Members of a group that broadcast to each other.

pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
mod torture;

pub use metrics::{GatewayFigures, GroupBytes, GroupMetrics};
pub use outcome::{GroupData, MemberRow};
pub use run::{GroupMeasured, MemberOutcomes, Suspicion};

use crate::family::Family;
use crate::report::Results;
use crate::sweep::LACKS;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::group::FAMILY,
    metrics: metrics::GroupMetrics::METRICS,
    runs: run::runs,
    has_strict_bounds: false,
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    lacks: &LACKS,
    ..Family::BASE
};
