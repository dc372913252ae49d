//! Gateways that hosts of a region share on the way to other regions.

use std::time::Duration;

use crate::common::*;
use samara_engine::{NodeRng, Purpose, Time};
use samara_sim::{
    DownlinkQueue, GatewayConfig, HostConfig, Latency, Record, SimConfig, Simulation, TcpConfig, Transport,
};

const LONG: DownlinkQueue = DownlinkQueue::DropTail { bytes: u64::MAX };

/// Regions with latencies of 1 ms within and 20 ms between them, and gateways with this rate.
fn regions(count: usize, transport: Transport, gateway_bps: u64) -> SimConfig {
    let latency = |a, b| Duration::from_millis(if a == b { 1 } else { 20 });
    let mut config = config(1, transport);
    config.network.latency =
        Latency::Regions((0..count).map(|a| (0..count).map(|b| latency(a, b)).collect()).collect());
    config.network.gateways =
        vec![GatewayConfig { up_bps: gateway_bps, down_bps: gateway_bps, queue: LONG }; count];
    config
}

/// Returns `each` hosts in each of the regions.
fn spread(regions: usize, each: usize, bps: u64) -> Vec<HostConfig> {
    let host = |region: usize| HostConfig { uplink_bps: bps, downlink_bps: bps, region: region as u16 };
    (0..regions).flat_map(|region| vec![host(region); each]).collect()
}

/// Returns the time in milliseconds at which the last of these simultaneous transfers is complete.
fn last(sim: &mut Simulation<Talker>, sends: &[(u32, u32, u32)]) -> f64 {
    for (id, (from, to, len)) in sends.iter().enumerate() {
        sim.command(Time::from_secs(1), *from, Say::To { hosts: vec![*to], id: id as u64, len: *len });
    }
    let heard = heard(&run(sim, Time::from_secs(100)));
    assert_eq!(heard.len(), sends.len());
    heard.last().unwrap().0.as_millis_f64() - 1000.0
}

#[test]
fn narrowest_link_of_the_way_limits_the_rate() {
    // 100 packets of 1,000 bytes: 1 ms each at the gateway, 0.1 ms on the hosts' links. The first
    // one leaves its host after 0.1 ms and the gateway after one more; the last one follows 99 ms
    // later.
    let mut sim = network(regions(2, bare(None), 8 * MBIT), spread(2, 1, 80 * MBIT), &[(0, 1)]);
    let took = last(&mut sim, &[(0, 1, 100_000)]);
    assert!((took - (0.1 + 100.0 + 20.0)).abs() < 0.01, "{took} ms");
    let [out, into] = sim.gateway_stats(0).unwrap();
    assert_eq!((out.passed.bytes, into.passed.bytes), (100_000, 0));
    assert_eq!(sim.gateway_stats(1).unwrap()[1].passed.bytes, 100_000);
    assert_eq!(sim.gateway_stats(2), None);
}

#[test]
fn hosts_share_their_gateway_but_no_link_within_the_region() {
    // Four hosts send 100 kB each to the other region, and two others within their region.
    let sends: Vec<_> = (0..4).map(|host| (host, 8 + host, 100_000)).collect();
    let edges: Vec<_> = sends.iter().map(|(from, to, _)| (*from, *to)).chain([(4, 5), (6, 7)]).collect();
    let mut sim = network(regions(2, bare(None), 8 * MBIT), spread(2, 8, 80 * MBIT), &edges);
    let across = last(&mut sim, &sends);
    assert!((across - (0.1 + 400.0 + 20.0)).abs() < 0.01, "{across} ms");
    let mut sim = network(regions(2, bare(None), 8 * MBIT), spread(2, 8, 80 * MBIT), &edges);
    let within = last(&mut sim, &[(4, 5, 100_000), (6, 7, 100_000)]);
    assert!((within - (10.0 + 1.0)).abs() < 0.01, "{within} ms");
    assert_eq!(sim.gateway_stats(0).unwrap()[0].passed.packets, 0);
}

#[test]
fn all_regions_share_the_way_into_a_region() {
    let sends = [(0, 2, 100_000), (1, 2, 100_000)];
    let mut sim = network(regions(3, bare(None), 8 * MBIT), spread(3, 1, 800 * MBIT), &[(0, 2), (1, 2)]);
    let took = last(&mut sim, &sends);
    // Each way out lets 100 packets through in 100 ms; the way in needs 200.
    assert!((200.0..202.0).contains(&(took - 20.0)), "{took} ms");
}

#[test]
fn full_gateway_drops_packets_and_tcp_repairs_the_loss() {
    let mut config = regions(2, bare(Some(TcpConfig::default())), 8 * MBIT);
    for gateway in &mut config.network.gateways {
        gateway.queue = DownlinkQueue::DropTail { bytes: 20_000 };
    }
    let edges: Vec<_> = (0..4).map(|host| (host, 4 + host)).collect();
    let mut sim = network(config, spread(2, 4, 80 * MBIT), &edges);
    let sends: Vec<_> = edges.iter().map(|(from, to)| (*from, *to, 500_000)).collect();
    let took = last(&mut sim, &sends);
    let [out, _] = sim.gateway_stats(0).unwrap();
    assert!(out.dropped.packets > 0, "{out:?}");
    let sent: u64 = (0..4).map(|host| sim.stats(host).retransmitted.packets).sum();
    assert!(sent >= out.dropped.packets, "{sent} sent again of {out:?}");
    assert!((2_020.0..4_000.0).contains(&took), "{took} ms for 2 s of the gateway");
    assert!(out.wait_nanos_max <= 21_000_000, "20 kB are 20 ms: {out:?}");
}

#[test]
fn wide_gateways_do_not_change_transfer_times() {
    let run = |gateways: bool| {
        let mut config = regions(2, bare(Some(TcpConfig::default())), 1_000_000 * MBIT);
        if !gateways {
            config.network.gateways.clear();
        }
        last(&mut network(config, spread(2, 1, 80 * MBIT), &[(0, 1)]), &[(0, 1, 1_000_000)])
    };
    let (with, without) = (run(true), run(false));
    assert!((with - without).abs() < 0.01, "{with} ms with, {without} ms without");
}

fn messy(seed: u64, threads: usize) -> (u64, u64, Vec<Record<Heard>>) {
    let mut config = regions(4, bare(Some(TcpConfig::default())), 20 * MBIT);
    (config.seed, config.threads) = (seed, threads);
    config.network.jitter = Duration::from_millis(3);
    config.network.loss = 0.005;
    for (index, gateway) in config.network.gateways.iter_mut().enumerate() {
        gateway.queue =
            [LONG, DownlinkQueue::DropTail { bytes: 40_000 }, DownlinkQueue::default()][index % 3];
    }
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    let edges = pairs(24, 0.2, &mut rng);
    let mut sim = network(config, spread(4, 6, 10 * MBIT), &edges);
    sim.set_parallel_threshold(0);
    chatter(&mut sim, 24, 200, &mut rng);
    sim.crash(Time::from_millis(1500), 3, true);
    sim.restart(Time::from_millis(2500), 3);
    let mut records = run(&mut sim, Time::from_secs(2));
    records.extend(run(&mut sim, Time::from_secs(40)));
    (sim.digest(), sim.steps(), records)
}

#[test]
fn gateways_do_not_make_results_depend_on_threads() {
    for seed in 0..4 {
        let alone = messy(seed, 1);
        assert!(alone.2.len() > 100);
        for threads in [2, 5, 16] {
            assert_eq!(messy(seed, threads), alone, "seed {seed}, {threads} threads");
        }
    }
}
