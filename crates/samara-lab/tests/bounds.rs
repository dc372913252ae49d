//! The lower bound, held against closed forms and exhaustive search.

use samara_engine::{NodeRng, Purpose};
use samara_lab::bounds::{Limits, mean_time_to_custody_ms, order, postal};

fn limits() -> Limits {
    Limits {
        copy_bytes: 1250,
        publisher_uplink_bps: 1_000_000,
        relay_uplink_bps: 1_000_000,
        latency_nanos: 50_000_000,
        validation_nanos: 0,
    }
}

fn random_custody(seed: u64, nodes: usize, columns: u16, kept: usize) -> Vec<Vec<u16>> {
    let mut rng = NodeRng::new(seed, 0, Purpose::Workload);
    let draw = |_| {
        let mut all: Vec<u16> = (0..columns).collect();
        rng.shuffle(&mut all);
        all.truncate(kept);
        all
    };
    (0..nodes).map(draw).collect()
}

#[test]
fn a_single_subscriber_waits_for_all_its_columns_and_one_latency() {
    // 1250 bytes take 10 ms at 1 Mbit/s.
    let custody = vec![vec![], vec![0, 1, 2]];
    assert_eq!(mean_time_to_custody_ms(&custody, 0, &limits()), 3.0 * 10.0 + 50.0);
}

#[test]
fn nobody_waits_for_nothing() {
    assert_eq!(mean_time_to_custody_ms(&[vec![0], vec![]], 0, &limits()), 0.0);
}

#[test]
fn validation_counts_at_every_hop() {
    let custody = vec![vec![], vec![0]];
    let slow = Limits { validation_nanos: 5_000_000, ..limits() };
    assert_eq!(mean_time_to_custody_ms(&custody, 0, &slow), 10.0 + 50.0 + 5.0);
}

#[test]
fn without_latency_the_postal_model_doubles_in_every_round() {
    let model = postal::Model { latency: 0, relay_delay: 0, serialisation: 10 };
    assert_eq!(model.tree(9), [0, 10, 20, 20, 30, 30, 30, 30, 40]);
}

#[test]
fn with_a_long_latency_the_first_receiver_sends_alone_for_long() {
    let model = postal::Model { latency: 35, relay_delay: 0, serialisation: 10 };
    // It has the message at 35, and its copies arrive from 80 on; those of the next one from 125 on.
    assert_eq!(model.tree(8), [35, 80, 90, 100, 110, 120, 125, 130]);
}

#[test]
fn a_tree_counts_nodes_and_the_time_that_they_have_had_the_message() {
    let tree = postal::Tree::new(&postal::Model { latency: 0, relay_delay: 5, serialisation: 10 }, 3);
    // Reached at 5, 20 and 30.
    assert_eq!([4.0, 5.0, 20.0, 36.0].map(|time| tree.reached(time)), [0, 1, 2, 3]);
    assert_eq!(tree.held(36.0), 31.0 + 16.0 + 6.0);
}

#[test]
fn the_expected_last_position_is_that_of_a_random_order() {
    let (columns, kept, draws) = (128u16, 16usize, 20_000);
    let custody = random_custody(1, draws, columns, kept);
    let positions: Vec<f64> =
        custody.iter().map(|own| f64::from(*own.iter().max().expect("sixteen columns") + 1)).collect();
    let mean = positions.iter().sum::<f64>() / draws as f64;
    let variance = positions.iter().map(|position| (position - mean).powi(2)).sum::<f64>() / draws as f64;
    let expected = order::expected_last_position(16, 128);
    assert!((mean - expected).abs() < 0.25, "{mean} {expected}");
    let expected = order::variance_of_last_position(16, 128);
    assert!((variance / expected - 1.0).abs() < 0.05, "{variance} {expected}");
}

/// The mean over nodes of the position of the last column, in this order.
fn mean_last_position(order: &[u16], custody: &[Vec<u16>]) -> f64 {
    let place =
        |column: &u16| order.iter().position(|other| other == column).expect("every column is in") + 1;
    let last = |own: &Vec<u16>| own.iter().map(place).max().unwrap_or(0);
    custody.iter().map(last).sum::<usize>() as f64 / custody.len() as f64
}

fn permutations(items: Vec<u16>) -> Vec<Vec<u16>> {
    if items.len() < 2 {
        return vec![items];
    }
    let mut all = Vec::new();
    for index in 0..items.len() {
        let mut rest = items.clone();
        let first = rest.remove(index);
        all.extend(permutations(rest).into_iter().map(|rest| [vec![first], rest].concat()));
    }
    all
}

#[test]
fn no_order_of_few_columns_is_better_than_the_greedy_one_by_more_than_a_little() {
    for seed in 0..20 {
        let custody = random_custody(seed, 12, 6, 2);
        let borrowed: Vec<&[u16]> = custody.iter().map(Vec::as_slice).collect();
        let finished = order::finished_by_position(&borrowed);
        let greedy =
            finished.iter().enumerate().map(|(at, nodes)| (at + 1) * nodes).sum::<usize>() as f64 / 12.0;
        let kept: Vec<u16> = (0..6).filter(|column| custody.iter().any(|own| own.contains(column))).collect();
        let best = permutations(kept)
            .iter()
            .map(|order| mean_last_position(order, &custody))
            .fold(f64::INFINITY, f64::min);
        assert!(greedy >= best && greedy <= 1.05 * best, "seed {seed}: greedy {greedy}, best {best}");
    }
}

#[test]
fn orders_that_do_not_know_the_nodes_stay_above_the_bound() {
    for seed in 0..50 {
        for nodes in [2, 10, 100, 1000] {
            let mut custody = random_custody(seed, nodes, 128, 16);
            custody[0].clear();
            let bound = mean_time_to_custody_ms(&custody, 0, &limits());
            let mut order: Vec<u16> = (0..128).collect();
            NodeRng::new(seed, 1, Purpose::Workload).shuffle(&mut order);
            // Columns that nobody keeps need not be sent.
            order.retain(|column| custody.iter().any(|own| own.contains(column)));
            let others = &custody[1..];
            // One copy of each column by the publisher, and the fastest tree from there: this can be reached.
            let model = postal::Model { latency: 50_000_000, relay_delay: 0, serialisation: 10_000_000 };
            let keepers = order::keepers(&others.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let total =
                |count: &usize| model.tree(*count).iter().map(|arrival| *arrival as f64 / 1e6).sum::<f64>();
            let spread = keepers.iter().map(total).sum::<f64>() / keepers.iter().sum::<usize>() as f64;
            let reached = 10.0 * mean_last_position(&order, others) + spread;
            assert!(bound <= reached, "seed {seed}, {nodes} nodes: bound {bound}, reached {reached}");
        }
    }
}

#[test]
fn the_bound_of_the_post_is_about_a_second() {
    let mut custody = random_custody(1, 1000, 128, 16);
    custody[0].clear();
    let post = Limits {
        copy_bytes: 17_051,
        publisher_uplink_bps: 20_000_000,
        relay_uplink_bps: 20_000_000,
        ..limits()
    };
    let bound = mean_time_to_custody_ms(&custody, 0, &post);
    assert!((995.0..1010.0).contains(&bound), "{bound}");
}
