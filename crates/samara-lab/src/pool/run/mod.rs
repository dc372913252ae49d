//! Transactions that clients submit, and the blocks that take them out of the pools.

mod clients;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use samara_cat::pool::PoolMetrics;
use samara_cat::{Metrics, Misbehaviour};
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{ConnectionStats, HostStats, Record};

use crate::network::{self, Hosts};
use crate::pool::app::{Act, Block, Header, Node, NodeEvent, TxNumber};
use crate::pool::measure::{TxCollector, Uptime};
use crate::run::{Net, Progress, QUIET_NANOS, RunError, RunOptions, Setup, Step, Stepped, simulate};
use crate::scenario::{Point, Transactions};
use crate::statistics::Durations;
use samara_scenario::topology::Graph;

pub use clients::{Clients, Submission};
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

/// What honest nodes have counted, all together. What a node counted before it went down is part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The counters of protocols.
    pub engine: Metrics,
    /// The counters of pools.
    pub pool: PoolMetrics,
}

impl Totals {
    /// Adds what a node has counted since it started; nothing if it is hostile.
    pub fn add(&mut self, node: &Node) {
        if let Some(cat) = node.cat() {
            self.engine.add(cat.metrics());
            self.pool.add(cat.pool().metrics());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// When it was committed, in nanoseconds of the run.
    pub at: u64,
    pub proposer: u32,
    /// Its transactions.
    pub txs: u32,
    pub bytes: u64,
}

/// Runs a point.
pub(crate) fn run(
    point: &Point,
    options: RunOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<TransactionsMeasured, RunError> {
    let scenario = &point.scenario;
    let workload = scenario.part::<Transactions>().clone();
    let (graph, _) = network::graph(scenario, options.inputs, point.seed).map_err(RunError::Scenario)?;
    let setup = Setup::new(point, options, scenario.network.nodes)?;
    let uptime = world::uptime(scenario, point.seed);
    let mut net = world::network(&setup, &workload)?;
    setup.schedule_links(&mut net, &mut setup.links_rng(), graph.edges.iter().copied());
    setup.schedule_faults(&mut net);
    let run = Run::new(setup, graph, workload, uptime);
    match simulate(run, &mut net, options.stop, |_, done| progress(done))? {
        Some(measured) => Ok(measured),
        None => unreachable!("one process has all measurements"),
    }
}

/// The nodes in the order in which they propose blocks: drawn from the seed, so that a testbed does the same as a simulation. The block
/// of height h is proposed by the one in place h, modulo their number.
pub fn proposers(uptime: &Uptime, seed: u64) -> Vec<u32> {
    let honest = (0..).zip(&uptime.honest).filter(|(_, honest)| **honest);
    let mut proposers: Vec<u32> = honest.map(|(node, _)| node).collect();
    NodeRng::new(seed, 6, Purpose::Workload).shuffle(&mut proposers);
    proposers
}

/// Pools that are simulated, and everything that happens to them from outside.
struct Run<'a> {
    setup: Setup<'a>,
    graph: Graph,
    workload: Transactions,
    uptime: Uptime,
    clients: Clients,
    collector: TxCollector,
    /// Nodes in the order in which they propose blocks.
    proposers: Vec<u32>,
    height: u64,
    /// When the next block is proposed, and when it is committed.
    propose_at: u64,
    commit_at: u64,
    /// The block that was proposed and not committed yet, and the numbers of its transactions.
    proposed: Option<(Arc<Block>, BlockRow, Vec<TxNumber>)>,
    /// Times at which nodes go down, the last one first: before that, what they counted is noted.
    crashes: Vec<(u64, u32)>,
    totals: Totals,
    blocks: Vec<BlockRow>,
    seen: Seen,
    before: Vec<HostStats>,
    connections_before: Vec<Option<ConnectionStats>>,
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

impl<'a> Run<'a> {
    fn new(setup: Setup<'a>, graph: Graph, workload: Transactions, uptime: Uptime) -> Self {
        let (nodes, seed) = (uptime.honest.len() as u32, setup.point.seed);
        let mut crashes: Vec<(u64, u32)> = (0..nodes)
            .flat_map(|node| uptime.down[node as usize].iter().map(move |(at, _)| (*at, node)))
            .collect();
        crashes.sort_unstable_by(|a, b| b.cmp(a));
        let interval = workload.block_interval.nanos();
        let commit_at = if interval == 0 { u64::MAX } else { workload.warm_up.nanos() + interval };
        Self {
            clients: Clients::new(&workload, uptime.clone(), seed),
            collector: TxCollector::new(nodes),
            proposers: proposers(&uptime, seed),
            height: 0,
            propose_at: commit_at.saturating_sub(workload.consensus.nanos()),
            commit_at,
            proposed: None,
            crashes,
            totals: Totals::default(),
            blocks: Vec::new(),
            seen: Seen::default(),
            before: Vec::new(),
            connections_before: Vec::new(),
            maxima: [0; 3],
            setup,
            graph,
            workload,
            uptime,
        }
    }

    fn end_at(&self) -> u64 {
        self.workload.end_nanos() + self.workload.cool_down.nanos()
    }

    fn submit(&mut self, until: u64, net: &mut Net<'_, Node>) {
        for Submission { at, node, transaction, valid } in self.clients.before(until) {
            self.collector.submitted(transaction.key(), at, node, valid);
            net.sim.command(Time::from_nanos(at), node, Act::Submit(transaction));
        }
    }

    /// The next node in turn that runs chooses the transactions of a block.
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
            (self.seen.proposed_at, self.seen.height) = (now, self.height);
            let act = Act::Propose { height: self.height, max_bytes, max_gas };
            net.sim.command(Time::from_nanos(now), proposer, act);
        }
        let numbers = headers.iter().map(|header| header.number).collect();
        self.proposed = Some((Arc::new(block), row, numbers));
    }

    /// All nodes commit the block at once.
    fn commit(&mut self, now: u64, net: &mut Net<'_, Node>) {
        if let Some((block, row, numbers)) = self.proposed.take() {
            for node in net.hosts() {
                net.sim.command(Time::from_nanos(now), node, Act::Commit(Arc::clone(&block)));
            }
            numbers.into_iter().for_each(|number| self.collector.committed(number, now));
            self.blocks.push(row);
        }
        self.clients.block(now, &self.collector);
    }

    /// Whatever a node counted is gone when it goes down.
    fn note_crashes(&mut self, now: u64, net: &Net<'_, Node>) {
        while let Some((_, node)) = self.crashes.pop_if(|(at, _)| *at <= now) {
            if net.sim.is_running(node) {
                self.totals.add(net.sim.node(node));
            }
        }
    }

    fn note_maxima(&mut self, net: &Net<'_, Node>) {
        for cat in net.hosts().filter_map(|node| net.sim.node(node).cat()) {
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
}

impl Stepped for Run<'_> {
    type App = Node;
    type Measured = TransactionsMeasured;

    fn step(&mut self, net: &mut Net<'_, Node>) -> Result<Step, RunError> {
        let (now, end) = (net.now(), self.end_at());
        // Before a block is committed: nodes are to see the last one.
        if now >= end || self.is_complete(now) {
            return Ok(Step::Over(end));
        }
        let (first, interval) = (self.workload.warm_up.nanos(), self.workload.block_interval.nanos());
        if now == first {
            self.before = net.stats();
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
        let Self { collector, seen, .. } = self;
        match record.event {
            NodeEvent::Added(key) => {
                collector.added(&key, record.host, record.at.as_nanos());
            }
            NodeEvent::Refused(key) => collector.refused(&key),
            NodeEvent::BlockComplete { height } if height == seen.height => {
                seen.complete.add(record.at.as_nanos() - seen.proposed_at);
            }
            NodeEvent::BlockComplete { .. } => {}
            NodeEvent::BlockGivenUp => seen.given_up += 1,
            NodeEvent::Misbehaved(why) => *seen.misbehaved.entry(why).or_default() += 1,
        }
    }

    fn progress(&self, net: &Net<'_, Node>) -> Progress {
        Progress {
            share: net.now() as f64 / self.end_at() as f64,
            virtual_nanos: Some(net.now()),
            deliveries: Some(self.collector.deliveries()),
            // Clients decide on their way what they submit.
            deliveries_expected: None,
            copies: None,
            steps: Some(net.sim.steps()),
        }
    }

    fn measured(mut self, net: &mut Net<'_, Node>) -> Result<Option<TransactionsMeasured>, RunError> {
        self.note_maxima(net);
        for node in net.hosts().filter(|node| net.sim.is_running(*node)) {
            self.totals.add(net.sim.node(node));
        }
        let connection = |node| {
            let now = net.sim.connection_stats(node)?;
            let before = self.connections_before.get(node as usize).and_then(Option::as_ref);
            Some(before.map_or_else(|| now.clone(), |before| now.since(before)))
        };
        let connections = net.hosts().filter_map(connection).collect();
        let (digest, steps) = net.digest_and_steps()?;
        Ok(Some(TransactionsMeasured {
            point: self.setup.point.clone(),
            traffic: net.traffic_since(&self.before)?,
            connections,
            measured_nanos: net.now().saturating_sub(self.workload.warm_up.nanos()),
            end_nanos: net.now(),
            degrees: self.graph.neighbours().iter().map(|peers| peers.len() as u32).collect(),
            digest,
            steps,
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
            hosts: self.setup.hosts,
        }))
    }
}
