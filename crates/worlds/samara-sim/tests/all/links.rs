//! Links that come up and go down, and hosts that fail.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{Partition, SendBuffer, SimConfig, Simulation, TcpConfig, Transport};

type Logged = (f64, u32, Heard);

fn events(sim: &mut Simulation<Talker>, until: u64) -> Vec<Logged> {
    run(sim, Time::from_secs(until)).into_iter().map(|r| (r.at.as_millis_f64(), r.host, r.event)).collect()
}

/// Returns the times at which links came up. The next functions do the same for links that went
/// down and for blobs.
fn ups(events: &[Logged]) -> Vec<f64> {
    events.iter().filter(|(.., event)| matches!(event, Heard::Up { .. })).map(|(at, ..)| *at).collect()
}

fn downs(events: &[Logged]) -> Vec<f64> {
    events.iter().filter(|(.., event)| matches!(event, Heard::Down { .. })).map(|(at, ..)| *at).collect()
}

fn blobs(events: &[Logged]) -> Vec<f64> {
    events.iter().filter(|(.., event)| matches!(event, Heard::Blob { .. })).map(|(at, ..)| *at).collect()
}

fn tcp() -> SimConfig {
    config(50, Transport::tcp())
}

/// Returns two hosts that cannot reach each other for a while.
fn parted(transport: Transport, from: Time, until: Time) -> SimConfig {
    let mut config = config(50, transport);
    config.network.partitions = vec![Partition { from, until, group_of: vec![0, 1] }];
    config
}

/// Returns two hosts, with or without a link.
fn two(config: SimConfig, edges: &[(u32, u32)]) -> Simulation<Talker> {
    network(config, hosts(2, 1000 * MBIT), edges)
}

#[test]
fn dial_takes_its_round_trips() {
    let mut sim = two(tcp(), &[]);
    sim.dial(Time::from_secs(1), 0, 1);
    let events = events(&mut sim, 3);
    assert_eq!(events.len(), 2);
    assert!((events[0].0 - 1400.0).abs() < 0.1, "the dialler is up after four round trips: {events:?}");
    assert_eq!(events[0].2, Heard::Up { peer: 1, outbound: true });
    assert!((events[1].0 - 1450.0).abs() < 0.1);
    assert_eq!(events[1].2, Heard::Up { peer: 0, outbound: false });
}

/// Either side repeats what it sent last: after a round trip of 100 ms and twice as much.
#[test]
fn lost_steps_of_a_handshake_are_repeated() {
    // The dialler sends the even steps from 1 s on, every 100 ms.
    for (lost, dialler, listener) in [
        (1100, 1700.0, 1750.0),
        (1150, 1700.0, 1750.0),
        (1300, 1700.0, 1750.0),
        // The last step, which only the listener misses.
        (1400, 1400.0, 1750.0),
    ] {
        let config = parted(Transport::tcp(), Time::from_millis(lost - 10), Time::from_millis(lost + 10));
        let mut sim = two(config, &[]);
        sim.dial(Time::from_secs(1), 0, 1);
        let events = events(&mut sim, 5);
        let ups: Vec<_> = events.iter().map(|(at, host, event)| (at.round(), *host, event.clone())).collect();
        let up = |at: f64, host, outbound| (at, host, Heard::Up { peer: 1 - host, outbound });
        let mut expected = vec![up(dialler, 0, true), up(listener, 1, false)];
        expected.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert_eq!(ups, expected, "what is sent at {lost} ms is lost");
    }
}

/// The timers of the process before never fire for the new one.
#[test]
fn restarted_host_retransmits_losses() {
    for transport in [Transport::tcp(), Transport::quic()] {
        let mut sim = two(parted(transport, Time::from_millis(4990), Time::from_millis(5200)), &[(0, 1)]);
        for host in [0, 1] {
            sim.command(Time::from_secs(1), host, Say::To { hosts: vec![1 - host], id: 1, len: 5000 });
        }
        sim.crash(Time::from_millis(1060), 0, false);
        sim.restart(Time::from_secs(2), 0);
        sim.command(Time::from_secs(5), 0, Say::To { hosts: vec![1], id: 2, len: 5000 });
        let events = events(&mut sim, 30);
        let again = events.iter().any(|(.., event)| *event == Heard::Blob { from: 0, id: 2 });
        assert!(again, "{events:?}");
    }
}

#[test]
fn simultaneous_dials_bring_up_one_link() {
    for offset in [0, 10, 50, 99, 100, 101, 300] {
        let mut sim = two(tcp(), &[]);
        sim.dial(Time::from_secs(1), 1, 0);
        sim.dial(Time::from_millis(1000 + offset), 0, 1);
        sim.command(Time::from_secs(3), 0, Say::To { hosts: vec![1], id: 1, len: 5000 });
        sim.command(Time::from_secs(3), 1, Say::To { hosts: vec![0], id: 2, len: 5000 });
        let events = events(&mut sim, 10);
        assert_eq!((ups(&events).len(), blobs(&events).len()), (2, 2), "offset {offset}: {events:?}");
    }
}

#[test]
fn lossy_handshake_succeeds_or_fails_cleanly() {
    for seed in 0..60 {
        let mut config = tcp();
        config.seed = seed;
        config.network.loss = 0.3;
        let mut sim = two(config, &[]);
        sim.dial(Time::from_secs(1), 0, 1);
        sim.command(Time::from_secs(100), 0, Say::To { hosts: vec![1], id: 1, len: 5000 });
        let events = events(&mut sim, 300);
        let failed = events.iter().any(|(.., event)| matches!(event, Heard::DialFailed { .. }));
        assert!(failed == blobs(&events).is_empty(), "seed {seed}: {events:?}");
    }
}

#[test]
fn dial_of_a_dead_host_fails_after_all_attempts() {
    let mut sim = two(tcp(), &[]);
    sim.crash(Time::from_millis(500), 1, true);
    sim.dial(Time::from_secs(1), 0, 1);
    let events = events(&mut sim, 100);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].2, Heard::DialFailed { peer: 1 });
    // 1 + 2 + 4 + 8 + 16 + 32 seconds of waiting.
    assert!((events[0].0 - 64_000.0).abs() < 1.0, "{events:?}");
}

/// An operating system without the process answers; a dead host and a QUIC host do not.
#[test]
fn dial_of_a_crashed_process_is_refused() {
    let failed_after = |transport: Transport, silent: bool| {
        let mut sim = two(config(50, transport), &[]);
        sim.crash(Time::from_millis(500), 1, silent);
        sim.dial(Time::from_secs(1), 0, 1);
        let events = events(&mut sim, 100);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].2, Heard::DialFailed { peer: 1 });
        events[0].0 - 1000.0
    };
    assert!((failed_after(Transport::tcp(), false) - 100.0).abs() < 1.0);
    assert!(failed_after(Transport::tcp(), true) > 60_000.0);
    assert!(failed_after(Transport::quic(), false) > 60_000.0);
    // A restarted process is reachable again.
    let mut sim = two(tcp(), &[]);
    sim.crash(Time::from_millis(500), 1, false);
    sim.dial(Time::from_secs(1), 0, 1);
    sim.restart(Time::from_secs(2), 1);
    sim.dial(Time::from_secs(3), 0, 1);
    let events = events(&mut sim, 10);
    assert_eq!((events.len(), ups(&events).len()), (3, 2), "{events:?}");
}

/// A link that the scenario brings up finds one host crashed: the other one learns it, and the
/// crashed one dials when it returns.
#[test]
fn link_to_a_crashed_host_comes_up_when_it_returns() {
    for silent in [false, true] {
        let mut sim = two(tcp(), &[]);
        sim.crash(Time::from_millis(500), 1, silent);
        sim.establish(Time::from_secs(1), 0, 1);
        sim.restart(Time::from_secs(2), 1);
        let events = events(&mut sim, 200);
        let of = |host: u32| -> Vec<&Heard> {
            events.iter().filter(|(_, at, _)| *at == host).map(|(.., event)| event).collect()
        };
        assert_eq!(of(1), [&Heard::Up { peer: 0, outbound: true }], "silent: {silent}, {events:?}");
        assert!(matches!(of(0).last(), Some(Heard::Up { peer: 1, outbound: false })), "{events:?}");
    }
}

/// A dial whose first packet was lost waits for seconds. Packets of the other side in the meantime
/// show that the way is open.
#[test]
fn dial_from_the_other_side_ends_the_wait_of_a_lost_one() {
    for first in [0, 1] {
        let mut sim = two(parted(Transport::tcp(), Time::ZERO, Time::from_secs(8)), &[]);
        // Its packets leave at 0.5, 1.5, 3.5, 7.5 and 15.5 s.
        sim.dial(Time::from_millis(500), first, 1 - first);
        sim.dial(Time::from_secs(9), 1 - first, first);
        let events = events(&mut sim, 30);
        assert_eq!(ups(&events).len(), 2, "{events:?}");
        assert!(ups(&events).iter().all(|at| *at < 9_600.0), "{events:?}");
    }
}

/// A host that answered an unfinished dial can dial itself.
#[test]
fn unfinished_dial_does_not_block_a_dial_back() {
    let mut sim = two(parted(Transport::tcp(), Time::from_millis(1060), Time::from_millis(2500)), &[]);
    sim.command(Time::from_secs(1), 0, Say::Dial(1));
    sim.crash(Time::from_millis(1200), 0, true);
    sim.restart(Time::from_millis(2600), 0);
    sim.command(Time::from_secs(3), 1, Say::Dial(0));
    let events = events(&mut sim, 30);
    assert_eq!(ups(&events).len(), 2, "{events:?}");
    assert!(ups(&events).iter().all(|at| *at < 3_600.0), "{events:?}");
}

#[test]
fn both_ends_notice_a_close() {
    let mut sim = two(config(50, bare(None)), &[(0, 1)]);
    sim.command(Time::from_secs(1), 0, Say::Close(1));
    sim.command(Time::from_secs(2), 0, Say::Dial(1));
    let events = events(&mut sim, 5);
    let downs = downs(&events);
    assert_eq!(downs.len(), 2);
    assert!((downs[0] - 1000.0).abs() < 0.1 && (downs[1] - 1050.0).abs() < 0.1);
    let again = ups(&events).into_iter().filter(|at| *at > 1500.0).count();
    assert_eq!(again, 2, "the second incarnation comes up");
}

#[test]
fn peers_notice_a_crashed_process_at_once_and_a_dead_host_after_a_timeout() {
    for (silent, expected) in [(false, 1050.0), (true, 41_050.0)] {
        let mut sim = network(config(50, bare(None)), hosts(3, 1000 * MBIT), &[(0, 1), (1, 2)]);
        sim.crash(Time::from_secs(1), 1, silent);
        let events = events(&mut sim, 60);
        assert_eq!(downs(&events).len(), 2, "{events:?}");
        assert!(downs(&events).iter().all(|at| (at - expected).abs() < 1.0), "{events:?}");
    }
}

#[test]
fn restarted_host_has_a_new_node() {
    let mut sim = network(tcp(), hosts(3, 1000 * MBIT), &[(0, 1), (1, 2)]);
    sim.crash(Time::from_secs(1), 1, false);
    // This command is lost: the process is down.
    sim.command(Time::from_secs(2), 1, Say::To { hosts: vec![0], id: 1, len: 100 });
    sim.restart(Time::from_secs(3), 1);
    sim.command(Time::from_secs(5), 1, Say::To { hosts: vec![0, 2], id: 2, len: 100 });
    let events = events(&mut sim, 10);
    let ids = |id| events.iter().filter(|(.., event)| *event == Heard::Blob { from: 1, id }).count();
    assert_eq!((blobs(&events).len(), ids(2)), (2, 2), "{events:?}");
}

#[test]
fn silent_restart_before_the_peers_notice_replaces_the_link() {
    let mut sim = two(tcp(), &[(0, 1)]);
    sim.crash(Time::from_secs(1), 1, true);
    sim.restart(Time::from_secs(3), 1);
    sim.command(Time::from_secs(6), 0, Say::To { hosts: vec![1], id: 2, len: 100 });
    let events = events(&mut sim, 60);
    assert!(events.iter().any(|(_, host, event)| *host == 1 && matches!(event, Heard::Blob { id: 2, .. })));
    assert_eq!(downs(&events).len(), 1, "the late notice of the first incarnation has no effect: {events:?}");
}

#[test]
fn links_survive_a_short_partition_but_not_a_long_one() {
    for (seconds, broken) in [(5, false), (200, true)] {
        let config = parted(Transport::tcp(), Time::from_secs(2), Time::from_secs(2 + seconds));
        let mut sim = two(config, &[(0, 1)]);
        sim.command(Time::from_secs(3), 0, Say::To { hosts: vec![1], id: 1, len: 50_000 });
        let events = events(&mut sim, 400);
        let arrived = !blobs(&events).is_empty();
        let down = events.iter().any(|(_, host, event)| *host == 0 && matches!(event, Heard::Down { .. }));
        assert_eq!((arrived, down), (!broken, broken), "{seconds} s: {events:?}");
        assert!(sim.stats(0).drops.partition.packets > 0);
    }
}

#[test]
fn timers_fire_and_rates_change_at_their_time() {
    let mut sim = network(config(50, bare(None)), hosts(2, 8 * MBIT), &[(0, 1)]);
    sim.command(Time::from_secs(1), 0, Say::Remind(Duration::from_millis(1234)));
    sim.set_rates(Time::from_secs(3), 0, 80 * MBIT, 8 * MBIT);
    sim.command(Time::from_secs(4), 0, Say::To { hosts: vec![1], id: 1, len: 10_000 });
    let events = events(&mut sim, 10);
    let reminder = events.iter().find(|(.., event)| *event == Heard::Reminder).unwrap();
    assert!((reminder.0 - 2234.0).abs() < 0.001);
    // The first of ten segments now takes a tenth of a millisecond on the uplink, and the
    // receiver's downlink takes a millisecond for each.
    assert_close(blobs(&events)[0], 4059.1, &());
}

/// A frame of another lane waits behind the data in the kernel, which are few if only unsent bytes
/// are limited.
#[test]
fn limit_on_unsent_bytes_keeps_waits_in_the_kernel_short() {
    let waited = |send_buffer| {
        let tcp = TcpConfig { send_buffer, ..TcpConfig::default() };
        let mut sim = two_lanes(config(5, bare(Some(tcp))), hosts(2, 8 * MBIT), &[(0, 1)]);
        for id in 0..300 {
            let say = Say::On { lane: 1, host: 1, id, len: 10_000 };
            sim.command(Time::from_secs(1), 0, say);
        }
        sim.command(Time::from_secs(3), 0, Say::On { lane: 0, host: 1, id: 1_000, len: 100 });
        let events = events(&mut sim, 10);
        assert_eq!(blobs(&events).len(), 301, "everything arrives");
        let last = events.last().unwrap().0;
        assert!(last < 4_300.0, "the link never ran dry: {last}");
        let urgent = |(.., event): &&(f64, u32, Heard)| matches!(event, Heard::Blob { id: 1_000, .. });
        events.iter().find(urgent).unwrap().0 - 3_000.0
    };
    let auto = waited(SendBuffer::Auto { per_packet: 2_920, min: 16_384 });
    // At most 20 kB more, at 1 kB/ms, than the data that are on their way in any case.
    let bound = waited(SendBuffer::Unsent { bytes: 20_000 });
    assert!(bound < auto / 2.0, "{bound} ms with the limit, {auto} ms without");
}

/// The peer holds its end until the new connection comes. What was in flight is lost; what comes
/// after the new link is up arrives.
#[test]
fn link_is_lost_and_dialled_again_at_once() {
    for transport in [Transport::tcp(), Transport::quic(), Transport::ideal()] {
        for silent in [false, true] {
            let mut sim = two(config(50, transport.clone()), &[(0, 1)]);
            sim.command(Time::from_millis(1_990), 1, Say::To { hosts: vec![0], id: 1, len: 500 });
            sim.reconnect(Time::from_secs(2), 0, 1, silent);
            for (id, host) in [(2, 0), (3, 1)] {
                sim.command(Time::from_secs(3), host, Say::To { hosts: vec![1 - host], id, len: 500 });
            }
            let events = events(&mut sim, 30);
            let of = |host: u32, times: fn(&[Logged]) -> Vec<f64>| {
                let own: Vec<Logged> = events.iter().filter(|event| event.1 == host).cloned().collect();
                times(&own)
            };
            assert_eq!(of(0, downs), [2000.0], "{transport:?} {silent}");
            assert!((of(1, downs)[0] - 2050.0).abs() < 1.0 && of(1, downs).len() == 1, "{events:?}");
            assert!(of(0, ups)[1] > 2099.0 && of(1, ups)[1] > of(1, downs)[0], "{events:?}");
            let heard = events.iter().filter_map(|(.., event)| match event {
                Heard::Blob { from, id } => Some((*from, *id)),
                _ => None,
            });
            let mut heard: Vec<(u32, u64)> = heard.collect();
            heard.sort_unstable();
            assert_eq!(heard, [(0, 2), (1, 3)], "{transport:?} {silent}");
        }
    }
}

#[test]
fn peer_keeps_the_old_link_while_the_dial_is_lost() {
    let mut sim = two(tcp(), &[(0, 1)]);
    sim.cut(Time::from_millis(1_900), Time::from_millis(2_500), 0, 1);
    sim.reconnect(Time::from_secs(2), 0, 1, true);
    sim.command(Time::from_millis(2_800), 1, Say::To { hosts: vec![0], id: 1, len: 500 });
    let events = events(&mut sim, 30);
    let down = events.iter().find(|event| event.1 == 1 && matches!(event.2, Heard::Down { .. })).unwrap();
    // The second attempt of the dial leaves after a second.
    assert!((down.0 - 3_050.0).abs() < 1.0, "{events:?}");
    assert!(blobs(&events).is_empty() && ups(&events).len() == 4, "{events:?}");
}

#[test]
fn link_that_is_not_up_is_not_dialled_again() {
    let mut sim = two(tcp(), &[]);
    sim.reconnect(Time::from_secs(1), 0, 1, true);
    sim.dial(Time::from_secs(2), 0, 1);
    sim.crash(Time::from_secs(3), 0, false);
    sim.reconnect(Time::from_secs(4), 0, 1, true);
    let events = events(&mut sim, 30);
    assert_eq!(ups(&events).len(), 2, "{events:?}");
}

#[test]
fn cut_loses_one_direction_until_its_end() {
    for transport in [Transport::tcp(), Transport::quic()] {
        let mut sim = two(config(50, transport), &[(0, 1)]);
        sim.cut(Time::from_secs(1), Time::from_millis(1_400), 0, 1);
        sim.command(Time::from_millis(1_100), 0, Say::To { hosts: vec![1], id: 1, len: 500 });
        sim.command(Time::from_millis(1_100), 1, Say::To { hosts: vec![0], id: 2, len: 500 });
        let events = events(&mut sim, 30);
        assert!(downs(&events).is_empty());
        let at = |sought: u64| {
            let is_it = |event: &Heard| matches!(event, Heard::Blob { id, .. } if *id == sought);
            events.iter().find(|(.., event)| is_it(event)).map(|(at, ..)| *at).unwrap()
        };
        assert!(at(1) > 1_450.0 && at(2) < 1_160.0, "{events:?}");
        let partition = sim.stats(0).drops.partition;
        assert!(partition.packets > 0 && sim.stats(1).drops.partition.packets == 0);
    }
}
