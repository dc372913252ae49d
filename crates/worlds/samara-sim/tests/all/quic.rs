//! QUIC: times that can be computed by hand, and deliveries under loss.

use std::time::Duration;

use crate::common::*;
use samara_engine::outbox::Dispatch;
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{Control, Partition, QuicConfig, QuicSendBuffer, SimConfig, StreamOrder, Transport};

/// Acknowledges every packet at once, so that windows double exactly once in each round trip, and
/// does not pace.
fn quic() -> QuicConfig {
    QuicConfig {
        ack_every: 1,
        max_ack_delay: Duration::from_millis(25),
        pacing: false,
        send_buffer: QuicSendBuffer::Unacked { bytes: u64::MAX },
        ..QuicConfig::default()
    }
}

/// Sends frames from host 0 to host 1, at 8 Mbit/s (1 ms a packet) and 50 ms. Loses every packet
/// whose transmission starts within half a millisecond of one of the times in `lost`. Returns the
/// time at which each frame was heard, in ms after the start, and the sender's timeouts.
fn with_losses(quic: QuicConfig, frames: &[u32], lost: &[f64]) -> (Vec<(f64, u64)>, u64) {
    let mut config = config(50, bare_quic(quic));
    config.network.partitions = lost
        .iter()
        .map(|at| Partition {
            from: START + Duration::from_secs_f64((at - 0.5) / 1000.0),
            until: START + Duration::from_secs_f64((at + 0.5) / 1000.0),
            group_of: vec![0, 1],
        })
        .collect();
    let mut sim = pair(config, 8);
    (transfer(&mut sim, frames), sim.stats(0).timeouts)
}

fn assert_heard(found: &[(f64, u64)], expected: &[(f64, u64)]) {
    let close = found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a.0 - b.0).abs() < 0.01 && a.1 == b.1);
    assert!(close, "{found:?}, not {expected:?}");
}

#[test]
fn slow_start_doubles_in_each_round_trip() {
    for (packets, round_trips) in
        [(1, 0), (10, 0), (11, 1), (30, 1), (31, 2), (70, 2), (71, 3), (150, 3), (151, 4)]
    {
        let mut sim = pair(config(50, bare_quic(quic())), 1_000_000);
        let took = one(&mut sim, packets * 1000);
        assert_close(took, f64::from(round_trips) * 100.0 + 50.0, &packets);
        assert_eq!(sim.stats(0).sent.packets, u64::from(packets));
    }
}

#[test]
fn paced_window_leaves_at_five_quarters_of_its_rate() {
    let quic = QuicConfig { pacing: true, ..quic() };
    // Ten packets are acknowledged after a round trip, which makes room for twenty. Ten leave at
    // once, and ten more when the bucket is full again, after 10 / (1.25 * 20) of a round trip.
    for (packets, expected) in [(10, 50.0), (20, 150.0), (30, 190.0)] {
        let took = one(&mut pair(config(50, bare_quic(quic)), 1_000_000), packets * 1000);
        assert_close(took, expected, &packets);
    }
}

#[test]
fn paced_link_takes_frames_again_after_its_wait() {
    // Node dispatch: the second frame is requested when there is room.
    let quic = QuicConfig { pacing: true, ..quic() };
    let hosts = hosts(2, 1_000_000 * MBIT);
    let mut sim = network_with(config(50, bare_quic(quic)), hosts, &[(0, 1)], Dispatch::Node, 1);
    assert_heard(&transfer(&mut sim, &[10_000; 3]), &[(50.0, 0), (150.0, 1), (190.0, 2)]);
}

#[test]
fn acknowledgements_come_after_two_packets_or_the_delay() {
    let quic = QuicConfig { ack_every: 2, ..quic() };
    for (packets, acks, last) in [(8, 4, 50.0), (9, 5, 75.0), (1, 1, 75.0)] {
        let mut sim = pair(config(50, bare_quic(quic)), 1_000_000);
        sim.command(START, 0, Say::To { hosts: vec![1], id: 7, len: packets * 1000 });
        run(&mut sim, START + Duration::from_secs_f64((last - 0.01) / 1000.0));
        assert!(
            sim.stats(1).sent.packets < acks,
            "{packets} packets: the last acknowledgement came too soon"
        );
        run(&mut sim, START + Duration::from_secs_f64((last + 0.01) / 1000.0));
        assert_eq!(sim.stats(1).sent.packets, acks, "{packets} packets");
        run(&mut sim, Time::from_secs(30));
        assert_eq!((sim.stats(1).sent.packets, sim.stats(0).timeouts), (acks, 0));
    }
}

#[test]
fn packet_is_lost_once_three_later_ones_arrived() {
    // The packet of 2 ms is lost. The packet of 5 ms is acknowledged at 106 ms, and the lost one
    // leaves again.
    let (heard, timeouts) = with_losses(quic(), &[10_000], &[2.0]);
    assert_heard(&heard, &[(106.0 + 1.0 + 50.0, 0)]);
    assert_eq!(timeouts, 0);
}

#[test]
fn overtaken_packet_is_lost_after_nine_eighths_of_a_round_trip() {
    // Only two packets follow the lost one; round trips are 101 ms.
    let (heard, timeouts) = with_losses(quic(), &[5_000], &[2.0]);
    assert_heard(&heard, &[(2.0 + 101.0 * 9.0 / 8.0 + 1.0 + 50.0, 0)]);
    assert_eq!(timeouts, 0);
}

#[test]
fn probe_repairs_a_lost_tail() {
    // Four samples of 101 ms leave a variation of 101/2 * (3/4)^3.
    let timeout = 101.0 + 4.0 * 101.0 / 2.0 * 0.75f64.powi(3) + 25.0;
    let (heard, timeouts) = with_losses(quic(), &[5_000], &[4.0]);
    assert_heard(&heard, &[(4.0 + timeout + 1.0 + 50.0, 0)]);
    assert_eq!(timeouts, 1);
    // Both probes are lost too (the first one has the data, the second one is a PING, which takes
    // no time here). The next two come after twice the time.
    let (heard, timeouts) = with_losses(quic(), &[5_000], &[4.0, 4.0 + timeout, 4.0 + timeout + 1.0]);
    let last_sent = 4.0 + timeout + 1.0;
    assert_heard(&heard, &[(last_sent + 2.0 * timeout + 1.0 + 50.0, 0)]);
    assert_eq!(timeouts, 2);
}

#[test]
fn lost_packet_delays_later_frames_only_on_a_single_stream() {
    let repaired = 106.0 + 1.0 + 50.0;
    let (single, _) = with_losses(quic(), &[5_000, 5_000], &[2.0]);
    assert_heard(&single, &[(repaired, 0), (repaired, 1)]);
    let per_frame = QuicConfig { streams: StreamOrder::PerFrame, ..quic() };
    let (per_frame, _) = with_losses(per_frame, &[5_000, 5_000], &[2.0]);
    assert_heard(&per_frame, &[(10.0 + 50.0, 1), (repaired, 0)]);
}

#[test]
fn idle_connection_keeps_its_window() {
    let mut sim = pair(config(50, bare_quic(quic())), 1_000_000);
    sim.command(START, 0, Say::To { hosts: vec![1], id: 1, len: 150_000 });
    sim.command(Time::from_secs(10), 0, Say::To { hosts: vec![1], id: 2, len: 70_000 });
    let heard = heard(&run(&mut sim, Time::from_secs(12)));
    assert!(close_to(heard[1].0, 10_050.0), "{}", heard[1].0);
}

#[test]
fn receive_window_limits_the_rate() {
    for streams in [StreamOrder::Single, StreamOrder::PerFrame] {
        let quic = QuicConfig { receive_window: 10, streams, ..quic() };
        let took = one(&mut pair(config(50, bare_quic(quic)), 1_000_000), 100_000);
        assert_close(took, 9.0 * 100.0 + 50.0, &streams);
    }
}

#[test]
fn buffer_of_one_packet_keeps_the_uplink_busy() {
    // As in quic-go, the next frame is written when less than a packet of the one before is left.
    let quic = QuicConfig { send_buffer: QuicSendBuffer::Unsent { bytes: 1000 }, ..quic() };
    let heard = transfer(&mut pair(config(50, bare_quic(quic)), 8), &[1_500; 5]);
    let expected: Vec<_> = (0..5).map(|id| (1.5 * (id + 1) as f64 + 50.0, id)).collect();
    assert_heard(&heard, &expected);
}

#[test]
fn dial_takes_two_round_trips() {
    let mut sim = network(config(50, Transport::quic()), hosts(2, 1_000_000 * MBIT), &[]);
    sim.dial(START, 0, 1);
    let records = run(&mut sim, Time::from_secs(3));
    let up: Vec<_> = records.iter().map(|record| (record.host, record.at)).collect();
    assert_eq!(up.len(), 2, "{records:?}");
    // The dialler is up when the second answer arrives, the listener when the dialler's next packet
    // arrives.
    assert!(up[0].0 == 0 && close_to(up[0].1, 1200.0), "{up:?}");
    assert!(up[1].0 == 1 && close_to(up[1].1, 1250.0), "{up:?}");
    // Three datagrams of at least 1,200 bytes.
    let sent = sim.stats(0).sent.bytes + sim.stats(1).sent.bytes;
    assert!(sent > 3 * 1228 && sent < 3 * 1228 + 1000, "{sent}");
}

#[test]
fn packets_and_windows_follow_from_the_payload() {
    for (payload, mss, initial) in [(1200, 1169, 10), (1452, 1421, 10), (1500, 1469, 9), (9000, 8969, 2)] {
        let transport = Transport::quic_with(payload);
        let Control::Quic(quic) = transport.control else { panic!("{transport:?}") };
        assert_eq!((transport.mss, quic.initial_window), (mss, initial), "{payload}");
        assert_eq!(quic.receive_window, 10 * 1024 * 1024 / mss);
        // IPv4 20 and UDP 8 around the payload.
        assert_eq!(transport.wire_bytes(mss), u64::from(payload) + 28);
        assert_eq!(transport.wire_bytes(mss + 1), u64::from(payload) + 28 + 59 + 1);
    }
}

/// A receiver of 20 packets lets 20 packets of 1,000 bytes come in a round trip of 100 ms, and doubles
/// its window as long as the sender uses it up: 20, 40, 80, ... up to 320. A fixed window of 20 takes
/// 50 round trips for a megabyte.
#[test]
fn receive_windows_grow_with_their_use() {
    let wide = QuicConfig { initial_window: 1_000, pacing: false, ..quic() };
    let took = |first, most| {
        let quic = QuicConfig { initial_receive_window: first, receive_window: most, ..wide };
        one(&mut pair(config(50, bare_quic(quic)), 10_000), 1_000_000)
    };
    let fixed = took(20, 20);
    assert!((4_900.0..5_100.0).contains(&fixed), "{fixed}");
    let growing = took(20, 320);
    assert!((450.0..900.0).contains(&growing), "{growing}");
    let open = took(2_000, 2_000);
    assert!((50.0..60.0).contains(&open), "{open}");
}

/// Links that count UDP payloads carry 28 bytes less for each packet.
#[test]
fn ip_headers_can_be_left_out() {
    let whole = Transport::quic_with(1280);
    let bare = Transport { header: whole.header - 28, ip_header: 0, ..whole.clone() };
    assert_eq!(whole.wire_bytes(10 * whole.mss), 10 * 1308);
    assert_eq!(bare.wire_bytes(10 * bare.mss), 10 * 1280);
    let times = [whole, bare].map(|transport| {
        let quic = QuicConfig { initial_window: 1_000, pacing: false, ..quic() };
        let transport = Transport { control: Control::Quic(quic), ..transport };
        let len = 100 * transport.mss;
        one(&mut pair(config(20, transport), 10), len)
    });
    assert_close(times[0] - 20.0, 100.0 * 1308.0 * 8.0 / 10_000.0, &"with headers");
    assert_close(times[1] - 20.0, 100.0 * 1280.0 * 8.0 / 10_000.0, &"without");
}

/// Returns a lossy path with jitter, and a hundred frames of mixed sizes.
fn lossy(seed: u64, streams: StreamOrder, loss: f64) -> (SimConfig, Vec<u32>) {
    // Half of the paths as in quic-go, with small windows that grow.
    let of_go = QuicConfig { initial_receive_window: 30, ..QuicConfig::quic_go(1452) };
    let base = if seed.is_multiple_of(2) { QuicConfig::default() } else { of_go };
    let quic = QuicConfig { streams, ..base };
    let mut config = config(20, Transport { control: Control::Quic(quic), ..Transport::quic() });
    config.seed = seed;
    config.network.loss = loss;
    config.network.jitter = Duration::from_millis(seed % 7);
    config.transport.dead_peer_timeout = Duration::from_secs(3600);
    let mut rng = NodeRng::new(seed, 0, Purpose::Engine);
    let lens = (0..100).map(|_| 50 + rng.below(40_000) as u32).collect();
    (config, lens)
}

#[test]
fn frames_arrive_exactly_once_despite_losses() {
    let mut sent_again = 0;
    for seed in 0..40 {
        for streams in [StreamOrder::Single, StreamOrder::PerFrame] {
            let loss = [0.001, 0.01, 0.05, 0.2][seed as usize % 4];
            let (config, lens) = lossy(seed, streams, loss);
            let mut sim = pair(config, 20);
            for (id, len) in (0..).zip(&lens) {
                // In both directions, so that data also carry acknowledgements.
                let at = Time::from_millis(1000 + 3 * id);
                sim.command(at, 0, Say::To { hosts: vec![1], id, len: *len });
                sim.command(at, 1, Say::To { hosts: vec![0], id, len: *len / 3 + 1 });
            }
            let heard = heard(&run(&mut sim, Time::from_secs(900)));
            for host in [0, 1] {
                let mut ids: Vec<u64> =
                    heard.iter().filter(|(_, at, _)| *at == host).map(|(.., id)| *id).collect();
                if streams == StreamOrder::PerFrame {
                    ids.sort_unstable();
                }
                let stats = sim.stats(1 - host);
                assert_eq!(ids, (0..100).collect::<Vec<_>>(), "seed {seed}, {streams:?}: {stats:?}");
                sent_again += stats.retransmitted.packets;
                assert!(
                    loss > 0.01 || stats.retransmitted.packets <= 4 * stats.drops.random.packets + 8,
                    "seed {seed}: too many packets are sent again that arrived: {stats:?}"
                );
            }
        }
    }
    assert!(sent_again > 10_000, "{sent_again}");
}

#[test]
fn frames_on_separate_streams_overtake_each_other() {
    let mut overtaken = 0;
    for seed in 0..8 {
        let (config, lens) = lossy(seed, StreamOrder::PerFrame, 0.02);
        let heard = transfer(&mut pair(config, 20), &lens);
        overtaken += heard.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    }
    assert!(overtaken > 20, "{overtaken}");
}

/// The law of Mathis et al. as in the tests of TCP, without the first slow start.
#[test]
fn throughput_under_random_loss_follows_the_square_root_law() {
    for loss in [0.0005, 0.002, 0.005] {
        let mut config = config(25, bare_quic(quic()));
        config.network.loss = loss;
        let heard = transfer(&mut pair(config, 100_000), &[60_000_000; 2]);
        let seconds = (heard[1].0 - heard[0].0) / 1000.0;
        let ratio = 60_000.0 / seconds / (1.0 / 0.05 * (1.5f64 / loss).sqrt());
        assert!((0.7..1.25).contains(&ratio), "loss {loss}: {ratio:.2} of the law");
    }
}

#[test]
fn link_to_a_vanished_peer_closes_after_the_idle_timeout() {
    let mut config = config(50, Transport::quic());
    config.transport.dead_peer_timeout = Duration::from_secs(30);
    config.network.partitions = vec![Partition { from: START, until: Time::MAX, group_of: vec![0, 1] }];
    let mut sim = pair(config, 20);
    sim.command(START, 0, Say::To { hosts: vec![1], id: 1, len: 1000 });
    let records = run(&mut sim, Time::from_secs(200));
    let down = records.iter().find(|record| record.host == 0 && record.event == Heard::Down { peer: 1 });
    let after = down.expect("the link stays up").at.as_secs_f64() - 1.0;
    // Probe timeouts double from 1.02 s, and the link goes down with the first one after 30 s.
    assert!((30.0..100.0).contains(&after), "{after} s");
}
