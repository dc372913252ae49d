//! Transaction pools: clients submit transactions, pools spread them, and blocks take them out.
//!
//! | file | content |
//! |---|---|
//! | [`section`] | keys of `[pool]`, their checks, the built-in scenarios |
//! | [`application`] | what runs on a host around its engine: the crate `samara-app-pool` |
//! | `course` | the plan of a run, its commands, and what it observes |
//! | [`measure`], [`metrics`], `outcome` | from events to metrics |
//! | `pages` | the declaration of the page of results, and its sentences |
//! | `torture` | scenarios that look for broken promises, and the promises |

mod course;
pub mod measure;
pub mod metrics;
mod outcome;
mod pages;
pub mod section;
mod torture;

pub use course::{BlockRow, Totals, TransactionsMeasured};
pub use metrics::{TransactionBytes, TransactionMetrics, transaction_metrics};
pub use outcome::PoolData;
pub use samara_app_pool as application;
pub use section::Transactions;

use samara_lab::family::{Family, Runs};
use samara_lab::sweep::LACKS;

/// The family of `[pool]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::TransactionMetrics::METRICS,
    runs: |scenario| Runs::of::<course::Pooling>().with_difference(course::differs(scenario)),
    draw: torture::draw,
    page: &pages::PAGE,
    related: outcome::related,
    beside_first: &["bytes_saved_factor", "copies_saved_factor"],
    lacks: &LACKS,
    ..Family::BASE
};
