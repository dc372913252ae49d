//! Teams that mix batches of payloads.
//!
//! | file | content |
//! |---|---|
//! | [`section`] | keys of `[mix]`, their checks, the built-in scenarios |
//! | [`application`] | what runs on a host around its engine: the crate `samara-app-mix` |
//! | `course` | the plan of a run, its commands, and what it observes |
//! | [`measure`], [`metrics`], `outcome`, `bound` | from events to metrics |
//! | `paths` | the way of each batch, for `samara explain` |
//! | `calibrate` | the times of work on this machine |
//! | `pages` | the declaration of the page of results, and its sentences |
//! | `drawings` | figures that no declaration expresses |
//! | `torture` | scenarios that look for broken promises, and the promises |

mod bound;
pub mod calibrate;
mod course;
mod drawings;
pub mod measure;
pub mod metrics;
mod outcome;
mod pages;
mod paths;
pub mod section;
mod torture;

pub use course::{FaultWindow, Mechanism, MixMeasured, ProcessorLook};
pub use metrics::{MixMetrics, mix_metrics};
pub use outcome::MixData;
pub use samara_app_mix as application;
pub use section::Mix;

use samara_lab::family::{Calibration, Family, Runs};
use samara_lab::sweep::LACKS;

/// The family of `[mix]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::MixMetrics::METRICS,
    runs: |_| Runs::of::<course::Teams>().with_alone(course::run),
    has_strict_bounds: false,
    calibration: Calibration { is_wanted: section::wants_costs, measure: calibrate::measure },
    draw: torture::draw,
    page: &pages::PAGE,
    related: outcome::related,
    lacks: &LACKS,
    ..Family::BASE
};
