//! Teams that mix batches of payloads, as a scenario states them.

use samara_mix::{Config, Group, Parameters, ResultShape};
use samara_sim::identity_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_scenario::Network;

use crate::scenario::Scenario;
use samara_engine::units::{Share, Span};

/// Batches of payloads that teams of nodes mix, round after round. The nodes of the network are the pool that teams are drawn
/// from; a scheduler is added. `transport.kind` is "grpc".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Nodes of a team.
    pub team: u32,
    /// Teams at the same time, which share the pool.
    pub teams: u32,
    /// Rounds that are made in all.
    pub rounds: u32,
    /// Rounds that are precomputed before the first payloads come: all of them, if absent, so that real time is measured alone; 0 for
    /// payloads as soon as a round takes them, so that precomputation goes on beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stock: Option<u32>,
    /// Slots of a round.
    pub batch: u32,
    /// What payloads are, and whether they are computed with.
    pub group: Group,
    /// Cores of a node.
    pub cores: u32,
    /// The part of these cores that a node has: with "10 %", work takes ten times as long. A testbed keeps the processes of nodes to it from the
    /// first payloads on (control groups of Linux), so that a machine with few cores has room for a team whose nodes are limited by themselves.
    pub processor: Share,
    /// Where the times that are not given in `cpu` come from.
    pub costs: CostsKind,
    /// What work takes on one core.
    #[serde(skip_serializing_if = "PhaseCosts::is_empty")]
    pub cpu: PhaseCosts,
}

impl Default for Mix {
    fn default() -> Self {
        let mix = Config::default();
        Self {
            team: mix.team as u32,
            teams: 1,
            rounds: 60,
            stock: None,
            batch: mix.batch,
            group: Group::Model,
            cores: 1,
            processor: Share::from_fraction(1.0),
            costs: CostsKind::Documented,
            cpu: PhaseCosts::default(),
        }
    }
}

/// Where the times that work takes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CostsKind {
    /// As the benchmark of `samara-mix` measured them (`docs/protocols/mix.md`): the same on every machine.
    Documented,
    /// As this machine needs, measured before the simulation. Results say what was measured, and their scenario has it in `cpu`.
    Measured,
}

/// What work takes on one core: of a slot, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseCosts {
    /// Drawing the secrets of a round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate: Option<Span>,
    /// Raising one part of the team's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Span>,
    /// Precomputation, decryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precompute_decrypt: Option<Span>,
    /// Precomputation, permutation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precompute_permute: Option<Span>,
    /// Taking the share of the key off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reveal: Option<Span>,
    /// Real time, decryption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decrypt: Option<Span>,
    /// Real time, permutation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permute: Option<Span>,
    /// The same at the last node, which also identifies the payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permute_last: Option<Span>,
}

impl PhaseCosts {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and where they say nothing the others.
    pub(crate) fn or(&self, other: &Self) -> Self {
        Self {
            generate: self.generate.or(other.generate),
            share: self.share.or(other.share),
            precompute_decrypt: self.precompute_decrypt.or(other.precompute_decrypt),
            precompute_permute: self.precompute_permute.or(other.precompute_permute),
            reveal: self.reveal.or(other.reveal),
            decrypt: self.decrypt.or(other.decrypt),
            permute: self.permute.or(other.permute),
            permute_last: self.permute_last.or(other.permute_last),
        }
    }

    /// Names and times of what is given.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Span)> {
        let all = [
            ("generate", self.generate),
            ("share", self.share),
            ("precompute_decrypt", self.precompute_decrypt),
            ("precompute_permute", self.precompute_permute),
            ("reveal", self.reveal),
            ("decrypt", self.decrypt),
            ("permute", self.permute),
            ("permute_last", self.permute_last),
        ];
        all.into_iter().filter_map(|(name, span)| Some((name, span?)))
    }
}

impl Mix {
    /// Rounds that are precomputed before the first payloads come.
    pub fn stock(&self) -> u32 {
        self.stock.unwrap_or(self.rounds)
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> u64 {
        self.group.slot_bytes() as u64
    }

    /// The engine's configuration for a pool.
    pub fn build(&self, parameters: &Parameters, network: &Network) -> Config {
        let nodes = network.nodes;
        let formula = ResultShape::ByFormula {
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        };
        let config = parameters.build(formula);
        let rounds_max = config.rounds_max.max(self.stock() as usize);
        Config {
            pool: (0..nodes).map(identity_of).collect(),
            scheduler: identity_of(nodes),
            group: self.group,
            teams: self.teams as usize,
            team: self.team as usize,
            batch: self.batch,
            rounds: Some(self.rounds.into()),
            rounds_max,
            node_rounds_max: config.node_rounds_max.max(self.teams as usize * rounds_max),
            batch_max: config.batch_max.max(self.batch),
            jobs_max: self.cores as usize,
            ..config
        }
    }
}

impl Scenario {
    /// The engine's configuration of a scenario of teams that mix.
    ///
    /// # Panics
    /// If the scenario is of another family.
    pub fn mix_config(&self) -> Config {
        self.part::<Mix>().build(self.part(), &self.network)
    }
}
