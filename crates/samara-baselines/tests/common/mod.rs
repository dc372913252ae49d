//! One node driven by hand: the test plays all its peers, and looks at what it owes them.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "every test file uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_baselines::{
    Baseline, Command, Cx, Event, FloodSub, Ignored, Message, MessageId, Plumtree, PlumtreeConfig,
    PlumtreeFrame, PubSubConfig, RandomSub, RpcFrame, SubOpts, Topic,
};
use samara_engine::outbox::OutboxConfig;
use samara_engine::{
    Context, Effects, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time, TimerToken,
};

pub fn topic() -> Topic {
    Topic::new("blocks")
}

pub fn identity(number: u32) -> PeerIdentity {
    PeerIdentity::new(format!("peer-{number}").as_bytes())
}

/// A message of somebody who is no neighbour.
pub fn message(number: u64) -> Arc<Message> {
    message_of(&PeerIdentity::new(b"author"), number)
}

pub fn message_of(author: &PeerIdentity, number: u64) -> Arc<Message> {
    Arc::new(Message::new(author.clone(), number, topic(), Bytes::from(vec![7; 100])))
}

/// An invented id.
pub fn id(number: u64) -> MessageId {
    MessageId::from_bytes((u128::from(number) + (1 << 100)).to_be_bytes())
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A node, its outbox, and what has happened to it.
pub struct Node<B: Baseline> {
    pub engine: B,
    pub outbox: Outbox<B::Frame>,
    pub now: Time,
    pub events: Vec<Event>,
    rng: NodeRng,
    effects: Effects<Event>,
    timers: BTreeMap<(Time, u64), TimerToken>,
    serial: u64,
    peers: u32,
}

pub fn floodsub(config: PubSubConfig) -> Node<FloodSub> {
    let outbox = config.outbox_config();
    Node::new(FloodSub::new(config, PeerIdentity::new(b"me")).unwrap(), outbox)
}

pub fn randomsub(config: PubSubConfig, network_size: usize) -> Node<RandomSub> {
    let outbox = config.outbox_config();
    Node::new(RandomSub::new(config, PeerIdentity::new(b"me"), network_size).unwrap(), outbox)
}

/// With `neighbours` links, on its topic.
pub fn plumtree(config: PlumtreeConfig, neighbours: u32) -> Node<Plumtree> {
    let outbox = config.outbox_config();
    let engine = Plumtree::new(config, PeerIdentity::new(b"me"), topic()).unwrap();
    let mut node = Node::new(engine, outbox);
    (0..neighbours).for_each(|_| {
        node.connect("");
    });
    node.command(Command::Subscribe(topic()));
    node
}

impl<B: Baseline> Node<B> {
    pub fn new(engine: B, outbox: OutboxConfig) -> Self {
        let mut node = Self {
            engine,
            outbox: Outbox::new(outbox),
            now: Time::ZERO,
            events: Vec::new(),
            rng: NodeRng::new(1, 0, Purpose::Engine),
            effects: Effects::default(),
            timers: BTreeMap::new(),
            serial: 0,
            peers: 0,
        };
        node.input(Input::Start);
        node
    }

    pub fn input(&mut self, input: Input<B::Frame, Command>) {
        self.with(|engine, cx| engine.handle(input, cx));
    }

    pub fn with<R>(&mut self, call: impl FnOnce(&mut B, &mut Cx<'_, B::Frame>) -> R) -> R {
        let mut cx = Context::new(self.now, &mut self.rng, &mut self.outbox, &mut self.effects);
        let result = call(&mut self.engine, &mut cx);
        for timer in self.effects.timers.drain(..) {
            self.serial += 1;
            self.timers.insert((timer.at.max(self.now), self.serial), timer.token);
        }
        assert!(self.effects.links.is_empty(), "these protocols leave links alone");
        self.events.append(&mut self.effects.events);
        result
    }

    /// Lets time pass, with the timers that fire meanwhile.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some((&(at, serial), &token)) = self.timers.first_key_value() {
            if at > until {
                break;
            }
            self.timers.remove(&(at, serial));
            self.now = at;
            self.input(Input::Timer(token));
        }
        self.now = until;
    }

    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    pub fn connect(&mut self, protocol: &str) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers - 1);
        self.reconnect(peer, protocol);
        peer
    }

    pub fn reconnect(&mut self, peer: PeerId, protocol: &str) {
        self.outbox.link_up(peer);
        let info = PeerInfo {
            identity: identity(peer.0),
            outbound: false,
            address: None,
            protocol: protocol.into(),
        };
        self.input(Input::LinkUp { peer, info });
    }

    pub fn disconnect(&mut self, peer: PeerId) {
        self.outbox.link_down(peer);
        self.input(Input::LinkDown { peer });
    }

    pub fn frame(&mut self, from: PeerId, frame: B::Frame) {
        self.input(Input::Frame { peer: from, frame });
    }

    pub fn command(&mut self, command: Command) {
        self.input(Input::Command(command));
    }

    pub fn ignored(&self, cause: Ignored) -> u64 {
        self.engine.metrics().ignored(cause)
    }

    /// Everything that is owed, taken out, by peer.
    pub fn sent(&mut self) -> Vec<(PeerId, B::Frame)> {
        let mut frames = Vec::new();
        for peer in (0..self.peers).map(PeerId) {
            while let Some(copy) = self.outbox.pop_for(self.now, peer) {
                frames.push((peer, copy.frame));
            }
        }
        frames
    }

    /// The numbers and senders of messages that the application was told of since the last call.
    pub fn delivered(&mut self) -> Vec<(u64, Option<PeerId>)> {
        let events = std::mem::take(&mut self.events);
        let messages = events.into_iter().filter_map(|event| match event {
            Event::Message { message, from, .. } => Some((message.seqno(), from)),
            _ => None,
        });
        messages.collect()
    }
}

pub fn subscriptions(changes: &[(bool, &str)]) -> RpcFrame {
    let change =
        |(subscribe, name): &(bool, &str)| SubOpts { subscribe: *subscribe, topic: Topic::new(name) };
    RpcFrame::Subscriptions(changes.iter().map(change).collect())
}

pub fn joined() -> RpcFrame {
    subscriptions(&[(true, "blocks")])
}

/// To whom messages were sent, sorted, with their numbers.
pub fn receivers(sent: &[(PeerId, RpcFrame)]) -> Vec<(PeerId, u64)> {
    let of = |(peer, frame): &(PeerId, RpcFrame)| match frame {
        RpcFrame::Publish(message) => Some((*peer, message.seqno())),
        RpcFrame::Subscriptions(_) => None,
    };
    let mut receivers: Vec<_> = sent.iter().filter_map(of).collect();
    receivers.sort_unstable();
    receivers
}

pub fn gossip(number: u64, round: u32) -> PlumtreeFrame {
    PlumtreeFrame::Gossip { message: message(number), round }
}
