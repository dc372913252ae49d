//! Several processes simulate one network, with the result of one process.

use std::sync::Arc;

use crate::common::*;
use samara_engine::outbox::Dispatch;
use samara_engine::{FrameCodec, NodeRng, Purpose, Reader, Time};
use samara_sim::{
    Count, HostStats, QuicConfig, RankError, Ranks, Record, Simulation, StreamOrder, TcpConfig, Threads,
    Transport, digest_of, hosts_of_rank,
};

struct Blobs;

impl FrameCodec<Blob> for Blobs {
    fn write(&self, blob: &Blob, out: &mut Vec<u8>) {
        out.extend_from_slice(&blob.id.to_le_bytes());
        out.extend_from_slice(&blob.len.to_le_bytes());
        out.push(blob.route.len() as u8);
        blob.route.iter().for_each(|host| out.extend_from_slice(&host.to_le_bytes()));
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<Blob> {
        let (id, len) = (reader.u64()?, reader.u32()?);
        let route = (0..reader.u8()?).map(|_| reader.u32()).collect::<Option<Vec<u32>>>()?;
        Some(Blob { id, len, route: Arc::new(route) })
    }
}

const HOSTS: u32 = 30;

fn messy(seed: u64, transport: &Transport, dials: bool, local: std::ops::Range<u32>) -> Simulation<Talker> {
    let (mut config, hosts) = (rough(seed, transport), hosts(HOSTS as usize, 10 * MBIT));
    if seed >= 3 {
        config = fair_queues(config);
    }
    let mut sim = Simulation::with_local_hosts(config, hosts, talkers(Dispatch::PerLink, 1), local).unwrap();
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    for (a, b) in pairs(HOSTS, 0.2, &mut rng) {
        let (from, to) = if rng.chance(0.5) { (a, b) } else { (b, a) };
        if dials {
            sim.dial(Time::from_millis(rng.below(100)), from, to);
        } else {
            sim.establish(Time::ZERO, from, to);
        }
    }
    chatter(&mut sim, HOSTS, 200, &mut rng);
    for host in [3, 17] {
        sim.crash(Time::from_millis(1500), host, host == 3);
        sim.restart(Time::from_millis(2500), host);
    }
    sim
}

/// The observations of one process, or of all of them.
#[derive(Debug, PartialEq)]
struct Seen {
    digest: u64,
    stats: Vec<HostStats>,
    records: Vec<Record<Heard>>,
}

const SLICES: [u64; 3] = [1_234, 2_000, 30_000];

fn single(seed: u64, transport: &Transport, dials: bool) -> Seen {
    let mut sim = messy(seed, transport, dials, 0..HOSTS);
    let records = SLICES.iter().flat_map(|until| run(&mut sim, Time::from_millis(*until))).collect();
    let stats = (0..HOSTS).map(|host| *sim.stats(host)).collect();
    Seen { digest: sim.digest(), stats, records }
}

fn distributed(seed: u64, transport: &Transport, dials: bool, count: usize) -> Seen {
    let run = |mut ranks: Threads| {
        let local = hosts_of_rank(HOSTS, ranks.rank(), ranks.count());
        let mut sim = messy(seed, transport, dials, local.clone());
        let mut records = Vec::new();
        for until in SLICES {
            let until = Time::from_millis(until);
            sim.run_until_distributed(until, &mut ranks, &Blobs, |record| records.push(record)).unwrap();
        }
        // Encodes and decodes the counters as processes exchange them.
        let mut bytes = Vec::new();
        local.clone().for_each(|host| sim.stats(host).write(&mut bytes));
        let mut reader = Reader::new(&bytes);
        let stats: Vec<HostStats> = local.map(|_| HostStats::read(&mut reader).unwrap()).collect();
        assert!(reader.is_empty());
        (sim.digests().collect::<Vec<_>>(), stats, records)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            Threads::new(count).into_iter().map(|ranks| scope.spawn(|| run(ranks))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut records: Vec<Record<Heard>> = parts.iter().flat_map(|part| part.2.clone()).collect();
    records.sort_by_key(|record| (record.at, record.host));
    let stats = parts.iter().flat_map(|part| part.1.clone()).collect();
    let digest = digest_of(parts.iter().flat_map(|part| part.0.clone()));
    Seen { digest, stats, records }
}

#[test]
fn results_do_not_depend_on_the_number_of_processes() {
    let quic = QuicConfig { streams: StreamOrder::PerFrame, ..QuicConfig::default() };
    // The last one with FQ-CoDel: see `messy`.
    let transports = [bare(None), bare(Some(TcpConfig::default())), bare_quic(quic), bare_quic(quic)];
    for (seed, transport) in (0..).zip(&transports) {
        for dials in [false, true] {
            let one = single(seed, transport, dials);
            assert!(one.records.len() > 100, "{} records", one.records.len());
            for count in [1, 2, 4, 7] {
                let many = distributed(seed, transport, dials, count);
                assert!(many == one, "transport {seed}, dials {dials}, {count} processes");
            }
        }
    }
}

#[test]
fn hosts_of_all_ranks_cover_the_network() {
    for hosts in [1, 2, 30, 99_999] {
        for count in 1..=hosts.min(9) as usize {
            let parts: Vec<_> = (0..count).map(|rank| hosts_of_rank(hosts, rank, count)).collect();
            assert_eq!((parts[0].start, parts[count - 1].end), (0, hosts));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            let (least, most) = (parts.iter().map(|p| p.len()).min(), parts.iter().map(|p| p.len()).max());
            assert!(most.unwrap() - least.unwrap() <= 1);
        }
    }
}

/// The only process of a run, which receives these bytes.
struct Nonsense(Vec<u8>);

impl Ranks for Nonsense {
    fn rank(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        1
    }

    fn least(&mut self, value: u64) -> Result<u64, RankError> {
        Ok(value)
    }

    fn exchange(&mut self, _: &mut [Vec<u8>]) -> Result<Vec<Vec<u8>>, RankError> {
        Ok(vec![self.0.clone()])
    }
}

#[test]
fn invalid_packets_and_lost_processes_are_reported() {
    let mut rng = NodeRng::new(1, 0, Purpose::Workload);
    for len in 1..200 {
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        let mut sim = messy(1, &bare(None), false, 0..HOSTS);
        let outcome = sim.run_until_distributed(Time::from_secs(2), &mut Nonsense(bytes), &Blobs, |_| {});
        assert_eq!(outcome, Err(RankError::Garbled { from: 0 }));
    }
    // A process that is gone causes an error.
    let mut ranks = Threads::new(2);
    drop(ranks.pop());
    let mut sim = messy(1, &bare(None), false, hosts_of_rank(HOSTS, 0, 2));
    let outcome = sim.run_until_distributed(Time::from_secs(2), &mut ranks[0], &Blobs, |_| {});
    assert!(matches!(outcome, Err(RankError::Gone(_))), "{outcome:?}");
    assert_eq!(sim.stats(0).received, Count::default());
}
