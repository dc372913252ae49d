//! Where the time of every delivery went: recorded by the simulator, resolved into paths, and kept
//! as a table.

mod frames;
mod saved;
mod section;
mod show;
mod what_if;

use std::collections::BTreeMap;
use std::sync::Mutex;

use samara_engine::{MessageKey, lock};
use samara_sim::{Arrivals, Cause, Compact, Contents, Hop, Origin, Parts, parts_of};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::results::columns::column;
use crate::results::tables::{self, Table};

pub use frames::Frames;
pub use saved::SavedPaths;
pub use section::{difference, section};
pub use show::{Shown, json, show};
pub use what_if::{Counterfactual, WHY_PARTS_DIFFER, WhatIf, Without, what_if};

/// Deliveries up to which all are recorded: a row takes some 200 bytes.
pub const ROWS_MAX: u64 = 1_000_000;

/// The limits of [`Mode::Cheap`]: nodes of a network with records, and deliveries of a run up to which
/// all are recorded.
pub const CHEAP_NODES_MAX: u32 = 2_000;
pub const CHEAP_ROWS_MAX: u64 = 100_000;

/// The name of the table.
pub const PATHS: &str = "paths";

/// Which deliveries of a run are explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// None.
    #[default]
    Off,
    /// In networks of up to [`CHEAP_NODES_MAX`] nodes all up to [`CHEAP_ROWS_MAX`] deliveries, and a sample
    /// of the items beyond; none in larger networks.
    Cheap,
    /// All up to [`ROWS_MAX`] deliveries, and a sample of the items beyond.
    Auto,
    /// One of this many items.
    Every(u64),
}

/// The explanation of a run: what to record, and what was recorded.
#[derive(Debug, Default)]
pub struct Explain {
    mode: Mode,
    /// A property that the network of the run lacks.
    pub without: Option<Without>,
    found: Mutex<Option<Explained>>,
}

impl Explain {
    pub const fn new(mode: Mode) -> Self {
        Self { mode, without: None, found: Mutex::new(None) }
    }

    /// Returns the sampling interval of items in a network of so many nodes; `None` if nothing is
    /// recorded.
    pub fn every(&self, nodes: u32, deliveries: Option<u64>) -> Option<u64> {
        let up_to = |most: u64| deliveries.unwrap_or(0).div_ceil(most).max(1);
        match self.mode {
            Mode::Off => None,
            Mode::Every(items) => Some(items),
            Mode::Cheap => (nodes <= CHEAP_NODES_MAX).then(|| up_to(CHEAP_ROWS_MAX)),
            Mode::Auto => Some(up_to(ROWS_MAX)),
        }
    }

    /// Returns true if somebody asked for records: a run without any then says why.
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self.mode, Mode::Off | Mode::Cheap)
    }

    pub fn put(&self, explained: Explained) {
        lock(&self.found).get_or_insert(explained);
    }

    pub fn take(&self) -> Option<Explained> {
        lock(&self.found).take()
    }
}

/// Returns the items in a frame, which has this key in its sender's outbox.
pub type ContentsOf<F> = Box<dyn Fn(&F, Option<MessageKey>) -> Contents + Send + Sync>;

/// Returns true if an item is in the sample. Consecutive items are not all in or all out.
pub(crate) fn is_sampled(item: u64, every: u64) -> bool {
    every == 1 || item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (1 << 32) / every
}

/// A delivery that a family measured.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    pub node: u32,
    pub item: u64,
    /// The host that sent the item, if the family knows. Paths of real runs go by it.
    pub from: Option<u32>,
    /// The publication of the item.
    pub origin: Origin,
    /// The time of the delivery, in nanoseconds of the run.
    pub at: u64,
    /// The item out of which the node made this one, if it did not receive it.
    pub made_of: Option<u64>,
    /// True if the delivery ends the time that the family's main metric measures.
    pub is_last: bool,
    /// The cause of the time from the arrival of the item to the delivery.
    pub after: Cause,
}

/// The time that a family's main metric measures, and the parts of its lower bound.
#[derive(Clone, Debug)]
pub struct MainTime {
    /// In words, such as "the delivery latency".
    pub name: &'static str,
    /// What is delivered, such as "message".
    pub item: &'static str,
    /// In milliseconds; empty if the family has no bound.
    pub bound_ms: Vec<(Cause, f64)>,
}

impl Default for MainTime {
    fn default() -> Self {
        Self { name: "the delivery latency", item: "item", bound_ms: Vec::new() }
    }
}

/// Returns the plural of what is delivered.
pub(crate) fn plural_of(item: &str) -> String {
    format!("{item}{}", if item.ends_with("ch") { "es" } else { "s" })
}

/// The path of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    pub item: u64,
    pub node: u32,
    pub publisher: u32,
    /// The host that sent the copy.
    pub from: u32,
    pub hops: u32,
    /// False for a transfer on the way of a delivery, which paths that pass a node twice have.
    pub is_delivery: bool,
    /// True if the delivery ends the time that the family's main metric measures.
    pub is_last: bool,
    /// Nanoseconds from the publication to the delivery.
    pub nanos: u64,
    /// Nanoseconds from the publication until the sender had the item.
    pub since_nanos: u64,
    /// The time from the publication to the delivery, by cause.
    pub parts: Compact,
    /// The time since the sender had the item, by cause.
    pub hop: Compact,
}

/// All explained deliveries of a run.
#[derive(Clone, Debug)]
pub struct Explained {
    pub rows: Vec<PathRow>,
    /// One of this many items is explained.
    pub every: u64,
    main: MainTime,
}

/// The means of a run, for its summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Means {
    pub deliveries: u64,
    /// What is delivered, such as "message": the meaning of numbers in the column `item`.
    pub item: &'static str,
    /// One of this many items is explained.
    pub every: u64,
    /// The mean time by cause, over the deliveries that end the time of the main metric.
    pub by_cause_ms: Map<String, Value>,
    /// That time.
    pub of: &'static str,
    /// The parts of its lower bound; empty if there is none.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub bound_ms: Map<String, Value>,
    /// The same as shares of the whole.
    pub shares: Map<String, Value>,
    /// The mean time of these deliveries in milliseconds.
    pub mean_ms: f64,
    /// The causes that any delivery has: the columns of the table.
    pub causes: Vec<&'static str>,
}

impl Explained {
    pub fn of(
        mut arrivals: Arrivals,
        mut delivered: Vec<Delivered>,
        paths: impl Fn(&Arrivals, &[Delivered]) -> Vec<Option<Vec<Hop>>>,
        has_loops: bool,
        (every, main): (u64, MainTime),
    ) -> Self {
        delivered.retain(|delivery| is_sampled(delivery.item, every));
        delivered.sort_by_key(|delivery| (delivery.at, delivery.node, delivery.item));
        for delivery in &delivered {
            if let Some(of) = delivery.made_of {
                arrivals.make(delivery.node, delivery.item, of, delivery.at);
            }
        }
        let paths = paths(&arrivals, &delivered);
        let mut transfers = BTreeMap::new();
        if has_loops {
            for (delivery, path) in delivered.iter().zip(&paths) {
                let path = path.as_deref().unwrap_or_default();
                for (number, hop) in path.iter().enumerate().take(path.len().saturating_sub(1)) {
                    let until = Delivered { node: hop.to, at: hop.at, is_last: false, ..*delivery };
                    let transfer = || row(&arrivals, &until, Some(path[..=number].to_vec()), false);
                    transfers.entry((until.item, until.at, until.node)).or_insert_with(transfer);
                }
            }
        }
        let deliveries =
            delivered.iter().zip(paths).map(|(delivery, path)| row(&arrivals, delivery, path, true));
        let rows = deliveries.chain(transfers.into_values()).collect();
        Self { rows, every, main }
    }

    /// Returns true if the path of any delivery is known.
    pub fn is_known(&self) -> bool {
        self.rows.iter().flat_map(|row| row.parts.iter()).any(|(cause, _)| cause != Cause::Unknown)
    }

    /// Returns the mean parts over the deliveries that end the time of the main metric, in
    /// milliseconds.
    pub fn mean_parts_ms(&self) -> Vec<(Cause, f64)> {
        let (mut sum, mut count) = (Parts::default(), 0);
        for row in self.rows.iter().filter(|row| row.is_last) {
            sum += &row.parts;
            count += 1;
        }
        sum.iter().map(|(cause, nanos)| (cause, nanos as f64 / f64::from(count.max(1)) / 1e6)).collect()
    }

    fn causes(&self) -> impl Iterator<Item = Cause> {
        let mut occurs = [false; Cause::COUNT];
        let parts = self.rows.iter().flat_map(|row| row.parts.iter());
        parts.for_each(|(cause, _)| occurs[cause as usize] = true);
        Cause::ALL.into_iter().filter(move |cause| occurs[*cause as usize])
    }

    pub fn means(&self) -> Means {
        let parts = self.mean_parts_ms();
        let mean_ms: f64 = parts.iter().map(|(_, ms)| ms).sum();
        let map = |parts: &[(Cause, f64)], whole: f64| {
            parts.iter().map(|(cause, ms)| (cause.label().to_owned(), (ms / whole).into())).collect()
        };
        Means {
            deliveries: self.rows.iter().filter(|row| row.is_delivery).count() as u64,
            item: self.main.item,
            every: self.every,
            by_cause_ms: map(&parts, 1.0),
            shares: map(&parts, mean_ms.max(1e-9)),
            of: self.main.name,
            bound_ms: map(&self.main.bound_ms, 1.0),
            mean_ms,
            causes: self.causes().map(Cause::label).collect(),
        }
    }

    pub fn table(&self) -> Table<'_> {
        Table::new(PATHS, self.rows.len(), || self.columns())
    }

    fn columns(&self) -> tables::Columns {
        let rows = &self.rows;
        let mut columns: tables::Columns = vec![
            ("item", column(rows.iter().map(|row| row.item))),
            ("node", column(rows.iter().map(|row| row.node))),
            ("publisher", column(rows.iter().map(|row| row.publisher))),
            ("from", column(rows.iter().map(|row| row.from))),
            ("hops", column(rows.iter().map(|row| row.hops))),
            ("is_delivery", column(rows.iter().map(|row| row.is_delivery))),
            ("is_last", column(rows.iter().map(|row| row.is_last))),
            ("delivery_latency_ns", column(rows.iter().map(|row| row.nanos))),
            ("hop_since_ns", column(rows.iter().map(|row| row.since_nanos))),
        ];
        for of_hop in [false, true] {
            let mut values = vec![vec![0_u64; rows.len()]; Cause::COUNT];
            for (index, row) in rows.iter().enumerate() {
                let parts = if of_hop { &row.hop } else { &row.parts };
                parts.iter().for_each(|(cause, nanos)| values[cause as usize][index] = nanos);
            }
            columns.extend(self.causes().map(|cause| {
                (cause.columns()[usize::from(of_hop)], column(std::mem::take(&mut values[cause as usize])))
            }));
        }
        columns
    }
}

/// Returns the path of each delivery; `None` if the record does not have it.
pub fn paths(arrivals: &Arrivals, delivered: &[Delivered]) -> Vec<Option<Vec<Hop>>> {
    let path = |to: &Delivered| {
        let has_arrived = arrivals.get(to.node, to.item).is_some_and(|arrival| arrival.at <= to.at);
        has_arrived.then(|| arrivals.path(to.node, to.item, to.origin)).flatten()
    };
    delivered.iter().map(path).collect()
}

/// Returns the row of a delivery. Without a path, the cause of its time is unknown, except while the node
/// was down.
fn row(arrivals: &Arrivals, delivery: &Delivered, path: Option<Vec<Hop>>, is_delivery: bool) -> PathRow {
    let Delivered { node, item, origin, at, is_last, after, .. } = *delivery;
    let mut path = path.unwrap_or_else(|| {
        let mut parts = Parts::default();
        arrivals.add(&mut parts, &[node], Cause::Unknown, (origin.at, at.max(origin.at)));
        vec![Hop { from: origin.host, to: node, since: origin.at, at, parts }]
    });
    if let Some(last) = path.last_mut() {
        // The node has the item, but its application does not.
        arrivals.add(&mut last.parts, &[node], after, (last.at, at));
        last.at = at;
    }
    let last = path.last();
    PathRow {
        item,
        node,
        publisher: origin.host,
        from: last.map_or(origin.host, |hop| hop.from),
        hops: path.len() as u32,
        is_delivery,
        is_last,
        nanos: at.saturating_sub(origin.at),
        since_nanos: last.map_or(0, |hop| hop.since.saturating_sub(origin.at)),
        parts: Compact::from(&parts_of(&path)),
        hop: last.map(|hop| Compact::from(&hop.parts)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheap_records_a_sample_of_long_runs_and_nothing_of_large_networks() {
        let every = |mode, nodes, deliveries| Explain::new(mode).every(nodes, Some(deliveries));
        let cheap = |nodes, deliveries| every(Mode::Cheap, nodes, deliveries);
        assert_eq!([cheap(2_000, 100_000), cheap(2_000, 250_000), cheap(2_001, 1)], [Some(1), Some(3), None]);
        assert_eq!(every(Mode::Auto, 2_001, 1_000_001), Some(2));
        assert_eq!(every(Mode::Off, 1, 1), None);
        assert!(!Explain::new(Mode::Cheap).is_wanted() && Explain::new(Mode::Auto).is_wanted());
    }
}
