//! Members of a group that broadcast to each other.
//!
//! | file | content |
//! |---|---|
//! | [`section`] | keys of `[group]`, their checks, the built-in scenarios |
//! | [`application`] | what runs on a host around its engine: the crate `samara-app-group` |
//! | `course` | the plan of a run, its commands, and what it observes |
//! | [`metrics`], `outcome` | from events to metrics |
//! | `pages` | the declaration of the page of results, and its sentences |
//! | `drawings` | figures that no declaration expresses |
//! | `torture` | scenarios that look for broken promises, and the promises |

mod course;
mod drawings;
pub mod metrics;
mod outcome;
mod pages;
pub mod section;
mod torture;

pub use course::{GroupMeasured, MemberOutcomes, Suspicion};
pub use metrics::{GatewayFigures, GroupBytes, GroupMetrics};
pub use outcome::{GroupData, MemberRow};
pub use samara_app_group as application;
pub use section::Group;

use samara_lab::family::Family;
use samara_lab::sweep::LACKS;

/// The family of `[group]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::GroupMetrics::METRICS,
    runs: course::runs,
    has_strict_bounds: false,
    draw: torture::draw,
    page: &pages::PAGE,
    related: outcome::related,
    lacks: &LACKS,
    ..Family::BASE
};
