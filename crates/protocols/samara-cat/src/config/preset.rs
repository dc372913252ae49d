//! The measured generations, and ours.

use std::time::Duration;

use samara_engine::outbox::{Dispatch, Lane, LaneConfig, Overflow};

use super::{
    Announce, Channel, Choice, Config, Hint, Inline, Jitter, LaneMap, Limits, Overflow as PendingOverflow,
    Protocol, Recipients, Requests, Sending, Sequences, Standing, Sticky, Timeout,
};
use crate::pool::{Order, PoolConfig};

samara_engine::names! {
    /// A named configuration. `docs/protocols/cat.md` has the source of each value.
    #[derive(Default)]
    #[cfg_attr(
        feature = "config",
        derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
        serde(rename_all = "kebab-case")
    )]
    pub enum Preset {
        /// The flooding pool of CometBFT, v0: every transaction to all peers but its sender, in
        /// order of arrival.
        FloodFifo = "flood-fifo",
        /// The flooding pool with priorities, v1.
        FloodPriority = "flood-priority",
        /// Flooding with announcements, so that no peer gets a transaction that it has announced:
        /// the prototype that the ADR rejects.
        SeenOnly = "seen-only",
        /// CAT as benchmarked in January 2023 (`v1.5.0-tm-v0.34.20-cat-simple-1`).
        #[cfg_attr(feature = "config", serde(rename = "cat-2023"))]
        Cat2023 = "cat-2023",
        /// The same with `From` in its announcements (`...-cat-9`), which the ADR calls CAT2.
        #[cfg_attr(feature = "config", serde(rename = "cat2-2023"))]
        Cat2From2023 = "cat2-2023",
        /// CAT as merged (`v1.16.0-tm-v0.34.27`): jitter before each announcement.
        CatMerged = "cat-merged",
        /// CAT of celestia-core v0.39.10: pull only, sticky peers, requests in the order of sequence
        /// numbers.
        #[cfg_attr(feature = "config", serde(rename = "cat-2025"))]
        Cat2025 = "cat-2025",
        /// CAT of August 2026 (`dda8d507`): pull only, sticky peers, sequences, limits.
        #[cfg_attr(feature = "config", serde(rename = "cat-2026"))]
        Cat2026 = "cat-2026",
        /// Our pool, the default.
        #[default]
        Cat = "cat",
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

impl Preset {
    /// Returns the configuration of this preset.
    pub fn config(self) -> Config {
        match self {
            Self::FloodFifo => flood(Order::Fifo),
            Self::FloodPriority => flood(Order::Priority),
            Self::SeenOnly => seen_only(),
            Self::Cat2023 => cat_2023(),
            Self::Cat2From2023 => {
                Config { hint: Hint::From { wait: Duration::from_millis(200) }, ..cat_2023() }
            }
            Self::CatMerged => cat_merged(),
            Self::Cat2025 => cat_2025(),
            Self::Cat2026 => cat_2026(),
            Self::Cat => cat(),
        }
    }
}

/// `mempool/v0` and `mempool/v1`: a goroutine for each peer walks the list of transactions in order
/// of arrival and skips those that the peer sent. A full send queue is retried after 100 ms, as the
/// engine does with rejected bodies.
fn flood(order: Order) -> Config {
    Config {
        protocols: vec![Protocol::Flood],
        pool: PoolConfig { order, ..PoolConfig::default() },
        push: Recipients::All,
        forward: Recipients::All,
        announce: Announce::Nobody,
        withdraw: true,
        height_lag_max: Some(1),
        sending: Sending::flood(),
        ..cat_2023()
    }
}

/// "All nodes would gossip SeenTx upon receiving a valid tx. Nodes would not relay received
/// transactions to peers that had sent them a SeenTx" (ADR 009, alternatives), with a higher
/// priority for the announcements.
fn seen_only() -> Config {
    let mut sending = Sending::until_2025(0);
    for (channel, priority) in sending.channels.iter_mut().zip([5, 6]) {
        channel.priority = priority;
    }
    Config {
        push: Recipients::All,
        forward: Recipients::All,
        withdraw: true,
        announce_own: true,
        sending,
        ..cat_2023()
    }
}

fn cat_2023() -> Config {
    Config {
        protocols: vec![Protocol::Cat, Protocol::Flood],
        pool: PoolConfig::default(),
        push: Recipients::All,
        forward: Recipients::Nobody,
        bridge: false,
        withdraw: false,
        take_unrequested: true,
        announce: Announce::Unseen,
        sticky: Sticky { peers: 15, persistent: 4 },
        announce_own: false,
        announce_duplicates: true,
        announced_is_seen: false,
        hint: Hint::None,
        jitter: Jitter::None,
        coalesce: Duration::ZERO,
        inline: Inline::Never,
        requests: Requests {
            timeout: Timeout::Fixed(Duration::from_millis(200)),
            stale: HOUR,
            check_presence: false,
            late_answer_ends: true,
            forget_unresponsive: false,
            choice: Choice::Random,
            per_peer_max: usize::MAX,
            standing: None,
        },
        not_found: false,
        sync: true,
        forget_on_disconnect: false,
        height_lag_max: Some(20),
        persistent: Vec::new(),
        sequences: None,
        bundles: None,
        compact_blocks: None,
        limits: Limits {
            keys_per_peer: usize::MAX,
            unknown_per_peer: 20_000,
            keys: 1_000_000,
            seen_ttl: HOUR,
            txs_per_frame: usize::MAX,
            // The real nodes leave frames in the buffers of TCP, which blocks their peers. Here no
            // peer is blocked.
            waiting_bytes: 64 << 20,
            repeated_answers: u32::MAX,
            invalid_bodies: 0,
        },
        disconnect_misbehaving: true,
        sending: Sending::until_2025(1),
        report_duplicates: true,
        report_requests: true,
    }
}

fn cat_merged() -> Config {
    Config {
        jitter: Jitter::Sleep { step: Duration::from_millis(10), steps: 10 },
        sync: false,
        height_lag_max: Some(10),
        ..cat_2023()
    }
}

/// `mempool/cat` of celestia-core v0.39.10 (October 2025), with the timeout of celestia-app.
fn cat_2025() -> Config {
    let base = cat_2023();
    Config {
        protocols: vec![Protocol::Sequenced, Protocol::Flood],
        pool: PoolConfig {
            order: Order::SignerSets,
            keep_invalid: true,
            retry_invalid: true,
            ..PoolConfig::default()
        },
        push: Recipients::Nobody,
        announce: Announce::Sticky,
        sticky: Sticky { peers: 15, persistent: 0 },
        announce_own: true,
        announced_is_seen: true,
        requests: Requests {
            // `MaxGossipDelay` of celestia-app; the default of celestia-core is 60 s.
            timeout: Timeout::Fixed(Duration::from_secs(20)),
            ..base.requests
        },
        sync: false,
        forget_on_disconnect: true,
        height_lag_max: Some(10),
        sequences: Some(Sequences {
            strict: false,
            parallel_max: 1,
            ahead_max: 0,
            buffered_per_peer_max: 0,
            buffered_bytes_per_peer: 0,
            buffered_bytes: 0,
            pending_per_signer_max: 64,
            overflow: PendingOverflow::Oldest,
            resumed_by_blocks: false,
            announced_max: usize::MAX,
        }),
        sending: Sending::of_2026(),
        ..base
    }
}

fn cat_2026() -> Config {
    let base = cat_2025();
    Config {
        take_unrequested: false,
        sticky: Sticky { peers: 15, persistent: 4 },
        announce_duplicates: false,
        requests: Requests {
            late_answer_ends: false,
            forget_unresponsive: true,
            per_peer_max: 30,
            ..base.requests
        },
        sequences: Some(Sequences {
            strict: true,
            parallel_max: 30,
            ahead_max: 30,
            buffered_per_peer_max: 30,
            // As many bodies of maximum size.
            buffered_bytes_per_peer: 30 << 20,
            buffered_bytes: usize::MAX,
            pending_per_signer_max: 1_000,
            overflow: PendingOverflow::Highest,
            resumed_by_blocks: true,
            announced_max: usize::MAX,
        }),
        limits: Limits {
            keys_per_peer: 1_000,
            seen_ttl: Duration::from_secs(120),
            txs_per_frame: 1,
            ..base.limits
        },
        ..base
    }
}

fn cat() -> Config {
    let base = cat_2023();
    Config {
        protocols: vec![Protocol::Extended, Protocol::Cat, Protocol::Sequenced, Protocol::Flood],
        bridge: true,
        withdraw: true,
        announce_own: true,
        announce_duplicates: false,
        hint: Hint::Short { wait_max: Duration::from_millis(500) },
        // The first announcement after a pause is sent at once. A frame of its own costs sealing,
        // padding and headers: in the scenario `cat`, a node receives 15.5, 12.3, 10.3 and 8.5 kB
        // for each transaction with windows of 10, 25, 50 and 100 ms, and has it after 13, 15, 21
        // and 27 ms (medians).
        coalesce: Duration::from_millis(100),
        inline: Inline::WhereItWins,
        requests: Requests {
            timeout: Timeout::ADAPTIVE,
            stale: Duration::from_secs(60),
            check_presence: true,
            late_answer_ends: false,
            forget_unresponsive: true,
            choice: Choice::Best,
            per_peer_max: 256,
            // Long enough for some announcement windows and round trips, so that other holders have
            // announced it.
            standing: Some(Standing { patience: Duration::from_millis(500), probe: Duration::from_secs(1) }),
        },
        not_found: true,
        sync: true,
        forget_on_disconnect: true,
        height_lag_max: Some(10),
        // Peers of `cat/3` announce signers and sequence numbers.
        sequences: Some(Sequences {
            strict: false,
            parallel_max: 64,
            ahead_max: 256,
            buffered_per_peer_max: 256,
            buffered_bytes_per_peer: 32 << 20,
            buffered_bytes: 128 << 20,
            pending_per_signer_max: 4_096,
            overflow: PendingOverflow::Highest,
            resumed_by_blocks: true,
            // Half of what v0.39.10 remembers: other peers announce to it as well.
            announced_max: 32,
        }),
        limits: Limits {
            keys_per_peer: usize::MAX,
            unknown_per_peer: 8_192,
            keys: 1_000_000,
            seen_ttl: Duration::from_secs(120),
            txs_per_frame: 1_024,
            waiting_bytes: 0,
            repeated_answers: 100,
            invalid_bodies: 1_000,
        },
        sending: Sending::ours(),
        ..base
    }
}

const MIB: u64 = 1 << 20;

fn lane(name: &'static str, priority: u8, copies: usize, bytes: u64) -> LaneConfig {
    LaneConfig {
        name,
        priority,
        capacity: samara_engine::outbox::LaneCapacity { copies, bytes, overflow: Overflow::Block },
        // All schedules here are sequential, so nothing is held back.
        patience: Duration::ZERO,
    }
}

fn channel(id: u8, priority: u32, send_queue: usize, lanes: &[u8]) -> Channel {
    Channel { id, priority, send_queue, lanes: lanes.iter().map(|lane| Lane(*lane)).collect() }
}

impl Sending {
    /// The flooding pools: one channel, 0x30, with priority 5 (`mempool/v0/reactor.go`) and the
    /// default send queue of 1.
    pub(super) fn flood() -> Self {
        Self { channels: vec![channel(0x30, 5, 1, &[0]), channel(0x31, 5, 1, &[1])], ..Self::until_2025(1) }
    }

    /// CAT until 2025: bodies on 0x30 with priority 6, announcements and requests on 0x31 with
    /// priority 5, send queues of 1 (`GetChannels` in `mempool/cat/reactor.go` at v1.16). `Send`
    /// waits for up to 10 s while a queue is full; the lanes hold the waiting frames. `state` is
    /// the priority of the second lane without an `MConnection`.
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

    /// CAT in 2026: bodies and announcements together on 0x31, requests on 0x32, both with priority
    /// 3 and a queue of 1,000. A request that finds the queue full goes to another peer
    /// (`TrySend`). The legacy channel 0x30 is receive-only.
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

    /// Ours: a lane for each kind of frame. Bodies always precede state messages, so that nothing
    /// is announced faster than it can be served. The two channels are those of 2023, so that old
    /// nodes can be peers.
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
