//! Sets of numbers that have few gaps.

/// A set of numbers as ranges (from, to exclusive), ascending, with gaps between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Adds a number. Returns whether it is new.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        // Most numbers come in order.
        match self.0.last_mut() {
            None => {
                self.0.push((number, number + 1));
                return true;
            }
            Some((_, to)) if *to == number => {
                *to += 1;
                return true;
            }
            Some((_, to)) if *to < number => {
                self.0.push((number, number + 1));
                return true;
            }
            Some(_) => {}
        }
        // The first range that ends at the number or behind it; there is one.
        let at = self.0.partition_point(|(_, to)| *to < number);
        let (from, to) = self.0[at];
        if from <= number && number < to {
            return false;
        }
        if to == number {
            self.0[at].1 += 1;
            if self.0.get(at + 1).is_some_and(|(from, _)| *from == number + 1) {
                self.0[at].1 = self.0.remove(at + 1).1;
            }
        } else if from == number + 1 {
            self.0[at].0 = number;
        } else {
            self.0.insert(at, (number, number + 1));
        }
        true
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.covers(number, number + 1)
    }

    /// Whether all of `from..to` is there.
    pub(super) fn covers(&self, from: u32, to: u32) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(at).is_some_and(|(start, end)| *start <= from && to <= *end)
    }

    /// The first number from 0 on that is not there.
    pub(super) fn first_gap(&self) -> u32 {
        match self.0.first() {
            Some((0, to)) => *to,
            _ => 0,
        }
    }

    /// One more than the largest number, 0 if there is none.
    pub(super) fn end(&self) -> u32 {
        self.0.last().map_or(0, |(_, to)| *to)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the range of the smallest numbers.
    pub(super) fn forget_first(&mut self) {
        if !self.0.is_empty() {
            self.0.remove(0);
        }
    }

    /// The ranges, those of the largest numbers first.
    pub(super) fn descending(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().rev().copied()
    }
}
