//! Datagrams: no window, no repair, and every lost frame is counted.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{DownlinkQueue, Framing, HostStats, Simulation, Transport};

/// Datagrams of 1,000 bytes without headers, to keep closed forms short.
fn udp() -> Transport {
    Transport { mss: 1000, header: 0, ..Transport::udp() }
}

/// Returns the frames that the first host sent, and those that the second one received and missed.
fn frames(sim: &Simulation<Talker>) -> (u64, u64, u64) {
    let there: &HostStats = sim.stats(1);
    (sim.stats(0).frames_sent.frames, there.frames_received.frames, there.frames_lost)
}

#[test]
fn transfer_takes_serialisation_plus_latency_at_any_rate() {
    // 2,000 fragments of 1,000 bytes: no window holds them back, at 8 or at 80 Mbit/s.
    for (mbit, millis) in [(8, 2000.0), (80, 200.0)] {
        assert_close(one(&mut pair(config(50, udp()), mbit), 2_000_000), millis + 50.0, &mbit);
    }
}

#[test]
fn every_datagram_has_its_headers() {
    // 1,452 bytes of UDP payload hold 24 bytes of numbers and tag, and 1,428 bytes of the frame.
    let mut sim = pair(config(50, Transport::udp()), 8);
    one(&mut sim, 3 * 1428 + 1);
    let sent = sim.stats(0).sent;
    assert_eq!((sent.packets, sent.bytes), (4, 3 * 1428 + 1 + 4 * (20 + 8 + 24)));
    assert_eq!(u64::from(4u8) * 52 + 3 * 1428 + 1, Transport::udp().wire_bytes(3 * 1428 + 1));
    assert_eq!(sim.stats(1).sent.packets, 0, "nothing is acknowledged");
}

/// A frame of three fragments arrives with the probability that all of them do.
#[test]
fn lost_fragment_loses_its_frame_and_no_other() {
    let mut config = config(20, udp());
    config.network.loss = 0.05;
    config.network.jitter = Duration::from_millis(3);
    let mut sim = pair(config, 100);
    for id in 0..4000 {
        sim.command(Time::from_millis(1000 + id), 0, Say::To { hosts: vec![1], id, len: 2_500 });
    }
    let ids: Vec<u64> = heard(&run(&mut sim, Time::from_secs(10))).iter().map(|(.., id)| *id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "frames arrive once and in order");
    let share = ids.len() as f64 / 4000.0;
    assert!((share - 0.95f64.powi(3)).abs() < 0.02, "{share}");
    let (sent, received, lost) = frames(&sim);
    assert_eq!((sent, received), (4000, ids.len() as u64));
    // The loss of the last frames may have no later datagram that shows it.
    assert!((0..4).contains(&(sent - received - lost)), "{sent} = {received} + {lost}");
    assert_eq!(sim.stats(0).retransmitted.packets, 0);
}

#[test]
fn overload_of_a_downlink_drops_frames_and_counts_them() {
    let mut config = config(50, udp());
    config.downlink_queue = DownlinkQueue::DropTail { bytes: 30_000 };
    let mut hosts = hosts(2, 800 * MBIT);
    hosts[1].downlink_bps = 80 * MBIT;
    let mut sim = network(config, hosts, &[(0, 1)]);
    for id in 0..100 {
        sim.command(START, 0, Say::To { hosts: vec![1], id, len: 10_000 });
    }
    // It arrives alone, and shows all losses before it.
    sim.command(Time::from_secs(2), 0, Say::To { hosts: vec![1], id: 100, len: 1 });
    run(&mut sim, Time::from_secs(3));
    let (sent, received, lost) = frames(&sim);
    assert!(lost > 10 && received > 1, "{received} received, {lost} lost");
    assert_eq!(sent, received + lost);
    assert!(sim.stats(1).drops.downlink_full.packets >= lost);
}

/// A closing datagram can be lost. The peer then waits for its timeout.
#[test]
fn lost_farewell_is_noticed_after_the_timeout() {
    let mut config = config(20, udp());
    config.network.loss = 0.5;
    config.transport.dead_peer_timeout = Duration::from_secs(7);
    let closed = |seed: u64| {
        let mut config = config.clone();
        config.seed = seed;
        let mut sim = pair(config, 100);
        sim.command(START, 0, Say::Close(1));
        let records = run(&mut sim, Time::from_secs(20));
        let (sent, there) = (sim.stats(0).sent.packets, sim.stats(1).received.packets);
        assert_eq!(sent, there + sim.stats(0).drops.random.packets, "seed {seed}");
        let down = records.iter().find(|record| record.host == 1 && record.event == Heard::Down { peer: 0 });
        down.map(|record| record.at.as_nanos() / 1_000_000)
    };
    let mut times: Vec<Option<u64>> = (0..20).map(closed).collect();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times, [Some(1020), Some(8020)]);
}

#[test]
fn fragments_need_plain_framing() {
    let transport = Transport { framing: Framing::NOISE_YAMUX, ..Transport::udp() };
    let error = Simulation::new(
        config(50, transport),
        hosts(2, MBIT),
        talkers(samara_engine::outbox::Dispatch::PerLink, 1),
    );
    let error = error.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("the framing of datagrams must be plain"), "{error}");
}
