//! Segments travel between processes as their numbers.

use std::sync::Arc;

use bytes::Bytes;
use samara_engine::{FrameCodec, Reader};
use samara_pubsub::frames::Carries;

use super::{Blocks, Segment};

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
