//! A stream of messages, each published by a node drawn at random.

pub(crate) mod brief;
pub mod measure;
pub(crate) mod metrics;
mod report;
pub(crate) mod run;
pub(crate) mod torture;

pub use metrics::{MessageMetrics, MessagesData};
pub use run::{MessagesMeasured, Plan};

use crate::family::Family;
use crate::report::Results;
use crate::sweep::LACKS;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::messages::FAMILY,
    metrics: metrics::MessageMetrics::METRICS,
    runs: run::runs,
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    lacks: &LACKS,
    ..Family::BASE
};
