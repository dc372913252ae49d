//! Encodings of frames between processes that simulate one network.

use std::sync::Arc;

use bytes::Bytes;
use samara_cat::CatFrame;
use samara_engine::{FrameCodec, Reader, write_part};
use samara_gossipsub::rpc::RpcFrame;
use samara_mix::MixFrame;
use samara_ring::RingFrame;

use crate::columns::{Blocks, Segment};
use crate::messages::Carries;

/// Encodes frames as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

// Frames come from the same program, so no limit ever applies.
const CAT: samara_cat::wire::Limits = samara_cat::wire::Limits {
    frame_bytes: usize::MAX,
    txs: usize::MAX,
    from_bytes: usize::MAX,
    signer_bytes: usize::MAX,
    members: usize::MAX,
    block_keys: usize::MAX,
};
const RING: samara_ring::wire::Limits = samara_ring::wire::Limits {
    members: usize::MAX,
    identity_bytes: usize::MAX,
    units: usize::MAX,
    unit_bytes: usize::MAX,
};
const MIX: samara_mix::wire::Limits =
    samara_mix::wire::Limits { slots_bytes: usize::MAX, control_bytes: usize::MAX, team: usize::MAX };

fn part(reader: &mut Reader<'_>) -> Option<Bytes> {
    reader.part().map(Bytes::copy_from_slice)
}

impl FrameCodec<RpcFrame> for Wire {
    fn write(&self, frame: &RpcFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_gossipsub::wire::encode(frame.rpc(), out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RpcFrame> {
        samara_gossipsub::wire::decode(part(reader)?, &samara_gossipsub::wire::Limits::NONE)
            .ok()
            .map(RpcFrame::new)
    }
}

impl FrameCodec<CatFrame> for Wire {
    fn write(&self, frame: &CatFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_cat::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<CatFrame> {
        samara_cat::wire::decode(&part(reader)?, &CAT).ok()
    }
}

impl FrameCodec<RingFrame> for Wire {
    fn write(&self, frame: &RingFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_ring::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RingFrame> {
        samara_ring::wire::decode(&part(reader)?, &RING).ok()
    }
}

impl FrameCodec<MixFrame> for Wire {
    fn write(&self, frame: &MixFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_mix::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<MixFrame> {
        samara_mix::wire::decode(part(reader)?, &MIX).ok()
    }
}

/// Encodes the segments in a frame as their numbers, since all processes have them. Another codec
/// encodes the rest of the frame, with an empty message in the place of each segment.
#[derive(Debug)]
pub struct Numbers<M, C> {
    blocks: Arc<Blocks<M>>,
    empty: Arc<M>,
    rest: C,
}

impl<M: Segment, C> Numbers<M, C> {
    pub fn new(blocks: Arc<Blocks<M>>, rest: C) -> Self {
        let empty = M::new(&blocks.topics[0], 0, Bytes::new());
        Self { blocks, empty: Arc::new(empty), rest }
    }
}

impl<M, C, F> FrameCodec<F> for Numbers<M, C>
where
    M: Segment + Send + Sync,
    C: FrameCodec<F>,
    F: Carries<M>,
{
    fn write(&self, frame: &F, out: &mut Vec<u8>) {
        let number = |message: &Arc<M>| self.blocks.id_of(message.topic()?, message);
        // A hostile node may send messages of its own.
        let numbers: Option<Vec<u32>> = frame.messages().iter().map(number).collect();
        let numbers = numbers.unwrap_or_default();
        out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        if numbers.is_empty() {
            self.rest.write(frame, out);
        } else {
            self.rest.write(&frame.with_messages(&vec![Arc::clone(&self.empty); numbers.len()]), out);
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<F> {
        let count = reader.u32()?;
        let message = |_| self.blocks.messages.get(reader.u32()? as usize).map(Arc::clone);
        let messages = (0..count).map(message).collect::<Option<Vec<Arc<M>>>>()?;
        let frame = self.rest.read(reader)?;
        Some(if messages.is_empty() { frame } else { frame.with_messages(&messages) })
    }

    fn recognise(&self, frame: F) -> F {
        if frame.messages().is_empty() {
            return frame;
        }
        let known = |message: &Arc<M>| self.blocks.known(message).unwrap_or_else(|| Arc::clone(message));
        frame.with_messages(&frame.messages().iter().map(known).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests;
