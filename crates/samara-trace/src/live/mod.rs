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

mod event;
mod latencies;
mod reader;
mod writer;

pub use event::{Clock, Edge, Event, Line, Outcome, Progress, RoundState, RunState, Step, VERSION};
pub use latencies::Latencies;
pub use reader::{LINE_BYTES_MAX, LiveReader, ReadCounts, Said};
pub use writer::LiveWriter;
