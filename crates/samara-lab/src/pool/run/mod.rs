//! A run with transactions that clients submit, and blocks that remove them from the pools.

mod clients;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use samara_apps::Durations;
use samara_apps::pool::{Act, Block, Header, Node, NodeEvent, TxNumber, contents};
use samara_cat::pool::PoolMetrics;
use samara_cat::{CatFrame, Metrics, Misbehaviour};
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{ConnectionStats, HostStats, Origin, Record};

use crate::explain::{ContentsOf, Delivered, Explained, MainTime};
use crate::network::{self, Hosts};
use crate::pool::measure::{TxCollector, TxRow, Uptime};
use crate::run::{Net, Progress, QUIET_NANOS, RunError, RunOptions, Setup, Step, Stepped, simulate};
use samara_scenario::topology::Graph;
use samara_spec::Point;
use samara_spec::pool::Transactions;

pub use clients::{Clients, Submission};
pub use world::roles;

/// Maximum virtual time between two checks of the run.
const SLICE_NANOS: u64 = 500_000_000;

#[derive(Debug)]
pub struct TransactionsMeasured {
    pub point: Point,
    pub collector: TxCollector,
    /// The honest nodes, and the times at which nodes are down.
    pub uptime: Uptime,
    pub totals: Totals,
    pub blocks: Vec<BlockRow>,
    /// Times from the proposal of a compact block until a node has all its transactions.
    pub block_complete: Durations,
    /// Compact blocks whose transactions did not reach a node in time.
    pub blocks_given_up: u64,
    /// Number of violations, by kind.
    pub misbehaved: BTreeMap<Misbehaviour, u64>,
    /// Maximum number of keys that an honest node remembered.
    pub keys_max: u64,
    /// Maximum number of requests that an honest node remembered.
    pub requests_max: u64,
    /// Maximum number of transactions in the pool of an honest node.
    pub pool_txs_max: u64,
    /// Maximum number of peers of an honest node with a free slot beside waiting requests.
    pub idle_slots_max: u64,
    /// Traffic of each host from the first submission on.
    pub traffic: Vec<HostStats>,
    /// Bytes written by the connections of each host from the first submission on; empty without
    /// channels.
    pub connections: Vec<ConnectionStats>,
    pub hosts: Hosts,
    /// Number of links of each node.
    pub degrees: Vec<u32>,
    /// Time from the first submission to the end of the measurement, in nanoseconds.
    pub measured_nanos: u64,
    /// End of the measurement, in nanoseconds of the run.
    pub end_nanos: u64,
    /// Digest of all packets, and number of steps of the simulation.
    pub digest: (u64, u64),
}

impl TransactionsMeasured {
    /// Explains the deliveries of a real run by the arrivals that its nodes report. An item is the
    /// number of a transaction.
    pub fn explained(&self, arrivals: samara_sim::Arrivals) -> Explained {
        Explained::of_traces(arrivals, self.delivered(), MainTime::default())
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.collector.deliveries.delivered(|row| {
            let TxRow { origin, submitted, .. } = self.collector.rows[row.item as usize];
            Origin { host: origin, at: submitted }
        })
    }

    /// Creates empty measurements of a run.
    pub fn new(point: &Point, hosts: Hosts, graph: &Graph, uptime: Uptime) -> Self {
        Self {
            point: point.clone(),
            collector: TxCollector::new(uptime.honest.len() as u32),
            uptime,
            totals: Totals::default(),
            blocks: Vec::new(),
            block_complete: Durations::default(),
            blocks_given_up: 0,
            misbehaved: BTreeMap::new(),
            keys_max: 0,
            requests_max: 0,
            pool_txs_max: 0,
            idle_slots_max: 0,
            traffic: Vec::new(),
            connections: Vec::new(),
            hosts,
            degrees: graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            measured_nanos: 0,
            end_nanos: 0,
            digest: (0, 0),
        }
    }
}

/// Sums of the counters of all honest nodes, including those of processes that crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub engine: Metrics,
    pub pool: PoolMetrics,
}

impl Totals {
    fn remove(&mut self, earlier: &Self) {
        self.engine.remove(&earlier.engine);
        self.pool.remove(&earlier.pool);
    }

    /// Adds the counters of a node since its start; nodes with an adversary in place of a pool add
    /// nothing.
    pub fn add(&mut self, node: &Node) {
        if let Some(cat) = node.cat() {
            self.engine.add(cat.metrics());
            self.pool.add(cat.pool().metrics());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Time of the commit, in nanoseconds of the run.
    pub at: u64,
    pub proposer: u32,
    pub txs: u32,
    pub bytes: u64,
}

pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<TransactionsMeasured, RunError> {
    let scenario = &point.scenario;
    let workload = scenario.part::<Transactions>().clone();
    let (graph, _) = network::graph(scenario, options.inputs, point.seed).map_err(RunError::Failed)?;
    let setup = Setup::new(point, options, scenario.network.nodes)?;
    let uptime = world::uptime(scenario, point.seed);
    let mut net = world::network(&setup, &workload)?;
    setup.schedule_links(&mut net, &mut setup.links_rng(), graph.edges.iter().copied());
    setup.schedule_faults(&mut net);
    let measured = TransactionsMeasured::new(point, setup.hosts, &graph, uptime);
    let run = Run::new(workload, measured);
    simulate(run, &mut net, options, |_, done| progress(done))
}

/// Returns the nodes in the order in which they propose blocks.
///
/// The seed determines it, so that a testbed uses the same order as a simulation. The node at place
/// h, modulo their number, proposes the block of height h.
pub fn proposers(uptime: &Uptime, seed: u64) -> Vec<u32> {
    let honest = (0..).zip(&uptime.honest).filter(|(_, honest)| **honest);
    let mut proposers: Vec<u32> = honest.map(|(node, _)| node).collect();
    NodeRng::new(seed, 6, Purpose::Workload).shuffle(&mut proposers);
    proposers
}

struct Run {
    workload: Transactions,
    measured: TransactionsMeasured,
    clients: Clients,
    /// The nodes in the order in which they propose blocks.
    proposers: Vec<u32>,
    height: u64,
    /// Times of the next proposal and the next commit.
    propose_at: u64,
    commit_at: u64,
    /// The proposed block before its commit, and the numbers of its transactions.
    proposed: Option<(Arc<Block>, BlockRow, Vec<TxNumber>)>,
    /// Future crashes, the last one first. The run adds a node's counters before its crash.
    crashes: Vec<(u64, u32)>,
    /// Counters of the nodes at the first submission.
    totals_before: Totals,
    /// Height and time of the last proposal, if consensus takes time.
    compact: (u64, u64),
    before: Vec<HostStats>,
    connections_before: Vec<Option<ConnectionStats>>,
}

impl Run {
    fn new(workload: Transactions, measured: TransactionsMeasured) -> Self {
        let (uptime, seed) = (&measured.uptime, measured.point.seed);
        let down = (0..).zip(&uptime.down);
        let mut crashes: Vec<(u64, u32)> =
            down.flat_map(|(node, times)| times.iter().map(move |(at, _)| (*at, node))).collect();
        crashes.sort_unstable_by(|a, b| b.cmp(a));
        let interval = workload.block_interval.nanos();
        let commit_at = if interval == 0 { u64::MAX } else { workload.warm_up.nanos() + interval };
        Self {
            clients: Clients::new(&workload, uptime.clone(), seed),
            proposers: proposers(uptime, seed),
            height: 0,
            propose_at: commit_at.saturating_sub(workload.consensus.nanos()),
            commit_at,
            proposed: None,
            crashes,
            compact: (0, 0),
            before: Vec::new(),
            connections_before: Vec::new(),
            totals_before: Totals::default(),
            workload,
            measured,
        }
    }

    fn end_at(&self) -> u64 {
        self.workload.end_nanos() + self.workload.cool_down.nanos()
    }

    fn submit(&mut self, until: u64, net: &mut Net<'_, Node>) {
        for Submission { at, node, transaction, valid } in self.clients.before(until) {
            self.measured.collector.submitted(transaction.key(), at, node, valid);
            net.sim.command(Time::from_nanos(at), node, Act::Submit(transaction));
        }
    }

    /// Lets the next running node in turn choose the transactions of a block.
    fn propose(&mut self, now: u64, net: &mut Net<'_, Node>) {
        self.note_maxima(net);
        self.height += 1;
        let turn = self.height as usize % self.proposers.len();
        let (before, after) = self.proposers.split_at(turn);
        let up = |node: &&u32| net.sim.is_running(**node);
        let Some(proposer) = after.iter().chain(before).find(up).copied() else { return };
        let (max_bytes, max_gas) =
            (self.workload.block_size.bytes(), self.workload.block_gas.unwrap_or(u64::MAX));
        let Some(cat) = net.sim.node(proposer).cat() else { return };
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
            self.compact = (self.height, now);
            let act = Act::Propose { height: self.height, max_bytes, max_gas };
            net.sim.command(Time::from_nanos(now), proposer, act);
        }
        // A hostile node can have made a transaction that no client submitted.
        let numbers = block.keys.iter().filter_map(|key| self.measured.collector.number(key)).collect();
        self.proposed = Some((Arc::new(block), row, numbers));
    }

    fn commit(&mut self, now: u64, net: &mut Net<'_, Node>) {
        if let Some((block, row, numbers)) = self.proposed.take() {
            for node in net.hosts() {
                net.sim.command(Time::from_nanos(now), node, Act::Commit(Arc::clone(&block)));
            }
            numbers.into_iter().for_each(|number| self.measured.collector.committed(number, now));
            self.measured.blocks.push(row);
        }
        self.clients.block(now, &self.measured.collector);
    }

    /// Adds the counters of nodes that are about to crash, since a crash discards them.
    fn note_crashes(&mut self, now: u64, net: &Net<'_, Node>) {
        while let Some((_, node)) = self.crashes.pop_if(|(at, _)| *at <= now) {
            if net.sim.is_running(node) && self.measured.uptime.honest[node as usize] {
                self.measured.totals.add(net.sim.node(node));
            }
        }
    }

    fn totals(&self, net: &Net<'_, Node>) -> Totals {
        let mut totals = Totals::default();
        let honest = |node: &u32| self.measured.uptime.honest[*node as usize] && net.sim.is_running(*node);
        net.hosts().filter(honest).for_each(|node| totals.add(net.sim.node(node)));
        totals
    }

    fn note_maxima(&mut self, net: &Net<'_, Node>) {
        for cat in net.hosts().filter_map(|node| net.sim.node(node).cat()) {
            let TransactionsMeasured { keys_max, requests_max, pool_txs_max, idle_slots_max, .. } =
                &mut self.measured;
            *keys_max = (*keys_max).max(cat.keys() as u64);
            *requests_max = (*requests_max).max(cat.outstanding() as u64);
            *pool_txs_max = (*pool_txs_max).max(cat.pool().len() as u64);
            *idle_slots_max = (*idle_slots_max).max(cat.idle_slots() as u64);
        }
    }

    /// Returns true if every transaction is in a block or refused or, without blocks, in every
    /// pool.
    fn is_complete(&self, now: u64) -> bool {
        let quiet = now > self.measured.collector.latest.max(self.workload.end_nanos()) + QUIET_NANOS;
        let others = u64::from(self.measured.uptime.honest_count());
        let ended = |row: &crate::pool::measure::TxRow| {
            row.is_committed()
                || row.refused
                || (self.workload.block_interval.nanos() == 0 && u64::from(row.pools) == others)
        };
        quiet && self.clients.is_done(now) && self.measured.collector.rows.iter().all(ended)
    }
}

impl Stepped for Run {
    type App = Node;
    type Measured = TransactionsMeasured;

    fn step(&mut self, net: &mut Net<'_, Node>) -> Result<Step, RunError> {
        let (now, end) = (net.now(), self.end_at());
        // Stop before a commit, since nodes must see the last block.
        if now >= end || self.is_complete(now) {
            return Ok(Step::Over(end));
        }
        let (first, interval) = (self.workload.warm_up.nanos(), self.workload.block_interval.nanos());
        if now == first {
            self.before = net.stats();
            // Hostile nodes do not wait for the first transaction.
            self.measured.totals = Totals::default();
            self.totals_before = self.totals(net);
            self.connections_before =
                net.hosts().map(|node| net.sim.connection_stats(node).cloned()).collect();
        }
        if now == self.propose_at {
            self.propose(now, net);
            self.propose_at += interval;
        }
        if now == self.commit_at {
            self.commit(now, net);
            self.commit_at += interval;
        }
        self.note_crashes(now, net);
        let crash = self.crashes.last().map_or(u64::MAX, |(at, _)| *at);
        let milestones = [self.propose_at, self.commit_at, crash, end, first];
        let next = milestones.into_iter().filter(|at| *at > now).fold(now + SLICE_NANOS, u64::min);
        self.submit(next, net);
        Ok(Step::Until(next))
    }

    fn observe(&mut self, record: Record<NodeEvent>) {
        let measured = &mut self.measured;
        match record.event {
            NodeEvent::Added { key, from } => {
                measured.collector.added(&key, record.host, from, record.at.as_nanos());
            }
            NodeEvent::Refused(key) => measured.collector.refused(&key),
            NodeEvent::BlockComplete { height } if height == self.compact.0 => {
                measured.block_complete.add(record.at.as_nanos() - self.compact.1);
            }
            NodeEvent::BlockComplete { .. } => {}
            NodeEvent::BlockGivenUp => measured.blocks_given_up += 1,
            NodeEvent::Misbehaved(why) => *measured.misbehaved.entry(why).or_default() += 1,
        }
    }

    fn contents(&self) -> Option<ContentsOf<CatFrame>> {
        Some(Box::new(contents))
    }

    fn deliveries_max(&self, nodes: u32) -> Option<u64> {
        Some((self.workload.count_max() * f64::from(nodes)) as u64)
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.measured.delivered()
    }

    fn progress(&self, net: &Net<'_, Node>) -> Progress {
        Progress {
            share: net.now() as f64 / self.end_at() as f64,
            deliveries: Some(self.measured.collector.deliveries.count()),
            // The expected number is unknown: clients decide during the run.
            ..Progress::default()
        }
    }

    fn measured(mut self, net: &mut Net<'_, Node>) -> Result<TransactionsMeasured, RunError> {
        self.note_maxima(net);
        let Totals { engine, pool } = self.totals(net);
        self.measured.totals.engine.add(&engine);
        self.measured.totals.pool.add(&pool);
        self.measured.totals.remove(&self.totals_before);
        let connection = |node| {
            let now = net.sim.connection_stats(node)?;
            let before = self.connections_before.get(node as usize).and_then(Option::as_ref);
            Some(before.map_or_else(|| now.clone(), |before| now.since(before)))
        };
        let mut measured = self.measured;
        measured.connections = net.hosts().filter_map(connection).collect();
        measured.digest = net.digest_and_steps()?;
        measured.traffic = net.traffic_since(&self.before)?;
        measured.measured_nanos = net.now().saturating_sub(self.workload.warm_up.nanos());
        measured.end_nanos = net.now();
        Ok(measured)
    }
}
