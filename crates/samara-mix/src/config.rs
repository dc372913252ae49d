//! Everything about a pool of nodes that can be chosen.

use std::fmt::Debug;
use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_engine::Shape;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow};
#[cfg(feature = "config")]
use samara_engine::shape::ShapeSetting;
use samara_engine::shape::{Workload, choose};
#[cfg(feature = "config")]
use samara_engine::units::Span;
use thiserror::Error;

use crate::node::TICK_EVERY;
use crate::wire::Limits;
use crate::{Group, Transfer};

/// How a pool of nodes and its scheduler behave. All of them need the same pool and group; what else belongs to rounds, the scheduler
/// decides. [`Config::default`] has no nodes, and otherwise what the xx network's alpha had.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The nodes, which everybody numbers by their place in this list.
    pub pool: Vec<PeerIdentity>,
    /// Who schedules rounds.
    pub scheduler: PeerIdentity,
    /// The group of all payloads.
    pub group: Group,
    /// Rounds with lower numbers are refused. Whoever restarts a node or the scheduler gives more than the highest one that it took
    /// part in, so that nothing is ever done twice for a round.
    pub first_round: u64,

    // ---- rounds, as the scheduler makes them ----
    /// Teams at the same time.
    pub teams: usize,
    /// Nodes of a team.
    pub team: usize,
    /// Slots of a round.
    pub batch: u32,
    /// How slots travel.
    pub transfer: Transfer,
    /// Slots that are worked on, and sent, together: in the precomputation.
    pub precomputation_slots: u32,
    /// The same in real time.
    pub realtime_slots: u32,
    /// How results get from the last node to all the others.
    pub shape: ResultShape,
    /// Teams are drawn anew after so many rounds.
    pub rounds_per_draw: u64,
    /// Rounds that the scheduler makes in all teams together; without end, if absent.
    pub rounds: Option<u64>,
    /// Rounds of a team that are precomputed at the same time: 1 is sequential, the size of the team is pipelined.
    pub precomputing_max: usize,
    /// Rounds of a team that exist at the same time, those included that wait for a batch: bounds memory.
    pub rounds_max: usize,

    // ---- a node ----
    /// Rounds with payloads on their way at the same time, at their first node: 1 is sequential, the size of the team is pipelined.
    pub realtime_max: usize,
    /// Rounds of all teams that a node takes part in at most.
    pub node_rounds_max: usize,
    /// Slots of a round that a node accepts at most.
    pub batch_max: u32,
    /// Jobs that are out at the same time: as many as there are cores. Others wait in the engine, where real time goes first.
    pub jobs_max: usize,
    /// Senders that a node shares secrets with at most.
    pub senders_max: usize,
    /// What is read from links at most.
    pub limits: Limits,

    /// How often pings go around each team, and over each link; `None` for never. A ping that is not back by then is lost.
    pub ping: Option<Duration>,

    // ---- faults ----
    /// How lost links come back.
    pub reconnect: Reconnect,
    /// How often everybody tells everybody that it is there.
    pub beat: Duration,
    /// A link that nothing came from for so long is closed.
    pub silence: Duration,
    /// A round fails that is not precomputed after so long.
    pub precomputation_timeout: Duration,
    /// A round fails whose payloads are on their way for so long.
    pub realtime_timeout: Duration,
    /// A round fails that waits for a batch for so long.
    pub queue_timeout: Duration,
}

/// How results get from the last node to all the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResultShape {
    /// Always so. [`Shape::Direct`] is what the original does.
    Fixed(Shape),
    /// As is fastest by the formula ([`choose`]).
    ByFormula {
        /// Bytes/s of each node's link.
        link_bytes_per_s: f64,
        /// Seconds that it takes to hand a piece on, latency included.
        hop_s: f64,
    },
}

/// How lost links come back: the n-th attempt waits for between a half and the whole of `first * 2^n`, but no longer than `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// Before the first attempt.
    pub first: Duration,
    /// Before any.
    pub max: Duration,
    /// A node that is not connected for so long is lost: its rounds fail, and teams are drawn without it. Attempts go on.
    pub limit: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pool: Vec::new(),
            scheduler: PeerIdentity::new(b"scheduler"),
            group: Group::Modp2048,
            first_round: 0,
            teams: 1,
            // Alpha of the xx network: "five of these nodes are part of an active network", "1000 payloads".
            team: 5,
            batch: 1_000,
            transfer: Transfer::Streamed,
            // `minInputSize` of the original's modules.
            precomputation_slots: 4,
            // A millisecond of work, or 16 KiB on the wire.
            realtime_slots: 32,
            shape: ResultShape::Fixed(Shape::Direct),
            rounds_per_draw: 100,
            rounds: None,
            precomputing_max: 5,
            realtime_max: 5,
            rounds_max: 15,
            node_rounds_max: 64,
            batch_max: 1 << 14,
            jobs_max: 4,
            senders_max: 1 << 20,
            limits: Limits::default(),
            // The original's interval of pings.
            ping: Some(Duration::from_secs(5)),
            reconnect: Reconnect {
                first: Duration::from_millis(200),
                // The longest dial timeout of the original.
                max: Duration::from_secs(15),
                limit: Duration::from_secs(30),
            },
            beat: Duration::from_secs(1),
            // The original's keepalive.
            silence: Duration::from_secs(5),
            // `PrecomputationTimeout`, `RealtimeTimeout` and `ResourceQueueTimeout` of the original's scheduler.
            precomputation_timeout: Duration::from_secs(30),
            realtime_timeout: Duration::from_secs(15),
            queue_timeout: Duration::from_secs(180),
        }
    }
}

/// A value that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct ConfigError {
    /// Which one.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it can be.
    pub expected: &'static str,
}

fn check(
    holds: bool,
    field: &'static str,
    found: impl Debug,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError { field, found: format!("{found:?}"), expected }) }
}

impl Config {
    /// The lane of everything but slots, which goes first.
    pub const CONTROL: Lane = Lane(0);
    /// The lane of slots in real time, which goes before the precomputation.
    pub const REALTIME: Lane = Lane(1);
    /// The lane of slots of the precomputation.
    pub const PRECOMPUTATION: Lane = Lane(2);

    /// The most nodes of a team: seats are counted in 64 bits.
    pub const TEAM_MAX: usize = 32;

    /// The outbox that a node with this configuration needs. What it can be owed is bounded by the rounds that there are; the lanes
    /// refuse nothing.
    pub fn outbox(&self) -> OutboxConfig {
        let lane = |name, priority| LaneConfig {
            capacity: samara_engine::outbox::LaneCapacity {
                overflow: Overflow::Block,
                ..samara_engine::outbox::LaneCapacity::UNBOUNDED
            },
            // Nothing is ever held back: every frame has one receiver.
            patience: Duration::ZERO,
            ..LaneConfig::unbounded(name, priority)
        };
        let lanes = vec![lane("control", 0), lane("realtime", 1), lane("precomputation", 2)];
        OutboxConfig { dispatch: Dispatch::Node, lanes }
    }

    /// The shape of results for teams of this configuration.
    pub fn result_shape(&self) -> Shape {
        match self.shape {
            ResultShape::Fixed(shape) => shape,
            ResultShape::ByFormula { link_bytes_per_s, hop_s } => {
                let slot_bytes = self.group.slot_bytes() as u64;
                let workload = Workload {
                    members: self.team,
                    senders: 1,
                    message_bytes: u64::from(self.batch) * slot_bytes,
                    chunk_bytes: match self.transfer {
                        Transfer::Streamed => u64::from(self.realtime_slots) * slot_bytes,
                        Transfer::Unary => u64::from(self.batch) * slot_bytes,
                    },
                    link_bytes_per_s,
                    hop_s,
                };
                choose(&workload).shape
            }
        }
    }

    /// Whether the values are possible.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let distinct: std::collections::BTreeSet<_> = self.pool.iter().chain([&self.scheduler]).collect();
        check(
            distinct.len() == self.pool.len() + 1,
            "pool",
            &self.pool,
            "different nodes, and no scheduler",
        )?;
        let team_max = Self::TEAM_MAX.min(self.pool.len()).min(self.limits.team);
        check(
            (2..=team_max).contains(&self.team),
            "team",
            self.team,
            "2 to 32, and no more than the pool has",
        )?;
        check(self.teams > 0, "teams", self.teams, "at least 1")?;
        check((1..=self.batch_max).contains(&self.batch), "batch", self.batch, "1 to batch_max")?;
        let pieces = [self.precomputation_slots, self.realtime_slots];
        check(!pieces.contains(&0), "precomputation_slots, realtime_slots", pieces, "at least 1")?;
        check(
            self.ping.is_none_or(|ping| ping >= TICK_EVERY),
            "ping",
            self.ping,
            "none, or at least 100 ms",
        )?;
        check(self.rounds_per_draw > 0, "rounds_per_draw", 0, "at least 1")?;
        let rounds = [self.precomputing_max, self.realtime_max, self.jobs_max];
        check(!rounds.contains(&0), "precomputing_max, realtime_max, jobs_max", rounds, "at least 1")?;
        let (all, some) = (self.rounds_max, self.precomputing_max);
        check(all >= some, "rounds_max", all, "at least precomputing_max")?;
        let needed = self.teams * self.rounds_max;
        check(self.node_rounds_max >= needed, "node_rounds_max", self.node_rounds_max, "teams * rounds_max")?;
        let Reconnect { first, max, limit } = self.reconnect;
        let ordered = !first.is_zero() && first <= max && max <= limit;
        check(ordered, "reconnect", self.reconnect, "0 < first <= max <= limit")?;
        let ordered = !self.beat.is_zero() && self.beat < self.silence;
        check(ordered, "beat, silence", [self.beat, self.silence], "0 < beat < silence")
    }
}

/// The parameters of rounds as a configuration file states them.
#[cfg(feature = "config")]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
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
    /// Rounds with payloads on their way at the same time, at their first node: 1 is one after another, the size of the team
    /// is pipelined; more hide latency.
    pub realtime_max: u32,
    /// Rounds of a team that exist at the same time, including those that wait for a batch; as many as the stock needs, if
    /// that is more.
    pub rounds_max: u32,
    /// Teams are drawn anew after so many rounds.
    pub rounds_per_draw: u32,
    /// A link that nothing came from for so long is closed. Beats wait behind a large message, so this must exceed the time
    /// that the largest message takes.
    pub silence: Span,
    /// A node that is not connected for so long is lost: its rounds fail, and its teams are drawn anew.
    pub reconnect_limit: Span,
    /// A round fails that is not precomputed after so long.
    pub precomputation_timeout: Span,
    /// A round fails whose payloads are on their way for so long.
    pub realtime_timeout: Span,
    /// A round fails that waits for payloads for so long.
    pub queue_timeout: Span,
}

#[cfg(feature = "config")]
impl Default for Parameters {
    fn default() -> Self {
        let config = Config::default();
        let span = |duration: Duration| Span::from_millis(duration.as_millis() as u64);
        Self {
            call: config.transfer,
            precomputation_slots: config.precomputation_slots,
            realtime_slots: config.realtime_slots,
            shape: ShapeSetting::Direct,
            precomputing_max: config.precomputing_max as u32,
            realtime_max: config.realtime_max as u32,
            rounds_max: config.rounds_max as u32,
            rounds_per_draw: config.rounds_per_draw as u32,
            silence: span(config.silence),
            reconnect_limit: span(config.reconnect.limit),
            precomputation_timeout: span(config.precomputation_timeout),
            realtime_timeout: span(config.realtime_timeout),
            queue_timeout: span(config.queue_timeout),
        }
    }
}

#[cfg(feature = "config")]
impl Parameters {
    /// The configuration with these parameters. `formula` is the shape of results where the formula decides.
    pub fn build(&self, formula: ResultShape) -> Config {
        let config = Config::default();
        Config {
            transfer: self.call,
            precomputation_slots: self.precomputation_slots,
            realtime_slots: self.realtime_slots,
            shape: self.shape.fixed().map_or(formula, ResultShape::Fixed),
            rounds_per_draw: self.rounds_per_draw.into(),
            precomputing_max: self.precomputing_max as usize,
            rounds_max: self.rounds_max as usize,
            realtime_max: self.realtime_max as usize,
            silence: self.silence.duration(),
            reconnect: Reconnect { limit: self.reconnect_limit.duration(), ..config.reconnect },
            precomputation_timeout: self.precomputation_timeout.duration(),
            realtime_timeout: self.realtime_timeout.duration(),
            queue_timeout: self.queue_timeout.duration(),
            ..config
        }
    }
}
