//! Secret bytes, and the random streams derived from them.
//!
//! Secret random numbers never come from [`NodeRng`](samara_engine::NodeRng). The driver supplies
//! 32 secret bytes (from the operating system, or from the seed in simulations and tests).
//! Everything else is derived with BLAKE3 as a keyed extendable-output function, so that this
//! engine is as deterministic as any other.

use std::fmt;

use blake3::{Hasher, OutputReader};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing, optimization_barrier};

/// 32 secret bytes. Erased when dropped, never printed, compared in constant time.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Derives a secret for a purpose and a number. It reveals nothing about this secret, nor about
    /// other derived ones.
    pub(crate) fn derive(&self, purpose: &str, number: u64) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        self.stream(purpose, number).fill(&mut *bytes);
        Self(*bytes)
    }

    pub(crate) fn stream(&self, purpose: &str, number: u64) -> Stream {
        self.stream_of(purpose, &[&number.to_le_bytes()])
    }

    /// Derives a stream for a purpose and some parts, of which only the last may vary in length.
    pub(crate) fn stream_of(&self, purpose: &str, parts: &[&[u8]]) -> Stream {
        let mut hasher = Hasher::new_keyed(&self.0);
        hasher.update(&(purpose.len() as u64).to_le_bytes()).update(purpose.as_bytes());
        parts.iter().for_each(|part| {
            hasher.update(part);
        });
        let stream = Stream(hasher.finalize_xof());
        // Overwrites the whole value at once: erasing the two kilobytes of a hasher byte by byte
        // costs as much as a multiplication.
        hasher = Hasher::new();
        optimization_barrier(&hasher);
        stream
    }

    /// Replaces this secret with one derived from it. The old one cannot be recovered.
    pub(crate) fn advance(&mut self) {
        *self = self.derive("advance", 0);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Stream(OutputReader);

impl Stream {
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    /// Returns a uniform number in `0..n`: draws 64 bits until they are below the largest multiple
    /// of `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let mut bytes = [0; 8];
            self.fill(&mut bytes);
            let number = u64::from_le_bytes(bytes);
            if number < limit {
                return number % n;
            }
        }
    }

    /// Returns a uniformly random order of `0..count` (Fisher and Yates).
    pub(crate) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }
}
