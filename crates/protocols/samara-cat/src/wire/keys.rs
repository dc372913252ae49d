//! Lists of keys with shared memory.

use std::fmt;
use std::sync::Arc;

use crate::TxKey;

/// A list of at most [`KeyList::MAX`] keys.
///
/// A node announces the same keys to most of its peers, except for a few that individual peers
/// already have. The lists for all peers share one array, and each has its own mask. With twenty
/// peers that saves nineteen arrays per frame.
#[derive(Clone)]
pub struct KeyList {
    keys: Arc<[TxKey]>,
    /// One bit for each key that is in the list.
    mask: u64,
}

impl KeyList {
    /// Maximum number of keys in a list. More keys need several frames. A full frame has 2,052
    /// bytes.
    pub const MAX: usize = 64;

    /// Returns a list of these keys.
    ///
    /// # Panics
    /// If there are more than [`MAX`](Self::MAX).
    pub fn new(keys: impl Into<Arc<[TxKey]>>) -> Self {
        let keys = keys.into();
        assert!(
            keys.len() <= Self::MAX,
            "a list of {} keys exceeds the maximum of {}",
            keys.len(),
            Self::MAX
        );
        let mask = if keys.is_empty() { 0 } else { u64::MAX >> (Self::MAX - keys.len()) };
        Self { keys, mask }
    }

    /// Returns a list of one key.
    pub fn one(key: TxKey) -> Self {
        Self { keys: Arc::from([key]), mask: 1 }
    }

    /// Returns a list that shares the array, with only the keys whose bit is set in `mask`. The
    /// first key has the lowest bit.
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
