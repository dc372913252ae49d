//! The encoding of frames between processes that run one experiment.

use bytes::Bytes;
use samara_engine::{FrameCodec, Reader, write_part};
use samara_mix::MixFrame;

/// Encodes frames as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

// Frames come from the same program, so no limit ever applies.
const UNLIMITED: samara_mix::wire::Limits =
    samara_mix::wire::Limits { slots_bytes: usize::MAX, control_bytes: usize::MAX, team: usize::MAX };

impl FrameCodec<MixFrame> for Wire {
    fn write(&self, frame: &MixFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_mix::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<MixFrame> {
        samara_mix::wire::decode(Bytes::copy_from_slice(reader.part()?), &UNLIMITED).ok()
    }
}
