//! Random links between ends that are given: the configuration model, without loops and parallel links.

use rustc_hash::FxHashSet;
use samara_engine::NodeRng;

/// Links that are made one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    edges: Vec<(u32, u32)>,
    // Only ever asked, never iterated: the order of a hash set means nothing.
    known: FxHashSet<(u32, u32)>,
}

fn ordered(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

impl Links {
    pub(super) fn contains(&self, a: u32, b: u32) -> bool {
        self.known.contains(&ordered(a, b))
    }

    /// Links two nodes, unless they are the same or linked already.
    pub(super) fn add(&mut self, a: u32, b: u32) -> bool {
        let new = a != b && self.known.insert(ordered(a, b));
        if new {
            self.edges.push(ordered(a, b));
        }
        new
    }

    /// Pairs ends at random as long as any pair is suitable (the method of Steger and Wormald, 1999, in rounds); gives back
    /// the ends that are left.
    pub(super) fn pair(
        &mut self,
        mut ends: Vec<u32>,
        rng: &mut NodeRng,
        suitable: impl Fn(u32, u32) -> bool,
    ) -> Vec<u32> {
        const FRUITLESS_ROUNDS: u32 = 20;
        let mut fruitless = 0;
        while ends.len() > 1 && fruitless < FRUITLESS_ROUNDS {
            rng.shuffle(&mut ends);
            let mut left = Vec::new();
            for pair in ends.chunks(2) {
                match *pair {
                    [a, b] if suitable(a, b) && self.add(a, b) => {}
                    _ => left.extend_from_slice(pair),
                }
            }
            fruitless = if left.len() == ends.len() { fruitless + 1 } else { 0 };
            ends = left;
        }
        ends
    }

    /// Fits two ends in that cannot be linked: takes a link of two others away and links each of them to one end. `false` if
    /// no such link was found.
    pub(super) fn fit_in(&mut self, a: u32, b: u32, rng: &mut NodeRng) -> bool {
        const TRIES: usize = 10_000;
        for _ in 0..TRIES.min(100 * self.edges.len()) {
            let place = rng.index(self.edges.len());
            let (mut x, mut y) = self.edges[place];
            if rng.chance(0.5) {
                (x, y) = (y, x);
            }
            let free = |p: u32, q: u32| p != q && !self.contains(p, q);
            if free(a, x) && free(b, y) && ordered(a, x) != ordered(b, y) {
                self.known.remove(&ordered(x, y));
                self.edges[place] = ordered(a, x);
                self.known.insert(ordered(a, x));
                self.add(b, y);
                return true;
            }
        }
        false
    }

    /// All links in order, each dialled by a random side.
    pub(super) fn dialled(mut self, rng: &mut NodeRng) -> Vec<(u32, u32)> {
        self.edges.sort_unstable();
        let dial = |(a, b): &mut (u32, u32)| {
            if rng.chance(0.5) {
                std::mem::swap(a, b);
            }
        };
        self.edges.iter_mut().for_each(dial);
        self.edges
    }
}
