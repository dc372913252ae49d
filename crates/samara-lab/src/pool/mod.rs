//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.

pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
mod torture;

use crate::family::{Family, boxed};
use crate::report::Results;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::pool::FAMILY,
    metrics: metrics::TransactionMetrics::METRICS,
    run: |point, options, watching| run::run(point, options, watching.progress).map(boxed),
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    beside_first: &["bytes_saved_factor", "copies_saved_factor"],
    ..Family::BASE
};
