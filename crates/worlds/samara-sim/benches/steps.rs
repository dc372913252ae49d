//! Steps per second of the simulator alone: a flood of 128 columns over static meshes, with a
//! protocol that does almost nothing, on 1 and 2 threads, over TCP and over connections with
//! channels.
//!
//! `cargo bench -p samara-sim` prints the time of each run and its steps per second (`elem/s`).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig, Owe, Schedule};
use samara_engine::{Context, Engine, Frame, Input, MessageKey, NodeRng, Outbox, PeerId, Purpose, Time};
use samara_sim::{
    ChannelConfig, DownlinkQueue, HostConfig, MConnectionConfig, Network, NicDiscipline, SimConfig,
    Simulation, Transport, host_of,
};

const COLUMNS: u32 = 128;
const CUSTODY: usize = 16;
const DEGREE: usize = 4;
const COLUMN_BYTES: u32 = 16_384;

#[derive(Clone)]
struct Column(u32);

impl Frame for Column {
    fn encoded_len(&self) -> usize {
        COLUMN_BYTES as usize
    }

    fn payload_len(&self) -> usize {
        COLUMN_BYTES as usize
    }
}

/// Forwards each column to its mesh when it sees the column for the first time.
struct Flooder {
    mesh_hosts: Arc<Vec<Vec<u32>>>,
    peers: Vec<(u32, PeerId)>,
    seen: u128,
}

impl Flooder {
    fn pass_on(&mut self, column: u32, except: Option<PeerId>, cx: &mut Context<'_, Column, u32>) {
        if self.seen & (1 << column) != 0 {
            return;
        }
        self.seen |= 1 << column;
        cx.emit(column);
        let peers = self.mesh_hosts[column as usize]
            .iter()
            .filter_map(|host| self.peers.iter().find(|(peer, _)| peer == host).map(|(_, id)| *id))
            .filter(|peer| Some(*peer) != except)
            .collect();
        let owe = Owe { message: MessageKey(column.into()), frame: Column(column), peers, deadline: None };
        let now = cx.now();
        let (outbox, rng) = cx.outbox_and_rng();
        outbox.owe_batch(now, Lane(0), [owe], &Schedule::Sequential, rng, &mut Vec::new());
    }
}

impl Engine for Flooder {
    type Frame = Column;
    type Command = ();
    type Event = u32;

    fn handle(&mut self, input: Input<Column, ()>, cx: &mut Context<'_, Column, u32>) {
        match input {
            Input::LinkUp { peer, info } => {
                self.peers.push((host_of(&info.identity).unwrap_or(u32::MAX), peer));
            }
            Input::Frame { peer, frame } => self.pass_on(frame.0, Some(peer), cx),
            Input::Command(()) => (0..COLUMNS).for_each(|column| self.pass_on(column, None, cx)),
            Input::Start | Input::LinkDown { .. } | Input::DialFailed { .. } | Input::Timer(_) => {}
        }
    }
}

/// Returns the mesh of every host and column: every subscriber picks peers, and links go both ways.
fn meshes(nodes: u32) -> Vec<Arc<Vec<Vec<u32>>>> {
    let mut rng = NodeRng::new(1, 0, Purpose::Topology);
    let mut subscribers = vec![vec![0u32]; COLUMNS as usize];
    for node in 1..nodes {
        let mut columns: Vec<u32> = (0..COLUMNS).collect();
        rng.shuffle(&mut columns);
        for column in &columns[..CUSTODY] {
            subscribers[*column as usize].push(node);
        }
    }
    let mut meshes = vec![vec![Vec::new(); COLUMNS as usize]; nodes as usize];
    for (column, subscribers) in subscribers.iter().enumerate() {
        for a in subscribers {
            for _ in 0..DEGREE {
                if let Some(b) = rng.choose(subscribers)
                    && a != b
                    && !meshes[*a as usize][column].contains(b)
                {
                    meshes[*a as usize][column].push(*b);
                    meshes[*b as usize][column].push(*a);
                }
            }
        }
    }
    meshes.into_iter().map(Arc::new).collect()
}

fn simulation(meshes: &[Arc<Vec<Vec<u32>>>], threads: usize, transport: &Transport) -> Simulation<Flooder> {
    let config = SimConfig {
        seed: 1,
        threads,
        network: Network::uniform(Duration::from_millis(50)),
        transport: transport.clone(),
        nic: NicDiscipline::RoundRobin,
        downlink_queue: DownlinkQueue::default(),
    };
    let host = HostConfig { uplink_bps: 20_000_000, downlink_bps: 20_000_000, region: 0 };
    let nodes = meshes.to_vec();
    let factory = move |id: u32| {
        let outbox = Outbox::new(OutboxConfig {
            dispatch: Dispatch::PerLink,
            lanes: vec![LaneConfig::unbounded("data", 0)],
        });
        (Flooder { mesh_hosts: nodes[id as usize].clone(), peers: Vec::new(), seen: 0 }, outbox)
    };
    let mut sim =
        Simulation::new(config, vec![host; meshes.len()], Arc::new(factory)).expect("a valid set-up");
    for (a, mesh) in meshes.iter().enumerate() {
        let mut peers: Vec<u32> = mesh.iter().flatten().copied().filter(|b| *b > a as u32).collect();
        peers.sort_unstable();
        peers.dedup();
        for b in peers {
            sim.establish(Time::ZERO, a as u32, b);
        }
    }
    sim.command(Time::from_secs(1), 0, ());
    sim
}

fn flood(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sim::flood");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).warm_up_time(Duration::from_millis(1));
    let channel = ChannelConfig { id: 0x30, priority: 1, queue: 1, lanes: vec![Lane(0)] };
    let channels = Transport::mconnection(MConnectionConfig::cometbft(vec![channel]));
    for (name, nodes, transport) in [
        ("nodes=1000", 1_000, Transport::tcp()),
        ("nodes=10000", 10_000, Transport::tcp()),
        ("channels/nodes=1000", 1_000, channels),
    ] {
        let meshes = meshes(nodes);
        for threads in [1, 2] {
            let mut sim = simulation(&meshes, threads, &transport);
            let mut reached = 0;
            sim.run_until(Time::from_secs(30), |_| reached += 1);
            assert_eq!(
                reached,
                COLUMNS as usize + (nodes as usize - 1) * CUSTODY,
                "the flood did not reach every subscriber"
            );
            group.throughput(Throughput::Elements(sim.steps()));
            group.bench_function(BenchmarkId::new(name, format!("threads={threads}")), |bench| {
                bench.iter_with_setup(
                    || simulation(&meshes, threads, &transport),
                    |mut sim| {
                        sim.run_until(Time::from_secs(30), |record| {
                            black_box(record);
                        });
                        sim
                    },
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, flood);
criterion_main!(benches);
