//! Batches that one node hands to another, from the scenario to the figures.

use std::sync::atomic::AtomicBool;

use samara_lab::data::Inputs;
use samara_lab::results::{HandoverData, Outcome};
use samara_lab::run::{RunOptions, run};
use samara_lab::scenario::load;

fn results(set: &[(&str, &str)], only: &[&str]) -> Vec<Outcome<HandoverData>> {
    let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let only: Vec<String> = only.iter().map(|run| (*run).to_owned()).collect();
    let loaded = load("mix-window", &set, &only, Some(1)).unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let options = RunOptions { threads: 2, inputs: &Inputs::default(), stop: &stop };
    let measured = loaded
        .points
        .iter()
        .map(|point| run(point, options, |_| {}).unwrap_or_else(|error| panic!("{error}")));
    measured.map(|measured| measured.outcome().typed().expect("batches")).collect()
}

fn only(set: &[(&str, &str)], run: &str) -> Outcome<HandoverData> {
    results(set, &[run]).remove(0)
}

fn near(found: f64, expected: f64, most: f64) -> bool {
    (found - expected).abs() <= most
}

#[test]
fn causes_add_up_to_what_a_batch_takes() {
    for result in results(&[], &[]) {
        let m = &result.metrics.clone();
        for (took, parts) in [(m.first_ms, &m.first_parts), (m.later_ms, &m.later_parts)] {
            let name = &result.run.name;
            assert!(near(parts.total_ms(), parts.computation_ms + took, 1e-6), "{name}: {parts:?}");
            assert!(near(parts.latency_ms, 45.0, 0.01), "{name}: {parts:?}");
            assert!(parts.named().iter().all(|(_, ms)| *ms > -0.1), "{name}: {parts:?}");
        }
        assert_eq!(m.first_parts.idle_restart_ms, 0.0, "a new connection was never idle");
        assert_eq!(m.retransmissions, 0);
        assert_eq!(result.batches.len(), 6);
    }
}

/// Ten packets, twenty, and what is left: two round trips more than the way. All of it is slow start.
#[test]
fn a_small_batch_waits_for_slow_start_and_not_for_the_window() {
    let m = only(&[], "new-100").metrics.clone();
    assert!(near(m.first_parts.slow_start_ms, 2.0 * 90.0, 2.0), "{m:?}");
    assert!(near(m.first_parts.window_ms, 0.0, 0.01), "{m:?}");
    assert!(near(m.later_parts.idle_restart_ms, 2.0 * 90.0, 2.0), "{m:?}");
}

#[test]
fn the_standard_window_lets_65_535_bytes_through_in_a_round_trip() {
    let m =
        only(&[("transport.initial_window", "10000"), ("transport.idle_restart", "false")], "standard-10000")
            .metrics
            .clone();
    let windows = (m.batch_bytes as f64 / 65_535.0).ceil();
    assert!(near(m.first_ms / ((windows - 0.5) * 90.0), 1.0, 0.02), "{m:?}");
    // Less than a quarter of a window has not been given back when a batch ends, and is missing for the next one.
    assert!(m.later_ms > m.first_ms && m.later_ms < m.first_ms / 0.75, "{m:?}");
}

/// Whether one asks for it by call or by stream, the transport does the same.
#[test]
fn streaming_wins_only_while_payloads_are_computed() {
    let [unary, streamed] = &results(&[], &["new-1000", "streamed-1000"])[..] else { panic!("two runs") };
    assert!(near(unary.metrics.later_ms, streamed.metrics.later_ms, 5.0));
    let [unary, streamed] = &results(&[], &["computed-1000", "computed-streamed-1000"])[..] else {
        panic!("two runs")
    };
    assert!(near(unary.metrics.later_ms, 496.0, 5.0), "{:?}", unary.metrics);
    assert!(near(streamed.metrics.later_ms, 45.0, 1.0), "{:?}", streamed.metrics);
    for result in [unary, streamed] {
        assert!(near(result.metrics.later_parts.computation_ms, 1000.0, 1e-6));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |key: &str, value: &str| {
        let set = [(key.to_owned(), value.to_owned())];
        load("mix-window", &set, &[], Some(1)).expect_err(key).to_string()
    };
    for (key, value, said) in [
        ("network.nodes", "3", "network.nodes"),
        ("transport.kind", "\"tcp\"", "\"grpc\""),
        ("handover.size", "\"0 B\"", "allowed is 1 to"),
        ("handover.batches", "1", "allowed is 2 to"),
        ("handover.size", "\"100 MB\"", "allowed are 10"),
        ("transport.http2_window", "\"3 GB\"", "allowed is 1 to 2147483647"),
        ("messages.rate", "1", "a scenario has one experiment"),
    ] {
        let error = refused(key, value);
        assert!(error.contains(said), "{key}: {error}");
    }
}

/// HTTP/2 would be lost below what frames for itself.
#[test]
fn grpc_carries_no_groups_and_no_channels() {
    for (scenario, key) in [("ring-rounds", "transport.kind"), ("cat", "transport.connection")] {
        let set = [("transport.kind".to_owned(), "\"grpc\"".to_owned())];
        let error = load(scenario, &set, &[], Some(1)).expect_err(scenario).to_string();
        assert!(error.contains(key), "{scenario}: {error}");
    }
}
