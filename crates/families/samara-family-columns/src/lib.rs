//! Blocks of columns: one node publishes them, and every node custodies some of them.
//!
//! | file | content |
//! |---|---|
//! | [`section`] | keys of `[columns]`, their checks, the built-in scenarios |
//! | [`application`] | what runs on a host around its engine: the crate `samara-app-columns` |
//! | `course` | the plan of a run, its commands, and what it observes |
//! | [`measure`], [`metrics`], `bound` | from events to metrics |
//! | `paths` | the way of each delivery, for `samara explain` |
//! | `pages` | the declaration of the page of results, and its sentences |
//! | `drawings` | figures that no declaration expresses |
//! | `torture` | scenarios that look for broken promises, and the promises |

mod bound;
mod course;
mod drawings;
pub mod measure;
pub mod metrics;
mod pages;
mod paths;
pub mod section;
mod torture;

pub use course::ColumnsMeasured;
pub use metrics::{ColumnMetrics, ColumnsData, Slot};
pub use samara_app_columns as application;
pub use section::Columns;

use samara_lab::family::{Deadline, Family};
use samara_lab::reference::Arrivals;
use samara_lab::results::Outcome;
use samara_lab::sweep::LACKS;

/// The family of `[columns]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::ColumnMetrics::METRICS,
    runs: course::runs,
    draw: torture::draw,
    page: &pages::PAGE,
    arrivals,
    lacks: &LACKS,
    deadline: Some(Deadline {
        share: "share_by_deadline",
        items: "nodes",
        made: "were in time",
        covered: "what arrived in time",
        survivors: &["time_to_custody_ms", "delivery_latency_ms", "dissemination_ms", "throughput_mb_per_s"],
        leads: true,
    }),
    ..Family::BASE
};

fn arrivals(outcome: &Outcome) -> Option<Arrivals> {
    let data: Outcome<ColumnsData> = outcome.typed()?;
    let custody = |slot: &Vec<(u32, Option<f64>)>| slot.iter().filter_map(|(_, ms)| *ms).collect();
    Some(Arrivals {
        custody_ms: data.custody_ms.iter().map(custody).collect(),
        copies: data.metrics.deliveries.duplication_factor,
    })
}
