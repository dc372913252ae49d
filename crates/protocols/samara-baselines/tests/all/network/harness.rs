//! A network of nodes on one topic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samara_baselines::{Baseline, Command, Event, Message, MessageId, Topic};
use samara_engine::outbox::OutboxConfig;
use samara_engine::{Context, Engine, Input, NodeRng, Outbox, PeerId, Purpose, Time};
use samara_sim::{
    DownlinkQueue, HostConfig, Latency, Network, NicDiscipline, SimConfig, Simulation, Transport, host_of,
    identity_of,
};

pub(crate) fn topic() -> Topic {
    Topic::new("blocks")
}

pub(crate) fn millis(millis: f64) -> Time {
    Time::from_nanos((millis * 1e6) as u64)
}

/// An engine, and a way to close its links.
pub(crate) struct Node<B> {
    pub(crate) engine: B,
    peers: BTreeMap<u32, PeerId>,
}

#[derive(Clone, Debug)]
pub(crate) enum HostCommand {
    App(Command),
    /// Close the link to this host.
    Close(u32),
}

impl<B: Baseline> Engine for Node<B> {
    type Frame = B::Frame;
    type Command = HostCommand;
    type Event = Event;

    fn handle(&mut self, input: Input<B::Frame, HostCommand>, cx: &mut Context<'_, B::Frame, Event>) {
        let input = match input {
            Input::Command(HostCommand::Close(host)) => return cx.close(self.peers[&host]),
            Input::Command(HostCommand::App(command)) => Input::Command(command),
            Input::LinkUp { peer, info } => {
                self.peers.insert(host_of(&info.identity).unwrap(), peer);
                Input::LinkUp { peer, info }
            }
            Input::Start => Input::Start,
            Input::LinkDown { peer } => Input::LinkDown { peer },
            Input::DialFailed { identity } => Input::DialFailed { identity },
            Input::Frame { peer, frame } => Input::Frame { peer, frame },
            Input::Timer(token) => Input::Timer(token),
        };
        self.engine.handle(input, cx);
    }
}

pub(crate) type Edges = Vec<(u32, u32)>;

/// Returns a connected random graph: a ring plus random edges, up to `degree` for each node on
/// average.
pub(crate) fn random_graph(nodes: u32, degree: u32, seed: u64) -> Edges {
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    let mut edges: std::collections::BTreeSet<(u32, u32)> = ring(nodes).into_iter().map(sorted).collect();
    let wanted = (nodes * degree / 2).min(nodes * (nodes - 1) / 2);
    while edges.len() < wanted as usize {
        let (a, b) = (rng.below(u64::from(nodes)) as u32, rng.below(u64::from(nodes)) as u32);
        if a != b {
            edges.insert(sorted((a, b)));
        }
    }
    edges.into_iter().collect()
}

fn sorted((a, b): (u32, u32)) -> (u32, u32) {
    (a.min(b), a.max(b))
}

pub(crate) fn ring(nodes: u32) -> Edges {
    (0..nodes).map(|node| (node, (node + 1) % nodes)).collect()
}

pub(crate) fn full_mesh(nodes: u32) -> Edges {
    (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b))).collect()
}

/// Returns a tree in which each node is attached to a random earlier one.
pub(crate) fn random_tree(nodes: u32, seed: u64) -> Edges {
    let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
    (1..nodes).map(|node| (rng.below(u64::from(node)) as u32, node)).collect()
}

/// The parameters of a network.
pub(crate) struct Setup {
    pub(crate) nodes: u32,
    pub(crate) edges: Edges,
    pub(crate) seed: u64,
    pub(crate) latency: Latency,
    pub(crate) bps: u64,
    pub(crate) dead_peer_timeout: Duration,
}

impl Setup {
    /// A network whose links have a latency of 1 to 10 ms and 1 Gbit/s.
    pub(crate) fn new(nodes: u32, edges: Edges, seed: u64) -> Self {
        let latency = Latency::Uniform { min: Duration::from_millis(1), max: Duration::from_millis(10) };
        Self { nodes, edges, seed, latency, bps: 1_000_000_000, dead_peer_timeout: Duration::from_secs(40) }
    }

    pub(crate) fn build<B: Baseline + 'static>(
        &self,
        outbox: OutboxConfig,
        make: impl Fn(u32) -> B + Send + Sync + 'static,
    ) -> Net<B> {
        let factory = move |host: u32| {
            (Node { engine: make(host), peers: BTreeMap::new() }, Outbox::new(outbox.clone()))
        };
        let config = SimConfig {
            seed: self.seed,
            threads: 1,
            network: Network { latency: self.latency.clone(), ..Network::uniform(Duration::ZERO) },
            transport: Transport { dead_peer_timeout: self.dead_peer_timeout, ..Transport::ideal() },
            nic: NicDiscipline::RoundRobin,
            downlink_queue: DownlinkQueue::DropTail { bytes: u64::MAX },
        };
        let host = HostConfig { uplink_bps: self.bps, downlink_bps: self.bps, region: 0 };
        let hosts = vec![host; self.nodes as usize];
        let mut sim = Simulation::new(config, hosts, Arc::new(factory)).unwrap();
        for (a, b) in &self.edges {
            sim.establish(Time::ZERO, *a, *b);
        }
        for host in 0..self.nodes {
            sim.command(Time::ZERO, host, HostCommand::App(Command::Subscribe(topic())));
        }
        let mut net = Net { sim, nodes: self.nodes, deliveries: BTreeMap::new(), lost: 0 };
        net.run_until(millis(1000.0));
        net
    }
}

/// The arrival of a message at a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// The sending host; `None` for an own message.
    pub(crate) from: Option<u32>,
    /// The number of links travelled, if the protocol counts them.
    pub(crate) hops: Option<u32>,
}

/// A running network.
pub(crate) struct Net<B: Baseline + 'static> {
    pub(crate) sim: Simulation<Node<B>>,
    pub(crate) nodes: u32,
    /// The deliveries of each message, by host.
    pub(crate) deliveries: BTreeMap<MessageId, BTreeMap<u32, Delivery>>,
    pub(crate) lost: u64,
}

impl<B: Baseline + 'static> Net<B> {
    /// Makes a host publish a message of 1,000 bytes.
    pub(crate) fn publish(&mut self, at: Time, host: u32, number: u64) -> MessageId {
        let mut data = vec![0; 1000];
        data[..8].copy_from_slice(&number.to_be_bytes());
        let message = Arc::new(Message::new(identity_of(host), number, topic(), data.into()));
        self.sim.command(at, host, HostCommand::App(Command::PublishMessage(Arc::clone(&message))));
        message.id()
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        let mut records = Vec::new();
        self.sim.run_until(until, |record| records.push(record));
        for record in records {
            match record.event {
                Event::Message { message, from, hops, .. } => {
                    let from = from.map(|peer| self.sim.peer_of(record.host, peer));
                    let delivery = Delivery { from, hops };
                    let deliveries = self.deliveries.entry(message.id()).or_default();
                    assert!(deliveries.insert(record.host, delivery).is_none(), "message delivered twice");
                }
                Event::Lost(_) => self.lost += 1,
                Event::Refused(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    pub(crate) fn engine(&self, host: u32) -> &B {
        &self.sim.node(host).engine
    }

    /// Returns the sum of a counter over all nodes.
    pub(crate) fn sum(&self, of: impl Fn(&samara_baselines::Metrics) -> u64) -> u64 {
        (0..self.nodes).map(|host| of(&self.engine(host).metrics())).sum()
    }

    /// Asserts that all of `hosts` received all of `ids`.
    pub(crate) fn assert_delivered(&self, ids: &[MessageId], hosts: &[u32], label: &str) {
        for id in ids {
            let got = self.deliveries.get(id);
            let has = |host: &&u32| got.is_none_or(|got| !got.contains_key(host));
            let missing: Vec<&u32> = hosts.iter().filter(has).collect();
            assert!(missing.is_empty(), "{label}: {id:?} did not reach {missing:?}");
        }
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        (0..self.nodes).collect()
    }
}
