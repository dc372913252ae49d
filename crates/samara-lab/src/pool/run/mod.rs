//! Transactions that clients submit, and the blocks that take them out of the pools.

mod clients;
mod totals;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use samara_cat::Misbehaviour;
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{ConnectionStats, HostStats, Simulation};

use crate::network::{self, Hosts};
use crate::pool::app::{Act, Block, Header, Node, Told, TxNumber};
use crate::pool::measure::{TxCollector, Uptime};
use crate::run::{Progress, QUIET_NANOS, RunError, RunOptions, schedule_faults, schedule_links, since};
use crate::scenario::{Point, Transactions};
use crate::statistics::Durations;
use crate::topology::{self, Graph};

pub use clients::{Clients, Submission};
pub use totals::Totals;
pub use world::roles;

/// How much of the run is simulated between two looks.
const SLICE_NANOS: u64 = 500_000_000;

/// What a run with transactions measured.
#[derive(Debug)]
pub struct TransactionsMeasured {
    /// What was run.
    pub point: Point,
    /// Submissions, additions to pools, and blocks.
    pub collector: TxCollector,
    /// Which nodes keep the rules, and when they are down.
    pub uptime: Uptime,
    /// What they counted.
    pub totals: Totals,
    /// Blocks.
    pub blocks: Vec<BlockRow>,
    /// From the proposal of a compact block until a node has all of its transactions.
    pub block_complete: Durations,
    /// Compact blocks whose transactions did not come to a node in time.
    pub blocks_given_up: u64,
    /// By what peers did.
    pub misbehaved: BTreeMap<Misbehaviour, u64>,
    /// The most keys that any honest node remembered.
    pub keys_max: u64,
    /// The most requests that any honest node remembered.
    pub requests_max: u64,
    /// The most transactions in the pool of any honest node.
    pub pool_txs_max: u64,
    /// What each host did from the first submission on.
    pub traffic: Vec<HostStats>,
    /// What the connections of each host wrote from the first submission on; empty without channels.
    pub connections: Vec<ConnectionStats>,
    /// The hosts.
    pub hosts: Hosts,
    /// Links of each node.
    pub degrees: Vec<u32>,
    /// From the first submission to the end of the measurement, in nanoseconds.
    pub measured_nanos: u64,
    /// When it ended, in nanoseconds of the run.
    pub end_nanos: u64,
    /// The digest of every packet.
    pub digest: u64,
    /// Steps of the simulation.
    pub steps: u64,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// When it was committed, in nanoseconds of the run.
    pub at: u64,
    /// Who proposed it.
    pub proposer: u32,
    /// Its transactions.
    pub txs: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Runs a point.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: impl FnMut(Progress),
) -> Result<TransactionsMeasured, RunError> {
    let scenario = &point.scenario;
    let workload = scenario.transactions.clone().unwrap_or_default();
    let graph = topology::build(scenario, &[], options.inputs, point.seed).map_err(RunError::Scenario)?;
    let hosts = network::hosts(scenario, options.inputs, scenario.network.nodes, point.seed)
        .map_err(RunError::Scenario)?;
    let uptime = world::uptime(scenario, point.seed);
    let mut sim = world::simulation(point, options, &hosts, &workload)?;
    let mut rng = NodeRng::new(point.seed, 2, Purpose::Topology);
    schedule_links(&mut sim, scenario, &mut rng, graph.edges.iter().copied());
    schedule_faults(&mut sim, scenario, point.seed, &hosts);
    let mut driver = Driver::new(sim, workload, uptime, point.seed);
    driver.run(options, progress)?;
    Ok(driver.measured(point, hosts, &graph))
}

/// The nodes in the order in which they propose blocks: drawn from the seed, so that a testbed does the same as a simulation. The block
/// of height h is proposed by the one in place h, modulo their number.
pub fn proposers(uptime: &Uptime, seed: u64) -> Vec<u32> {
    let honest = (0..).zip(&uptime.honest).filter(|(_, honest)| **honest);
    let mut proposers: Vec<u32> = honest.map(|(node, _)| node).collect();
    NodeRng::new(seed, 6, Purpose::Workload).shuffle(&mut proposers);
    proposers
}

/// A simulation, and everything that happens in it from outside.
struct Driver {
    sim: Simulation<Node>,
    workload: Transactions,
    uptime: Uptime,
    clients: Clients,
    collector: TxCollector,
    /// Nodes in the order in which they propose blocks.
    proposers: Vec<u32>,
    height: u64,
    /// The block that was proposed and not committed yet, and the numbers of its transactions.
    proposed: Option<(Arc<Block>, BlockRow, Vec<TxNumber>)>,
    /// Times at which nodes go down, the last one first: before that, what they counted is noted.
    crashes: Vec<(u64, u32)>,
    totals: Totals,
    blocks: Vec<BlockRow>,
    seen: Seen,
    before: Vec<(HostStats, Option<ConnectionStats>)>,
    maxima: [u64; 3],
}

/// What nodes told beyond transactions.
#[derive(Default)]
struct Seen {
    complete: Durations,
    given_up: u64,
    misbehaved: BTreeMap<Misbehaviour, u64>,
    proposed_at: u64,
    height: u64,
}

impl Driver {
    fn new(sim: Simulation<Node>, workload: Transactions, uptime: Uptime, seed: u64) -> Self {
        let nodes = uptime.honest.len() as u32;
        let mut crashes: Vec<(u64, u32)> = (0..nodes)
            .flat_map(|node| uptime.down[node as usize].iter().map(move |(at, _)| (*at, node)))
            .collect();
        crashes.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            clients: Clients::new(&workload, uptime.clone(), seed),
            collector: TxCollector::new(nodes),
            proposers: proposers(&uptime, seed),
            height: 0,
            proposed: None,
            crashes,
            totals: Totals::default(),
            blocks: Vec::new(),
            seen: Seen::default(),
            before: Vec::new(),
            maxima: [0; 3],
            sim,
            workload,
            uptime,
        }
    }

    fn run(&mut self, options: RunOptions<'_>, mut progress: impl FnMut(Progress)) -> Result<(), RunError> {
        let first = self.workload.warm_up.nanos();
        let last = self.workload.end_nanos();
        let end = last + self.workload.cool_down.nanos();
        let interval = self.workload.block_interval.nanos();
        let mut commit_at = if interval == 0 { u64::MAX } else { first + interval };
        let mut propose_at = commit_at.saturating_sub(self.workload.consensus.nanos());
        let mut now = 0;
        while now < end {
            if options.stop.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            // Before a block is committed: nodes are to see the last one.
            if self.is_complete(now) {
                break;
            }
            if now == first {
                self.note_traffic();
            }
            if now == propose_at {
                self.propose(now);
                propose_at += interval;
            }
            if now == commit_at {
                self.commit(now);
                commit_at += interval;
            }
            self.note_crashes(now);
            let crash = self.crashes.last().map_or(u64::MAX, |(at, _)| *at);
            let milestones = [propose_at, commit_at, crash, end, first];
            let next = milestones.into_iter().filter(|at| *at > now).fold(now + SLICE_NANOS, u64::min);
            self.submit(next);
            self.advance(next);
            now = next;
            progress(self.how_far(now as f64 / end as f64));
        }
        progress(self.how_far(1.0));
        Ok(())
    }

    fn how_far(&self, share: f64) -> Progress {
        Progress {
            share,
            virtual_nanos: Some(self.sim.now().as_nanos()),
            deliveries: Some(self.collector.deliveries()),
            // Clients decide on their way what they submit.
            deliveries_expected: None,
            copies: None,
            steps: Some(self.sim.steps()),
        }
    }

    fn submit(&mut self, until: u64) {
        for Submission { at, node, transaction, valid } in self.clients.before(until) {
            self.collector.submitted(transaction.key(), at, node, valid);
            self.sim.command(Time::from_nanos(at), node, Act::Submit(transaction));
        }
    }

    fn advance(&mut self, until: u64) {
        let Self { sim, collector, seen, .. } = self;
        sim.run_until(Time::from_nanos(until), |record| match record.event {
            Told::Added(key) => {
                collector.added(&key, record.host, record.at.as_nanos());
            }
            Told::Refused(key) => collector.refused(&key),
            Told::BlockComplete { height } if height == seen.height => {
                seen.complete.add(record.at.as_nanos() - seen.proposed_at);
            }
            Told::BlockComplete { .. } => {}
            Told::BlockGivenUp => seen.given_up += 1,
            Told::Misbehaved(why) => *seen.misbehaved.entry(why).or_default() += 1,
        });
    }

    /// The next node in turn that runs chooses the transactions of a block.
    fn propose(&mut self, now: u64) {
        self.note_maxima();
        self.height += 1;
        let turn = self.height as usize % self.proposers.len();
        let (before, after) = self.proposers.split_at(turn);
        let up = |node: &&u32| self.sim.is_running(**node);
        let Some(proposer) = after.iter().chain(before).find(up).copied() else { return };
        let (max_bytes, max_gas) =
            (self.workload.block_size.bytes(), self.workload.block_gas.unwrap_or(u64::MAX));
        let Some(cat) = self.sim.node(proposer).cat() else { return };
        let txs = cat.pool().reap(max_bytes, max_gas);
        let headers: Vec<Header> = txs.iter().filter_map(Header::of).collect();
        let used = headers.iter().filter(|_| self.workload.signed);
        let row = BlockRow {
            at: now + self.workload.consensus.nanos(),
            proposer,
            txs: txs.len() as u32,
            bytes: txs.iter().map(|tx| tx.len() as u64).sum(),
        };
        let block = Block {
            height: self.height,
            keys: txs.iter().map(samara_cat::Transaction::key).collect(),
            accounts: used.map(|header| (header.signer, header.sequence)).collect(),
        };
        if self.workload.consensus.nanos() > 0 {
            (self.seen.proposed_at, self.seen.height) = (now, self.height);
            self.sim.command(
                Time::from_nanos(now),
                proposer,
                Act::Propose { height: self.height, max_bytes, max_gas },
            );
        }
        let numbers = headers.iter().map(|header| header.number).collect();
        self.proposed = Some((Arc::new(block), row, numbers));
    }

    /// All nodes commit the block at once.
    fn commit(&mut self, now: u64) {
        if let Some((block, row, numbers)) = self.proposed.take() {
            for node in 0..self.uptime.honest.len() as u32 {
                self.sim.command(Time::from_nanos(now), node, Act::Commit(Arc::clone(&block)));
            }
            numbers.into_iter().for_each(|number| self.collector.committed(number, now));
            self.blocks.push(row);
        }
        self.clients.block(now, &self.collector);
    }

    fn note_traffic(&mut self) {
        let nodes = 0..self.uptime.honest.len() as u32;
        self.before =
            nodes.map(|node| (*self.sim.stats(node), self.sim.connection_stats(node).cloned())).collect();
    }

    /// Whatever a node counted is gone when it goes down.
    fn note_crashes(&mut self, now: u64) {
        while let Some((_, node)) = self.crashes.pop_if(|(at, _)| *at <= now) {
            if self.sim.is_running(node) {
                self.totals.add(self.sim.node(node));
            }
        }
    }

    fn note_maxima(&mut self) {
        let cats = (0..self.uptime.honest.len() as u32).filter_map(|node| self.sim.node(node).cat());
        for cat in cats {
            let now = [cat.keys(), cat.outstanding(), cat.pool().len()];
            for (most, now) in self.maxima.iter_mut().zip(now) {
                *most = (*most).max(now as u64);
            }
        }
    }

    /// Whether every transaction has come to its end: in a block, or (without blocks) in every pool.
    fn is_complete(&self, now: u64) -> bool {
        let quiet = now > self.collector.latest().max(self.workload.end_nanos()) + QUIET_NANOS;
        let others = u64::from(self.uptime.honest_count());
        let ended = |row: &crate::pool::measure::TxRow| {
            row.is_committed()
                || row.refused
                || (self.workload.block_interval.nanos() == 0 && u64::from(row.pools) == others)
        };
        quiet && self.clients.is_done(now) && self.collector.rows().iter().all(ended)
    }

    fn measured(mut self, point: &Point, hosts: Hosts, graph: &Graph) -> TransactionsMeasured {
        self.note_maxima();
        let end = self.sim.now().as_nanos();
        let nodes = self.uptime.honest.len() as u32;
        for node in (0..nodes).filter(|node| self.sim.is_running(*node)) {
            self.totals.add(self.sim.node(node));
        }
        let connection = |node| {
            let now = self.sim.connection_stats(node)?;
            let before = self.before.get(node as usize).and_then(|(_, before)| before.as_ref());
            Some(before.map_or_else(|| now.clone(), |before| now.since(before)))
        };
        TransactionsMeasured {
            point: point.clone(),
            traffic: (0..nodes)
                .map(|node| {
                    since(self.sim.stats(node), self.before.get(node as usize).map(|(before, _)| before))
                })
                .collect(),
            connections: (0..nodes).filter_map(connection).collect(),
            measured_nanos: end.saturating_sub(self.workload.warm_up.nanos()),
            end_nanos: end,
            degrees: graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            digest: self.sim.digest(),
            steps: self.sim.steps(),
            keys_max: self.maxima[0],
            requests_max: self.maxima[1],
            pool_txs_max: self.maxima[2],
            collector: self.collector,
            uptime: self.uptime,
            totals: self.totals,
            blocks: self.blocks,
            block_complete: self.seen.complete,
            blocks_given_up: self.seen.given_up,
            misbehaved: self.seen.misbehaved,
            hosts,
        }
    }
}
