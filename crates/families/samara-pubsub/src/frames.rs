//! Frames of publish-subscribe: the messages in them, and their encoding between processes.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxBuildHasher;
use samara_baselines::PlumtreeFrame;
use samara_engine::{FrameCodec, Reader, write_part};
use samara_gossipsub::rpc::{Message, MessageId, Rpc, RpcFrame};
use samara_sim::Items;

/// The number of a message in its run.
pub type MessageNumber = u32;

/// Returns the payload of a message: its number in little endian, repeated up to a length in bytes.
///
/// Programs of others create the same payload (`docs/guides/implementations.md`).
pub fn payload(number: MessageNumber, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    for word in data.chunks_mut(4) {
        word.copy_from_slice(&number.to_le_bytes()[..word.len()]);
    }
    data
}

pub fn number_of(payload: &[u8]) -> Option<MessageNumber> {
    payload.first_chunk().map(|bytes| MessageNumber::from_le_bytes(*bytes))
}

/// A frame that may carry messages.
pub trait Carries<M> {
    fn messages(&self) -> &[Arc<M>];

    /// Returns the frame with other messages, as many as it has.
    #[must_use]
    fn with_messages(&self, messages: &[Arc<M>]) -> Self;
}

impl Carries<Message> for RpcFrame {
    fn messages(&self) -> &[Arc<Message>] {
        &self.rpc().publish
    }

    fn with_messages(&self, messages: &[Arc<Message>]) -> Self {
        Self::new(Rpc { publish: messages.iter().cloned().collect(), ..self.rpc().clone() })
    }
}

impl Carries<samara_baselines::Message> for samara_baselines::RpcFrame {
    fn messages(&self) -> &[Arc<samara_baselines::Message>] {
        match self {
            Self::Publish(message) => std::slice::from_ref(message),
            Self::Subscriptions(_) => &[],
        }
    }

    fn with_messages(&self, messages: &[Arc<samara_baselines::Message>]) -> Self {
        match (self, messages) {
            (Self::Publish(_), [message]) => Self::Publish(Arc::clone(message)),
            _ => self.clone(),
        }
    }
}

impl Carries<samara_baselines::Message> for PlumtreeFrame {
    fn messages(&self) -> &[Arc<samara_baselines::Message>] {
        match self {
            Self::Gossip { message, .. } => std::slice::from_ref(message),
            Self::IHave(_) | Self::Graft(_) | Self::Prune(_) | Self::Subscriptions(_) => &[],
        }
    }

    fn with_messages(&self, messages: &[Arc<samara_baselines::Message>]) -> Self {
        match (self, messages) {
            (Self::Gossip { round, .. }, [message]) => {
                Self::Gossip { message: Arc::clone(message), round: *round }
            }
            _ => self.clone(),
        }
    }
}

/// Returns the names by which IWANTs ask for the messages in a frame, and those for which the frame
/// asks.
pub fn names(frame: &RpcFrame) -> [Items; 2] {
    let name = |id: &MessageId| FxBuildHasher.hash_one(id);
    let names = frame.messages().iter().filter_map(|message| message.known_id()).map(name);
    let asked = frame.rpc().control.iter().flat_map(|control| &control.iwant).map(name);
    [names.collect(), asked.collect()]
}

/// Encodes frames of GossipSub as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

impl FrameCodec<RpcFrame> for Wire {
    fn write(&self, frame: &RpcFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_gossipsub::wire::encode(frame.rpc(), out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RpcFrame> {
        samara_gossipsub::wire::decode(
            Bytes::copy_from_slice(reader.part()?),
            &samara_gossipsub::wire::Limits::NONE,
        )
        .ok()
        .map(RpcFrame::new)
    }
}

#[cfg(test)]
mod tests;
