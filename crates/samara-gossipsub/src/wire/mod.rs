//! The wire format: the standard protobuf of libp2p's pubsub, written and read by hand.
//!
//! By hand, because lengths must be known without encoding (the simulator moves typed frames), payloads must not be
//! copied, unknown fields must survive, and every bound must hold *before* memory is allocated. The tests hold this
//! codec against a generated one, both ways.
//!
//! - [`encode()`], [`encode_frame`] (with the length in front), [`encoded_len`].
//! - [`decode()`] within [`Limits`]; [`FrameDecoder`] cuts a stream of bytes into frames.
//!
//! # What reading means
//! - Of a field that may occur once, the last occurrence counts; a `control` that occurs several times is merged
//!   (protobuf's rules).
//! - An absent topic where there must be one reads as the empty name, an absent `subscribe` as `false`, as in
//!   go-libp2p-pubsub.
//! - Fields that this version does not know, those of v1.3 among them, are kept in [`Rpc`](crate::rpc::Rpc),
//!   [`SubOpts`](crate::rpc::SubOpts), [`Message`](crate::rpc::Message) and [`Control`](crate::rpc::Control), and
//!   written after the known ones. Inside the single control messages (IHAVE, IWANT, GRAFT, PRUNE, IDONTWANT, peer
//!   infos) they are checked for form and dropped: nothing relays those.
//! - Groups, field number 0, and known fields of a wrong type are errors.
//! - More of anything than [`Limits`] allows is an error, never a silent cut: a peer that sends so much is broken
//!   or hostile, and the engine, which knows which of both to assume, has softer limits of its own below these.

mod decode;
mod encode;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use samara_engine::protobuf::{WireError, WireErrorKind, varint_len};

pub use decode::decode;
pub(crate) use encode::put_message;
pub use encode::{encode, encode_frame, encoded_len, frame_len};

/// Field numbers (specification, `rpc.proto`).
mod field {
    pub(super) const RPC_SUBSCRIPTIONS: u32 = 1;
    pub(super) const RPC_PUBLISH: u32 = 2;
    pub(super) const RPC_CONTROL: u32 = 3;
    pub(super) const SUBOPTS_SUBSCRIBE: u32 = 1;
    pub(super) const SUBOPTS_TOPIC: u32 = 2;
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
    /// Of IHAVE, GRAFT and PRUNE.
    pub(super) const TOPIC: u32 = 1;
    pub(super) const IHAVE_IDS: u32 = 2;
    /// Of IWANT and IDONTWANT.
    pub(super) const IDS: u32 = 1;
    pub(super) const PRUNE_PEERS: u32 = 2;
    pub(super) const PRUNE_BACKOFF: u32 = 3;
    pub(super) const PEER_IDENTITY: u32 = 1;
    pub(super) const PEER_RECORD: u32 = 2;
}

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

/// Cuts a stream of bytes into frames.
///
/// A length beyond the maximum is refused as soon as it is read, before anything of the frame is kept, and memory
/// grows with what arrives (to four times of it at most), not with what is announced. After an error the stream has no frames any more: the error
/// is repeated, and the connection should be closed.
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
    /// A decoder at the start of a stream, for frames of at most so many bytes (see [`Limits`]).
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, state: State::Prefix { value: 0, read: 0 } }
    }

    /// Takes bytes from `input` until a frame is complete. `None`: all of `input` was taken and more is needed.
    /// Call it until it returns `None`. A frame that is in a [`Bytes`] as a whole shares it; out of a slice it is copied, so that
    /// a message that is kept keeps nothing else of what was read with it.
    ///
    /// # Errors
    /// A length beyond the maximum, or one that does not end; the same again on every later call.
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
                    // Bits only ever get set, so that a length can be refused before it ends.
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
                    // A peer that has sent a quarter is believed to send the rest: large frames are moved twice at most.
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

    /// Whether the stream may end here: between frames.
    pub fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Prefix { read: 0, .. })
    }

    fn fail(&mut self, offset: usize, kind: WireErrorKind) -> Result<Option<Bytes>, WireError> {
        let error = WireError { path: "frame length", offset, kind };
        self.state = State::Failed(error);
        Err(error)
    }
}
