//! Many step curves taken together: when the first, the median and the last of them reach a share.

use crate::model::{Colour, StepCurve};

/// At how many shares the bundle is cut.
pub(crate) const LEVELS: usize = 64;

/// A curve with its arrivals in order.
pub(crate) struct Sorted {
    pub(crate) number: u32,
    pub(crate) of: u32,
    pub(crate) arrivals: Vec<f64>,
}

impl Sorted {
    /// When a share is reached; infinite if it is not.
    pub(crate) fn reaches(&self, share: f64) -> f64 {
        // A share of 0.5 of 3 arrivals is reached with the second.
        let needed = (share * f64::from(self.of) - 1e-9).ceil().max(1.0) as usize;
        self.arrivals.get(needed - 1).copied().unwrap_or(f64::INFINITY)
    }
}

/// A bundle of curves.
pub(crate) struct Bundle {
    /// In the order given, without those that nothing is needed for.
    pub(crate) curves: Vec<Sorted>,
    /// By curve: how many are complete before it.
    ranks: Vec<usize>,
}

/// When the first, the median and the last curve reach each level; infinite where they do not.
pub(crate) struct Envelope {
    pub(crate) first: Vec<f64>,
    pub(crate) median: Vec<f64>,
    pub(crate) last: Vec<f64>,
}

impl Bundle {
    pub(crate) fn new(curves: &[StepCurve]) -> Self {
        let curves: Vec<Sorted> = curves
            .iter()
            .filter(|curve| curve.of > 0)
            .map(|curve| Sorted { number: curve.number, of: curve.of, arrivals: curve.sorted() })
            .collect();
        let mut order: Vec<usize> = (0..curves.len()).collect();
        order.sort_by(|a, b| curves[*a].reaches(1.0).total_cmp(&curves[*b].reaches(1.0)));
        let mut ranks = vec![0; curves.len()];
        order.iter().enumerate().for_each(|(rank, index)| ranks[*index] = rank);
        Self { curves, ranks }
    }

    /// Whether nothing arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.arrivals.is_empty())
    }

    /// The last arrival; 0 without one.
    pub(crate) fn latest_ms(&self) -> f64 {
        self.curves.iter().filter_map(|curve| curve.arrivals.last()).copied().fold(0.0, f64::max)
    }

    /// Where a curve is in the map of colours, in `0..=1`.
    pub(crate) fn shade(&self, colour: Colour, index: usize) -> f64 {
        let most = |values: &mut dyn Iterator<Item = usize>| values.max().unwrap_or(0).max(1);
        match colour {
            Colour::ByNumber => {
                let last = most(&mut self.curves.iter().map(|curve| curve.number as usize));
                f64::from(self.curves[index].number) / last as f64
            }
            Colour::ByRank => self.ranks[index] as f64 / most(&mut self.ranks.iter().copied()) as f64,
        }
    }

    /// When a share is reached by all curves, in order; infinite for those that do not reach it.
    pub(crate) fn cut(&self, share: f64) -> Vec<f64> {
        let mut times: Vec<f64> = self.curves.iter().map(|curve| curve.reaches(share)).collect();
        times.sort_unstable_by(f64::total_cmp);
        times
    }

    pub(crate) fn envelope(&self) -> Envelope {
        let mut envelope = Envelope { first: Vec::new(), median: Vec::new(), last: Vec::new() };
        for level in 1..=LEVELS {
            let times = self.cut(level as f64 / LEVELS as f64);
            let Some(last) = times.len().checked_sub(1) else { break };
            envelope.first.push(times[0]);
            envelope.median.push(times[last / 2]);
            envelope.last.push(times[last]);
        }
        envelope
    }
}
