//! What is kept of a run with blocks of columns, and its tables.

use crate::scenario::Workload;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, UInt16Array, UInt32Array};
use samara_engine::units::Span;
use serde_json::Value;

use super::measure::{CopyRow, Delivery};
use super::metrics::{ColumnMetrics, column_metrics};
use super::run::ColumnsMeasured;
use crate::network::Hosts;
use crate::results::tables::{Columns, Table, numbers, traffic};
use crate::results::{Data, Measured, Outcome, value};
use crate::scenario::Point;

/// What is kept of a run with blocks of columns.
#[derive(Clone, Debug)]
pub struct ColumnsData {
    /// The figures.
    pub metrics: ColumnMetrics,
    /// For each slot: when it was published, in nanoseconds of the run.
    pub published: Vec<u64>,
    /// Columns of a block.
    pub columns: u32,
    /// First copies and what came after them.
    pub deliveries: Vec<Delivery>,
    /// For each slot: milliseconds until hosts had all their columns; `None` for those that never had.
    pub custody_ms: Vec<Vec<(u32, Option<f64>)>>,
    /// How long nodes had to get their columns.
    pub deadline: Span,
}

impl Data for ColumnsData {
    fn metrics(&self) -> Value {
        value(&self.metrics)
    }

    fn is_incomplete(&self) -> bool {
        self.metrics.incomplete > 0
    }
}

impl ColumnsData {
    fn of(measured: &ColumnsMeasured) -> Self {
        let slots = 0..measured.published.len() as u32;
        let custody_ms = slots
            .map(|slot| measured.collector.custody_ms(slot, measured.published[slot as usize]))
            .collect();
        Self {
            metrics: column_metrics(measured),
            published: measured.published.clone(),
            columns: measured.point.scenario.part::<Workload>().count,
            deliveries: measured.collector.deliveries().to_vec(),
            custody_ms,
            deadline: measured.point.scenario.part::<Workload>().deadline,
        }
    }
}

impl Measured for ColumnsMeasured {
    fn point(&self) -> &Point {
        &self.point
    }

    fn hosts(&self) -> Option<&Hosts> {
        Some(&self.hosts)
    }

    fn outcome(&self) -> Outcome {
        let data = ColumnsData::of(self);
        let parameter = ("blobs", self.point.scenario.part::<Workload>().blobs.into());
        Outcome::new(&self.point, (self.digest, self.steps), parameter, data).erased()
    }

    fn tables<'a>(&'a self, outcome: &'a Outcome) -> Vec<Table<'a>> {
        let Some(data) = outcome.data::<ColumnsData>() else { panic!("the outcome of another family") };
        columns(self, data)
    }
}

/// Of a run with blocks of columns.
fn columns<'a>(measured: &'a ColumnsMeasured, result: &'a ColumnsData) -> Vec<Table<'a>> {
    let rows = measured.collector.copies();
    vec![
        Table::new("deliveries", result.deliveries.len(), || deliveries(result)),
        Table::new("copies", rows.len(), || copies(rows, result.columns, &result.published)),
        Table::new("traffic", measured.traffic.len(), || {
            traffic(&measured.traffic, &measured.hosts, &measured.point.scenario)
        }),
    ]
}

/// A row for each column that a node waits for.
fn deliveries(result: &ColumnsData) -> Columns {
    let rows = &result.deliveries;
    let ms = |at: u64, slot: u32| (at - result.published[slot as usize]) as f64 / 1e6;
    let arrivals = rows.iter().map(|row| row.delivered().then(|| ms(row.at, row.slot)));
    let lasts = rows.iter().map(|row| row.delivered().then(|| ms(row.last_at, row.slot)));
    let from = rows.iter().map(|row| row.delivered().then_some(row.from));
    vec![
        ("node", numbers(rows.iter().map(|row| row.host))),
        ("slot", numbers(rows.iter().map(|row| row.slot))),
        ("column", numbers(rows.iter().map(|row| row.column))),
        ("delivery_latency_ms", Arc::new(Float64Array::from_iter(arrivals))),
        ("from", Arc::new(UInt32Array::from_iter(from))),
        ("hops", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.hops)))),
        ("copies", Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.copies)))),
        ("last_copy_ms", Arc::new(Float64Array::from_iter(lasts))),
    ]
}

/// All copies in the order of arrival.
fn copies(rows: &[CopyRow], columns: u32, published: &[u64]) -> Columns {
    let slot = |row: &CopyRow| row.column / columns;
    let ms = |row: &CopyRow| (row.at as f64 - published[slot(row) as usize] as f64) / 1e6;
    vec![
        ("at_ms", Arc::new(Float64Array::from_iter_values(rows.iter().map(ms))) as ArrayRef),
        ("node", numbers(rows.iter().map(|row| row.host))),
        ("from", numbers(rows.iter().map(|row| row.from))),
        ("slot", numbers(rows.iter().map(slot))),
        ("column", numbers(rows.iter().map(|row| row.column % columns))),
        ("first", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.first))))),
    ]
}
