//! The wire format, version 1.
//!
//! A frame is a version byte, a kind byte, and the fields of its kind in the order of
//! [`frame`](RingFrame). Numbers are LEB128 varints, except for `incarnation`, `proposer` and
//! `group`, which are random and take 8 bytes, little endian. A length precedes each list, name and
//! content. A byte that is 0 or 1 precedes each optional field. Nothing may follow the last field.
//! Length prefixes of frames belong to the transport.
//!
//! | kind | frame |
//! |---|---|
//! | 1 | heartbeat |
//! | 2 | data: view, units, acks |
//! | 3 | credit |
//! | 4 to 10 | view change: prepare, state, nack, resume, cut, ready, install |
//! | 11 | early message |
//! | 12 | hello: the position of a node in a federation |
//! | 13 | a frame between leaders of sites: a whole frame of one of the kinds 1 to 11 follows |
//!
//! A unit is origin, hops, flags (1: first, 2: last, 4: a stamp follows), sequence, stamp, content.
//! It takes about 7 bytes before the content. A view takes 16 bytes, which all units of a frame
//! share.

mod codec;
mod frame;

pub(crate) use codec::{Field, Reader, layout};
pub use codec::{Limits, Sink};
pub(crate) use frame::UNIT_OVERHEAD;
pub use frame::{Ack, Cut, Data, Heartbeat, Hello, OldView, Prepare, Resume, RingFrame, State, Unit};
pub use frame::{decode, encode};
pub use samara_engine::protobuf::{WireError, WireErrorKind};

pub const VERSION: u8 = 1;

/// Maximum number of units in a frame. With small messages, a frame then has fewer bytes than
/// [`batch_bytes`](crate::Config::batch_bytes).
pub const FRAME_UNITS_MAX: usize = 4_096;

mod kind {
    pub(super) const HEARTBEAT: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const CREDIT: u8 = 3;
    pub(super) const PREPARE: u8 = 4;
    pub(super) const STATE: u8 = 5;
    pub(super) const NACK: u8 = 6;
    pub(super) const RESUME: u8 = 7;
    pub(super) const CUT: u8 = 8;
    pub(super) const READY: u8 = 9;
    pub(super) const INSTALL: u8 = 10;
    pub(super) const EARLY: u8 = 11;
    pub(super) const HELLO: u8 = 12;
    pub(super) const BRIDGE: u8 = 13;
}

mod flag {
    pub(super) const FIRST: u8 = 1;
    pub(super) const LAST: u8 = 2;
    pub(super) const STAMP: u8 = 4;
}
