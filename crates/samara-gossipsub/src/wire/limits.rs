//! How much a frame may hold.

/// Hard bounds of reading: beyond, the frame is refused.
///
/// They bound the memory that a frame can claim to a small multiple of its length. The defaults are above
/// everything that the known implementations send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame without its length prefix.
    pub frame_bytes: usize,
    /// Subscription changes in a frame.
    pub subscriptions: usize,
    /// Published messages in a frame.
    pub messages: usize,
    /// IHAVEs in a frame (one per topic).
    pub ihaves: usize,
    /// Ids in one IHAVE. Implementations send at most 5,000.
    pub ids_per_ihave: usize,
    /// Ids that are asked for in a frame.
    pub iwant_ids: usize,
    /// Ids that are not wanted in a frame.
    pub idontwant_ids: usize,
    /// Ids in a frame, all kinds together.
    pub ids: usize,
    /// GRAFTs in a frame.
    pub grafts: usize,
    /// PRUNEs in a frame.
    pub prunes: usize,
    /// Recommended peers in one PRUNE.
    pub peers_per_prune: usize,
    /// Bytes of a topic's name.
    pub topic_bytes: usize,
    /// Bytes of a message id.
    pub id_bytes: usize,
    /// Bytes of unknown fields kept in a frame, all together.
    pub unknown_bytes: usize,
}

impl Default for Limits {
    /// Frames of 1 MiB, as in go-libp2p-pubsub.
    fn default() -> Self {
        Self::with_frame_bytes(1 << 20)
    }
}

impl Limits {
    /// The defaults for frames of this length.
    pub const fn with_frame_bytes(frame_bytes: usize) -> Self {
        Self {
            frame_bytes,
            subscriptions: 10_000,
            messages: 5_000,
            ihaves: 1_000,
            ids_per_ihave: 10_000,
            iwant_ids: 20_000,
            idontwant_ids: 20_000,
            ids: 40_000,
            grafts: 1_000,
            prunes: 1_000,
            peers_per_prune: 256,
            topic_bytes: 1_024,
            id_bytes: 256,
            unknown_bytes: frame_bytes,
        }
    }
}
