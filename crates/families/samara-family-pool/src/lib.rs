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

use samara_lab::family::{Deadline, Family, Runs};
use samara_lab::sweep::LACKS;

/// The family of `[pool]`.
pub static FAMILY: Family = Family {
    spec: &section::FAMILY,
    metrics: metrics::TransactionMetrics::METRICS,
    runs: |_| Runs::of::<course::Pooling>(),
    draw: torture::draw,
    page: &pages::PAGE,
    related: outcome::related,
    beside_first: &["bytes_saved_factor", "copies_saved_factor"],
    lacks: &LACKS,
    deadline: Some(Deadline {
        share: "disseminated_share",
        items: "transactions",
        made: "reached all pools",
        covered: "transactions that reached all pools",
        survivors: &["dissemination_ms"],
        leads: false,
    }),
    ..Family::BASE
};
