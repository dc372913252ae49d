//! The paths of columns that arrived in cells, for `samara explain`.
//!
//! A node has a column as soon as it has the last cell that its mempool lacks, or as soon as it has
//! looked up the blobs of a header. The path of the column is that of this cell or header. A node
//! that passes on a cell got it in a cell, in a whole column, or from its mempool after a header.

use crate::application::{Blocks, CellPlan, SegmentId, cell_item, header_item};
use samara_sim::{Arrival, Arrivals, Hop};

use samara_lab::explain::Delivered;

/// The items of a node.
#[derive(Clone, Copy)]
enum Thing {
    Column(SegmentId),
    Cell(SegmentId, u32),
    Header,
}

/// The arrivals of a slot's cells and columns.
struct Slot<'a> {
    arrivals: &'a Arrivals,
    /// The columns of the slot.
    columns: std::ops::Range<SegmentId>,
    blobs: u32,
}

impl<'a> Slot<'a> {
    fn get(&self, host: u32, item: u64, until: u64) -> Option<&'a Arrival> {
        self.arrivals.get(host, item).filter(|arrival| arrival.at <= until)
    }

    fn header(&self, host: u32, until: u64) -> Option<(Thing, &'a Arrival)> {
        Some((Thing::Header, self.get(host, header_item(self.columns.start), until)?))
    }

    fn column(&self, host: u32, column: SegmentId, until: u64) -> Option<(Thing, &'a Arrival)> {
        Some((Thing::Column(column), self.get(host, u64::from(column), until)?))
    }

    /// Returns the arrival after which a host had a thing at a time, and what arrived.
    fn source(&self, host: u32, thing: Thing, until: u64) -> Option<(Thing, &'a Arrival)> {
        // A whole column has the commitments that a header has.
        let any_column = || {
            let columns = self.columns.clone().filter_map(|column| self.column(host, column, until));
            columns.min_by_key(|(_, arrival)| arrival.at)
        };
        let known = || self.header(host, until).or_else(any_column);
        match thing {
            Thing::Column(column) => self.column(host, column, until).or_else(|| {
                let cell =
                    |blob| Some((Thing::Cell(column, blob), self.get(host, cell_item(column, blob), until)?));
                let cells = (0..self.blobs).filter_map(cell);
                cells.chain(known()).max_by_key(|(_, arrival)| arrival.at)
            }),
            Thing::Cell(column, blob) => {
                let cell = self.get(host, cell_item(column, blob), until).map(|arrival| (thing, arrival));
                cell.or_else(|| self.column(host, column, until)).or_else(known)
            }
            Thing::Header => known(),
        }
    }

    /// Returns the path of a delivered column.
    fn path(&self, delivery: &Delivered, column: SegmentId) -> Option<Vec<Hop>> {
        let Delivered { node: mut to, origin, at, .. } = *delivery;
        let (mut thing, mut arrival) = self.source(to, Thing::Column(column), at)?;
        let mut hops = Vec::new();
        loop {
            // A column, a cell and a header can pass a host each.
            if arrival.at < origin.at || hops.len() > 3 * self.arrivals.hosts() {
                return None;
            }
            let from = arrival.from;
            let before = if from == origin.host { None } else { self.source(from, thing, arrival.owed_at) };
            let since = before.map_or(origin.at, |(_, before)| before.at);
            hops.push(self.arrivals.hop(arrival, to, since, before.is_some() || from == origin.host));
            let Some(before) = before else { break };
            to = from;
            (thing, arrival) = before;
        }
        hops.reverse();
        Some(hops)
    }
}

/// Returns the path of each column; `None` if the record does not have it.
pub(super) fn paths<M>(
    arrivals: &Arrivals,
    delivered: &[Delivered],
    (plan, blocks): (&CellPlan, &Blocks<M>),
) -> Vec<Option<Vec<Hop>>> {
    let path = |delivery: &Delivered| {
        let column = delivery.item as SegmentId;
        let columns = blocks.of_slot(column / blocks.count());
        Slot { arrivals, columns, blobs: plan.blobs() }.path(delivery, column)
    };
    delivered.iter().map(path).collect()
}
