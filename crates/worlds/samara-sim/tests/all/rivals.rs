//! Uploads, calls and second nodes behind the router of a host.

use std::time::Duration;

use crate::common::*;
use samara_engine::Time;
use samara_sim::{
    CALL_PACKETS_PER_S, FqCoDel, NicDiscipline, QueueSize, RivalKind, RivalStats, SimConfig, Simulation,
    Transport,
};

const LATENCY: Duration = Duration::from_millis(25);
const UPLOAD: RivalKind = RivalKind::Upload { connections: 1 };
const NODE: RivalKind = RivalKind::Node { links: 20 };

/// Two hosts with 20 Mbit/s, behind routers with this queue.
fn behind(nic: NicDiscipline) -> Simulation<Talker> {
    pair(SimConfig { nic, ..config(25, Transport::tcp()) }, 20)
}

fn fifo(millis: u64) -> NicDiscipline {
    NicDiscipline::DropTail(QueueSize::Time(Duration::from_millis(millis)))
}

/// Adds rivals to host 0 from second 1 to second 21, and returns what they got at second 25.
fn beside(mut sim: Simulation<Talker>, kinds: &[RivalKind]) -> Vec<RivalStats> {
    for kind in kinds {
        sim.add_rival(START, Time::from_secs(21), 0, *kind, LATENCY);
    }
    run(&mut sim, Time::from_secs(25));
    sim.rivals(0).collect()
}

fn share(rival: &RivalStats) -> f64 {
    8e9 * rival.sent.bytes as f64 / (rival.uplink_bps as f64 * rival.nanos as f64)
}

fn mean_millis(rival: &RivalStats) -> f64 {
    rival.delays_nanos.iter().sum::<u64>() as f64 / rival.delays_nanos.len() as f64 / 1e6
}

#[test]
fn an_upload_fills_an_idle_uplink() {
    let all = beside(behind(fifo(200)), &[UPLOAD]);
    let [upload] = &all[..] else { panic!("{all:?}") };
    assert_eq!((upload.host, upload.uplink_bps, upload.nanos), (0, 20_000_000, 20_000_000_000));
    assert!((0.97..=1.01).contains(&share(upload)), "{}", share(upload));
    // CUBIC grows until the queue is full.
    assert!(upload.lost > 0, "{upload:?}");
}

#[test]
fn a_call_waits_behind_an_upload_unless_queues_are_fair() {
    let all = beside(behind(fifo(200)), &[RivalKind::Call]);
    assert_eq!(all[0].sent.packets, 20 * u64::from(CALL_PACKETS_PER_S));
    assert_eq!((mean_millis(&all[0]), all[0].lost), (0.0, 0));
    let all = beside(behind(fifo(200)), &[UPLOAD, RivalKind::Call]);
    let most = all[1].delays_nanos.iter().max().copied().unwrap_or(0);
    assert!((60.0..200.0).contains(&mean_millis(&all[1])), "{} ms", mean_millis(&all[1]));
    // The packet that leaves is in no queue.
    assert!((100_000_000..=201_000_000).contains(&most), "{most} ns");
    let all = beside(behind(NicDiscipline::FqCoDel(FqCoDel::default())), &[UPLOAD, RivalKind::Call]);
    assert!(mean_millis(&all[1]) < 2.0, "{} ms", mean_millis(&all[1]));
}

#[test]
fn two_uploads_share_by_their_connections() {
    let all = beside(behind(fifo(200)), &[UPLOAD, RivalKind::Upload { connections: 3 }]);
    let shares: Vec<f64> = all.iter().map(share).collect();
    assert!((0.97..=1.01).contains(&shares.iter().sum::<f64>()), "{shares:?}");
    assert!((0.1..0.4).contains(&shares[0]), "{shares:?}");
}

#[test]
fn a_rival_outlives_the_process_and_the_host_counts_beside_it() {
    let mut sim = behind(fifo(200));
    sim.command(Time::from_secs(2), 0, Say::To { hosts: vec![1], id: 1, len: 100_000 });
    sim.crash(Time::from_secs(10), 0, false);
    let all = beside(sim, &[UPLOAD]);
    let sent = all[0].host_sent.bytes;
    assert!((100_000..110_000).contains(&sent), "{sent} bytes of the host");
    assert!(share(&all[0]) > 0.96, "{}", share(&all[0]));
}

#[test]
fn a_second_node_takes_an_idle_uplink_and_leaves_the_queue_short() {
    let all = beside(behind(fifo(200)), &[NODE, RivalKind::Call]);
    assert!((0.95..=1.0).contains(&share(&all[0])), "{}", share(&all[0]));
    assert_eq!((all[0].lost, all[1].lost), (0, 0));
    assert!(mean_millis(&all[1]) < 20.0, "{} ms", mean_millis(&all[1]));
    let all = beside(behind(NicDiscipline::FqCoDel(FqCoDel::default())), &[NODE]);
    assert!((0.95..=1.0).contains(&share(&all[0])), "{}", share(&all[0]));
}

#[test]
fn second_nodes_share_an_uplink_with_each_other_and_with_an_upload() {
    for other in [NODE, UPLOAD] {
        let all = beside(behind(fifo(200)), &[NODE, other]);
        let shares: Vec<f64> = all.iter().map(share).collect();
        assert!(shares.iter().all(|share| *share >= 0.4), "{other:?}: {shares:?}");
    }
}
