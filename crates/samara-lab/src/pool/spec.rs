//! Transactions as a scenario states them, and what follows from them for pools and their connections.

use std::time::Duration;

use samara_cat::config::Parameters;
use samara_cat::{Config, Preset};
use samara_engine::units::{Share, Size, Span};
use samara_sim::{ChannelConfig, Connection, Flush, Framing, MConnectionConfig, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::{Arrivals, FlushSpec, Scenario};

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
pub(super) fn config(scenario: &Scenario) -> Config {
    let consensus = scenario.part::<Transactions>().consensus.duration();
    quiet(scenario.part::<Parameters>().build(consensus))
}

/// The configuration of a group's nodes; hostile ones have the queues of the default preset.
pub(super) fn group_config(group: &CatGroup) -> Config {
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
pub(super) fn with_channels(scenario: &Scenario, transport: &mut Transport) {
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
