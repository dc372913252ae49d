//! The first hop of a batch, and the time that each mechanism of the transport adds.

use samara_lab::results::{MixData, Outcome};

use crate::mix::results;
use crate::refused;

/// Runs the scenario with 842 slots, which have as many bytes as 1,000 payloads of 512 bytes.
fn first_hops(set: &[(&str, &str)], only: &[&str]) -> Vec<Outcome<MixData>> {
    let fixed = [("sweep.axis.0.values", "[842]"), ("mix.rounds", "4")];
    results("mix-window", &[&fixed[..], set].concat(), only)
}

fn near(found: f64, expected: f64, most: f64) -> bool {
    (found - expected).abs() <= most
}

#[test]
fn causes_add_up_to_the_first_hop() {
    for result in first_hops(&[], &["unary", "kept", "standard"]) {
        let (m, name) = (&result.metrics, &result.run.name);
        let parts = m.first_hop_parts.expect("the scenario requests mechanisms");
        let sum: f64 = parts.named().iter().map(|(_, ms)| ms).sum();
        assert!(near(sum, m.first_hop_ms, 1e-6), "{name}: {parts:?}");
        assert!(near(parts.latency_ms, 45.0, 0.01), "{name}: {parts:?}");
        assert!(parts.named().iter().all(|(_, ms)| *ms > -0.1), "{name}: {parts:?}");
        match name.as_str() {
            // Linux halves the congestion window while the link is idle: 442 of 495 ms.
            "unary" => assert!(parts.idle_restart_ms > 400.0 && parts.window_ms < 1.0, "{parts:?}"),
            "kept" => assert!(near(m.first_hop_ms, 53.4, 1.0), "{parts:?}"),
            // The window allows 65,535 bytes per round trip.
            _ => assert!(parts.window_ms > 700.0, "{parts:?}"),
        }
    }
}

/// Unary and streamed calls load the transport equally.
#[test]
fn streaming_wins_only_while_payloads_are_computed() {
    let set = [("mix.mechanisms", "false")];
    let runs = ["unary", "streamed", "computed", "computed-streamed"];
    let results = first_hops(&set, &runs);
    let [unary, streamed, computed, overlapped] = &results[..] else { panic!("four runs") };
    assert!(near(unary.metrics.first_hop_ms, streamed.metrics.first_hop_ms, 15.0));
    assert!(near(computed.metrics.first_hop_ms, 496.0, 5.0), "{:?}", computed.metrics.first_hop_ms);
    assert!(near(overlapped.metrics.first_hop_ms, 45.0, 1.0), "{:?}", overlapped.metrics.first_hop_ms);
    assert!(results.iter().all(|result| result.metrics.first_hop_parts.is_none()));
}

/// Groups and channels do not use gRPC, which needs HTTP/2 below it.
#[test]
fn rejects_groups_and_channels_over_grpc() {
    for (scenario, key) in [("ring-rounds", "transport.kind"), ("cat", "transport.connection")] {
        let error = refused(scenario, &[("transport.kind", "\"grpc\"")], &[]);
        assert!(error.contains(key), "{scenario}: {error}");
    }
}
