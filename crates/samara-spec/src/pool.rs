//! Transactions as a scenario states them, what follows from them for pools and their connections, and values that cannot be.

use std::time::Duration;

use samara_cat::config::{Announce, Parameters, key_of};
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Config, Preset, Transaction};
use samara_engine::units::{Share, Size, Span};
use samara_sim::{ChannelConfig, Connection, Flush, Framing, MConnectionConfig, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::{FamilySpec, NO_TOPICS, NO_UNSENT, PartType, ProtocolKind};
use crate::messages::Arrivals;
use crate::{Checks, FlushSpec, Scenario, TransportKind};

/// Bytes that every transaction begins with: the least size.
pub const HEADER_BYTES: usize = 24;

pub static FAMILY: FamilySpec = FamilySpec {
    section: "pool",
    content: PartType::of::<Transactions>(),
    protocols: &[ProtocolKind::of::<Parameters>("cat")],
    unused: &[NO_UNSENT, NO_TOPICS],
    transport: with_channels,
    check: |checks, scenario| checks.pool(scenario),
    ..FamilySpec::BASE
};

/// Transactions that clients submit to nodes, and blocks that take them out of the pools. Takes the place of the blocks of
/// `workload`; `cat` has the parameters of the pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Transactions {
    /// Clients, spread evenly over the nodes, each of which submits its next transaction after a block has its last one
    /// (1,100 unless there is a `rate`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// How long after that block at most: the time is drawn uniformly ("14 s").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Span>,
    /// Instead of clients: transactions per second, each at a node drawn at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// When the transactions of a `rate` come ("even").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// The size of a transaction.
    pub size: Size,
    /// From the start of the run to the first submission.
    pub warm_up: Span,
    /// How long transactions are submitted.
    pub duration: Span,
    /// How long after that transactions are waited for that are in no block, or not everywhere.
    pub cool_down: Span,
    /// From one block to the next; 0 for no blocks, which needs a `rate`.
    pub block_interval: Span,
    /// The most bytes of transactions in a block.
    pub block_size: Size,
    /// The most gas of a block; no limit, if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_gas: Option<u64>,
    /// The gas of a transaction.
    pub gas: u32,
    /// How long before its commit a block is proposed; all nodes commit it at the same time. Compact blocks spread meanwhile.
    pub consensus: Span,
    /// How many priorities there are, drawn uniformly for each transaction; 1 makes all equal.
    pub priorities: u32,
    /// Whether transactions have a signer (the client, or with a `rate` the node) and a sequence number.
    pub signed: bool,
    /// The part of transactions that applications find invalid.
    pub invalid: Share,
    /// Nodes that are different: with another preset, or hostile.
    #[serde(rename = "group", skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<CatGroup>,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            clients: None,
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
            signed: true,
            invalid: Share::default(),
            groups: Vec::new(),
        }
    }
}

/// Clients of the experiment of ADR 009.
const CLIENTS: u32 = 1_100;
/// The spread at which the measured pools came nearest to the ADR's figures.
const SPREAD: Span = Span::from_millis(14_000);

impl Transactions {
    /// How many clients there are in a closed loop; `None` with a rate.
    pub fn closed_loop(&self) -> Option<u32> {
        self.rate.is_none().then(|| self.clients.unwrap_or(CLIENTS))
    }

    /// How long after a block its clients submit again, at most.
    pub fn spread(&self) -> Span {
        self.spread.unwrap_or(SPREAD)
    }

    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Even)
    }

    /// When no more transactions are submitted, in nanoseconds of the run.
    pub fn end_nanos(&self) -> u64 {
        self.warm_up.nanos() + self.duration.nanos()
    }

    /// The most transactions that can be submitted.
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

/// Nodes that are different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatGroup {
    /// What reports call them.
    pub name: String,
    /// The part of all nodes, drawn from the seed.
    pub share: Share,
    /// The preset of their pools, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// What they do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversary: Option<Adversary>,
    /// How often a hostile node does it, per second (100).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// What hostile nodes do. They submit and pass on nothing, and count in no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Announce everything that they hear of at once, and never deliver it.
    Silent,
    /// The same, and answer requests with garbage.
    Garbage,
    /// Send bodies that nobody asked for: garbage, and what everybody has.
    Pusher,
    /// Ask everybody for everything, again and again.
    Greedy,
    /// Announce what does not exist.
    Announcer,
}

/// The configuration of nodes in no group, which reports no events that are only counted.
pub fn config(scenario: &Scenario) -> Config {
    let consensus = scenario.part::<Transactions>().consensus.duration();
    quiet(scenario.part::<Parameters>().build(consensus))
}

/// The configuration of a group's nodes; hostile ones have the queues of the default preset.
pub fn group_config(group: &CatGroup) -> Config {
    quiet(group.preset.unwrap_or_default().config())
}

fn quiet(config: Config) -> Config {
    Config { report_duplicates: false, report_requests: false, ..config }
}

/// When connections send what was written, if the scenario has connections with channels: as it says, or as the preset does.
/// celestia-core throttles (`flush_throttle_timeout`); our pool waits for nothing.
pub fn flush(scenario: &Scenario) -> FlushSpec {
    let given = scenario.transport.connection.as_ref().and_then(|connection| connection.flush);
    given.unwrap_or_else(|| match scenario.part::<Parameters>().preset {
        Preset::Cat => FlushSpec::WhenIdle,
        _ => FlushSpec::Throttle(Span::from_millis(100)),
    })
}

/// Gives the transport the channels of the pools, if the scenario has a connection with channels. They are those of the pool with
/// the most lanes: others use some of them.
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

/// Transactions of a run: what is known of each and of its deliveries is kept in memory.
const TRANSACTIONS_MAX: f64 = 10_000_000.0;
/// Deliveries of a run: a bit for each transaction and node is kept in memory.
const DELIVERIES_MAX: f64 = 1e11;

impl Checks<'_> {
    pub(crate) fn pool(&mut self, scenario: &Scenario) {
        let (transactions, cat): (&Transactions, &Parameters) = (scenario.part(), scenario.part());
        let largest = config(scenario).pool.max_tx_bytes as u64;
        self.range("pool.size", transactions.size.bytes(), HEADER_BYTES as u64, largest);
        self.range("pool.priorities", transactions.priorities, 1, u32::MAX);
        self.starts_after_links("pool.warm_up", transactions.warm_up, scenario);
        self.arrivals(scenario, transactions);
        self.blocks(transactions, cat);
        self.cat(scenario, transactions);
        self.connection(scenario);
    }

    fn arrivals(&mut self, scenario: &Scenario, transactions: &Transactions) {
        match transactions.rate {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => {
                self.wrong("pool.rate", format!("is {rate}; it must be above 0 transactions a second"));
                return;
            }
            Some(_) => {
                let given =
                    [("clients", transactions.clients.is_some()), ("spread", transactions.spread.is_some())];
                self.refuse("pool", given, "belongs to clients, and there is a rate; keep one of them");
            }
            None => {
                if transactions.arrivals.is_some() {
                    self.wrong("pool.arrivals", "belongs to a rate; clients submit after blocks");
                }
                if let Some(clients) = transactions.clients {
                    self.range("pool.clients", clients, 1, 10_000_000);
                }
                if transactions.block_interval.nanos() == 0 {
                    self.wrong(
                        "pool.block_interval",
                        "is 0, no blocks; clients wait for blocks: give it a time, or use a rate",
                    );
                    return;
                }
            }
        }
        let count = transactions.count_max();
        let deliveries = count * f64::from(scenario.network.nodes);
        if !(1.0..=TRANSACTIONS_MAX).contains(&count) || deliveries > DELIVERIES_MAX {
            self.wrong(
                "pool.duration",
                format!(
                    "is {}, up to {count} transactions; allowed is 1 to {TRANSACTIONS_MAX}, and {DELIVERIES_MAX} deliveries",
                    transactions.duration
                ),
            );
        }
    }

    fn blocks(&mut self, transactions: &Transactions, cat: &Parameters) {
        if transactions.block_size < transactions.size && transactions.block_interval.nanos() > 0 {
            self.wrong(
                "pool.block_size",
                format!("is {}; a transaction has {}", transactions.block_size, transactions.size),
            );
        }
        if transactions.block_gas.is_some_and(|most| most < u64::from(transactions.gas)) {
            self.wrong("pool.block_gas", format!("is less than the {} of a transaction", transactions.gas));
        }
        let (interval, consensus) = (transactions.block_interval, transactions.consensus);
        if consensus.nanos() > 0 && consensus >= interval {
            self.wrong(
                "pool.consensus",
                format!("is {consensus}; a block is committed before the next is proposed, after {interval}"),
            );
        }
        if cat.compact_blocks == Some(true) && consensus.nanos() == 0 {
            self.wrong(
                "pool.consensus",
                "is 0, with protocol.compact_blocks; compact blocks need time to spread before their commit, for example \"1 s\"",
            );
        }
        if transactions.invalid.fraction() >= 1.0 {
            self.wrong("pool.invalid", format!("is {}; it must be below 100 %", transactions.invalid));
        }
    }

    fn cat(&mut self, scenario: &Scenario, transactions: &Transactions) {
        let cat: &Parameters = scenario.part();
        let application = |_: &Transaction, _: CheckKind| Verdict::Accept(Admission::default());
        if let Err(error) = Cat::new(config(scenario), &samara_sim::identity_of(0), application) {
            let key =
                key_of(&error.field).map_or_else(|| "protocol".to_owned(), |key| format!("protocol.{key}"));
            let message = format!("found {}, expected {} ({})", error.found, error.expected, error.field);
            self.wrong(&key, message);
        }
        if cat.sticky_peers.is_some() && cat.announce.is_some_and(|announce| announce != Announce::Sticky) {
            self.wrong("protocol.sticky_peers", "belongs to announce = \"sticky\"");
        }
        if cat.bundle_txs.is_some() && cat.bundle_window.is_none_or(|window| window.nanos() == 0) {
            self.wrong("protocol.bundle_txs", "needs a bundle_window");
        }
        let presets = transactions.groups.iter().filter_map(|group| group.preset);
        if !transactions.signed && presets.chain([cat.preset]).any(|preset| preset == Preset::Cat2026) {
            self.wrong("pool.signed", "is false; the pool of 2026 takes no announcements without signer");
        }
        let shares: f64 = transactions.groups.iter().map(|group| group.share.fraction()).sum();
        if shares > 1.0 + 1e-9 {
            self.wrong("pool.group", format!("the shares add up to {:.4} %; at most 100 %", shares * 100.0));
        }
        for (i, group) in transactions.groups.iter().enumerate() {
            let key = format!("pool.group.{i}");
            match (group.preset, group.adversary) {
                (Some(_), Some(_)) => self.wrong(&key, "has a preset and an adversary; keep one of them"),
                (None, None) => self.wrong(&key, "needs a preset, or an adversary"),
                (Some(_), None) if group.rate.is_some() => {
                    self.wrong(&key, "rate belongs to an adversary");
                }
                _ => {}
            }
            if group.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e5)) {
                self.wrong(&key, "rate must be above 0 and at most 100000 a second");
            }
        }
        let hostile = transactions.groups.iter().filter(|group| group.adversary.is_some());
        let hostile: f64 = hostile.map(|group| group.share.fraction()).sum();
        if hostile * f64::from(scenario.network.nodes) > f64::from(scenario.network.nodes) - 2.0 {
            self.wrong("pool.group", "leaves fewer than 2 honest nodes");
        }
    }

    fn connection(&mut self, scenario: &Scenario) {
        let Some(spec) = &scenario.transport.connection else { return };
        if matches!(scenario.transport.kind, TransportKind::Quic | TransportKind::Grpc) {
            self.wrong(
                "transport.connection",
                "is a stream of bytes of its own; use kind = \"tcp\" or \"ideal\"",
            );
        }
        if spec.receive_rate.bps() > 0 && scenario.transport.kind == TransportKind::Ideal {
            self.wrong(
                "transport.connection.receive_rate",
                format!(
                    "is {}; the ideal transport has no window that a slow reader could close: use kind = \"tcp\", or 0",
                    spec.receive_rate
                ),
            );
        }
        if let Some(FlushSpec::Throttle(span)) = spec.flush
            && span.nanos() == 0
        {
            self.wrong("transport.connection.flush", "is 0; use \"when-idle\"");
        }
    }
}
