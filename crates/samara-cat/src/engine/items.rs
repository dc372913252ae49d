//! What is known of keys: transactions, bundles and blocks that are here, or that peers have.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use samara_engine::{MessageKey, PeerId, Time};

use super::bits::PeerSet;
use crate::TxKey;
use crate::wire::Kind;

/// A key that is known. It names one for as long as that is remembered, and nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ItemId {
    pub(super) slot: u32,
    generation: u32,
}

impl ItemId {
    /// What the outbox calls it.
    pub(super) fn message(self) -> MessageKey {
        MessageKey(u64::from(self.generation) << 32 | u64::from(self.slot))
    }
}

/// What is known of a key: 64 bytes, one cache line.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) key: TxKey,
    /// The peers that have it, or say so.
    pub(super) seen: PeerSet,
    generation: u32,
    /// The peer of the live request; [`NOBODY`] if there is none.
    live: u32,
    /// Seconds since the start.
    since_s: u32,
    pub(super) kind: Kind,
    /// It is in the pool (or here, if it is no transaction).
    pub(super) have: bool,
    /// The application is to decide on it.
    pub(super) checking: bool,
    pub(super) wait: Wait,
}

/// What keeps a key from being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing.
    #[default]
    None,
    /// A peer is expected to push it.
    Push,
    /// Earlier transactions of its signer are missing.
    Signer,
    /// Only peers that are not relied on have announced it. Others are asked at once.
    Better,
}

const NOBODY: u32 = u32::MAX;
const _: () = assert!(size_of::<Item>() == 64);

impl Item {
    /// The peer of the live request.
    pub(super) fn live(&self) -> Option<PeerId> {
        (self.live != NOBODY).then_some(PeerId(self.live))
    }

    pub(super) fn set_live(&mut self, peer: Option<PeerId>) {
        self.live = peer.map_or(NOBODY, |peer| peer.0);
    }

    /// Whether there is nothing to ask for.
    pub(super) fn is_here(&self) -> bool {
        self.have || self.checking
    }

    /// When it was first heard of, in whole seconds.
    pub(super) fn since(&self) -> Time {
        Time::from_secs(u64::from(self.since_s))
    }
}

/// All keys that are known.
#[derive(Debug)]
pub(super) struct Items {
    slots: Vec<Slot>,
    free: Vec<u32>,
    table: HashTable<u32>,
    hasher: FixedState,
}

#[derive(Debug)]
enum Slot {
    Used(Item),
    /// The generation of the next one.
    Free(u32),
}

impl Items {
    /// `seed` keys the table: peers choose the keys.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn find(&self, key: &TxKey) -> Option<ItemId> {
        let is_it = |slot: &u32| matches!(&self.slots[*slot as usize], Slot::Used(item) if item.key == *key);
        let slot = *self.table.find(self.hasher.hash_one(key), is_it)?;
        let generation = self.slot(slot)?.generation;
        Some(ItemId { slot, generation })
    }

    fn slot(&self, slot: u32) -> Option<&Item> {
        match self.slots.get(slot as usize)? {
            Slot::Used(item) => Some(item),
            Slot::Free(_) => None,
        }
    }

    /// Takes a key that [`find`](Self::find) did not find.
    pub(super) fn insert(&mut self, key: TxKey, kind: Kind, now: Time) -> ItemId {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let generation = match self.slots.get(slot as usize) {
            Some(Slot::Free(generation)) => *generation,
            _ => 0,
        };
        let item = Item {
            key,
            seen: PeerSet::default(),
            generation,
            live: NOBODY,
            since_s: now.since(Time::ZERO).as_secs() as u32,
            kind,
            have: false,
            checking: false,
            wait: Wait::None,
        };
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Slot::Used(item),
            None => self.slots.push(Slot::Used(item)),
        }
        let Self { slots, table, hasher, .. } = self;
        let rehash = |slot: &u32| match &slots[*slot as usize] {
            Slot::Used(item) => hasher.hash_one(item.key),
            Slot::Free(_) => 0,
        };
        table.insert_unique(hasher.hash_one(key), slot, rehash);
        ItemId { slot, generation }
    }

    pub(super) fn get(&self, id: ItemId) -> Option<&Item> {
        self.slot(id.slot).filter(|item| item.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ItemId) -> Option<&mut Item> {
        match self.slots.get_mut(id.slot as usize)? {
            Slot::Used(item) if item.generation == id.generation => Some(item),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, id: ItemId) -> Option<Item> {
        let key = self.get(id)?.key;
        let found = self.table.find_entry(self.hasher.hash_one(key), |slot| *slot == id.slot);
        found.ok()?.remove();
        self.free.push(id.slot);
        let freed = Slot::Free(id.generation.wrapping_add(1));
        match std::mem::replace(&mut self.slots[id.slot as usize], freed) {
            Slot::Used(item) => Some(item),
            Slot::Free(_) => None,
        }
    }

    /// All of them, in no meaningful but always the same order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ItemId, &Item)> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| match place {
            Slot::Used(item) => Some((ItemId { slot: slot as u32, generation: item.generation }, item)),
            Slot::Free(_) => None,
        })
    }
}
