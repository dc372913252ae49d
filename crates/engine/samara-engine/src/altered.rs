//! Random changes of encoded frames.

use crate::NodeRng;

/// Changes encoded bytes at random: up to four of a flipped bit, another byte, a removed or
/// repeated part, and an end that is missing.
///
/// Implementations of [`Frame::altered`](crate::Frame::altered) decode the result.
pub fn alter(bytes: &mut Vec<u8>, rng: &mut NodeRng) {
    for _ in 0..=rng.index(4) {
        if bytes.is_empty() {
            bytes.push(rng.next_u64() as u8);
        }
        let at = rng.index(bytes.len());
        let end = (at + 1 + rng.index(16)).min(bytes.len());
        match rng.index(6) {
            0 | 1 => bytes[at] ^= 1 << rng.index(8),
            2 => bytes[at] = rng.next_u64() as u8,
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => bytes.truncate(at),
        }
    }
}
