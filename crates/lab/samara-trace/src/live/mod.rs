//! Live status, as lines of JSON that readers can follow while they are written.
//!
//! A **source** (a simulation, a testbed, a node, a client) writes one file, `live/NAME.jsonl` in
//! the results directory, where NAME is the name of the source. [`LiveWriter`] never blocks its
//! source: if its queue is full, it drops lines, counts them, and reports the count in the file.
//! [`LiveReader`] reads files as they grow. It handles incomplete lines, files that were truncated
//! or replaced, and invalid lines, which it counts. Each line is a [`Line`]:
//!
//! ```json
//! {"v":1,"seq":0,"at_ns":0,"event":"started","role":"simulation","clock":"virtual","started_unix_ns":1760000000000000000,"run":"sequential"}
//! {"v":1,"seq":1,"at_ns":210000000,"event":"round","round":7,"state":"realtime","team":0}
//! ```
//!
//! A [`Feed`] has the same lines in memory, for readers on other machines: a node answers each
//! request with the lines that are new to the reader, and with its counts of that moment. A
//! [`FeedReader`] reads the answers.
//!
//! # Rules for sources
//! - `at_ns` is on the clock that `started` names, and never goes back. On a **wall** clock it is
//!   Unix time, on a **virtual** one the time since the start of a simulation. Times of two virtual
//!   clocks are not comparable.
//! - Totals (bytes, deliveries, errors) never decrease. A source that restarts writes `started`
//!   again and begins at 0.
//! - A value that is not known is omitted, never 0.
//! - A node has the same name in all files of a run: `peer` and `members` are names of sources, or
//!   of nodes that a source reports on with `node`.
//! - `seq` counts the lines of a source. A line that a [`LiveWriter`] adds has the number of the
//!   line after it. It adds `dropped`, and at the start of a new file the lines that are still
//!   valid.
//! - Sources report frequent changes a few times a second at most, but rounds, phases and slots
//!   when they happen.
//!
//! # Latency of slots
//! A payload in a mix cannot be followed by its position, since hiding that is the purpose of a
//! mix. Latencies are nevertheless correct with any number of rounds in flight, because sources
//! report entry and exit **with their round** and never assume "the batch before". `slots` reports
//! how many slots of a round entered and left, and when. Their mean latency is exact in any order,
//! because the sum of differences does not depend on the pairing. Clients recognise their own
//! payloads, and report `latencies` slot by slot.

mod feed;
mod latencies;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use feed::{FEED_BYTES_MAX, Feed, FeedError, FeedReader, Head};
pub use latencies::Latencies;
pub use reader::{LINE_BYTES_MAX, LiveReader, ReadCounts, Said, open_regular};
pub use writer::LiveWriter;

/// The version of the written lines, and the only version that readers accept. Unknown events and
/// fields do not need a new version, since readers count and skip them.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub v: u32,
    /// Number of the line since the start of its source, by which readers notice missing lines.
    pub seq: u64,
    /// Time of the event, in nanoseconds on the clock of the source.
    pub at_ns: u64,
    /// The node that the line is about, if not the source itself. A testbed reports on its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(flatten)]
    pub event: Event,
}

/// An event that a source reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line of a source, also after a restart.
    Started {
        /// The role of the source: `simulation`, `testbed`, `node`, `scheduler`, `client` or
        /// `session`.
        role: String,
        /// The clock of the source's times.
        clock: Clock,
        /// Unix time of the start, which distinguishes files of different runs in one directory.
        started_unix_ns: u64,
        /// The run of the source, if the scenario has several.
        #[serde(skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// The state of a link. Its counts are totals since the start.
    Link {
        peer: String,
        up: bool,
        /// The latest round-trip time, measured by the ping or the transport.
        #[serde(skip_serializing_if = "Option::is_none")]
        round_trip_ns: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes_up: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes_down: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        queued_frames: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        queued_bytes: Option<u64>,
    },
    /// The length of a queue: copies in an outbox, jobs for a processor, transactions in a pool.
    Queue {
        queue: String,
        entries: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// A team of these nodes was formed, in the order in which slots pass them. Without members,
    /// there were too few nodes.
    Team { team: u64, members: Vec<String> },
    /// A round has entered a new state.
    Round {
        /// The number of the round. Teams of a run do not share numbers.
        round: u64,
        state: RoundState,
        #[serde(skip_serializing_if = "Option::is_none")]
        team: Option<u64>,
        /// The number of slots. A reader that knows it computes latencies once all have left.
        #[serde(skip_serializing_if = "Option::is_none")]
        slots: Option<u64>,
        /// The reason, if the round failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A node begins or ends its work on a phase of a round, by the protocol's name of the phase.
    Phase { round: u64, phase: String, edge: Edge },
    /// This number of slots of a round has entered or left at this moment.
    Slots { round: u64, step: Step, slots: u64 },
    /// Latencies of slots that their sender followed one by one, from submission to exit.
    Latencies { round: u64, latencies: Latencies },
    /// A ping has gone around a team from node to node. Its time is the sum of the one-way
    /// latencies.
    Ping {
        /// The number of the team, if the sender of the ping knows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        team: Option<u64>,
        /// The nodes on the path of the ping, in order. The first one measures the time.
        members: Vec<String>,
        /// Duration of the ping. Omitted if it did not return in time.
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_ns: Option<u64>,
    },
    /// The progress of a run of a simulator or a testbed.
    Progress(Progress),
    /// Totals since the start, from which readers compute rates.
    Throughput {
        /// The counted unit: `payloads`, `messages` or `transactions`.
        of: String,
        total: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// Number of errors with a cause of the protocol's metrics, since the start.
    Errors { cause: String, total: u64 },
    /// Number of lines dropped for lack of room in the queue, since the start.
    Dropped { lines: u64 },
    /// The last line. A source whose file ends without it was stopped.
    Finished {
        outcome: Outcome,
        /// The reason, if the source failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// An event that this version does not know. Writers never write it.
    #[serde(other)]
    Unknown,
}

/// The progress of a run. Unknown values are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub state: RunState,
    /// The current activity, in a word or two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// The completed share, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Elapsed wall-clock time since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_ns: Option<u64>,
    /// Messages that have reached a node that expects them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<u64>,
    /// Total number of expected deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries_expected: Option<u64>,
    /// Frames that have arrived, including redundant ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// Clocks of a source's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Nanoseconds of Unix time.
    Wall,
    /// Nanoseconds since the start of a simulation.
    Virtual,
}

/// States of a round, with the names of the xx network's scheduling server (`current.Activity` and
/// `states.Round`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundState {
    /// The team was formed.
    Pending,
    /// The team shares keys and precomputes.
    Precomputing,
    /// The precomputation has finished.
    Standby,
    /// The team accepts a batch.
    Queued,
    /// The team processes the payloads in real time.
    Realtime,
    /// All nodes have all payloads.
    Completed,
    /// The round was dropped.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The first slots have arrived.
    Begin,
    /// The last slots are processed.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The slots were submitted to the team.
    Entered,
    /// The slots have left the team.
    Left,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The run has not started yet.
    #[default]
    Waiting,
    Running,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The source completed its work.
    Ok,
    Failed,
    /// A user or a signal stopped the source.
    Interrupted,
}
