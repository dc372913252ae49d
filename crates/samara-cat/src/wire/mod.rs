//! What pools say to each other: the protobuf of celestia-core (`proto/tendermint/mempool/types.proto`), and our extensions of it.
//!
//! ```text
//! message Message {
//!   oneof sum {
//!     Txs          txs      = 1;
//!     SeenTx       seen_tx  = 2;
//!     WantTx       want_tx  = 3;
//!     // Ours: only ever sent to peers that have agreed on `cat/2`.
//!     SeenKeys     seen     = 10;
//!     Keys         want     = 11;
//!     Keys         missing  = 12;
//!     Bundle       bundle   = 13;
//!     CompactBlock block    = 14;
//!   }
//! }
//! message Txs          { repeated bytes txs = 1; }
//! message SeenTx       { bytes tx_key = 1; optional string from = 2; }                     // as benchmarked in January 2023
//! message SeenTx       { bytes tx_key = 1; uint64 sequence = 2; bytes signer = 3; }        // since 2025
//! message WantTx       { bytes tx_key = 1; }
//! message SeenKeys     { bytes keys = 1; uint32 kind = 2; fixed64 pushed_by = 3; }
//! message Keys         { bytes keys = 1; }                                                 // 32 bytes each, one after another
//! message Bundle       { repeated Member members = 1; }
//! message Member       { oneof of { bytes tx = 1; bytes key = 2; } }
//! message CompactBlock { uint64 height = 1; bytes keys = 2; }
//! ```
//!
//! The two forms of `SeenTx` have another wire type at field 2, so that one reader takes both. A frame's bytes are the protobuf
//! message alone: length prefixes, packets and channels belong to the transport (`PacketMsg` of CometBFT's `MConnection`).
//!
//! Written and read by hand, because lengths must be known without encoding, bodies must not be copied, and every bound must
//! hold before memory is taken. As in gogoproto the last of several kinds in a message counts. Unknown fields are skipped.

mod decode;
mod encode;
mod frame;
mod keys;
mod limits;

pub use decode::{decode, decode_with};
pub use encode::encode;
pub use frame::{Bundle, CatFrame, CompactBlock, Kind, Member, PushedBy, SeenDetails, SeenKeys, SeenTx};
pub use keys::KeyList;
pub use limits::Limits;
pub use samara_engine::protobuf::{WireError, WireErrorKind};

/// The numbers of the kinds of messages. Below 16, so that a tag is one byte.
mod field {
    pub(super) const TXS: u8 = 1;
    pub(super) const SEEN_TX: u8 = 2;
    pub(super) const WANT_TX: u8 = 3;
    pub(super) const SEEN_KEYS: u8 = 10;
    pub(super) const WANT_KEYS: u8 = 11;
    pub(super) const NOT_FOUND: u8 = 12;
    pub(super) const BUNDLE: u8 = 13;
    pub(super) const COMPACT_BLOCK: u8 = 14;
}
