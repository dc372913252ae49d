//! Blocks of columns: one node publishes them, and every node custodies some of them.

pub(crate) mod bound;
pub mod measure;
pub(crate) mod metrics;
mod paths;
mod report;
pub(crate) mod run;
mod torture;

pub use metrics::{ColumnMetrics, ColumnsData, Slot};
pub use run::ColumnsMeasured;

use crate::family::Family;
use crate::report::Results;
use crate::sweep::LACKS;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::columns::FAMILY,
    metrics: metrics::ColumnMetrics::METRICS,
    runs: run::runs,
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    explained_pair: ["batch", "node-wide"],
    lacks: &LACKS,
    ..Family::BASE
};
