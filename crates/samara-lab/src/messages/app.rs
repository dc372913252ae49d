//! A stream of messages on one topic that all nodes join.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{Context, Engine, Input, NodeRng, PeerId, PeerInfo, Purpose};
use samara_gossipsub::rpc::{Message, RpcFrame, Topic};
use samara_gossipsub::{Event, GossipSub};
use samara_sim::host_of;

use crate::processor::{Processor, VALIDATED};

/// The number of a message in its run.
pub type MessageNumber = u32;

/// The topic. Its name is on the wire with every message: that of the study's tools.
pub const TOPIC: &str = "pubsub-benchmark";
/// Bytes of the identity of an Ed25519 key on the wire of libp2p (peer-ids specification: multihash of 36 bytes).
pub(crate) const AUTHOR_BYTES: usize = 38;
/// Bytes of an Ed25519 signature (RFC 8032).
const SIGNATURE_BYTES: usize = 64;
/// The least payload: the number of the message.
pub const PAYLOAD_MIN: u64 = 4;

/// A payload that begins with the number of its message.
pub fn payload(number: MessageNumber, bytes: u64, seed: u64) -> Bytes {
    let mut rng = NodeRng::new(seed, u64::from(number), Purpose::Workload);
    let mut data = vec![0; bytes.max(PAYLOAD_MIN) as usize];
    for word in data.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
    data[..4].copy_from_slice(&number.to_le_bytes());
    data.into()
}

/// The number of the message with this payload.
pub fn number_of(payload: &[u8]) -> Option<MessageNumber> {
    payload.first_chunk().map(|bytes| MessageNumber::from_le_bytes(*bytes))
}

/// What all nodes of a run share: the messages.
#[derive(Debug)]
pub struct Stream {
    /// The topic of all of them.
    pub topic: Topic,
    /// By number.
    pub messages: Vec<Arc<Message>>,
}

impl Stream {
    /// Messages of so many random bytes each, by these authors.
    pub fn new(authors: &[u32], sizes: &[u64], signed: bool, seed: u64) -> Self {
        let topic = Topic::new(TOPIC);
        let messages = authors.iter().zip(sizes).zip(0..).map(|((author, bytes), number)| {
            let mut message = Message::new(topic.clone(), payload(number, *bytes, seed));
            // Only their length shows in a simulation.
            message.from = signed.then(|| Bytes::from(vec![*author as u8; AUTHOR_BYTES]));
            message.seqno = signed.then(|| Bytes::copy_from_slice(&u64::from(number).to_be_bytes()));
            message.signature = signed.then(|| Bytes::from(vec![0; SIGNATURE_BYTES]));
            Arc::new(message)
        });
        Self { messages: messages.collect(), topic }
    }
}

/// Publish this message.
#[derive(Clone, Copy, Debug)]
pub struct Publish(pub MessageNumber);

/// What a node tells the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The application has got a message.
    Delivered {
        /// Which.
        message: MessageNumber,
        /// Which host sent its first copy.
        from: u32,
    },
    /// A copy did not fit into the queue for this host.
    Lost {
        /// Which host.
        to: u32,
    },
}

/// What a node has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies of messages that were known already.
    pub duplicates: u64,
    /// Copies sent because a peer had asked for them.
    pub answered: u64,
    /// Members of the mesh, where the protocol has one.
    pub mesh: usize,
}

/// A node that takes part in a stream of messages, whatever its protocol.
pub trait Member: Engine<Command = Publish, Event = Told> {
    /// What it has counted.
    fn counts(&self) -> Counts;
}

/// The hosts behind the peers of a node.
#[derive(Debug, Default)]
pub(crate) struct Neighbours(Vec<u32>);

impl Neighbours {
    /// A link has come up.
    pub(crate) fn up(&mut self, peer: PeerId, info: &PeerInfo) {
        if self.0.len() <= peer.index() {
            self.0.resize(peer.index() + 1, u32::MAX);
        }
        self.0[peer.index()] = host_of(&info.identity).unwrap_or(u32::MAX);
    }

    /// The host behind a peer.
    pub(crate) fn host(&self, peer: PeerId) -> u32 {
        self.0.get(peer.index()).copied().unwrap_or(u32::MAX)
    }
}

/// A member that speaks GossipSub, with a processor that validates one message at a time.
#[derive(Debug)]
pub struct GossipMember {
    gossip: GossipSub,
    stream: Arc<Stream>,
    processor: Processor,
    neighbours: Neighbours,
    events: Vec<Event>,
}

impl GossipMember {
    /// A member.
    pub fn new(gossip: GossipSub, stream: Arc<Stream>, validation_time: Duration) -> Self {
        Self {
            gossip,
            stream,
            processor: Processor::new(validation_time),
            neighbours: Neighbours::default(),
            events: Vec::new(),
        }
    }

    fn relay(&mut self, cx: &mut Context<'_, RpcFrame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Message { message, from: Some(from), .. } => {
                    if let Some(number) = number_of(&message.data) {
                        cx.emit(Told::Delivered { message: number, from: self.neighbours.host(from) });
                    }
                }
                Event::NeedsValidation { id, .. } => self.processor.take(id, cx),
                Event::Lost(lost) if lost.message.is_some() => {
                    cx.emit(Told::Lost { to: self.neighbours.host(lost.peer) });
                }
                _ => {}
            }
        }
        self.events = events;
    }
}

impl Member for GossipMember {
    fn counts(&self) -> Counts {
        let metrics = self.gossip.metrics();
        Counts {
            duplicates: metrics.duplicates_received,
            answered: metrics.copies_answered,
            mesh: self.gossip.mesh_peers(&self.stream.topic).len(),
        }
    }
}

impl Engine for GossipMember {
    type Frame = RpcFrame;
    type Command = Publish;
    type Event = Told;

    fn handle(&mut self, input: Input<RpcFrame, Publish>, cx: &mut Context<'_, RpcFrame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        let mut inner = cx.nested(&mut events);
        match input {
            Input::Start => {
                self.gossip.handle(Input::Start, &mut inner);
                self.gossip.subscribe(&self.stream.topic, &mut inner);
            }
            Input::LinkUp { peer, info } => {
                self.neighbours.up(peer, &info);
                self.gossip.handle(Input::LinkUp { peer, info }, &mut inner);
            }
            Input::Command(Publish(number)) => {
                let message = Arc::clone(&self.stream.messages[number as usize]);
                // That nobody was there to take it shows in the results.
                let _ = self.gossip.publish_message(message, &mut inner);
            }
            Input::Timer(VALIDATED) => self.processor.done(&mut self.gossip, &mut inner),
            Input::LinkDown { peer } => self.gossip.handle(Input::LinkDown { peer }, &mut inner),
            Input::DialFailed { identity } => self.gossip.handle(Input::DialFailed { identity }, &mut inner),
            Input::Frame { peer, frame } => self.gossip.handle(Input::Frame { peer, frame }, &mut inner),
            Input::Timer(token) => self.gossip.handle(Input::Timer(token), &mut inner),
        }
        self.events = events;
        self.relay(cx);
    }
}
