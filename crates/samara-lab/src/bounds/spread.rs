//! How long a column takes to spread when the publisher's further copies of it are not free.

use super::postal::Tree;

/// What is known of orders that do not depend on who keeps what.
pub(super) struct Blind<'a> {
    /// Nanoseconds that the publisher takes for a copy.
    pub(super) copy: f64,
    /// Positions of first copies.
    pub(super) positions: usize,
    /// How many nodes there are.
    pub(super) nodes: f64,
    /// The probability that a node that keeps the column at each position (counted from 0) has all its others before it.
    pub(super) last_given_kept: &'a [f64],
    /// The part of all nodes whose last column is behind each position.
    pub(super) later: &'a [f64],
    /// What descends from one copy of the publisher.
    pub(super) tree: &'a Tree,
}

impl Blind<'_> {
    /// The least that the time from the first copy of the column at a position (counted from 0) until each of its
    /// `subscribers` that was waiting for it last has it adds up to, in nanoseconds, less what further copies of it cost
    /// others.
    ///
    /// With `S(t)` subscribers reached at `t` after the first copy, they wait `integral of max(0, m - S(t))`, which is at
    /// least `integral from 0 to T of m - S(t)` for whatever `T`. `S` is a sum over the publisher's copies. One that leaves
    /// before all first copies have left delays every node that is done later; `T` is chosen so small that no such copy is
    /// worth its cost, so that the sum over them cannot be negative and can be left out.
    pub(super) fn waiting(&self, position: usize, subscribers: usize) -> f64 {
        let weight = self.last_given_kept[position];
        let full = |time: f64| self.reached(position, time) >= subscribers as f64;
        let horizon = self.horizon(position).min(largest(|time| !full(time), self.upper()));
        weight * (subscribers as f64 * horizon - self.held(position, horizon))
    }

    /// A time by which everything is over: twice that of a single tree, since searches start there.
    fn upper(&self) -> f64 {
        2.0 * self.tree.span()
    }

    /// The largest `T` at which no further copy of the column at this position is worth its cost.
    fn horizon(&self, position: usize) -> f64 {
        let weight = self.last_given_kept[position];
        let affordable = |time: f64| {
            (position..self.positions - 1).all(|slot| {
                // It has been sent one copy's time after the first copies up to its slot at the earliest.
                let sent = (slot - position + 1) as f64 * self.copy;
                sent >= time
                    || weight * self.tree.held(time - sent) <= self.copy * self.nodes * self.later[slot]
            })
        };
        largest(affordable, self.upper())
    }

    /// When the publisher's copies of the column have left that cost nothing: the first one, and those after all first
    /// copies.
    fn free_copies(&self, position: usize, until: f64) -> impl Iterator<Item = f64> {
        let (copy, rest) = (self.copy, self.positions - position);
        let after =
            (0..).map(move |further| (rest + further) as f64 * copy).take_while(move |at| *at < until);
        std::iter::once(0.0).chain(after)
    }

    fn reached(&self, position: usize, time: f64) -> f64 {
        self.free_copies(position, time).map(|sent| self.tree.reached(time - sent) as f64).sum()
    }

    fn held(&self, position: usize, time: f64) -> f64 {
        self.free_copies(position, time).map(|sent| self.tree.held(time - sent)).sum()
    }
}

/// The largest time up to `upper` at which something holds that holds early and not late, a little less at most.
fn largest(holds: impl Fn(f64) -> bool, upper: f64) -> f64 {
    let (mut low, mut high) = (0.0, upper);
    if holds(high) {
        return high;
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}
