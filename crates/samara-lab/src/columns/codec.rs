//! How frames and events of a columns run travel between processes that simulate one network.

use std::sync::Arc;

use samara_gossipsub::rpc::{Rpc, RpcFrame};
use samara_gossipsub::wire::{self, Limits};
use samara_sim::{FrameCodec, Reader};

use crate::columns::app::{Columns, ColumnsNode, Told};

/// Marks a first copy: the highest bit of the word with the host it came from.
const FIRST: u32 = 1 << 31;
/// In the place of a column: a copy that did not fit into a queue.
const LOST: u32 = u32::MAX;

/// Columns travel by their numbers, since all processes have them; everything else as on the wire.
pub(crate) struct Codec(pub(crate) Arc<Columns>);

impl crate::run::Codec<ColumnsNode> for Codec {
    fn write_event(&self, event: &Told, out: &mut Vec<u8>) {
        let (column, from) = match *event {
            Told::Copy { column, from, first } => (column, from | if first { FIRST } else { 0 }),
            Told::Lost => (LOST, 0),
        };
        [column, from].into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn read_event(&self, reader: &mut Reader<'_>) -> Option<Told> {
        let (column, from) = (reader.u32()?, reader.u32()?);
        let copy = Told::Copy { column, from: from & !FIRST, first: from & FIRST != 0 };
        Some(if column == LOST { Told::Lost } else { copy })
    }
}

/// Frames of nodes of the same program: no limit is ever in the way.
const LIMITS: Limits = Limits::with_frame_bytes(64 << 20);

impl FrameCodec<RpcFrame> for Codec {
    fn write(&self, frame: &RpcFrame, out: &mut Vec<u8>) {
        let rpc = frame.rpc();
        let ids: Option<Vec<u32>> =
            rpc.publish.iter().map(|message| self.0.id_of(message.topic.as_ref()?, message)).collect();
        let known = ids.unwrap_or_default();
        out.extend_from_slice(&(known.len() as u32).to_le_bytes());
        known.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        if known.is_empty() {
            wire::encode(rpc, out);
        } else {
            wire::encode(&Rpc { publish: [].into_iter().collect(), ..rpc.clone() }, out);
        }
        let len = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RpcFrame> {
        let count = reader.u32()?;
        let ids = (0..count).map(|_| reader.u32()).collect::<Option<Vec<u32>>>()?;
        let len = reader.u32()?;
        let rest = bytes::Bytes::copy_from_slice(reader.bytes(len as usize)?);
        let mut rpc = wire::decode(rest, &LIMITS).ok()?;
        for id in ids {
            rpc.publish.push(Arc::clone(self.0.messages.get(id as usize)?));
        }
        Some(RpcFrame::new(rpc))
    }
}
