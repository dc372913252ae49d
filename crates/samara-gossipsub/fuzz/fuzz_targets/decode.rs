//! Decodes a frame from an untrusted peer.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use samara_gossipsub::wire::{Limits, decode};

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    let small = Limits { ids: 2, messages: 1, subscriptions: 1, unknown_bytes: 8, ..Limits::default() };
    let strict = decode(frame.clone(), &small);
    let lenient = decode(frame, &Limits::default());
    if let Ok(strict) = strict {
        assert_eq!(lenient.expect("wider limits accept more"), strict);
    }
});
