//! The section `[mix]` of a scenario, and the values that it cannot have.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::units::{Share, Span};
use samara_mix::{Config, Group, Job, Parameters, Phase, ResultShape};
use samara_sim::identity_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::{FamilySpec, NO_CHANNELS, NO_UNSENT, PartType, ProtocolKind};
use crate::{Checks, Loaded, Scenario, TransportKind};

pub static FAMILY: FamilySpec = FamilySpec {
    section: "mix",
    content: PartType::of::<Mix>(),
    protocols: &[ProtocolKind::of::<Parameters>("cmix")],
    unused: &[
        NO_CHANNELS,
        NO_UNSENT,
        ("network.topology", "nodes of a pool have links to all others"),
        ("network.validation_time", "`mix.cpu` says how long work takes"),
        ("transport.links", "nodes of a pool dial each other"),
    ],
    // The scheduler.
    extra_hosts: |_| 1,
    check: |checks, scenario| checks.mix(scenario),
    ..FamilySpec::BASE
};

/// Batches of payloads that teams of nodes mix, round after round. The scheduler draws teams from the pool, which is
/// the nodes of the network; it is a host of its own. `transport.kind` is "grpc".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Nodes of a team.
    pub team: u32,
    /// Teams at the same time, which share the pool.
    pub teams: u32,
    /// Rounds that are made in all.
    pub rounds: u32,
    /// Rounds that are precomputed before the first payloads come: all of them, if absent, so that real time is
    /// measured alone; 0 for payloads as soon as a round takes them, so that precomputation goes on beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stock: Option<u32>,
    /// The time from the end of a round at its first node until the sender hands in the next batch there.
    #[serde(skip_serializing_if = "is_zero")]
    pub pause: Span,
    /// Slots of a round.
    pub batch: u32,
    /// What payloads are, and whether they are computed with.
    pub group: Group,
    /// Cores of a node.
    pub cores: u32,
    /// The part of these cores that a node has: with "10 %", work takes ten times as long. A testbed keeps the
    /// processes of nodes to it from the first payloads on (control groups of Linux), so that a machine with few cores
    /// has room for a team whose nodes are limited by themselves.
    pub processor: Share,
    /// Where the times that are not given in `cpu` come from.
    pub costs: CostsKind,
    /// What work takes on one core: of a slot, unless said otherwise.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu: PhaseCosts,
    /// Repeats the simulation without each mechanism of the transport that makes transfers slow, for the metric
    /// `first_hop_parts`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mechanisms: bool,
}

fn is_zero(span: &Span) -> bool {
    span.nanos() == 0
}

impl Default for Mix {
    fn default() -> Self {
        let mix = Config::default();
        Self {
            team: mix.team as u32,
            teams: 1,
            rounds: 60,
            stock: None,
            pause: Span::default(),
            batch: mix.batch,
            group: Group::Model,
            cores: 1,
            processor: Share::from_fraction(1.0),
            costs: CostsKind::Documented,
            cpu: PhaseCosts::new(),
            mechanisms: false,
        }
    }
}

/// Where the times that work takes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostsKind {
    /// As the benchmark of `samara-mix` measured them (`docs/protocols/mix.md`): the same on every machine.
    Documented,
    /// As this machine needs, measured before the simulation. Results say what was measured, and their scenario has it
    /// in `cpu`.
    Measured,
}

pub type PhaseCosts = BTreeMap<WorkKind, Span>;

samara_engine::names! {
    /// Kinds of work that take different times on a core.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum WorkKind {
        /// Drawing the secrets of a round.
        Generate = "generate",
        /// Raising one part of the team's key.
        Share = "share",
        /// Precomputation, decryption.
        PrecomputeDecrypt = "precompute_decrypt",
        /// Precomputation, permutation.
        PrecomputePermute = "precompute_permute",
        /// Taking the share of the key off.
        Reveal = "reveal",
        /// Real time, decryption.
        Decrypt = "decrypt",
        /// Real time, permutation.
        Permute = "permute",
        /// The same at the last node, which also identifies the payloads.
        PermuteLast = "permute_last",
    }
}

impl WorkKind {
    pub fn of(job: &Job) -> Self {
        match job.phase() {
            None if job.is_share() => Self::Share,
            None => Self::Generate,
            Some(Phase::PrecomputeDecrypt) => Self::PrecomputeDecrypt,
            Some(Phase::PrecomputePermute) => Self::PrecomputePermute,
            Some(Phase::Reveal) => Self::Reveal,
            Some(Phase::Decrypt) => Self::Decrypt,
            Some(Phase::Permute | Phase::Result) if job.is_last() => Self::PermuteLast,
            Some(Phase::Permute | Phase::Result) => Self::Permute,
        }
    }

    /// The time on one core of an AMD EPYC, from `cargo bench -p samara-mix` (`docs/protocols/mix.md`). The time of
    /// permutation is split as its products are, 2 for a slot and 6 at the last node; `mix.costs = "measured"`
    /// found that of drawing secrets.
    pub fn documented(self, group: Group) -> Duration {
        // In the 4096-bit group a product of twice as many words takes four times as long; long exponents are twice as
        // long, short ones have 320 bits instead of 256.
        let (nanos, factor) = match self {
            Self::Generate => (140_000, 4.0),
            Self::Share => (4_700_000, 4.0 * 2.0),
            Self::PrecomputeDecrypt | Self::PrecomputePermute => (530_000, 4.0 * 320.0 / 256.0),
            Self::Reveal => (1_270_000, 4.0 * 320.0 / 256.0),
            Self::Decrypt => (8_900, 4.0),
            Self::Permute => (4_000, 4.0),
            Self::PermuteLast => (11_800, 4.0),
        };
        Duration::from_nanos(nanos).mul_f64(if group == Group::Modp4096 { factor } else { 1.0 })
    }
}

impl Mix {
    /// Rounds that are precomputed before the first payloads come.
    pub fn stock(&self) -> u32 {
        self.stock.unwrap_or(self.rounds)
    }
}

impl Loaded {
    /// Returns true if it asks for the times that work takes on this machine.
    pub fn wants_costs(&self) -> bool {
        let wants = |mix: Option<&Mix>| mix.is_some_and(|mix| mix.costs == CostsKind::Measured);
        wants(self.scenario.find()) || self.points.iter().any(|point| wants(point.scenario.find()))
    }
}

impl Scenario {
    /// The engine's configuration of a scenario of teams that mix.
    ///
    /// # Panics
    /// If the scenario is of another family.
    pub fn mix_config(&self) -> Config {
        let (mix, parameters, network) = (self.part::<Mix>(), self.part::<Parameters>(), &self.network);
        let formula = ResultShape::ByFormula {
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        };
        let config = parameters.build(formula);
        let rounds_max = config.rounds_max.max(mix.stock() as usize);
        Config {
            pool: (0..network.nodes).map(identity_of).collect(),
            scheduler: identity_of(network.nodes),
            group: mix.group,
            teams: mix.teams as usize,
            team: mix.team as usize,
            batch: mix.batch,
            rounds: Some(mix.rounds.into()),
            rounds_max,
            node_rounds_max: config.node_rounds_max.max(mix.teams as usize * rounds_max),
            batch_max: config.batch_max.max(mix.batch),
            jobs_max: mix.cores as usize,
            ..config
        }
    }
}

/// Nodes of a pool: all have links to all others.
const POOL_MAX: u32 = 128;
/// Slots of a run: payloads are moved through all nodes of a team, and those of a stock are kept.
const SLOTS_MAX: u64 = 100_000_000;
/// Slots of a round, so that those of a phase in one message stay below 2^30 bytes.
const BATCH_MAX: u32 = 500_000;
const CORES_MAX: u32 = 256;
/// The least part of a core: what the kernel can keep a process to (1 ms of a period of 100 ms).
const PROCESSOR_MIN: f64 = 0.01;

impl Checks<'_> {
    pub(crate) fn mix(&mut self, scenario: &Scenario) {
        if scenario.transport.kind != TransportKind::Grpc {
            self.wrong("transport.kind", "teams mix over kind = \"grpc\"");
        }
        let mix: &Mix = scenario.part();
        let problems = self.problems.len();
        self.range("network.nodes", scenario.network.nodes, 2, POOL_MAX);
        self.range("mix.batch", mix.batch, 1, BATCH_MAX);
        self.range("mix.rounds", mix.rounds, 1, 100_000);
        self.range("mix.cores", mix.cores, 1, CORES_MAX);
        self.range("mix.stock", mix.stock(), 0, mix.rounds);
        let processor = mix.processor.fraction();
        if !(PROCESSOR_MIN..=1.0).contains(&processor) {
            self.wrong("mix.processor", format!("found \"{}\", expected 1 % to 100 %", mix.processor));
        }
        if self.problems.len() > problems {
            return;
        }
        let slots = u64::from(mix.batch) * u64::from(mix.rounds);
        if slots > SLOTS_MAX {
            let most = SLOTS_MAX / u64::from(mix.batch);
            self.wrong("mix.rounds", format!("has {slots} slots in all; with this batch at most {most}"));
        }
        if let Some(error) = scenario.mix_config().validate().err() {
            let key = match &*error.field {
                "pool" => "network.nodes".to_owned(),
                "reconnect" => "protocol.reconnect_limit".to_owned(),
                field => {
                    let field = field.split(',').next().unwrap_or(field);
                    let own = ["teams", "team", "batch", "group", "rounds"].contains(&field);
                    format!("{}.{field}", if own { "mix" } else { "protocol" })
                }
            };
            self.wrong(&key, format!("found {}, expected {}", error.found, error.expected));
        }
    }
}
