//! The generations that were measured, and ours.

use std::time::Duration;

use super::{
    Announce, Choice, Config, Hint, Inline, Jitter, Limits, Protocol, Recipients, Requests, Sending,
    Sequences, Standing, Timeout,
};
use crate::pool::{Order, PoolConfig};

/// A configuration with a name. `docs/protocols/cat.md` has the source of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// The flooding pool of CometBFT, v0: to everybody but the sender, as it came.
    FloodFifo,
    /// The flooding pool with priorities, v1.
    FloodPriority,
    /// Flooding with announcements, so that nobody is sent what it has announced: the prototype that the ADR rejects.
    SeenOnly,
    /// CAT as benchmarked in January 2023 (`v1.5.0-tm-v0.34.20-cat-simple-1`).
    Cat2023,
    /// The same with `From` in its announcements (`...-cat-9`), which the ADR calls CAT2.
    Cat2From2023,
    /// CAT as merged (`v1.16.0-tm-v0.34.27`): jitter before each announcement.
    CatMerged,
    /// CAT of August 2026 (`dda8d507`): pull only, sticky peers, sequences, limits.
    Cat2026,
    /// As it should be: our default.
    Cat,
}

const HOUR: Duration = Duration::from_secs(3_600);

impl Preset {
    /// All of them, the oldest first.
    pub const ALL: [Self; 8] = [
        Self::FloodFifo,
        Self::FloodPriority,
        Self::SeenOnly,
        Self::Cat2023,
        Self::Cat2From2023,
        Self::CatMerged,
        Self::Cat2026,
        Self::Cat,
    ];

    /// What scenarios and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FloodFifo => "flood-fifo",
            Self::FloodPriority => "flood-priority",
            Self::SeenOnly => "seen-only",
            Self::Cat2023 => "cat-2023",
            Self::Cat2From2023 => "cat2-2023",
            Self::CatMerged => "cat-merged",
            Self::Cat2026 => "cat-2026",
            Self::Cat => "cat",
        }
    }

    /// The preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its configuration.
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
            Self::Cat2026 => cat_2026(),
            Self::Cat => cat(),
        }
    }
}

/// `mempool/v0` and `mempool/v1`: a goroutine for each peer walks the list of transactions as they came and skips those that
/// the peer sent. A full send queue is tried again after 100 ms, which is what the engine does with refused bodies.
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

/// "All nodes would gossip SeenTx upon receiving a valid tx. Nodes would not relay received transactions to peers that had sent them
/// a SeenTx" (ADR 009, alternatives), with a higher priority for the announcements.
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
        listen_only: false,
        announce: Announce::Unseen,
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
            // The real ones leave frames in the buffers of TCP, which holds up their peers; here nobody is held up.
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
        jitter: Jitter::Sleep { step: Duration::from_millis(10), steps: 10, all_peers: false },
        sync: false,
        height_lag_max: Some(10),
        ..cat_2023()
    }
}

fn cat_2026() -> Config {
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
        take_unrequested: false,
        announce: Announce::Sticky { peers: 15, persistent: 4 },
        announce_own: true,
        announce_duplicates: false,
        announced_is_seen: true,
        requests: Requests {
            // `MaxGossipDelay` of celestia-app; the default of celestia-core is 60 s.
            timeout: Timeout::Fixed(Duration::from_secs(20)),
            late_answer_ends: false,
            forget_unresponsive: true,
            per_peer_max: 30,
            ..base.requests
        },
        sync: false,
        forget_on_disconnect: true,
        height_lag_max: Some(10),
        sequences: Some(Sequences {
            ahead_max: 30,
            buffered_per_peer_max: 30,
            pending_per_signer_max: 1_000,
        }),
        limits: Limits {
            keys_per_peer: 1_000,
            seen_ttl: Duration::from_secs(120),
            txs_per_frame: 1,
            ..base.limits
        },
        sending: Sending::of_2026(),
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
        // The first announcement after a pause leaves at once. What a frame of its own costs is sealing, padding and headers: in the
        // scenario `cat` a node receives 15.5, 12.3, 10.3 and 8.5 kB for each transaction with windows of 10, 25, 50 and 100 ms, and
        // has it after 13, 15, 21 and 27 ms (medians).
        coalesce: Duration::from_millis(100),
        inline: Inline::WhereItWins,
        requests: Requests {
            timeout: Timeout::Adaptive {
                // RFC 6298, (2.1); the slack of Linux (`TCP_RTO_MIN`) instead of a lower bound of 1 s.
                initial: Duration::from_secs(1),
                slack: Duration::from_millis(200),
                max: Duration::from_secs(10),
            },
            stale: Duration::from_secs(60),
            check_presence: true,
            late_answer_ends: false,
            forget_unresponsive: true,
            choice: Choice::Best,
            per_peer_max: 256,
            // In the time of some windows for announcements and round trips whoever else has it has said so.
            standing: Some(Standing { patience: Duration::from_millis(500), probe: Duration::from_secs(1) }),
        },
        not_found: true,
        sync: true,
        forget_on_disconnect: true,
        height_lag_max: Some(10),
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
