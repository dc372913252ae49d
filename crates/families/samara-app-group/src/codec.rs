//! The encoding of frames between processes that run one experiment.

use bytes::Bytes;
use samara_engine::{FrameCodec, Reader, write_part};
use samara_ring::RingFrame;

/// Encodes frames as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

// Frames come from the same program, so no limit ever applies.
const UNLIMITED: samara_ring::wire::Limits = samara_ring::wire::Limits {
    members: usize::MAX,
    identity_bytes: usize::MAX,
    units: usize::MAX,
    unit_bytes: usize::MAX,
};

impl FrameCodec<RingFrame> for Wire {
    fn write(&self, frame: &RingFrame, out: &mut Vec<u8>) {
        write_part(out, |out| samara_ring::wire::encode(frame, out));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RingFrame> {
        samara_ring::wire::decode(&Bytes::copy_from_slice(reader.part()?), &UNLIMITED).ok()
    }
}
