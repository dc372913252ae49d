//! Members, groups, chains and federations in virtual time, and the wire format.

mod churn;
mod daisychain;
mod early;
mod federation;
mod group;
mod hostile;
mod misconduct;
mod record;
mod seeds;
mod stream;
mod throughput;
mod wire;

use bytes::Bytes;

/// Creates a message that contains its origin and its number.
fn message(host: u32, number: u64, len: usize) -> Bytes {
    let mut bytes = vec![host as u8; len.max(12)];
    bytes[..4].copy_from_slice(&host.to_be_bytes());
    bytes[4..12].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Returns the origin and the number of a message.
fn parse(bytes: &[u8]) -> (u32, u64) {
    let host = u32::from_be_bytes(bytes[..4].try_into().unwrap());
    (host, u64::from_be_bytes(bytes[4..12].try_into().unwrap()))
}
