//! The source, time and node of each transaction.
//!
//! The seed determines them; in a closed loop, so do the committed blocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::application::{Header, TxNumber};
use crate::section::{Placement, Transactions};
use samara_cat::Transaction;
use samara_engine::{NodeRng, Purpose};
use samara_scenario::Arrivals;

use crate::measure::{TxCollector, Uptime};

/// Number of blocks without its transaction after which a client gives it up and submits another.
const PATIENCE_BLOCKS: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct Submission {
    /// Time of submission, in nanoseconds of the run.
    pub(super) at: u64,
    pub(super) node: u32,
    pub(super) transaction: Transaction,
    /// Whether applications accept it.
    pub(super) valid: bool,
}

/// The clients of a closed loop, or the source of transactions at a rate.
#[derive(Debug)]
pub(super) struct Clients {
    workload: Transactions,
    nodes: Vec<u32>,
    /// The place in `nodes` of each client.
    homes: Vec<usize>,
    uptime: Uptime,
    rng: NodeRng,
    /// Draws contents from a separate stream, so that they do not depend on the intervals of
    /// `before`.
    contents: NodeRng,
    /// The time of each client's submission or, with a rate, of the next one.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// The last transaction of each client, and the number of blocks since.
    last: Vec<Option<(TxNumber, u32)>>,
    sequence: Vec<u32>,
    number: TxNumber,
    /// With a rate, the time of the next transaction.
    next_at: f64,
}

impl Clients {
    /// Creates the clients of a workload, at honest nodes.
    pub(super) fn new(workload: &Transactions, uptime: Uptime, seed: u64) -> Self {
        let nodes: Vec<u32> =
            (0..).zip(&uptime.honest).filter(|(_, honest)| **honest).map(|(node, _)| node).collect();
        let clients = workload.closed_loop().unwrap_or(0);
        // A stream of its own: placements change no times.
        let mut places = NodeRng::new(seed, 7, Purpose::Workload);
        let home = |client: u32| match workload.placement.unwrap_or(Placement::Even) {
            Placement::Even => client as usize % nodes.len(),
            Placement::Random => places.index(nodes.len()),
        };
        let homes = (0..clients).map(home).collect();
        let mut this = Self {
            rng: NodeRng::new(seed, 4, Purpose::Workload),
            contents: NodeRng::new(seed, 5, Purpose::Workload),
            due: BinaryHeap::new(),
            last: vec![None; clients as usize],
            sequence: vec![0; Self::signer_count(workload, uptime.honest.len()) as usize],
            number: 0,
            next_at: workload.warm_up.nanos() as f64,
            workload: workload.clone(),
            nodes,
            homes,
            uptime,
        };
        (0..clients).for_each(|client| this.schedule(client, workload.warm_up.nanos()));
        this
    }

    /// Returns the number of signers: the clients or, with a rate, those of the scenario or the nodes.
    pub(super) fn signer_count(workload: &Transactions, nodes: usize) -> u32 {
        workload.closed_loop().or(workload.signers).unwrap_or(nodes as u32)
    }

    /// Schedules the next transaction of a client at a random time within the spread from `from`.
    fn schedule(&mut self, client: u32, from: u64) {
        let at = from + self.rng.below(self.workload.spread().nanos().max(1));
        if at < self.workload.end_nanos() {
            self.due.push(Reverse((at, client)));
        }
    }

    /// Returns the submissions before `until`, in order of time. Calls must have ascending times.
    pub(super) fn before(&mut self, until: u64) -> Vec<Submission> {
        if let Some(rate) = self.workload.rate {
            self.draw(rate, until);
        }
        let mut submissions = Vec::new();
        while let Some(Reverse((at, client))) = self.due.peek().copied().filter(|due| due.0.0 < until) {
            self.due.pop();
            submissions.push(self.submission(at, client));
        }
        submissions
    }

    fn draw(&mut self, rate: f64, until: u64) {
        let (interval, until) = (1e9 / rate, until.min(self.workload.end_nanos()));
        while (self.next_at.round() as u64) < until {
            let sources = self.workload.signers.map_or(self.nodes.len(), |signers| signers as usize);
            let source = self.rng.index(sources);
            self.due.push(Reverse((self.next_at.round() as u64, source as u32)));
            self.next_at += match self.workload.arrivals() {
                Arrivals::Even => interval,
                Arrivals::Poisson => self.rng.exponential(interval),
            };
        }
    }

    fn submission(&mut self, at: u64, client: u32) -> Submission {
        let number = self.number;
        self.number += 1;
        // Clients of a node that is down use the next one; with a rate, `client` is the place or the
        // signer.
        let first = self.homes.get(client as usize).map_or(client as usize % self.nodes.len(), |home| *home);
        let next = (first..self.nodes.len()).chain(0..first).map(|place| self.nodes[place]);
        let node = next.clone().find(|node| self.uptime.is_up(*node, at)).unwrap_or(self.nodes[first]);
        let closed = self.workload.rate.is_none();
        let signer = if closed || self.workload.signers.is_some() { client } else { node };
        let valid = !self.contents.chance(self.workload.invalid.fraction());
        let header = Header {
            valid,
            number,
            signer,
            sequence: self.sequence[signer as usize],
            priority: self.contents.below(u64::from(self.workload.priorities)) as u32,
            gas: self.workload.gas,
        };
        if closed {
            self.last[client as usize] = Some((number, 0));
        } else if valid {
            self.sequence[signer as usize] += 1;
        }
        let transaction = header.transaction(self.workload.size.bytes());
        Submission { at, node, transaction, valid }
    }

    /// Handles the commit of a block: clients whose transactions it contains, or that gave theirs
    /// up, submit again.
    ///
    /// In a closed loop, a block uses the sequence number of its transaction. The number of a lost
    /// transaction is used again.
    pub(super) fn block(&mut self, at: u64, collector: &TxCollector) {
        for client in 0..self.last.len() as u32 {
            let Some((number, blocks)) = self.last[client as usize] else { continue };
            let row = &collector.rows[number as usize];
            if row.is_committed() {
                self.sequence[client as usize] += 1;
            }
            // The submission lies in the future of this block, so the client must wait.
            if row.submitted >= at {
                continue;
            }
            let over = row.is_committed() || row.refused || blocks + 1 >= PATIENCE_BLOCKS;
            self.last[client as usize] = if over { None } else { Some((number, blocks + 1)) };
            if over {
                self.schedule(client, at);
            }
        }
    }

    /// Returns true if no submission follows `now`.
    pub(super) fn is_done(&self, now: u64) -> bool {
        self.due.is_empty() && now >= self.workload.end_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samara_engine::units::Span;

    fn uptime(nodes: usize) -> Uptime {
        Uptime { honest: vec![true; nodes], down: vec![Vec::new(); nodes] }
    }

    fn all(clients: &mut Clients, collector: &mut TxCollector, until: u64) -> Vec<(u64, u32)> {
        let submissions = clients.before(until);
        for submission in &submissions {
            collector.submitted(
                submission.transaction.key(),
                submission.at,
                submission.node,
                submission.valid,
            );
        }
        submissions.iter().map(|submission| (submission.at, submission.node)).collect()
    }

    #[test]
    fn clients_submit_again_after_blocks() {
        let workload = Transactions {
            clients: Some(30),
            spread: Some(Span::from_millis(4_000)),
            ..Transactions::default()
        };
        let mut collector = TxCollector::new(10);
        let mut clients = Clients::new(&workload, uptime(10), 1);
        let first = all(&mut clients, &mut collector, 20_000_000_000);
        assert_eq!(first.len(), 30, "each client once before the first block");
        assert!(first.is_sorted() && first.iter().all(|(at, _)| (5_000_000_000..9_000_000_000).contains(at)));
        assert!((0..10).all(|node| first.iter().filter(|(_, other)| *other == node).count() == 3));
        // A block contains half of them; the others wait for a limited time.
        (0..15).for_each(|number| collector.committed(number, 20_000_000_000));
        clients.block(20_000_000_000, &collector);
        assert_eq!(all(&mut clients, &mut collector, 30_000_000_000).len(), 15);
        (15..45)
            .filter(|number| *number >= 30)
            .for_each(|number| collector.committed(number, 35_000_000_000));
        for at in [35, 50, 65] {
            clients.block(at * 1_000_000_000, &collector);
        }
        let again = all(&mut clients, &mut collector, 80_000_000_000);
        assert_eq!(again.len(), 30, "lost and committed transactions");
        let mut other = Clients::new(&workload, uptime(10), 1);
        assert_eq!(
            all(&mut other, &mut TxCollector::new(10), 20_000_000_000),
            first,
            "the seed determines the submissions"
        );
        let mut other = Clients::new(&workload, uptime(10), 2);
        assert!(all(&mut other, &mut TxCollector::new(10), 20_000_000_000) != first);
    }

    /// With random homes, the number of clients of a node varies as a Poisson number does.
    #[test]
    fn placement_spreads_clients() {
        let counts = |placement| {
            let workload =
                Transactions { clients: Some(1_100), placement: Some(placement), ..Transactions::default() };
            let mut clients = Clients::new(&workload, uptime(100), 1);
            let nodes = all(&mut clients, &mut TxCollector::new(100), 20_000_000_000);
            let mut counts = vec![0_u32; 100];
            nodes.iter().for_each(|(_, node)| counts[*node as usize] += 1);
            counts
        };
        assert!(counts(Placement::Even).iter().all(|count| *count == 11));
        let random = counts(Placement::Random);
        let variance = random.iter().map(|count| (f64::from(*count) - 11.0).powi(2)).sum::<f64>() / 100.0;
        assert!(random.iter().sum::<u32>() == 1_100 && (7.0..16.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_signer_has_one_node_and_counts_its_transactions() {
        let workload = Transactions {
            rate: Some(40.0),
            signers: Some(7),
            duration: Span::from_millis(10_000),
            ..Transactions::default()
        };
        let mut next = [0; 7];
        for Submission { node, transaction, .. } in Clients::new(&workload, uptime(5), 1).before(u64::MAX) {
            let Header { signer, sequence, .. } = Header::of(&transaction).expect("a header");
            assert_eq!(node, signer % 5);
            assert_eq!(sequence, next[signer as usize]);
            next[signer as usize] += 1;
        }
        assert!(next.iter().sum::<u32>() == 400 && next.iter().all(|count| *count > 30), "{next:?}");
    }

    #[test]
    fn rate_is_kept_and_down_nodes_receive_nothing() {
        let workload =
            Transactions { rate: Some(40.0), duration: Span::from_millis(10_000), ..Transactions::default() };
        let mut uptime = uptime(10);
        uptime.down[3] = vec![(0, u64::MAX)];
        uptime.honest[4] = false;
        let mut clients = Clients::new(&workload, uptime.clone(), 1);
        let mut parts = all(&mut clients, &mut TxCollector::new(10), 9_000_000_000);
        parts.extend(all(&mut clients, &mut TxCollector::new(10), u64::MAX));
        assert_eq!(parts.len(), 400);
        assert_eq!((parts[0].0, parts[399].0), (5_000_000_000, 14_975_000_000));
        assert!(parts.iter().all(|(_, node)| *node != 3 && *node != 4));
        let mut whole = Clients::new(&workload, uptime.clone(), 1);
        assert_eq!(
            all(&mut whole, &mut TxCollector::new(10), u64::MAX),
            parts,
            "independent of the intervals"
        );
        let poisson = Transactions { arrivals: Some(Arrivals::Poisson), ..workload };
        let count = Clients::new(&poisson, uptime, 1).before(u64::MAX).len();
        assert!((300..500).contains(&count), "{count}");
    }
}
