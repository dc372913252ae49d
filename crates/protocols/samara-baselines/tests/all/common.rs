//! A single node. The test plays all its peers, and inspects the frames owed to them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_baselines::{
    Baseline, Command, Event, Ignored, Message, MessageId, Plumtree, PlumtreeConfig, PlumtreeFrame, PubSub,
    PubSubConfig, RpcFrame, SubOpts, Topic,
};
use samara_engine::outbox::OutboxConfig;
use samara_engine::testing::Single;
use samara_engine::{Outbox, PeerId, PeerIdentity};

pub(crate) fn topic() -> Topic {
    Topic::new("blocks")
}

pub(crate) fn identity(number: u32) -> PeerIdentity {
    PeerIdentity::new(format!("peer-{number}").as_bytes())
}

/// Returns a message whose author is no neighbour.
pub(crate) fn message(number: u64) -> Arc<Message> {
    message_of(&PeerIdentity::new(b"author"), number)
}

pub(crate) fn message_of(author: &PeerIdentity, number: u64) -> Arc<Message> {
    Arc::new(Message::new(author.clone(), number, topic(), Bytes::from(vec![7; 100])))
}

/// Returns an invented id.
pub(crate) fn id(number: u64) -> MessageId {
    MessageId::from_bytes((u128::from(number) + (1 << 100)).to_be_bytes())
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A node, and the number of its peers so far.
pub(crate) struct Node<B: Baseline> {
    single: Single<B>,
    peers: u32,
}

impl<B: Baseline> Deref for Node<B> {
    type Target = Single<B>;

    fn deref(&self) -> &Self::Target {
        &self.single
    }
}

impl<B: Baseline> DerefMut for Node<B> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.single
    }
}

pub(crate) fn floodsub(config: PubSubConfig) -> Node<PubSub> {
    let outbox = config.common.outbox_config();
    Node::new(PubSub::floodsub(config, PeerIdentity::new(b"me")).unwrap(), outbox)
}

pub(crate) fn randomsub(config: PubSubConfig, network_size: usize) -> Node<PubSub> {
    let outbox = config.common.outbox_config();
    Node::new(PubSub::randomsub(config, PeerIdentity::new(b"me"), network_size).unwrap(), outbox)
}

/// Returns a node on its topic with `neighbours` links.
pub(crate) fn plumtree(config: PlumtreeConfig, neighbours: u32) -> Node<Plumtree> {
    let outbox = config.common.outbox_config();
    let engine = Plumtree::new(config, PeerIdentity::new(b"me"), topic()).unwrap();
    let mut node = Node::new(engine, outbox);
    (0..neighbours).for_each(|_| {
        node.connect("");
    });
    node.command(Command::Subscribe(topic()));
    node
}

impl<B: Baseline> Node<B> {
    pub(crate) fn new(engine: B, outbox: OutboxConfig) -> Self {
        Self { single: Single::start(engine, Outbox::new(outbox), 1), peers: 0 }
    }

    pub(crate) fn connect(&mut self, protocol: &str) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers - 1);
        self.reconnect(peer, protocol);
        peer
    }

    pub(crate) fn reconnect(&mut self, peer: PeerId, protocol: &str) {
        self.single.connect(peer, identity(peer.0), protocol, false);
    }

    pub(crate) fn ignored(&self, cause: Ignored) -> u64 {
        self.engine.metrics().ignored(cause)
    }

    /// Takes all owed frames, by peer.
    pub(crate) fn sent(&mut self) -> Vec<(PeerId, B::Frame)> {
        let peers = (0..self.peers).map(PeerId);
        peers.flat_map(|peer| self.single.take(peer).into_iter().map(move |frame| (peer, frame))).collect()
    }

    /// Returns the sequence numbers and senders of the messages delivered since the last call.
    pub(crate) fn delivered(&mut self) -> Vec<(u64, Option<PeerId>)> {
        let events = std::mem::take(&mut self.events);
        let messages = events.into_iter().filter_map(|event| match event {
            Event::Message { message, from, .. } => Some((message.seqno(), from)),
            _ => None,
        });
        messages.collect()
    }
}

pub(crate) fn subscriptions(changes: &[(bool, &str)]) -> RpcFrame {
    let change =
        |(subscribe, name): &(bool, &str)| SubOpts { subscribe: *subscribe, topic: Topic::new(name) };
    RpcFrame::Subscriptions(changes.iter().map(change).collect())
}

pub(crate) fn joined() -> RpcFrame {
    subscriptions(&[(true, "blocks")])
}

/// Returns the receivers of messages with the sequence numbers, sorted.
pub(crate) fn receivers(sent: &[(PeerId, RpcFrame)]) -> Vec<(PeerId, u64)> {
    let of = |(peer, frame): &(PeerId, RpcFrame)| match frame {
        RpcFrame::Publish(message) => Some((*peer, message.seqno())),
        RpcFrame::Subscriptions(_) => None,
    };
    let mut receivers: Vec<_> = sent.iter().filter_map(of).collect();
    receivers.sort_unstable();
    receivers
}

pub(crate) fn gossip(number: u64, round: u32) -> PlumtreeFrame {
    PlumtreeFrame::Gossip { message: message(number), round }
}
