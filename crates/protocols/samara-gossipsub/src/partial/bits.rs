//! Sets of parts.

use std::fmt;

use thin_vec::ThinVec;

/// Words that a set has without an allocation: enough for 128 blobs, more than a block of Ethereum has.
const INLINE: usize = 2;

/// A set of parts of a message, by number. Remembers the number of parts, since formats write one bit
/// for each part.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bits {
    len: u32,
    low: [u64; INLINE],
    /// The words behind those.
    high: ThinVec<u64>,
}

impl Bits {
    /// Creates an empty set of `len` possible parts.
    pub fn new(len: u32) -> Self {
        let mut bits = Self::default();
        bits.grow(len);
        bits
    }

    /// Creates the set of all `len` parts.
    pub fn all(len: u32) -> Self {
        let mut bits = Self::new(len);
        let parts = |at: usize| match len.saturating_sub(at as u32 * 64) {
            0 => 0,
            left => u64::MAX >> (64 - left.min(64)),
        };
        bits.words_mut().enumerate().for_each(|(at, word)| *word = parts(at));
        bits
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.low.iter().chain(&self.high).copied()
    }

    fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.low.iter_mut().chain(&mut self.high)
    }

    fn word(&mut self, part: u32) -> Option<&mut u64> {
        let at = part as usize / 64;
        if at < INLINE { Some(&mut self.low[at]) } else { self.high.get_mut(at - INLINE) }
    }

    /// Combines each word with that of another set; missing ones are empty.
    fn combine(&mut self, other: &Self, of: impl Fn(u64, u64) -> u64) {
        for (own, other) in self.low.iter_mut().zip(other.low) {
            *own = of(*own, other);
        }
        for (at, own) in self.high.iter_mut().enumerate() {
            *own = of(*own, other.high.get(at).copied().unwrap_or(0));
        }
    }

    /// Returns the number of possible parts.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of parts in the set.
    pub fn count(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Returns true if no part is in the set.
    pub fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    /// Returns true if the part is in the set.
    pub fn contains(&self, part: u32) -> bool {
        let at = part as usize / 64;
        let word = if at < INLINE { Some(&self.low[at]) } else { self.high.get(at - INLINE) };
        word.is_some_and(|word| word >> (part % 64) & 1 == 1)
    }

    /// Adds a part, and makes room for it if necessary.
    pub fn insert(&mut self, part: u32) {
        self.grow(part + 1);
        if let Some(word) = self.word(part) {
            *word |= 1 << (part % 64);
        }
    }

    /// Removes a part.
    pub fn remove(&mut self, part: u32) {
        if let Some(word) = self.word(part) {
            *word &= !(1 << (part % 64));
        }
    }

    /// Adds all parts of another set.
    pub fn add(&mut self, other: &Self) {
        self.grow(other.len);
        self.combine(other, |own, other| own | other);
    }

    /// Returns the parts that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.combine(other, |own, other| own & other);
        both
    }

    /// Returns the parts of this set that are not in the other one.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.combine(other, |own, other| own & !other);
        rest
    }

    /// Returns the parts in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().zip(0..).flat_map(|(word, at)| {
            let mut rest = word;
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
            let words = len.div_ceil(64) as usize;
            if words > INLINE {
                self.high.resize(words - INLINE, 0);
            }
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
