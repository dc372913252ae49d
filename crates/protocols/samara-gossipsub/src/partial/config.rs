//! The configuration of partial messages.

use std::time::Duration;

#[cfg(feature = "config")]
use samara_engine::units::Span;

use super::FormatHook;

/// How a node takes part in partial messages.
#[derive(Clone, Debug)]
pub struct PartialConfig {
    /// The format of groups.
    pub format: FormatHook,
    /// How the node exchanges parts.
    pub exchange: Exchange,
    /// Number of heartbeats for which a group is remembered after this node provided parts of it, or
    /// after a peer first mentioned it.
    pub group_ttl_heartbeats: u64,
    /// Limits of what peers can create.
    pub limits: PartialLimits,
}

samara_engine::settings! {
    /// How nodes exchange parts of messages.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Exchange {
        /// The peers that a node asks for a part that it lacks. It provides every value that a file does
        /// not set.
        pub asking: Asking => asking,
        /// Maximum number of mesh peers to which a publisher sends each part in
        /// [`Content::push`](super::Content::push), those that they cannot have, without being asked. Copies
        /// that have not left are withdrawn as soon as a peer has the part from somebody else.
        pub push_copies: usize => push_copies,
        /// Number of mesh peers that shall have a part that its publisher has pushed to a node; those that
        /// lack it get it unasked. Other parts leave only if a peer wants them.
        pub relay_copies: usize => relay_copies,
        /// Number of peers to which a node sends a header before they ask, in a frame of its own. Other peers
        /// receive it with the first parts, or at the next heartbeat, unless they have said something about
        /// the group.
        pub header_copies: usize => header_copies,
        /// Time for which announcements of parts wait for others. Requests are never delayed.
        pub announce_delay: Duration => announce_delay as Span,
        /// Shortest time that an asked peer has for an answer, with `asking = "one"`. A peer whose earlier
        /// answers took long has three times their mean.
        pub patience: Duration => patience as Span,
        /// Maximum bytes of the parts in one frame. rust-libp2p refuses frames above 64 KiB by default, and
        /// the Ethereum clients those above 10 MiB.
        pub body_bytes_max: usize => frame_bytes,
    }
}

/// The peers that a node asks for a part that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Asking {
    /// One peer at a time, with a deadline: one that has the part, and before that the peer that was
    /// first to mention the group. If the part has not arrived in time, another peer is asked.
    #[default]
    One,
    /// All mesh peers at once, as deployed clients do; several of them answer.
    Everyone,
}

impl Exchange {
    /// Returns the values that this engine recommends.
    pub fn one() -> Self {
        Self {
            // The tests of a client in development wait for 250 ms. Less finds peers sooner that claim what
            // they do not have, and costs copies: 1.3 of each cell in `peerdas-cells` instead of 1.26.
            asking: Asking::One,
            patience: Duration::from_millis(185),
            // In `peerdas-cells`, eight (the size of Ethereum's meshes) take 1 % less time and 1.32 copies of
            // each cell instead of 1.29.
            relay_copies: 5,
            push_copies: usize::MAX,
            header_copies: 8,
            announce_delay: Duration::from_millis(10),
            // Leaves room for header and metadata in rust-libp2p's 64 KiB.
            body_bytes_max: 48 << 10,
        }
    }

    /// Returns values with which a node acts like the clients of 2026: everyone is asked for
    /// everything, and each change is announced at once.
    pub fn everyone() -> Self {
        Self {
            asking: Asking::Everyone,
            relay_copies: 0,
            header_copies: usize::MAX,
            announce_delay: Duration::ZERO,
            ..Self::one()
        }
    }
}

/// Limits of what peers can create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialLimits {
    /// Maximum number of groups of a topic that peers created (go-libp2p-pubsub: 255). Peers outside the
    /// mesh can fill half of them.
    pub groups_per_topic: usize,
    /// Maximum number of groups of a topic that one peer created (go-libp2p-pubsub: 8).
    pub groups_per_peer: usize,
    /// Maximum number of parts of a group. Ethereum allows 4,096 blobs in a block.
    pub parts: u32,
    /// Maximum number of partial messages of a peer between two heartbeats.
    pub frames_per_heartbeat: u32,
    /// Maximum number of times that a node sends the parts of a group to one peer.
    pub answers: u32,
    /// Maximum number of arrived bodies that await their verdict.
    pub pending: usize,
    /// Maximum bytes of parts that arrived before their header. A peer can fill a sixteenth of them.
    pub early_bytes: usize,
}

impl Default for PartialLimits {
    fn default() -> Self {
        Self {
            groups_per_topic: 255,
            groups_per_peer: 8,
            parts: 4_096,
            frames_per_heartbeat: 10_000,
            answers: 3,
            pending: 4_096,
            early_bytes: 8 << 20,
        }
    }
}

/// Number of heartbeats for which a group is remembered by default: 8.4 s in Ethereum, twice the
/// deadline of attestations.
pub const GROUP_TTL_HEARTBEATS: u64 = 12;

impl PartialConfig {
    /// Returns the configuration that this engine recommends for a format.
    pub fn new(format: FormatHook) -> Self {
        Self {
            format,
            exchange: Exchange::one(),
            group_ttl_heartbeats: GROUP_TTL_HEARTBEATS,
            limits: PartialLimits::default(),
        }
    }
}
