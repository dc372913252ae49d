//! FQ-CoDel at both ends of a path: an uplink that queues and drops, and fair downlinks.

use std::time::Duration;

use crate::common::*;
use samara_sim::{
    DownlinkQueue, FqCoDel, HostConfig, NicDiscipline, QueueSize, QuicConfig, SimConfig, TcpConfig,
};

/// The configuration of a path of 20 ms with QUIC and FQ-CoDel.
fn fair(quic: QuicConfig) -> SimConfig {
    let config = config(20, bare_quic(quic));
    let fair = FqCoDel { buckets: 128, ..FqCoDel::default() };
    SimConfig { nic: NicDiscipline::FqCoDel(fair), downlink_queue: DownlinkQueue::FqCoDel(fair), ..config }
}

/// One packet of 1,000 bytes fits into the burst of both ends, so that only the latency remains.
/// Nine further packets take the rate, less what is left of the burst.
#[test]
fn idle_path_costs_the_latency_only() {
    assert_close(one(&mut pair(fair(QuicConfig::default()), 8), 1_000), 20.0, &"one packet");
    assert_close(one(&mut pair(fair(QuicConfig::default()), 8), 10_000), 20.0 + 8.5, &"ten packets");
}

/// The sender's windows let out more than the uplink takes. The packets wait in its queue, which
/// drops some once the delay stands, and the transport repairs them.
#[test]
fn uplink_queues_and_drops_what_windows_let_out() {
    let quic = QuicConfig { initial_window: 400, pacing: false, ..QuicConfig::default() };
    let mut hosts = hosts(2, 100 * MBIT);
    hosts[0] = HostConfig { uplink_bps: 8 * MBIT, ..hosts[0] };
    let mut sim = network(fair(quic), hosts, &[(0, 1)]);
    let took = one(&mut sim, 2_000_000);
    let stats = sim.stats(0);
    assert!(stats.drops.uplink_codel.packets > 3, "{:?}", stats.drops);
    assert_eq!(sim.stats(1).drops, Default::default());
    let sent_again = stats.sent.packets + stats.drops.uplink_codel.packets;
    assert!(stats.retransmitted.packets >= stats.drops.uplink_codel.packets);
    assert!(sent_again >= 2_000 + stats.drops.uplink_codel.packets);
    // 2 MB at 8 Mbit/s, and the latency.
    assert!((2_019.0..2_200.0).contains(&took), "{took}");
}

/// A queue in the order of arrival passes what it has room for, and drops the rest.
#[test]
fn one_queue_drops_what_finds_it_full() {
    let quic = QuicConfig { initial_window: 400, pacing: false, ..QuicConfig::default() };
    for size in [QueueSize::Bytes(100_000), QueueSize::Time(Duration::from_millis(100))] {
        let nic = NicDiscipline::DropTail(size);
        let mut hosts = hosts(2, 100 * MBIT);
        hosts[0] = HostConfig { uplink_bps: 8 * MBIT, ..hosts[0] };
        let mut sim = network(SimConfig { nic, ..fair(quic) }, hosts.clone(), &[(0, 1)]);
        // Of 400 packets of 1,000 bytes at once, 100 fit, and the one that leaves.
        let took = one(&mut sim, 2_000_000);
        let drops = sim.stats(0).drops;
        assert!(drops.uplink_full.packets >= 295, "{size:?}: {drops:?}");
        assert_eq!(drops.uplink_codel.packets, 0);
        assert!((2_018.0..6_000.0).contains(&took), "{size:?}: {took}");

        let roomy = NicDiscipline::DropTail(QueueSize::Time(Duration::from_secs(1)));
        let mut sim = network(SimConfig { nic: roomy, ..fair(quic) }, hosts, &[(0, 1)]);
        let took = one(&mut sim, 300_000);
        assert_eq!(sim.stats(0).drops, Default::default());
        assert_close(took, 20.0 + 298.5, &"what fits");
    }
}

/// The rate of an uplink is divided by flows, as is that of a downlink.
#[test]
fn flows_share_both_ends_equally() {
    let config = fair(QuicConfig::default());
    let (star, narrow) = ([(0, 1), (0, 2), (0, 3), (0, 4)], 8 * MBIT);
    let mut slow = hosts(5, 100 * MBIT);
    (slow[0].uplink_bps, slow[0].downlink_bps) = (narrow, narrow);
    for outwards in [true, false] {
        let mut sim = network(config.clone(), slow.clone(), &star);
        for host in 1..5 {
            let (from, to) = if outwards { (0, host) } else { (host, 0) };
            sim.command(START, from, Say::To { hosts: vec![to], id: u64::from(host), len: 500_000 });
        }
        let heard = heard(&run(&mut sim, samara_engine::Time::from_secs(60)));
        let times: Vec<f64> = heard.iter().map(|(at, ..)| at.as_millis_f64() - 1_000.0).collect();
        assert_eq!(times.len(), 4);
        // All four end within a tenth of the two seconds that their 2 MB take.
        assert!(times[3] - times[0] < 300.0 && (1_900.0..2_400.0).contains(&times[3]), "{times:?}");
    }
}

/// A short message does not wait for long ones to other peers: its flow is new.
#[test]
fn sparse_flow_overtakes_a_backlog() {
    let quic = QuicConfig { initial_window: 60, pacing: false, ..QuicConfig::default() };
    let mut slow = hosts(3, 100 * MBIT);
    slow[0].uplink_bps = 8 * MBIT;
    let mut sim = network(fair(quic), slow, &[(0, 1), (0, 2)]);
    sim.command(START, 0, Say::To { hosts: vec![1], id: 1, len: 60_000 });
    let later = START + Duration::from_millis(10);
    sim.command(later, 0, Say::To { hosts: vec![2], id: 2, len: 800 });
    let heard = heard(&run(&mut sim, samara_engine::Time::from_secs(60)));
    let [short, long] = [2, 1].map(|id| heard.iter().find(|(.., found)| *found == id).unwrap().0);
    assert!((short - later).as_secs_f64() < 0.023, "{short:?}");
    assert!((long - START).as_secs_f64() > 0.075, "{long:?}");
}

/// With the ideal transport, which cannot repair drops, nothing is dropped.
#[test]
fn ideal_transport_loses_nothing() {
    let mut config = fair(QuicConfig::default());
    config.transport = bare(None);
    let mut sim = pair(config, 8);
    assert_close(one(&mut sim, 1_000_000), 1_020.0, &"a megabyte");
    assert_eq!(sim.stats(0).drops, Default::default());
    let mut config = fair(QuicConfig::default());
    config.transport = bare(Some(TcpConfig::default()));
    let mut sim = pair(config, 8);
    assert!(one(&mut sim, 1_000_000) > 1_020.0);
}
