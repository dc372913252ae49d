//! Data availability sampling: a publisher's columns, and nodes that each keep some of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use samara_engine::outbox::Schedule;
use samara_engine::{Context, Engine, Input, MessageKey, NodeRng, PeerId, Purpose, TimerToken};
use samara_gossipsub::rpc::{Message, RpcFrame, Topic};
use samara_gossipsub::{Event, GossipSub};
use samara_sim::host_of;

use crate::processor::{Processor, VALIDATED};

/// A column of a block: the slot times the number of columns, plus the column.
pub type ColumnId = u32;

/// What all nodes of a run share.
#[derive(Debug)]
pub struct Columns {
    /// The topic of each column.
    pub topics: Vec<Topic>,
    index: FxHashMap<Topic, u32>,
    /// The messages, slot by slot and column by column.
    pub messages: Vec<Arc<Message>>,
}

impl Columns {
    /// The topics, and `slots` blocks of random columns of `bytes` bytes.
    pub fn new(columns: u32, slots: u32, bytes: u64, seed: u64) -> Self {
        // The names of Ethereum's topics (consensus-specs fulu/p2p-interface.md), since their length is on the wire.
        let topics: Vec<Topic> = (0..columns)
            .map(|column| Topic::new(&format!("/eth2/00000000/data_column_sidecar_{column}/ssz_snappy")))
            .collect();
        let index = topics.iter().cloned().zip(0..).collect();
        let mut rng = NodeRng::new(seed, u64::MAX, Purpose::Workload);
        let messages = (0..slots)
            .flat_map(|_| topics.iter())
            .map(|topic| {
                let mut data = vec![0; bytes as usize];
                for word in data.chunks_mut(8) {
                    word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
                }
                Arc::new(Message::new(topic.clone(), Bytes::from(data)))
            })
            .collect();
        Self { topics, index, messages }
    }

    /// Which column a message is: published messages are recognised by their place in memory.
    pub fn id_of(&self, topic: &Topic, message: &Arc<Message>) -> Option<ColumnId> {
        let column = *self.index.get(topic)?;
        let slots = self.messages.iter().skip(column as usize).step_by(self.topics.len());
        let slot = slots.zip(0..).find(|(known, _)| Arc::ptr_eq(known, message)).map(|(_, slot)| slot)?;
        Some(slot * self.count() + column)
    }

    /// How many columns a block has.
    pub fn count(&self) -> u32 {
        self.topics.len() as u32
    }
}

/// What a node is told to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Publish the columns of a slot one by one.
    PublishEach {
        /// Which.
        slot: u32,
    },
    /// Publish the columns of a slot as a batch.
    PublishBatch {
        /// Which.
        slot: u32,
        /// In which order their copies leave.
        schedule: Schedule,
    },
}

/// What a node tells the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A copy of a column has arrived.
    Copy {
        /// Which.
        column: ColumnId,
        /// From which host.
        from: u32,
        /// Whether it is the first.
        first: bool,
    },
    /// A copy did not fit into a queue.
    Lost,
}

/// A node that keeps columns: GossipSub, a processor that validates one message at a time, and the publisher's commands.
#[derive(Debug)]
pub struct ColumnsNode {
    gossip: GossipSub,
    shared: Arc<Columns>,
    /// The columns that it joins at the start.
    joins: Vec<u32>,
    processor: Processor,
    events: Vec<Event>,
    /// The host behind each peer.
    hosts: Vec<u32>,
    columns: FxHashMap<MessageKey, ColumnId>,
    /// Columns of the slot that are published one by one, still to do.
    publishing: std::ops::Range<ColumnId>,
}

/// The next column of a slot is to be published.
const PUBLISH_NEXT: TimerToken = TimerToken(TimerToken::WRAPPER + 1);

impl ColumnsNode {
    /// A node.
    pub fn new(gossip: GossipSub, shared: Arc<Columns>, joins: Vec<u32>, validation_time: Duration) -> Self {
        Self {
            gossip,
            shared,
            joins,
            processor: Processor::new(validation_time),
            events: Vec::new(),
            hosts: Vec::new(),
            columns: FxHashMap::default(),
            publishing: 0..0,
        }
    }

    /// The protocol engine.
    pub fn gossip(&self) -> &GossipSub {
        &self.gossip
    }

    fn slot_messages(&self, slot: u32) -> std::ops::Range<ColumnId> {
        let count = self.shared.count();
        slot * count..(slot + 1) * count
    }

    /// Publishes one column; the next one follows at the same time but as an event of its own, so that the transport
    /// takes its copies first, as a loop over `publish` does in the implementations.
    fn publish_next(&mut self, cx: &mut Context<'_, RpcFrame, Event>) {
        if let Some(column) = self.publishing.next() {
            let message = Arc::clone(&self.shared.messages[column as usize]);
            // That a topic has no peers shows in the results.
            let _ = self.gossip.publish_message(message, cx);
            let now = cx.now();
            cx.set_timer(now, PUBLISH_NEXT);
        }
    }

    fn command(&mut self, command: Command, cx: &mut Context<'_, RpcFrame, Event>) {
        match command {
            Command::PublishEach { slot } => {
                self.publishing = self.slot_messages(slot);
                self.publish_next(cx);
            }
            Command::PublishBatch { slot, schedule } => {
                let shared = Arc::clone(&self.shared);
                let messages =
                    self.slot_messages(slot).map(|column| Arc::clone(&shared.messages[column as usize]));
                self.gossip.publish_message_batch(messages, &schedule, cx);
            }
        }
    }

    fn relay(&mut self, cx: &mut Context<'_, RpcFrame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Message { key, topic, message, from: None, .. } => {
                    if let Some(column) = self.shared.id_of(&topic, &message) {
                        self.columns.insert(key, column);
                    }
                }
                Event::Message { key, topic, message, from: Some(from), .. }
                    if self.processor.is_instant() =>
                {
                    self.first_copy(key, &topic, &message, from, cx);
                }
                Event::NeedsValidation { id, key, topic, message, from } => {
                    self.first_copy(key, &topic, &message, from, cx);
                    self.processor.take(id, cx);
                }
                Event::Duplicate { key, from } => {
                    if let Some(column) = self.columns.get(&key) {
                        let from = self.hosts[from.index()];
                        cx.emit(Told::Copy { column: *column, from, first: false });
                    }
                }
                Event::Lost(_) => cx.emit(Told::Lost),
                _ => {}
            }
        }
        self.events = events;
    }

    fn first_copy(
        &mut self,
        key: MessageKey,
        topic: &Topic,
        message: &Arc<Message>,
        from: PeerId,
        cx: &mut Context<'_, RpcFrame, Told>,
    ) {
        if let Some(column) = self.shared.id_of(topic, message) {
            self.columns.insert(key, column);
            cx.emit(Told::Copy { column, from: self.hosts[from.index()], first: true });
        }
    }
}

impl Engine for ColumnsNode {
    type Frame = RpcFrame;
    type Command = Command;
    type Event = Told;

    fn handle(&mut self, input: Input<RpcFrame, Command>, cx: &mut Context<'_, RpcFrame, Told>) {
        let mut events = std::mem::take(&mut self.events);
        let mut inner = cx.nested(&mut events);
        match input {
            Input::Start => {
                self.gossip.handle(Input::Start, &mut inner);
                for column in &self.joins {
                    self.gossip.subscribe(&self.shared.topics[*column as usize], &mut inner);
                }
            }
            Input::LinkUp { peer, info } => {
                if self.hosts.len() <= peer.index() {
                    self.hosts.resize(peer.index() + 1, u32::MAX);
                }
                self.hosts[peer.index()] = host_of(&info.identity).unwrap_or(u32::MAX);
                self.gossip.handle(Input::LinkUp { peer, info }, &mut inner);
            }
            Input::Timer(VALIDATED) => self.processor.done(&mut self.gossip, &mut inner),
            Input::Timer(PUBLISH_NEXT) => self.publish_next(&mut inner),
            Input::Command(command) => self.command(command, &mut inner),
            Input::LinkDown { peer } => self.gossip.handle(Input::LinkDown { peer }, &mut inner),
            Input::DialFailed { identity } => self.gossip.handle(Input::DialFailed { identity }, &mut inner),
            Input::Frame { peer, frame } => self.gossip.handle(Input::Frame { peer, frame }, &mut inner),
            Input::Timer(token) => self.gossip.handle(Input::Timer(token), &mut inner),
        }
        self.events = events;
        self.relay(cx);
    }
}
