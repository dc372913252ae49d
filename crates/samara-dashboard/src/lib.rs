//! A page that shows runs while they go on.
//!
//! Runs write [live files](samara_trace::live); this follows them, reduces them to a [`State`](state::State) and serves a page
//! that shows it: teams, rounds and phases as a timeline, round trips, throughput, queues, errors, how long slots take, and how far
//! simulations and testbeds are. Nothing is loaded from elsewhere, nothing is written, and runs do not notice.
//!
//! | file | |
//! |---|---|
//! | `runs` | which runs there are in a directory |
//! | `follow` | files of a run, as they grow |
//! | `state` | what is known of a run |
//! | `hub` | what changes, for everybody who looks |
//! | `watch` | runs that somebody looks at |
//! | `access` | who may look |
//! | `serve` | HTTP |
//!
//! # Bounds
//! Of each run that somebody looks at: 1,024 files, 256 rounds, 4,096 links, and views of the last 256 changes; 16 runs and 64 lookers
//! at the same time. Who is too slow gets the whole view once more instead of what was missed.

mod access;
mod follow;
mod hub;
mod runs;
mod serve;
pub mod state;
mod watch;

pub use access::{AccessError, TOKEN_MIN};
pub use serve::{Dashboard, ServeError};
