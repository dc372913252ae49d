//! The hash function for keys that peers choose.

use std::fmt;
use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// The hasher of every table whose keys come from peers: SipHash-1-3 with a secret key.
///
/// A peer that can predict hashes can send keys that share one bucket, and each lookup then
/// compares all of them. SipHash is a pseudorandom function that was designed against this attack
/// ([Aumasson and Bernstein, 2012]): a peer without the key finds collisions only by trying keys.
/// Hashes that mix a seed into public constants do not have this property. Rust's `HashMap` uses
/// the same function by default.
///
/// An engine gets its hashers from [`NodeRng::table_hasher`](crate::NodeRng::table_hasher) when it
/// starts. The order of a table's entries depends on the key and must not show in any effect. The
/// default value has no secret: tables of an engine use it until the engine starts and replaces it.
/// It must not hash anything: debug builds panic if a table was forgotten.
///
/// [Aumasson and Bernstein, 2012]: https://www.aumasson.jp/siphash/siphash.pdf
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerKeyed([u64; 2]);

impl PeerKeyed {
    /// Creates a hasher with this key, which no peer may know. The key must not be zero.
    pub const fn from_key(key: [u64; 2]) -> Self {
        Self(key)
    }

    /// Returns the same key, changed by a number, so that two tables of a node hash differently.
    pub(crate) const fn tweaked(self, number: u64) -> Self {
        Self([self.0[0], self.0[1] ^ number])
    }
}

impl BuildHasher for PeerKeyed {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        debug_assert_ne!(
            *self,
            Self::default(),
            "a table with keys from peers has no secret key yet; create its hasher with NodeRng::table_hasher"
        );
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl fmt::Debug for PeerKeyed {
    /// Omits the key, which must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKeyed")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{NodeRng, Purpose};

    const IDS: u64 = 10_000;

    /// Returns the generator of a real node. Its seed is always the same; its table key consists of
    /// this byte.
    fn real_node(key: u8) -> NodeRng {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(if bytes.len() == 16 { key } else { 7 });
            Ok::<_, ()>(())
        };
        NodeRng::from_entropy(fill).unwrap()
    }

    fn hashes(hasher: PeerKeyed, form: fn(u64) -> Vec<u8>) -> HashSet<u64> {
        (0..IDS).map(|number| hasher.hash_one(&form(number)[..])).collect()
    }

    /// Ids of 16, 20 and 32 bytes that collide, for every seed, under a function that multiplies a
    /// seed by the input mixed with public constants.
    #[test]
    fn ids_that_collide_in_unkeyed_hashes_do_not_collide() {
        const LONG: u64 = 0xc0ac_29b7_c97c_50dd;
        const SHORT: u64 = 0x3f84_d5b5_b547_0917;
        let forms: [fn(u64) -> Vec<u8>; 3] = [
            |number| [number, SHORT].map(u64::to_le_bytes).concat(),
            |number| [&(number as u32).to_le_bytes()[..], &LONG.to_le_bytes(), &LONG.to_le_bytes()].concat(),
            |number| [LONG, LONG, number, number].map(u64::to_le_bytes).concat(),
        ];
        for key in [[0, 1], [1, 0], [u64::MAX; 2], [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]] {
            for form in forms {
                let hashes = hashes(PeerKeyed::from_key(key), form);
                assert_eq!(hashes.len() as u64, IDS, "{} bytes, key {key:x?}", form(0).len());
                // A table uses only a few bits. With 10,000 hashes in 1,024 buckets, 9.8 share a
                // bucket on average.
                let mut buckets = [0; 1024];
                hashes.iter().for_each(|hash| buckets[*hash as usize % 1024] += 1);
                assert!(buckets.iter().all(|bucket| *bucket < 40), "{:?}", buckets.iter().max());
            }
        }
    }

    #[test]
    fn both_halves_of_the_key_affect_the_hash() {
        let hash = |key| PeerKeyed::from_key(key).hash_one("id");
        assert_eq!(hash([1, 2]), hash([1, 2]));
        assert_eq!(HashSet::from([[1, 2], [1, 3], [4, 2], [2, 1]].map(hash)).len(), 4);
    }

    #[test]
    fn each_table_has_its_own_key_derived_from_the_seed() {
        let rng = || NodeRng::new(1, 2, Purpose::Engine);
        let (mut once, mut again) = (rng(), rng());
        let first = once.table_hasher();
        assert_eq!(first, again.table_hasher());
        assert_ne!(first, once.table_hasher());
        // Each table draws one number.
        assert_eq!(again.next_u64(), {
            let mut plain = rng();
            plain.next_u64();
            plain.next_u64()
        });
    }

    #[test]
    fn random_numbers_of_a_real_node_are_independent_of_its_table_keys() {
        let (mut one, mut two) = (real_node(1), real_node(2));
        assert_ne!(one.table_hasher(), two.table_hasher());
        assert_eq!(one.next_u64(), two.next_u64());
    }

    #[test]
    fn the_key_is_not_printed() {
        let rng = real_node(0x55);
        assert!(!format!("{rng:?}").contains("6148914691236517205"));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "no secret key yet"]
    fn hashing_without_a_key_panics() {
        PeerKeyed::default().hash_one("id");
    }
}
