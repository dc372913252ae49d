//! The wire format.

mod errors;
mod oracle;
mod roundtrip;
mod vectors;

use bytes::Bytes;
use samara_cat::CatFrame;
use samara_cat::wire::{Limits, WireError, decode, encode};

pub(crate) fn encoded(frame: &CatFrame) -> Vec<u8> {
    let mut out = Vec::new();
    encode(frame, &mut out);
    out
}

pub(crate) fn decoded(bytes: &[u8]) -> Result<CatFrame, WireError> {
    decode(&Bytes::copy_from_slice(bytes), &Limits::default())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
