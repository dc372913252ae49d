//! Deliveries as they happen, in one small record for each node, message and slot.

use samara_engine::Time;

/// A message that a node is waiting for, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The node.
    pub node: u32,
    /// The publication it belongs to, counted from 0.
    pub slot: u16,
    /// The message's number within it.
    pub column: u16,
    /// When the application got it, in nanoseconds after the publication; [`Delivery::NEVER`] if it did not.
    pub after_nanos: u64,
    /// Who sent the first copy; [`Delivery::NOBODY`] if none came.
    pub from: u32,
    /// Links between the publisher and the node on the way that it came.
    pub hops: u16,
    /// Copies received so far, the first included.
    pub copies: u16,
    /// When the last copy came, in nanoseconds after the publication; [`Delivery::NEVER`] without one.
    pub last_copy_nanos: u64,
}

impl Delivery {
    /// Stands for a time that did not come.
    pub const NEVER: u64 = u64::MAX;
    /// Stands for no host.
    pub const NOBODY: u32 = u32::MAX;

    /// Whether the message came.
    pub fn arrived(&self) -> bool {
        self.after_nanos != Self::NEVER
    }

    /// Milliseconds from the publication to the delivery.
    pub fn after_ms(&self) -> Option<f64> {
        self.arrived().then(|| self.after_nanos as f64 / 1e6)
    }
}

/// Takes what happens in a run: who is waiting for what is fixed from the start.
#[derive(Debug)]
pub struct Collector {
    publisher: u32,
    observer: Option<u32>,
    /// By slot: when it was published.
    published_at: Vec<Time>,
    /// By node: where its entries of a slot start; one more for the end.
    first: Vec<u32>,
    /// The columns of all nodes, one after the other, sorted for each node.
    columns: Vec<u16>,
    /// By slot, then as `columns`.
    deliveries: Vec<Delivery>,
    /// By slot: entries (of nodes that are waited for) without delivery.
    missing: Vec<usize>,
    last_copy_at: Time,
    digest: u64,
}

impl Collector {
    /// A collector for nodes that wait for these columns in each of the slots. The publisher and a node that only observes are
    /// not waited for.
    pub fn new(custody: &[Vec<u16>], publisher: u32, observer: Option<u32>, published_at: Vec<Time>) -> Self {
        let mut first = vec![0];
        let mut columns = Vec::new();
        let mut deliveries = Vec::new();
        for own in custody {
            let mut own = own.clone();
            own.sort_unstable();
            columns.extend(own);
            first.push(columns.len() as u32);
        }
        let mut awaited = 0;
        for slot in 0..published_at.len() as u16 {
            awaited = 0;
            for node in 0..custody.len() as u32 {
                let range = first[node as usize] as usize..first[node as usize + 1] as usize;
                awaited += if node == publisher || Some(node) == observer { 0 } else { range.len() };
                deliveries.extend(columns[range].iter().map(|column| Delivery {
                    node,
                    slot,
                    column: *column,
                    after_nanos: Delivery::NEVER,
                    from: Delivery::NOBODY,
                    hops: 0,
                    copies: 0,
                    last_copy_nanos: Delivery::NEVER,
                }));
            }
        }
        let missing = vec![awaited; published_at.len()];
        let digest = 0xcbf2_9ce4_8422_2325;
        let last_copy_at = Time::ZERO;
        Self { publisher, observer, published_at, first, columns, deliveries, missing, last_copy_at, digest }
    }

    fn entry(&self, node: u32, slot: u16, column: u16) -> Option<usize> {
        let (start, end) = (self.first[node as usize] as usize, self.first[node as usize + 1] as usize);
        let at = self.columns[start..end].binary_search(&column).ok()?;
        Some(usize::from(slot) * self.columns.len() + start + at)
    }

    /// A node got a message, from another or (`None`) from itself.
    pub fn delivered(&mut self, at: Time, node: u32, slot: u16, column: u16, from: Option<u32>) {
        let Some(entry) = self.entry(node, slot, column) else { return };
        let hops = from
            .and_then(|from| self.entry(from, slot, column))
            .map_or(u16::from(from.is_some()), |entry| self.deliveries[entry].hops.saturating_add(1));
        let published_at = self.published_at[usize::from(slot)];
        let delivery = &mut self.deliveries[entry];
        // A host that was restarted gets what it had again: the first time counts.
        if delivery.arrived() {
            return;
        }
        delivery.after_nanos = at.since(published_at).as_nanos() as u64;
        delivery.hops = hops;
        delivery.from = from.unwrap_or(Delivery::NOBODY);
        if node != self.publisher && Some(node) != self.observer {
            self.missing[usize::from(slot)] -= 1;
        }
        for word in [u64::from(node) << 32 | u64::from(slot) << 16 | u64::from(column), at.as_nanos()] {
            // FNV-1a over words: tells runs apart, no more.
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    /// A node received a copy of a message: the first one or another.
    pub fn copy(&mut self, at: Time, node: u32, slot: u16, column: u16) {
        self.last_copy_at = at;
        let Some(entry) = self.entry(node, slot, column) else { return };
        let delivery = &mut self.deliveries[entry];
        delivery.copies = delivery.copies.saturating_add(1);
        delivery.last_copy_nanos = at.since(self.published_at[usize::from(slot)]).as_nanos() as u64;
    }

    /// Whether everybody has everything of a slot.
    pub fn is_complete(&self, slot: usize) -> bool {
        self.missing[slot] == 0
    }

    /// When the last copy of any message was received.
    pub fn last_copy_at(&self) -> Time {
        self.last_copy_at
    }

    /// A digest of all deliveries in their order: node, message and time.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The publishing node.
    pub fn publisher(&self) -> u32 {
        self.publisher
    }

    /// What is known of all messages that nodes wait for, by slot, node and column.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// The same, given away.
    pub fn into_deliveries(self) -> Vec<Delivery> {
        self.deliveries
    }
}
