//! Slots of a round, from entry to exit.
//!
//! Slots cannot be told apart, but the sum of their latencies does not depend on who is whom: the mean of pairs "k-th in, k-th out" is
//! that of the true pairs. Their spread is the true one where all enter at once, and otherwise the least that is possible.

use samara_trace::live::{Latencies, Step};

/// Pieces of a round that are kept at most; further ones are joined to the last.
const PIECES_MAX: usize = 4096;

/// Slots that one source has seen come and go: when, and how many.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    entered: Vec<(u64, u64)>,
    left: Vec<(u64, u64)>,
}

impl Flow {
    pub(super) fn add(&mut self, step: Step, at_ns: u64, slots: u64) {
        let pieces = match step {
            Step::Entered => &mut self.entered,
            Step::Left => &mut self.left,
        };
        let is_full = pieces.len() >= PIECES_MAX;
        match pieces.last_mut() {
            Some(last) if last.0 == at_ns || is_full => last.1 = last.1.saturating_add(slots),
            _ => pieces.push((at_ns, slots)),
        }
    }

    pub(super) fn entered(&self) -> u64 {
        total(&self.entered)
    }

    pub(super) fn left(&self) -> u64 {
        total(&self.left)
    }

    /// When the first one entered, and the last one left.
    pub(super) fn span(&self, left_at: &Self) -> Option<(u64, u64)> {
        let entered = self.entered.iter().map(|(at, _)| *at).min()?;
        let left = left_at.left.iter().map(|(at, _)| *at).max()?;
        Some((entered, left))
    }

    /// How long slots took that entered here and left at `other`: the first of both with each other, and so on.
    pub(super) fn latencies(&self, other: &Self) -> Latencies {
        let sorted = |pieces: &[(u64, u64)]| {
            let mut pieces = pieces.to_vec();
            pieces.sort_unstable();
            pieces
        };
        let mut latencies = Latencies::default();
        let mut left = sorted(&other.left).into_iter();
        let mut leaving = left.next();
        for (entered_at, mut slots) in sorted(&self.entered) {
            while slots > 0 {
                let Some((left_at, there)) = leaving else { return latencies };
                let both = slots.min(there);
                latencies.add(left_at.saturating_sub(entered_at), both);
                slots -= both;
                leaving = if there > both { Some((left_at, there - both)) } else { left.next() };
            }
        }
        latencies
    }
}

fn total(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().fold(0, |sum, (_, slots)| sum.saturating_add(*slots))
}
