//! Transactions on real pools: timed submissions, blocks, and the nodes' reports of both.

mod figures;
mod possible;

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustc_hash::FxHashMap;
use samara_apps::pool::TxNumber;
use samara_lab::pool::measure::{TxCollector, Uptime};
use samara_lab::pool::{BlockRow, Clients, Submission, proposers};
use samara_lab::run::Progress;
use samara_node::model::{self, Arrival, Arrivals, Late, PlannedReport};
use samara_spec::Point;
use samara_spec::pool::Transactions;
use samara_trace::live::LiveWriter;
use serde_json::json;

use crate::TestbedError;
use crate::client::Client;
use crate::process::NodeProcess;
use crate::rivals::Rivals;
use crate::run::{QUIET, SAMPLE_EVERY, Stop, unix_ns};

pub(crate) use figures::measured;
pub(crate) use possible::{check, flush_throttle, preset};

/// Bytes of transactions in one request: a node accepts bodies of 16 MiB, and base64 adds a third.
const REQUEST_BYTES: u64 = 8 << 20;
/// Minimum rate of handing out transactions, in bytes a second.
const HAND_OUT_BPS: u64 = 20_000_000;
/// Time after a block, besides that for handing out their next transactions, after which clients
/// learn of it, so that these transactions reach their nodes in time. A choice: several requests to
/// each of some twenty nodes, of milliseconds each. A node submits late transactions at once, and
/// they count as late.
const AFTER_BLOCK: Duration = Duration::from_millis(200);
/// Blocks later than this are a reason for doubt: transactions stay in pools for as long.
const BLOCK_LATE_MAX: Duration = Duration::from_millis(100);

/// All nodes are honest, and none is ever down.
pub(crate) fn uptime(nodes: u32) -> Uptime {
    Uptime { honest: vec![true; nodes as usize], down: vec![Vec::new(); nodes as usize] }
}

pub(crate) struct Recorded {
    driver: Driver,
    /// End of the measurement in nanoseconds since 1970.
    end: u64,
    /// Times of submission by transaction number.
    submitted: Vec<u64>,
    /// Arrivals by node.
    arrivals: Vec<Vec<Arrival>>,
    /// Nodes by the ids of their pools.
    nodes: FxHashMap<String, u32>,
    /// Lateness of submissions in milliseconds.
    pub(crate) late_ms: Vec<f64>,
    pub(crate) doubts: Vec<String>,
}

/// The maxima over all nodes and samples.
#[derive(Clone, Copy, Debug, Default)]
struct Maxima {
    keys: u64,
    requests: u64,
    pool_txs: u64,
}

/// Hands out the submissions, the first of which is `lead` away and the time that the hand-out takes,
/// starts the rivals, commits blocks at their times, and waits until every transaction is done.
pub(crate) fn drive(
    nodes: &mut [NodeProcess],
    point: &Point,
    (lead, rivals): (Duration, &mut Rivals),
    (stop, live): (&Stop<'_>, &LiveWriter),
    progress: &mut impl FnMut(&str, Progress),
) -> Result<Recorded, TestbedError> {
    let workload = point.scenario.part::<Transactions>().clone();
    let uptime = uptime(nodes.len() as u32);
    let mut clients = Clients::new(&workload, uptime.clone(), point.seed);
    let first = clients.before(u64::MAX);
    let lead = lead + hand_out_time(first.len(), &workload);
    let mut driver = Driver {
        clients,
        collector: TxCollector::new(uptime.honest.len() as u32),
        submissions: Vec::new(),
        numbers: FxHashMap::default(),
        proposers: proposers(&uptime, point.seed),
        blocks: Vec::new(),
        committed: 0,
        late: Duration::ZERO,
        maxima: Maxima::default(),
        start: unix_ns() + lead.as_nanos() as u64 - workload.warm_up.nanos(),
        workload,
    };
    driver.hand_out(nodes, first, Late::Refuse)?;
    rivals.begin(driver.start)?;
    driver.watch(nodes, (stop, live), progress)?;
    let end = unix_ns();
    let (submitted, late_ms) = made(nodes, &driver.submissions)?;
    let mut doubts = Vec::new();
    if driver.late > BLOCK_LATE_MAX {
        doubts.push(format!("a block was {:.0} ms late", driver.late.as_secs_f64() * 1e3));
    }
    let mut arrivals = Vec::new();
    for (number, node) in nodes.iter_mut().enumerate() {
        let page = |Arrivals { first, next, arrivals }| (first, next, arrivals);
        let (list, forgotten) = node.record("/v1/pool/arrivals", page)?;
        if forgotten > 0 {
            doubts.push(format!("node {number} no longer has {forgotten} of its arrivals"));
        }
        arrivals.push(list);
    }
    let nodes = (0..).zip(nodes).map(|(number, node)| (node.pool_id.clone(), number)).collect();
    Ok(Recorded { driver, end, submitted, arrivals, nodes, late_ms, doubts })
}

/// Maximum time for handing out `count` transactions.
fn hand_out_time(count: usize, workload: &Transactions) -> Duration {
    Duration::from_secs_f64(count as f64 * workload.size.bytes() as f64 / HAND_OUT_BPS as f64)
}

/// Times of submission by transaction number, and the lateness of each.
fn made(nodes: &mut [NodeProcess], submissions: &[Submission]) -> Result<(Vec<u64>, Vec<f64>), TestbedError> {
    let (mut times, mut late_ms) = (vec![0; submissions.len()], Vec::new());
    for (number, node) in (0..).zip(nodes) {
        let own = (0..).zip(submissions).filter(|(_, submission)| submission.node == number);
        let own: Vec<usize> = own.map(|(place, _)| place).collect();
        let reports: Vec<PlannedReport> = node.ask("collection", |client| client.get("/v1/pool/schedule"))?;
        if let Some(forgotten) = reports.first().map(|oldest| oldest.number).filter(|number| *number > 0) {
            return Err(TestbedError::Scenario(format!(
                "node {number} kept only the last {} of its {} transactions; expected all: use fewer clients, less time or more nodes",
                reports.len(),
                reports.len() as u64 + forgotten
            )));
        }
        let made: Vec<(u64, i64)> =
            reports.iter().filter_map(|made| Some((made.actual_unix_ns?, made.late_ns?))).collect();
        if made.len() != own.len() {
            return Err(TestbedError::Scenario(format!(
                "{} of {} transactions of node {number} were submitted in time; increase the duration of the scenario",
                made.len(),
                own.len()
            )));
        }
        for (place, (at, late)) in own.into_iter().zip(made) {
            times[place] = at;
            late_ms.push(late as f64 / 1e6);
        }
    }
    Ok((times, late_ms))
}

struct Driver {
    workload: Transactions,
    clients: Clients,
    /// The input of clients: submitted transactions and the content of blocks.
    collector: TxCollector,
    /// All submissions handed out so far, by number. The first ones of clients, or all of a rate,
    /// are those of the simulation with the same seed.
    submissions: Vec<Submission>,
    /// Start of the run, had it begun with the warm-up of a simulation, in nanoseconds since 1970.
    start: u64,
    numbers: FxHashMap<String, TxNumber>,
    /// Nodes in the order in which they propose blocks.
    proposers: Vec<u32>,
    /// Blocks with the numbers of their transactions; times are since 1970.
    blocks: Vec<(BlockRow, Vec<TxNumber>)>,
    committed: usize,
    /// Lateness of the latest block.
    late: Duration,
    maxima: Maxima,
}

impl Driver {
    /// Hands each node its own submissions, in portions.
    fn hand_out(
        &mut self,
        nodes: &mut [NodeProcess],
        fresh: Vec<Submission>,
        late: Late,
    ) -> Result<(), TestbedError> {
        let portion = (REQUEST_BYTES / self.workload.size.bytes().max(1)).max(1) as usize;
        for (number, node) in (0..).zip(nodes) {
            let own: Vec<&Submission> = fresh.iter().filter(|submission| submission.node == number).collect();
            for portion in own.chunks(portion) {
                let planned = portion.iter().map(|submission| model::Submission {
                    at_unix_ns: self.start + submission.at,
                    data: Some(STANDARD.encode(submission.transaction.bytes())),
                    ..model::Submission::default()
                });
                let body = json!({ "submissions": planned.collect::<Vec<_>>(), "late": late });
                node.ask("hand-out of transactions", |client| client.post("/v1/pool/schedule", &body))?;
            }
        }
        for submission in fresh {
            let Submission { at, node, transaction, valid } = &submission;
            self.collector.submitted(transaction.key(), *at, *node, *valid);
            self.numbers.insert(transaction.key().to_string(), self.submissions.len() as TxNumber);
            self.submissions.push(submission);
        }
        Ok(())
    }

    fn watch(
        &mut self,
        nodes: &mut [NodeProcess],
        (stop, live): (&Stop<'_>, &LiveWriter),
        progress: &mut impl FnMut(&str, Progress),
    ) -> Result<(), TestbedError> {
        let submitted = self.start + self.workload.end_nanos();
        let end = submitted + self.workload.cool_down.nanos();
        let interval = self.workload.block_interval.nanos();
        let first = self.start + self.workload.warm_up.nanos();
        let mut block_at = if interval == 0 { u64::MAX } else { first + interval };
        let mut ended_since = None;
        loop {
            stop.check()?;
            let now = unix_ns();
            if now >= end {
                return Ok(());
            }
            let left = Duration::from_nanos(block_at.saturating_sub(now));
            // Sampling takes time, and blocks must be punctual.
            if left < 2 * SAMPLE_EVERY {
                std::thread::sleep(left);
                self.block(nodes, block_at)?;
                block_at += interval;
                continue;
            }
            std::thread::sleep(SAMPLE_EVERY);
            let added = self.sample(nodes, live)?;
            let everything = (self.submissions.len() * nodes.len()) as f64;
            progress("submitting", crate::live::delivered(added, everything as u64));
            let ended =
                if interval == 0 { added >= everything } else { self.committed >= self.submissions.len() };
            if ended && unix_ns() > submitted {
                let since = *ended_since.get_or_insert_with(Instant::now);
                if since.elapsed() > QUIET {
                    return Ok(());
                }
            }
        }
    }

    /// Samples all nodes. Returns the number of transactions added to pools.
    fn sample(&mut self, nodes: &mut [NodeProcess], live: &LiveWriter) -> Result<f64, TestbedError> {
        let mut added = 0.0;
        for (number, node) in nodes.iter_mut().enumerate() {
            node.check("run")?;
            node.sample();
            let metrics = node.ask("run", Client::metrics)?;
            crate::live::report(live, number, &metrics);
            added += metrics.sum("samara_mempool_added_txs_total", "");
            for (most, name) in [
                (&mut self.maxima.keys, "samara_mempool_known_keys"),
                (&mut self.maxima.requests, "samara_mempool_known_requests"),
                (&mut self.maxima.pool_txs, "samara_mempool_size"),
            ] {
                *most = (*most).max(metrics.sum(name, "") as u64);
            }
        }
        Ok(added)
    }

    /// The next node in turn reports the content of its pool, and all nodes commit that at once.
    fn block(&mut self, nodes: &mut [NodeProcess], due: u64) -> Result<(), TestbedError> {
        let height = self.blocks.len() as u64 + 1;
        let proposer = self.proposers[height as usize % self.proposers.len()];
        let size = self.workload.size.bytes().max(1);
        // All transactions have this size and a gas of 1.
        let most = (self.workload.block_size.bytes() / size).min(self.workload.block_gas.unwrap_or(u64::MAX));
        let path = format!("/v1/pool/txs/{most}");
        let keys: Vec<String> = nodes[proposer as usize].ask("proposal", |client| client.get(&path))?;
        let at = unix_ns();
        let body = json!({ "height": height, "keys": keys });
        ask_all(nodes, |client| client.post("/v1/pool/commit", &body))?;
        self.late = self.late.max(Duration::from_nanos(at.saturating_sub(due)));
        let numbers: Vec<TxNumber> = keys.iter().filter_map(|key| self.numbers.get(key).copied()).collect();
        let since_start = at.saturating_sub(self.start);
        numbers.iter().for_each(|number| self.collector.committed(*number, since_start));
        self.committed += numbers.len();
        let txs = keys.len() as u32;
        self.blocks.push((BlockRow { at, proposer, txs, bytes: u64::from(txs) * size }, numbers));
        self.submit_next(nodes)
    }

    /// Clients with transactions in the last block submit their next ones.
    fn submit_next(&mut self, nodes: &mut [NodeProcess]) -> Result<(), TestbedError> {
        let Some(clients) = self.workload.closed_loop() else { return Ok(()) };
        let wait = AFTER_BLOCK + hand_out_time(clients as usize, &self.workload);
        let from = unix_ns().saturating_sub(self.start) + wait.as_nanos() as u64;
        self.clients.block(from, &self.collector);
        let fresh = self.clients.before(u64::MAX);
        self.hand_out(nodes, fresh, Late::Submit)
    }
}

/// Sends a request to all nodes at the same time.
fn ask_all(
    nodes: &mut [NodeProcess],
    ask: impl Fn(&Client) -> Result<(), String> + Sync,
) -> Result<(), TestbedError> {
    let ask = &ask;
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            nodes.iter_mut().map(|node| scope.spawn(move || node.ask("commit", ask))).collect();
        asked
            .into_iter()
            .try_for_each(|asked| asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
