//! A web page that shows runs in progress.
//!
//! Runs write [live files](samara_trace::live). This crate follows them, reduces them to a
//! [`State`](state::State), and serves a page that shows teams, rounds and phases as a timeline,
//! round trips, throughput, queues, errors, the latency of slots, and the progress of simulations
//! and testbeds. The page loads nothing from other servers. The server writes no files and does not
//! affect runs.
//!
//! | file | |
//! |---|---|
//! | `runs` | lists the runs in a directory, and follows those that pages show |
//! | `nodes` | requests the live lines of nodes on other machines |
//! | `state` | the state of a run |
//! | `hub` | the view of a run and its changes, for all its pages |
//! | `access` | access control |
//! | `places` | the places of connections |
//! | `serve` | pages and events |
//! | `http` | requests and responses |
//!
//! # Limits
//! For each run with a page: 1,024 files, 256 rounds, 4,096 links, and the last 256 changes. In
//! all, 16 runs, 64 pages and 256 connections at once, which hosts share by the prefixes of their
//! addresses; further connections are closed, and so is the longest of 64 waits for a request if
//! another client connects. A request arrives within 5 s, and a client takes a response at 64 KiB a
//! second or faster. A page that is too slow gets the whole view instead of the changes that it
//! missed.
//!
//! Of nodes on other machines: 256, each with one request at a time. An answer has 512 KiB and
//! arrives within 5 s. A node has 512 names of links, queues, counters and errors.

mod access;
mod http;
mod hub;
mod nodes;
mod places;
mod runs;
mod serve;
pub mod state;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use http::fuzz_request;

pub use access::{AccessError, TOKEN_MIN};
pub use nodes::{NodeAddress, read_nodes};
pub use serve::{Dashboard, ServeError};
