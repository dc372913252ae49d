//! The draws of a study of segmented payloads over GossipSub: regions, factors of latencies, and the
//! nodes that a fault hits.
//!
//! The study is that of Kiraly (2026, <https://ethresear.ch/t/25913> and
//! <https://ethresear.ch/t/26025>, data in <https://github.com/cskiraly/eth-networking-studies>). A
//! run with the same seed has the same regions, latencies and faulty nodes. Its seeds are not
//! independent: the draw of a region combines seed and node by XOR, so that seeds below 16 only
//! exchange nodes within blocks of 16.

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Distinguishes the draw of a region from other draws of a node.
const REGION: u64 = 0x9e0_1a7e;
/// Number of steps between the least and the largest factor.
const FACTOR_STEPS: u64 = 1024;

/// Returns the region of a node, by weights that are whole numbers.
///
/// # Panics
/// If there are no weights, or all are 0. Scenarios are checked before.
pub fn region(seed: u64, node: u32, weights: &[u64]) -> usize {
    let mut drawn = mix(seed ^ REGION ^ u64::from(node)) % weights.iter().sum::<u64>();
    for (region, weight) in weights.iter().enumerate() {
        if drawn < *weight {
            return region;
        }
        drawn -= weight;
    }
    weights.len() - 1
}

/// Returns the factor of the latency between two nodes, the same in both directions, from `least` to
/// below `most`.
pub fn pair_factor(seed: u64, (a, b): (u32, u32), (least, most): (f64, f64)) -> f64 {
    let hash = mix(seed ^ u64::from(a.min(b)) << 20 ^ u64::from(a.max(b)));
    least + (most - least) * (hash % FACTOR_STEPS) as f64 / FACTOR_STEPS as f64
}

/// A purpose for which nodes are drawn. The sets of two purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudySet {
    /// Nodes that announce messages and do not answer requests, or forward nothing.
    Withholding,
    /// Nodes that pretend to have every announced message.
    Spoofing,
    /// Pieces that the publisher never sends; the "nodes" are pieces here.
    Omitted,
}

impl StudySet {
    const fn domain(self) -> u64 {
        match self {
            Self::Withholding => 0xf1f1_f1f1_f1f1_f1f1,
            Self::Spoofing => 0xd07d_07d0_7d07_d07d,
            Self::Omitted => 0xf5f5_f5f5_f5f5_f5f5,
        }
    }
}

/// Returns the nodes that a fault of the study hits: a percentage of `nodes - 1`, rounded to the
/// nearest number, at least one. Node 0, the publisher, is never among them. The order is that of the
/// draw: a smaller percentage hits the first of them.
pub fn study_draw(set: StudySet, nodes: u32, percent: u32, seed: u64) -> Vec<u32> {
    let others = u64::from(nodes.saturating_sub(1));
    let count = ((u64::from(percent) * others + 50) / 100).max(1);
    ranked(set, 1..nodes, seed).into_iter().take(count as usize).collect()
}

/// Returns numbers in the order of the draw for a purpose: pieces start at 0.
pub fn ranked(set: StudySet, numbers: std::ops::Range<u32>, seed: u64) -> Vec<u32> {
    let seed = mix(seed ^ set.domain());
    let mut ranked: Vec<u32> = numbers.collect();
    ranked.sort_by_key(|number| std::cmp::Reverse(mix(seed ^ u64::from(*number))));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [u64; 5] = [35, 20, 10, 25, 10];

    /// The regions of a study with 500 nodes: eu, na-east, na-west, asia, rest.
    fn regions(seed: u64) -> Vec<usize> {
        (0..500).map(|node| region(seed, node, &WEIGHTS)).collect()
    }

    #[test]
    fn regions_are_those_of_the_study() {
        let publisher: Vec<usize> = (7..=16).map(|seed| regions(seed)[0]).collect();
        assert_eq!(publisher, [3, 3, 0, 3, 0, 2, 3, 4, 3, 3]);
        for seed in 7..=16 {
            let counts = regions(seed).into_iter().fold([0_i32; 5], |mut counts, region| {
                counts[region] += 1;
                counts
            });
            for (found, expected) in counts.into_iter().zip([172, 101, 54, 124, 49]) {
                assert!((found - expected).abs() <= 5, "seed {seed}: {counts:?}");
            }
        }
    }

    #[test]
    fn latencies_have_the_quantiles_of_the_study() {
        const BASE_MS: [[f64; 5]; 5] = [
            [8.0, 40.0, 70.0, 90.0, 110.0],
            [40.0, 8.0, 30.0, 80.0, 60.0],
            [70.0, 30.0, 8.0, 60.0, 70.0],
            [90.0, 80.0, 60.0, 10.0, 70.0],
            [110.0, 60.0, 70.0, 70.0, 15.0],
        ];
        for seed in [7, 12] {
            let regions = regions(seed);
            let pairs = (0..500_u32).flat_map(|a| (a + 1..500).map(move |b| (a, b)));
            let mut latencies: Vec<f64> = pairs
                .map(|(a, b)| {
                    let base = BASE_MS[regions[a as usize]][regions[b as usize]];
                    base * pair_factor(seed, (a, b), (0.8, 1.2))
                })
                .collect();
            latencies.sort_by(f64::total_cmp);
            let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
            let quantile = |q: f64| latencies[(q * latencies.len() as f64) as usize];
            let found = [mean, quantile(0.1), quantile(0.5), quantile(0.9)];
            for (found, expected) in found.into_iter().zip([55.6, 8.3, 61.0, 98.0]) {
                assert!((found - expected).abs() < 0.015 * expected, "seed {seed}: {found} for {expected}");
            }
        }
        assert!((pair_factor(7, (3, 9), (0.8, 1.2)) - pair_factor(7, (9, 3), (0.8, 1.2))).abs() < 1e-12);
    }

    #[test]
    fn sets_are_nested_and_independent() {
        let draw = |set, percent| study_draw(set, 500, percent, 7);
        let withholding = draw(StudySet::Withholding, 10);
        assert_eq!(withholding.len(), 50);
        assert_eq!(draw(StudySet::Withholding, 20)[..50], withholding);
        assert!(!draw(StudySet::Withholding, 100).contains(&0));
        let spoofing = draw(StudySet::Spoofing, 10);
        let both = spoofing.iter().filter(|node| withholding.contains(node)).count();
        assert!(both < 15, "{both} of 50, 5 expected");
        assert_eq!(study_draw(StudySet::Withholding, 3, 1, 7).len(), 1);
        assert_eq!(ranked(StudySet::Omitted, 0..32, 7).len(), 32);
    }
}
