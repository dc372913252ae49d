//! Queues, and the channels that a multiplexed connection makes of them.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Overflow};

use super::Config;

/// Queues, and the channels that a multiplexed connection makes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// Who chooses the next copy.
    pub dispatch: Dispatch,
    /// The lanes of the outbox. They refuse what has no room ([`Overflow::Block`]): every generation looks at that.
    pub lanes: Vec<LaneConfig>,
    /// Which kind of frame goes where.
    pub map: LaneMap,
    /// The channels of a `MConnection`; each lane belongs to one.
    pub channels: Vec<Channel>,
}

/// The lane of each kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMap {
    /// Transactions and bundles in full.
    pub bodies: Lane,
    /// Compact blocks.
    pub blocks: Lane,
    /// Requests.
    pub requests: Lane,
    /// Announcements, and that something was not found.
    pub announcements: Lane,
}

/// A channel of a `MConnection` (`p2p.ChannelDescriptor`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its number.
    pub id: u8,
    /// Its share of the connection: channels share it in proportion to their priorities.
    pub priority: u32,
    /// Messages that it queues.
    pub send_queue: usize,
    /// The lanes that are sent over it.
    pub lanes: Vec<Lane>,
}

const MIB: u64 = 1 << 20;

fn lane(name: &'static str, priority: u8, copies: usize, bytes: u64) -> LaneConfig {
    LaneConfig {
        name,
        priority,
        capacity_copies: copies,
        capacity_bytes: bytes,
        overflow: Overflow::Block,
        // All schedules here are sequential: nothing is ever held back.
        patience: Duration::ZERO,
    }
}

fn channel(id: u8, priority: u32, send_queue: usize, lanes: &[u8]) -> Channel {
    Channel { id, priority, send_queue, lanes: lanes.iter().map(|lane| Lane(*lane)).collect() }
}

impl Sending {
    /// The flooding pools: one channel, 0x30, with priority 5 (`mempool/v0/reactor.go`) and the default send queue of 1.
    pub(super) fn flood() -> Self {
        Self { channels: vec![channel(0x30, 5, 1, &[0]), channel(0x31, 5, 1, &[1])], ..Self::until_2025(1) }
    }

    /// CAT until 2025: bodies on 0x30 with priority 6, announcements and requests on 0x31 with priority 5, send queues of 1
    /// (`GetChannels` in `mempool/cat/reactor.go` at v1.16). `Send` waits for up to 10 s while a queue is full: the lanes are what
    /// waits. `state` is the priority of the second lane where there is no `MConnection`.
    pub(super) fn until_2025(state: u8) -> Self {
        Self {
            dispatch: Dispatch::PerLink,
            lanes: vec![
                lane("bodies", u8::from(state == 0), 5_000, 256 * MIB),
                lane("state", state, 20_000, 4 * MIB),
            ],
            map: LaneMap { bodies: Lane(0), blocks: Lane(1), requests: Lane(1), announcements: Lane(1) },
            channels: vec![channel(0x30, 6, 1, &[0]), channel(0x31, 5, 1, &[1])],
        }
    }

    /// CAT in 2026: bodies and announcements together on 0x31, requests on 0x32, both with priority 3 and a queue of 1,000. A
    /// request that finds the queue full goes to another peer (`TrySend`). The legacy channel 0x30 is only listened to.
    pub(super) fn of_2026() -> Self {
        Self {
            dispatch: Dispatch::PerLink,
            lanes: vec![lane("data", 0, 6_000, 256 * MIB), lane("wants", 0, 1_000, MIB)],
            map: LaneMap { bodies: Lane(0), blocks: Lane(0), requests: Lane(1), announcements: Lane(0) },
            channels: vec![
                channel(0x30, 1, 10, &[]),
                channel(0x31, 3, 1_000, &[0]),
                channel(0x32, 3, 1_000, &[1]),
            ],
        }
    }

    /// Ours: a lane for each kind; bodies always before state messages, so that nothing is announced faster than it can be served.
    /// The same two channels as in 2023, so that old nodes can be peers.
    pub(super) fn ours() -> Self {
        Self {
            dispatch: Dispatch::PerLink,
            lanes: vec![
                lane("bodies", 0, 2_000, 64 * MIB),
                lane("blocks", 1, 16, 16 * MIB),
                lane("requests", 2, 4_000, MIB),
                lane("announcements", 3, 4_000, 4 * MIB),
            ],
            map: LaneMap { bodies: Lane(0), blocks: Lane(1), requests: Lane(2), announcements: Lane(3) },
            channels: vec![channel(0x30, 6, 1, &[0]), channel(0x31, 5, 1, &[1, 2, 3])],
        }
    }
}

impl Config {
    /// The outbox that a node with this configuration needs.
    pub fn outbox(&self) -> OutboxConfig {
        OutboxConfig { dispatch: self.sending.dispatch, lanes: self.sending.lanes.clone() }
    }

    /// The channels that a `MConnection` makes of the lanes.
    pub fn channels(&self) -> &[Channel] {
        &self.sending.channels
    }
}
