//! What a transport must know of a protocol.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::Frame;

use super::options::Channel;

/// How the frames of an engine stand on the wire, and what is spoken with whom.
pub trait Codec: Send + Sync + 'static {
    /// The frames.
    type Frame: Frame;

    /// The channels that lanes go over and messages come from.
    fn channels(&self) -> Vec<Channel>;

    /// The channels that peers are told of: more than [`channels`](Self::channels) where a number stands for something
    /// else.
    fn offered(&self) -> Vec<u8>;

    /// The protocol to speak with a peer that offers these channels ([`PeerInfo::protocol`](samara_engine::PeerInfo::protocol));
    /// `None` if there is none in common. Both sides must come to the same answer.
    fn agree(&self, offered: &[u8]) -> Option<Arc<str>>;

    /// The bytes of a frame.
    fn encode(&self, frame: &Self::Frame) -> Bytes;

    /// The frame of these bytes.
    ///
    /// # Errors
    /// What is wrong with it. The connection is closed.
    fn decode(&self, channel: u8, message: Bytes) -> Result<Self::Frame, String>;
}
