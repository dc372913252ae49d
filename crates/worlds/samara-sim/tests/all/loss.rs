//! Loss: every frame arrives, in order, and at the rate of theory.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{Congestion, DownlinkQueue, Losses, SendBuffer, TcpConfig};

fn tcp() -> TcpConfig {
    TcpConfig { send_buffer: SendBuffer::Fixed { bytes: u64::MAX }, ..TcpConfig::default() }
}

#[test]
fn frames_arrive_in_order_despite_losses() {
    for seed in 0..40 {
        let congestion = if seed % 8 < 4 { Congestion::Reno } else { Congestion::Cubic };
        let mut config = config(20, bare(Some(TcpConfig { congestion, ..tcp() })));
        config.seed = seed;
        config.network.loss = [0.001, 0.01, 0.05, 0.2][seed as usize % 4];
        config.network.jitter = Duration::from_millis(seed % 7);
        // With 20 % loss in both directions, a link can be silent for longer than keep-alive would
        // allow.
        config.transport.dead_peer_timeout = Duration::from_secs(3600);
        let mut sim = pair(config, 20);
        for id in 0..100 {
            sim.command(Time::from_millis(1000 + 3 * id), 0, Say::To { hosts: vec![1], id, len: 16_500 });
        }
        let heard = heard(&run(&mut sim, Time::from_secs(2000)));
        let ids: Vec<u64> = heard.iter().map(|(.., id)| *id).collect();
        let stats = (*sim.stats(0), *sim.stats(1));
        assert_eq!(ids, (0..100).collect::<Vec<_>>(), "seed {seed}: {stats:?}");
        assert!(
            sim.stats(0).retransmitted.packets >= 1 || sim.stats(0).drops.random.packets == 0,
            "seed {seed}"
        );
    }
}

#[test]
fn one_lost_segment_costs_one_round_trip() {
    // A slightly too short downlink queue drops a few segments of the burst. Selective
    // acknowledgements bring them back within a round trip or two, never by a timeout.
    let mut config = config(50, bare(Some(TcpConfig { initial_window: 40, ..tcp() })));
    config.downlink_queue = DownlinkQueue::DropTail { bytes: 30_000 };
    let mut hosts = hosts(2, 800 * MBIT);
    hosts[1].downlink_bps = 80 * MBIT;
    let mut sim = network(config, hosts, &[(0, 1)]);
    let took = one(&mut sim, 400_000);
    let stats = *sim.stats(0);
    let dropped = sim.stats(1).drops.downlink_full.packets;
    assert!(dropped > 0, "the queue held everything");
    assert_eq!(stats.retransmitted.packets, dropped, "only lost segments are sent again: {stats:?}");
    assert_eq!(stats.timeouts, 0);
    // 40 segments lose 7, recovery halves the window, and 400 segments at about 50 in flight take
    // eight round trips.
    assert!((700.0..=1200.0).contains(&took), "{took} ms");
}

#[test]
fn timer_repairs_a_lost_tail() {
    // No later packets can report the loss of the last packets of a transfer.
    let mut timeouts = 0;
    for seed in 0..30 {
        let congestion = if seed % 8 < 4 { Congestion::Reno } else { Congestion::Cubic };
        let mut config = config(20, bare(Some(TcpConfig { congestion, ..tcp() })));
        config.seed = seed;
        config.network.loss = 0.1;
        let mut sim = pair(config, 20);
        one(&mut sim, 2_000);
        timeouts += sim.stats(0).timeouts;
    }
    assert!(timeouts > 0);
}

/// Mathis, Semke, Mahdavi, Ott 1997: rate = (MSS / RTT) * sqrt(3/2) / sqrt(p) for periodic loss and
/// an acknowledgement for every packet. Random loss is up to 7 % above. Timeouts are below, and so are
/// halves of the window, which Linux rounds down: at 2 % the window has 9 packets.
#[test]
fn throughput_under_random_loss_follows_the_square_root_law() {
    for loss in [0.002, 0.005, 0.02] {
        let rate = |seed| {
            let mut config = config(25, bare(Some(tcp())));
            (config.seed, config.network.loss) = (seed, loss);
            60_000.0 / (one(&mut pair(config, 100_000), 60_000_000) / 1000.0)
        };
        let found = (0..4).map(rate).sum::<f64>() / 4.0;
        let predicted = 1.0 / 0.05 * (1.5f64 / loss).sqrt();
        let ratio = found / predicted;
        let least = if loss > 0.01 { 0.78 } else { 0.85 };
        assert!((least..1.1).contains(&ratio), "loss {loss}: {found:.0} segments/s, {ratio:.2} of the law");
    }
}

#[test]
fn controlled_delay_limits_the_queue_without_emptying_the_link() {
    let mut config = config(20, bare(Some(tcp())));
    config.downlink_queue =
        DownlinkQueue::CoDel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };
    let mut hosts = hosts(5, 100 * MBIT);
    hosts[0].downlink_bps = 20 * MBIT;
    let mut sim = network(config, hosts, &[(1, 0), (2, 0), (3, 0), (4, 0)]);
    for host in 1..5 {
        sim.command(START, host, Say::To { hosts: vec![0], id: u64::from(host), len: 10_000_000 });
    }
    let heard = heard(&run(&mut sim, Time::from_secs(60)));
    assert_eq!(heard.len(), 4);
    let seconds = heard[3].0.as_secs_f64() - 1.0;
    assert!((16.0..20.0).contains(&seconds), "40 MB over 20 Mbit/s took {seconds} s");
    assert!(sim.stats(0).drops.downlink_codel.packets > 20);
    assert_eq!(sim.stats(0).drops.downlink_full.packets, 0);
}

/// The purpose of CUBIC (RFC 9438 section 1): on a path of 100 Mbit/s and 100 ms, NewReno takes
/// half a minute to fill the link after a loss, with one more packet in each round trip. In
/// addition, HyStart ends slow start before the queue overflows.
#[test]
fn cubic_fills_a_long_path_sooner_and_loses_less() {
    let run_with = |congestion, queue| {
        let mut config = config(50, bare(Some(TcpConfig { congestion, ..tcp() })));
        config.downlink_queue = DownlinkQueue::DropTail { bytes: queue };
        let mut hosts = hosts(2, 1_000 * MBIT);
        hosts[1].downlink_bps = 100 * MBIT;
        let mut sim = network(config, hosts, &[(0, 1)]);
        let heard = transfer(&mut sim, &[1_000_000; 100]);
        assert_eq!((heard.len(), sim.stats(0).timeouts), (100, 0));
        (heard[99].0, sim.stats(0).retransmitted.packets)
    };
    // Bursts of slow start overflow a short queue when the window is half of the path's capacity.
    let (reno, cubic) = (run_with(Congestion::Reno, 100_000), run_with(Congestion::Cubic, 100_000));
    assert!(cubic.0 < 0.75 * reno.0, "{cubic:?}, {reno:?} with NewReno");
    let (reno, cubic) = (run_with(Congestion::Reno, 400_000), run_with(Congestion::Cubic, 400_000));
    assert!(cubic.1 < reno.1 / 10, "{cubic:?}, {reno:?} with NewReno");
}

#[test]
fn pairs_and_regions_have_losses_of_their_own() {
    let lost = |losses: Option<Losses>, loss: f64| {
        let mut config = config(20, bare(Some(tcp())));
        (config.network.losses, config.network.loss) = (losses, loss);
        let mut hosts = hosts(3, 20 * MBIT);
        hosts[2].region = 1;
        let mut sim = network(config, hosts, &[(0, 1), (0, 2)]);
        for id in 0..200 {
            let at = Time::from_millis(1000 + 20 * id);
            sim.command(at, 0, Say::To { hosts: vec![1, 2], id, len: 1_200 });
        }
        let heard = heard(&run(&mut sim, Time::from_secs(600))).len();
        assert_eq!(heard, 400, "all messages arrive in the end");
        [0, 1, 2].map(|host| sim.stats(host).drops.random.packets)
    };
    let third = 1.0 / 3.0;
    // Only packets from host 0 to host 2 are lost, or those from region 0 to region 1.
    let hosts =
        Losses::of_hosts(3, [0.0, 0.0, third, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0].into()).expect("a square");
    let regions = Losses::of_regions(2, [0.0, third, 0.0, 0.0].into()).expect("a square");
    for losses in [hosts, regions] {
        let [sender, near, far] = lost(Some(losses.clone()), 0.0);
        assert!(sender > 50 && near == 0 && far == 0, "{losses:?}: {sender} {near} {far}");
    }
    let none = Losses::of_hosts(3, vec![0.0; 9].into()).expect("a square");
    assert_eq!(lost(Some(none.clone()), 0.02), lost(None, 0.02), "losses apply beside that of the network");
    assert_eq!(lost(Some(none), 0.0), [0; 3]);
    assert_eq!(Losses::of_hosts(2, vec![0.0; 3].into()), None);
    assert_eq!(Losses::of_hosts(1, vec![1.0].into()), None);
}
