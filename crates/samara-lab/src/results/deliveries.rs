//! The deliveries of a run: which node received which item, and when.

use samara_report::words::grouped;
use samara_sim::{Cause, Origin};

use super::columns::column;
use super::tables::{Columns, Table};
use crate::explain::Delivered;

/// Maximum number of deliveries that a run records. A row takes 24 bytes, so the rows of a run take
/// at most 120 MB.
pub const DELIVERIES_MAX: u64 = 5_000_000;

pub(crate) const DELIVERIES: &str = "deliveries";

/// The delivery of an item at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    pub item: u64,
    /// Nanoseconds from the publication of the item; `u64::MAX` if its publication is unknown.
    pub nanos: u64,
    pub node: u32,
    /// A further value of the family: hops, the origin, or the team.
    pub detail: u32,
}

/// Records deliveries: all rows or, beyond [`DELIVERIES_MAX`], none.
#[derive(Debug, Default)]
pub struct Deliveries {
    rows: Vec<DeliveryRow>,
    count: u64,
}

impl Deliveries {
    pub fn add(&mut self, row: DeliveryRow) {
        self.count += 1;
        if self.count <= DELIVERIES_MAX {
            self.rows.push(row);
        } else {
            self.rows = Vec::new();
        }
    }

    /// Returns the deliveries to explain; `explained` returns that of a row.
    pub(crate) fn delivered_of(
        &self,
        explained: impl Fn(&DeliveryRow) -> Option<Delivered>,
    ) -> Vec<Delivered> {
        self.rows.iter().filter_map(explained).collect()
    }

    /// Returns the deliveries of items with known publications, for their explanation.
    pub(crate) fn delivered(&self, origin: impl Fn(&DeliveryRow) -> Origin) -> Vec<Delivered> {
        let after = Cause::Processor;
        self.delivered_of(|row| {
            let origin = origin(row);
            let at = origin.at.checked_add(row.nanos).filter(|_| row.nanos != u64::MAX)?;
            Some(Delivered {
                node: row.node,
                item: row.item,
                origin,
                at,
                made_of: None,
                is_last: true,
                after,
            })
        })
    }

    /// Returns the number of deliveries, with and without rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the reason why there is no table; `None` if there is one. `remedy` names the keys
    /// that reduce the number of deliveries.
    pub(crate) fn absence(&self, remedy: &str) -> Option<String> {
        (self.count > DELIVERIES_MAX).then(|| {
            let [count, most] = [self.count, DELIVERIES_MAX].map(|count| grouped(count as f64));
            format!("{count} deliveries exceed the {most} that are recorded; reduce {remedy}")
        })
    }

    /// Returns the table, unless there are too many deliveries.
    ///
    /// `own` returns the family's columns before and after those that all families have: the node,
    /// and the time from the publication.
    pub(crate) fn table<'a>(
        &'a self,
        own: impl Fn(&[DeliveryRow]) -> [Columns; 2] + 'a,
    ) -> Option<Table<'a>> {
        let ms = |row: &DeliveryRow| (row.nanos != u64::MAX).then(|| row.nanos as f64 / 1e6);
        (self.count <= DELIVERIES_MAX).then(|| {
            Table::new(DELIVERIES, self.rows.len(), move || {
                let common = vec![
                    ("node", column(self.rows.iter().map(|row| row.node))),
                    ("delivery_latency_ms", column(self.rows.iter().map(ms))),
                ];
                let [before, after] = own(&self.rows);
                [before, common, after].into_iter().flatten().collect()
            })
        })
    }
}

#[cfg(test)]
mod tests;
