//! Live status, as lines of JSON that can be followed while they are written.
//!
//! A **source** (a simulation, a testbed, a node, a client) writes one file,
//! `live/NAME.jsonl` in the directory of the results: the name of the source is the name of its file. [`LiveWriter`] never makes
//! its source wait; what does not fit is dropped, counted, and said in the file. [`LiveReader`] takes files as they grow, and
//! survives torn lines, files that were cut or replaced, and rubbish, which it counts. Each line is a [`Line`]:
//!
//! ```json
//! {"v":1,"seq":0,"at_ns":0,"event":"started","role":"simulation","clock":"virtual","started_unix_ns":1760000000000000000,"run":"sequential"}
//! {"v":1,"seq":1,"at_ns":210000000,"event":"round","round":7,"state":"realtime","team":0}
//! ```
//!
//! # What sources owe their readers
//! - `at_ns` is on the clock that `started` names, and never goes back: Unix time of a **wall** clock, or the time since the start
//!   of a simulation on a **virtual** one. Nobody compares times of two virtual clocks.
//! - Totals (bytes, deliveries, errors) only grow; a source that restarts writes `started` again and begins at 0.
//! - A value that is not known is left out. It is never 0 instead.
//! - Nodes are called the same in all files of a run: `peer` and `members` are names of sources, or of nodes that a source
//!   speaks for with `node`.
//! - `seq` counts the lines of a source. What a [`LiveWriter`] adds itself (`dropped`; what still holds, at the start of a new file)
//!   has the number of the line after it.
//! - Whatever changes often is said a few times a second at most; rounds, phases and slots are said when they happen.
//!
//! # Latency of slots
//! A payload that mixes cannot be followed by its position: that is what a mix is for. Still the latencies are right, whatever number of
//! rounds is in flight, since entry and exit are reported **with their round** and never taken from "the batch before". Of a round,
//! `slots` says when how many came in and went out: their mean latency is exact in any order, because the sum of differences does
//! not depend on who is whom. Clients recognise their own payloads, and tell `latencies` of slot by slot.

mod latencies;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

pub use latencies::Latencies;
pub use reader::{LINE_BYTES_MAX, LiveReader, ReadCounts, Said};
pub use writer::LiveWriter;

/// The version of the lines that are written, and the only one that is read. Events and fields that readers do not know are no new
/// version: they leave them out.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub v: u32,
    /// The number of the line since its source started: a reader notices a missing one.
    pub seq: u64,
    /// When, in nanoseconds on the clock of the source.
    pub at_ns: u64,
    /// The node that it is about, if not the source itself: a testbed speaks for its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(flatten)]
    pub event: Event,
}

/// An event that a source reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line, and the first one after a restart.
    Started {
        /// What it is, for readers: `simulation`, `testbed`, `node`, `scheduler`, `client`, `session`.
        role: String,
        /// What its times mean.
        clock: Clock,
        /// When it started, in Unix time; distinguishes files of different runs in one directory.
        started_unix_ns: u64,
        /// The run of the scenario that it belongs to, if it has several.
        #[serde(skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// How a link is. What it counts are totals since the start.
    Link {
        peer: String,
        up: bool,
        /// The latest round trip over it, of the ping or of the transport.
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
    /// How long something waits: copies in an outbox, jobs for a processor, transactions in a pool.
    Queue {
        queue: String,
        entries: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// A team was drawn, of these nodes in the order in which slots pass them. No members: there are too few nodes.
    Team { team: u64, members: Vec<String> },
    /// A round is in a new state.
    Round {
        /// The number of the round; no two teams of a run share numbers.
        round: u64,
        state: RoundState,
        #[serde(skip_serializing_if = "Option::is_none")]
        team: Option<u64>,
        /// Its slots. A reader that knows them waits for all before it computes latencies.
        #[serde(skip_serializing_if = "Option::is_none")]
        slots: Option<u64>,
        /// Why it failed, if it did.
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
    },
    /// A node begins or ends to work on a phase of a round, by the protocol's name of the phase.
    Phase { round: u64, phase: String, edge: Edge },
    /// So many slots of a round have come in, or gone out, at this moment.
    Slots { round: u64, step: Step, slots: u64 },
    /// Slots of a round that were followed one by one, by who sealed them: from when they were handed in to when they came out.
    Latencies { round: u64, latencies: Latencies },
    /// A ping has gone around a team, each node handing it on to the next one: the sum of the one-way latencies.
    Ping {
        /// The team, if the sender of the ping knows its number.
        #[serde(skip_serializing_if = "Option::is_none")]
        team: Option<u64>,
        /// The nodes that it passed, in order; the first one holds the clock.
        members: Vec<String>,
        /// How long it took. Left out: it did not come back in time.
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_ns: Option<u64>,
    },
    /// How far a run of a simulator or a testbed is.
    Progress(Progress),
    /// What was done since the start, from which readers make rates.
    Throughput {
        /// What is counted: `payloads`, `messages`, `transactions`.
        of: String,
        total: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// How often something has gone wrong since the start: a cause of the protocol's metrics.
    Errors { cause: String, total: u64 },
    /// Lines that the writer had no room for, since the start.
    Dropped { lines: u64 },
    /// The last line. A source that ends without it was stopped.
    Finished {
        outcome: Outcome,
        /// Why, if it went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Something that this version does not know; never written.
    #[serde(other)]
    Unknown,
}

/// How far a run is. Values that are not known are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub state: RunState,
    /// What is being done, in a word or two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// How much of it is done, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Time of a wall clock since it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_ns: Option<u64>,
    /// Messages that have reached somebody who was to get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<u64>,
    /// How many of them there are to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries_expected: Option<u64>,
    /// Frames that have arrived, those included that nobody needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// What the times of a source mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Nanoseconds of Unix time.
    Wall,
    /// Nanoseconds since the start of a simulation.
    Virtual,
}

/// How far a round is, in the words of the xx network's scheduling server (`current.Activity` and `states.Round`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundState {
    /// The team is drawn.
    Pending,
    /// The team shares keys and precomputes.
    Precomputing,
    /// The precomputation is done.
    Standby,
    /// A batch may come.
    Queued,
    /// Payloads pass.
    Realtime,
    /// All nodes have all payloads.
    Completed,
    /// It is dropped.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The first slots are there.
    Begin,
    /// The last ones are worked on.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// They were handed to the team.
    Entered,
    /// They have come out.
    Left,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its turn has not come.
    #[default]
    Waiting,
    Running,
    Done,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should.
    Ok,
    Failed,
    /// Somebody stopped it.
    Interrupted,
}
