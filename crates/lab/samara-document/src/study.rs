//! The draws of a study of segmented payloads over GossipSub: regions, factors of latencies, and the
//! nodes that a fault hits.
//!
//! The study is that of Kiraly (2026, <https://ethresear.ch/t/25913> and
//! <https://ethresear.ch/t/26025>, data in <https://github.com/cskiraly/eth-networking-studies>). A
//! run with the same seed has the same regions, latencies and faulty nodes. Its seeds are not
//! independent: the draw of a region combines seed and node by XOR, so that seeds below 16 only
//! exchange nodes within blocks of 16.

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
const fn mix(x: u64) -> u64 {
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

/// Distinguishes the draw of withholding nodes, which answer no request or forward nothing.
const WITHHOLDING: u64 = 0xf1f1_f1f1_f1f1_f1f1;

/// Returns the withholding nodes of the study: a percentage of `nodes - 1`, rounded to the nearest
/// number, at least one. Node 0, the publisher, is never among them. The order is that of the draw: a
/// smaller percentage hits the first of them.
pub fn withholding(nodes: u32, percent: u32, seed: u64) -> Vec<u32> {
    let others = u64::from(nodes.saturating_sub(1));
    let count = ((u64::from(percent) * others + 50) / 100).max(1);
    let seed = mix(seed ^ WITHHOLDING);
    let mut ranked: Vec<u32> = (1..nodes).collect();
    ranked.sort_by_key(|node| std::cmp::Reverse(mix(seed ^ u64::from(*node))));
    ranked.truncate(count as usize);
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
    fn withholding_nodes_are_nested() {
        let some = withholding(500, 10, 7);
        assert_eq!(some.len(), 50);
        assert_eq!(withholding(500, 20, 7)[..50], some);
        assert!(!withholding(500, 100, 7).contains(&0));
        assert_eq!(withholding(3, 1, 7).len(), 1);
    }
}
