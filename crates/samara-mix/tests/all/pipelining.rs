//! Rounds in flight: what the throughput of real time gains.

use std::time::Duration;

use samara_mix::{Batch, Command, Config, Group, Transfer};

use crate::config;
use crate::net::Net;

/// Time of one node for all slots of one phase.
const COMPUTE: Duration = Duration::from_millis(24);

/// Seconds for each round, with so many in real time at once, on nodes with one core.
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
    // All rounds are precomputed before the first batch comes: only real time is measured.
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
    // Rounds in flight together can come out together: whole turns, after the beginning.
    let measured = 60 / in_flight * in_flight;
    let (from, to) = (times[20].1.0, times[20 + measured].1.0);
    to.since(from).as_secs_f64() / measured as f64
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.1, "{found:.4}, {expected:.4} expected");
}

#[test]
fn one_after_another_is_ten_times_the_work_and_ten_latencies() {
    let c = COMPUTE.as_secs_f64();
    let short = Duration::from_micros(10);
    close(period(Transfer::Unary, short, 1), 10.0 * c);
    // Five links in decryption, four in permutation, and one for the result to get back to the first node.
    close(period(Transfer::Unary, COMPUTE, 1), 20.0 * c);
}

#[test]
fn as_many_rounds_in_flight_as_nodes_are_as_many_times_as_fast() {
    let short = Duration::from_micros(10);
    let gain = period(Transfer::Unary, short, 1) / period(Transfer::Unary, short, 5);
    assert!(gain > 4.5, "{gain:.2} times as fast");
}

#[test]
fn latency_hides_behind_more_rounds() {
    // A node has two units of work for each round: that is the bound.
    let bound = 2.0 * COMPUTE.as_secs_f64();
    close(period(Transfer::Unary, COMPUTE, 10), bound);
    // Five rounds that take twice as long because of latency are half as many.
    close(period(Transfer::Unary, COMPUTE, 5), 2.0 * bound);
    close(period(Transfer::Streamed, COMPUTE, 10), bound);
}

#[test]
fn a_streamed_phase_takes_all_nodes_hardly_longer_than_one() {
    let c = COMPUTE.as_secs_f64();
    // Decryption: one node's work and four slots more; permutation: each node's, one after another.
    close(period(Transfer::Streamed, Duration::from_micros(10), 1), (1.0 + 4.0 / 24.0 + 5.0) * c);
}
