//! Sets of byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes of a file, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Returns the set of all bytes from `start` up to `end`.
    pub fn of(range: Range<u64>) -> Self {
        let mut all = Self::default();
        all.insert(range);
        all
    }

    /// Adds the bytes of a range.
    pub fn insert(&mut self, Range { mut start, mut end }: Range<u64>) {
        if start >= end {
            return;
        }
        // Those that overlap the range or touch it become part of it.
        while let Some((&own_start, &own_end)) =
            self.0.range(..=end).next_back().filter(|own| *own.1 >= start)
        {
            self.0.remove(&own_start);
            start = start.min(own_start);
            end = end.max(own_end);
        }
        self.0.insert(start, end);
    }

    /// Removes the bytes of a range.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) =
            self.0.range(..range.end).next_back().filter(|own| *own.1 > range.start)
        {
            self.0.remove(&start);
            if range.end < end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
            }
        }
    }

    /// Adds the bytes of another set.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|range| self.insert(range));
    }

    /// Makes one range of the last ones, and of all bytes between them, if there are more than `max`.
    pub fn limit(&mut self, max: usize) {
        let Some(&end) = self.0.values().next_back() else { return };
        while self.0.len() > max {
            self.0.pop_last();
            self.0.last_entry().expect("at least one range is allowed").insert(end);
        }
    }

    /// Returns the bytes below `size` that are not in the set.
    pub fn gaps(&self, size: u64) -> Self {
        let mut gaps = Self::of(0..size);
        self.iter().for_each(|range| gaps.remove(range));
        gaps
    }

    /// Returns the number of bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns true if no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the end of the range that begins at 0; 0 without one.
    pub fn prefix(&self) -> u64 {
        self.0.get(&0).copied().unwrap_or(0)
    }

    /// Returns at most `len` bytes of the first range that ends after `from`, or of the first one.
    pub fn next_after(&self, from: u64, len: u64) -> Option<Range<u64>> {
        let found = self.iter().find(|range| range.end > from);
        let Range { start, end } = found.or_else(|| self.iter().next())?;
        let start = if (start..end).contains(&from) { from } else { start };
        Some(start..end.min(start + len))
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 40;

    fn set_of(bits: u64) -> Ranges {
        let mut set = Ranges::default();
        (0..SIZE).filter(|at| bits >> at & 1 == 1).for_each(|at| set.insert(at..at + 1));
        set
    }

    fn bits_of(set: &Ranges) -> u64 {
        set.iter().flatten().fold(0, |bits, at| bits | 1 << at)
    }

    fn assert_normal(set: &Ranges) {
        let ranges: Vec<_> = set.iter().collect();
        assert!(ranges.iter().all(|range| !range.is_empty()), "{set:?}");
        assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "{set:?}");
    }

    proptest! {
        #[test]
        fn a_set_is_that_of_its_bytes(bits in 0_u64..1 << SIZE, start in 0..SIZE, len in 0..SIZE, cut in any::<bool>()) {
            let mut set = set_of(bits);
            let end = (start + len).min(SIZE);
            let changed = (start..end).fold(0_u64, |bits, at| bits | 1 << at);
            if cut { set.remove(start..end) } else { set.insert(start..end) }
            let expected = if cut { bits & !changed } else { bits | changed };
            assert_normal(&set);
            prop_assert_eq!(bits_of(&set), expected);
            prop_assert_eq!(set.bytes(), u64::from(expected.count_ones()));
            prop_assert_eq!(bits_of(&set.gaps(SIZE)), !expected & ((1 << SIZE) - 1));
            prop_assert_eq!(set.prefix(), u64::from(expected.trailing_ones()));
        }

        #[test]
        fn a_limited_set_has_no_fewer_bytes(bits in 0_u64..1 << SIZE, max in 1..9_usize) {
            let all = set_of(bits);
            let mut set = all.clone();
            set.limit(max);
            assert_normal(&set);
            prop_assert!(set.len() <= max);
            prop_assert_eq!(bits_of(&set) & bits, bits);
            prop_assert!(all.len() > max || set == all);
            prop_assert_eq!(set.iter().last().map(|range| range.end), all.iter().last().map(|range| range.end));
        }

        #[test]
        fn pieces_visit_every_byte_once(bits in 0_u64..1 << SIZE, len in 1..9_u64, from in 0..SIZE) {
            let (mut set, mut from, mut seen) = (set_of(bits), from, 0);
            while let Some(piece) = set.next_after(from, len) {
                prop_assert!(piece.end - piece.start <= len && !piece.is_empty());
                for at in piece.clone() {
                    prop_assert_eq!(seen >> at & 1, 0);
                    seen |= 1 << at;
                }
                from = piece.end;
                set.remove(piece);
            }
            prop_assert_eq!(seen, bits);
        }
    }
}
