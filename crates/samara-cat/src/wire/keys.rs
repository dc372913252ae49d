//! Lists of keys that share their memory.

use std::fmt;
use std::sync::Arc;

use crate::TxKey;

/// At most [`KeyList::MAX`] keys.
///
/// A node tells most of its peers the same keys, except for a few that one or the other has already: the lists for all of them
/// share one array, and each has a mask of its own. With twenty peers that saves nineteen arrays a frame.
#[derive(Clone)]
pub struct KeyList {
    keys: Arc<[TxKey]>,
    /// Which ones count.
    mask: u64,
}

impl KeyList {
    /// Most keys of a list: more go into several frames. A frame of so many has 2,052 bytes.
    pub const MAX: usize = 64;

    /// A list of these keys.
    ///
    /// # Panics
    /// If there are more than [`MAX`](Self::MAX).
    pub fn new(keys: impl Into<Arc<[TxKey]>>) -> Self {
        let keys = keys.into();
        assert!(keys.len() <= Self::MAX, "a list of {} keys; at most {} fit", keys.len(), Self::MAX);
        let mask = if keys.is_empty() { 0 } else { u64::MAX >> (Self::MAX - keys.len()) };
        Self { keys, mask }
    }

    pub fn one(key: TxKey) -> Self {
        Self { keys: Arc::from([key]), mask: 1 }
    }

    /// The same array, but only the keys whose bit is set (the first key has the lowest).
    #[must_use]
    pub fn only(&self, mask: u64) -> Self {
        Self { keys: Arc::clone(&self.keys), mask: self.mask & mask }
    }

    pub fn len(&self) -> usize {
        self.mask.count_ones() as usize
    }

    pub fn is_empty(&self) -> bool {
        self.mask == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &TxKey> {
        let mut mask = self.mask;
        std::iter::from_fn(move || {
            let at = mask.trailing_zeros() as usize;
            mask &= mask.wrapping_sub(1);
            self.keys.get(at)
        })
    }
}

impl FromIterator<TxKey> for KeyList {
    /// # Panics
    /// If there are more than [`MAX`](Self::MAX).
    fn from_iter<I: IntoIterator<Item = TxKey>>(keys: I) -> Self {
        Self::new(keys.into_iter().collect::<Vec<_>>())
    }
}

impl PartialEq for KeyList {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for KeyList {}

impl fmt::Debug for KeyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
