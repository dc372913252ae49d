//! Pools of engines in virtual time, and their parts: numbers, keys, secrets, and the wire format.
#![allow(clippy::unwrap_used, reason = "a test program")]

mod arithmetic;
mod faults;
mod hostile;
mod memory;
mod net;
mod pings;
mod pipelining;
mod properties;
mod record;
mod replays;
mod rounds;
mod seeds;
mod unlinkable;
mod wire;

use std::time::Duration;

use samara_engine::testing::identity_of;
use samara_mix::{Config, Group, Reconnect};

/// Returns a configuration with small batches and short times.
fn config(pool: u32, team: usize, group: Group) -> Config {
    Config {
        pool: (0..pool).map(identity_of).collect(),
        scheduler: identity_of(pool),
        group,
        team,
        batch: 24,
        precomputation_slots: 4,
        realtime_slots: 5,
        precomputing_max: team,
        realtime_max: team,
        rounds_max: 2 * team,
        reconnect: Reconnect {
            first: Duration::from_millis(50),
            max: Duration::from_secs(1),
            limit: Duration::from_secs(3),
        },
        beat: Duration::from_millis(500),
        silence: Duration::from_secs(2),
        precomputation_timeout: Duration::from_secs(10),
        realtime_timeout: Duration::from_secs(8),
        queue_timeout: Duration::from_secs(20),
        ..Config::default()
    }
}
