//! The section of a scenario with transactions, the settings of pools and connections that follow
//! from it, and checks of values.

use std::time::Duration;

use samara_cat::config::{Announce, FileConfig, Parameters, key_of};
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Config, Preset, Transaction};
use samara_engine::units::{Share, Size, Span};
use samara_sim::{ChannelConfig, Connection, Flush, Framing, MConnectionConfig, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application::{Adversary, HEADER_BYTES};
use samara_scenario::Arrivals;
use samara_scenario::family::{FamilySpec, NO_TOPICS, NO_UNSENT, PartType, ProtocolKind};
use samara_scenario::keep_one;
use samara_scenario::{Checks, FaultKind, FlushSpec, Scenario, TransportKind};

pub static FAMILY: FamilySpec = FamilySpec {
    section: "pool",
    title: "Clients submit transactions, blocks take them out",
    docs: "protocols/cat.md",
    content: PartType::of::<Transactions>(),
    protocols: &[ProtocolKind::of_settings::<FileConfig>("cat")],
    unused: &[
        NO_UNSENT,
        NO_TOPICS,
        ("network.stalled_periods", "transactions of a pool wait for no stalled process"),
    ],
    in_effect: |scenario| match &scenario.transport.connection {
        Some(connection) if connection.flush.is_none() => {
            let flush = toml::Value::try_from(flush(scenario));
            flush.into_iter().map(|flush| ("transport.connection.flush", flush)).collect()
        }
        _ => Vec::new(),
    },
    transport: with_channels,
    end: |scenario| {
        let transactions: &Transactions = scenario.part();
        Some(Span::from_nanos(transactions.end_nanos().saturating_add(transactions.cool_down.nanos())))
    },
    check,
    remedies: &[
        ("pool.rate", "expected a number", "the number of transactions per second, such as 50"),
        ("transactions", "unknown key", "did you mean `pool`?"),
        ("mempool", "unknown key", "did you mean `pool`?"),
    ],
    scenarios: samara_scenario::scenarios! {
        "cat" "615 s",
        "cat-adr" "170 s",
        "cat-from" "540 s",
        "cat-late" "30 s",
        "cat-order" "50 s",
        "cat-band" "370 s",
        "cat-latency" "300 s",
        "cat-measured" "140 s",
        "cat-measured-tcp" "< 1 s",
        "cat-rate" "5 s",
        "cat-real" "< 1 s",
        "cat-timeout" "375 s",
        "cat-size" "28 s",
        "cat-degree" "22 s",
        "cat-mixed" "11 s",
        "cat-churn" "10 s",
        "cat-adversary" "10 s",
        "cat-1000" "86 s",
        "cat-ideas" "190 s",
        "cat-limit" "380 s",
    },
    ..FamilySpec::BASE
};

/// Transactions that clients submit to nodes, and blocks that remove them from the pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Transactions {
    /// Number of clients. Each submits its next transaction after a block has its last one. Default:
    /// 1,100 unless there is a `rate`.
    pub clients: Option<u32>,
    /// The nodes of the clients: "even" numbers at all nodes, or a "random" node for each client.
    /// Default: "even".
    pub placement: Option<Placement>,
    /// Maximum time after that block until the client submits, drawn uniformly. Default: "14 s".
    pub spread: Option<Span>,
    /// Transactions per second, each at a random node, in place of clients.
    pub rate: Option<f64>,
    /// Distribution of the submissions of a `rate`. Default: "even".
    pub arrivals: Option<Arrivals>,
    /// Size of a transaction.
    pub size: Size,
    /// Time from the start of the run to the first submission.
    pub warm_up: Span,
    /// Time for which clients submit transactions.
    pub duration: Span,
    /// Maximum time after that to wait for transactions that are in no block or not at all nodes.
    pub cool_down: Span,
    /// Time from one block to the next. 0 means no blocks, and needs a `rate`.
    pub block_interval: Span,
    /// Maximum size of the transactions in a block.
    pub block_size: Size,
    /// Maximum gas of a block. Default: no limit.
    pub block_gas: Option<u64>,
    /// Gas of a transaction.
    pub gas: u32,
    /// Time from the proposal of a block to its commit, which is at the same time at all nodes.
    /// Compact blocks spread in this time.
    pub consensus: Span,
    /// Number of priorities, drawn uniformly for each transaction. With 1, all are equal.
    pub priorities: u32,
    /// Number of signers of the transactions of a `rate`, each with a node. Applications then accept
    /// the transactions of a signer in the order of their sequence numbers only. Default: each node
    /// is a signer, and the order does not matter.
    pub signers: Option<u32>,
    /// Whether transactions have a signer (the client, or with a `rate` the node) and a sequence
    /// number.
    pub signed: bool,
    /// Share of transactions that applications find invalid.
    pub invalid: Share,
    /// Groups of nodes with another preset, or of hostile nodes.
    #[serde(rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CatGroup>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            clients: None,
            placement: None,
            spread: None,
            rate: None,
            arrivals: None,
            size: Size::from_bytes(4_800),
            warm_up: Span::from_millis(5_000),
            duration: Span::from_millis(600_000),
            cool_down: Span::from_millis(60_000),
            block_interval: Span::from_millis(15_000),
            block_size: Size::from_bytes(8_000_000),
            block_gas: None,
            gas: 1,
            consensus: Span::default(),
            priorities: 1,
            signers: None,
            signed: true,
            invalid: Share::default(),
            groups: Vec::new(),
        }
    }
}

/// The nodes of the clients of a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All nodes have the same number, or differ by one.
    Even,
    /// Each client has a random node for the whole run.
    Random,
}

/// Number of clients in the experiment of ADR 009.
const CLIENTS: u32 = 1_100;
/// The spread at which the measured pools came closest to the ADR's figures.
const SPREAD: Span = Span::from_millis(14_000);

impl Transactions {
    /// Number of clients in a closed loop. `None` with a rate.
    pub fn closed_loop(&self) -> Option<u32> {
        self.rate.is_none().then(|| self.clients.unwrap_or(CLIENTS))
    }

    /// Maximum time after a block until its clients submit again.
    pub fn spread(&self) -> Span {
        self.spread.unwrap_or(SPREAD)
    }

    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Even)
    }

    /// Time of the last submission, in nanoseconds of the run.
    pub fn end_nanos(&self) -> u64 {
        self.warm_up.nanos().saturating_add(self.duration.nanos())
    }

    /// Maximum number of submitted transactions.
    pub fn count_max(&self) -> f64 {
        let seconds = self.duration.millis_f64() / 1e3;
        match (self.rate, self.closed_loop()) {
            (Some(rate), _) => (rate * seconds).round(),
            (None, clients) => {
                let blocks = (seconds / (self.block_interval.millis_f64() / 1e3)).ceil() + 1.0;
                f64::from(clients.unwrap_or(0)) * blocks
            }
        }
    }
}

/// A group of nodes with another preset or behaviour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatGroup {
    /// Name of the group in reports.
    pub name: String,
    /// Share of all nodes in the group, drawn from the seed.
    pub share: Share,
    /// Preset of their pools, without changes.
    pub preset: Option<Preset>,
    /// Hostile behaviour in place of a preset.
    pub adversary: Option<Adversary>,
    /// Number of hostile actions per second. Default: 100.
    pub rate: Option<f64>,
}

/// The configuration of nodes in no group. It reports no events that are only counted.
pub fn config(scenario: &Scenario) -> Config {
    let consensus = scenario.part::<Transactions>().consensus.duration();
    quiet(scenario.part::<Parameters>().build(consensus))
}

/// The configuration of a group's nodes. Hostile nodes have the queues of the default preset.
pub fn group_config(group: &CatGroup) -> Config {
    quiet(group.preset.unwrap_or_default().config())
}

fn quiet(config: Config) -> Config {
    Config { report_duplicates: false, report_requests: false, ..config }
}

/// The flush policy of connections with channels: from the scenario, or the default of the preset.
/// celestia-core throttles (`flush_throttle_timeout`); our pool does not wait.
pub fn flush(scenario: &Scenario) -> FlushSpec {
    let given = scenario.transport.connection.as_ref().and_then(|connection| connection.flush);
    given.unwrap_or_else(|| match scenario.part::<Parameters>().preset {
        Preset::Cat => FlushSpec::WhenIdle,
        _ => FlushSpec::Throttle(Span::from_millis(100)),
    })
}

/// Adds the channels of the pools to the transport, if the scenario has a connection with channels.
/// The channels are those of the pool with the most lanes; other pools use some of them.
fn with_channels(scenario: &Scenario, transport: &mut Transport) {
    let Some(spec) = scenario.transport.connection.as_ref() else { return };
    let own = scenario.part::<Parameters>().build(Duration::ZERO);
    let groups = scenario.part::<Transactions>().groups.iter().map(group_config);
    let lanes = |config: &Config| config.sending.lanes.len();
    let most = groups.fold(own, |most, other| if lanes(&other) > lanes(&most) { other } else { most });
    let channels = most.sending.channels.into_iter().map(|channel| ChannelConfig {
        id: channel.id,
        priority: channel.priority,
        queue: channel.send_queue,
        lanes: channel.lanes,
    });
    let connection = MConnectionConfig {
        channels: channels.collect(),
        flush: match flush(scenario) {
            FlushSpec::Throttle(span) => Flush::Throttle(span.duration()),
            FlushSpec::WhenIdle => Flush::WhenIdle,
        },
        ping_interval: spec.ping.duration(),
        send_rate: spec.send_rate.bps() / 8,
        receive_rate: spec.receive_rate.bps() / 8,
    };
    transport.framing = Framing::PLAIN;
    transport.handshake_round_trips = Transport::mconnection(connection.clone()).handshake_round_trips;
    transport.connection = Connection::MConnection(connection);
}

/// Maximum number of blocks in a run: each visits all nodes.
const BLOCKS_MAX: u64 = 10_000_000;
/// Maximum number of transactions in a run, whose state and deliveries are kept in memory.
const TRANSACTIONS_MAX: f64 = 10_000_000.0;
/// Maximum number of signers with an order.
const SIGNERS_MAX: u32 = 100_000;
/// Maximum number of deliveries in a run. Each transaction needs one bit per node in memory.
const DELIVERIES_MAX: f64 = 1e11;

fn check(checks: &mut Checks<'_>, scenario: &Scenario) {
    let (transactions, cat): (&Transactions, &Parameters) = (scenario.part(), scenario.part());
    let largest = cat.config.pool.max_tx_bytes as u64;
    checks.sizes("pool.size", transactions.size, HEADER_BYTES as u64, largest);
    checks.range("pool.priorities", transactions.priorities, 1, u32::MAX);
    let Transactions { warm_up, duration, cool_down, .. } = transactions;
    checks.lasts("pool.duration", &[*warm_up, *duration, *cool_down]);
    checks.period("pool.block_interval", transactions.block_interval);
    let blocks =
        duration.nanos().saturating_add(cool_down.nanos()).checked_div(transactions.block_interval.nanos());
    if let Some(blocks) = blocks.filter(|blocks| *blocks > BLOCKS_MAX) {
        let interval = transactions.block_interval;
        let message = format!("is {interval}, which makes {blocks} blocks; allowed are at most {BLOCKS_MAX}");
        checks.wrong("pool.block_interval", message);
    }
    checks.starts_after_links("pool.warm_up", transactions.warm_up, scenario);
    check_arrivals(checks, scenario, transactions);
    check_signers(checks, scenario, transactions);
    check_blocks(checks, transactions, cat);
    check_cat(checks, scenario, transactions);
    check_connection(checks, scenario);
}

fn check_arrivals(checks: &mut Checks<'_>, scenario: &Scenario, transactions: &Transactions) {
    match transactions.rate {
        Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
            checks.wrong("pool.rate", format!("is {rate}; it must be above 0 transactions a second"));
            return;
        }
        Some(_) => {
            let given = [
                ("clients", transactions.clients.is_some()),
                ("placement", transactions.placement.is_some()),
                ("spread", transactions.spread.is_some()),
            ];
            checks.exclude("pool.rate", given, "has no effect with pool.rate");
        }
        None => {
            if transactions.arrivals.is_some() {
                checks.wrong("pool.arrivals", "has no effect without pool.rate: clients submit after blocks");
            }
            if let Some(clients) = transactions.clients {
                checks.range("pool.clients", clients, 1, 10_000_000);
            }
            if transactions.block_interval.nanos() == 0 {
                checks.wrong(
                    "pool.block_interval",
                    "is 0, but clients wait for blocks; set a time, or use a rate",
                );
                return;
            }
        }
    }
    if transactions.duration.nanos() == 0 {
        checks.wrong("pool.duration", "is 0 s; clients need time to submit, such as \"60 s\"");
        return;
    }
    let count = transactions.count_max();
    let deliveries = count * f64::from(scenario.network.nodes);
    if !(1.0..=TRANSACTIONS_MAX).contains(&count) || deliveries > DELIVERIES_MAX {
        checks.wrong(
            "pool.duration",
            format!(
                "is {}, up to {count} transactions; allowed is 1 to {TRANSACTIONS_MAX}, and {DELIVERIES_MAX} deliveries",
                transactions.duration
            ),
        );
    }
}

fn check_signers(checks: &mut Checks<'_>, scenario: &Scenario, transactions: &Transactions) {
    let Some(signers) = transactions.signers else { return };
    checks.range("pool.signers", signers, 1, SIGNERS_MAX);
    if transactions.rate.is_none() {
        checks.wrong("pool.signers", "needs pool.rate: each client of a closed loop is a signer");
    }
    if !transactions.signed {
        checks.wrong("pool.signers", "is set, but pool.signed is false; remove one of them");
    }
    let ends = |kind: &FaultKind| matches!(kind, FaultKind::Crash {} | FaultKind::Vanish {});
    if scenario.faults.iter().any(|fault| ends(&fault.kind)) {
        checks.wrong(
            "pool.signers",
            "is set beside a fault \"crash\" or \"vanish\", but a client does not sign again what its node \
             loses, so that all later transactions of the signer wait for ever; remove one of them",
        );
    }
}

fn check_blocks(checks: &mut Checks<'_>, transactions: &Transactions, cat: &Parameters) {
    if transactions.block_size < transactions.size && transactions.block_interval.nanos() > 0 {
        checks.wrong(
            "pool.block_size",
            format!("is {}, less than a transaction with {}", transactions.block_size, transactions.size),
        );
    }
    if transactions.block_gas.is_some_and(|most| most < u64::from(transactions.gas)) {
        checks.wrong("pool.block_gas", format!("is less than the {} of a transaction", transactions.gas));
    }
    let (interval, consensus) = (transactions.block_interval, transactions.consensus);
    if consensus.nanos() > 0 && consensus >= interval {
        checks.wrong(
            "pool.consensus",
            format!("is {consensus}; expected less than {interval}, since a block is committed before the next one is proposed"),
        );
    }
    if cat.compact_blocks == Some(true) && consensus.nanos() == 0 {
        checks.wrong(
            "pool.consensus",
            "is 0, with protocol.compact_blocks; compact blocks need time to spread before their commit, for example \"1 s\"",
        );
    }
    if transactions.invalid.fraction() >= 1.0 {
        checks.wrong("pool.invalid", format!("is {}; it must be below 100 %", transactions.invalid));
    }
}

fn check_cat(checks: &mut Checks<'_>, scenario: &Scenario, transactions: &Transactions) {
    let cat: &Parameters = scenario.part();
    let application = |_: &Transaction, _: CheckKind| Verdict::Accept(Admission::default());
    if let Err(error) = Cat::new(config(scenario), &samara_sim::identity_of(0), application) {
        checks.engine(&error, key_of(&error.field).as_deref());
    }
    if cat.given().has("sticky_peers") && cat.config.announce != Announce::Sticky {
        checks.wrong("protocol.sticky_peers", "belongs to announce = \"sticky\"");
    }
    if cat.bundle_txs.is_some() && cat.bundle_window.is_none_or(|window| window.nanos() == 0) {
        checks.wrong("protocol.bundle_txs", "needs a bundle_window");
    }
    let presets = transactions.groups.iter().filter_map(|group| group.preset);
    if !transactions.signed
        && presets.chain([cat.preset]).any(|preset| matches!(preset, Preset::Cat2025 | Preset::Cat2026))
    {
        checks.wrong("pool.signed", "is false, but the pools since 2025 announce signers");
    }
    let shares: f64 = transactions.groups.iter().map(|group| group.share.fraction()).sum();
    if shares > 1.0 + 1e-9 {
        checks.wrong("pool.group", format!("the shares add up to {:.4} %; at most 100 %", shares * 100.0));
    }
    for (i, group) in transactions.groups.iter().enumerate() {
        let key = format!("pool.group.{i}");
        match (group.preset, group.adversary) {
            (Some(_), Some(_)) => {
                let remedy = keep_one(&format!("{key}.preset"), &format!("{key}.adversary"));
                checks.wrong(&key, format!("has a preset and an adversary; {remedy}"));
            }
            (None, None) => checks.wrong(&key, "needs a preset, or an adversary"),
            (Some(_), None) if group.rate.is_some() => {
                checks.wrong(&key, "rate belongs to an adversary");
            }
            _ => {}
        }
        if group.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e5)) {
            checks.wrong(&key, "rate must be above 0 and at most 100000 a second");
        }
    }
    let hostile = transactions.groups.iter().filter(|group| group.adversary.is_some());
    let hostile: f64 = hostile.map(|group| group.share.fraction()).sum();
    if hostile > 0.0 && hostile * f64::from(scenario.network.nodes) > f64::from(scenario.network.nodes) - 2.0
    {
        checks.wrong("pool.group", "leaves fewer than 2 honest nodes");
    }
}

fn check_connection(checks: &mut Checks<'_>, scenario: &Scenario) {
    let Some(spec) = &scenario.transport.connection else { return };
    checks.period("transport.connection.ping", spec.ping);
    let is_ideal = matches!(scenario.transport.kind, TransportKind::Ideal { .. });
    if !is_ideal && !matches!(scenario.transport.kind, TransportKind::Tcp { .. }) {
        checks.wrong("transport.connection", "needs a stream of bytes; use kind = \"tcp\" or \"ideal\"");
    }
    if spec.receive_rate.bps() > 0 && is_ideal {
        checks.wrong(
            "transport.connection.receive_rate",
            format!(
                "is {}, but the ideal transport has no window that a slow reader could close; use kind = \"tcp\", or 0",
                spec.receive_rate
            ),
        );
    }
    if let Some(FlushSpec::Throttle(span)) = spec.flush
        && span.nanos() == 0
    {
        checks.wrong("transport.connection.flush", "is 0; use \"when-idle\"");
    }
}
