//! Engines whose peers send any frames that decode, at any times.
//!
//! An input is a script of steps. A step is a byte (the peer in 2 bits, and the milliseconds before
//! the step in 6), the length of a frame in two bytes, and the frame. Seeds are recorded from
//! networks of correct nodes: the node of the target has the random numbers of host 0.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_cat::pool::{Admission, Application, CheckKind, Signer, Verdict};
use samara_cat::{Cat, Transaction};
use samara_engine::testing::{Network, Path, Single, World, identity_of};
use samara_engine::{
    Engine, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, Purpose, Time, Topic,
};
use samara_gossipsub::partial::{EqualParts, FormatHook, PartialConfig};
use samara_gossipsub::rpc::PartialMode;
use samara_gossipsub::{Command as Publish, GossipSub};
use samara_mix::{Command as MixCommand, Event as MixEvent, Group, Mix, Node, Scheduler, Secret};
use samara_ring::{Command as Broadcast, Federation, FederationConfig, Ring};

use crate::wire::encoded;

/// The seed of recorded networks.
const SEED: u64 = 1;
/// Each peer of the node, in its own words.
const PEERS: Range<u32> = 0..3;

struct Steps<'a>(&'a [u8]);

impl<'a> Iterator for Steps<'a> {
    type Item = (u32, Duration, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [head, low, high, rest @ ..] = self.0 else { return None };
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (frame, rest) = rest.split_at(len);
        self.0 = rest;
        Some((u32::from(head & 3), Duration::from_millis(u64::from(head >> 2)), frame))
    }
}

/// A node whose peers a script plays.
pub(crate) struct Played<E: Engine> {
    node: Single<E>,
    protocol: &'static str,
    /// The number of hosts. Host 0 is the node, and the peers are the hosts behind it.
    hosts: u32,
    is_up: [bool; PEERS.end as usize],
    identity: fn(u32) -> PeerIdentity,
    /// Handles an event as the application.
    answer: fn(E::Event) -> Option<E::Command>,
}

impl<E: Engine> Played<E> {
    /// A started node that is connected with all peers.
    pub(crate) fn new(
        (engine, outbox): (E, Outbox<E::Frame>),
        protocol: &'static str,
        hosts: u32,
        identity: fn(u32) -> PeerIdentity,
        answer: fn(E::Event) -> Option<E::Command>,
    ) -> Self {
        // As a network draws it for its first host.
        let seed = NodeRng::new(SEED, 0, Purpose::Network).next_u64();
        let node = Single::new(engine, outbox, seed);
        let mut played = Self { node, protocol, hosts, is_up: [false; 3], identity, answer };
        played.handle(Input::Start);
        (1..hosts).for_each(|host| played.connect(PeerId(host - 1)));
        played
    }

    fn connect(&mut self, peer: PeerId) {
        self.is_up[peer.index()] = true;
        self.node.connect(peer, (self.identity)(peer.0 + 1), self.protocol, true);
        self.settle();
    }

    pub(crate) fn handle(&mut self, input: Input<E::Frame, E::Command>) {
        self.node.handle(input);
        self.settle();
    }

    /// Sends what the node owes, and answers its requests as a network and an application would.
    fn settle(&mut self) {
        loop {
            while self.node.pop().is_some() {}
            if let Some(link) = self.node.links.pop() {
                match link {
                    LinkRequest::Dial(identity) => self.node.handle(Input::DialFailed { identity }),
                    LinkRequest::Close(peer) if self.is_up[peer.index()] => {
                        self.is_up[peer.index()] = false;
                        self.node.disconnect(peer);
                    }
                    LinkRequest::Close(_) => {}
                }
            } else if self.node.events.is_empty() {
                return;
            }
            for event in std::mem::take(&mut self.node.events) {
                if let Some(command) = (self.answer)(event) {
                    self.node.command(command);
                }
            }
        }
    }

    /// Delivers the frames of a script, and calls `check` after each.
    pub(crate) fn play(
        &mut self,
        script: &[u8],
        decode: impl Fn(Bytes) -> Option<E::Frame>,
        mut check: impl FnMut(&Single<E>),
    ) {
        for (peer, wait, bytes) in Steps(script) {
            self.node.advance(wait);
            self.settle();
            let peer = PeerId(peer % (self.hosts - 1));
            if let Some(frame) = decode(Bytes::copy_from_slice(bytes)) {
                if !self.is_up[peer.index()] {
                    self.connect(peer);
                }
                self.handle(Input::Frame { peer, frame });
            }
            check(&self.node);
        }
    }
}

/// A world that keeps the frames for host 0.
struct Tap<E: Engine> {
    protocol: &'static str,
    identity: fn(u32) -> PeerIdentity,
    answer: fn(E::Event) -> Option<E::Command>,
    heard: Vec<(u32, E::Frame)>,
}

impl<E: Engine> World<E> for Tap<E> {
    fn path(&self, _: u32, _: u32) -> Path {
        Path { latency: Duration::from_millis(1), ..Path::default() }
    }

    fn event(&mut self, now: Time, _: u32, event: E::Event) -> Option<(Time, E::Command)> {
        (self.answer)(event).map(|command| (now, command))
    }

    fn frame(&mut self, from: u32, to: u32, _: &E, frame: E::Frame) -> Option<E::Frame> {
        if to == 0 {
            self.heard.push((from, frame.clone()));
        }
        Some(frame)
    }

    fn identity(&self, host: u32) -> PeerIdentity {
        (self.identity)(host)
    }

    fn protocol(&self, _: u32, _: u32) -> Option<Arc<str>> {
        Some(self.protocol.into())
    }
}

/// Records the frames for host 0 as a script, until it has `bytes_max` bytes.
fn record<E: Engine>(
    hosts: Vec<(E, Outbox<E::Frame>)>,
    protocol: &'static str,
    identity: fn(u32) -> PeerIdentity,
    answer: fn(E::Event) -> Option<E::Command>,
    commands: impl IntoIterator<Item = (u32, E::Command)>,
    encode: impl Fn(&E::Frame, &mut Vec<u8>),
    bytes_max: usize,
) -> Vec<u8> {
    let mut net = Network::new(SEED, Tap { protocol, identity, answer, heard: Vec::new() });
    hosts.into_iter().for_each(|(engine, outbox)| _ = net.add(engine, outbox));
    for a in 0..net.len() {
        (a + 1..net.len()).for_each(|b| net.connect(a, b));
    }
    let mut commands = commands.into_iter();
    let (mut script, mut last) = (Vec::new(), Time::ZERO);
    for millis in 1..10_000 {
        net.run_for(Duration::from_millis(1));
        if millis % 50 == 0
            && let Some((host, command)) = commands.next()
        {
            net.command(host, command);
        }
        for (from, frame) in std::mem::take(&mut net.heard) {
            let mut wait = net.now.since(last).as_millis() as u64;
            last = net.now;
            while wait > 63 {
                script.extend([63 << 2, 0, 0]);
                wait -= 63;
            }
            let frame = encoded(&frame, &encode);
            script.push((wait as u8) << 2 | (from - 1) as u8);
            script.extend((frame.len() as u16).to_le_bytes());
            script.extend(frame);
            if script.len() > bytes_max {
                return script;
            }
        }
    }
    script
}

pub(crate) fn nothing<E, C>(_: E) -> Option<C> {
    None
}

// ---- GossipSub ----

const MESHSUB: &str = "/meshsub/1.2.0";

fn gossipsub_node(host: u32) -> (GossipSub, Outbox<samara_gossipsub::rpc::RpcFrame>) {
    let topics = [(Topic::new("t"), PartialMode::Supports), (Topic::new("p"), PartialMode::Requests)].into();
    let format = EqualParts { parts: 8, part_bytes: 4, group_bytes: 1, topics };
    let partial = PartialConfig::new(FormatHook::new(format));
    let config = samara_gossipsub::Config {
        seen_capacity: 8,
        partial: Some(partial.into()),
        spread: Some(samara_gossipsub::config::Spread::default()),
        message_id: samara_gossipsub::message_id::MessageIdFn::Pieces { len: 20 },
        ..samara_gossipsub::Config::default()
    };
    let outbox = Outbox::new(config.outbox_config());
    (GossipSub::new(config, identity_of(host)).expect("a valid configuration"), outbox)
}

fn gossipsub_commands() -> Vec<(u32, Publish)> {
    let topic = || Topic::new("t");
    let joins = [0, 1, 2, 3].map(|host| (host, Publish::Subscribe(topic())));
    let data = |number: u8| Bytes::copy_from_slice(&[number; 40]);
    let publish = (0..20)
        .map(|number| (1 + u32::from(number) % 3, Publish::Publish { topic: topic(), data: data(number) }));
    joins.into_iter().chain(publish).collect()
}

fn play_gossipsub(data: &[u8]) -> Single<GossipSub> {
    let mut node = Played::new(gossipsub_node(0), MESHSUB, 4, identity_of, nothing);
    node.handle(Input::Command(Publish::SubscribeAll(vec![Topic::new("t"), Topic::new("p")])));
    let limits = samara_gossipsub::wire::Limits::default();
    let decode =
        |bytes| samara_gossipsub::wire::decode(bytes, &limits).ok().map(samara_gossipsub::rpc::RpcFrame::new);
    node.play(data, decode, |node| {
        let sizes = node.engine.sizes();
        assert!(sizes.seen <= 8 && sizes.groups <= 2 * 255, "{sizes:?}");
        assert!(sizes.wanted <= 4 * 256 && sizes.payloads <= 256, "{sizes:?}");
        assert!(node.timers() <= 6, "heartbeat, decay, direct peers, parts, announcements and requests");
    });
    node.node
}

pub(crate) fn gossipsub(data: &[u8]) {
    play_gossipsub(data);
}

pub(crate) fn gossipsub_seeds() -> Vec<Vec<u8>> {
    let hosts = (0..4).map(gossipsub_node).collect();
    let encode = |frame: &samara_gossipsub::rpc::RpcFrame, into: &mut Vec<u8>| {
        samara_gossipsub::wire::encode(frame.rpc(), into);
    };
    let script = record(hosts, MESHSUB, identity_of, nothing, gossipsub_commands(), encode, 4_000);
    let node = play_gossipsub(&script).engine;
    assert!(node.mesh_peers(&Topic::new("t")).len() == 3 && node.sizes().cached > 0);
    vec![script]
}

// ---- the transaction pool ----

/// Accepts all transactions. Their first byte is their sequence number and priority.
#[derive(Default)]
struct Ledger {
    next: u64,
}

impl Application for Ledger {
    fn check(&mut self, tx: &Transaction, _: CheckKind) -> Verdict {
        let number = tx.bytes().first().copied().unwrap_or_default();
        self.next = u64::from(number) + 1;
        let (sender, sequence) = (Some(Signer::new(b"signer")), Some(number.into()));
        Verdict::Accept(Admission { priority: number.into(), gas: 1, sender, sequence })
    }

    fn expected_sequence(&mut self, _: &Signer) -> Option<u64> {
        Some(self.next)
    }
}

/// CometBFT's names have 20 bytes.
fn address_of(host: u32) -> PeerIdentity {
    PeerIdentity::new(&[host as u8; 20])
}

/// The preferred protocol of a node.
const ANY: &str = "";

fn cat_config(preset: samara_cat::Preset) -> samara_cat::Config {
    let mut config = preset.config();
    (config.pool.capacity_txs, config.pool.capacity_bytes) = (20, 4_000);
    config
}

fn cat_node(preset: samara_cat::Preset, host: u32) -> (Cat<Ledger>, Outbox<samara_cat::CatFrame>) {
    let config = cat_config(preset);
    let outbox = Outbox::new(config.outbox());
    (Cat::new(config, &address_of(host), Ledger::default()).expect("a valid configuration"), outbox)
}

fn play_cat(preset: samara_cat::Preset, script: &[u8]) -> Single<Cat<Ledger>> {
    let mut node = Played::new(cat_node(preset, 0), ANY, 4, address_of, nothing);
    let limits = samara_cat::wire::Limits::default();
    node.play(
        script,
        |bytes| samara_cat::wire::decode(&bytes, &limits).ok(),
        |node| {
            let pool = node.engine.pool();
            assert!(pool.len() <= 20 && pool.bytes() <= 4_000, "{} of {} bytes", pool.len(), pool.bytes());
        },
    );
    node.node
}

/// The first byte of an input selects the preset.
pub(crate) fn cat(data: &[u8]) {
    let Some((preset, script)) = data.split_first() else { return };
    play_cat(samara_cat::Preset::ALL[usize::from(*preset) % samara_cat::Preset::ALL.len()], script);
}

pub(crate) fn cat_seeds() -> Vec<Vec<u8>> {
    let of = |(number, preset): (u8, &samara_cat::Preset)| {
        let hosts = (0..4).map(|host| cat_node(*preset, host)).collect();
        let tx = |number: u8| Transaction::new(vec![number; 50 + usize::from(number)]);
        let commands =
            (0..12).map(|number| (1 + u32::from(number) % 3, samara_cat::Command::Submit(tx(number))));
        let script = record(hosts, ANY, address_of, nothing, commands, samara_cat::wire::encode, 2_000);
        assert!(!play_cat(*preset, &script).engine.pool().is_empty(), "{}", preset.name());
        [&[number][..], &script].concat()
    };
    (0..).zip(samara_cat::Preset::ALL.iter()).map(of).collect()
}

// ---- the ring ----

const RING: &str = "ring/1";

fn ring_node(host: u32) -> (Ring, Outbox<samara_ring::RingFrame>) {
    let config = samara_ring::Config::default();
    let outbox = Outbox::new(config.outbox());
    (Ring::new(config, identity_of(host)).expect("a valid configuration"), outbox)
}

fn ring_decode(bytes: Bytes) -> Option<samara_ring::RingFrame> {
    samara_ring::wire::decode(&bytes, &samara_ring::wire::Limits::default()).ok()
}

fn messages(hosts: u32) -> impl Iterator<Item = (u32, Broadcast)> {
    (0..30).map(move |number: u8| {
        (u32::from(number) % hosts, Broadcast::Broadcast(Bytes::copy_from_slice(&[number; 30])))
    })
}

fn play_ring(data: &[u8]) -> Single<Ring> {
    let mut node = Played::new(ring_node(0), RING, 4, identity_of, nothing);
    let window = samara_ring::Config::default().own_queue_bytes;
    node.handle(Input::Command(Broadcast::Broadcast(Bytes::from_static(b"own"))));
    node.play(data, ring_decode, |node| assert!(node.engine.queued_bytes() <= window));
    node.node
}

pub(crate) fn ring(data: &[u8]) {
    play_ring(data);
}

pub(crate) fn ring_seeds() -> Vec<Vec<u8>> {
    let hosts = (0..4).map(ring_node).collect();
    let script = record(hosts, RING, identity_of, nothing, messages(4), samara_ring::wire::encode, 6_000);
    assert_eq!(play_ring(&script).engine.view().map(|view| view.len()), Some(4));
    vec![script]
}

// ---- a federation of two sites ----

const KEPT_BYTES_MAX: u64 = 1 << 20;

/// Hosts 0 and 1 are site 0, hosts 2 and 3 site 1.
fn federation_node(host: u32) -> (Federation, Outbox<samara_ring::RingFrame>) {
    let (site, other) = ((host / 2) as u16, 1 - (host / 2) as u16);
    let contacts = (0..2).map(|member| identity_of(2 * u32::from(other) + member)).collect();
    let config = FederationConfig {
        senders_max: 8,
        memory_bytes: KEPT_BYTES_MAX,
        window_bytes: KEPT_BYTES_MAX / 2,
        ..FederationConfig::new(site, vec![(other, contacts)])
    };
    let outbox = Outbox::new(config.outbox());
    (Federation::new(config, identity_of(host)).expect("a valid configuration"), outbox)
}

fn play_federation(data: &[u8]) -> Single<Federation> {
    let mut node = Played::new(federation_node(0), RING, 4, identity_of, nothing);
    node.handle(Input::Command(Broadcast::Broadcast(Bytes::from_static(b"own"))));
    node.play(data, ring_decode, |node| {
        let kept = node.engine.kept_bytes();
        // A message that is already in flight may arrive.
        assert!(kept <= 2 * KEPT_BYTES_MAX, "keeps {kept} bytes");
    });
    node.node
}

pub(crate) fn federation(data: &[u8]) {
    play_federation(data);
}

pub(crate) fn federation_seeds() -> Vec<Vec<u8>> {
    let hosts = (0..4).map(federation_node).collect();
    let script = record(hosts, RING, identity_of, nothing, messages(4), samara_ring::wire::encode, 12_000);
    let node = play_federation(&script).engine;
    assert_eq!(node.bridge().and_then(Ring::view).map(|view| view.len()), Some(2));
    vec![script]
}

// ---- the mix ----

/// Host 0 is in a seat of the team, host 3 is the scheduler.
fn mix_config() -> samara_mix::Config {
    samara_mix::Config {
        pool: (0..3).map(identity_of).collect(),
        scheduler: identity_of(3),
        group: Group::Model,
        team: 3,
        batch: 2,
        batch_max: 8,
        precomputing_max: 1,
        rounds_max: 1,
        senders_min: 0,
        // Often enough that some pings are in flight.
        ping: Some(Duration::from_millis(100)),
        ..samara_mix::Config::default()
    }
}

fn mix_host(host: u32) -> (Mix, Outbox<samara_mix::MixFrame>) {
    let config = mix_config();
    let outbox = Outbox::new(config.outbox());
    let engine = match host {
        3 => Scheduler::new(config).expect("a valid configuration").into(),
        _ => Node::new(config, host, Secret::new([host as u8; 32])).expect("a valid configuration").into(),
    };
    (engine, outbox)
}

/// Computes at once, and fills batches with void payloads.
fn mix_application(event: MixEvent) -> Option<MixCommand> {
    match event {
        MixEvent::Compute(job) => Some(MixCommand::Computed(job.run())),
        MixEvent::Open(plan) => {
            let void = samara_mix::Sealed::void(Group::Model, plan.team.len());
            let batch = samara_mix::Batch::new(&vec![void; plan.batch as usize]).ok()?;
            Some(MixCommand::Mix { round: plan.round, batch })
        }
        _ => None,
    }
}

const MIX: &str = "mix/1";

fn play_mix(data: &[u8]) -> Single<Mix> {
    let mut node = Played::new(mix_host(0), MIX, 4, identity_of, mix_application);
    let limits = mix_config().limits;
    node.play(data, |bytes| samara_mix::wire::decode(bytes, &limits).ok(), |_| {});
    node.node
}

pub(crate) fn mix(data: &[u8]) {
    play_mix(data);
}

pub(crate) fn mix_seeds() -> Vec<Vec<u8>> {
    let hosts = (0..4).map(mix_host).collect();
    let script = record(hosts, MIX, identity_of, mix_application, [], samara_mix::wire::encode, 12_000);
    assert!(play_mix(&script).engine.metrics().completed > 0);
    vec![script]
}
