//! The wire format: the standard protobuf of libp2p's pubsub, in a hand-written codec.
//!
//! The codec is hand-written for four reasons. Lengths must be known without encoding, since the
//! simulator moves typed frames. Long payloads must not be copied. Unknown fields must survive. Every
//! limit must apply *before* memory is allocated. The tests compare this codec with a generated one
//! in both directions.
//!
//! - [`encode()`], [`encode_frame`] (with a length prefix), [`encoded_len`].
//! - [`decode()`] within [`Limits`]; [`FrameDecoder`] cuts a stream of bytes into frames.
//!
//! # Rules of decoding
//! - If a field that may occur once occurs several times, the last occurrence counts. Several
//!   `control` fields are merged (protobuf's rules).
//! - A missing required topic reads as the empty name, and a missing `subscribe` as `false`, as in
//!   go-libp2p-pubsub.
//! - Several `partial` fields are merged, too.
//! - Fields that this version does not know are kept in
//!   [`Rpc`](crate::rpc::Rpc), [`SubOpts`](crate::rpc::SubOpts), [`Message`](crate::rpc::Message) and
//!   [`Control`](crate::rpc::Control), and written after the known ones. Inside individual control
//!   messages (IHAVE, IWANT, GRAFT, PRUNE, IDONTWANT, peer infos) they are checked for
//!   well-formedness and dropped, because nothing relays those.
//! - Groups, field number 0, and known fields of a wrong type are errors.
//! - Exceeding a limit of [`Limits`] is an error and never a silent cut: a peer that sends so much
//!   is broken or hostile. The engine knows which of the two to assume, and has softer limits below
//!   these.

mod codec;

pub use samara_engine::protobuf::{WireError, WireErrorKind, varint_len};

pub use codec::{FrameDecoder, announces_partial, decode, encode, encode_frame, encoded_len, frame_len};
pub(crate) use codec::{put_extensions, put_message};

/// Hard limits of the decoder, which rejects frames beyond them.
///
/// They limit the memory that a frame can claim to a small multiple of its length. The defaults
/// exceed everything that known implementations send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a frame without its length prefix.
    pub frame_bytes: usize,
    /// Maximum number of subscription changes in a frame.
    pub subscriptions: usize,
    /// Maximum number of published messages in a frame.
    pub messages: usize,
    /// Maximum number of IHAVEs in a frame (one per topic).
    pub ihaves: usize,
    /// Maximum number of ids in one IHAVE. Implementations send at most 5,000.
    pub ids_per_ihave: usize,
    /// Maximum number of IWANT ids in a frame.
    pub iwant_ids: usize,
    /// Maximum number of IDONTWANT ids in a frame.
    pub idontwant_ids: usize,
    /// Maximum number of ids in a frame, over all kinds.
    pub ids: usize,
    /// Maximum number of GRAFTs in a frame.
    pub grafts: usize,
    /// Maximum number of PRUNEs in a frame.
    pub prunes: usize,
    /// Maximum number of recommended peers in one PRUNE.
    pub peers_per_prune: usize,
    /// Maximum bytes of a topic's name.
    pub topic_bytes: usize,
    /// Maximum bytes of a message id.
    pub id_bytes: usize,
    /// Maximum bytes of the group of a partial message. Ethereum's has 41.
    pub group_bytes: usize,
    /// Maximum bytes of the metadata of a partial message. Ethereum's has 2 bits a blob.
    pub metadata_bytes: usize,
    /// Maximum bytes of all unknown fields that are kept in a frame.
    pub unknown_bytes: usize,
}

impl Default for Limits {
    /// Returns the limits for frames of 1 MiB, as in go-libp2p-pubsub.
    fn default() -> Self {
        Self::with_frame_bytes(1 << 20)
    }
}

impl Limits {
    /// No limits, for frames of programs that trust each other.
    pub const NONE: Self = Self {
        frame_bytes: usize::MAX,
        subscriptions: usize::MAX,
        messages: usize::MAX,
        ihaves: usize::MAX,
        ids_per_ihave: usize::MAX,
        iwant_ids: usize::MAX,
        idontwant_ids: usize::MAX,
        ids: usize::MAX,
        grafts: usize::MAX,
        prunes: usize::MAX,
        peers_per_prune: usize::MAX,
        topic_bytes: usize::MAX,
        id_bytes: usize::MAX,
        group_bytes: usize::MAX,
        metadata_bytes: usize::MAX,
        unknown_bytes: usize::MAX,
    };

    /// Returns the default limits for frames of this length in bytes.
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
            group_bytes: 256,
            metadata_bytes: 4_096,
            unknown_bytes: frame_bytes,
        }
    }
}
