//! Random numbers whose values are the same in every version of the libraries.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::PeerKeyed;

/// The purpose of a stream of random numbers. Every purpose has its own stream, so that drawing
/// more numbers for one does not change another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Decisions of the engine.
    Engine,
    /// Decisions of the outbox and the transport.
    Transport,
    /// Latency, jitter and loss on links.
    Network,
    /// The shape of the network: edges, regions, classes of hosts.
    Topology,
    /// The publications: their content, times and publishers.
    Workload,
    /// Crashes, churn and other faults.
    Faults,
    /// The choices of a hostile host.
    Hostile,
}

/// Returns the seed of one node's stream for one purpose.
///
/// Uses the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over the three parts.
pub fn derive_seed(seed: u64, node: u64, purpose: Purpose) -> u64 {
    let mut z = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    z = mix(z ^ node.wrapping_mul(0xd1b5_4a32_d192_ed03));
    mix(z ^ (purpose as u64 + 1).wrapping_mul(0x8cb9_2ba7_2f3d_8dd7))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A node's random numbers: xoshiro256++ with our own samplers, whose values stay the same in every
/// version.
///
/// Not for secrets: an observer of enough numbers can compute all others. In real nodes the keys of
/// hash tables therefore have their own secret, see [`from_entropy`](Self::from_entropy).
#[derive(Clone, Debug)]
pub struct NodeRng {
    stream: Xoshiro256PlusPlus,
    tables: PeerKeyed,
}

impl NodeRng {
    /// Creates the stream of one node for one purpose, for simulations and tests. It depends only
    /// on the arguments.
    pub fn new(seed: u64, node: u64, purpose: Purpose) -> Self {
        let stream = Xoshiro256PlusPlus::seed_from_u64(derive_seed(seed, node, purpose));
        // Each table adds a number drawn from the seed, which is enough for a simulation.
        Self { stream, tables: PeerKeyed::default() }
    }

    /// Creates the stream of a real node. `fill` writes random bytes of the operating system, as
    /// `getrandom::fill` does.
    ///
    /// The function fills the seed first and then, separately, the key of the hash tables, so that
    /// the numbers that a node publishes reveal nothing about the key.
    ///
    /// # Errors
    /// Returns the error of `fill`.
    pub fn from_entropy<E>(fill: impl Fn(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let (mut seed, mut key) = ([0; 32], [0; 16]);
        fill(&mut seed)?;
        fill(&mut key)?;
        let key = u128::from_ne_bytes(key);
        let tables = PeerKeyed::from_key([key as u64, (key >> 64) as u64]);
        Ok(Self { stream: Xoshiro256PlusPlus::from_seed(seed), tables })
    }

    /// Returns a hasher for a table whose keys come from peers. Draws one number, so that each
    /// table has its own key.
    pub fn table_hasher(&mut self) -> PeerKeyed {
        self.tables.tweaked(self.next_u64())
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Returns a uniform number in `0..n` (Lemire's multiplication with rejection).
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "the range 0..0 has no number to draw");
        let mut wide = u128::from(self.next_u64()) * u128::from(n);
        if (wide as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (wide as u64) < threshold {
                wide = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// Returns a uniform index in `0..len`. See [`below`](Self::below).
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a uniform number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponentially distributed number with this mean (inverse transform).
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Shuffles a slice (Fisher and Yates).
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for i in (1..slice.len()).rev() {
            slice.swap(i, self.index(i + 1));
        }
    }

    /// Returns a random element, or `None` if the slice is empty.
    pub fn choose<'a, T>(&mut self, slice: &'a [T]) -> Option<&'a T> {
        if slice.is_empty() { None } else { slice.get(self.index(slice.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_reproducible_and_separate_by_purpose() {
        let mut rng = NodeRng::new(1, 2, Purpose::Engine);
        let values: Vec<u64> = (0..4).map(|_| rng.below(1000)).collect();
        let mut again = NodeRng::new(1, 2, Purpose::Engine);
        assert_eq!(values, (0..4).map(|_| again.below(1000)).collect::<Vec<_>>());
        let mut other = NodeRng::new(1, 2, Purpose::Transport);
        assert_ne!(values, (0..4).map(|_| other.below(1000)).collect::<Vec<_>>());
    }

    #[test]
    fn samplers_have_the_right_moments() {
        let mut rng = NodeRng::new(7, 0, Purpose::Workload);
        let n = 200_000;
        let mean_of = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean_of(&mut || rng.unit()) - 0.5).abs() < 0.005);
        assert!((mean_of(&mut || rng.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean_of(&mut || rng.below(10) as f64) - 4.5).abs() < 0.05);
    }
}
