//! Results: metrics, the machine-readable summary, and the tables of a results directory.

mod directory;
mod metrics;
mod summary;
mod tables;

pub use directory::{DirectoryError, ResultsDirectory};
pub use metrics::{Metrics, Slot, metrics};
pub use summary::{Run, Summary, combined_digest};
pub use tables::TableError;

use crate::measure::{CopyRow, Delivery};
use crate::run::Measured;

/// What is kept of a run: its metrics, and what figures are drawn from.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The entry in the summary.
    pub run: Run,
    /// For each slot: when it was published, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// Columns of a block.
    pub columns: u32,
    /// First copies and what came after them.
    pub deliveries: Vec<Delivery>,
    /// For each slot: milliseconds until hosts had all their columns; `None` for those that never had.
    pub custody_ms: Vec<Vec<(u32, Option<f64>)>>,
    /// What the scenario calls the variant.
    pub label: String,
    /// What is different about it.
    pub description: String,
}

impl RunResult {
    /// Takes what is needed out of the measurements of a run.
    pub fn of(measured: &Measured) -> (Self, Vec<CopyRow>) {
        let slots = 0..measured.published.len() as u32;
        let custody_ms = slots
            .map(|slot| measured.collector.custody_ms(slot, measured.published[slot as usize]))
            .collect();
        let result = Self {
            run: Run::of(measured),
            published: measured.published.clone(),
            columns: measured.point.scenario.workload.columns,
            deliveries: measured.collector.deliveries().to_vec(),
            custody_ms,
            label: measured.point.label.clone(),
            description: measured.point.description.clone(),
        };
        (result, measured.collector.copies().to_vec())
    }
}
