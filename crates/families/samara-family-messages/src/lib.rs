//! A stream of messages, each published by a node drawn at random.
//!
//! | file | content |
//! |---|---|
//! | [`section`] | keys of `[messages]`, their checks, the built-in scenarios |
//! | [`application`] | what runs on a host around its engine: the crate `samara-app-messages` |
//! | `course` | the plan of a run, its commands, and what it observes |
//! | [`measure`], [`metrics`] | from events to metrics |
//! | `pages` | the declaration of the page of results, and its sentences |
//! | `drawings` | figures that no declaration expresses |
//! | `torture` | scenarios that look for broken promises, and the promises |

mod course;
mod drawings;
pub mod measure;
pub mod metrics;
mod pages;
pub mod section;
mod torture;

pub use course::{MessagesMeasured, Plan};
pub use metrics::{MessageMetrics, MessagesData};
pub use samara_app_messages as application;
pub use section::Messages;

use samara_lab::family::Family;
use samara_lab::sweep::LACKS;

/// The family of `[messages]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::MessageMetrics::METRICS,
    runs: course::runs,
    draw: torture::draw,
    page: &pages::PAGE,
    lacks: &LACKS,
    ..Family::BASE
};
