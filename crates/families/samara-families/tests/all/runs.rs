//! Small runs: properties that hold for every schedule.

use samara_document::Inputs;
use samara_family_columns::ColumnsData;
use samara_lab::results::{Measured, Outcome};
use samara_lab::run::{RunOptions, run, run_distributed};
use samara_scenario::Loaded;
use samara_sim::Threads;

use crate::{builtin, loaded, outcomes};

fn results(
    scenario: &str,
    set: &[(&str, &str)],
    only: &[&str],
    seed: u64,
    threads: usize,
) -> Vec<Outcome<ColumnsData>> {
    outcomes(&loaded(scenario, set, only, Some(seed)), threads)
}

/// A hundred nodes and 32 columns, so that each run takes a few hundred milliseconds.
const SMALL: &[(&str, &str)] = &[
    ("network.nodes", "100"),
    ("network.topology.degree", "30"),
    ("columns.count", "32"),
    ("columns.custody", "8"),
    ("columns.blobs", "2"),
    ("columns.warm_up", "6 s"),
];

/// Asserts that no node completes a slot before the bound of its place.
fn assert_not_below_the_curve(result: &Outcome<ColumnsData>, name: &str) {
    assert!(!result.bounds_ms.is_empty(), "{name}");
    for slot in &result.custody_ms {
        let mut times: Vec<f64> = slot.iter().map(|(_, time)| time.unwrap_or(f64::INFINITY)).collect();
        times.sort_unstable_by(f64::total_cmp);
        assert_eq!(times.len(), result.bounds_ms.len(), "{name}");
        for (place, (time, bound)) in times.iter().zip(&result.bounds_ms).enumerate() {
            assert!(time * (1.0 + 1e-6) >= *bound, "{name}: node {place} after {time} ms, bound {bound} ms");
        }
    }
    let metrics = &result.metrics;
    let bound = metrics.custody_bound_ms.expect("a curve");
    assert!(bound.mean >= metrics.lower_bound_ms - 1e-9 && bound.p50 <= bound.p99 && bound.p99 <= bound.last);
    for over in [metrics.p50_over_bound, metrics.p99_over_bound, metrics.last_over_bound] {
        assert!(over.is_none_or(|over| over >= 1.0), "{name}: {over:?}");
    }
}

#[test]
fn schedules_deliver_everything_and_none_beats_the_bound() {
    for seed in [1, 2] {
        for result in results("peerdas", SMALL, &[], seed, 2) {
            let metrics = &result.metrics;
            let name = format!("{} with seed {seed}", result.run.name);
            assert_eq!((metrics.deliveries.delivery_ratio, metrics.incomplete), (1.0, 0), "{name}");
            let custody = metrics.time_to_custody_ms.unwrap();
            assert!(
                metrics.lower_bound_ms > 0.0 && metrics.lower_bound_ms < custody.mean,
                "{name}: {metrics:?}"
            );
            assert_not_below_the_curve(&result, &name);
            assert!(metrics.deliveries.duplication_factor >= 1.0, "{name}");
            let shares =
                metrics.shares.payload_share + metrics.shares.duplicate_share + metrics.shares.control_share;
            assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
            assert!(metrics.last_delivery_hop >= 1 && metrics.last_delivery_hop < 12, "{name}");
            assert!(
                custody.p50 <= custody.p95 && custody.p95 <= custody.p99 && custody.p99 <= custody.max,
                "{name}"
            );
            assert_eq!(metrics.queue_drops, 0, "{name}");
            // All nodes have equally many columns, so the mean of the rates follows from the
            // harmonic mean of the times.
            let rate = metrics.throughput_mb_per_s.unwrap() * custody.mean / 1e3;
            let kept = 8.0 * 16_384.0 / 1e6;
            assert!(rate >= kept * 0.999 && rate < kept * 1.5, "{name}: {rate} MB against {kept}");
            let gap = metrics.longest_gap_ms.unwrap();
            assert!(gap > 0.0 && gap < custody.max, "{name}: {gap}");
        }
    }
}

#[test]
fn bound_is_independent_of_the_deadline() {
    let metrics = |deadline: &str| {
        let set = [SMALL, &[("columns.deadline", deadline)]].concat();
        results("peerdas", &set, &["batch"], 1, 2).remove(0).metrics.clone()
    };
    let all = metrics("60 s");
    let custody = all.time_to_custody_ms.unwrap();
    assert_eq!((all.incomplete, all.share_of_bound), (0, Some(all.lower_bound_ms / custody.mean)));
    let none = metrics("30 ms");
    assert_eq!((none.incomplete, none.time_to_custody_ms, none.share_of_bound), (99, None, None));
    let half = metrics(&format!("{:.0} ms", custody.p50));
    assert!((30..70).contains(&half.incomplete), "{half:?}");
    assert!(half.time_to_custody_ms.unwrap().mean < custody.mean);
    assert_eq!(half.share_of_bound, None, "the mean of the fast nodes does not compare with a bound for all");
    assert_eq!([none.lower_bound_ms, half.lower_bound_ms], [all.lower_bound_ms; 2]);
}

#[test]
fn schedules_do_not_beat_the_bound_in_small_networks() {
    let schedules = ["sequential", "batch", "balanced", "feedback", "node-wide", "node-wide-warm"];
    for (nodes, degree) in [("2", "1"), ("4", "3"), ("10", "9"), ("20", "12"), ("40", "20")] {
        for seed in 1..=2 {
            let set = [
                ("network.nodes", nodes),
                ("network.topology.degree", degree),
                ("network.topology.topic_peers_min", "0"),
                ("columns.warm_up", "3 s"),
            ];
            for result in results("peerdas", &set, &schedules, seed, 1) {
                let metrics = &result.metrics;
                let name = format!("{} with {nodes} nodes and seed {seed}", result.run.name);
                let mean = metrics.time_to_custody_ms.unwrap().mean;
                let bound = metrics.lower_bound_ms;
                // If a column has no path to a node, the mean excludes that node but the bound
                // includes it.
                let is_near = (0.2 * mean..mean).contains(&bound);
                assert!(metrics.incomplete > 0 || is_near, "{name}: {bound} ms, reached {mean} ms");
                assert_not_below_the_curve(&result, &name);
            }
        }
    }
}

const WITHHOLDING: &str = r#"[{ kind = "withhold", at = "0 s", share = "30 %" }]"#;

/// Nodes that send nothing cannot join a mesh, and receive nothing.
#[test]
fn only_the_figures_of_honest_nodes_count() {
    let result =
        results("peerdas", &[SMALL, &[("fault", WITHHOLDING)]].concat(), &["node-wide"], 1, 1).remove(0);
    assert_eq!(result.custody_ms[0].len(), 100 - 1 - 30, "all but the publisher and the hostile nodes");
    assert!(result.metrics.incomplete < 10, "{} incomplete", result.metrics.incomplete);
    assert!(result.metrics.deliveries.delivery_ratio > 0.95, "{}", result.metrics.deliveries.delivery_ratio);
}

/// In networks with regions, classes of hosts, faults, FQ-CoDel and QUIC, with and without a code.
#[test]
fn nothing_completes_below_the_curve() {
    let fair = "{ kind = \"fq-codel\", buckets = 16 }";
    let classes = "[{ name = \"fast\", share = \"30 %\", uplink = \"200 Mbit/s\", downlink = \"200 Mbit/s\" }, \
                   { name = \"slow\", share = \"30 %\", uplink = \"5 Mbit/s\", downlink = \"10 Mbit/s\" }]";
    let regions = "{ names = [\"a\", \"b\"], weights = [2, 1], pair_factor = [0.5, 1.5], \
                   latency = [[\"4 ms\", \"70 ms\"], [\"70 ms\", \"8 ms\"]] }";
    let fault = "[{ at = \"6 s\", kind = \"slow\", share = \"20 %\", factor = 0.1 }]";
    let study: [(&str, &str); 5] = [
        ("network.uplink_queue", fair),
        ("network.downlink_queue", fair),
        ("transport.kind", "quic"),
        ("transport.stack", "quic-go"),
        ("transport.ip_headers", "false"),
    ];
    let whole: [(&str, &str); 1] = [("columns.custody", "32")];
    let needed: [(&str, &str); 1] = [("columns.custody_needed", "4")];
    let of_network: [(&str, &str); 2] = [("network.class", classes), ("network.regions", regions)];
    let slow: [(&str, &str); 1] = [("fault", fault)];
    let withholding: [(&str, &str); 1] = [("fault", WITHHOLDING)];
    let pieces = "{ size = \"12 kB\" }";
    let coded = "{ size = \"12 kB\", parity = 16, parity_size = \"16 kB\" }";
    let [pieces, coded] = [pieces, coded].map(|pieces| [("columns.pieces", pieces)]);
    for (name, more) in [
        ("pieces", [&study[..], &of_network, &pieces].concat()),
        ("coded pieces", [&study[..], &of_network, &coded].concat()),
        ("classes and regions", of_network.to_vec()),
        ("study", study.to_vec()),
        ("study with classes", [&study[..], &of_network].concat()),
        ("all columns", [&study[..], &of_network, &whole].concat()),
        ("some columns", [&study[..], &of_network, &needed].concat()),
        ("slow hosts", [&of_network[..], &slow].concat()),
        ("hostile hosts", [&of_network[..], &withholding].concat()),
    ] {
        for result in results("peerdas", &[SMALL, &more].concat(), &["sequential", "node-wide"], 2, 2) {
            assert_not_below_the_curve(&result, &format!("{name}, {}", result.run.name));
            let metrics = &result.metrics;
            let mean = metrics.time_to_custody_ms.unwrap().mean;
            assert!(metrics.lower_bound_ms <= mean || metrics.incomplete > 0, "{name}: {mean} ms");
        }
    }
}

#[test]
fn first_copies_first_is_faster_and_withdrawal_saves_copies() {
    let results = results("peerdas", SMALL, &["sequential", "batch", "node-wide"], 1, 2);
    let mean = |i: usize| results[i].metrics.time_to_custody_ms.unwrap().mean;
    let copies = |i: usize| results[i].metrics.deliveries.duplication_factor;
    assert!(mean(0) > 1.5 * mean(1), "sequential {} against batch {}", mean(0), mean(1));
    assert!(mean(1) > 1.1 * mean(2), "batch {} against one order {}", mean(1), mean(2));
    assert!(copies(2) < copies(0));
    assert!(results[2].metrics.withdrawn_copies > 0);
    assert_eq!(results[0].metrics.withdrawn_copies, 0, "no withdrawals while they are disabled");
}

#[test]
fn quic_delivers_everything_and_is_not_slower_under_loss() {
    let custody = |more: &[(&str, &str)]| {
        let set = [SMALL, &[("network.loss", "1 %")], more].concat();
        let results = results("peerdas", &set, &["batch", "node-wide"], 1, 2);
        for result in &results {
            let metrics = &result.metrics;
            assert_eq!(
                (metrics.deliveries.delivery_ratio, metrics.incomplete),
                (1.0, 0),
                "{}",
                result.run.name
            );
            assert!(
                metrics.time_to_custody_ms.unwrap().mean >= metrics.lower_bound_ms,
                "{}",
                result.run.name
            );
            assert!(metrics.losses.retransmissions > 100, "{}", result.run.name);
        }
        results.iter().map(|result| result.metrics.time_to_custody_ms.unwrap().mean).sum::<f64>()
    };
    let tcp = custody(&[]);
    let single = custody(&[("transport.kind", "quic")]);
    let per_frame = custody(&[("transport.kind", "quic"), ("transport.streams", "per-frame")]);
    // The gain of a few frames that need not wait is smaller than the random variation of meshes.
    assert!(per_frame < 1.05 * tcp && single < 1.05 * tcp, "{per_frame} {single} {tcp}");
    assert!(per_frame.to_bits() != single.to_bits(), "the order of frames changes the result");
}

#[test]
fn runs_are_deterministic_on_any_number_of_threads() {
    let digest = |threads| {
        let results = results("peerdas-mixed", SMALL, &["node-wide"], 5, threads);
        (results[0].run.digest.clone(), serde_json::to_string(&results[0].metrics).unwrap())
    };
    let one = digest(1);
    assert_eq!(one, digest(1));
    assert_eq!(one, digest(2));
    assert_eq!(one, digest(5));
}

#[test]
fn small_queues_drop_copies_and_count_them() {
    let set: Vec<(&str, &str)> =
        SMALL.iter().copied().chain([("protocol.queue", "2"), ("transport.initial_window", "2")]).collect();
    let results = results("peerdas", &set, &["batch"], 1, 1);
    assert!(results[0].metrics.queue_drops > 0, "{:?}", results[0].metrics);
}

#[test]
fn faults_are_survived_or_counted() {
    let fault = |fault: &str| -> Vec<Outcome<ColumnsData>> {
        let text = builtin("peerdas").unwrap().text.replace("[expect]", &format!("{fault}\n[expect]"));
        let path =
            std::env::temp_dir().join(format!("samara-fault-{}-{}.toml", std::process::id(), fault.len()));
        std::fs::write(&path, text).unwrap();
        let results = results(path.to_str().unwrap(), SMALL, &["batch"], 1, 2);
        std::fs::remove_file(&path).unwrap();
        results
    };
    // A tenth of the nodes is gone for good and misses its columns; all others receive theirs.
    let crashed = fault("[[fault]]\nkind = \"crash\"\nat = \"5 s\"\nshare = \"10 %\"\n");
    assert_eq!(crashed[0].metrics.incomplete, 10);
    // Slow nodes are late but complete.
    let slow = fault("[[fault]]\nkind = \"slow\"\nat = \"5 s\"\nshare = \"10 %\"\nfactor = 0.05\n");
    assert_eq!(slow[0].metrics.incomplete, 0);
    // Nodes that a partition separates during the publication fetch the block by gossip afterwards.
    let split = fault("[[fault]]\nkind = \"partition\"\nat = \"5.9 s\"\nuntil = \"8 s\"\nshare = \"20 %\"\n");
    assert_eq!(split[0].metrics.incomplete, 0, "{:?}", split[0].metrics);
    assert!(split[0].metrics.losses.packet_drops.partition > 0);
}

#[test]
fn validation_takes_time_one_message_at_a_time() {
    let with = |time: &str| {
        let set: Vec<(&str, &str)> =
            SMALL.iter().copied().chain([("network.validation_time", time)]).collect();
        results("peerdas", &set, &["batch"], 1, 2)[0].metrics.time_to_custody_ms.unwrap().mean
    };
    // Custody counts on arrival, so only forwarding waits for the processor.
    let (free, slow) = (with("0 ms"), with("20 ms"));
    assert!(slow > free + 20.0, "{free} ms without, {slow} ms with validation");
}

#[test]
fn reference_runs_match_the_publication() {
    use samara_lab::reference::reference_runs;
    use samara_lab::statistics::Statistics;
    let mean = |name: &str| {
        let runs = reference_runs(name, &Inputs::default()).unwrap();
        Statistics::of(&runs[0].custody_ms).unwrap().mean
    };
    assert!((mean("builtin:reference/arrivals_n100_bw20_seq_s1.csv") - 5005.0).abs() < 1.0);
    assert!((mean("builtin:reference/arrivals_n100_bw20_batch_s3.csv") - 2527.0).abs() < 1.0);
}

#[test]
fn published_figures_are_compared_with_runs_of_their_seeds() {
    let compared = |seeds: &str| {
        let mut loaded = loaded("peerdas-small", &[("scenario.seeds", seeds)], &["batch"], None);
        let figure =
            "run = 'batch'\nmetric = 'time_to_custody_ms.mean'\nvalue = 1.0\nsource = 'S'\nseeds = [2, 4]";
        loaded.scenario.published = vec![toml::from_str(figure).unwrap()];
        let options = RunOptions::new(1, &loaded.inputs);
        let outcome = |point| run(point, options, |_, _| {}).unwrap().outcome();
        let results: Vec<Outcome> = loaded.points.iter().map(outcome).collect();
        samara_lab::reference::published(&loaded, &results).remove(0).ours
    };
    let second = compared("[2]");
    assert_eq!(compared("[1, 2, 3]"), second);
    // Without any of them, all seeds count.
    let others = compared("[1, 3]");
    assert!(others.seeds == 2 && others.mean != second.mean, "{others:?}");
}

/// Asserts that several processes measure the same as one.
fn assert_divisible(loaded: &Loaded) {
    let options = RunOptions::new(1, &loaded.inputs);
    for point in &loaded.points {
        let metrics = |measured: &dyn Measured| {
            let result = measured.outcome();
            (result.run.digest, result.run.steps, result.run.metrics)
        };
        let alone = metrics(&*run(point, options, |_, _| {}).unwrap());
        for count in [1, 2, 4] {
            let one = |mut ranks: Threads| run_distributed(point, options, &mut ranks, |_| {}).unwrap();
            let mut all: Vec<Option<Box<dyn Measured>>> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    Threads::new(count).into_iter().map(|ranks| scope.spawn(|| one(ranks))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let others = all.split_off(1);
            assert!(others.iter().all(Option::is_none));
            let first = metrics(all[0].as_deref().unwrap());
            assert_eq!(first, alone, "{} {}, {count} processes", loaded.source, point.name());
        }
    }
}

#[test]
fn several_processes_measure_the_same_as_one() {
    let of = |name, set: &[(&str, &str)], only: &[&str]| assert_divisible(&loaded(name, set, only, Some(3)));
    let nodes = ("network.nodes", "40");
    of("peerdas-small", &[nodes], &[]);
    let set = [SMALL, &[nodes, ("network.topology.degree", "10")]].concat();
    of("peerdas-methods", &set, &["floodsub-batch", "plumtree-batch"]);
    let set = [("messages.rate", "20"), ("messages.warm_up", "3 s"), ("messages.duration", "2 s")];
    of("gossip-baselines", &set, &["gossipsub", "randomsub", "plumtree"]);
    of("ring", &[("group.messages", "50")], &["ring-total", "daisychain"]);
    of(
        "ring-churn",
        &[("group.duration", "1 s"), ("sweep.axis.0.values", "[[1]]")],
        &["crash", "restart", "leave"],
    );
}

#[test]
fn pools_without_channels_run_in_several_processes() {
    let text = "[scenario]\nname = \"x\"\nseeds = [3]\n[network]\nnodes = 20\ntopology = { degree = 6 }\n\
                [pool]\nrate = 10.0\nwarm_up = \"1 s\"\nduration = \"4 s\"\ncool_down = \"5 s\"\n\
                block_interval = \"2 s\"\n[protocol]\nkind = \"cat\"\n\
                [[fault]]\nkind = \"crash\"\nat = \"2 s\"\nuntil = \"3 s\"\nshare = \"10 %\"\n";
    assert_divisible(&crate::load_source("x", text, Inputs::default(), &Default::default()).unwrap());
}

#[test]
fn connections_of_grpc_run_in_one_process() {
    let loaded = loaded("mix", &[], &["equal"], None);
    let options = RunOptions::new(1, &loaded.inputs);
    let one = |mut ranks: Threads| run_distributed(&loaded.points[0], options, &mut ranks, |_| {}).err();
    let errors: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = Threads::new(2).into_iter().map(|ranks| scope.spawn(|| one(ranks))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for error in errors {
        let error = error.expect("an error").to_string();
        assert!(error.contains("HTTP/2, cannot be simulated in several processes"), "{error}");
    }
}

#[test]
fn limit_over_all_links_gives_one_order_its_gain_behind_a_router() {
    for (queue, kind) in [("{ kind = \"fifo\", time = \"1 s\" }", "tcp"), ("{ kind = \"fair\" }", "quic")] {
        let outcome = |limit, threads| {
            let set = [
                ("network.nodes", "150"),
                ("network.topology.degree", "70"),
                ("network.uplink_queue", queue),
                ("transport.kind", kind),
                ("transport.node_limit", limit),
            ];
            outcomes::<ColumnsData>(&loaded("peerdas", &set, &["node-wide"], Some(1)), threads).remove(0)
        };
        let (with, without) = (outcome("true", 1), outcome("false", 1));
        let mean = |outcome: &Outcome<ColumnsData>| outcome.metrics.time_to_custody_ms.unwrap().mean;
        let copies = |outcome: &Outcome<ColumnsData>| outcome.metrics.deliveries.duplication_factor;
        assert_eq!(with.metrics.incomplete, 0);
        assert!(mean(&with) < 0.9 * mean(&without), "{kind}: {} {}", mean(&with), mean(&without));
        assert!(copies(&with) < copies(&without), "{kind}: {} {}", copies(&with), copies(&without));
        assert_eq!(with.run.digest, outcome("true", 3).run.digest);
    }
}

#[test]
fn a_queue_in_the_own_interface_is_the_default() {
    let digest = |set: &[(&str, &str)]| {
        let set = [&[("network.nodes", "150")], set].concat();
        outcomes::<ColumnsData>(&loaded("peerdas", &set, &["node-wide"], Some(1)), 1).remove(0).run.digest
    };
    assert_eq!(digest(&[("network.uplink_queue", "{ kind = \"host\" }")]), digest(&[]));
    assert_ne!(digest(&[("network.uplink_queue", "{ kind = \"fair\" }")]), digest(&[]));
}
