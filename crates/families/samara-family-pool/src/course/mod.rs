//! A run with transactions that clients submit, and blocks that remove them from the pools.

mod brief;
mod clients;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::application::codec::Wire;
use crate::application::{self, Act, Block, Counters, Node, NodeEvent, TxNumber, contents};
use samara_cat::pool::PoolMetrics;
use samara_cat::{CatFrame, Metrics, Misbehaviour};
use samara_engine::Counted;
use samara_engine::{NodeRng, Purpose, Time};
use samara_hosts::Worlds;
use samara_lab::statistics::Durations;
use samara_sim::{ConnectionStats, HostStats, NodeFactory, Origin, Record};

use crate::measure::{TxCollector, TxRow, Uptime};
use crate::section::Transactions;
use samara_document::topology::Graph;
use samara_lab::brief::no_such;
use samara_lab::experiment::{Commands, Experiment, FramesCodec, Plan, Problem, ProtocolOf, Step, World};
use samara_lab::explain::{ContentsOf, Delivered, MainTime};
use samara_lab::network::Hosts;
use samara_lab::run::{Progress, QUIET_NANOS, RunError, since};
use samara_scenario::Point;
use serde_json::Value;

use clients::{Clients, Submission};

/// Maximum virtual time between two checks of the run.
const SLICE_NANOS: u64 = 500_000_000;
/// Time until the first check whether the proposer of a block that is due has answered. A simulated
/// node answers at once, and this time delays the commit: results change least with the shortest.
const ANSWER_SLICE_NANOS: u64 = 1;
/// Maximum time that a block waits for its proposer's answer.
const ANSWER_NANOS: u64 = 1_000_000_000;

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
    /// Transactions that applications refused because an earlier one of their signer was missing.
    pub out_of_order: u64,
}

impl Totals {
    fn remove(&mut self, earlier: &Self) {
        self.engine.remove(&earlier.engine);
        self.pool.remove(&earlier.pool);
        self.out_of_order -= earlier.out_of_order;
    }

    /// Adds the counters of a node since its start.
    pub fn add(&mut self, counters: &Counters) {
        self.engine.add(&counters.engine);
        self.pool.add(&counters.pool);
        self.out_of_order += counters.out_of_order;
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

/// Returns the nodes in the order in which they propose blocks.
///
/// The seed determines it, so that a testbed uses the same order as a simulation. The node at place
/// h, modulo their number, proposes the block of height h.
fn proposers(uptime: &Uptime, seed: u64) -> Vec<u32> {
    let honest = (0..).zip(&uptime.honest).filter(|(_, honest)| **honest);
    let mut proposers: Vec<u32> = honest.map(|(node, _)| node).collect();
    NodeRng::new(seed, 6, Purpose::Workload).shuffle(&mut proposers);
    proposers
}

/// Transactions of clients, and the blocks that take them.
pub(crate) struct Pooling {
    workload: Transactions,
    network: world::Pools,
    measured: TransactionsMeasured,
    clients: Clients,
    /// The nodes in the order in which they propose blocks.
    proposers: Vec<u32>,
    height: u64,
    /// Times of the next proposal and the next commit.
    propose_at: u64,
    commit_at: u64,
    /// Whether the proposer of the block of this height has not answered yet.
    is_awaited: bool,
    /// The proposed block before its commit, and its proposer.
    proposed: Option<(Arc<Block>, u32)>,
    /// Future crashes, the last one first. The run adds a node's counters before its crash.
    crashes: Vec<(u64, u32)>,
    /// Future restarts, the last one first.
    restarts: Vec<Restart>,
    /// The blocks so far with the times of their commits, while nodes will restart.
    blocks: Vec<(u64, Arc<Block>)>,
    /// Counters of the nodes at the first submission.
    totals_before: Totals,
    /// Height and time of the last proposal, if consensus takes time.
    compact: (u64, u64),
    before: Vec<HostStats>,
    connections_before: Vec<Option<ConnectionStats>>,
}

/// A node that is up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Restart {
    /// When it is up, in nanoseconds of the run.
    at: u64,
    /// When it went down.
    down: u64,
    node: u32,
}

impl Pooling {
    fn new(network: world::Pools, workload: Transactions, measured: TransactionsMeasured) -> Self {
        let (uptime, seed) = (&measured.uptime, measured.point.seed);
        let down = (0..).zip(&uptime.down);
        let mut crashes: Vec<(u64, u32)> =
            down.flat_map(|(node, times)| times.iter().map(move |(at, _)| (*at, node))).collect();
        crashes.sort_unstable_by(|a, b| b.cmp(a));
        let times = (0..).zip(&uptime.down).flat_map(|(node, times)| times.iter().map(move |of| (node, *of)));
        let restarts = times.filter(|(_, (_, until))| *until != u64::MAX);
        // The node is up after the time of its restart.
        let restarts = restarts.map(|(node, (down, until))| Restart { at: until + 1, down, node });
        let mut restarts: Vec<Restart> = restarts.collect();
        restarts.sort_unstable_by(|a, b| b.cmp(a));
        let interval = workload.block_interval.nanos();
        let commit_at = if interval == 0 { u64::MAX } else { workload.warm_up.nanos() + interval };
        Self {
            clients: Clients::new(&workload, uptime.clone(), seed),
            proposers: proposers(uptime, seed),
            height: 0,
            propose_at: commit_at.saturating_sub(workload.consensus.nanos()),
            commit_at,
            is_awaited: false,
            proposed: None,
            crashes,
            restarts,
            blocks: Vec::new(),
            compact: (0, 0),
            before: Vec::new(),
            connections_before: Vec::new(),
            totals_before: Totals::default(),
            network,
            workload,
            measured,
        }
    }

    fn end_at(&self) -> u64 {
        self.workload.end_nanos() + self.workload.cool_down.nanos()
    }

    fn submit(&mut self, until: u64, world: &mut dyn World<Node>) -> Result<(), RunError> {
        for Submission { at, node, transaction, valid } in self.clients.before(until) {
            self.measured.collector.submitted(transaction.key(), at, node, valid);
            world.command(Time::from_nanos(at), node, Act::Submit(transaction))?;
        }
        Ok(())
    }

    /// Lets the next running node in turn choose the transactions of a block.
    fn propose(&mut self, now: u64, world: &mut dyn World<Node>) -> Result<(), RunError> {
        self.note_maxima(&world.counters()?);
        self.height += 1;
        let turn = self.height as usize % self.proposers.len();
        let (before, after) = self.proposers.split_at(turn);
        let up = |node: &&u32| self.measured.uptime.is_up(**node, now);
        let Some(proposer) = after.iter().chain(before).find(up).copied() else { return Ok(()) };
        let compact = self.workload.consensus.nanos() > 0;
        if compact {
            self.compact = (self.height, now);
        }
        let act = Act::Propose {
            height: self.height,
            max_bytes: self.workload.block_size.bytes(),
            max_gas: self.workload.block_gas,
            compact,
        };
        world.command(Time::from_nanos(now), proposer, act)?;
        self.is_awaited = true;
        Ok(())
    }

    /// Returns true if the time of a commit has come and the block waits for nothing.
    fn is_due(&self, now: u64) -> bool {
        // The next block has a proposer of its own.
        let patience = ANSWER_NANOS.min(self.workload.block_interval.nanos() / 2);
        now >= self.commit_at && (!self.is_awaited || now - self.commit_at >= patience)
    }

    fn commit(&mut self, now: u64, world: &mut dyn World<Node>) -> Result<(), RunError> {
        self.is_awaited = false;
        if let Some((block, proposer)) = self.proposed.take() {
            for node in 0..self.measured.point.scenario.network.nodes {
                world.command(Time::from_nanos(now), node, Act::Commit(Arc::clone(&block)))?;
            }
            if !self.restarts.is_empty() {
                self.blocks.push((now, Arc::clone(&block)));
            }
            let collector = &mut self.measured.collector;
            // A hostile node can have made a transaction that no client submitted.
            let numbers: Vec<TxNumber> = block.keys.iter().filter_map(|key| collector.number(key)).collect();
            numbers.into_iter().for_each(|number| collector.committed(number, now));
            let (txs, bytes) = (block.keys.len() as u32, block.bytes);
            // The time of the schedule: the wait for the answer must not move a block past the end.
            self.measured.blocks.push(BlockRow { at: self.commit_at, proposer, txs, bytes });
        }
        self.clients.block(now, &self.measured.collector);
        Ok(())
    }

    /// Brings nodes that restart up to date. The state of their application is on their disks, so it has
    /// the sequence numbers of all blocks before the crash. They fetch the blocks that they have missed.
    fn catch_up(&mut self, now: u64, world: &mut dyn World<Node>) -> Result<(), RunError> {
        while let Some(Restart { down, node, .. }) = self.restarts.pop_if(|restart| restart.at <= now) {
            let (stored, missed) = self.blocks.split_at(self.blocks.partition_point(|(at, _)| *at < down));
            let stored = stored.last().map(|(_, last)| {
                let accounts = stored.iter().flat_map(|(_, block)| block.accounts.iter().copied());
                let accounts = accounts.collect();
                Arc::new(Block { height: last.height, keys: [].into(), accounts, bytes: 0 })
            });
            for block in stored.into_iter().chain(missed.iter().map(|(_, block)| Arc::clone(block))) {
                world.command(Time::from_nanos(now), node, Act::Commit(block))?;
            }
        }
        Ok(())
    }

    /// Adds the counters of nodes that are about to crash, since a crash discards them.
    fn note_crashes(&mut self, now: u64, world: &mut dyn World<Node>) -> Result<(), RunError> {
        if self.crashes.last().is_some_and(|(at, _)| *at <= now) {
            let counters = world.counters()?;
            while let Some((_, node)) = self.crashes.pop_if(|(at, _)| *at <= now) {
                if self.counts(node, now) {
                    self.measured.totals.add(&counters[node as usize]);
                }
            }
        }
        Ok(())
    }

    /// Returns true if the totals at `now` include the counters of a node's process: it is honest,
    /// and it was up just before.
    fn counts(&self, node: u32, now: u64) -> bool {
        let uptime = &self.measured.uptime;
        uptime.honest[node as usize] && uptime.is_up(node, now.saturating_sub(1))
    }

    fn totals(&self, now: u64, counters: &[Counters]) -> Totals {
        let mut totals = Totals::default();
        let counting = (0..).zip(counters).filter(|(node, _)| self.counts(*node, now));
        counting.for_each(|(_, counters)| totals.add(counters));
        totals
    }

    fn note_maxima(&mut self, counters: &[Counters]) {
        for counters in counters {
            let TransactionsMeasured { keys_max, requests_max, pool_txs_max, idle_slots_max, .. } =
                &mut self.measured;
            *keys_max = (*keys_max).max(counters.keys);
            *requests_max = (*requests_max).max(counters.requests);
            *pool_txs_max = (*pool_txs_max).max(counters.pool_txs);
            *idle_slots_max = (*idle_slots_max).max(counters.idle_slots);
        }
    }

    /// Returns true if every transaction is in a block or refused or, without blocks, in every
    /// pool.
    fn is_complete(&self, now: u64) -> bool {
        let quiet = now > self.measured.collector.latest.max(self.workload.end_nanos()) + QUIET_NANOS;
        let others = u64::from(self.measured.uptime.honest_count());
        let ended = |row: &crate::measure::TxRow| {
            row.is_committed()
                || row.refused
                || (self.workload.block_interval.nanos() == 0 && u64::from(row.pools) == others)
        };
        quiet && self.clients.is_done(now) && self.measured.collector.rows.iter().all(ended)
    }
}

impl Experiment for Pooling {
    type App = Node;
    type Measured = TransactionsMeasured;

    fn plan(plan: &Plan<'_>) -> Result<Self, Problem> {
        let (scenario, network) = (plan.scenario, plan.network());
        let workload = scenario.part::<Transactions>().clone();
        let uptime = world::uptime(scenario, plan.seed);
        let measured = TransactionsMeasured::new(network.point, network.hosts.clone(), network.graph, uptime);
        Ok(Self::new(world::Pools::plan(plan, &workload), workload, measured))
    }

    fn main_time(&self) -> MainTime {
        MainTime { item: "transaction", ..MainTime::default() }
    }

    fn hosts(&self) -> NodeFactory<Node> {
        Arc::clone(&self.network.nodes)
    }

    fn protocols(&self) -> Option<ProtocolOf> {
        Some(self.network.protocols())
    }

    fn brief(&self, host: u32) -> Result<Value, Problem> {
        let Self { network, workload, measured, .. } = self;
        brief::of(&measured.point.scenario, workload, &measured.hosts, (host, network.group_of(host)))
    }

    fn codec(&self) -> Option<FramesCodec<Node>> {
        Some(Arc::new(Wire))
    }

    fn worlds() -> Worlds<Node> {
        application::worlds()
    }

    fn step(&mut self, world: &mut dyn World<Node>) -> Result<Step, RunError> {
        let (now, end) = (world.now().as_nanos(), self.end_at());
        // Stop before a commit, since nodes must see the last block. A block that waits for its
        // proposer comes first.
        if now >= end || now <= self.commit_at && self.is_complete(now) {
            return Ok(Step::Over);
        }
        let (first, interval) = (self.workload.warm_up.nanos(), self.workload.block_interval.nanos());
        if now == first {
            self.before = world.traffic()?;
            // Hostile nodes do not wait for the first transaction.
            self.measured.totals = Totals::default();
            self.totals_before = self.totals(now, &world.counters()?);
            self.connections_before = world.connections();
        }
        if now == self.propose_at {
            self.propose(now, world)?;
            self.propose_at += interval;
        }
        if self.is_due(now) {
            self.commit(now, world)?;
            self.commit_at += interval;
        }
        self.note_crashes(now, world)?;
        self.catch_up(now, world)?;
        let crash = self.crashes.last().map_or(u64::MAX, |(at, _)| *at);
        let restart = self.restarts.last().map_or(u64::MAX, |restart| restart.at);
        let milestones = [self.propose_at, self.commit_at, crash, restart, end, first];
        // The wait for an answer, each time twice as long, does not shift the later checks.
        let waited = now.checked_sub(self.commit_at).map(|waited| waited.max(ANSWER_SLICE_NANOS));
        let slice = waited.unwrap_or(SLICE_NANOS - now % SLICE_NANOS);
        let next = milestones.into_iter().filter(|at| *at > now).fold(now + slice, u64::min);
        self.submit(next + world.lead_nanos(), world)?;
        Ok(Step::Until(Time::from_nanos(next)))
    }

    fn wrong(&self, record: &Record<NodeEvent>) -> Option<String> {
        match record.event {
            NodeEvent::Added { from: Some(from), .. } => {
                no_such("host", from, self.measured.hosts.configs.len())
            }
            _ => None,
        }
    }

    fn observe(&mut self, record: Record<NodeEvent>, _: &mut Commands<Node>) {
        let measured = &mut self.measured;
        match record.event {
            NodeEvent::Added { key, from } => {
                measured.collector.added(&key, record.host, from, record.at.as_nanos());
            }
            NodeEvent::Refused(key) => measured.collector.refused(&key),
            // The answer of an earlier proposer came too late for its block.
            NodeEvent::Proposed(block) if block.height == self.height && self.is_awaited => {
                self.is_awaited = false;
                self.proposed = Some((block, record.host));
            }
            NodeEvent::Proposed(_) => {}
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

    fn progress(&self, now: Time) -> Progress {
        Progress {
            share: now.as_nanos() as f64 / self.end_at() as f64,
            deliveries: Some(self.measured.collector.deliveries.count()),
            // The expected number is unknown: clients decide during the run.
            ..Progress::default()
        }
    }

    fn measured(mut self, world: &mut dyn World<Node>) -> Result<TransactionsMeasured, RunError> {
        let (now, counters) = (world.now().as_nanos(), world.counters()?);
        self.note_maxima(&counters);
        let Totals { engine, pool, out_of_order } = self.totals(now, &counters);
        self.measured.totals.engine.add(&engine);
        self.measured.totals.pool.add(&pool);
        self.measured.totals.out_of_order += out_of_order;
        self.measured.totals.remove(&self.totals_before);
        let connection = |(node, now): (usize, Option<ConnectionStats>)| {
            let before = self.connections_before.get(node).and_then(Option::as_ref);
            now.map(|now| before.map_or_else(|| now.clone(), |before| now.since(before)))
        };
        Ok(TransactionsMeasured {
            connections: world.connections().into_iter().enumerate().filter_map(connection).collect(),
            digest: world.digest()?,
            traffic: since(&self.before, world.traffic()?),
            measured_nanos: now.saturating_sub(self.workload.warm_up.nanos()),
            end_nanos: now,
            ..self.measured
        })
    }
}

#[cfg(test)]
mod tests;
