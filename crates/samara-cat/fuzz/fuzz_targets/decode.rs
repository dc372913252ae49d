//! Decodes a frame from an untrusted peer.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_cat::wire::{Limits, decode};

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    let small = Limits { txs: 1, members: 1, block_keys: 1, ..Limits::default() };
    let strict = decode(&frame, &small);
    let lenient = decode(&frame, &Limits::default());
    if let Ok(strict) = strict {
        assert_eq!(lenient.expect("wider limits accept more"), strict);
    }
});
