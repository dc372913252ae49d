//! A pool of engines in virtual time, with an application that fills every batch, and a record of what came of it.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    reason = "every test file uses a part"
)]

mod net;
mod record;

pub use net::{Crash, Net};

use std::time::Duration;

use samara_engine::PeerIdentity;
use samara_mix::{Config, Group, Reconnect};

/// The identity of a host.
pub fn identity(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_be_bytes())
}

/// The host with this identity.
pub fn host_of(identity: &PeerIdentity) -> u32 {
    u32::from_be_bytes(identity.as_bytes().try_into().unwrap())
}

/// A pool of so many nodes, with teams of so many, small batches and short times.
pub fn config(pool: u32, team: usize, group: Group) -> Config {
    Config {
        pool: (0..pool).map(identity).collect(),
        scheduler: identity(pool),
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
