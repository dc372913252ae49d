//! A stream of messages on one topic that all nodes join.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_baselines::{Baseline, Event as BaselineEvent, Plumtree, PubSub};
use samara_engine::outbox::Lost;
use samara_engine::{Engine, Input, MessageKey, Outbox, PeerId, PeerIdentity, TimerToken};
use samara_gossipsub::rpc::{Message, RpcFrame, Topic};
use samara_gossipsub::{Event as GossipEvent, GossipSub};
use samara_hosts::Worlds;
use samara_sim::{Contents, Items, Neighbours};
use serde::{Deserialize, Serialize};

use samara_pubsub::frames::{Carries, MessageNumber, names, number_of, payload};
use samara_pubsub::host::{AppCx, EngineCx, Host, Processor, Stalls, VALIDATED, Workload};

/// The topic, as named by the study's tools. Every message carries the name on the wire.
pub const TOPIC: &str = "pubsub-benchmark";
/// Bytes of an Ed25519 identity on the wire of libp2p (peer-ids specification: multihash of 36
/// bytes).
const AUTHOR_BYTES: usize = 38;
/// Bytes of an Ed25519 signature (RFC 8032).
const SIGNATURE_BYTES: usize = 64;

/// The messages of a run, indexed by number, in the form of an engine. All nodes share them.
#[derive(Debug)]
pub struct Stream<T, M> {
    pub topic: T,
    pub messages: Vec<Arc<M>>,
}

/// The messages of a stream in the form of GossipSub.
pub type GossipStream = Stream<Topic, Message>;
/// The messages of a stream in the form of the baselines.
pub type BaselineStream = Stream<samara_baselines::Topic, samara_baselines::Message>;

impl GossipStream {
    /// Creates a stream of messages of the given sizes in bytes and authors.
    pub fn new(authors: &[u32], sizes: &[u64], signed: bool) -> Self {
        let topic = Topic::new(TOPIC);
        let messages = authors.iter().zip(sizes).zip(0..).map(|((author, bytes), number)| {
            let mut message = Message::new(topic.clone(), payload(number, *bytes).into());
            // Only the length of these fields matters in a simulation.
            message.from = signed.then(|| Bytes::from(vec![*author as u8; AUTHOR_BYTES]));
            message.seqno = signed.then(|| Bytes::copy_from_slice(&u64::from(number).to_be_bytes()));
            message.signature = signed.then(|| Bytes::from(vec![0; SIGNATURE_BYTES]));
            Arc::new(message)
        });
        Self { messages: messages.collect(), topic }
    }
}

impl BaselineStream {
    /// Creates a stream of messages of the given sizes in bytes and authors.
    pub fn new(authors: &[u32], sizes: &[u64]) -> Self {
        let topic = samara_baselines::Topic::new(TOPIC);
        let messages = authors.iter().zip(sizes).zip(0..).map(|((author, bytes), number)| {
            let mut identity = [0; AUTHOR_BYTES];
            identity[..4].copy_from_slice(&author.to_le_bytes());
            let (author, data) = (PeerIdentity::new(&identity), payload(number, *bytes).into());
            Arc::new(samara_baselines::Message::new(author, u64::from(number), topic.clone(), data))
        });
        Self { messages: messages.collect(), topic }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish(pub MessageNumber);

/// An event from a node to the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A message reached the application.
    Delivered {
        message: MessageNumber,
        /// The host that sent its first copy.
        from: u32,
    },
    /// A copy did not fit into the queue for this host.
    Lost { to: u32 },
}

/// Counters of a node since its start, under the names that engines declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Copies of messages that the node already had.
    pub duplicates_received: u64,
    /// Copies sent at the request of a peer.
    pub answered_copies: u64,
    /// Copies that stayed owed to peers that do not want them.
    pub kept_unwanted_copies: u64,
    /// Misbehaviours of peers that count against their scores.
    pub misbehaviours: u64,
    /// Number of mesh peers, for protocols with a mesh.
    pub mesh: usize,
}

/// A member of a stream of messages, independent of the protocol.
pub trait Member: Workload<Command = Publish, Event = Event, Counters = Counts> + 'static {
    /// Returns the messages in a frame. The copies of a message are a batch.
    fn contents(frame: &<Self::Engine as Engine>::Frame, key: Option<MessageKey>) -> Contents;
}

fn contents<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> Contents {
    let items: Items = payloads.filter_map(number_of).map(u64::from).collect();
    Contents { batch: items.first().copied(), items, ..Contents::default() }
}

fn emit_delivered<W: Workload<Event = Event>>(
    payload: &[u8],
    from: PeerId,
    neighbours: &Neighbours,
    cx: &mut AppCx<'_, W>,
) {
    if let Some(message) = number_of(payload) {
        cx.emit(Event::Delivered { message, from: neighbours.host(from) });
    }
}

fn emit_lost<W: Workload<Event = Event>>(lost: Lost, neighbours: &Neighbours, cx: &mut AppCx<'_, W>) {
    if lost.message.is_some() {
        cx.emit(Event::Lost { to: neighbours.host(lost.peer) });
    }
}

/// A member that speaks GossipSub, with a processor that validates one message at a time.
#[derive(Debug)]
pub struct GossipMember {
    gossip: GossipSub,
    stream: Arc<GossipStream>,
    processor: Processor,
}

impl GossipMember {
    /// Creates a member that needs `validation_time` for each message, except while it stalls.
    pub fn new(
        gossip: GossipSub,
        stream: Arc<GossipStream>,
        validation_time: Duration,
        stalls: Option<Stalls>,
    ) -> Self {
        Self { gossip, stream, processor: Processor::new(validation_time, stalls) }
    }
}

impl Workload for GossipMember {
    type Engine = GossipSub;
    type Command = Publish;
    type Event = Event;
    type Counters = Counts;

    fn engine(&mut self) -> &mut GossipSub {
        &mut self.gossip
    }

    fn assert_invariants(&self, outbox: &Outbox<RpcFrame>) {
        self.gossip.assert_invariants(outbox);
    }

    fn counters(&self) -> Counts {
        let metrics = self.gossip.metrics();
        Counts {
            duplicates_received: metrics.duplicates_received,
            answered_copies: metrics.answered_copies,
            kept_unwanted_copies: metrics.kept_unwanted_copies,
            misbehaviours: metrics.misbehaviours,
            mesh: self.gossip.mesh_peers(&self.stream.topic).len(),
        }
    }

    fn start(&mut self, cx: &mut EngineCx<'_, Self>) {
        self.gossip.subscribe(&self.stream.topic, cx);
    }

    fn command(&mut self, Publish(number): Publish, cx: &mut EngineCx<'_, Self>) {
        let message = Arc::clone(&self.stream.messages[number as usize]);
        // The results show a message that no peer took.
        let _ = self.gossip.publish_message(message, cx);
    }

    fn timer(&mut self, token: TimerToken, cx: &mut EngineCx<'_, Self>) {
        match token {
            VALIDATED => _ = self.processor.done(&mut self.gossip, cx),
            token => self.gossip.handle(Input::Timer(token), cx),
        }
    }

    fn observe(&mut self, event: GossipEvent, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        match event {
            GossipEvent::Message { message, from: Some(from), .. } => {
                emit_delivered::<Self>(&message.data, from, neighbours, cx);
            }
            GossipEvent::NeedsValidation { id, .. } => self.processor.take(id, cx),
            GossipEvent::Lost(lost) => emit_lost::<Self>(lost, neighbours, cx),
            _ => {}
        }
    }
}

impl Member for GossipMember {
    fn contents(frame: &RpcFrame, _: Option<MessageKey>) -> Contents {
        let contents = contents(frame.messages().iter().map(|message| &*message.data));
        let [names, asked] = names(frame);
        Contents { names, asked, ..contents }
    }
}

#[derive(Debug)]
pub struct BaselineMember<B> {
    engine: B,
    stream: Arc<BaselineStream>,
}

impl<B: Baseline> BaselineMember<B> {
    pub fn new(engine: B, stream: Arc<BaselineStream>) -> Self {
        Self { engine, stream }
    }
}

impl<B: Baseline> Workload for BaselineMember<B> {
    type Engine = B;
    type Command = Publish;
    type Event = Event;
    type Counters = Counts;

    fn engine(&mut self) -> &mut B {
        &mut self.engine
    }

    fn assert_invariants(&self, outbox: &Outbox<B::Frame>) {
        self.engine.assert_invariants(outbox);
    }

    fn counters(&self) -> Counts {
        let metrics = self.engine.metrics();
        Counts {
            duplicates_received: metrics.duplicates_received,
            answered_copies: metrics.answered_copies,
            ..Counts::default()
        }
    }

    fn start(&mut self, cx: &mut EngineCx<'_, Self>) {
        if let Err(error) = self.engine.subscribe(&self.stream.topic, cx) {
            unreachable!("the engine was made for this topic: {error}");
        }
    }

    fn command(&mut self, Publish(number): Publish, cx: &mut EngineCx<'_, Self>) {
        let message = Arc::clone(&self.stream.messages[number as usize]);
        // The results show a message that no peer took.
        let _ = self.engine.publish_message(message, cx);
    }

    fn observe(&mut self, event: BaselineEvent, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        match event {
            BaselineEvent::Message { message, from: Some(from), .. } => {
                emit_delivered::<Self>(message.data(), from, neighbours, cx);
            }
            BaselineEvent::Lost(lost) => emit_lost::<Self>(lost, neighbours, cx),
            _ => {}
        }
    }
}

impl<B: Baseline<Frame: Carries<samara_baselines::Message>> + 'static> Member for BaselineMember<B> {
    fn contents(frame: &B::Frame, _: Option<MessageKey>) -> Contents {
        contents(frame.messages().iter().map(|message| &**message.data()))
    }
}

/// Returns the worlds of members that speak GossipSub.
pub fn gossip_worlds() -> Worlds<Host<GossipMember>> {
    Worlds::libp2p()
}

/// Returns the worlds of members that speak Plumtree.
pub fn plumtree_worlds() -> Worlds<Host<BaselineMember<Plumtree>>> {
    Worlds::framed()
}

/// Returns the worlds of members that speak FloodSub or RandomSub.
pub fn pubsub_worlds() -> Worlds<Host<BaselineMember<PubSub>>> {
    Worlds::framed()
}

#[cfg(test)]
mod tests;
