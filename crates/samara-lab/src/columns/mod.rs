//! Blocks of columns: one node publishes them, and every node keeps some of them.

pub mod app;
pub(crate) mod codec;
pub mod measure;
pub(crate) mod metrics;
pub(crate) mod outcome;
mod report;
pub(crate) mod run;
pub(crate) mod spec;

use samara_gossipsub::config::Parameters;

use crate::family::{Family, Files, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind, boxed};
use crate::report::Results;

/// The family of experiments that the section `[columns]` selects.
pub(crate) static FAMILY: Family = Family {
    section: "columns",
    content: PartType::of::<spec::Workload>(),
    protocols: &[ProtocolKind::of::<Parameters>("gossipsub")],
    metrics: metrics::ColumnMetrics::METRICS,
    unused: &[NO_CHANNELS, NO_UNSENT],
    custody: Some(|scenario, inputs, seed| {
        let workload: &spec::Workload = scenario.part();
        Ok((workload.count, workload.custody(scenario.network.nodes, inputs, seed)?))
    }),
    publisher: |scenario| Some(scenario.part::<spec::Workload>().publisher),
    extra_hosts: |scenario| u32::from(scenario.part::<spec::Workload>().observer),
    files: Files {
        named: |scenario| {
            let file = scenario.part::<spec::Workload>().custody_file.as_deref();
            file.map(|file| ("columns.custody_file", file)).into_iter().collect()
        },
        ..Family::BASE.files
    },
    check: |checks, scenario| checks.columns(scenario),
    run: |point, options, watching| match run::run(point, options, None, watching.progress)? {
        Some(measured) => Ok(boxed(measured)),
        None => unreachable!("a process that is alone is the first"),
    },
    run_distributed: Some(|point, options, ranks, progress| {
        Ok(run::run(point, options, Some(ranks), progress)?.map(boxed))
    }),
    report: |loaded, findings| report::body(&Results::of(loaded, findings)),
    ..Family::BASE
};
