//! Tests of the properties of generated graphs.

use std::collections::BTreeSet;

use proptest::prelude::*;
use samara_document::topology::{barabasi_albert, full_mesh, random_regular, ring};
use samara_engine::{NodeRng, Purpose};

proptest! {
    #[test]
    fn regular_graphs_are_regular_and_simple(nodes in 4u32..120, degree in 1u32..12, seed in any::<u64>()) {
        prop_assume!(degree < nodes && nodes * degree % 2 == 0);
        let graph = random_regular(nodes, degree, &mut NodeRng::new(seed, 0, Purpose::Topology));
        prop_assert_eq!(graph.edges.len() as u32, nodes * degree / 2);
        let pairs: BTreeSet<(u32, u32)> = graph.edges.iter().map(|(a, b)| (*a.min(b), *a.max(b))).collect();
        prop_assert_eq!(pairs.len(), graph.edges.len(), "no repeated edges");
        prop_assert!(graph.edges.iter().all(|(a, b)| a != b), "no loops");
        prop_assert!(graph.neighbours().iter().all(|neighbours| neighbours.len() as u32 == degree));
    }
}

/// The share of nodes with k links is 2 m (m + 1) / (k (k + 1) (k + 2)) in the limit of large
/// graphs (Bollobás, Riordan, Spencer and Tusnády 2001). With 20,000 nodes, sampling changes it by
/// a few standard deviations at most.
#[test]
fn degrees_follow_the_power_law() {
    let (nodes, m) = (20_000, 3_u32);
    let graph = barabasi_albert(nodes, m, &mut NodeRng::new(7, 0, Purpose::Topology));
    let degrees: Vec<u32> = graph.neighbours().iter().map(|neighbours| neighbours.len() as u32).collect();
    assert_eq!(degrees.iter().sum::<u32>(), 2 * m * (nodes - m));
    let (n, m) = (f64::from(nodes), f64::from(m));
    for k in 3..=20 {
        let found = degrees.iter().filter(|degree| **degree == k).count() as f64;
        let k = f64::from(k);
        let expected = n * 2.0 * m * (m + 1.0) / (k * (k + 1.0) * (k + 2.0));
        assert!(
            (found - expected).abs() < 5.0 * expected.sqrt() + 0.01 * expected,
            "k {k}: {found} of {expected}"
        );
    }
    // The tail: P(degree >= k) = m (m + 1) / (k (k + 1)).
    let hubs = degrees.iter().filter(|degree| **degree >= 100).count() as f64;
    let expected = n * m * (m + 1.0) / (100.0 * 101.0);
    assert!((hubs - expected).abs() < 5.0 * expected.sqrt(), "{hubs} hubs of {expected}");
}

#[test]
fn meshes_and_rings() {
    assert_eq!(full_mesh(10).edges.len(), 45);
    assert_eq!(ring(10).edges.len(), 10);
    assert_eq!(ring(2).edges.len(), 1);
    assert!(ring(7).unreachable().is_empty());
}
