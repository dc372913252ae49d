//! Sets of peers.

use samara_engine::PeerId;

/// A set of peers: 16 bytes as long as all of them have numbers below 64, which holds for the peers of nearly every node.
#[derive(Debug, Default)]
pub(super) struct PeerSet {
    low: u64,
    /// Bit `b` of word `w` stands for peer `64 * (w + 1) + b`. Boxed twice: a thin pointer, which is nearly always absent.
    #[allow(clippy::box_collection, reason = "the set must stay small where there is no vector")]
    high: Option<Box<Vec<u64>>>,
}

impl PeerSet {
    pub(super) fn contains(&self, peer: PeerId) -> bool {
        let (word, bit) = (peer.index() / 64, 1u64 << (peer.0 % 64));
        match word {
            0 => self.low & bit != 0,
            _ => self.high.as_ref().and_then(|high| high.get(word - 1)).is_some_and(|word| word & bit != 0),
        }
    }

    /// `false` if it was there.
    pub(super) fn insert(&mut self, peer: PeerId) -> bool {
        let (word, bit) = (peer.index() / 64, 1u64 << (peer.0 % 64));
        let place = match word {
            0 => &mut self.low,
            _ => {
                let high = self.high.get_or_insert_default();
                if high.len() < word {
                    high.resize(word, 0);
                }
                &mut high[word - 1]
            }
        };
        let is_new = *place & bit == 0;
        *place |= bit;
        is_new
    }

    /// `false` if it was not there.
    pub(super) fn remove(&mut self, peer: PeerId) -> bool {
        let (word, bit) = (peer.index() / 64, 1u64 << (peer.0 % 64));
        let place = match word {
            0 => Some(&mut self.low),
            _ => self.high.as_mut().and_then(|high| high.get_mut(word - 1)),
        };
        let Some(place) = place.filter(|place| **place & bit != 0) else { return false };
        *place &= !bit;
        true
    }

    /// The peers, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = PeerId> {
        let high = self.high.as_ref().map_or(&[][..], |high| high);
        let words = std::iter::once(&self.low).chain(high).enumerate();
        words.flat_map(|(index, word)| bits(*word).map(move |bit| PeerId(index as u32 * 64 + bit)))
    }
}

/// The numbers of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn does_what_a_set_does(operations in prop::collection::vec((any::<bool>(), 0u32..200), 0..200)) {
            let (mut set, mut model) = (PeerSet::default(), BTreeSet::new());
            for (add, peer) in operations {
                let peer = PeerId(peer);
                if add {
                    prop_assert_eq!(set.insert(peer), model.insert(peer));
                } else {
                    prop_assert_eq!(set.remove(peer), model.remove(&peer));
                }
                prop_assert!(set.iter().eq(model.iter().copied()));
                prop_assert_eq!(set.contains(peer), model.contains(&peer));
            }
        }
    }
}
