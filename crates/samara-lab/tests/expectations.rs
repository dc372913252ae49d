//! What must hold of results.

use samara_lab::scenario::{Expectation, Expectations, Outcome};
use serde_json::{Value, json};

fn metrics(mean: f64) -> Value {
    json!({
        "time_to_custody_ms": { "mean": mean, "p95": 2.0 * mean },
        "lower_bound_ms": 1000.0,
        "incomplete": 0,
        "delivery_ratio": 0.9995,
        "bytes_up_per_node": 1_500_000,
        "throughput_mb_per_s": 107.0,
        "cpu_s": 2.5,
        "complete": true,
        "digest": "abc",
    })
}

fn outcome(key: &str, text: &str) -> Outcome {
    let (batch, sequential) = (metrics(1400.0), metrics(3000.0));
    let expectation = Expectation::parse(key, text).unwrap_or_else(|error| panic!("{error}"));
    expectation.evaluate("batch", &[("batch", &batch), ("sequential", &sequential)])
}

#[track_caller]
fn check(key: &str, text: &str, holds: bool) {
    let outcome = outcome(key, text);
    assert_eq!((outcome.holds, &outcome.problem), (holds, &None), "{outcome:?}");
}

#[test]
fn quantities_are_compared_in_the_unit_of_the_metric() {
    check("time_to_custody_ms.p95", "< 4 s", true);
    check("time_to_custody_ms.p95", "< 2.8 s", false);
    check("time_to_custody_ms.p95", "<= 2.8 s", true);
    check("time_to_custody_ms.mean", "> 1399 ms", true);
    check("time_to_custody_ms.mean", ">= 1401 ms", false);
    check("cpu_s", "< 3 s", true);
    check("bytes_up_per_node", "< 1.5 MB", false);
    check("bytes_up_per_node", "== 1.5 MB", true);
    check("throughput_mb_per_s", "> 800 Mbit/s", true);
    check("throughput_mb_per_s", "> 900 Mbit/s", false);
    check("delivery_ratio", ">= 99.9 %", true);
    check("delivery_ratio", ">= 0.9999", false);
    check("incomplete", "== 0", true);
    check("complete", "== 1", true);
}

#[test]
fn figures_are_compared_with_others() {
    check("time_to_custody_ms.mean", "<= 1.4 * lower_bound_ms", true);
    check("time_to_custody_ms.mean", "< 1.3 * lower_bound_ms", false);
    check("time_to_custody_ms.mean", "<= 0.5 * sequential", true);
    check("time_to_custody_ms.mean", "<= 0.4*sequential", false);
    check("time_to_custody_ms.mean", "< sequential: time_to_custody_ms.p95", true);
    check("time_to_custody_ms.mean", "< cpu_s", true);
    check("time_to_custody_ms.mean", "within 10 % of 1500 ms", true);
    check("time_to_custody_ms.mean", "within 5 % of 1500 ms", false);
    check("time_to_custody_ms.mean", "within 10 % of 0.5 * sequential", true);
    assert_eq!(outcome("time_to_custody_ms.mean", "<= 0.5 * sequential").target, Some(1500.0));
    assert_eq!(outcome("time_to_custody_ms.p95", "< 4 s").expectation, "time_to_custody_ms.p95 < 4 s");
}

#[test]
fn what_is_not_there_does_not_hold() {
    let problem = |key, text| {
        let outcome = outcome(key, text);
        assert!(!outcome.holds);
        outcome.problem.unwrap()
    };
    let meant = problem("time_to_custody_ms.p96", "< 4 s");
    assert_eq!(meant, "run \"batch\" has no metric \"time_to_custody_ms.p96\", did you mean \"p95\"?");
    assert_eq!(problem("digest", "== 1"), "the metric \"digest\" of run \"batch\" is not a number: \"abc\"");
    assert_eq!(problem("incomplete", "< nothing"), "run \"batch\" has no metric \"nothing\"");
}

#[test]
fn expectations_hold_for_their_runs() {
    let written = json!({
        "incomplete": "== 0",
        "batch: time_to_custody_ms.mean": ["<= 0.5 * sequential", "< 1 s"],
        "node-wide: time_to_custody_ms.mean": "< 1 s",
    });
    let expectations: Expectations = serde_json::from_value(written.clone()).unwrap();
    let (batch, sequential) = (metrics(1400.0), metrics(3000.0));
    let outcomes = expectations.evaluate(&[("sequential", &sequential), ("batch", &batch)]);
    let found: Vec<_> = outcomes.iter().map(|outcome| (outcome.run.as_str(), outcome.holds)).collect();
    // The run "node-wide" was not asked for.
    assert_eq!(found, [("batch", true), ("batch", false), ("sequential", true), ("batch", true)]);
    let again: Expectations = serde_json::from_value(serde_json::to_value(&expectations).unwrap()).unwrap();
    assert_eq!(again, expectations);
    assert_eq!(expectations.iter().count(), 4);
}
