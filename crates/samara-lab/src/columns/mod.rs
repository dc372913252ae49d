//! Blocks of columns: one node publishes them, and every node custodies some of them.

pub(crate) mod bound;
pub mod measure;
pub(crate) mod metrics;
mod paths;
mod report;
pub(crate) mod run;
mod torture;

use crate::family::{Family, boxed};
use crate::report::Results;

pub(crate) static FAMILY: Family = Family {
    spec: &samara_spec::columns::FAMILY,
    metrics: metrics::ColumnMetrics::METRICS,
    run: |point, options, watching| {
        let measured = run::run(point, options, None, watching.progress)?;
        Ok(boxed(measured.expect("a single process is always the first")))
    },
    run_distributed: Some(|point, options, ranks, progress| {
        Ok(run::run(point, options, Some(ranks), progress)?.map(boxed))
    }),
    draw: torture::draw,
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    explained_pair: ["batch", "node-wide"],
    ..Family::BASE
};
