//! Payloads in pieces.

use samara_family_columns::ColumnsData;
use samara_lab::results::Outcome;

use crate::{loaded, outcomes};

/// Sixty nodes, so that a run takes a fraction of a second.
const SMALL: &[(&str, &str)] = &[("network.nodes", "60"), ("network.topology.degree", "30")];

fn results(set: &[(&str, &str)], only: &[&str], threads: usize) -> Vec<Outcome<ColumnsData>> {
    outcomes(&loaded("payload", &[SMALL, set].concat(), only, Some(7)), threads)
}

fn p50(outcome: &Outcome<ColumnsData>) -> f64 {
    outcome.metrics.time_to_custody_ms.map_or(f64::NAN, |times| times.p50)
}

fn copies(outcome: &Outcome<ColumnsData>) -> f64 {
    outcome.metrics.payload_copies.unwrap()
}

#[test]
fn each_way_saves_what_the_guide_says() {
    let only = ["whole", "batch", "phase", "tuned", "near", "near-coded"];
    let results = results(&[], &only, 2);
    let [whole, batch, phase, tuned, near, coded] = &results[..] else { panic!("{}", results.len()) };
    assert!(results.iter().all(|result| result.metrics.incomplete == 0));
    assert!(p50(whole) > 2.0 * p50(batch), "{} {}", p50(whole), p50(batch));
    assert!(copies(phase) < 0.7 * copies(batch) && copies(tuned) < 0.7 * copies(phase));
    assert!(copies(near) < 1.3 && p50(near) < p50(tuned), "{} {}", copies(near), p50(near));
    assert!(p50(coded) < p50(near));
    // Nothing is faster than its bound, and every copy is received at least once.
    for result in &results {
        assert!(result.metrics.p50_over_bound.unwrap() > 1.0 && copies(result) > 0.97, "{}", result.run.name);
    }
}

#[test]
fn nodes_that_answer_nothing_delay_the_others_a_little() {
    let faults = |share| results(&[("columns.pieces.withholding", share)], &["near-coded"], 1).remove(0);
    let (none, many) = (faults("0 %"), faults("30 %"));
    assert_eq!((none.metrics.incomplete, many.metrics.incomplete), (0, 0));
    assert!(p50(&many) > p50(&none) && p50(&many) < 1.6 * p50(&none), "{} {}", p50(&none), p50(&many));
    let silent = &results(&[("columns.pieces.silent", "30 %")], &["near-coded"], 1)[0];
    assert_eq!(silent.metrics.incomplete, 0);
}

#[test]
fn nodes_that_claim_to_have_all_delay_the_others_a_little() {
    let claims = |share| results(&[("columns.pieces.spoofing", share)], &["tuned", "near-coded"], 1);
    let (none, many) = (claims("0 %"), claims("30 %"));
    for (none, many) in none.iter().zip(&many) {
        // Eighteen of 59 request nothing, and the claims keep pushes from them.
        assert_eq!((none.metrics.incomplete, many.metrics.incomplete), (0, 18), "{}", many.run.name);
        assert!(p50(many) < 1.2 * p50(none), "{} {}", p50(none), p50(many));
    }
}

#[test]
fn code_replaces_pieces_that_the_publisher_never_sends() {
    let omit = |count, run| results(&[("columns.pieces.omitted", count)], &[run], 1).remove(0);
    assert_eq!(omit("32", "near-coded").metrics.incomplete, 0);
    let short = omit("33", "near-coded");
    assert_eq!((short.metrics.incomplete, short.metrics.time_to_custody_ms), (59, None));
    // Without a code, all nodes have all but one.
    let uncoded = omit("1", "near");
    assert_eq!(uncoded.metrics.incomplete, 59);
    assert!((uncoded.metrics.deliveries.delivery_ratio - 63.0 / 64.0).abs() < 1e-9);
}

#[test]
fn limit_over_all_links_keeps_copies_out_of_the_queue_before_the_uplink() {
    let slow = [("network.uplink", "15 Mbit/s"), ("network.downlink", "30 Mbit/s")];
    let with = &results(&slow, &["near"], 1)[0];
    let without = &results(&[&slow[..], &[("transport.node_limit", "false")]].concat(), &["near"], 1)[0];
    let drops = |outcome: &Outcome<ColumnsData>| outcome.metrics.losses.packet_drops.uplink_codel;
    assert!(drops(with) < drops(without) / 2, "{} {}", drops(with), drops(without));
    assert!(p50(with) < p50(without), "{} {}", p50(with), p50(without));
}

#[test]
fn results_do_not_depend_on_threads() {
    let digest = |threads| results(&[], &["near-coded"], threads)[0].run.digest.clone();
    assert_eq!(digest(1), digest(3));
}

#[test]
fn topic_for_each_piece_has_a_mesh_for_each() {
    let set = [("columns.pieces.parity", "32"), ("columns.pieces.joined", "40")];
    let all = &results(&[], &["topics"], 1)[0];
    let some = &results(&set, &["topics"], 1)[0];
    assert_eq!((all.metrics.incomplete, some.metrics.incomplete), (0, 0));
    // Forty topics for each node but the publisher.
    assert_eq!(some.deliveries.len(), 59 * 40);
}
