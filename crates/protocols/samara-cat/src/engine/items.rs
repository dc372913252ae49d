//! The state of keys: transactions, bundles and blocks that this node or its peers have.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use samara_engine::{MessageKey, PeerId, PeerKeyed, Time};

use crate::TxKey;
use crate::wire::Kind;

/// A handle of a known key. It is valid for as long as the key is remembered, and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ItemId {
    pub(super) slot: u32,
    generation: u32,
}

impl ItemId {
    pub(super) fn message(self) -> MessageKey {
        MessageKey(u64::from(self.generation) << 32 | u64::from(self.slot))
    }
}

/// The state of a key. It fills exactly one cache line, because the speed of large pools is limited
/// by cache misses.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Item {
    pub(super) key: TxKey,
    /// The peers that have it, or claim to.
    pub(super) seen: PeerSet,
    generation: u32,
    /// The peer of the live request; [`NOBODY`] if there is none.
    live: u32,
    /// The second of its first mention, and [`REQUESTED`].
    since_s: u32,
    /// [`None`] if the slot is free. Then only the generation counts, which is that of the next
    /// item.
    kind: Option<Kind>,
    /// Whether it is in the pool, or for bundles and blocks, whether this node has it.
    pub(super) have: bool,
    /// Whether the application's verdict is pending.
    pub(super) checking: bool,
    pub(super) wait: Wait,
}

/// The reason for not requesting a key yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    #[default]
    None,
    /// A peer is expected to push it.
    Push,
    /// Earlier transactions of its signer are missing.
    Signer,
    /// Its body is here, and earlier transactions of its signer are missing.
    Turn,
    /// Only unreliable peers have announced it. The node asks other announcers at once.
    Better,
}

const NOBODY: u32 = u32::MAX;
/// Set in `since_s` once this node has requested the item. A cache line has no room for a flag.
const REQUESTED: u32 = 1 << 31;
const _: () = assert!(size_of::<Item>() == 64);

impl Item {
    fn new(key: TxKey, kind: Option<Kind>, generation: u32, now: Time) -> Self {
        Self {
            key,
            seen: PeerSet::default(),
            generation,
            live: NOBODY,
            since_s: now.since(Time::ZERO).as_secs() as u32 & !REQUESTED,
            kind,
            have: false,
            checking: false,
            wait: Wait::None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind.unwrap_or_default()
    }

    /// Returns the peer of the live request.
    pub(super) fn live(&self) -> Option<PeerId> {
        (self.live != NOBODY).then_some(PeerId(self.live))
    }

    pub(super) fn set_live(&mut self, peer: Option<PeerId>) {
        self.live = peer.map_or(NOBODY, |peer| peer.0);
    }

    /// Returns true if there is nothing to request.
    pub(super) fn is_here(&self) -> bool {
        self.have || self.checking
    }

    /// Returns the time of its first mention, in whole seconds.
    pub(super) fn since(&self) -> Time {
        Time::from_secs(u64::from(self.since_s & !REQUESTED))
    }

    /// Returns true if this node has requested the item.
    pub(super) fn was_requested(&self) -> bool {
        self.since_s & REQUESTED != 0
    }

    /// Records a request. Returns true if this node had requested the item before.
    pub(super) fn note_requested(&mut self) -> bool {
        let before = self.was_requested();
        self.since_s |= REQUESTED;
        before
    }
}

#[derive(Debug)]
pub(super) struct Items {
    slots: Vec<Item>,
    free: Vec<u32>,
    table: HashTable<u32>,
    hasher: PeerKeyed,
}

impl Items {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), table: HashTable::new(), hasher }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn find(&self, key: &TxKey) -> Option<ItemId> {
        // Getters may call this before the start, when there is no key to hash with.
        if self.table.is_empty() {
            return None;
        }
        let is_it = |slot: &u32| self.slots[*slot as usize].key == *key;
        let slot = *self.table.find(self.hasher.hash_one(key), is_it)?;
        Some(ItemId { slot, generation: self.slots[slot as usize].generation })
    }

    /// Inserts a key that [`find`](Self::find) did not find.
    pub(super) fn insert(&mut self, key: TxKey, kind: Kind, now: Time) -> ItemId {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let generation = self.slots.get(slot as usize).map_or(0, |free| free.generation);
        let item = Item::new(key, Some(kind), generation, now);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = item,
            None => self.slots.push(item),
        }
        let Self { slots, table, hasher, .. } = self;
        table.insert_unique(hasher.hash_one(key), slot, |slot| hasher.hash_one(slots[*slot as usize].key));
        ItemId { slot, generation }
    }

    pub(super) fn get(&self, id: ItemId) -> Option<&Item> {
        self.slots.get(id.slot as usize).filter(|item| item.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ItemId) -> Option<&mut Item> {
        self.slots.get_mut(id.slot as usize).filter(|item| item.generation == id.generation)
    }

    pub(super) fn remove(&mut self, id: ItemId) -> Option<Item> {
        let key = self.get(id)?.key;
        let found = self.table.find_entry(self.hasher.hash_one(key), |slot| *slot == id.slot);
        found.ok()?.remove();
        self.free.push(id.slot);
        let freed = Item::new(key, None, id.generation.wrapping_add(1), Time::ZERO);
        Some(std::mem::replace(&mut self.slots[id.slot as usize], freed))
    }

    /// Returns all items in an arbitrary but deterministic order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ItemId, &Item)> {
        self.slots.iter().enumerate().filter(|(_, item)| item.kind.is_some()).map(|(slot, item)| {
            let id = ItemId { slot: slot as u32, generation: item.generation };
            (id, item)
        })
    }
}

/// A set of peers. It takes 16 bytes as long as all peers have numbers below 64, as at nearly every
/// node.
#[derive(Debug, Default)]
pub(super) struct PeerSet {
    low: u64,
    /// Bit `b` of word `w` stands for peer `64 * (w + 1) + b`. The double box makes it a thin
    /// pointer, which is nearly always absent.
    #[allow(clippy::box_collection, reason = "the set must stay small without a vector")]
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

    /// Adds a peer. Returns `false` if it was already in the set.
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

    /// Removes a peer. Returns `false` if it was not in the set.
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

    /// Returns the peers, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = PeerId> {
        let high = self.high.as_ref().map_or(&[][..], |high| high);
        let words = std::iter::once(&self.low).chain(high).enumerate();
        words.flat_map(|(index, word)| bits(*word).map(move |bit| PeerId(index as u32 * 64 + bit)))
    }
}

/// Returns the positions of the bits that are set.
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
        fn behaves_like_a_set(operations in prop::collection::vec((any::<bool>(), 0u32..200), 0..200)) {
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
