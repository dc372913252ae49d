//! Teams that mix batches of payloads, as a scenario states them.

use samara_engine::shape::ShapeSetting;
use samara_mix::{Config, ConfigError, Group, Reconnect, ResultShape, Transfer};
use samara_sim::identity_of;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scenario::Network;
use samara_engine::units::{Share, Span};

/// Batches of payloads that teams of nodes mix, round after round. Takes the place of the blocks of `workload`. The nodes of the network are the
/// pool that teams are drawn from; a scheduler is added. `transport.kind` is "grpc".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Relay {
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
    pub group: MixGroup,
    /// How slots travel: each piece as soon as it is worked on, or all of a phase in one message.
    pub call: Transfer,
    /// Slots that are worked on, and sent, together: in the precomputation.
    pub precomputation_slots: u32,
    /// The same in real time.
    pub realtime_slots: u32,
    /// How results get from the last node to all the others.
    pub shape: ShapeSetting,
    /// Rounds of a team that are precomputed at the same time.
    pub precomputing_max: u32,
    /// Rounds with payloads on their way at the same time, at their first node: 1 is one after another, the size of the team is
    /// pipelined; more hide latency.
    pub realtime_max: u32,
    /// Rounds of a team that exist at the same time, those included that wait for a batch; as many as the stock needs, if that is more.
    pub rounds_max: u32,
    /// Teams are drawn anew after so many rounds.
    pub rounds_per_draw: u32,
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
    /// A node that is not connected for so long is lost: its rounds fail, and its teams are drawn anew.
    pub reconnect_limit: Span,
    /// A round fails that is not precomputed after so long.
    pub precomputation_timeout: Span,
    /// A round fails whose payloads are on their way for so long.
    pub realtime_timeout: Span,
    /// A round fails that waits for payloads for so long.
    pub queue_timeout: Span,
}

impl Default for Relay {
    fn default() -> Self {
        let mix = Config::default();
        let span = |duration: std::time::Duration| Span::from_millis(duration.as_millis() as u64);
        Self {
            team: mix.team as u32,
            teams: 1,
            rounds: 60,
            stock: None,
            batch: mix.batch,
            group: MixGroup::Model,
            call: Transfer::Streamed,
            precomputation_slots: mix.precomputation_slots,
            realtime_slots: mix.realtime_slots,
            shape: ShapeSetting::Direct,
            precomputing_max: mix.precomputing_max as u32,
            realtime_max: mix.realtime_max as u32,
            rounds_max: mix.rounds_max as u32,
            rounds_per_draw: mix.rounds_per_draw as u32,
            cores: 1,
            processor: Share::from_fraction(1.0),
            costs: CostsKind::Documented,
            cpu: PhaseCosts::default(),
            reconnect_limit: span(mix.reconnect.limit),
            precomputation_timeout: span(mix.precomputation_timeout),
            realtime_timeout: span(mix.realtime_timeout),
            queue_timeout: span(mix.queue_timeout),
        }
    }
}

/// What payloads are, and whether they are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MixGroup {
    /// Slots of the 2048-bit group, moved, permuted and checked, but not computed with: what work takes is only charged. Packets are the same.
    Model,
    /// The 2048-bit MODP group of RFC 3526, with all its arithmetic: for few slots.
    #[serde(rename = "modp-2048")]
    Modp2048,
    /// The 4096-bit one.
    #[serde(rename = "modp-4096")]
    Modp4096,
}

impl MixGroup {
    /// That of the engine.
    pub const fn group(self) -> Group {
        match self {
            Self::Model => Group::Model,
            Self::Modp2048 => Group::Modp2048,
            Self::Modp4096 => Group::Modp4096,
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

impl Relay {
    /// Rounds that are precomputed before the first payloads come.
    pub fn stock(&self) -> u32 {
        self.stock.unwrap_or(self.rounds)
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> u64 {
        self.group.group().slot_bytes() as u64
    }

    /// The engine's configuration for a pool.
    pub fn build(&self, network: &Network) -> Config {
        let nodes = network.nodes;
        let rounds_max = self.rounds_max.max(self.stock()) as usize;
        let default = Config::default();
        Config {
            pool: (0..nodes).map(identity_of).collect(),
            scheduler: identity_of(nodes),
            group: self.group.group(),
            teams: self.teams as usize,
            team: self.team as usize,
            batch: self.batch,
            transfer: self.call,
            precomputation_slots: self.precomputation_slots,
            realtime_slots: self.realtime_slots,
            shape: self.result_shape(network),
            rounds_per_draw: self.rounds_per_draw.into(),
            rounds: Some(self.rounds.into()),
            precomputing_max: self.precomputing_max as usize,
            rounds_max,
            realtime_max: self.realtime_max as usize,
            node_rounds_max: default.node_rounds_max.max(self.teams as usize * rounds_max),
            batch_max: default.batch_max.max(self.batch),
            jobs_max: self.cores as usize,
            reconnect: Reconnect { limit: self.reconnect_limit.duration(), ..default.reconnect },
            precomputation_timeout: self.precomputation_timeout.duration(),
            realtime_timeout: self.realtime_timeout.duration(),
            queue_timeout: self.queue_timeout.duration(),
            ..default
        }
    }

    fn result_shape(&self, network: &Network) -> ResultShape {
        let by_formula = || ResultShape::ByFormula {
            link_bytes_per_s: network.uplink.bps().min(network.downlink.bps()) as f64 / 8.0,
            hop_s: network.latency.duration().as_secs_f64(),
        };
        self.shape.fixed().map_or_else(by_formula, ResultShape::Fixed)
    }

    /// What is wrong with the engine's configuration.
    pub(crate) fn error(&self, network: &Network) -> Option<ConfigError> {
        self.build(network).validate().err()
    }
}
