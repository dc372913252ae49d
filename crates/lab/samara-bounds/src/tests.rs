use super::*;

fn drawn(nodes: usize, columns: u32, kept: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    let mut all: Vec<u32> = (0..columns).collect();
    (0..nodes)
        .map(|_| {
            rng.shuffle(&mut all);
            all[..kept].to_vec()
        })
        .collect()
}

fn limits(custody: &[Vec<u32>], mbps: u64) -> Limits<'_> {
    Limits {
        custody: custody.iter().map(Vec::as_slice).collect(),
        downlink_bps: vec![mbps * 1_000_000; custody.len()],
        copy_bytes: 17_051,
        packet_bytes: 0,
        burst_bytes: 0,
        publisher_uplink_bps: mbps * 1_000_000,
        relay_uplink_bps: mbps * 1_000_000,
        latency_nanos: 50_000_000,
        validation_nanos: 0,
        asking: vec![false; custody.len()],
    }
}

#[test]
fn case_of_the_post_is_bounded_by_about_a_second() {
    let custody = drawn(999, 128, 16, 1);
    let bounds = [10, 20, 50, 100].map(|mbps| mean_custody(&limits(&custody, mbps)).total_ms.round());
    // The publisher's uplink alone: 128 copies of 6.82 ms at 20 Mbit/s, and 50 ms of latency.
    assert!((950.0..1030.0).contains(&bounds[1]), "{bounds:?}");
    assert!(bounds.is_sorted_by(|slower, faster| slower > faster), "{bounds:?}");
}

#[test]
fn single_node_waits_only_for_its_own_columns() {
    // 16 columns through one uplink take 16 * 6.8204 + 50 ms, independent of the order.
    for seed in 0..20 {
        let bound = mean_custody(&limits(&drawn(1, 128, 16, seed), 20)).total_ms;
        assert!((bound - 159.13).abs() < 0.01, "{bound}");
    }
}

#[test]
fn one_column_for_all_nodes_is_the_postal_model() {
    // There are 7 receivers, a copy takes one unit of time, and latency is almost zero. The
    // publisher and each holder send: 1, 2, 4, 8 nodes have the column after 1, 2, 3 units.
    let custody = vec![vec![0]; 7];
    let mut limits = limits(&custody, 20);
    limits.latency_nanos = 0;
    let unit = limits.serialisation_nanos(20_000_000) as f64 / 1e6;
    let bound = mean_custody(&limits).total_ms;
    let optimum = (1.0 + 2.0 * 2.0 + 4.0 * 3.0) / 7.0 * unit;
    assert!((bound - optimum).abs() < 1e-3, "{bound}, {optimum}");
}

#[test]
fn slow_downlinks_raise_the_bound() {
    let custody = vec![vec![0, 1, 2, 3]; 2];
    let mut limits = limits(&custody, 20);
    limits.downlink_bps[1] = 1_000_000;
    // The mean of 4 copies at 20 Mbit/s and 4 copies at 1 Mbit/s.
    let expected = 50.0 + (4.0 * 6.8204 + 4.0 * 136.408) / 2.0;
    assert!((mean_custody(&limits).total_ms - expected).abs() < 0.01);
}

#[test]
fn a_downlink_receives_the_first_packet_while_it_arrives() {
    let custody = vec![vec![0]; 2];
    let mut limits = limits(&custody, 20);
    limits.downlink_bps = vec![1_000_000; 2];
    limits.packet_bytes = 17_051;
    // The whole copy is one packet: the uplinks alone limit it.
    let fast = Limits { downlink_bps: vec![u64::MAX; 2], ..limits.clone() };
    assert_eq!(mean_custody(&limits).total_ms, mean_custody(&fast).total_ms);
    assert_eq!(mean_any(&limits, 1).total_ms, mean_any(&fast, 1).total_ms);
}

#[test]
fn unequal_custody_is_bounded_for_every_order() {
    // Serving the node with few columns first is best, and the bound reflects that.
    let custody = vec![vec![0], (1..64).collect::<Vec<u32>>()];
    let bound = mean_custody(&limits(&custody, 20)).total_ms;
    let best = 50.0 + (1.0 + 64.0) / 2.0 * 6.8204;
    assert!((bound - best).abs() < 1e-3, "{bound}, {best}");
}

#[test]
fn requests_are_bounded_for_every_order() {
    // The publisher answers one node after the other, each with columns that nobody else keeps.
    let custody: Vec<Vec<u32>> = (0..6).map(|node| (7 * node..7 * node + 7).collect()).collect();
    let pushed = limits(&custody, 20);
    let asked = Limits { asking: vec![true; 6], ..pushed.clone() };
    let mean_position = 7.0 * (1.0 + 6.0) / 2.0;
    let served = 50.0 + mean_position * 6.8204;
    assert!((mean_custody(&asked).total_ms - served).abs() < 1e-3);
    assert!(mean_custody(&pushed).total_ms > served);
    // The order does not depend on the custody of those that do not ask.
    let far = drawn(999, 128, 8, 1);
    let bounds = [0, 100].map(|asking| {
        let asking = (0..999).map(|node| node < asking).collect();
        mean_custody(&Limits { asking, ..limits(&far, 20) }).total_ms
    });
    let share = bounds[1] / bounds[0];
    assert!(0.88 < share && share < 0.95, "{bounds:?}");
}

fn last_positions(custody: &[&[u32]], order: &[u32]) -> f64 {
    let position = |column: &u32| order.iter().position(|other| other == column).unwrap() as f64 + 1.0;
    let last = |own: &&[u32]| own.iter().map(position).fold(0.0, f64::max);
    custody.iter().map(last).sum::<f64>() / custody.len() as f64
}

/// Calls `visit` with every order of the columns.
fn permute(left: &mut Vec<u32>, order: &mut Vec<u32>, visit: &mut impl FnMut(&[u32])) {
    if left.is_empty() {
        visit(order);
    }
    for at in 0..left.len() {
        order.push(left.remove(at));
        permute(left, order, visit);
        left.insert(at, order.pop().unwrap());
    }
}

#[test]
fn least_and_expected_positions_agree_with_all_orders() {
    let cases: [&[&[u32]]; 4] = [
        &[&[0, 1], &[2, 3], &[4, 5]],
        &[&[0], &[1, 2], &[0, 3, 4, 5]],
        &[&[0, 1, 2], &[0, 1, 2], &[3, 4, 5]],
        &[&[5], &[5], &[5, 0, 1], &[2, 3, 4]],
    ];
    for custody in cases {
        let columns = kept_columns(custody);
        let (mut least, mut total, mut orders) = (f64::INFINITY, 0.0, 0);
        permute(&mut columns.clone(), &mut Vec::new(), &mut |order| {
            let mean = last_positions(custody, order);
            least = least.min(mean);
            total += mean;
            orders += 1;
        });
        let expected = custody
            .iter()
            .map(|own| expected_last_position(own.len() as u32, columns.len() as u32))
            .sum::<f64>();
        assert!((total / f64::from(orders) - expected / custody.len() as f64).abs() < 1e-9);
        assert!(least_mean_position(custody, &columns) <= least + 1e-9, "{custody:?}: {least}");
    }
}

#[test]
fn deviation_matches_the_formula_and_equal_nodes_do_not_average_out() {
    let mut rng = NodeRng::new(1, 0, Purpose::Topology);
    let columns: Vec<u32> = (0..128).collect();
    let drawn: Vec<Vec<u32>> = (0..400)
        .map(|_| {
            let mut all = columns.clone();
            rng.shuffle(&mut all);
            all.truncate(16);
            all
        })
        .collect();
    let custody: Vec<&[u32]> = drawn.iter().map(Vec::as_slice).collect();
    // One node: c (C - c) (C + 1) / ((c + 1)^2 (c + 2)).
    let one = (16.0 * 112.0 * 129.0 / (17.0f64.powi(2) * 18.0)).sqrt();
    let found = deviation_of_mean_position(&custody, &columns);
    assert!((0.6..1.5).contains(&(found / (one / 20.0))), "{found}");
    let same = vec![custody[0]; 400];
    let all: Vec<&[u32]> = same.into_iter().chain([columns.as_slice()]).collect();
    assert!(deviation_of_mean_position(&all, &columns) > 0.6 * one);
}

#[test]
fn descendants_of_a_copy_double_without_latency() {
    let model = Model { latency: 0, relay_delay: 0, serialisation: 1 };
    assert_eq!(model.tree(9), [0, 1, 2, 2, 3, 3, 3, 3, 4]);
    // With a latency of two units, 1, 1, 1, 2, 3, 4, 6 ... nodes have it: the sequence of Bar-Noy
    // and Kipnis.
    let model = Model { latency: 2, relay_delay: 0, serialisation: 1 };
    assert_eq!(model.tree(7), [2, 5, 6, 7, 8, 8, 9]);
}

#[test]
fn integrals_agree_with_counting() {
    let model = Model { latency: 5, relay_delay: 1, serialisation: 2 };
    let tree = Tree::new(&model, 40);
    for time in 0..60 {
        let counted: usize = (0..time).map(|at| tree.reached(f64::from(at))).sum();
        assert!((tree.held(f64::from(time)) - counted as f64).abs() < 1e-9);
    }
}

#[test]
fn paths_are_the_sums_of_the_best_links_in_their_direction() {
    // 0 -> 1 -> 2 takes 3 and 4, the direct link 0 -> 2 takes 9, and back 2 -> 0 takes 1. Nothing leads
    // to 3.
    let links = vec![vec![(1, 3.0), (2, 9.0)], vec![(2, 4.0), (0, 3.0)], vec![(0, 1.0)], vec![(0, 1.0)]];
    assert_eq!(paths(&links, 0), [0.0, 3.0, 7.0, f64::INFINITY]);
    assert_eq!(paths(&links, 2), [1.0, 4.0, 0.0, f64::INFINITY]);
    assert_eq!(paths(&links, 3), [1.0, 4.0, 8.0, 0.0]);
}
