//! Connections with channels under random traffic, loss and configurations.

use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use samara_engine::Time;

use samara_sim::{Flush, MConnectionConfig, TcpConfig};

#[derive(Clone, Debug)]
struct Message {
    after_ms: u64,
    from: u32,
    lane: u8,
    len: u32,
}

fn message() -> impl Strategy<Value = Message> {
    let len = prop_oneof![1u32..200, 1000u32..1100, 1u32..60_000];
    (0u64..600, 0u32..2, 0u8..2, len).prop_map(|(after_ms, from, lane, len)| Message {
        after_ms,
        from,
        lane,
        len,
    })
}

fn connection() -> impl Strategy<Value = MConnectionConfig> {
    let flush = prop_oneof![
        Just(Flush::WhenIdle),
        (1u64..200).prop_map(|ms| Flush::Throttle(Duration::from_millis(ms)))
    ];
    let rate = || prop_oneof![Just(0u64), 100_000u64..2_000_000];
    (flush, rate(), rate(), 1usize..4, 1u64..20).prop_map(|(flush, send_rate, receive_rate, queue, ping)| {
        let mut config = channels(flush);
        config.channels.iter_mut().for_each(|channel| channel.queue = queue);
        let ping_interval = Duration::from_secs(ping);
        MConnectionConfig { send_rate, receive_rate, ping_interval, ..config }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_message_arrives_once_and_in_order_on_its_channel(
        mut messages in prop::collection::vec(message(), 1..60),
        connection in connection(),
        ideal: bool,
        seed: u64,
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        (jitter_ms, window, mss) in (0u64..30, 8u32..100, prop_oneof![Just(1460u32), 300u32..2000]),
    ) {
        messages.sort_by_key(|message| message.after_ms);
        let tcp = TcpConfig { receive_window: window, ..TcpConfig::default() };
        let receive_rate = if ideal { 0 } else { connection.receive_rate };
        // A pong can be late when half of the packets get lost in a row; another test covers that.
        let ping_interval = if loss > 0.0 { Duration::ZERO } else { connection.ping_interval };
        let connection = MConnectionConfig { receive_rate, ping_interval, ..connection };
        let mut transport = over((!ideal).then_some(tcp), connection);
        transport.dead_peer_timeout = Duration::from_secs(3600);
        transport.mss = mss;
        let mut config = config(10, transport);
        config.seed = seed;
        config.network.jitter = Duration::from_millis(jitter_ms);
        config.network.loss = if ideal { 0.0 } else { loss };
        let mut sim = two_lanes(config, hosts(2, 20 * MBIT), &[(0, 1)]);
        for (id, message) in (0..).zip(&messages) {
            let Message { after_ms, from, lane, len } = *message;
            let say = Say::On { lane, host: 1 - from, id, len };
            sim.command(Time::from_millis(1000 + after_ms), from, say);
        }
        let heard = heard(&run(&mut sim, Time::from_secs(900)));
        for host in [0, 1] {
            for lane in [0, 1] {
                let of_channel = |id: u64| {
                    let message = &messages[id as usize];
                    message.from == 1 - host && message.lane == lane
                };
                let expected: Vec<u64> = (0..messages.len() as u64).filter(|id| of_channel(*id)).collect();
                let found: Vec<u64> = heard
                    .iter()
                    .filter(|(_, at, id)| *at == host && of_channel(*id))
                    .map(|(.., id)| *id)
                    .collect();
                prop_assert_eq!(found, expected, "host {} lane {}", host, lane);
            }
        }
        prop_assert_eq!(heard.len(), messages.len());
    }
}

/// A case that the property found. The acknowledgement that says that the window is open is
/// overtaken by an older one that says that it is closed, and nothing is in flight.
#[test]
fn window_that_seems_closed_is_probed() {
    // Milliseconds, sender, bytes.
    let messages = [
        (5, 1, 12_167),
        (5, 1, 3_041),
        (5, 1, 1),
        (69, 0, 1_013),
        (125, 1, 1_013),
        (230, 0, 1),
        (252, 1, 1),
        (252, 1, 1_013),
        (252, 1, 4_055),
        (252, 1, 1),
        (252, 1, 1_013),
        (252, 1, 1),
        (444, 1, 17_237),
        (452, 1, 3_041),
        (452, 0, 32_447),
        (453, 0, 41_573),
        (478, 1, 57_797),
    ];
    let tcp = TcpConfig { receive_window: 16, ..TcpConfig::default() };
    let connection = MConnectionConfig { receive_rate: 174_090, ..channels(Flush::WhenIdle) };
    let mut transport = over(Some(tcp), connection);
    transport.mss = 1460;
    let mut config = config(10, transport);
    config.seed = 16_555_369_687_585_896_799;
    config.network.jitter = Duration::from_millis(21);
    config.network.loss = 0.071_768_984_526_928_27;
    let mut sim = two_lanes(config, hosts(2, 20 * MBIT), &[(0, 1)]);
    for (id, (after_ms, from, len)) in (0..).zip(messages) {
        let say = Say::On { lane: 0, host: 1 - from, id, len };
        sim.command(Time::from_millis(1000 + after_ms), from, say);
    }
    assert_eq!(heard(&run(&mut sim, Time::from_secs(10))).len(), messages.len());
}
