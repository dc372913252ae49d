//! The encoding of frames between processes that run one experiment.

use bytes::Bytes;
use samara_cat::CatFrame;
use samara_engine::{FrameCodec, Reader, write_part};

/// Encodes frames as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

// Frames come from the same program, so no limit ever applies.
const UNLIMITED: samara_cat::wire::Limits = samara_cat::wire::Limits {
    frame_bytes: usize::MAX,
    txs: usize::MAX,
    from_bytes: usize::MAX,
    signer_bytes: usize::MAX,
    members: usize::MAX,
    block_keys: usize::MAX,
};

impl FrameCodec<CatFrame> for Wire {
    fn write(&self, frame: &CatFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_cat::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<CatFrame> {
        samara_cat::wire::decode(&Bytes::copy_from_slice(reader.part()?), &UNLIMITED).ok()
    }
}
