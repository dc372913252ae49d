//! Collects additions to pools, and derives figures of each transaction and node.

use crate::application::TxNumber;
use rustc_hash::FxHashMap;
use samara_cat::TxKey;
use samara_lab::statistics::Durations;
use samara_scenario::Point;

use samara_lab::results::{Deliveries, DeliveryRow, NOBODY, Spread};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxRow {
    /// Time of submission, in nanoseconds of the run.
    pub submitted: u64,
    /// The node that received it from the client.
    pub origin: u32,
    /// Whether applications accept it.
    pub valid: bool,
    /// Whether that node refused it.
    pub refused: bool,
    /// Number of nodes that have had it in their pools, including the origin.
    pub pools: u32,
    /// Time of the last addition to a pool.
    pub last_at: u64,
    /// Time of the commit of its block; `u64::MAX` if it is in no block.
    pub committed: u64,
}

impl TxRow {
    pub fn is_committed(&self) -> bool {
        self.committed != u64::MAX
    }

    /// Returns true if the transaction should reach all pools: it is valid, and its origin accepted it.
    pub fn is_spread(&self) -> bool {
        self.valid && !self.refused
    }

    /// Returns the milliseconds from submission to the last addition to a pool.
    pub fn dissemination_ms(&self) -> f64 {
        self.last_at.saturating_sub(self.submitted) as f64 / 1e6
    }
}

/// The honest nodes, and the times at which nodes are down.
#[derive(Clone, Debug, Default)]
pub struct Uptime {
    /// Whether each node follows the protocol.
    pub honest: Vec<bool>,
    /// The ranges of time in which each node is down.
    pub down: Vec<Vec<(u64, u64)>>,
}

impl Uptime {
    pub fn is_up(&self, node: u32, at: u64) -> bool {
        self.is_up_during(node, at, at)
    }

    /// Returns true if a node runs all the time from `from` to `until`.
    pub fn is_up_during(&self, node: u32, from: u64, until: u64) -> bool {
        self.down[node as usize].iter().all(|(start, end)| until < *start || from >= *end)
    }

    pub fn honest_count(&self) -> u32 {
        self.honest.iter().filter(|honest| **honest).count() as u32
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Pairs of a valid transaction and an honest node other than its origin that runs from the
    /// submission to the block.
    ///
    /// A transaction that no such node ever had was lost with its origin and counts in no pair.
    pub pairs: u64,
    /// Pairs in which the transaction came into the pool.
    pub by_pool: u64,
    /// Pairs in which a block brought the transaction first.
    pub by_block: u64,
    /// Transactions that did not reach all of these nodes.
    pub incomplete: u64,
    pub lost_with_origin: u64,
}

/// Collects submissions, additions to pools, and blocks.
#[derive(Debug, Default)]
pub struct TxCollector {
    nodes: u32,
    /// The number of each transaction. It is never iterated over, and its keys come from trusted
    /// clients.
    numbers: FxHashMap<TxKey, TxNumber>,
    /// The figures of each transaction, by number.
    pub rows: Vec<TxRow>,
    /// A bit for each transaction and node: set once the transaction has been in the node's pool.
    had: Vec<u64>,
    words: usize,
    /// Times from a submission to an addition to the pool of another node.
    pub latency: Durations,
    /// Times from a submission to the commit of its block.
    pub inclusion: Durations,
    /// Time of the last addition to a pool.
    pub latest: u64,
    /// Additions to pools of other nodes.
    pub deliveries: Deliveries,
}

impl TxCollector {
    pub fn new(nodes: u32) -> Self {
        Self { nodes, words: (nodes as usize).div_ceil(64), ..Self::default() }
    }

    /// Records a future submission. Returns the transaction's number: the count of earlier calls.
    pub fn submitted(&mut self, key: TxKey, at: u64, origin: u32, valid: bool) -> TxNumber {
        let number = self.rows.len() as TxNumber;
        self.numbers.insert(key, number);
        self.rows.push(TxRow {
            submitted: at,
            origin,
            valid,
            refused: false,
            pools: 0,
            last_at: at,
            committed: u64::MAX,
        });
        self.had.resize(self.rows.len() * self.words, 0);
        number
    }

    /// Records an addition to a pool, of a transaction that the node `from` sent. Returns false for a
    /// repeated addition, or if no client submitted the transaction.
    pub fn added(&mut self, key: &TxKey, node: u32, from: Option<u32>, at: u64) -> bool {
        let Some(number) = self.numbers.get(key).copied() else { return false };
        let word = &mut self.had[number as usize * self.words + node as usize / 64];
        let bit = 1 << (node % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        let row = &mut self.rows[number as usize];
        row.pools += 1;
        row.last_at = row.last_at.max(at);
        if node != row.origin {
            let nanos = at.saturating_sub(row.submitted);
            self.latency.add(nanos);
            let from = from.unwrap_or(NOBODY);
            self.deliveries.add(DeliveryRow { item: number, nanos, node, from, detail: 0 });
        }
        self.latest = self.latest.max(at);
        true
    }

    /// Returns the number of a transaction that a client submitted.
    pub fn number(&self, key: &TxKey) -> Option<TxNumber> {
        self.numbers.get(key).copied()
    }

    /// Records that the origin refused a transaction.
    pub fn refused(&mut self, key: &TxKey) {
        if let Some(number) = self.numbers.get(key) {
            self.rows[*number as usize].refused = true;
        }
    }

    /// Records the commit of a block with this transaction.
    pub fn committed(&mut self, number: TxNumber, at: u64) {
        let row = &mut self.rows[number as usize];
        row.committed = at;
        self.inclusion.add(at.saturating_sub(row.submitted));
    }

    /// Returns true if a transaction has been in a node's pool.
    pub fn has_been(&self, number: TxNumber, node: u32) -> bool {
        self.had[number as usize * self.words + node as usize / 64] & (1 << (node % 64)) != 0
    }

    /// Returns the way of some valid transactions to the pools of honest nodes.
    pub(crate) fn spread(&self, point: &Point, uptime: &Uptime) -> Spread {
        let valid = (0..).zip(&self.rows).filter(|(_, row)| row.is_spread());
        let transactions = valid.map(|(number, row)| (number, row.origin));
        self.deliveries.spread(point, transactions, |row| row.item, |node| uptime.honest[node as usize])
    }

    /// Counts the deliveries of transactions to nodes until `end`.
    pub fn reach(&self, uptime: &Uptime, end: u64) -> Reach {
        let mut reach = Reach::default();
        for (row, nodes) in self.pairs(uptime, end) {
            let Some(nodes) = nodes else {
                reach.lost_with_origin += 1;
                continue;
            };
            let pairs = nodes.len() as u64;
            let by_pool = nodes.iter().filter(|(_, had)| *had).count() as u64;
            reach.pairs += pairs;
            reach.by_pool += by_pool;
            if row.is_committed() {
                reach.by_block += pairs - by_pool;
            } else {
                reach.incomplete += u64::from(pairs > by_pool);
            }
        }
        reach
    }

    /// Returns the pairs of [`Reach`]: the node of each, and whether it got the transaction.
    pub fn reached<'a>(&'a self, uptime: &'a Uptime, end: u64) -> impl Iterator<Item = (u32, bool)> + 'a {
        let of_row = |(row, nodes): (&'a TxRow, Option<Vec<(u32, bool)>>)| {
            let nodes = nodes.into_iter().flatten();
            nodes.map(|(node, had)| (node, had || row.is_committed()))
        };
        self.pairs(uptime, end).flat_map(of_row)
    }

    /// Returns the nodes that count for each valid transaction, and whether they had it in their pools;
    /// `None` if it was lost with its origin.
    fn pairs<'a>(
        &'a self,
        uptime: &'a Uptime,
        end: u64,
    ) -> impl Iterator<Item = (&'a TxRow, Option<Vec<(u32, bool)>>)> + 'a {
        let valid = (0..).zip(&self.rows).filter(|(_, row)| row.is_spread());
        valid.map(move |(number, row)| {
            let until = row.committed.min(end);
            let stays = |node: &u32| {
                uptime.honest[*node as usize] && uptime.is_up_during(*node, row.submitted, until)
            };
            let others = (0..self.nodes).filter(|node| *node != row.origin).filter(stays);
            let nodes: Vec<(u32, bool)> = others.map(|node| (node, self.has_been(number, node))).collect();
            let is_somewhere = nodes.iter().any(|(_, had)| *had) || stays(&row.origin) || row.is_committed();
            (row, is_somewhere.then_some(nodes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samara_lab::statistics::Statistics;

    fn key(number: u8) -> TxKey {
        TxKey::of(&[number])
    }

    fn uptime(nodes: usize) -> Uptime {
        Uptime { honest: vec![true; nodes], down: vec![Vec::new(); nodes] }
    }

    #[test]
    fn additions_make_rows() {
        let mut collector = TxCollector::new(70);
        assert_eq!(collector.submitted(key(0), 1_000_000, 3, true), 0);
        assert!(collector.added(&key(0), 3, None, 1_000_000));
        assert!(collector.added(&key(0), 69, Some(3), 3_000_000));
        assert!(!collector.added(&key(0), 69, Some(3), 4_000_000), "a repeated addition");
        assert!(!collector.added(&key(9), 1, None, 4_000_000), "an unknown transaction");
        assert_eq!((collector.deliveries.count(), collector.latest), (1, 3_000_000));
        assert!(collector.has_been(0, 69) && !collector.has_been(0, 5));
        let row = collector.rows[0];
        assert_eq!((row.pools, row.last_at, row.is_committed()), (2, 3_000_000, false));
        collector.committed(0, 9_000_000);
        let reach = collector.reach(&uptime(70), 10_000_000);
        assert_eq!((reach.pairs, reach.by_pool, reach.by_block, reach.incomplete), (69, 1, 68, 0));
        assert!((Statistics::of_durations(&collector.inclusion).unwrap().mean - 8.0).abs() < 0.1);
        assert!((Statistics::of_durations(&collector.latency).unwrap().mean - 2.0).abs() < 0.1);
    }

    #[test]
    fn only_honest_nodes_that_stay_count() {
        let mut collector = TxCollector::new(4);
        collector.submitted(key(0), 10, 0, true);
        collector.added(&key(0), 0, None, 10);
        collector.added(&key(0), 1, Some(0), 20);
        let mut uptime = uptime(4);
        uptime.honest[2] = false;
        assert_eq!(collector.reach(&uptime, 100).incomplete, 1, "node 3 lacks it");
        uptime.down[3] = vec![(15, 50)];
        let reach = collector.reach(&uptime, 100);
        assert_eq!((reach.pairs, reach.by_pool, reach.incomplete), (1, 1, 0));
        assert!(!uptime.is_up(3, 15) && uptime.is_up(3, 50) && uptime.is_up(3, 14));
        // Only a node that went down had the second transaction.
        collector.submitted(key(1), 10, 3, true);
        collector.added(&key(1), 3, None, 10);
        assert_eq!(collector.reach(&uptime, 100).lost_with_origin, 1);
    }
}
