//! A page that shows runs while they go on.
//!
//! Runs write [live files](samara_trace::live). This crate follows them, reduces them to a
//! [`State`](state::State) and serves a page with teams, rounds and phases as a timeline, round trips,
//! throughput, queues, errors, the latency of slots, and the progress of simulations and testbeds. The page
//! loads nothing from elsewhere; the server writes nothing, and runs do not notice.
//!
//! | file | |
//! |---|---|
//! | `runs` | the runs in a directory, and following those that pages show |
//! | `state` | the state of a run |
//! | `hub` | the view of a run and its changes, for all its pages |
//! | `access` | who may open the page |
//! | `serve` | HTTP |
//!
//! # Bounds
//! Of each run with a page: 1,024 files, 256 rounds, 4,096 links, and views of the last 256 changes; 16 runs
//! and 64 pages at the same time. A page that is too slow gets the whole view again instead of the changes
//! that it missed.

mod access;
mod hub;
mod runs;
mod serve;
pub mod state;

pub use access::{AccessError, TOKEN_MIN};
pub use serve::{Dashboard, ServeError};
