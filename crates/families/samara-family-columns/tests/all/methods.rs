//! Methods beside batches: fewer needed columns, repair, rows, other protocols and transports.

use samara_family_columns::ColumnsData;
use samara_lab::results::Outcome;

use crate::{loaded, outcomes};

/// Sixty nodes and 32 columns of 16 KiB, so that a run takes a tenth of a second.
const SMALL: &[(&str, &str)] = &[
    ("network.nodes", "60"),
    ("network.topology.degree", "20"),
    ("columns.count", "32"),
    ("columns.custody", "6"),
    ("columns.blobs", "2"),
    ("columns.warm_up", "3 s"),
    ("columns.deadline", "20 s"),
];

fn results(set: &[(&str, &str)], only: &[&str], threads: usize) -> Vec<Outcome<ColumnsData>> {
    outcomes(&loaded("peerdas-methods", &[SMALL, set].concat(), only, Some(1)), threads)
}

fn mean(outcome: &Outcome<ColumnsData>) -> f64 {
    outcome.metrics.time_to_custody_ms.map_or(f64::NAN, |times| times.mean)
}

#[test]
fn steps_of_custody_follow_from_the_deliveries() {
    let outcome = &results(&[], &["batch"], 1)[0];
    let time = |delivery: &samara_family_columns::measure::Delivery| {
        (delivery.at - outcome.published[0]) as f64 / 1e6
    };
    let hosts: Vec<Vec<f64>> = outcome
        .deliveries
        .chunk_by(|a, b| a.host == b.host)
        .map(|own| {
            let mut times: Vec<f64> = own.iter().map(time).collect();
            times.sort_by(f64::total_cmp);
            times
        })
        .collect();
    assert_eq!(hosts.len(), 59);
    let spreads: Vec<f64> = (0..6)
        .map(|step| {
            let at = hosts.iter().map(|times| times[step]);
            at.clone().fold(0.0, f64::max) - at.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let metrics = &outcome.metrics;
    for (step, spread) in (1..).zip(&spreads) {
        assert!((metrics.custody_spread_ms[&format!("k{step}")] - spread).abs() < 1e-6, "{step}");
        assert!(metrics.custody_spread_p1_p99_ms[&format!("k{step}")] <= *spread);
    }
    let most = spreads[..5].iter().copied().fold(0.0, f64::max);
    assert!((metrics.custody_spread_ms["before_last"] - most).abs() < 1e-6);
    let last_but_one = hosts.iter().map(|times| times[4]).fold(0.0, f64::max);
    assert_eq!(metrics.custody_tail_ms.all_but_1.unwrap().max, last_but_one);
    assert_eq!(metrics.custody_tail_ms.all, metrics.time_to_custody_ms);
}

#[test]
fn node_that_needs_fewer_columns_is_done_when_it_has_them() {
    let all = &results(&[], &["batch"], 1)[0];
    let few = &results(&[("columns.custody_needed", "5")], &["batch"], 1)[0];
    assert_eq!(all.run.digest, few.run.digest, "the same run");
    assert_eq!(few.metrics.time_to_custody_ms, all.metrics.custody_tail_ms.all_but_1);
    assert!(few.metrics.lower_bound_ms < mean(few) && few.metrics.lower_bound_ms > 50.0);
}

/// A sixth of the nodes keeps all columns. The publisher sends column by column, so that
/// they rebuild the second half long before it leaves.
#[test]
fn repair_spreads_columns_that_have_not_left_the_publisher() {
    let set = [("columns.repair.nodes", "17 %"), ("columns.repair.time_per_blob", "10 ms")];
    let repaired = &results(&set, &["sequential"], 1)[0];
    let alone = &results(&[&set[..], &[("columns.repair.publish", "false")]].concat(), &["sequential"], 1)[0];
    let counts = [repaired, alone].map(|outcome| outcome.metrics.repair.unwrap());
    assert!(counts.iter().all(|repair| repair.blocks == 10), "{counts:?}");
    assert!(counts.iter().all(|repair| repair.columns > 10 && repair.columns <= 160), "{counts:?}");
    assert_eq!((counts[0].published, counts[1].published), (counts[0].columns, 0));
    assert!(mean(repaired) < 0.95 * mean(alone), "{} against {}", mean(repaired), mean(alone));
    for outcome in [repaired, alone] {
        let metrics = &outcome.metrics;
        assert_eq!((metrics.deliveries.delivery_ratio, metrics.incomplete), (1.0, 0));
        assert!(metrics.lower_bound_ms < mean(outcome));
    }
}

#[test]
fn repair_takes_its_processing_time() {
    let spread = |time: &'static str| {
        let set = [("columns.repair.nodes", "17 %"), ("columns.repair.time_per_blob", time)];
        let outcome = results(&set, &["sequential"], 1).remove(0);
        let at = |delivery: &samara_family_columns::measure::Delivery| delivery.from == delivery.host;
        outcome.deliveries.iter().filter(|delivery| at(delivery)).map(|delivery| delivery.at).min()
    };
    // The same first block is rebuilt later by the time of its two blobs.
    let (fast, slow) = (spread("10 ms").unwrap(), spread("25 ms").unwrap());
    assert_eq!(slow - fast, 30_000_000);
}

#[test]
fn rows_travel_beside_columns() {
    let set = [("columns.rows", "4"), ("columns.row_custody", "1")];
    let outcome = &results(&set, &["batch"], 1)[0];
    let metrics = &outcome.metrics;
    assert_eq!((metrics.deliveries.delivery_ratio, metrics.incomplete), (1.0, 0));
    let rows = outcome.deliveries.iter().filter(|delivery| delivery.segment >= 32);
    assert_eq!(rows.count(), 59, "each node keeps a row");
    assert_eq!(outcome.deliveries.len(), 59 * 7);
    // The matrix is extended to four rows of 256 KiB, so columns have 32 KiB.
    let kept = (6.0 * 32_768.0 + 262_144.0) / 1e6;
    let rate = metrics.throughput_mb_per_s.unwrap() * mean(outcome) / 1e3;
    assert!(rate >= kept * 0.999 && rate < kept * 1.5, "{rate} MB against {kept}");
    let shares = metrics.shares.payload_share + metrics.shares.duplicate_share + metrics.shares.control_share;
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

#[test]
fn strided_custody_has_equal_distances() {
    let loaded = loaded("peerdas-methods", SMALL, &["strided"], None);
    let scenario = &loaded.points[0].scenario;
    let (count, kept) = samara_lab::network::custody(scenario, &Default::default(), 1).unwrap();
    assert_eq!((count, kept[0].len()), (32, 32));
    assert_eq!(kept[1], [1, 6, 11, 17, 22, 27]);
    assert_eq!(kept[31], [4, 9, 15, 20, 25, 31]);
}

#[test]
fn batches_are_faster_over_every_protocol_and_transport() {
    for method in ["floodsub", "plumtree", "datagram", "flood"] {
        let runs = [format!("{method}-sequential"), format!("{method}-batch")];
        let results = results(&[], &[runs[0].as_str(), runs[1].as_str()], 2);
        assert!(
            mean(&results[0]) > 1.15 * mean(&results[1]),
            "{method}: {} and {}",
            mean(&results[0]),
            mean(&results[1])
        );
        for outcome in &results {
            let metrics = &outcome.metrics;
            let name = &outcome.run.name;
            assert_eq!(metrics.queue_drops, 0, "{name}");
            assert!(metrics.mesh_size > 1.0, "{name}");
            if method == "datagram" {
                assert_eq!(metrics.losses.retransmissions, 0, "{name}");
                assert!(
                    metrics.deliveries.delivery_ratio > 0.97,
                    "{name}: {}",
                    metrics.deliveries.delivery_ratio
                );
            } else {
                assert_eq!((metrics.deliveries.delivery_ratio, metrics.frames_lost), (1.0, 0), "{name}");
            }
        }
    }
}

#[test]
fn lost_datagrams_lose_frames_that_gossip_repairs() {
    let set = [("network.loss", "1 %")];
    let outcome = &results(&set, &["datagram-batch"], 1)[0];
    let metrics = &outcome.metrics;
    assert!(
        metrics.frames_lost > 20 && metrics.losses.packet_drops.random > metrics.frames_lost / 2,
        "{metrics:?}"
    );
    assert_eq!(metrics.losses.retransmissions, 0);
    // A copy of 12 fragments is lost with a probability of 11 %; further copies and IWANT make up
    // for it.
    assert!(metrics.deliveries.delivery_ratio > 0.99, "{}", metrics.deliveries.delivery_ratio);
}

#[test]
fn methods_have_the_same_results_on_any_number_of_threads() {
    let runs = ["repair-sequential", "floodsub-batch", "plumtree-batch", "datagram-batch"];
    let digests = |threads| {
        results(&[], &runs, threads).iter().map(|outcome| outcome.run.digest.clone()).collect::<Vec<_>>()
    };
    assert_eq!(digests(1), digests(3));
}
