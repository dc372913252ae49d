//! Sets of parts.

use std::fmt;

use smallvec::SmallVec;

/// A set of parts of a message, by number. Remembers the number of parts, since formats write one bit
/// for each part.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bits {
    len: u32,
    words: SmallVec<[u64; 2]>,
}

impl Bits {
    /// Creates an empty set of `len` possible parts.
    pub fn new(len: u32) -> Self {
        Self { len, words: SmallVec::from_elem(0, len.div_ceil(64) as usize) }
    }

    /// Creates the set of all `len` parts.
    pub fn all(len: u32) -> Self {
        let mut bits = Self::new(len);
        bits.words.fill(u64::MAX);
        if !len.is_multiple_of(64)
            && let Some(last) = bits.words.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    /// Returns the number of possible parts.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of parts in the set.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns true if no part is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns true if the part is in the set.
    pub fn contains(&self, part: u32) -> bool {
        self.words.get(part as usize / 64).is_some_and(|word| word >> (part % 64) & 1 == 1)
    }

    /// Adds a part, and makes room for it if necessary.
    pub fn insert(&mut self, part: u32) {
        self.grow(part + 1);
        self.words[part as usize / 64] |= 1 << (part % 64);
    }

    /// Removes a part.
    pub fn remove(&mut self, part: u32) {
        if let Some(word) = self.words.get_mut(part as usize / 64) {
            *word &= !(1 << (part % 64));
        }
    }

    /// Adds all parts of another set.
    pub fn add(&mut self, other: &Self) {
        self.grow(other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own |= other);
    }

    /// Returns the parts that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (at, word) in both.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
        both
    }

    /// Returns the parts of this set that are not in the other one.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own &= !other);
        rest
    }

    /// Returns the parts in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0..).flat_map(|(word, at)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Makes room for this number of possible parts.
    pub(crate) fn grow(&mut self, len: u32) {
        if len > self.len {
            self.len = len;
            self.words.resize(len.div_ceil(64) as usize, 0);
        }
    }
}

impl FromIterator<u32> for Bits {
    fn from_iter<I: IntoIterator<Item = u32>>(parts: I) -> Self {
        let mut bits = Self::default();
        parts.into_iter().for_each(|part| bits.insert(part));
        bits
    }
}

/// One digit for each possible part.
impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.len).try_for_each(|part| f.write_str(if self.contains(part) { "1" } else { "0" }))
    }
}
