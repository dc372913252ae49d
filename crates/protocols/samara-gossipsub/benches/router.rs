//! Benchmarks of the router in a node with 80 links and 16 topics in meshes of 8: a duplicate, a
//! first copy that is forwarded, and an idle heartbeat.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken,
};
use samara_gossipsub::config::MeshParams;
use samara_gossipsub::rpc::{Control, Message, Rpc, RpcFrame, SubOpts, Topic};
use samara_gossipsub::{Command, Config, Event, GossipSub};

struct Node {
    engine: GossipSub,
    outbox: Outbox<RpcFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    now: Time,
}

fn column(number: u32) -> Topic {
    Topic::new(&format!("/eth2/01020304/data_column_sidecar_{number}/ssz_snappy"))
}

impl Node {
    fn new() -> Self {
        let mut config = Config::ethereum();
        config.mesh = MeshParams { d_out: 0, ..config.mesh };
        let outbox = Outbox::new(config.outbox_config());
        let mut node = Self {
            engine: GossipSub::new(config, PeerIdentity::new(b"me")).unwrap(),
            outbox,
            rng: NodeRng::new(1, 0, Purpose::Engine),
            effects: Effects::default(),
            now: Time::ZERO,
        };
        node.input(Input::Start);
        for number in 0..80 {
            let peer = PeerId(number);
            node.outbox.link_up(peer);
            let identity = PeerIdentity::new(&number.to_le_bytes());
            let protocol = "/meshsub/1.2.0".into();
            let info = PeerInfo { identity, outbound: number % 2 == 0, address: None, protocol };
            node.input(Input::LinkUp { peer, info });
            // Each peer subscribes to 16 of 128 topics, so each topic has 10 peers.
            let change = |at| SubOpts {
                subscribe: true,
                topic: column((number * 16 + at) % 128),
                partial: Default::default(),
                unknown: Bytes::new(),
            };
            node.frame(peer, Rpc { subscriptions: (0..16).map(change).collect(), ..Rpc::default() });
        }
        node.input(Input::Command(Command::SubscribeAll((0..16).map(column).collect())));
        node.heartbeat();
        node.drain();
        node
    }

    fn input(&mut self, input: Input<RpcFrame, Command>) {
        let mut cx = Context::new(self.now, &mut self.rng, &mut self.outbox, &mut self.effects);
        self.engine.handle(input, &mut cx);
        self.effects.events.clear();
        self.effects.timers.clear();
    }

    fn frame(&mut self, peer: PeerId, rpc: Rpc) {
        self.input(Input::Frame { peer, frame: RpcFrame::new(rpc) });
    }

    fn heartbeat(&mut self) {
        self.now += Duration::from_millis(700);
        self.input(Input::Timer(TimerToken(0)));
    }

    fn drain(&mut self) {
        for peer in 0..80 {
            while self.outbox.pop_for(self.now, PeerId(peer)).is_some() {}
        }
    }
}

/// Returns messages whose ids are already computed, as for most copies in a simulation.
fn messages(config: &Config, count: u32) -> Vec<RpcFrame> {
    let make = |number: u32| {
        let mut data = vec![0; 2048];
        data[..4].copy_from_slice(&number.to_le_bytes());
        let message = Message::new(column(number % 16), data.into());
        config.message_id.id(&message);
        RpcFrame::new(Rpc { publish: [Arc::new(message)].into_iter().collect(), ..Rpc::default() })
    };
    (0..count).map(make).collect()
}

fn router(criterion: &mut Criterion) {
    let mut node = Node::new();
    let config = Arc::clone(node.engine.config());
    let frames = messages(&config, 16);
    for frame in &frames {
        let peer = node.engine.mesh_peers(frame.rpc().publish[0].topic.as_ref().unwrap())[0];
        node.input(Input::Frame { peer, frame: frame.clone() });
    }
    node.drain();
    let mut at = 0;
    criterion.bench_function("router::duplicate/links=80", |bencher| {
        bencher.iter(|| {
            at = (at + 1) % frames.len();
            node.input(Input::Frame { peer: PeerId(at as u32 % 80), frame: frames[at].clone() });
        });
    });

    criterion.bench_function("router::first_copy/mesh=8", |bencher| {
        bencher.iter_batched(
            || (Node::new(), messages(&config, 1600)),
            |(mut node, frames)| {
                for frame in frames {
                    let topic = frame.rpc().publish[0].topic.clone().unwrap();
                    let peer = node.engine.mesh_peers(&topic)[0];
                    node.input(Input::Frame { peer, frame });
                }
                node
            },
            BatchSize::LargeInput,
        );
    });

    let mut node = Node::new();
    criterion.bench_function("router::heartbeat/topics=16", |bencher| bencher.iter(|| node.heartbeat()));

    let mut node = Node::new();
    let ids: Vec<_> = frames.iter().map(|frame| config.message_id.id(&frame.rpc().publish[0])).collect();
    let rpc = Rpc {
        control: Some(Box::new(Control { idontwant: ids[..1].to_vec(), ..Control::default() })),
        ..Rpc::default()
    };
    let frame = RpcFrame::new(rpc);
    criterion.bench_function("router::idontwant/ids=1", |bencher| {
        bencher.iter(|| {
            at += 1;
            if at.is_multiple_of(40_000) {
                // Otherwise the peers exceed their limit of IDONTWANT per heartbeat.
                node.heartbeat();
            }
            node.input(Input::Frame { peer: PeerId(at as u32 % 80), frame: frame.clone() });
        });
    });
}

criterion_group!(benches, router);
criterion_main!(benches);
