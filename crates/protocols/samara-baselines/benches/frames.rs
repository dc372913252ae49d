//! The cost of a frame at a node with 10 links: a duplicate (most frames of a flood), a first copy
//! that is forwarded, and an announcement of a known message.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use samara_baselines::{
    Baseline, Command, Event, IHave, Message, Plumtree, PlumtreeConfig, PlumtreeFrame, PubSub, PubSubConfig,
    RpcFrame, SubOpts, Topic,
};
use samara_engine::outbox::OutboxConfig;
use samara_engine::{
    Context, Effects, Frame, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
};

const LINKS: u32 = 10;
const MESSAGES: u64 = 10_000;

struct Node<B: Baseline> {
    engine: B,
    outbox: Outbox<B::Frame>,
    rng: NodeRng,
    effects: Effects<Event>,
}

fn topic() -> Topic {
    Topic::new("blocks")
}

fn messages() -> Vec<Arc<Message>> {
    let author = PeerIdentity::new(b"author");
    let data = bytes::Bytes::from(vec![7; 1000]);
    (0..MESSAGES)
        .map(|number| Arc::new(Message::new(author.clone(), number, topic(), data.clone())))
        .collect()
}

impl<B: Baseline> Node<B> {
    fn new(engine: B, outbox: OutboxConfig, greeting: Option<B::Frame>) -> Self {
        let mut node = Self {
            engine,
            outbox: Outbox::new(outbox),
            rng: NodeRng::new(1, 0, Purpose::Engine),
            effects: Effects::default(),
        };
        node.input(Input::Start);
        for number in 0..LINKS {
            let peer = PeerId(number);
            node.outbox.link_up(peer);
            let identity = PeerIdentity::new(&number.to_le_bytes());
            let info = PeerInfo { identity, outbound: true, address: None, protocol: "".into() };
            node.input(Input::LinkUp { peer, info });
            if let Some(frame) = greeting.clone() {
                node.input(Input::Frame { peer, frame });
            }
        }
        node.input(Input::Command(Command::Subscribe(topic())));
        node.drain();
        node
    }

    fn input(&mut self, input: Input<B::Frame, Command>) {
        let mut cx = Context::new(Time::ZERO, &mut self.rng, &mut self.outbox, &mut self.effects);
        self.engine.handle(input, &mut cx);
        black_box(&self.effects.events);
        self.effects.events.clear();
        self.effects.timers.clear();
    }

    fn drain(&mut self) {
        (0..LINKS).for_each(|peer| while self.outbox.pop_for(Time::ZERO, PeerId(peer)).is_some() {});
    }
}

/// `make` returns a node whose links are all up, `frame` the frame of a message.
fn measure<B: Baseline>(
    criterion: &mut Criterion,
    name: &str,
    make: impl Fn() -> Node<B>,
    frame: impl Fn(Arc<Message>) -> B::Frame,
) {
    let frames: Vec<B::Frame> = messages().into_iter().map(&frame).collect();
    assert!(frames[0].encoded_len() > 1000);
    let mut node = make();
    for frame in &frames {
        node.input(Input::Frame { peer: PeerId(0), frame: frame.clone() });
        node.drain();
    }
    let mut at = 0;
    criterion.bench_function(&format!("{name}::duplicate/links=10"), |bencher| {
        bencher.iter(|| {
            at = (at + 7919) % frames.len();
            let peer = PeerId(1 + at as u32 % (LINKS - 1));
            node.input(Input::Frame { peer, frame: frames[at].clone() });
            // The cost of a frame includes draining its answer (Plumtree's PRUNE).
            while node.outbox.pop_for(Time::ZERO, peer).is_some() {}
        });
    });
    criterion.bench_function(&format!("{name}::first_copy/links=10"), |bencher| {
        bencher.iter_batched_ref(
            || (make(), frames[..100].to_vec()),
            |(node, frames)| {
                for frame in frames.drain(..) {
                    node.input(Input::Frame { peer: PeerId(0), frame });
                    node.drain();
                }
            },
            BatchSize::LargeInput,
        );
    });
}

fn pubsub(criterion: &mut Criterion) {
    let joined = || Some(RpcFrame::Subscriptions([SubOpts { subscribe: true, topic: topic() }].into()));
    let config = Arc::new(PubSubConfig::default());
    let identity = || PeerIdentity::new(b"me");
    let flood = || PubSub::floodsub(Arc::clone(&config), identity()).expect("valid defaults");
    let node = || Node::new(flood(), config.common.outbox_config(), joined());
    measure(criterion, "floodsub", node, RpcFrame::Publish);
    let random = || PubSub::randomsub(Arc::clone(&config), identity(), 95).expect("valid defaults");
    let node = || Node::new(random(), config.common.outbox_config(), joined());
    measure(criterion, "randomsub", node, RpcFrame::Publish);
}

fn plumtree(criterion: &mut Criterion) {
    let config = Arc::new(PlumtreeConfig::default());
    let tree = || Plumtree::new(Arc::clone(&config), PeerIdentity::new(b"me"), topic());
    let node = || Node::new(tree().expect("valid defaults"), config.common.outbox_config(), None);
    let frame = |message| PlumtreeFrame::Gossip { message, round: 3 };
    measure(criterion, "plumtree", node, frame);

    let mut node = node();
    let messages = messages();
    for message in &messages {
        node.input(Input::Frame { peer: PeerId(0), frame: frame(Arc::clone(message)) });
        node.drain();
    }
    let announce = |message: &Arc<Message>| {
        PlumtreeFrame::IHave(Arc::new(IHave { topic: topic(), messages: vec![(message.id(), 3)] }))
    };
    let frames: Vec<PlumtreeFrame> = messages.iter().map(announce).collect();
    let mut at = 0;
    criterion.bench_function("plumtree::known_ihave/ids=1", |bencher| {
        bencher.iter(|| {
            at = (at + 7919) % frames.len();
            node.input(Input::Frame { peer: PeerId(1), frame: frames[at].clone() });
        });
    });
}

criterion_group!(benches, pubsub, plumtree);
criterion_main!(benches);
