//! Faults planted on purpose: the explanation names each as the first cause, at the place where it
//! is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::outbox::{Dispatch, Lane, LaneConfig, OutboxConfig};
use samara_engine::{Context, Engine, Input, NodeRng, Outbox, PeerId, Purpose, Time, TimerToken};
use samara_sim::{
    Cause, Contents, DownlinkQueue, HostConfig, Latency, NodeFactory, Origin, PairLatencies, SimConfig,
    Simulation, TcpConfig, host_of, parts_of,
};

use crate::common::*;

/// Passes blobs on along their routes after a time of validation, one at a time.
struct Relay {
    validation: Duration,
    peers: FxHashMap<u32, PeerId>,
    waiting: VecDeque<Blob>,
}

const VALIDATED: TimerToken = TimerToken(TimerToken::WRAPPER);

impl Relay {
    fn pass_on(&self, mut blob: Blob, cx: &mut Context<'_, Blob, ()>) {
        let mut route = blob.route.to_vec();
        if let Some(peer) = route.pop().and_then(|next| self.peers.get(&next)).copied() {
            blob.route = Arc::new(route);
            let now = cx.now();
            cx.outbox().owe(now, peer, Lane(0), blob, None, None).unwrap();
        }
    }

    fn validate(&self, cx: &mut Context<'_, Blob, ()>) {
        let done = cx.now() + self.validation;
        cx.set_timer(done, VALIDATED);
    }
}

impl Engine for Relay {
    type Frame = Blob;
    type Command = Blob;
    type Event = ();

    fn handle(&mut self, input: Input<Blob, Blob>, cx: &mut Context<'_, Blob, ()>) {
        match input {
            Input::LinkUp { peer, info } => {
                self.peers.insert(host_of(&info.identity).unwrap(), peer);
            }
            Input::Command(blob) => self.pass_on(blob, cx),
            Input::Frame { frame, .. } if self.validation.is_zero() => self.pass_on(frame, cx),
            Input::Frame { frame, .. } => {
                self.waiting.push_back(frame);
                if self.waiting.len() == 1 {
                    self.validate(cx);
                }
            }
            Input::Timer(_) => {
                let blob = self.waiting.pop_front().unwrap();
                self.pass_on(blob, cx);
                if !self.waiting.is_empty() {
                    self.validate(cx);
                }
            }
            _ => {}
        }
    }
}

/// A chain of hosts, over which a blob travels from the first to the last.
struct Chain {
    hosts: Vec<HostConfig>,
    latency: Vec<Duration>,
    validation: Vec<Duration>,
    /// Bytes that warm up each link before.
    warm_up: Vec<u32>,
    queue_bytes: u64,
    len: u32,
}

impl Chain {
    /// Draws a chain of four hosts without a fault: links of some milliseconds that carry some
    /// hundred megabits per second, and whose windows are open.
    fn draw(rng: &mut NodeRng) -> Self {
        let mbit = |rng: &mut NodeRng| (400 + rng.below(600)) * MBIT;
        let host =
            |rng: &mut NodeRng| HostConfig { uplink_bps: mbit(rng), downlink_bps: 2_000 * MBIT, region: 0 };
        Self {
            hosts: (0..4).map(|_| host(rng)).collect(),
            latency: (0..3).map(|_| Duration::from_micros(2_000 + rng.below(6_000))).collect(),
            validation: vec![Duration::ZERO; 4],
            warm_up: vec![1_000_000; 3],
            queue_bytes: u64::MAX,
            len: 110_000 + rng.below(90_000) as u32,
        }
    }

    /// Sends the blob. Returns the first cause of its path, and the place of the hop that has most of
    /// it.
    fn first_cause(&self, seed: u64) -> (Cause, usize) {
        let tcp = TcpConfig { idle_restart: false, ..TcpConfig::default() };
        let base = config(1, bare(Some(tcp)));
        let far = Duration::from_millis(500);
        let pair = |from: u32, to: u32| match from.abs_diff(to) {
            1 => self.latency[from.min(to) as usize],
            _ => far,
        };
        let nanos: Vec<u32> =
            (0..4).flat_map(|from| (0..4).map(move |to| pair(from, to).as_nanos() as u32)).collect();
        let mut network = base.network.clone();
        network.latency = Latency::Pairs(PairLatencies::new(4, nanos).unwrap());
        let queue = DownlinkQueue::DropTail { bytes: self.queue_bytes };
        let config = SimConfig { seed, network, downlink_queue: queue, ..base };
        let validation = self.validation.clone();
        let factory: NodeFactory<Relay> = Arc::new(move |host| {
            let lanes = vec![LaneConfig::unbounded("data", 0)];
            let outbox = Outbox::new(OutboxConfig { dispatch: Dispatch::PerLink, lanes });
            let validation = validation[host as usize];
            (Relay { validation, peers: FxHashMap::default(), waiting: VecDeque::new() }, outbox)
        });
        let mut sim = Simulation::new(config, self.hosts.clone(), factory).unwrap();
        sim.explain(|blob: &Blob, _| Contents {
            items: [blob.id].into_iter().collect(),
            batch: Some(blob.id),
            ..Contents::default()
        });
        for host in 0..3 {
            sim.establish(Time::ZERO, host, host + 1);
            let warm = Blob { id: 100, len: self.warm_up[host as usize], route: Arc::new(vec![host + 1]) };
            if warm.len > 0 {
                sim.command(Time::from_millis(1), host, warm);
            }
        }
        // Long after the warm-up, whatever was lost in it.
        let at = Time::from_secs(3_000);
        sim.command(at, 0, Blob { id: 7, len: self.len, route: Arc::new(vec![3, 2, 1]) });
        sim.run_until(Time::from_secs(4_000), |_| {});
        let path = sim.take_arrivals().path(3, 7, Origin { host: 0, at: at.as_nanos() }).expect("it arrives");
        let first = parts_of(&path).first().unwrap();
        let place = (0..3).max_by_key(|hop| path[*hop].parts.get(first)).unwrap();
        (first, place)
    }
}

/// Plants a fault at a random place of 100 chains, and counts how often the explanation names it.
fn found(causes: &[Cause], plant: impl Fn(&mut Chain, usize, &mut NodeRng)) -> usize {
    let is_found = |seed: &u64| {
        let mut rng = NodeRng::new(*seed, 0, Purpose::Workload);
        let mut chain = Chain::draw(&mut rng);
        let place = rng.index(3);
        plant(&mut chain, place, &mut rng);
        let (first, at) = chain.first_cause(*seed);
        causes.contains(&first) && at == place
    };
    (0..100).filter(is_found).count()
}

#[test]
fn without_a_fault_no_cause_but_latency_and_serialisation_is_first() {
    for seed in 0..100 {
        let chain = Chain::draw(&mut NodeRng::new(seed, 0, Purpose::Workload));
        let (first, _) = chain.first_cause(seed);
        assert!(matches!(first, Cause::Latency | Cause::Serialisation), "seed {seed}: {first:?}");
    }
}

#[test]
fn slow_relay_is_named() {
    let found = found(&[Cause::Serialisation], |chain, place, rng| {
        chain.hosts[place].uplink_bps = (2 + rng.below(20)) * MBIT;
    });
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn small_queue_is_named() {
    // After losses, windows grow slowly.
    let found = found(&[Cause::Loss, Cause::Avoidance], |chain, place, rng| {
        chain.hosts[place + 1].downlink_bps = (50 + rng.below(50)) * MBIT;
        chain.queue_bytes = 3_000 + rng.below(6_000);
    });
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn cold_link_is_named() {
    let found = found(&[Cause::SlowStart], |chain, place, _| chain.warm_up[place] = 0);
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn validation_of_50_ms_is_named() {
    let is_found = |seed: &u64| {
        let mut rng = NodeRng::new(*seed, 0, Purpose::Workload);
        let mut chain = Chain::draw(&mut rng);
        // The publisher does not validate. A hop begins with the validation of its sender.
        let place = 1 + rng.index(2);
        chain.validation[place] = Duration::from_millis(50);
        chain.first_cause(*seed) == (Cause::Processor, place)
    };
    let found = (0..100).filter(is_found).count();
    assert!(found >= 95, "{found} of 100");
}
