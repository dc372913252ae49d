//! The wire format.

use crate::rpc::Rpc;

/// The encoded length of an RPC without its length prefix.
pub fn encoded_len(rpc: &Rpc) -> usize {
    rpc.publish.iter().map(|message| message.data.len() + 40).sum::<usize>() + 10
}

/// The length of a varint.
pub const fn varint_len(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros() as usize) + 6) / 7
}
