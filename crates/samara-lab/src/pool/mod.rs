//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.

pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
mod torture;

pub use metrics::{TransactionBytes, TransactionMetrics, transaction_metrics};
pub use outcome::PoolData;
pub use run::{BlockRow, Totals, TransactionsMeasured};

use crate::family::{Family, Runs};
use crate::report::Results;
use crate::sweep::LACKS;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::pool::FAMILY,
    metrics: metrics::TransactionMetrics::METRICS,
    runs: |scenario| Runs { differs: run::differs(scenario), ..Runs::of::<run::Pooling>() },
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    related: outcome::related,
    beside_first: &["bytes_saved_factor", "copies_saved_factor"],
    lacks: &LACKS,
    ..Family::BASE
};
