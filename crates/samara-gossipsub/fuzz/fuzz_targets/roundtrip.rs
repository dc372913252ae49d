//! Checks that a decoded frame can be encoded and decodes to the same frame.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_gossipsub::wire::{Limits, decode, encode, encoded_len};

fuzz_target!(|data: &[u8]| {
    let Ok(rpc) = decode(Bytes::copy_from_slice(data), &Limits::default()) else { return };
    let mut written = Vec::new();
    encode(&rpc, &mut written);
    assert_eq!(written.len(), encoded_len(&rpc));
    // Missing topics are written as empty ones, so the frame may have grown.
    let limits = Limits { frame_bytes: written.len(), ..Limits::default() };
    assert_eq!(decode(written.into(), &limits).expect("an encoded frame decodes"), rpc);
});
