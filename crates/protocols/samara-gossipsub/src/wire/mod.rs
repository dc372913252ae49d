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

mod decode;
mod encode;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use samara_engine::protobuf::{WireError, WireErrorKind, varint_len};

pub use decode::{announces_partial, decode};
pub use encode::{encode, encode_frame, encoded_len, frame_len};
pub(crate) use encode::{put_extensions, put_message};

/// Field numbers (specification, `rpc.proto`).
mod field {
    pub(super) const RPC_SUBSCRIPTIONS: u32 = 1;
    pub(super) const RPC_PUBLISH: u32 = 2;
    pub(super) const RPC_CONTROL: u32 = 3;
    pub(super) const RPC_PARTIAL: u32 = 10;
    pub(super) const SUBOPTS_SUBSCRIBE: u32 = 1;
    pub(super) const SUBOPTS_TOPIC: u32 = 2;
    pub(super) const SUBOPTS_REQUESTS_PARTIAL: u32 = 3;
    pub(super) const SUBOPTS_SUPPORTS_PARTIAL: u32 = 4;
    pub(super) const PARTIAL_TOPIC: u32 = 1;
    pub(super) const PARTIAL_GROUP: u32 = 2;
    pub(super) const PARTIAL_BODY: u32 = 3;
    pub(super) const PARTIAL_METADATA: u32 = 4;
    pub(super) const EXTENSION_PARTIAL: u32 = 10;
    pub(super) const MESSAGE_FROM: u32 = 1;
    pub(super) const MESSAGE_DATA: u32 = 2;
    pub(super) const MESSAGE_SEQNO: u32 = 3;
    pub(super) const MESSAGE_TOPIC: u32 = 4;
    pub(super) const MESSAGE_SIGNATURE: u32 = 5;
    pub(super) const MESSAGE_KEY: u32 = 6;
    pub(super) const CONTROL_IHAVE: u32 = 1;
    pub(super) const CONTROL_IWANT: u32 = 2;
    pub(super) const CONTROL_GRAFT: u32 = 3;
    pub(super) const CONTROL_PRUNE: u32 = 4;
    pub(super) const CONTROL_IDONTWANT: u32 = 5;
    pub(super) const CONTROL_EXTENSIONS: u32 = 6;
    /// The topic of IHAVE, GRAFT and PRUNE.
    pub(super) const TOPIC: u32 = 1;
    pub(super) const IHAVE_IDS: u32 = 2;
    /// The ids of IWANT and IDONTWANT.
    pub(super) const IDS: u32 = 1;
    pub(super) const PRUNE_PEERS: u32 = 2;
    pub(super) const PRUNE_BACKOFF: u32 = 3;
    pub(super) const PEER_IDENTITY: u32 = 1;
    pub(super) const PEER_RECORD: u32 = 2;
}

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

/// Cuts a stream of bytes into frames.
///
/// A length beyond the maximum is rejected as soon as it is read, before any byte of the frame is
/// stored. Memory grows with the received bytes (to at most four times their number), not with the
/// announced length. After an error the stream yields no more frames: every call repeats the error,
/// and the connection should be closed.
#[derive(Debug)]
pub struct FrameDecoder {
    frame_bytes_max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Prefix { value: u64, read: usize },
    Body { len: usize, have: BytesMut },
    Failed(WireError),
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream, for frames of at most `frame_bytes_max` bytes
    /// (see [`Limits`]).
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, state: State::Prefix { value: 0, read: 0 } }
    }

    /// Takes bytes from `input` until a frame is complete. Returns `None` if it took all of `input`
    /// and needs more; call it until then.
    ///
    /// A frame that lies entirely in a [`Bytes`] shares its memory. A frame in a slice is copied,
    /// so that a message that is kept does not keep other bytes of the same read.
    ///
    /// # Errors
    /// A length beyond the maximum, or one that does not end. Every later call returns the same
    /// error.
    pub fn next(&mut self, input: &mut impl Buf) -> Result<Option<Bytes>, WireError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(*error),
                State::Prefix { value, read } => {
                    if !input.has_remaining() {
                        return Ok(None);
                    }
                    let byte = input.get_u8();
                    let (bits, shift) = (u64::from(byte & 0x7f), 7 * *read);
                    if *read == 9 && byte > 1 {
                        return self.fail(9, WireErrorKind::VarintTooLong);
                    }
                    *value |= bits << shift;
                    *read += 1;
                    let (value, read) = (*value, *read);
                    let max = self.frame_bytes_max;
                    // Further bytes only set bits, so a length can be rejected before it ends.
                    if value > max as u64 {
                        return self
                            .fail(read, WireErrorKind::Limit { limit: "frame_bytes", found: value, max });
                    }
                    if byte & 0x80 == 0 {
                        self.state = State::Body { len: value as usize, have: BytesMut::new() };
                    }
                }
                State::Body { len, have } => {
                    let missing = *len - have.len();
                    if have.is_empty() && input.remaining() >= missing {
                        self.state = State::Prefix { value: 0, read: 0 };
                        return Ok(Some(input.copy_to_bytes(missing)));
                    }
                    have.put(input.take(missing));
                    // A peer that has sent a quarter will probably send the rest. Large frames move
                    // at most twice.
                    if have.len() >= *len / 4 {
                        have.reserve(*len - have.len());
                    }
                    if have.len() < *len {
                        return Ok(None);
                    }
                    let frame = std::mem::take(have).freeze();
                    self.state = State::Prefix { value: 0, read: 0 };
                    return Ok(Some(frame));
                }
            }
        }
    }

    /// Returns true if the stream may end here, between frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Prefix { read: 0, .. })
    }

    /// Returns the announced length of the unfinished frame, once it is known.
    pub fn expected_len(&self) -> Option<usize> {
        match &self.state {
            State::Body { len, .. } => Some(*len),
            State::Prefix { .. } | State::Failed(_) => None,
        }
    }

    /// Returns the number of bytes of the unfinished frame that have arrived.
    pub fn unfinished_bytes(&self) -> usize {
        match &self.state {
            State::Body { have, .. } => have.len(),
            State::Prefix { read, .. } => *read,
            State::Failed(_) => 0,
        }
    }

    fn fail(&mut self, offset: usize, kind: WireErrorKind) -> Result<Option<Bytes>, WireError> {
        let error = WireError { path: "frame length", offset, kind };
        self.state = State::Failed(error);
        Err(error)
    }
}
