//! Teams that mix batches of payloads.

mod bound;
mod calibrate;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod paths;
mod report;
pub(crate) mod run;
mod torture;

pub use calibrate::measure_costs;
pub use metrics::{MixMetrics, mix_metrics};
pub use outcome::MixData;
pub use run::{FaultWindow, Mechanism, MixMeasured, ProcessorLook};

use crate::family::{Family, Runs};
use crate::report::Results;
use crate::sweep::LACKS;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::mix::FAMILY,
    metrics: metrics::MixMetrics::METRICS,
    runs: |_| Runs { alone: run::run, ..Runs::of::<run::Teams>() },
    has_strict_bounds: false,
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    lacks: &LACKS,
    ..Family::BASE
};
