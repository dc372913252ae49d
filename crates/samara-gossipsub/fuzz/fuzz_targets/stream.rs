//! Decodes a stream from an untrusted peer, in pieces whose length is its first byte.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_gossipsub::wire::{FrameDecoder, WireError};

const FRAME_BYTES_MAX: usize = 512;

fn frames(stream: &[u8], cut: usize) -> (Vec<Bytes>, Option<WireError>) {
    let mut decoder = FrameDecoder::new(FRAME_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in stream.chunks(cut) {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, stream)) = data.split_first() else { return };
    let whole = frames(stream, stream.len().max(1));
    assert!(whole.0.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
    assert_eq!(frames(stream, usize::from(*cut).max(1)), whole);
});
