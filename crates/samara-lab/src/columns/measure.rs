//! From copies of columns to deliveries.

#[cfg(test)]
mod tests;

/// One copy of a column that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRow {
    /// When, in nanoseconds of the run.
    pub at: u64,
    pub host: u32,
    pub from: u32,
    /// The slot times the number of columns, plus the column.
    pub column: u32,
    pub first: bool,
}

/// The first copy of a column at a node that waits for it, and what came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub host: u32,
    pub slot: u32,
    pub column: u32,
    /// When, in nanoseconds of the run; `u64::MAX` if never.
    pub at: u64,
    pub from: u32,
    pub hops: u16,
    /// Copies received, the first included.
    pub copies: u16,
    pub last_at: u64,
}

impl Delivery {
    pub fn delivered(&self) -> bool {
        self.at != u64::MAX
    }
}

#[derive(Debug)]
pub struct Collector {
    columns: u32,
    /// For each host the columns that it keeps, sorted.
    custody: Vec<Vec<u32>>,
    publisher: u32,
    /// Hosts from here on are observers: they receive and forward, but nobody asks how fast.
    observers_from: u32,
    /// Where each host's deliveries start, and how many it has in a slot.
    base: Vec<usize>,
    deliveries: Vec<Delivery>,
    /// All copies in the order of arrival.
    pub copies: Vec<CopyRow>,
    /// Copies that other nodes sent back to the publisher.
    pub returned: u64,
    /// Deliveries that have not happened yet.
    pub missing: usize,
    /// Copies that did not fit into queues.
    pub queue_drops: u64,
    /// When the last copy arrived, in nanoseconds.
    pub last_copy_at: u64,
}

impl Collector {
    /// A collector for the columns that hosts keep over `slots` blocks. What the publisher receives is counted apart, and
    /// what observers receive (the last hosts, from number `nodes` on) only as copies.
    pub fn new(columns: u32, slots: u32, custody: &[Vec<u32>], publisher: u32, nodes: u32) -> Self {
        let mut base = Vec::with_capacity(custody.len());
        let mut deliveries = Vec::new();
        for (host, kept) in custody.iter().enumerate() {
            base.push(deliveries.len());
            if host as u32 == publisher {
                continue;
            }
            for slot in 0..slots {
                deliveries.extend(kept.iter().map(|column| Delivery {
                    host: host as u32,
                    slot,
                    column: *column,
                    at: u64::MAX,
                    from: u32::MAX,
                    hops: 0,
                    copies: 0,
                    last_at: 0,
                }));
            }
        }
        let missing = base.get(nodes as usize).copied().unwrap_or(deliveries.len());
        Self {
            columns,
            custody: custody.to_vec(),
            publisher,
            observers_from: nodes,
            base,
            deliveries,
            copies: Vec::new(),
            returned: 0,
            missing,
            queue_drops: 0,
            last_copy_at: 0,
        }
    }

    fn index(&self, host: u32, column_id: u32) -> Option<usize> {
        let (slot, column) = (column_id / self.columns, column_id % self.columns);
        let kept = &self.custody[host as usize];
        let place = kept.binary_search(&column).ok()?;
        Some(self.base[host as usize] + slot as usize * kept.len() + place)
    }

    pub fn copy(&mut self, row: CopyRow) {
        self.copies.push(row);
        self.last_copy_at = row.at;
        if row.host == self.publisher {
            self.returned += 1;
            return;
        }
        let Some(index) = self.index(row.host, row.column) else { return };
        let hops = if row.from == self.publisher {
            1
        } else {
            self.index(row.from, row.column).map_or(0, |index| self.deliveries[index].hops.saturating_add(1))
        };
        let delivery = &mut self.deliveries[index];
        delivery.copies = delivery.copies.saturating_add(1);
        delivery.last_at = row.at;
        if !delivery.delivered() {
            delivery.at = row.at;
            delivery.from = row.from;
            delivery.hops = hops;
            self.missing -= usize::from(row.host < self.observers_from);
        }
    }

    /// Deliveries of slots up to this one that have not happened yet.
    pub fn missing_until(&self, slot: u32) -> usize {
        if self.missing == 0 {
            return 0;
        }
        self.deliveries().iter().filter(|delivery| delivery.slot <= slot && !delivery.delivered()).count()
    }

    /// All deliveries but those to observers, by host, slot and column.
    pub fn deliveries(&self) -> &[Delivery] {
        let nodes = self.base.get(self.observers_from as usize);
        &self.deliveries[..nodes.copied().unwrap_or(self.deliveries.len())]
    }

    /// For each host that waits for columns: when it had all of a slot's, in milliseconds after `published`; `None` if it
    /// never had.
    pub fn custody_ms(&self, slot: u32, published: u64) -> Vec<(u32, Option<f64>)> {
        let mut times = Vec::new();
        for (host, kept) in self.custody.iter().enumerate().take(self.observers_from as usize) {
            if host as u32 == self.publisher || kept.is_empty() {
                continue;
            }
            let start = self.base[host] + slot as usize * kept.len();
            let last = self.deliveries[start..start + kept.len()].iter().map(|delivery| delivery.at).max();
            let last = last.filter(|at| *at != u64::MAX).map(|at| (at - published) as f64 / 1e6);
            times.push((host as u32, last));
        }
        times
    }
}
