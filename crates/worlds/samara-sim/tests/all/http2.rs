//! HTTP/2: times that can be computed by hand, and measurements of grpc-go.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{
    Control, DownlinkQueue, Framing, Http2Config, SendBuffer, Simulation, TcpConfig, Transport, Window,
};

const WIDE: Window = Window::Fixed { bytes: 1 << 30 };
/// The initial window of the standard: 64 KiB minus one byte.
const STANDARD: Window = Window::Fixed { bytes: 65_535 };

fn tcp() -> TcpConfig {
    TcpConfig {
        receive_window: 1 << 20,
        send_buffer: SendBuffer::Fixed { bytes: u64::MAX },
        ..TcpConfig::default()
    }
}

fn over(tcp: Option<TcpConfig>, window: Window) -> Transport {
    let control = tcp.map_or(Control::Ideal, Control::Tcp);
    Transport { control, ..Transport::grpc(Http2Config { window }) }
}

/// Returns the milliseconds that batches of `size` bytes take, each of which consists of messages
/// of `each` bytes that are sent at once. A batch begins every `every` milliseconds.
fn batches(sim: &mut Simulation<Talker>, size: u32, each: u32, count: u64, every: u64) -> Vec<f64> {
    let batch = |number: u64| {
        let start = 1000 + number * every;
        for id in 0..u64::from(size / each) {
            sim.command(Time::from_millis(start), 0, Say::To { hosts: vec![1], id, len: each });
        }
        let heard = heard(&run(sim, Time::from_millis(start + every)));
        assert_eq!(heard.len() as u32, size / each, "the batch arrives completely");
        assert!(heard.iter().map(|(.., id)| *id).eq(0..u64::from(size / each)));
        heard.last().unwrap().0.as_millis_f64() - start as f64
    };
    (0..count).map(batch).collect()
}

fn near(found: f64, expected: f64, part: f64) -> bool {
    (found / expected - 1.0).abs() < part
}

#[test]
fn message_pays_for_its_frames() {
    // 40,000 bytes and a prefix of 5 in three frames with headers of 9, in 28 packets with 40 each.
    let transport = over(None, WIDE);
    assert_eq!(transport.wire_bytes(40_000), 40_005 + 27 + 28 * 40);
    // 100 messages of 114 bytes each with prefix and header fit into 8 packets.
    assert_eq!(transport.wire_bytes_each(100, 100), (11_400 + 8 * 40) / 100);
    let mut sim = pair(config(50, transport), 8);
    let took = batches(&mut sim, 40_000, 40_000, 1, 1000);
    assert!((took[0] - (50.0 + 41.152)).abs() < 0.01, "{took:?}");
}

#[test]
fn simultaneous_messages_share_packets() {
    // 526 bytes each.
    let mut sim = pair(config(50, over(None, WIDE)), 8);
    let took = batches(&mut sim, 51_200, 512, 1, 1000);
    let packets = (100_u32 * 526).div_ceil(1460);
    assert!((took[0] - (50.0 + f64::from(52_600 + packets * 40) / 1000.0)).abs() < 0.01, "{took:?}");
}

#[test]
fn round_trip_carries_one_standard_window() {
    for tcp in [None, Some(TcpConfig { initial_window: 1000, idle_restart: false, ..tcp() })] {
        let mut sim = pair(config(45, over(tcp, STANDARD)), 10_000);
        let took = batches(&mut sim, 6_553_500, 6_553_500, 1, 30_000);
        // A hundred windows: the first one needs no round trip, the last one only half of one.
        assert!(near(took[0], 100.0 * 90.0 - 45.0, 0.02), "{took:?}");
    }
}

#[test]
fn wide_window_adds_no_time() {
    let plain = Transport { framing: Framing::PLAIN, control: Control::Tcp(tcp()), ..Transport::tcp() };
    for size in [50_000, 5_000_000] {
        let alone = batches(&mut pair(config(45, plain.clone()), 100), size, size, 3, 5000);
        let over_http2 = batches(&mut pair(config(45, over(Some(tcp()), WIDE)), 100), size, size, 3, 5000);
        for (alone, over_http2) in alone.iter().zip(&over_http2) {
            assert!(near(*over_http2, *alone, 0.01), "{over_http2} ms, {alone} ms without");
        }
    }
}

/// grpc-go 1.85 at both ends of a path of 45 ms one way, in kernels that pace by CUBIC:
/// milliseconds for 100, 1,000 and 10,000 payloads of 512 bytes on a new connection.
#[test]
fn new_connection_takes_as_long_as_in_grpc_go() {
    for (mbit, measured) in [(500, [227.0, 594.0, 1247.0]), (30, [232.0, 593.0, 1936.0])] {
        for (payloads, measured) in [100, 1000, 10_000].into_iter().zip(measured) {
            let mut sim = pair(config(45, over(Some(tcp()), Window::Estimated)), mbit);
            let took = batches(&mut sim, payloads * 512, payloads * 512, 1, 5000);
            assert!(
                near(took[0], measured, 0.07),
                "{payloads} at {mbit} Mbit/s: {took:?}, measured {measured}"
            );
        }
    }
}

/// "Engineering the xx network alpha" (2019): 200 ms, 600 ms and 2 s. Of these paths, only a new
/// connection at 30 Mbit/s takes these times: a rate that no source states, so it is a fit.
#[test]
fn new_connection_at_30_mbit_fits_the_alpha() {
    for (mbit, fits) in [(30, [true, true, true]), (500, [true, true, false])] {
        for ((payloads, alpha), fits) in [(100, 200.0), (1000, 600.0), (10_000, 2000.0)].into_iter().zip(fits)
        {
            let mut sim = pair(config(45, over(Some(tcp()), Window::Estimated)), mbit);
            let took = batches(&mut sim, payloads * 512, payloads * 512, 1, 5000);
            assert_eq!(near(took[0], alpha, 0.15), fits, "{payloads} at {mbit} Mbit/s: {took:?}");
        }
    }
}

/// The alpha's post counts 64 K in bits: 0.064 ms.
#[test]
fn window_of_64_kib_takes_half_a_millisecond_at_a_gigabit() {
    let mut sim = pair(config(45, over(None, WIDE)), 1000);
    let took = batches(&mut sim, 1 << 16, 1 << 16, 1, 1000);
    assert!(near(took[0] - 45.0, 0.524, 0.05), "{took:?}");
}

/// The same once the window is wide: after two seconds of silence, after half a second, and with a
/// kernel that keeps the congestion window.
#[test]
fn idle_connection_takes_as_long_as_in_grpc_go() {
    let cases = [
        (true, 2000, [228.0, 504.0, 606.0]),
        (true, 500, [137.0, 144.0, 225.0]),
        (false, 2000, [47.0, 55.0, 182.0]),
    ];
    for (idle_restart, pause, measured) in cases {
        for (payloads, measured) in [100, 1000, 10_000].into_iter().zip(measured) {
            let mut sim =
                pair(config(45, over(Some(TcpConfig { idle_restart, ..tcp() }), Window::Estimated)), 500);
            // The window becomes wide first; then the pauses are those of the measurement.
            batches(&mut sim, 5_120_000, 5_120_000, 3, 3000);
            let (mut at, mut took) = (20_000, 0.0);
            for (number, until_next) in [850, measured as u64, measured as u64, 1000].into_iter().enumerate()
            {
                let len = payloads * 512;
                sim.command(Time::from_millis(at), 0, Say::To { hosts: vec![1], id: number as u64, len });
                let next = at + until_next + pause;
                took = heard(&run(&mut sim, Time::from_millis(next)))[0].0.as_millis_f64() - at as f64;
                at = next;
            }
            // For 5 MB at once, the machine of the measurement took about 50 ms more than the 84 ms
            // of the rate.
            let at_once = payloads == 10_000 && (pause == 500 || !idle_restart);
            let part = if at_once { 0.3 } else { 0.05 };
            let name = format!("{payloads} after {pause} ms, restart {idle_restart}");
            assert!(near(took, measured, part), "{name}: {took} ms, measured {measured}");
        }
    }
}

/// Lost segments are sent again, and credit with them: nothing stalls, in both directions at once.
#[test]
fn losses_do_not_stall_a_connection() {
    for window in [Window::Estimated, STANDARD, Window::Fixed { bytes: 1 }] {
        let mut config = config(5, over(Some(TcpConfig::default()), window));
        config.network.loss = 0.02;
        config.downlink_queue =
            DownlinkQueue::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
        let mut sim = network(config, hosts(2, 20 * MBIT), &[(0, 1)]);
        let len = if window == (Window::Fixed { bytes: 1 }) { 20 } else { 20_000 };
        for id in 0..40 {
            sim.command(Time::from_secs(1), 0, Say::To { hosts: vec![1], id, len });
            sim.command(Time::from_secs(1), 1, Say::To { hosts: vec![0], id, len });
        }
        let heard = heard(&run(&mut sim, Time::from_secs(300)));
        for host in 0..2 {
            let there = heard.iter().filter(|(_, at, _)| *at == host).map(|(.., id)| *id);
            assert!(there.eq(0..40), "{window:?}");
        }
        assert!(sim.stats(0).retransmitted.packets > 0);
    }
}
