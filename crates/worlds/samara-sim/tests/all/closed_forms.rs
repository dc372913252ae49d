//! Transfers whose times can be computed by hand.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{NicDiscipline, SendBuffer, TcpConfig};

/// Acknowledges every packet at once, so that windows double exactly once in each round trip.
fn tcp() -> TcpConfig {
    TcpConfig {
        delayed_ack: Duration::from_micros(1),
        ack_every: 1,
        idle_restart: false,
        send_buffer: SendBuffer::Fixed { bytes: u64::MAX },
        ..TcpConfig::default()
    }
}

#[test]
fn ideal_transfer_takes_serialisation_plus_latency() {
    // 25 segments of 1,000 bytes at 8 Mbit/s: 1 ms each.
    assert_close(one(&mut pair(config(50, bare(None)), 8), 25_000), 25.0 + 50.0, &());
}

#[test]
fn slow_start_doubles_in_each_round_trip() {
    // Windows of 10, 20, 40 ... segments; the rate is so high that serialisation hardly counts.
    for (segments, round_trips) in
        [(1, 0), (10, 0), (11, 1), (30, 1), (31, 2), (70, 2), (71, 3), (150, 3), (151, 4)]
    {
        let took = one(&mut pair(config(50, bare(Some(tcp()))), 1_000_000), segments * 1000);
        assert_close(took, f64::from(round_trips) * 100.0 + 50.0, &segments);
    }
}

#[test]
fn delayed_acknowledgements_do_not_slow_the_doubling() {
    // The window grows by the number of acknowledged packets, not of acknowledgements (RFC 3465),
    // but the last odd packet of a flight waits for the timer.
    let tcp = TcpConfig { ack_every: 2, delayed_ack: Duration::from_millis(5), ..tcp() };
    assert_close(one(&mut pair(config(50, bare(Some(tcp))), 1_000_000), 70_000), 250.0, &());
}

#[test]
fn window_larger_than_the_path_keeps_the_uplink_busy() {
    // 8 Mbit/s and a round trip of 100 ms are 100 segments in flight. Once the window is that
    // large, the rate is the uplink's.
    let took = one(&mut pair(config(50, bare(Some(tcp()))), 8), 2_000_000);
    // A round trip is 100 ms and 1 ms for the segment that is acknowledged first. Of it, the rounds
    // of 10, 20, 40 and 80 segments leave 91, 81, 61 and 21 ms unused.
    assert_close(took, 2000.0 + 91.0 + 81.0 + 61.0 + 21.0 + 50.0, &());
}

#[test]
fn shared_uplink_serves_all_links_in_turn() {
    let mut sim = network(config(50, bare(None)), hosts(5, 8 * MBIT), &[(0, 1), (0, 2), (0, 3), (0, 4)]);
    sim.command(START, 0, Say::To { hosts: vec![1, 2, 3, 4], id: 7, len: 25_000 });
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    // The last segments of the four leave one after the other at the very end.
    for (i, (at, ..)) in heard.iter().enumerate() {
        assert!(close_to(*at, 1000.0 + (97.0 + i as f64 + 50.0)), "{i}: {at}");
    }
}

#[test]
fn fifo_uplink_serves_writes_in_order() {
    let mut config = config(50, bare(None));
    config.nic = NicDiscipline::Fifo;
    let mut sim = network(config, hosts(5, 8 * MBIT), &[(0, 1), (0, 2), (0, 3), (0, 4)]);
    sim.command(START, 0, Say::To { hosts: vec![3, 1, 2, 4], id: 7, len: 25_000 });
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    let order: Vec<u32> = heard.iter().map(|(_, host, _)| *host).collect();
    assert_eq!(order, [3, 1, 2, 4]);
    for (i, (at, ..)) in heard.iter().enumerate() {
        assert!(close_to(*at, 1000.0 + (25.0 * (i + 1) as f64 + 50.0)), "{i}: {at}");
    }
}

#[test]
fn shared_downlink_serialises_all_arrivals() {
    let mut sim = network(config(50, bare(None)), hosts(5, 8 * MBIT), &[(1, 0), (2, 0), (3, 0), (4, 0)]);
    for host in 1..5 {
        sim.command(START, host, Say::To { hosts: vec![0], id: u64::from(host), len: 25_000 });
    }
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    assert_eq!(heard.len(), 4);
    // Four segments arrive in each millisecond and one leaves the queue in each millisecond; the
    // first is not stored.
    let last = heard.last().unwrap().0;
    assert!(close_to(last, 1000.0 + (1.0 + 99.0 + 50.0)), "{last}");
}

#[test]
fn slow_downlink_is_the_bottleneck_of_a_fast_uplink() {
    let mut hosts = hosts(2, 80 * MBIT);
    hosts[1].downlink_bps = 8 * MBIT;
    let took = one(&mut network(config(50, bare(None)), hosts, &[(0, 1)]), 100_000);
    assert_close(took, 0.1 + 99.0 + 50.0, &());
}

#[test]
fn chain_stores_and_forwards_at_every_node() {
    let edges: Vec<(u32, u32)> = (0..9).map(|i| (i, i + 1)).collect();
    let mut sim = network(config(20, bare(None)), hosts(10, 8 * MBIT), &edges);
    sim.command(START, 0, Say::Along { route: (1..10).collect(), id: 7, len: 5_000 });
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    assert_eq!(heard.len(), 9);
    for (hop, (at, host, _)) in heard.iter().enumerate() {
        let hops = (hop + 1) as f64;
        assert_eq!(*host as usize, hop + 1);
        assert!(close_to(*at, 1000.0 + (hops * (5.0 + 20.0))), "{hop}: {at}");
    }
}

#[test]
fn idle_connection_falls_back_towards_the_initial_window() {
    for (idle_restart, round_trips) in [(false, 0.0), (true, 2.0)] {
        let tcp = TcpConfig { idle_restart, ..tcp() };
        let mut sim = pair(config(50, bare(Some(tcp))), 1_000_000);
        sim.command(START, 0, Say::To { hosts: vec![1], id: 1, len: 150_000 });
        sim.command(Time::from_secs(10), 0, Say::To { hosts: vec![1], id: 2, len: 70_000 });
        let heard = heard(&run(&mut sim, Time::from_secs(12)));
        let took = heard[1].0.as_millis_f64() - 10_000.0;
        assert!((took - (round_trips * 100.0 + 50.0)).abs() < 0.1, "idle restart {idle_restart}: {took} ms");
    }
}

#[test]
fn receive_window_limits_the_rate() {
    let tcp = TcpConfig { receive_window: 10, ..tcp() };
    let took = one(&mut pair(config(50, bare(Some(tcp))), 1_000_000), 100_000);
    assert_close(took, 9.0 * 100.0 + 50.0, &());
}

#[test]
fn latencies_below_the_floor_are_raised() {
    assert_close(one(&mut pair(config(0, bare(None)), 8_000_000), 1000), 0.05, &());
}
