//! Configuration of a pool of nodes and its scheduler.

use std::time::Duration;

pub use samara_engine::config::ConfigError;
use samara_engine::config::check;
use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig, Overflow};
#[cfg(feature = "config")]
use samara_engine::settings::{Overlay, Section};
use samara_engine::settings::{Ranges, above};
#[cfg(feature = "config")]
use samara_engine::shape::ShapeSetting;
use samara_engine::shape::{Workload, choose};
#[cfg(feature = "config")]
use samara_engine::units::Span;
use samara_engine::{PeerIdentity, Shape};

use crate::node::TICK_INTERVAL;
use crate::wire::Limits;
use crate::{Group, Transfer};

samara_engine::settings! {
    /// The configuration of a pool of nodes and its scheduler. All of them need the same pool and
    /// group; the scheduler decides on all other properties of rounds. [`Config::default`] has no
    /// nodes, and otherwise the values of the xx network's alpha.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// The nodes. The index of a node in this list is its number, which all hosts use.
        pub pool: Vec<PeerIdentity>,
        pub scheduler: PeerIdentity,
        pub group: Group,
        /// The node rejects rounds with lower numbers. After a restart of a node or of the scheduler,
        /// this must exceed the highest round in which it took part, so that nothing happens twice for
        /// a round.
        pub first_round: u64,

        /// Number of teams that exist at the same time.
        #[range(1..)]
        pub teams: usize,
        pub team: usize,
        pub batch: u32,
        /// The transfer of slots: each piece as soon as it is processed, or all slots of a phase in one
        /// message.
        pub transfer: Transfer => call,
        /// Slots that a node processes and sends together in the precomputation.
        #[range(1..)]
        pub precomputation_slots: u32 => precomputation_slots,
        /// Slots that a node processes and sends together in real time.
        #[range(1..)]
        pub realtime_slots: u32 => realtime_slots,
        /// The shape along which results travel from the last node to all the others.
        pub shape: ResultShape,
        /// Number of rounds after which a team is drawn again.
        #[range(1..)]
        pub rounds_per_draw: u64 => rounds_per_draw as u32,
        /// Total number of rounds that the scheduler creates in all teams; unlimited if absent.
        pub rounds: Option<u64>,
        /// Rounds of a team in precomputation at the same time: 1 is sequential, the size of the team
        /// is pipelined.
        #[range(1..)]
        pub precomputing_max: usize => precomputing_max as u32,
        /// Rounds of a team that exist at the same time, including those that wait for a batch. Bounds
        /// memory. Raised to the number that the stock needs, if that is larger.
        pub rounds_max: usize => rounds_max as u32,

        /// Rounds in real time at their first node at the same time: 1 is sequential, the size of the
        /// team is pipelined, and more hide latency.
        #[range(1..)]
        pub realtime_max: usize => realtime_max as u32,
        /// Maximum number of rounds, of all teams, that a node takes part in.
        pub node_rounds_max: usize,
        /// Maximum number of slots in a round that a node accepts.
        pub batch_max: u32,
        /// Jobs that run at the same time: the number of cores. Others wait in the engine, where real
        /// time goes first.
        #[range(1..)]
        pub jobs_max: usize,
        #[range(1..)]
        pub senders_max: usize,
        /// Minimum number of different senders with valid payloads in a batch. Every node of a team
        /// fails rounds with fewer, so that the first node alone cannot mix a payload with its own.
        /// With 0 or 1 there is no check.
        pub senders_min: usize,
        /// Maximum number of control frames that a host owes to a peer. It closes the link to a peer
        /// that lets more wait, because other frames of the protocol answer those of the peer.
        #[range(1..)]
        pub control_max: usize,
        /// Maximum sizes of frames from links.
        pub limits: Limits,

        /// Interval of the pings around each team and over each link, or `None` for no pings. A ping
        /// that does not return within the interval is lost.
        #[range(TICK_INTERVAL..)]
        pub ping: Option<Duration>,

        pub reconnect: Reconnect => ..,
        /// Interval at which each host sends a sign of life over each of its links.
        #[range(above(Duration::ZERO))]
        pub beat: Duration,
        /// Time without any frame after which a link is closed. Signs of life wait behind a large
        /// message, so this must exceed the time that the largest message takes.
        pub silence: Duration => silence as Span,
        /// Time after which a round fails if its precomputation is not complete.
        pub precomputation_timeout: Duration => precomputation_timeout as Span,
        /// Time after which a round fails if its payloads are still in real time.
        pub realtime_timeout: Duration => realtime_timeout as Span,
        /// Time after which a round fails if no payloads have arrived.
        pub queue_timeout: Duration => queue_timeout as Span,
    }
}

/// The shape along which results travel from the last node to all the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResultShape {
    /// Always this shape. The original uses [`Shape::Direct`].
    Fixed(Shape),
    /// The fastest shape by the formula ([`choose`]).
    ByFormula {
        /// Bytes per second of each node's link.
        link_bytes_per_s: f64,
        /// Seconds that it takes to forward a piece, latency included.
        hop_s: f64,
    },
}

samara_engine::settings! {
    /// Delays before lost links are dialled again: the n-th attempt waits for between half and all of
    /// `first * 2^n`, but at most `max`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reconnect {
        /// The delay before the first attempt.
        #[range(above(Duration::ZERO))]
        pub first: Duration,
        /// The maximum delay before any attempt.
        pub max: Duration,
        /// Time without a connection after which a node is lost: its rounds fail, and its teams are
        /// drawn again without it. Attempts continue.
        pub limit: Duration => reconnect_limit as Span,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pool: Vec::new(),
            scheduler: PeerIdentity::new(b"scheduler"),
            group: Group::Modp2048,
            first_round: 0,
            teams: 1,
            // Alpha of the xx network: "five of these nodes are part of an active network", "1000
            // payloads".
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
            senders_min: 0,
            // 64 rounds in teams of 32 nodes, with two shares of each node and the states and
            // acknowledgements of all phases, are 5,000.
            control_max: 1 << 13,
            limits: Limits::default(),
            // The interval of pings in the original.
            ping: Some(Duration::from_secs(5)),
            reconnect: Reconnect {
                first: Duration::from_millis(200),
                // The longest dial timeout of the original.
                max: Duration::from_secs(15),
                limit: Duration::from_secs(30),
            },
            beat: Duration::from_secs(1),
            // The keepalive of the original.
            silence: Duration::from_secs(5),
            // `PrecomputationTimeout`, `RealtimeTimeout` and `ResourceQueueTimeout` of the
            // original's scheduler.
            precomputation_timeout: Duration::from_secs(30),
            realtime_timeout: Duration::from_secs(15),
            queue_timeout: Duration::from_secs(180),
        }
    }
}

impl Config {
    /// The lane of everything except slots. It goes first.
    pub const CONTROL: Lane = Lane(0);
    /// The lane of slots in real time. It goes before the precomputation.
    pub const REALTIME: Lane = Lane(1);
    /// The lane of slots of the precomputation.
    pub const PRECOMPUTATION: Lane = Lane(2);

    /// Maximum number of nodes in a team. Sets of seats have 64 bits.
    pub const TEAM_MAX: usize = 32;

    /// Returns the outbox for a node with this configuration. The number of rounds bounds the slots
    /// in it. Peers can provoke control frames, so their lane has a limit.
    pub fn outbox(&self) -> OutboxConfig {
        let lane = |name, priority, copies| LaneConfig {
            capacity: LaneCapacity { overflow: Overflow::Block, ..LaneCapacity::copies(copies) },
            // No copy waits for a better moment: every frame has one receiver.
            patience: Duration::ZERO,
            ..LaneConfig::unbounded(name, priority)
        };
        let lanes = vec![
            lane("control", 0, self.control_max),
            lane("realtime", 1, usize::MAX),
            lane("precomputation", 2, usize::MAX),
        ];
        OutboxConfig { dispatch: Dispatch::Node, lanes }
    }

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

    /// Checks the values.
    ///
    /// # Errors
    /// Returns the first value that is not valid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        let distinct: std::collections::BTreeSet<_> = self.pool.iter().chain([&self.scheduler]).collect();
        check(
            distinct.len() == self.pool.len() + 1,
            "pool",
            &self.pool,
            "different nodes, without the scheduler",
        )?;
        let team_max = Self::TEAM_MAX.min(self.pool.len()).min(self.limits.team);
        check(
            (2..=team_max).contains(&self.team),
            "team",
            self.team,
            "2 to 32, and no more than the pool has",
        )?;
        check((1..=self.batch_max).contains(&self.batch), "batch", self.batch, "1 to batch_max")?;
        let (all, some) = (self.rounds_max, self.precomputing_max);
        check(all >= some, "rounds_max", all, "at least precomputing_max")?;
        let needed = self.teams * self.rounds_max;
        check(self.node_rounds_max >= needed, "node_rounds_max", self.node_rounds_max, "teams * rounds_max")?;
        let Reconnect { first, max, limit } = self.reconnect;
        check(max >= first, "reconnect.max", max, format!("at least reconnect.first = {first:?}"))?;
        let expected = format!("at least {max:?}, the maximum delay before an attempt");
        check(limit >= max, "reconnect.limit", limit, expected)?;
        let expected = format!("more than beat = {:?}", self.beat);
        check(self.silence > self.beat, "silence", self.silence, expected)
    }
}

/// The parameters of rounds in a file.
#[cfg(feature = "config")]
pub type Parameters = Overlay<FileConfig>;

#[cfg(feature = "config")]
samara_engine::section! {
    /// The parameters of rounds in a configuration file.
    #[derive(Clone, Debug, Default)]
    pub struct FileConfig {
        /// The configuration of the engine, apart from the shape.
        pub config: Config => ..,
        /// The shape along which results travel from the last node to all the others.
        pub shape: ShapeSetting => shape,
    }
}

#[cfg(feature = "config")]
impl Section for FileConfig {
    const WRITES_ALL: bool = true;
}

#[cfg(feature = "config")]
impl FileConfig {
    /// Returns the configuration with these parameters. `formula` is the shape of results if the
    /// formula decides.
    pub fn build(&self, formula: ResultShape) -> Config {
        Config { shape: self.shape.fixed().map_or(formula, ResultShape::Fixed), ..self.config.clone() }
    }
}
