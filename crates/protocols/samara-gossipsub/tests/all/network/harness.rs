//! A network of nodes on one topic, optionally with attackers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Context, Engine, Input, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time, TimerToken};
use samara_gossipsub::rpc::{Control, IHave, MessageId, Prune, Rpc, RpcFrame, SubOpts, Topic};
use samara_gossipsub::{Command, Config, Event, GossipSub};
use samara_sim::{
    DownlinkQueue, HostConfig, Latency, Network, NicDiscipline, SimConfig, Simulation, Transport, identity_of,
};

pub(crate) const TOPIC: &str = "blocks";

pub(crate) fn topic() -> Topic {
    Topic::new(TOPIC)
}

pub(crate) fn secs(seconds: f64) -> Time {
    Time::from_nanos((seconds * 1e9) as u64)
}

/// The action that an attacker repeats ten times a second towards all its peers. It never forwards
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Sends GRAFT, whatever the answer.
    Graft,
    /// Announces messages that do not exist.
    IHave,
    /// Requests all known ids repeatedly.
    IWant,
    /// Sends IDONTWANT for a hundred invented messages.
    IDontWant,
    /// Subscribes to invented topics, and sends GRAFT and PRUNE for them.
    Topics,
}

pub(crate) enum Node {
    Honest(Box<GossipSub>),
    Sybil(Sybil),
}

pub(crate) struct Sybil {
    attack: Attack,
    peers: Vec<PeerId>,
    heard: Vec<MessageId>,
    rounds: u64,
}

impl Node {
    pub(crate) fn honest(&self) -> &GossipSub {
        match self {
            Self::Honest(node) => node,
            Self::Sybil(sybil) => panic!("an attacker ({:?}) has no engine", sybil.attack),
        }
    }
}

impl Engine for Node {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Context<'_, RpcFrame, Event>) {
        match self {
            Self::Honest(node) => node.handle(input, cx),
            Self::Sybil(sybil) => sybil.handle(input, cx),
        }
    }
}

impl Sybil {
    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Context<'_, RpcFrame, Event>) {
        match input {
            Input::Start => cx.set_timer(Time::from_millis(100), TimerToken(0)),
            Input::LinkUp { peer, info: PeerInfo { .. } } => {
                self.peers.push(peer);
                let subscriptions = vec![SubOpts {
                    subscribe: true,
                    topic: topic(),
                    partial: Default::default(),
                    unknown: Bytes::new(),
                }];
                self.send_rpc(peer, Rpc { subscriptions, ..Rpc::default() }, cx);
            }
            Input::LinkDown { peer } => self.peers.retain(|known| *known != peer),
            Input::Timer(_) => {
                self.rounds += 1;
                for at in 0..self.peers.len() {
                    let rpc = self.spam(at as u64);
                    self.send_rpc(self.peers[at], rpc, cx);
                }
                let next = cx.now() + Duration::from_millis(100);
                cx.set_timer(next, TimerToken(0));
            }
            Input::Frame { frame, .. } => {
                if let Some(control) = &frame.rpc().control {
                    self.heard.extend(control.ihave.iter().flat_map(|ihave| ihave.ids.clone()));
                    self.heard.extend(control.idontwant.iter().cloned());
                    let excess = self.heard.len().saturating_sub(100);
                    self.heard.drain(..excess);
                }
            }
            _ => {}
        }
    }

    fn spam(&self, salt: u64) -> Rpc {
        let invent = |count: u64| -> Vec<MessageId> {
            let first = (self.rounds << 32) + (salt << 20);
            (first..first + count).map(|number| MessageId::new(&number.to_be_bytes())).collect()
        };
        let name = |number: u64| Topic::new(&format!("invented-{}-{number}", self.rounds));
        let mut rpc = Rpc::default();
        let mut control = Control::default();
        match self.attack {
            Attack::Graft => control.graft = vec![topic()],
            Attack::IHave => control.ihave = vec![IHave { topic: topic(), ids: invent(200) }],
            Attack::IWant => control.iwant = self.heard.clone(),
            Attack::IDontWant => control.idontwant = invent(100),
            Attack::Topics => {
                let change = |number| SubOpts {
                    subscribe: true,
                    topic: name(number),
                    partial: Default::default(),
                    unknown: Bytes::new(),
                };
                rpc.subscriptions = (0..100).map(change).collect();
                control.graft = (0..100).map(name).collect();
                let backoff = Some(Duration::from_secs(u64::MAX));
                let prune = |number| Prune { topic: name(number), peers: Vec::new(), backoff };
                control.prune = (0..100).map(prune).collect();
            }
        }
        rpc.control = Some(Box::new(control));
        rpc
    }

    fn send_rpc(&self, peer: PeerId, rpc: Rpc, cx: &mut Context<'_, RpcFrame, Event>) {
        let now = cx.now();
        let frame = RpcFrame::new(rpc);
        let _ = cx.outbox().owe(now, peer, samara_engine::outbox::Lane(0), frame, None, None);
    }
}

/// The parameters of a network.
pub(crate) struct Setup {
    pub(crate) nodes: u32,
    /// Number of other nodes that each node dials.
    pub(crate) dials: u32,
    pub(crate) seed: u64,
    pub(crate) config: Config,
    /// Number of attackers, which are the last nodes.
    pub(crate) sybils: u32,
    pub(crate) attack: Attack,
    pub(crate) network: Network,
    pub(crate) transport: Transport,
    pub(crate) bps: u64,
}

impl Setup {
    pub(crate) fn new(nodes: u32, seed: u64, config: Config) -> Self {
        let latency = Latency::Uniform { min: Duration::from_millis(5), max: Duration::from_millis(80) };
        Self {
            nodes,
            dials: 8,
            seed,
            config,
            sybils: 0,
            attack: Attack::Graft,
            network: Network { latency, ..Network::uniform(Duration::ZERO) },
            transport: Transport::ideal(),
            bps: 100_000_000,
        }
    }

    pub(crate) fn honest(&self) -> u32 {
        self.nodes - self.sybils
    }

    /// Returns a connected random graph: each node dials the next one and some others.
    pub(crate) fn edges(&self) -> Vec<(u32, u32)> {
        let mut rng = NodeRng::new(self.seed, 0, Purpose::Topology);
        let mut edges = std::collections::BTreeSet::new();
        for node in 0..self.nodes {
            edges.insert((node, (node + 1) % self.nodes));
            for _ in 1..self.dials {
                let other = rng.below(u64::from(self.nodes)) as u32;
                if other != node && !edges.contains(&(other, node)) {
                    edges.insert((node, other));
                }
            }
        }
        edges.into_iter().collect()
    }

    pub(crate) fn build(&self) -> Net {
        let config = Arc::new(self.config.clone());
        let (honest, attack) = (self.honest(), self.attack);
        let factory = move |host: u32| {
            let node = if host < honest {
                Node::Honest(Box::new(GossipSub::new(Arc::clone(&config), identity_of(host)).unwrap()))
            } else {
                Node::Sybil(Sybil { attack, peers: Vec::new(), heard: Vec::new(), rounds: 0 })
            };
            (node, Outbox::new(config.outbox_config()))
        };
        let sim_config = SimConfig {
            seed: self.seed,
            threads: 1,
            network: self.network.clone(),
            transport: self.transport.clone(),
            nic: NicDiscipline::RoundRobin,
            downlink_queue: DownlinkQueue::DropTail { bytes: u64::MAX },
        };
        let host = HostConfig { uplink_bps: self.bps, downlink_bps: self.bps, region: 0 };
        let mut sim =
            Simulation::new(sim_config, vec![host; self.nodes as usize], Arc::new(factory)).unwrap();
        for (dialler, listener) in self.edges() {
            sim.establish(Time::ZERO, dialler, listener);
        }
        for node in 0..honest {
            sim.command(Time::ZERO, node, Command::Subscribe(topic()));
        }
        Net { sim, honest, deliveries: BTreeMap::new() }
    }
}

/// A running network.
pub(crate) struct Net {
    pub(crate) sim: Simulation<Node>,
    pub(crate) honest: u32,
    /// The time at which each host received each message.
    pub(crate) deliveries: BTreeMap<MessageId, BTreeMap<u32, Time>>,
}

impl Net {
    pub(crate) fn publish(&mut self, at: Time, host: u32, number: u64, len: usize) {
        let mut data = vec![0; len.max(8)];
        data[..8].copy_from_slice(&number.to_be_bytes());
        self.sim.command(at, host, Command::Publish { topic: topic(), data: data.into() });
    }

    /// Publishes messages numbered from 0, one every `gap` seconds.
    pub(crate) fn publish_each(
        &mut self,
        count: usize,
        from: f64,
        gap: f64,
        host: impl Fn(u32) -> u32,
        len: usize,
    ) {
        for number in 0..count as u32 {
            self.publish(secs(from + f64::from(number) * gap), host(number), number.into(), len);
        }
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        let deliveries = &mut self.deliveries;
        self.sim.run_until(until, |record| {
            if let Event::Message { id, .. } = record.event {
                let first = deliveries.entry(id).or_default().insert(record.host, record.at);
                assert!(first.is_none(), "host {} received a message event twice", record.host);
            }
        });
    }

    pub(crate) fn node(&self, host: u32) -> &GossipSub {
        self.sim.node(host).honest()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &GossipSub> {
        (0..self.honest).map(|host| self.node(host))
    }

    /// Asserts that all of `hosts` received all of `count` messages.
    pub(crate) fn assert_delivered(&self, count: usize, hosts: &[u32], label: &str) {
        assert_eq!(self.deliveries.len(), count, "{label}: number of messages received by any host");
        for (id, got) in &self.deliveries {
            let missing: Vec<u32> = hosts.iter().copied().filter(|host| !got.contains_key(host)).collect();
            assert!(missing.is_empty(), "{label}: {id:?} did not reach {missing:?}");
        }
    }

    pub(crate) fn all_honest(&self) -> Vec<u32> {
        (0..self.honest).collect()
    }

    pub(crate) fn mesh_sizes(&self) -> Vec<usize> {
        self.nodes().map(|node| node.mesh_peers(&topic()).len()).collect()
    }

    /// Returns the sum of a counter over all honest nodes.
    pub(crate) fn sum(&self, of: impl Fn(&samara_gossipsub::Metrics) -> u64) -> u64 {
        self.nodes().map(|node| of(node.metrics())).sum()
    }
}
