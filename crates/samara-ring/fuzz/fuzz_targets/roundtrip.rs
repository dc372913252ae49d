//! A decodable frame encodes to the computed length, and decodes to the same frame.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_engine::Frame;
use samara_ring::wire::{Limits, decode, encode};

fuzz_target!(|data: &[u8]| {
    let Ok(frame) = decode(&Bytes::copy_from_slice(data), &Limits::default()) else { return };
    let mut written = Vec::new();
    encode(&frame, &mut written);
    assert_eq!(written.len(), frame.encoded_len());
    assert_eq!(decode(&written.into(), &Limits::default()).expect("an encoded frame decodes"), frame);
});
