//! The same scenario and seed yield the same run on any number of threads.

use std::time::Duration;

use crate::common::*;
use samara_engine::outbox::{Dispatch, Schedule};
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{
    Control, Flush, MConnectionConfig, QuicConfig, Record, SimConfig, StreamOrder, TcpConfig, Transport,
};

/// Random traffic on a random network with jitter, loss, crashes and restarts.
fn messy(
    seed: u64,
    (threads, parallel_threshold): (usize, u64),
    (dispatch, fair): (Dispatch, bool),
    transport: &Transport,
) -> (u64, u64, Vec<Record<Heard>>) {
    let mut config = SimConfig { threads, ..rough(seed, transport) };
    if fair {
        config = fair_queues(config);
    }
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    let edges = pairs(40, 0.15, &mut rng);
    let mut sim = network_with(config, hosts(40, 10 * MBIT), &edges, dispatch, 1);
    sim.set_parallel_threshold(parallel_threshold);
    chatter(&mut sim, 40, 300, &mut rng);
    for host in 0..4 {
        sim.crash(Time::from_millis(1500 + 300 * u64::from(host)), host, host % 2 == 0);
        sim.restart(Time::from_millis(2500 + 300 * u64::from(host)), host);
    }
    let mut records = run(&mut sim, Time::from_secs(3));
    records.extend(run(&mut sim, Time::from_secs(60)));
    (sim.digest(), sim.steps(), records)
}

/// Returns a configuration with one channel for the only lane.
fn one_channel(flush: Flush) -> MConnectionConfig {
    let mut config = channels(flush);
    config.channels.truncate(1);
    config
}

#[test]
fn panic_of_any_host_ends_the_run_on_any_number_of_threads() {
    for (host, threads) in [(0, 1), (0, 3), (1, 3), (2, 3)] {
        let config = SimConfig { threads, ..rough(1, &Transport::tcp()) };
        let mut sim = network_with(config, hosts(3, 10 * MBIT), &[(0, 1), (1, 2)], Dispatch::PerLink, 1);
        sim.set_parallel_threshold(0);
        // The outbox of these hosts has one lane.
        let peer = if host == 1 { 2 } else { 1 };
        sim.command(START, host, Say::On { lane: 3, host: peer, id: 1, len: 100 });
        let run = std::panic::AssertUnwindSafe(|| run(&mut sim, Time::from_secs(2)));
        let panic = std::panic::catch_unwind(run).expect_err("the lane does not exist");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains("lane 3"), "{message}");
    }
}

/// Tests of one program run in parallel; one test for each seed takes half of the time.
#[test]
fn results_of_seed_0_do_not_depend_on_the_number_of_threads() {
    assert_independent_of_threads(0);
}

#[test]
fn results_of_seed_1_do_not_depend_on_the_number_of_threads() {
    assert_independent_of_threads(1);
}

fn assert_independent_of_threads(seed: u64) {
    let quic = QuicConfig { streams: StreamOrder::PerFrame, ..QuicConfig::default() };
    let streams = Transport { control: Control::Quic(quic), ..Transport::quic() };
    let limited = MConnectionConfig {
        ping_interval: Duration::from_secs(5),
        send_rate: 200_000,
        receive_rate: 300_000,
        ..one_channel(Flush::Throttle(Duration::from_millis(100)))
    };
    let throttled = over(Some(TcpConfig::default()), limited);
    for (dispatch, transport, fair) in [
        (Dispatch::PerLink, Transport::tcp(), false),
        (Dispatch::Node, Transport::tcp(), false),
        (Dispatch::PerLink, Transport::ideal(), false),
        (Dispatch::PerLink, Transport::quic(), false),
        (Dispatch::PerLink, Transport::udp(), false),
        (Dispatch::Node, Transport::udp(), false),
        (Dispatch::Node, streams, false),
        (Dispatch::PerLink, throttled.clone(), false),
        (Dispatch::PerLink, over(None, one_channel(Flush::WhenIdle)), false),
        (Dispatch::PerLink, Transport::tcp(), true),
        (Dispatch::PerLink, Transport::quic(), true),
        (Dispatch::Node, Transport::quic(), true),
    ] {
        let one = messy(seed, (1, 0), (dispatch, fair), &transport);
        assert!(one.2.iter().any(|record| matches!(record.event, Heard::Blob { .. })));
        // Always in parallel, in parallel only in the busiest windows, and hardly ever in
        // parallel.
        for threads in [(1, 0), (2, 0), (3, 0), (7, 0), (16, 0), (2, 10), (3, 10), (2, 1_000)] {
            let many = messy(seed, threads, (dispatch, fair), &transport);
            assert_eq!((one.0, one.1), (many.0, many.1), "seed {seed}, {threads:?}, {dispatch:?}");
            assert_eq!(one.2, many.2, "seed {seed}, {threads:?}, {dispatch:?}");
        }
    }
}

/// Stacks as large as the address space make the system refuse every thread. The standard library reads
/// their size once, so the runs are in a process of their own.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn a_run_continues_alone_if_the_system_starts_no_threads() {
    const STACK: &str = "RUST_MIN_STACK";
    let bytes = (1_u64 << 47).to_string();
    if std::env::var(STACK).is_ok_and(|set| set == bytes) {
        assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "the system starts a thread");
        let run = |threads| messy(0, (threads, 0), (Dispatch::PerLink, false), &Transport::tcp());
        assert!(run(3) == run(1), "the results differ");
        return;
    }
    let name = "determinism::a_run_continues_alone_if_the_system_starts_no_threads";
    let program = std::env::current_exe().unwrap();
    // One test at a time is on the first thread.
    let output = std::process::Command::new(program)
        .args(["--exact", name, "--test-threads=1", "--nocapture"])
        .env(STACK, &bytes)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && printed[0].contains("1 passed"), "{}", printed.concat());
}

#[test]
fn results_depend_on_the_seed() {
    let digests: Vec<u64> =
        (0..5).map(|seed| messy(seed, (2, 0), (Dispatch::PerLink, false), &Transport::tcp()).0).collect();
    let mut distinct = digests.clone();
    distinct.dedup();
    assert_eq!(digests, distinct);
}

#[test]
fn results_do_not_depend_on_slicing_a_run() {
    let build = || {
        let mut sim =
            network(config(20, bare(Some(TcpConfig::default()))), hosts(3, 8 * MBIT), &[(0, 1), (1, 2)]);
        for id in 0..50 {
            let at = Time::from_millis(1000 + 17 * id);
            sim.command(at, 0, Say::Along { route: vec![1, 2], id, len: 9_000 });
        }
        sim
    };
    let mut whole = build();
    let records = run(&mut whole, Time::from_secs(10));
    let mut sliced = build();
    let mut again = Vec::new();
    for slice in 1..=1000 {
        again.extend(run(&mut sliced, Time::from_millis(10 * slice)));
    }
    assert_eq!(records, again);
    assert_eq!(whole.digest(), sliced.digest());
}

#[test]
fn node_dispatch_sends_first_copies_first() {
    let edges: Vec<(u32, u32)> = (1..=8).map(|peer| (0, peer)).collect();
    let mut sim = network_with(config(50, bare(None)), hosts(9, 8 * MBIT), &edges, Dispatch::Node, 1);
    let schedule = Schedule::INTERLEAVED;
    sim.command(
        Time::from_secs(1),
        0,
        Say::Batch { hosts: (1..=8).collect(), messages: 8, len: 1000, schedule },
    );
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    assert_eq!(heard.len(), 64);
    for round in heard.chunks(8) {
        let mut ids: Vec<u64> = round.iter().map(|(.., id)| *id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..8).collect::<Vec<_>>());
    }
}
