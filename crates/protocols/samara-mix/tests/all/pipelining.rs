//! The effect of rounds in flight on the throughput of real time.

use std::time::Duration;

use samara_mix::{Batch, Command, Config, Group, Transfer};

use crate::config;
use crate::net::Net;

/// Time that a node takes for all slots of one phase.
const COMPUTE: Duration = Duration::from_millis(24);

/// Returns the seconds for each round with `in_flight` rounds in real time, on nodes with one core.
fn period(transfer: Transfer, latency: Duration, in_flight: usize) -> f64 {
    let mut net = Net::new(
        1,
        Config {
            transfer,
            realtime_max: in_flight,
            precomputing_max: 90,
            rounds_max: 90,
            node_rounds_max: 90,
            realtime_slots: 1,
            jobs_max: 1,
            rounds_per_draw: 10_000,
            queue_timeout: Duration::from_secs(100),
            ..config(5, 5, Group::Model)
        },
    );
    // All rounds are precomputed before the first batch, so that only real time is measured.
    net.is_idle = true;
    net.is_precomputation_free = true;
    net.run_until(Duration::from_secs(200), |net| net.record.plans.len() >= 90);
    let plans: Vec<_> = net.record.plans.values().cloned().collect();
    for plan in plans {
        let batch = Batch::new(&net.batch(&plan)).unwrap();
        net.command(plan.team[0], Command::Mix { round: plan.round, batch });
    }
    net.slot_cost = COMPUTE / 24;
    net.latency = latency;
    net.run_until(Duration::from_secs(200), |net| net.record.delivered.len() >= 5 * 85);
    net.record.check(&[]);
    let last = net.record.plans.values().next().unwrap().team[4];
    let mut times: Vec<_> = net.record.delivered.iter().filter(|((_, host), _)| *host == last).collect();
    times.sort_by_key(|(_, (at, _))| *at);
    // Rounds in flight together can come out together, so the measurement takes whole multiples,
    // after the start.
    let measured = 60 / in_flight * in_flight;
    let (from, to) = (times[20].1.0, times[20 + measured].1.0);
    to.since(from).as_secs_f64() / measured as f64
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.1, "{found:.4}, expected {expected:.4}");
}

#[test]
fn sequential_round_takes_ten_units_of_work_and_ten_latencies() {
    let c = COMPUTE.as_secs_f64();
    let short = Duration::from_micros(10);
    close(period(Transfer::Unary, short, 1), 10.0 * c);
    // Five links in decryption, four in permutation, and one for the result to return to the first
    // node.
    close(period(Transfer::Unary, COMPUTE, 1), 20.0 * c);
}

#[test]
fn throughput_scales_with_rounds_in_flight() {
    let short = Duration::from_micros(10);
    let gain = period(Transfer::Unary, short, 1) / period(Transfer::Unary, short, 5);
    assert!(gain > 4.5, "{gain:.2} times as fast");
}

#[test]
fn latency_hides_behind_more_rounds() {
    // A node has two units of work for each round, which is the bound.
    let bound = 2.0 * COMPUTE.as_secs_f64();
    close(period(Transfer::Unary, COMPUTE, 10), bound);
    // Five rounds that take twice as long because of latency halve the throughput.
    close(period(Transfer::Unary, COMPUTE, 5), 2.0 * bound);
    close(period(Transfer::Streamed, COMPUTE, 10), bound);
}

#[test]
fn streamed_phase_of_all_nodes_takes_little_longer_than_one() {
    let c = COMPUTE.as_secs_f64();
    // Decryption: one node's work and four more slots. Permutation: the work of each node, one
    // after another.
    close(period(Transfer::Streamed, Duration::from_micros(10), 1), (1.0 + 4.0 / 24.0 + 5.0) * c);
}
