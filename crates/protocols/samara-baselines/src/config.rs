//! Configuration of the engines.

use std::time::Duration;

use samara_engine::config::{ConfigError, check};
use samara_engine::outbox::{Dispatch, Lane, LaneCapacity, LaneConfig, OutboxConfig, Schedule};
use samara_engine::settings::{Ranges, above};

use crate::core::SeenCache;

samara_engine::ranges! {
    /// Capacity for frames, per peer. Control frames go first, then own and forwarded messages in turn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Sending {
        #[range(..)]
        pub control: LaneCapacity,
        #[range(..)]
        pub own: LaneCapacity,
        #[range(..)]
        pub forwarded: LaneCapacity,
    }
}

impl Default for Sending {
    /// The defaults of `samara-gossipsub`, so that protocols are comparable.
    fn default() -> Self {
        let messages = LaneCapacity::copies(5000);
        Self { control: LaneCapacity::copies(20_000), own: messages, forwarded: messages }
    }
}

pub(crate) const CONTROL: Lane = Lane(0);
pub(crate) const OWN: Lane = Lane(1);
pub(crate) const FORWARDED: Lane = Lane(2);

samara_engine::ranges! {
    /// Parameters that all engines of this crate share.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Common {
        /// Maximum length of a frame sent or accepted, in bytes including its length prefix.
        #[range(1..)]
        pub max_frame_bytes: usize,
        /// Time for which a node remembers the id of a message it has seen.
        #[range(above(Duration::ZERO))]
        pub seen_ttl: Duration,
        /// Maximum number of remembered ids. Beyond it, the oldest are forgotten.
        #[range(1..=SeenCache::CAPACITY_MAX)]
        pub seen_capacity: usize,
        /// Whether a node withdraws a copy owed to a peer when the peer itself sends or announces the
        /// message. No implementation of these protocols does, but they choose the order of copies when
        /// they queue them.
        pub withdraw: bool,
        /// Whether the engine emits an event for every further copy of a message.
        pub report_duplicates: bool,
        /// Whether each link drains its own queue, or one order covers all links.
        pub dispatch: Dispatch,
        #[range(..)]
        pub sending: Sending,
        pub schedule_own: Schedule,
        pub schedule_forwarded: Schedule,
    }
}

impl Default for Common {
    /// Frames of at most 1 MiB (`DefaultMaxMessageSize` in go-libp2p-pubsub's `pubsub.go`) plus a
    /// prefix of 3 bytes. Ids are remembered for 120 s (`TimeCacheDuration` in the same file). At
    /// most 2^20 ids, as in `samara-gossipsub`.
    fn default() -> Self {
        Self {
            max_frame_bytes: (1 << 20) + 3,
            seen_ttl: Duration::from_secs(120),
            seen_capacity: 1 << 20,
            withdraw: true,
            report_duplicates: false,
            dispatch: Dispatch::PerLink,
            sending: Sending::default(),
            schedule_own: Schedule::Sequential,
            schedule_forwarded: Schedule::Sequential,
        }
    }
}

impl Common {
    /// Returns the configuration of the outbox that a node with this configuration needs.
    pub fn outbox_config(&self) -> OutboxConfig {
        let lane =
            |name, priority, capacity| LaneConfig { capacity, ..LaneConfig::unbounded(name, priority) };
        let Sending { control, own, forwarded } = self.sending;
        let lanes = vec![lane("control", 0, control), lane("own", 1, own), lane("forwarded", 1, forwarded)];
        OutboxConfig { dispatch: self.dispatch, lanes }
    }
}

samara_engine::ranges! {
    /// Configuration of a FloodSub or RandomSub node.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PubSubConfig {
        #[range(..)]
        pub common: Common,
        /// Maximum number of subscription changes in an RPC. Longer RPCs are ignored.
        #[range(1..)]
        pub subscriptions_per_rpc_max: usize,
        /// Maximum number of topics remembered per peer.
        #[range(1..)]
        pub topics_per_peer_max: usize,
        /// Maximum length of a topic name, in bytes.
        #[range(1..)]
        pub topic_bytes_max: usize,
    }
}

impl Default for PubSubConfig {
    /// No implementation limits subscriptions by default. These are the limits of
    /// `samara-gossipsub`.
    fn default() -> Self {
        Self {
            common: Common::default(),
            subscriptions_per_rpc_max: 4096,
            topics_per_peer_max: 4096,
            topic_bytes_max: 1024,
        }
    }
}

samara_engine::ranges! {
    /// Configuration of a [`Plumtree`](crate::Plumtree) node.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PlumtreeConfig {
        #[range(..)]
        pub common: Common,
        /// Time from the first announcement of a missing message to the first GRAFT (`timeout1` of the
        /// paper). It should cover the time by which the tree can be slower than a single announcement.
        /// With a shorter time, nodes request messages that are already on their way, and the tree
        /// never settles.
        pub graft_timeout: Duration,
        /// Time from one GRAFT for a message to the next (`timeout2` of the paper: "in the order of an
        /// average round trip time to a neighbor").
        // With 0, all announcers of a message would be grafted at the same moment.
        #[range(above(Duration::ZERO))]
        pub graft_retry: Duration,
        /// Time for which announcements are collected before they are sent. 0 sends them at once.
        pub dispatch_interval: Duration,
        /// Number of hops by which an announcement must beat the received copy to change the tree;
        /// `None` never changes it. A tree is optimised for one sender. Many senders each pull it their
        /// own way, which at high rates keeps it from ever settling; use `None` for them.
        pub optimization_threshold: Option<u32>,
        /// Time for which a message is kept to answer GRAFTs.
        pub cache_ttl: Duration,
        /// Maximum number of messages kept. Beyond it, the oldest are dropped.
        #[range(1..)]
        pub cache_messages_max: usize,
        /// Maximum number of payload bytes kept. Beyond it, the oldest messages are dropped.
        #[range(1..)]
        pub cache_bytes_max: usize,
        /// Maximum number of messages known to be missing at a time.
        #[range(1..)]
        pub missing_max: usize,
        /// Maximum number of announcements from one peer for missing messages, without those already
        /// grafted from it.
        #[range(1..)]
        pub missing_per_peer_max: usize,
        /// Maximum number of ids in an IHAVE, both sent and processed.
        #[range(1..)]
        pub ihave_ids_max: usize,
        /// Maximum number of ids waiting for the next dispatch to one peer.
        #[range(1..)]
        pub ihave_queue_max: usize,
        /// Maximum number of messages that a peer gets by GRAFT per second.
        pub grafts_per_second_max: u32,
    }
}

impl Default for PlumtreeConfig {
    /// The paper names the timeouts without values. These are the defaults of iroh-gossip (`Config`
    /// in `src/proto/plumtree.rs`): 80 ms, 40 ms, 5 ms, a threshold of 7 hops (from the paper's
    /// experiments), messages kept for 30 s and ids for 90 s. The limits are our own: several times
    /// the needs of a study with 200 messages per second.
    fn default() -> Self {
        Self {
            common: Common { seen_ttl: Duration::from_secs(90), ..Common::default() },
            graft_timeout: Duration::from_millis(80),
            graft_retry: Duration::from_millis(40),
            dispatch_interval: Duration::from_millis(5),
            optimization_threshold: Some(7),
            cache_ttl: Duration::from_secs(30),
            cache_messages_max: 1 << 16,
            cache_bytes_max: 256 << 20,
            missing_max: 1 << 14,
            missing_per_peer_max: 1 << 12,
            ihave_ids_max: 5000,
            ihave_queue_max: 1 << 14,
            grafts_per_second_max: 2000,
        }
    }
}

impl PlumtreeConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        let (ttl, seen_ttl) = (self.cache_ttl, self.common.seen_ttl);
        check(ttl <= seen_ttl, "cache_ttl", ttl, format!("at most common.seen_ttl = {seen_ttl:?}"))?;
        // An IHAVE must fit into a frame: 21 bytes per id (16, and a varint of up to 5), plus a
        // topic.
        let needed = self.ihave_ids_max.saturating_mul(21).saturating_add(1100);
        let allowed = self.common.max_frame_bytes;
        let expected =
            format!("at most {} with common.max_frame_bytes = {allowed}", allowed.saturating_sub(1100) / 21);
        check(needed <= allowed, "ihave_ids_max", self.ihave_ids_max, expected)
    }
}
