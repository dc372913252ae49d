//! Connections with channels: times and bytes that can be computed by hand.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{
    DownlinkQueue, Flush, MConnectionConfig, SEALED_FRAME, SEALED_PLAINTEXT, SendBuffer, TcpConfig,
    message_bytes,
};

const THROTTLE: Flush = Flush::Throttle(Duration::from_millis(100));
/// One microsecond for each byte.
const SLOW: u64 = 8 * MBIT;
const FAST: u64 = 1_000_000 * MBIT;
/// The time of a sealed frame in a packet, at one microsecond for each byte.
const FRAME_MS: f64 = 1.084;
/// A window for all data that a flush can make at once.
fn wide() -> TcpConfig {
    let send_buffer = SendBuffer::Fixed { bytes: u64::MAX };
    TcpConfig { initial_window: 1000, idle_restart: false, send_buffer, ..TcpConfig::default() }
}

fn both() -> [Option<TcpConfig>; 2] {
    [None, Some(TcpConfig::default())]
}

fn after_start(ms: f64) -> f64 {
    1000.0 + ms
}

fn on(lane: u8, id: u64, len: u32) -> Say {
    Say::On { lane, host: 1, id, len }
}

fn pair(latency_ms: u64, bps: u64, tcp: Option<TcpConfig>, config: MConnectionConfig) -> Pair {
    two_lanes(crate::common::config(latency_ms, over(tcp, config)), hosts(2, bps), &[(0, 1)])
}

type Pair = samara_sim::Simulation<Talker>;

#[test]
fn single_message_waits_for_the_flush_and_pays_for_a_whole_frame() {
    for tcp in both() {
        let mut sim = pair(50, SLOW, tcp, channels(THROTTLE));
        sim.command(START, 0, on(1, 7, 36));
        let heard = heard(&run(&mut sim, Time::from_secs(3)));
        assert_eq!(heard.len(), 1);
        assert!(close_to(heard[0].0, after_start(100.0 + 50.0 + FRAME_MS)), "{:?}", heard[0]);
        let stats = sim.connection_stats(0).unwrap();
        assert_eq!((stats.sealed_frames, stats.flushes, stats.full_buffers), (1, 1, 0));
        assert_eq!(stats.padding_bytes, u64::from(SEALED_PLAINTEXT - message_bytes(0x31, 36)));
        assert_eq!(over(tcp, channels(THROTTLE)).wire_bytes(36), 1084);
        assert_eq!(sim.stats(0).sent.bytes, 1084);
    }
}

#[test]
fn flush_when_idle_does_not_wait() {
    for tcp in both() {
        let mut sim = pair(50, SLOW, tcp, channels(Flush::WhenIdle));
        sim.command(START, 0, on(1, 7, 36));
        let heard = heard(&run(&mut sim, Time::from_secs(3)));
        assert!(close_to(heard[0].0, after_start(50.0 + FRAME_MS)), "{:?}", heard[0]);
    }
}

#[test]
fn request_and_answer_wait_for_two_flushes() {
    for tcp in both() {
        let mut sim = pair(1, SLOW, tcp, channels(THROTTLE));
        sim.command(START, 0, Say::Along { route: vec![1, 0], id: 7, len: 36 });
        let heard = heard(&run(&mut sim, Time::from_secs(3)));
        assert_eq!((heard[0].1, heard[1].1), (1, 0));
        assert!(close_to(heard[1].0, after_start(2.0 * (100.0 + 1.0 + FRAME_MS))), "{:?}", heard[1]);
    }
}

#[test]
fn messages_of_one_flush_interval_share_sealed_frames() {
    // 20 messages of 45 bytes, including their framing.
    let mut sim = pair(50, SLOW, Some(TcpConfig::default()), channels(THROTTLE));
    for id in 0..20 {
        sim.command(Time::from_millis(1000 + 5 * id), 0, on(1, id, 36));
    }
    let heard = heard(&run(&mut sim, Time::from_secs(3)));
    assert_eq!(heard.iter().map(|(.., id)| *id).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(heard.iter().all(|(at, ..)| close_to(*at, after_start(100.0 + 50.0 + FRAME_MS))), "{heard:?}");
    let stats = sim.connection_stats(0).unwrap();
    assert_eq!((stats.sealed_frames, stats.flushes), (1, 1));
    assert_eq!(stats.padding_bytes, u64::from(1024 - 20 * message_bytes(0x31, 36)));
    // The interval begins with the first message and not with the clock; a later message begins the
    // next one.
    let mut sim = pair(50, SLOW, None, channels(THROTTLE));
    sim.command(Time::from_millis(1030), 0, on(1, 1, 36));
    sim.command(Time::from_millis(1131), 0, on(1, 2, 36));
    let heard = crate::common::heard(&run(&mut sim, Time::from_secs(3)));
    assert!(close_to(heard[0].0, after_start(130.0 + 50.0 + FRAME_MS)));
    assert!(close_to(heard[1].0, after_start(231.0 + 50.0 + FRAME_MS)));
}

#[test]
fn full_buffer_does_not_wait() {
    for tcp in [None, Some(wide())] {
        let mut sim = pair(50, FAST, tcp, channels(THROTTLE));
        for id in 0..100 {
            sim.command(START, 0, on(0, id, 1024));
        }
        let heard = heard(&run(&mut sim, Time::from_secs(3)));
        assert_eq!(heard.len(), 100);
        // 63 packets of 1,036 bytes fit into 64 KiB.
        let early = heard.iter().take_while(|(at, ..)| close_to(*at, after_start(50.0))).count();
        assert_eq!(early, 63);
        assert!(heard[63..].iter().all(|(at, ..)| close_to(*at, after_start(150.0))), "{heard:?}");
        let stats = sim.connection_stats(0).unwrap();
        let rest = 100 * message_bytes(0x30, 1024) - 65_536;
        assert_eq!((stats.flushes, stats.full_buffers), (2, 1));
        assert_eq!(stats.sealed_frames, u64::from(64 + rest.div_ceil(1024)));
        assert_eq!(stats.padding_bytes, u64::from(rest.div_ceil(1024) * 1024 - rest));
    }
}

#[test]
fn channels_share_a_busy_link_by_their_priorities() {
    for (lens, tcp) in [([3000, 3000], None), ([500, 9000], Some(TcpConfig::default()))] {
        let mut sim = pair(20, SLOW, tcp, channels(THROTTLE));
        for (lane, len) in [(0, lens[0]), (1, lens[1])] {
            (0..20_000_000 / u64::from(len)).for_each(|id| sim.command(START, 0, on(lane, id, len)));
        }
        run(&mut sim, Time::from_secs(12));
        let stats = sim.connection_stats(0).unwrap();
        let bytes: Vec<f64> = (stats.channels.iter())
            .map(|channel| (channel.message_bytes + channel.framing_bytes) as f64)
            .collect();
        assert!(bytes[0] + bytes[1] > 9_000_000.0, "{stats:?}");
        let ratio = bytes[0] / bytes[1];
        assert!((ratio - 6.0 / 5.0).abs() < 0.005, "{ratio}: {stats:?}");
    }
}

/// The credit of a quiet channel decays: it does not block the other channel for long.
#[test]
fn bytes_sent_in_the_past_decay() {
    let mut sim = pair(20, SLOW, Some(TcpConfig::default()), channels(Flush::WhenIdle));
    (0..4000).for_each(|id| sim.command(START, 0, on(0, id, 10_000)));
    (0..2000).for_each(|id| sim.command(Time::from_secs(21), 0, on(1, id, 10_000)));
    run(&mut sim, Time::from_secs(21));
    let before = sim.connection_stats(0).unwrap().channels[0].message_bytes;
    assert!(before > 18_000_000);
    // 20 s at 1 MB/s, decaying by a fifth every 2 s, leave less than 9 MB. The second channel sends
    // alone until it has caught up with 5/6 of the remainder, which takes at most some seconds.
    let mut alone = 0;
    for second in 22..40 {
        run(&mut sim, Time::from_secs(second));
        let now = sim.connection_stats(0).unwrap().channels[0].message_bytes;
        alone += u64::from(now == before);
    }
    assert!((1..=6).contains(&alone), "{alone} s");
}

#[test]
fn send_rate_is_not_exceeded() {
    // Batches of 10 packets of 1,033 or 1,036 bytes, until a sample of 100 ms has counted 100,000
    // bytes: 10 batches.
    let config = MConnectionConfig { send_rate: 1_000_000, ..channels(Flush::WhenIdle) };
    for tcp in [None, Some(wide())] {
        let mut sim = pair(50, FAST, tcp, config.clone());
        sim.command(START, 0, on(0, 7, 1024 * 1000));
        let heard = heard(&run(&mut sim, Time::from_secs(5)));
        assert!(close_to(heard[0].0, after_start(900.0 + 50.0)), "{:?}", heard[0]);
        assert_eq!(sim.connection_stats(0).unwrap().channels[0].packets, 1000);
    }
}

#[test]
fn flush_during_a_rate_limit_comes_an_interval_later() {
    let config =
        MConnectionConfig { send_rate: 100_000, ..channels(Flush::Throttle(Duration::from_millis(70))) };
    let mut sim = pair(50, FAST, None, config);
    // Ten packets exhaust a sample, so that the eleventh waits for the next sample, 100 ms later.
    // The flush that was due after 70 ms comes after 140 ms.
    sim.command(START, 0, on(0, 1, 10 * 1024));
    sim.command(START, 0, on(0, 2, 1024));
    let heard = heard(&run(&mut sim, Time::from_secs(5)));
    assert!(heard.iter().all(|(at, ..)| close_to(*at, after_start(140.0 + 50.0))), "{heard:?}");
    assert_eq!(sim.connection_stats(0).unwrap().sealed_frames, 12);
}

#[test]
fn slow_reader_limits_the_sender() {
    let tcp = TcpConfig { receive_window: 40, ..TcpConfig::default() };
    let config = MConnectionConfig { receive_rate: 500_000, ..channels(THROTTLE) };
    let mut sim = pair(10, 1000 * MBIT, Some(tcp), config);
    (0..3000).for_each(|id| sim.command(START, 0, on(0, id, 1000)));
    let mut so_far = 0;
    for tenth in 10..70 {
        so_far += heard(&run(&mut sim, Time::from_millis(100 * tenth))).len() as u64;
        // The data read so far, sealed (a message is less than a frame), and a window of segments,
        // with their headers.
        let limit = (so_far + 1) * u64::from(SEALED_FRAME) * 1084 / 1044 + 41 * 1500;
        assert!(sim.stats(0).sent.bytes <= limit, "{:?} > {limit} at {tenth}", sim.stats(0).sent);
    }
    let rest = heard(&run(&mut sim, Time::from_secs(20)));
    assert_eq!(so_far + rest.len() as u64, 3000);
    assert_eq!(sim.stats(0).retransmitted.packets, 0, "no packet was dropped");
    let took = rest.last().unwrap().0.as_millis_f64() - 1000.0;
    let expected = 3000.0 * f64::from(message_bytes(0x30, 1000)) / 500.0;
    assert!((took / expected - 1.0).abs() < 0.05, "{took} ms, not {expected}");
}

#[test]
fn closed_window_opens_again_despite_losses() {
    for seed in 0..20 {
        let tcp = TcpConfig { receive_window: 12, ..TcpConfig::default() };
        let limited = MConnectionConfig { receive_rate: 60_000, ..channels(THROTTLE) };
        let mut config = config(10, over(Some(tcp), limited));
        config.seed = seed;
        config.network.loss = 0.2;
        config.transport.dead_peer_timeout = Duration::from_secs(3600);
        let mut sim = two_lanes(config, hosts(2, 100 * MBIT), &[(0, 1)]);
        (0..200).for_each(|id| sim.command(START, 0, on(0, id, 1000)));
        let heard = heard(&run(&mut sim, Time::from_secs(600)));
        assert_eq!(heard.iter().map(|(.., id)| *id).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn all_bytes_on_the_wire_are_accounted_for() {
    for (tcp, flush) in both().into_iter().flat_map(|tcp| [(tcp, THROTTLE), (tcp, Flush::WhenIdle)]) {
        let config = MConnectionConfig { ping_interval: Duration::from_secs(2), ..channels(flush) };
        let mut sim = pair(20, 20 * MBIT, tcp, config);
        for id in 0..300 {
            let len = [36, 1000, 5000, 30_000][id as usize % 4];
            sim.command(
                Time::from_millis(1000 + 7 * id),
                id as u32 % 2,
                Say::On { lane: (id % 3 % 2) as u8, host: 1 - id as u32 % 2, id, len },
            );
        }
        assert_eq!(heard(&run(&mut sim, Time::from_millis(61_500))).len(), 300);
        for host in [0, 1] {
            let (wire, stats) = (sim.stats(host), sim.connection_stats(host).unwrap());
            assert_eq!(wire.retransmitted.packets, 0);
            assert_eq!(stats.pings_and_pongs, 60);
            let channels = (stats.channels.iter()).map(|c| c.message_bytes + c.framing_bytes).sum::<u64>();
            let plain = channels + 3 * stats.pings_and_pongs + stats.padding_bytes;
            assert_eq!(plain, stats.sealed_frames * u64::from(SEALED_PLAINTEXT));
            let sealing = stats.sealed_frames * u64::from(SEALED_FRAME - SEALED_PLAINTEXT);
            assert_eq!(wire.sent.bytes, plain + sealing + 40 * wire.sent.packets);
            let messages = stats.channels.iter().map(|channel| channel.message_bytes).sum::<u64>();
            assert_eq!(messages, wire.frames_sent.payload_bytes);
            assert_eq!(stats.channels.iter().map(|channel| channel.messages).sum::<u64>(), 150);
            assert_eq!(stats.since(stats).sealed_frames, 0);
        }
    }
}

#[test]
fn copies_without_room_in_the_queue_stay_in_the_outbox() {
    let tcp = TcpConfig { send_buffer: SendBuffer::Fixed { bytes: 10_000 }, ..TcpConfig::default() };
    let mut sim = pair(50, SLOW / 100, Some(tcp), channels(Flush::WhenIdle));
    (0..200).for_each(|id| sim.command(START, 0, on(0, id, 1000)));
    sim.command(START, 0, on(1, 1000, 36));
    run(&mut sim, Time::from_millis(1001));
    let peer = sim.handle_of(0, 1).unwrap();
    let stats = sim.connection_stats(0).unwrap();
    let pending = sim.outbox(0).pending_to(peer);
    // The routine is blocked in the second flush, with some messages in the buffer, one being sent,
    // and one in the queue.
    let written = stats.channels[0].messages as usize;
    assert!((10..=75).contains(&written), "{stats:?}");
    assert_eq!(pending, 200 - written - 1, "{stats:?}");
    assert_eq!(sim.outbox(0).pending_on(peer, samara_engine::outbox::Lane(1)), 0, "its channel has room");
    assert_eq!(stats.queue_waits, 1);
    let heard = heard(&run(&mut sim, Time::from_secs(60)));
    assert_eq!(heard.len(), 201);
}

#[test]
fn segments_are_frames_in_an_open_window_and_full_behind_it() {
    // 30 frames: 10 leave unchanged, the others wait for the first acknowledgements in full
    // segments.
    let tcp = TcpConfig { initial_window: 10, ..wide() };
    let mut sim = pair(50, FAST, Some(tcp), channels(Flush::WhenIdle));
    sim.command(START, 0, on(0, 7, 30 * 1000));
    run(&mut sim, Time::from_secs(2));
    let frames = message_bytes(0x30, 30_000).div_ceil(1024);
    let together = ((frames - 10) * SEALED_FRAME).div_ceil(1460);
    assert_eq!(sim.stats(0).sent.packets, u64::from(10 + together));
}

#[test]
fn both_sides_ping_and_an_overdue_pong_closes_the_link() {
    let config = MConnectionConfig { ping_interval: Duration::from_secs(60), ..channels(THROTTLE) };
    let mut transport = over(Some(TcpConfig::default()), config);
    transport.dead_peer_timeout = Duration::from_secs(3600);
    let mut sim = two_lanes(crate::common::config(50, transport), hosts(2, SLOW), &[(0, 1)]);
    run(&mut sim, Time::from_secs(200));
    for host in [0, 1] {
        let stats = sim.connection_stats(host).unwrap();
        assert_eq!((stats.pings_and_pongs, stats.sealed_frames, stats.flushes), (6, 6, 6));
    }
    sim.crash(Time::from_secs(201), 1, true);
    let records = run(&mut sim, Time::from_secs(400));
    let down = records.iter().find(|record| record.event == Heard::Down { peer: 1 }).unwrap();
    assert!(close_to(down.at, 1000.0 * (240.0 + 45.0)), "{:?}", down.at);
}

#[test]
fn dial_takes_three_round_trips_and_the_handshake_bytes() {
    let transport = over(Some(TcpConfig::default()), channels(THROTTLE));
    let mut sim = two_lanes(crate::common::config(50, transport), hosts(2, FAST), &[]);
    sim.dial(START, 0, 1);
    let records = run(&mut sim, Time::from_secs(3));
    assert!(close_to(records[0].at, after_start(300.0)), "{records:?}");
    assert_eq!(records[0].event, Heard::Up { peer: 1, outbound: true });
    // SYN, key, two frames, and the last acknowledgement; SYN-ACK, key and frame, frame.
    assert_eq!(sim.stats(0).sent.bytes, 40 + 75 + 2 * 1084 + 40);
    assert_eq!(sim.stats(1).sent.bytes, 40 + 75 + 1084 + 1084);
}

/// The arrival times of messages and the number of sealed frames, measured with two `MConnection`s
/// of CometBFT v0.37.0 over `SecretConnection`s, with 50 ms between them in the virtual time of
/// Go's `testing/synctest`.
#[test]
fn the_real_code_does_the_same() {
    struct Case {
        config: MConnectionConfig,
        /// Messages: their number, their length in bytes, their interval in milliseconds, and their
        /// lane.
        sent: (u64, u32, u64, u8),
        /// Milliseconds until the first and the last message, and the number of messages that
        /// arrived with the first.
        arrived: (f64, f64, usize),
        frames: u64,
        /// The model reads segments where the real code reads packets.
        tolerance_ms: f64,
    }
    let throttled = || channels(THROTTLE);
    let case = |config, sent, arrived, frames| Case { config, sent, arrived, frames, tolerance_ms: 0.1 };
    let cases = [
        case(throttled(), (1, 36, 0, 1), (150.0, 150.0, 1), 1),
        case(throttled(), (20, 36, 5, 1), (150.0, 150.0, 20), 1),
        case(throttled(), (100, 1024, 0, 0), (50.0, 150.0, 63), 102),
        case(
            MConnectionConfig { send_rate: 1_000_000, ..throttled() },
            (1, 1_024_000, 0, 0),
            (1050.0, 1050.0, 1),
            1010,
        ),
        Case {
            tolerance_ms: 101.0,
            ..case(
                MConnectionConfig { receive_rate: 500_000, ..throttled() },
                (3000, 1000, 0, 0),
                (50.0, 5950.0, 50),
                2965,
            )
        },
    ];
    for (number, Case { config, sent: (count, len, apart, lane), arrived, frames, tolerance_ms }) in
        (0..).zip(cases)
    {
        let mut sim = pair(50, FAST, Some(wide()), config);
        (0..count).for_each(|id| sim.command(Time::from_millis(1000 + apart * id), 0, on(lane, id, len)));
        let heard = heard(&run(&mut sim, Time::from_secs(30)));
        assert_eq!(heard.len() as u64, count);
        let at = |index: usize| heard[index].0.as_millis_f64() - 1000.0;
        let (first, last) = (at(0), at(heard.len() - 1));
        assert!((first - arrived.0).abs() < 0.1, "case {number}: {first}");
        assert!((last - arrived.1).abs() < tolerance_ms, "case {number}: {last}");
        let together = heard.iter().take_while(|(at, ..)| at.as_millis_f64() - 1000.0 < first + 1.0).count();
        assert!(together.abs_diff(arrived.2) <= 1, "case {number}: {together} with the first");
        assert_eq!(sim.connection_stats(0).unwrap().sealed_frames, frames, "case {number}");
    }
}

/// Segments that leave as one step have the effect of single segments: the same number of packets
/// and bytes, and messages at most a millisecond apart. A probability of loss that is never met
/// keeps segments apart.
#[test]
fn steps_of_several_segments_do_not_change_results() {
    for flush in [THROTTLE, Flush::WhenIdle] {
        let outcome = |loss: f64| {
            let mut config = config(10, over(Some(wide()), channels(flush)));
            config.network.loss = loss;
            let mut sim = two_lanes(config, hosts(2, 100 * MBIT), &[(0, 1)]);
            for id in 0..200 {
                let len = [36, 1000, 5000, 30_000][id as usize % 4];
                sim.command(Time::from_millis(1000 + 7 * id), 0, on(id as u8 % 2, id, len));
            }
            let heard = heard(&run(&mut sim, Time::from_secs(20)));
            (heard, sim.stats(0).sent, sim.steps())
        };
        let ((one, one_sent, one_steps), (many, many_sent, many_steps)) = (outcome(1e-300), outcome(0.0));
        assert_eq!(one_sent, many_sent);
        assert_eq!(many.len(), 200);
        assert!(2 * many_steps < one_steps, "{many_steps} of {one_steps}");
        for ((one_at, .., one_id), (many_at, .., many_id)) in one.iter().zip(&many) {
            assert_eq!(one_id, many_id);
            let apart = many_at.as_millis_f64() - one_at.as_millis_f64();
            assert!((-0.1..1.1).contains(&apart), "message {one_id}: {apart} ms");
        }
    }
}

/// A queue that drops whole steps does not lose the data in them.
#[test]
fn drops_of_a_full_queue_are_sent_again() {
    for bytes in [3000, 20_000, 100_000] {
        let mut config = config(10, over(Some(TcpConfig::default()), channels(THROTTLE)));
        config.downlink_queue = DownlinkQueue::DropTail { bytes };
        let mut hosts = hosts(2, 100 * MBIT);
        hosts[1].downlink_bps = 10 * MBIT;
        let mut sim = two_lanes(config, hosts, &[(0, 1)]);
        (0..300).for_each(|id| sim.command(START, 0, on(0, id, 5000)));
        let heard = heard(&run(&mut sim, Time::from_secs(120)));
        assert_eq!(heard.iter().map(|(.., id)| *id).collect::<Vec<_>>(), (0..300).collect::<Vec<_>>());
        let dropped = sim.stats(1).drops.downlink_full.packets;
        assert!(dropped > 0 && sim.stats(0).retransmitted.packets >= dropped, "{bytes}: {dropped}");
    }
}

/// CoDel drops the first segment of a step and checks the others separately: about as many as with
/// single segments, and dropped segments are sent again.
#[test]
fn codel_drops_single_segments_of_steps() {
    let outcome = |loss: f64| {
        let mut config = config(10, over(Some(TcpConfig::default()), channels(THROTTLE)));
        config.downlink_queue =
            DownlinkQueue::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
        config.network.loss = loss;
        let mut hosts = hosts(2, 100 * MBIT);
        hosts[1].downlink_bps = 10 * MBIT;
        let mut sim = two_lanes(config, hosts, &[(0, 1)]);
        (0..3000).for_each(|id| sim.command(START, 0, on(0, id, 5000)));
        let heard = heard(&run(&mut sim, Time::from_secs(120)));
        assert_eq!(heard.iter().map(|(.., id)| *id).collect::<Vec<_>>(), (0..3000).collect::<Vec<_>>());
        let dropped = sim.stats(1).drops.downlink_codel;
        assert!(sim.stats(0).retransmitted.packets >= dropped.packets);
        assert_eq!(sim.stats(0).sent.bytes, sim.stats(1).received.bytes + dropped.bytes);
        (heard.last().unwrap().0.as_millis_f64(), dropped.packets, sim.steps())
    };
    let ((one_end, one_dropped, one_steps), (end, dropped, steps)) = (outcome(1e-300), outcome(0.0));

    assert!(4 * steps < 3 * one_steps, "{steps} of {one_steps}");
    assert!((end / one_end - 1.0).abs() < 0.05, "{end} ms, one by one {one_end} ms");
    assert!(
        dropped > 20 && dropped.abs_diff(one_dropped) * 3 < one_dropped,
        "{dropped}, one by one {one_dropped}"
    );
}
