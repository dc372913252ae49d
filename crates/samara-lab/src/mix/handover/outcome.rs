//! What is kept of a run with batches, and its tables.

use crate::scenario::Handover;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use serde_json::Value;

use super::metrics::{HandoverMetrics, handover_metrics};
use super::run::{BatchTimes, HandoverMeasured};
use crate::network::Hosts;
use crate::results::tables::Table;
use crate::results::{Data, Measured, Outcome, value};
use crate::scenario::Point;

/// What is kept of a run with batches.
#[derive(Clone, Debug)]
pub struct HandoverData {
    /// The figures.
    pub metrics: HandoverMetrics,
    /// Batch by batch.
    pub batches: Vec<BatchTimes>,
}

impl Data for HandoverData {
    fn metrics(&self) -> Value {
        value(&self.metrics)
    }

    fn is_incomplete(&self) -> bool {
        // A batch that does not arrive is an error of the run.
        false
    }
}

impl Measured for HandoverMeasured {
    fn point(&self) -> &Point {
        &self.point
    }

    fn hosts(&self) -> Option<&Hosts> {
        None
    }

    fn outcome(&self) -> Outcome {
        let data = HandoverData { metrics: handover_metrics(self), batches: self.batches.clone() };
        let payloads = self.point.scenario.find::<Handover>().map_or(0, |handover| handover.payloads);
        let parameter = ("payloads", payloads.into());
        Outcome::new(&self.point, (self.digest, self.steps), parameter, data).erased()
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let Some(data) = outcome.data::<HandoverData>() else { panic!("the outcome of another family") };
        handover(data)
    }
}

/// Of a run with batches.
fn handover(result: &HandoverData) -> Vec<Table<'_>> {
    let times = |value: fn(&BatchTimes) -> u64| {
        let all = result.batches.iter().map(|batch| value(batch) as f64 / 1e6);
        Arc::new(Float64Array::from_iter_values(all)) as ArrayRef
    };
    vec![Table::new("batches", result.batches.len(), move || {
        vec![
            ("begun_ms", times(|batch| batch.begun)),
            ("ready_ms", times(|batch| batch.ready)),
            ("whole_ms", times(|batch| batch.whole)),
        ]
    })]
}
