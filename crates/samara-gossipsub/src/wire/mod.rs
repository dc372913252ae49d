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
mod frame;
mod limits;

pub use decode::decode;
pub use encode::{encode, encode_frame, encoded_len, frame_len};
pub(crate) use encode::{message_len, write_message};
pub use frame::FrameDecoder;
pub use limits::Limits;
pub use samara_engine::protobuf::{WireError, WireErrorKind, varint_len};

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
