//! Where the time of deliveries went, in every family that says what its frames carry.

use std::sync::atomic::AtomicBool;

use samara_document::Inputs;
use samara_lab::explain::{Explain, Explained, Mode, SavedPaths, what_if};
use samara_lab::results::{Measured, Outcome, ResultsDirectory};
use samara_lab::run::{RunOptions, run};
use samara_sim::Cause;

use crate::loaded;

/// Runs the first point of a scenario.
fn measured(scenario: &str, set: &[(&str, &str)], only: &str, mode: Mode) -> Box<dyn Measured> {
    let loaded = loaded(scenario, set, &[only], Some(1));
    let (stop, explain) = (AtomicBool::new(false), Explain::new(mode));
    let inputs = Inputs::default();
    let options = RunOptions { stop: &stop, explain: &explain, ..RunOptions::new(2, &inputs) };
    run(&loaded.points[0], options, |_, _| {}).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the first point of a scenario with and without an explanation. Returns the outcome and the
/// explanation.
fn explained(scenario: &str, set: &[(&str, &str)], only: &str) -> (Outcome, Explained) {
    let with = measured(scenario, set, only, Mode::Every(1));
    let without = measured(scenario, set, only, Mode::Off);
    assert!(without.explained().is_none());
    let explained = with.explained().unwrap_or_else(|| panic!("{scenario}: nothing is explained")).clone();
    assert_eq!(with.outcome().run.digest, without.outcome().run.digest, "{scenario} {only}");
    for row in &explained.rows {
        let parts: u64 = row.parts.iter().map(|(_, nanos)| nanos).sum();
        let hop: u64 = row.hop.iter().map(|(_, nanos)| nanos).sum();
        assert_eq!((parts, row.since_nanos + hop), (row.nanos, row.nanos), "{scenario} {only}: {row:?}");
        assert!(row.parts.iter().all(|(cause, _)| cause != Cause::Unknown), "{scenario} {only}: {row:?}");
    }
    (with.outcome(), explained)
}

/// Returns a number of the metrics by its path.
fn metric(outcome: &Outcome, path: &[&str]) -> f64 {
    let value = path.iter().fold(&outcome.run.metrics, |value, key| &value[*key]);
    value.as_f64().unwrap_or_else(|| panic!("{path:?} is {value}"))
}

#[test]
fn parts_of_columns_are_the_mean_time_to_custody() {
    for only in ["sequential", "staggered", "node-wide"] {
        let (outcome, explained) =
            explained("peerdas", &[("network.nodes", "60"), ("network.topology.degree", "40")], only);
        assert_eq!(explained.rows.len(), 59 * 16, "{only}");
        let means = explained.means();
        let mean = metric(&outcome, &["time_to_custody_ms", "mean"]);
        assert!((means.mean_ms - mean).abs() < 1e-6, "{only}: {} ms, not {mean}", means.mean_ms);
        let bound: f64 = means.bound_ms.values().filter_map(serde_json::Value::as_f64).sum();
        assert!((bound - metric(&outcome, &["lower_bound_ms"])).abs() < 1e-6, "{only}");
    }
}

/// 39 links bear more than the limit lets out: without it, all that their windows let out waits in the
/// router.
#[test]
fn columns_behind_a_router_wait_for_the_limit_or_in_the_router() {
    let waits = |limit: &str| {
        let set = [
            ("network.nodes", "60"),
            ("network.topology.degree", "40"),
            ("network.uplink_queue", "{ kind = \"fifo\", time = \"2 s\" }"),
            ("transport.node_limit", limit),
        ];
        let means = explained("peerdas", &set, "node-wide").1.means();
        let ms = |cause: Cause| means.by_cause_ms.get(cause.label()).map_or(0.0, |ms| ms.as_f64().unwrap());
        [ms(Cause::NodeLimit), ms(Cause::UplinkQueue), ms(Cause::Interface)]
    };
    let [node, router, interface] = waits("true");
    let [no_node, long_router, _] = waits("false");
    assert!(no_node == 0.0 && interface == 0.0 && node > 100.0, "{node} ms for the limit");
    assert!(router < long_router / 4.0, "{router} ms in the router with the limit, {long_router} without");
}

#[test]
fn results_without_deliveries_say_that_there_is_nothing_to_explain() {
    let crash = [("fault", "[{ kind = \"crash\", at = \"0 s\", nodes = [0] }]"), ("columns.publisher", "0")];
    let loaded = loaded("peerdas-small", &crash, &["batch"], Some(1));
    let out = std::env::temp_dir().join(format!("samara-unexplained-{}", std::process::id()));
    let read = |mode: Mode| {
        let _ = std::fs::remove_dir_all(&out);
        let measured = measured("peerdas-small", &crash, "batch", mode);
        let directory = ResultsDirectory::create(&out, &loaded, false).unwrap();
        directory.run(&*measured, &measured.outcome()).unwrap();
        let error = SavedPaths::read(&out, None).unwrap_err();
        std::fs::remove_dir_all(&out).unwrap();
        error
    };
    let (explained, not) = (read(Mode::Every(1)), read(Mode::Off));
    assert!(explained.ends_with("no run has paths; there are no deliveries to explain"), "{explained}");
    assert!(
        not.ends_with("no run has paths; run it again with --explain all (in Python: tables=[\"paths\"])"),
        "{not}"
    );
}

/// With cells, some rows are transfers on the way of a delivery.
#[test]
fn saved_paths_are_those_of_the_run() {
    let cells = [("network.nodes", "40"), ("network.topology.degree", "16")];
    for (scenario, set, only, every) in [
        ("peerdas-small", &[][..], "batch", 1),
        ("peerdas-small", &[], "batch", 3),
        ("peerdas-cells", &cells, "pull", 1),
    ] {
        let loaded = loaded(scenario, set, &[only], Some(1));
        let out =
            std::env::temp_dir().join(format!("samara-paths-{scenario}-{every}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&out);
        let measured = measured(scenario, set, only, Mode::Every(every));
        let directory = ResultsDirectory::create(&out, &loaded, false).unwrap();
        directory.run(&*measured, &measured.outcome()).unwrap();
        let saved = SavedPaths::read(&out, None).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        let written = measured.explained().unwrap();
        assert!(written.rows.len() > 50 && saved.len() == 1, "{scenario}: {} rows", written.rows.len());
        assert_eq!(saved[0].every, every, "{scenario}");
        assert_eq!(saved[0].run, loaded.points[0].name(), "{scenario}");
        assert!(saved[0].rows == written.rows, "{scenario}, one of {every}: the rows differ");
    }
}

#[test]
fn rebuilt_segments_have_the_path_of_the_last_one_received() {
    let set = [
        ("network.nodes", "40"),
        ("network.topology.degree", "16"),
        ("columns.custody", "128"),
        ("columns.repair.time_per_blob", "20 ms"),
    ];
    let (_, explained) = explained("peerdas", &set, "batch");
    let rebuilt = explained.rows.iter().filter(|row| row.parts.iter().any(|part| part.0 == Cause::Processor));
    assert!(rebuilt.count() > 100);
}

/// A column is complete with its last cell, which a node got in a cell, in a whole column, or from its
/// mempool after a header.
#[test]
fn columns_in_cells_are_explained() {
    let small = [("network.nodes", "60"), ("network.topology.degree", "40")];
    let half = [&small[..], &[("columns.cells.upgraded", "50 %")]].concat();
    for (set, only) in [(&small[..], "pull"), (&small, "one"), (&half, "one"), (&half, "push-private")] {
        let (outcome, explained) = explained("peerdas-cells", set, only);
        let deliveries = explained.rows.iter().filter(|row| row.is_delivery);
        assert_eq!(deliveries.count(), 59 * 16, "{only}");
        let mean = metric(&outcome, &["time_to_custody_ms", "mean"]);
        assert!((explained.means().mean_ms - mean).abs() < 1e-6, "{only}: not {mean} ms");
        assert!(explained.rows.iter().all(|row| row.hops < 8), "{only}");
    }
}

#[test]
fn deliveries_of_messages_transactions_and_groups_are_explained() {
    let messages = [("messages.duration", "1 s"), ("messages.rate", "20"), ("messages.cool_down", "10 s")];
    for only in ["gossipsub", "plumtree", "floodsub"] {
        let (outcome, explained) = explained("gossip-baselines", &messages, only);
        assert!(explained.rows.len() > 1_500, "{only}");
        let mean = metric(&outcome, &["delivery_latency_ms", "mean"]);
        let means = explained.means();
        assert!((means.mean_ms / mean - 1.0).abs() < 1e-3, "{only}");
        let bound: f64 = means.bound_ms.values().filter_map(serde_json::Value::as_f64).sum();
        assert!(bound > 0.3 * mean && bound <= means.mean_ms, "{only}: {bound} of {mean} ms");
    }
    // Every pair has a link, so no path of the bound is longer than a hop: 10 ms, no validation, and
    // 1,000 bytes and headers at 8 Mbit/s.
    let complete = [
        ("network.nodes", "4"),
        ("network.topology", "{ kind = \"full-mesh\" }"),
        ("network.latency", "10 ms"),
        ("network.bandwidth", "8 Mbit/s"),
        ("messages.size", "1000 B"),
    ];
    let (_, closed) = explained("gossip-baselines", &[&messages[..], &complete].concat(), "floodsub");
    let bound = closed.means().bound_ms;
    let ms = |label: &str| bound.get(label).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    assert_eq!((ms("latency"), ms("processor")), (10.0, 0.0), "{bound:?}");
    assert!((1.0..1.3).contains(&ms("serialisation")), "{bound:?}");
    let pool = [("network.nodes", "24"), ("pool.duration", "4 s"), ("pool.block_interval", "2 s")];
    for only in ["cat-2026", "cat", "flood-priority"] {
        assert!(explained("cat", &pool, only).1.rows.len() > 500, "{only}");
    }
    // A message of another site passes two leaders.
    let federation = [("group.duration", "100 ms"), ("group.warm_up", "500 ms")];
    let (_, federation) = explained("ring-federation", &federation, "federation");
    let unknown = |row: &&samara_lab::explain::PathRow| row.parts.iter().any(|part| part.0 == Cause::Unknown);
    assert!(federation.rows.len() > 100 && federation.rows.iter().filter(unknown).count() == 0);
    assert!(federation.rows.iter().any(|row| row.hops > 3));
    for only in ["ring", "daisychain"] {
        assert!(explained("ring", &[("group.messages", "100")], only).1.rows.len() > 500, "{only}");
    }
}

/// While a node is down, that is the cause of the time of what it receives later, and of nothing else.
#[test]
fn copies_that_wait_for_a_node_that_is_down_say_so() {
    let crash = r#"[{ kind = "crash", at = "6 s", until = "7500 ms", nodes = [5] }]"#;
    let set = [("network.nodes", "24"), ("pool.duration", "4 s"), ("pool.block_interval", "0 s")];
    let (outcome, explained) = explained("cat-churn", &[&set[..], &[("fault", crash)]].concat(), "cat");
    let pool = outcome.data::<samara_family_pool::PoolData>().unwrap();
    let down_of = |parts: &samara_sim::Compact| {
        parts.iter().find(|(cause, _)| *cause == Cause::NodeDown).map_or(0, |(_, nanos)| nanos)
    };
    let mut late = 0;
    for row in &explained.rows {
        let submitted = pool.transactions[row.item as usize].submitted;
        let [since, at] = [row.since_nanos, row.nanos].map(|nanos| submitted + nanos);
        let down = at.min(7_500_000_000).saturating_sub(since.max(6_000_000_000));
        let ends = [row.node, row.from].contains(&5);
        assert_eq!(down_of(&row.hop), if ends { down } else { 0 }, "{row:?}");
        late += u64::from(row.node == 5 && down_of(&row.parts) > 0);
    }
    assert!(late > 20, "{late} transactions waited for the node");
    let messages = [("messages.duration", "4 s"), ("messages.rate", "20"), ("messages.cool_down", "10 s")];
    let (_, calm) = self::explained("gossip-baselines", &messages, "gossipsub");
    assert!(calm.rows.iter().all(|row| down_of(&row.parts) == 0));
}

#[test]
fn down_ranges_follow_the_faults() {
    let faults = r#"[
        { kind = "crash", at = "2 s", until = "4 s", nodes = [1, 2] },
        { kind = "vanish", at = "3 s", until = "9 s", nodes = [1] },
        { kind = "crash", at = "8 s", nodes = [1] },
        { kind = "slow", at = "1 s", factor = 0.5, nodes = [3] },
        { kind = "crash", at = "0 s", until = "1 s", nodes = [4] },
    ]"#;
    let loaded = loaded("cat", &[("network.nodes", "24"), ("fault", faults)], &["cat"], Some(1));
    let point = &loaded.points[0];
    let down = samara_lab::network::down(&point.scenario, point.seed);
    let ms = |at: u64| at * 1_000_000;
    // Node 1 is up from its first start on, goes down again at 8 s, and starts at the end of the second fault.
    let expected = [(ms(2_000), ms(4_000)), (ms(8_000), ms(9_000))];
    assert_eq!(down[1], expected);
    assert_eq!(down[2], [expected[0]]);
    assert_eq!((&down[0], &down[3], &down[4]), (&vec![], &vec![], &vec![(0, ms(1_000))]));
}

/// With nodes that answer no request, others wait for answers that do not come; waits for
/// announcements are in the same runs.
#[test]
fn withheld_items_are_a_cause_of_their_own() {
    let share = |scenario: &str, set: &[(&str, &str)], only: &str, cause: &str| {
        let shares = explained(scenario, set, only).1.means().shares;
        shares.get(cause).and_then(serde_json::Value::as_f64).unwrap_or(0.0)
    };
    let pieces = [("network.nodes", "100"), ("network.topology.degree", "20")];
    let faulty = [&pieces[..], &[("columns.pieces.withholding", "40 %")]].concat();
    let of = |set: &[(&str, &str)], cause| share("payload", set, "tuned", cause);
    assert!(of(&faulty, "withheld") > 2.0 * of(&pieces, "withheld").max(0.01));
    assert!(of(&pieces, "announcement") > 0.05);
    let pool = [("network.nodes", "24"), ("pool.duration", "4 s"), ("pool.block_interval", "2 s")];
    assert!(share("cat", &pool, "cat", "announcement") > 0.1, "a pool asks after an announcement");
    let cells = [("network.nodes", "100"), ("network.topology.degree", "20"), ("columns.blobs", "4")];
    let claim = r#"[{ kind = "claim", at = "0 s", share = "30 %" }]"#;
    let attacked = [&cells[..], &[("fault", claim)]].concat();
    let of = |set: &[(&str, &str)]| share("peerdas-cells", set, "one", "withheld");
    let (attacked, calm) = (of(&attacked), of(&cells));
    assert!(attacked > 2.0 * calm.max(0.01), "{attacked} and {calm}");
}

/// A path through a team of five has ten hops: five nodes decrypt, the last sends to the first, five
/// permute, and the last sends the results.
#[test]
fn batches_of_a_mix_are_explained() {
    let set = [("mix.rounds", "4"), ("mix.batch", "64"), ("protocol.realtime_slots", "16")];
    for only in ["unary", "streamed"] {
        let (outcome, explained) = explained("mix-stream", &set, only);
        assert_eq!(explained.means().deliveries, 4 * 5, "{only}");
        let mean = metric(&outcome, &["batch_latency_ms", "mean"]);
        assert!((explained.means().mean_ms / mean - 1.0).abs() < 1e-9, "{only}: {mean}");
        for row in &explained.rows {
            let part = |cause| row.parts.iter().find(|(other, _)| *other == cause).map_or(0, |part| part.1);
            assert_eq!(part(Cause::Unknown) + part(Cause::Request), 0, "{only}: {row:?}");
            assert!(part(Cause::Processor) > 0, "{only}: {row:?}");
            assert_eq!(row.hops, if row.is_last { 10 } else { row.hops }, "{only}: {row:?}");
            assert_eq!(part(Cause::Latency), u64::from(row.hops) * 45_000_000, "{only}: {row:?}");
        }
    }
}

#[test]
fn counterfactuals_are_ordered_by_gain() {
    let loaded = loaded("peerdas", &[("network.nodes", "80")], &["batch"], Some(1));
    let (stop, explain) = (AtomicBool::new(false), Explain::default());
    let inputs = Inputs::default();
    let options = RunOptions { stop: &stop, explain: &explain, ..RunOptions::new(2, &inputs) };
    let found = what_if(&loaded, &loaded.points[0], options).unwrap();
    let gains: Vec<f64> = found.without.iter().map(|one| one.gain_ms).collect();
    assert!(gains.len() > 3 && gains.is_sorted_by(|a, b| a >= b), "{found:?}");
    assert!(found.without.iter().all(|one| !one.without.contains("limit over all links")), "{found:?}");
    // The publisher sends 128 columns through 20 Mbit/s.
    assert!(
        gains[0] > 0.5 * found.mean_ms && found.without[0].without.contains("unlimited uplinks"),
        "{found:?}"
    );
}
