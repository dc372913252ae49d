//! A network of engines in virtual time: links with latency and rate, crashes, partitions; and a record of what applications saw.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "every test file uses a part")]

mod net;
mod record;

pub use net::{Crash, Link, Net};

use bytes::Bytes;
use samara_engine::PeerIdentity;

/// The identity of a host.
pub fn identity(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_be_bytes())
}

/// The host with this identity.
pub fn host_of(identity: &PeerIdentity) -> u32 {
    u32::from_be_bytes(identity.as_bytes().try_into().unwrap())
}

/// A message that says who broadcast it, and as the how-manieth.
pub fn message(host: u32, number: u64, len: usize) -> Bytes {
    let mut bytes = vec![host as u8; len.max(12)];
    bytes[..4].copy_from_slice(&host.to_be_bytes());
    bytes[4..12].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Who broadcast a message, and as the how-manieth.
pub fn parse(bytes: &[u8]) -> (u32, u64) {
    let host = u32::from_be_bytes(bytes[..4].try_into().unwrap());
    (host, u64::from_be_bytes(bytes[4..12].try_into().unwrap()))
}
