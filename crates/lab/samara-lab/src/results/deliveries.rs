//! The deliveries of a run: which node received which item, and when.

use std::collections::{BTreeMap, HashMap};

use samara_report::Arrival;
use samara_report::words::grouped;
use samara_scenario::Point;
use samara_sim::{Cause, Origin};

use super::columns::{Column, column};
use super::tables::{Columns, Table};
use crate::explain::Delivered;

/// Maximum number of deliveries that a run records. A row takes 24 bytes, so the rows of a run take
/// at most 120 MB.
pub const DELIVERIES_MAX: u64 = 5_000_000;

pub const DELIVERIES: &str = "deliveries";

/// The delivery of an item at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    pub item: u32,
    /// Nanoseconds from the publication of the item; `u64::MAX` if its publication is unknown.
    pub nanos: u64,
    pub node: u32,
    /// The node that sent the copy; [`NOBODY`] if that is unknown.
    pub from: u32,
    /// A further value of the family: hops, the origin, or the team.
    pub detail: u32,
}

/// The sender of a delivery whose sender is unknown.
pub const NOBODY: u32 = u32::MAX;

/// The way of some items through the network, for the curves of a page.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Sorted by node.
    pub arrivals: Vec<Arrival>,
    /// The publisher of each item.
    pub publishers: BTreeMap<u16, u32>,
}

/// Maximum number of items with curves.
const SPREAD_MAX: usize = 16;

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
    pub fn delivered_of(&self, explained: impl Fn(&DeliveryRow) -> Option<Delivered>) -> Vec<Delivered> {
        self.rows.iter().filter_map(explained).collect()
    }

    /// Returns the deliveries of items with known publications, for their explanation.
    pub fn delivered(&self, origin: impl Fn(&DeliveryRow) -> Origin) -> Vec<Delivered> {
        let after = Cause::Processor;
        self.delivered_of(|row| {
            let origin = origin(row);
            let at = origin.at.checked_add(row.nanos).filter(|_| row.nanos != u64::MAX)?;
            Some(Delivered {
                node: row.node,
                item: u64::from(row.item),
                from: (row.from != NOBODY).then_some(row.from),
                origin,
                at,
                made_of: None,
                is_last: true,
                after,
            })
        })
    }

    pub(super) fn rows(&self) -> &[DeliveryRow] {
        &self.rows
    }

    /// Returns the deliveries whose senders are known.
    pub fn known(&self) -> impl Iterator<Item = DeliveryRow> {
        self.rows.iter().filter(|row| row.from != NOBODY).copied()
    }

    /// Returns the number of deliveries, with and without rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the reason why there is no table; `None` if there is one. `remedy` names the keys
    /// that reduce the number of deliveries.
    pub fn absence(&self, remedy: &str) -> Option<String> {
        (self.count > DELIVERIES_MAX).then(|| {
            let [count, most] = [self.count, DELIVERIES_MAX].map(|count| grouped(count as f64));
            format!("{count} deliveries exceed the {most} that are recorded; reduce {remedy}")
        })
    }

    /// Returns the arrivals of at most `SPREAD_MAX` of these items, each with its publisher, evenly
    /// chosen from those with numbers below 65,536. `number` returns the item of a row. `must` tells
    /// whether items must reach a node: an arrival that is missing there is listed without a time.
    pub fn spread(
        &self,
        point: &Point,
        items: impl Iterator<Item = (u32, u32)>,
        number: impl Fn(&DeliveryRow) -> u32,
        must: impl Fn(u32) -> bool,
    ) -> Spread {
        // The page of a sweep has no curves of items.
        if self.count > DELIVERIES_MAX || !point.sweep.is_empty() {
            return Spread::default();
        }
        let items: Vec<(u16, u32)> =
            items.filter_map(|(item, publisher)| Some((item.try_into().ok()?, publisher))).collect();
        let every = items.len().div_ceil(SPREAD_MAX).max(1);
        // One of each stretch, at changing places, since publishers may take turns: a prime number.
        let chosen = |(at, stretch): (usize, &[(u16, u32)])| {
            stretch.get(at.wrapping_mul(40_507) % every).or(stretch.last()).copied()
        };
        let publishers: BTreeMap<u16, u32> = items.chunks(every).enumerate().filter_map(chosen).collect();
        let mut rows: BTreeMap<(u32, u16), &DeliveryRow> = BTreeMap::new();
        for row in &self.rows {
            let item = u16::try_from(number(row)).ok();
            let Some(item) = item.filter(|item| publishers.get(item).is_some_and(|from| *from != row.node))
            else {
                continue;
            };
            rows.entry((row.node, item)).or_insert(row);
        }
        let hops = hops(&rows);
        let arrival = |((node, item), row): (&(u32, u16), &&DeliveryRow)| Arrival {
            node: *node,
            item: *item,
            nanos: (row.nanos != u64::MAX).then_some(row.nanos),
            from: row.from,
            hops: hops[&(*node, *item)],
        };
        let mut arrivals: Vec<Arrival> = rows.iter().map(arrival).collect();
        for (item, publisher) in &publishers {
            let lacks = |node: &u32| node != publisher && must(*node) && !rows.contains_key(&(*node, *item));
            let missing = |node| Arrival { node, item: *item, nanos: None, from: NOBODY, hops: 0 };
            arrivals.extend((0..point.scenario.network.nodes).filter(lacks).map(missing));
        }
        arrivals.sort_by_key(|arrival| (arrival.node, arrival.item));
        Spread { arrivals, publishers }
    }

    /// Returns the table, unless there are too many deliveries.
    ///
    /// `own` returns the family's columns before and after those that all families have: the node,
    /// and the time from the publication.
    pub fn table<'a>(&'a self, own: impl Fn(&[DeliveryRow]) -> [Columns; 2] + 'a) -> Option<Table<'a>> {
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

/// Returns the number of links of each delivery, by node and item. A node may deliver an item later
/// than those to which it passed the item on.
fn hops(rows: &BTreeMap<(u32, u16), &DeliveryRow>) -> HashMap<(u32, u16), u16> {
    let mut hops: HashMap<(u32, u16), u16> = HashMap::new();
    for start in rows.keys() {
        let (mut way, mut at) = (Vec::new(), *start);
        let before = loop {
            match (hops.get(&at), rows.get(&at)) {
                (Some(known), _) => break *known,
                // Copies may go in a circle if a node restarts.
                (None, Some(row)) if way.len() < rows.len() => {
                    way.push(at);
                    at.0 = row.from;
                }
                _ => break 0,
            }
        };
        hops.extend((before..).skip(1).zip(way.into_iter().rev()).map(|(hops, of)| (of, hops)));
    }
    hops
}

/// Returns the column of the nodes that sent the copies.
pub fn senders(rows: &[DeliveryRow]) -> (&'static str, Column) {
    ("from", column(rows.iter().map(|row| (row.from != NOBODY).then_some(row.from))))
}

#[cfg(test)]
mod tests;
