//! Transactions and their pools: from the scenario to the figures.

use samara_family_pool::PoolData;
use samara_lab::results::Outcome;
use samara_scenario::builtin;

use crate::{loaded, outcomes};

fn results(scenario: &str, set: &[(&str, &str)], only: &[&str], threads: usize) -> Vec<Outcome<PoolData>> {
    outcomes(&loaded(scenario, set, only, None), threads)
}

/// About a tenth of the ADR's experiment in size and time: 110 clients and two blocks.
const SMALL: [(&str, &str); 3] = [("pool.clients", "110"), ("pool.spread", "3 s"), ("pool.duration", "20 s")];

fn p50(result: &Outcome<PoolData>) -> f64 {
    result.metrics.delivery_latency_ms.unwrap().p50
}

#[test]
fn small_version_of_the_adr_experiment() {
    let results = results("cat", &SMALL, &["flood-fifo", "cat-2023", "cat-2026", "cat"], 1);
    let [flood, old, pull, ours] = &results[..] else { panic!("four runs") };
    for result in &results {
        let (name, metrics) = (&result.run.name, &result.metrics);
        assert_eq!(metrics.transactions, 220, "{name}: every client twice");
        assert_eq!((metrics.incomplete, metrics.delivered_share), (0, 1.0), "{name}");
        assert_eq!((metrics.losses.retransmissions, metrics.queue_drops), (0, 0), "{name}");
        assert!(metrics.misbehaviour.is_empty(), "{name}: {:?}", metrics.misbehaviour);
    }
    let copies = |result: &Outcome<PoolData>| result.metrics.duplication_factor;
    let most = flood.metrics.flood_most;
    assert!(copies(flood) > 0.97 * most && copies(flood) <= most, "{} of {most}", copies(flood));
    assert!((1.3..2.6).contains(&copies(old)), "{}", copies(old));
    assert!((ours.metrics.ideal..=1.02).contains(&copies(ours)), "{}", copies(ours));
    assert!((copies(pull) - 0.99).abs() < 0.01, "{}", copies(pull));
    assert_eq!(ours.metrics.early_timeouts, 0);
    assert!(p50(ours) <= p50(old) / 2.0, "{} and {}", p50(ours), p50(old));
    // It goes by the bodies of flooding, so that flooding itself has its framing and headers on top.
    let shares = [flood, old, ours].map(|result| result.metrics.wire_over_flooding.unwrap());
    assert!((0.97..1.2).contains(&shares[0]) && shares[1] < 0.2 && shares[2] < shares[1], "{shares:?}");
    let saved = old.metrics.bytes_saved_factor.unwrap();
    assert!((7.5..12.5).contains(&saved) && flood.metrics.bytes_saved_factor == Some(1.0), "{saved}");
}

/// Applications that need the order lose nothing with pools that keep it, and refuse what overtakes an
/// earlier transaction with others.
#[test]
fn pools_keep_the_order_of_signers() {
    let set = [
        ("pool.duration", "10 s"),
        ("scenario.seeds", "[1]"),
        ("sweep.axis.0.values", "[\"50 ms\"]"),
        ("sweep.axis.1.values", "[\"100 ms\"]"),
    ];
    let results = results("cat-order", &set, &["cat-merged", "cat-2025", "cat-2026", "cat"], 1);
    let [merged, kept @ ..] = &results[..] else { panic!("four runs") };
    assert!(merged.metrics.out_of_order > 100, "{}", merged.metrics.out_of_order);
    assert!(merged.metrics.failed_txs >= merged.metrics.out_of_order);
    for result in kept {
        let (name, metrics) = (&result.run.name, &result.metrics);
        assert_eq!((metrics.out_of_order, metrics.incomplete), (0, 0), "{name}");
        assert_eq!((metrics.failed_txs, metrics.transactions), (0, 300), "{name}");
        assert!(metrics.duplication_factor < 0.96, "{name}: {}", metrics.duplication_factor);
    }
}

#[test]
fn results_add_up() {
    for result in results("cat", &SMALL, &["cat-2023", "cat"], 1) {
        let metrics = &result.metrics;
        let bytes = &metrics.bytes;
        let parts = bytes.bodies
            + bytes.duplicates
            + bytes.announcements
            + bytes.requests
            + bytes.blocks
            + bytes.framing
            + bytes.sealing
            + bytes.headers;
        assert!((parts - bytes.total).abs() < 1e-6 && bytes.headers > 0.0, "{bytes:?}");
        let total = metrics.node_bytes.bytes_down_per_node / metrics.transactions as f64;
        assert!((total - bytes.total).abs() < 1e-6, "{total}");
        // Connections carry only the received bytes; they do not count pings.
        let carried = parts - bytes.sealing - bytes.headers;
        assert!((carried - metrics.connection_bytes).abs() < 0.01 * carried, "{carried}");
        let committed = result.transactions.iter().filter(|row| row.is_committed()).count();
        assert_eq!(committed as u64, metrics.transactions);
        let in_blocks: u32 = result.blocks.iter().map(|block| block.txs).sum();
        assert_eq!(u64::from(in_blocks), metrics.transactions);
        assert!(result.blocks.iter().all(|block| block.bytes == u64::from(block.txs) * 4_800));
        assert_eq!(metrics.successful_txs, metrics.transactions * 100);
        let asked = metrics.want_tx * metrics.transactions as f64 * 100.0;
        let requests = metrics.requested_txs + metrics.rerequested_txs;
        assert!((asked - requests as f64).abs() < 0.5);
        assert!(metrics.requested_txs < metrics.transactions * 100, "at most one first request");
        assert!(result.transactions.iter().all(|row| row.pools == 100 && row.committed > row.last_at));
    }
}

/// The spread of bandwidth over nodes: a flooding node sends and receives in proportion to its
/// links, and a node of CAT receives what any other does.
#[test]
fn bandwidth_of_nodes_spreads_as_their_links_do() {
    let set = [("pool.clients", "200"), ("pool.spread", "3 s"), ("pool.duration", "14 s")];
    let results = results("cat", &set, &["flood-fifo", "cat-2023"], 1);
    let [flood, cat] = &results[..] else { panic!("two runs") };
    let degrees: Vec<f64> = flood.degrees.iter().map(|degree| f64::from(*degree)).collect();
    let mean = degrees.iter().sum::<f64>() / 100.0;
    let squares: f64 = degrees.iter().map(|degree| (degree - mean).powi(2)).sum();
    // A link brings d - 1 copies, since a node sends none back on the link that a copy came from.
    let expected = (squares / 100.0).sqrt() / (mean - 1.0);
    let both = flood.metrics.bandwidth_mb_per_s;
    assert!((both.cv / expected - 1.0).abs() < 0.1, "{both:?}, expected {expected}");
    let received = [cat, flood].map(|result| result.metrics.received_mb_per_s.cv);
    assert!(received[0] < received[1], "{received:?}");
    let seconds = both.mean * 1e6
        / (flood.metrics.node_bytes.bytes_up_per_node + flood.metrics.node_bytes.bytes_down_per_node);
    assert!((both.sd / both.mean - both.cv).abs() < 1e-9 && both.min < both.mean && both.mean < both.max);
    let directions = flood.metrics.sent_mb_per_s.mean + flood.metrics.received_mb_per_s.mean;
    assert!((directions / both.mean - 1.0).abs() < 1e-9 && seconds > 0.0);
}

/// Blocks are full if clients submit more than they hold. Then the finalised rate is the size of a
/// block divided by the interval.
#[test]
fn finalised_bytes_are_those_of_blocks() {
    let figures = |set: &[(&str, &str)]| {
        let metrics = &results("cat", set, &["cat"], 1)[0].metrics;
        (metrics.block_fill.unwrap(), metrics.finalised_mb_per_s.unwrap())
    };
    let set = [SMALL[0], SMALL[1], ("pool.duration", "30 s")];
    let (fill, finalised) = figures(&set);
    let bytes = 110.0 * 4_800.0;
    assert!((fill - bytes / 8e6).abs() < 1e-9 && (finalised - bytes / 15e6).abs() < 1e-9, "{fill}");
    let (fill, finalised) = figures(&[set[0], set[1], set[2], ("pool.block_size", "500 kB")]);
    assert!(fill > 0.95 && (finalised - 0.5 / 15.0 * fill).abs() < 1e-9, "{fill} {finalised}");
}

#[test]
fn number_of_threads_does_not_change_results() {
    let digests = |threads| -> Vec<String> {
        let all = results("cat-mixed", &[("pool.duration", "2 s")], &["all"], threads);
        all.iter()
            .chain(&results("cat", &SMALL, &["cat"], threads))
            .map(|result| result.run.digest.clone())
            .collect()
    };
    assert_eq!(digests(1), digests(3));
}

#[test]
fn everything_arrives_among_old_pools() {
    for result in results("cat-mixed", &[("pool.duration", "3 s")], &[], 1) {
        let metrics = &result.metrics;
        assert_eq!((metrics.incomplete, metrics.delivered_share), (0, 1.0), "{}", result.run.name);
        assert!(metrics.by_block_share < 0.02, "{}: {}", result.run.name, metrics.by_block_share);
    }
}

#[test]
fn everything_arrives_where_nodes_come_and_go() {
    for result in results("cat-churn", &[("pool.duration", "5 s")], &[], 1) {
        let metrics = &result.metrics;
        if result.run.name == "cat" {
            assert_eq!((metrics.incomplete, metrics.delivered_share), (0, 1.0));
        }
        // Old pools that do not announce their transactions to new peers can lose some.
        assert!(metrics.delivered_share > 0.99, "{}: {}", result.run.name, metrics.delivered_share);
        assert!(metrics.lost_with_origin < 10, "{}: {}", result.run.name, metrics.lost_with_origin);
    }
}

#[test]
fn everything_arrives_among_hostile_peers_and_memory_is_bounded() {
    for result in results("cat-adversary", &[("network.nodes", "70"), ("pool.duration", "4 s")], &[], 1) {
        let (name, metrics) = (&result.run.name, &result.metrics);
        assert_eq!((metrics.incomplete, metrics.delivered_share), (0, 1.0), "{name}");
        assert!(metrics.keys_max <= 200_000 && metrics.requests_max < 50_000, "{name}: {metrics:?}");
        let bytes = &metrics.bytes;
        assert!(0.0 < bytes.headers && bytes.headers < bytes.total / 2.0, "{name}: {bytes:?}");
        if name == "pusher" || name == "garbage" {
            assert!(metrics.failed_txs > 0, "{name}: garbage was rejected");
        }
        if name == "announcer" {
            assert!(metrics.keys_max > 500, "{name}: announcements arrived: {}", metrics.keys_max);
        }
    }
}

#[test]
fn compact_blocks_are_nearly_always_complete() {
    let set = [SMALL[0], SMALL[1], SMALL[2], ("pool.consensus", "1 s"), ("protocol.compact_blocks", "true")];
    let result = &results("cat", &set, &["cat"], 1)[0];
    let metrics = &result.metrics;
    assert!(metrics.compact_block_hit_rate.unwrap() > 0.99, "{:?}", metrics.compact_block_hit_rate);
    let spread = metrics.compact_block_ms.unwrap();
    assert!(spread.max < 500.0 && metrics.compact_blocks_given_up == 0, "{spread:?}");
    assert!(metrics.bytes.blocks > 0.0 && metrics.delivered_share == 1.0);
}

#[test]
fn validation_delays_delivery_and_invalid_transactions_do_not_spread() {
    let slow =
        results("cat", &[SMALL[0], SMALL[1], SMALL[2], ("network.validation_time", "5 ms")], &["cat"], 1);
    let set = [SMALL[0], SMALL[1], SMALL[2], ("pool.invalid", "20 %"), ("pool.priorities", "100")];
    let invalid = &results("cat", &set, &["cat"], 1)[0];
    let fast = &results("cat", &SMALL, &["cat"], 1)[0];
    assert!(p50(&slow[0]) > p50(fast) + 5.0, "{} and {}", p50(&slow[0]), p50(fast));
    let bad: Vec<_> = invalid.transactions.iter().filter(|row| !row.valid).collect();
    assert!(bad.len() > 25 && bad.iter().all(|row| row.refused && row.pools == 0 && !row.is_committed()));
    assert_eq!((invalid.metrics.delivered_share, invalid.metrics.failed_txs), (1.0, bad.len() as u64));
}

/// A node that is down from 6.5 s on lacks the transactions of the second half, and a node that is down until
/// 7 s gets those of the first half late: both count in the times and in the share.
#[test]
fn time_to_all_nodes_has_the_share_of_transactions_that_it_covers() {
    let crash = |until: &str| format!("[{{ kind = \"crash\", at = \"6500 ms\", nodes = [7]{until} }}]");
    let of = |fault: &str| {
        let set = [
            ("network.nodes", "30"),
            ("pool.rate", "20"),
            ("pool.duration", "3 s"),
            ("pool.block_interval", "0 s"),
            ("fault", fault),
        ];
        results("cat-1000", &set, &[], 1).remove(0)
    };
    let gone = of(&crash(""));
    let in_all = gone.transactions.iter().filter(|row| row.pools == 30).count() as u64;
    assert!((20..40).contains(&in_all), "{in_all}");
    assert_eq!((gone.metrics.disseminated, gone.metrics.incomplete), (in_all, 0));
    assert!((gone.metrics.disseminated_share - in_all as f64 / 60.0).abs() < 1e-9);
    let back = of(&crash(", until = \"7 s\""));
    assert_eq!((back.metrics.disseminated, back.metrics.disseminated_share), (60, 1.0));
    let max = |result: &Outcome<PoolData>| result.metrics.dissemination_ms.unwrap().max;
    assert!(max(&back) > 500.0 && max(&gone) < 500.0, "{} and {}", max(&back), max(&gone));
}

#[test]
fn runs_without_blocks_end_when_all_pools_have_everything() {
    let text = builtin("cat-1000").unwrap().text;
    let directory = std::env::temp_dir().join(format!("samara-transactions-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("open.toml");
    std::fs::write(&path, text).unwrap();
    let set = [
        ("network.nodes", "30"),
        ("pool.rate", "20"),
        ("pool.duration", "3 s"),
        ("pool.block_interval", "0 s"),
    ];
    let result = &results(path.to_str().unwrap(), &set, &[], 1)[0];
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        (result.metrics.blocks, result.metrics.transactions, result.metrics.delivered_share),
        (0, 60, 1.0)
    );
    assert!(result.metrics.time_to_inclusion_ms.is_none());
}

/// The sequence numbers of a node that restarts are those of its application, whose state is on its disk, and
/// of the blocks that it has missed. Without them, it would wait for transactions of old blocks for ever (0.31
/// of all). It still waits for the next block, which uses the numbers that were announced while it was down.
#[test]
fn a_pool_with_sequence_numbers_goes_on_after_a_restart() {
    let set = [
        ("network.nodes", "30"),
        ("pool.duration", "22 s"),
        ("pool.block_interval", "3 s"),
        ("scenario.seeds", "[1, 2, 3]"),
    ];
    let seeds = results("cat-churn", &set, &["cat-2026"], 2);
    assert_eq!(seeds.len(), 3);
    for pull in &seeds {
        let metrics = &pull.metrics;
        assert!(metrics.misbehaviour.is_empty(), "{:?}", metrics.misbehaviour);
        assert!(metrics.by_block_share < 0.2, "{}", metrics.by_block_share);
    }
}
