//! Data availability sampling: a publisher's columns, and nodes that each keep some of them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use samara_engine::outbox::Schedule;
use samara_engine::{Engine, Input, MessageKey, NodeRng, Purpose, TimerToken};
use samara_gossipsub::rpc::{Message, Rpc, RpcFrame, Topic};
use samara_gossipsub::wire::{self, Limits};
use samara_gossipsub::{Event as EngineEvent, GossipSub};
use samara_sim::{FrameCodec, Reader};

use crate::host::{App, AppCx, EngineCx, Host, Neighbours, Processor, VALIDATED};
use crate::messages::random_bytes;

/// A column of a block: the slot times the number of columns, plus the column.
pub type ColumnId = u32;

/// The blocks that all nodes of a run share.
#[derive(Debug)]
pub struct Blocks {
    /// The topic of each column.
    pub topics: Vec<Topic>,
    index: FxHashMap<Topic, u32>,
    /// The messages, slot by slot and column by column.
    pub messages: Vec<Arc<Message>>,
}

impl Blocks {
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
            .map(|topic| Arc::new(Message::new(topic.clone(), random_bytes(bytes, &mut rng).into())))
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

    pub fn count(&self) -> u32 {
        self.topics.len() as u32
    }
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Publish the columns of a slot one by one.
    PublishEach { slot: u32 },
    /// Publish the columns of a slot as a batch.
    PublishBatch {
        slot: u32,
        /// In which order their copies leave.
        schedule: Schedule,
    },
}

/// What a node tells the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Copy {
        column: ColumnId,
        /// The host that sent it.
        from: u32,
        first: bool,
    },
    /// A copy did not fit into a queue.
    Lost,
}

/// A node that keeps columns: GossipSub, a processor that validates one message at a time, and the publisher's commands.
#[derive(Debug)]
pub struct Node {
    pub gossip: GossipSub,
    shared: Arc<Blocks>,
    /// The columns that it joins at the start.
    joins: Vec<u32>,
    processor: Processor,
    columns: FxHashMap<MessageKey, ColumnId>,
    /// Columns of the slot that are published one by one, still to do.
    publishing: Range<ColumnId>,
}

/// The next column of a slot is to be published.
const PUBLISH_NEXT: TimerToken = TimerToken(TimerToken::WRAPPER + 1);

impl Node {
    /// A node that takes `validation_time` for a message.
    pub fn new(gossip: GossipSub, shared: Arc<Blocks>, joins: Vec<u32>, validation_time: Duration) -> Self {
        let (processor, columns) = (Processor::new(validation_time), FxHashMap::default());
        Self { gossip, shared, joins, processor, columns, publishing: 0..0 }
    }

    /// Publishes one column; the next one follows at the same time but as an event of its own, so that the transport
    /// takes its copies first, as a loop over `publish` does in the implementations.
    fn publish_next(&mut self, cx: &mut EngineCx<'_, Self>) {
        if let Some(column) = self.publishing.next() {
            let message = Arc::clone(&self.shared.messages[column as usize]);
            // That a topic has no peers shows in the results.
            let _ = self.gossip.publish_message(message, cx);
            let now = cx.now();
            cx.set_timer(now, PUBLISH_NEXT);
        }
    }

    fn first_copy(
        &mut self,
        key: MessageKey,
        (topic, message): (&Topic, &Arc<Message>),
        from: u32,
        cx: &mut AppCx<'_, Self>,
    ) {
        if let Some(column) = self.shared.id_of(topic, message) {
            self.columns.insert(key, column);
            cx.emit(Event::Copy { column, from, first: true });
        }
    }
}

impl App for Node {
    type Engine = GossipSub;
    type Command = Command;
    type Event = Event;

    fn engine(&mut self) -> &mut GossipSub {
        &mut self.gossip
    }

    fn start(&mut self, cx: &mut EngineCx<'_, Self>) {
        for column in &self.joins {
            self.gossip.subscribe(&self.shared.topics[*column as usize], cx);
        }
    }

    fn command(&mut self, command: Command, cx: &mut EngineCx<'_, Self>) {
        let columns = |slot: u32| slot * self.shared.count()..(slot + 1) * self.shared.count();
        match command {
            Command::PublishEach { slot } => {
                self.publishing = columns(slot);
                self.publish_next(cx);
            }
            Command::PublishBatch { slot, schedule } => {
                let messages = columns(slot).map(|column| Arc::clone(&self.shared.messages[column as usize]));
                self.gossip.publish_message_batch(messages, &schedule, cx);
            }
        }
    }

    fn timer(&mut self, token: TimerToken, cx: &mut EngineCx<'_, Self>) {
        match token {
            VALIDATED => self.processor.done(&mut self.gossip, cx),
            PUBLISH_NEXT => self.publish_next(cx),
            token => self.gossip.handle(Input::Timer(token), cx),
        }
    }

    fn observe(&mut self, event: EngineEvent, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        match event {
            EngineEvent::Message { key, topic, message, from: None, .. } => {
                if let Some(column) = self.shared.id_of(&topic, &message) {
                    self.columns.insert(key, column);
                }
            }
            EngineEvent::Message { key, topic, message, from: Some(from), .. }
                if self.processor.is_instant() =>
            {
                self.first_copy(key, (&topic, &message), neighbours.host(from), cx);
            }
            EngineEvent::NeedsValidation { id, key, topic, message, from } => {
                self.first_copy(key, (&topic, &message), neighbours.host(from), cx);
                self.processor.take(id, cx);
            }
            EngineEvent::Duplicate { key, from } => {
                if let Some(column) = self.columns.get(&key) {
                    cx.emit(Event::Copy { column: *column, from: neighbours.host(from), first: false });
                }
            }
            EngineEvent::Lost(_) => cx.emit(Event::Lost),
            _ => {}
        }
    }
}

/// Marks a first copy: the highest bit of the word with the host it came from.
const FIRST: u32 = 1 << 31;
/// In the place of a column: a copy that did not fit into a queue.
const LOST: u32 = u32::MAX;

/// Columns travel by their numbers, since all processes have them; everything else as on the wire.
pub struct Codec(pub Arc<Blocks>);

impl crate::Codec<Host<Node>> for Codec {
    fn write_event(&self, event: &Event, out: &mut Vec<u8>) {
        let (column, from) = match *event {
            Event::Copy { column, from, first } => (column, from | if first { FIRST } else { 0 }),
            Event::Lost => (LOST, 0),
        };
        [column, from].into_iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn read_event(&self, reader: &mut Reader<'_>) -> Option<Event> {
        let (column, from) = (reader.u32()?, reader.u32()?);
        let copy = Event::Copy { column, from: from & !FIRST, first: from & FIRST != 0 };
        Some(if column == LOST { Event::Lost } else { copy })
    }
}

/// Frames of nodes of the same program: no limit is ever in the way.
const LIMITS: Limits = Limits::with_frame_bytes(64 << 20);

impl FrameCodec<RpcFrame> for Codec {
    fn write(&self, frame: &RpcFrame, out: &mut Vec<u8>) {
        let rpc = frame.rpc();
        let ids: Option<Vec<u32>> =
            rpc.publish.iter().map(|message| self.0.id_of(message.topic.as_ref()?, message)).collect();
        let known = ids.unwrap_or_default();
        out.extend_from_slice(&(known.len() as u32).to_le_bytes());
        known.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        if known.is_empty() {
            wire::encode(rpc, out);
        } else {
            wire::encode(&Rpc { publish: [].into_iter().collect(), ..rpc.clone() }, out);
        }
        let len = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn read(&self, reader: &mut Reader<'_>) -> Option<RpcFrame> {
        let count = reader.u32()?;
        let ids = (0..count).map(|_| reader.u32()).collect::<Option<Vec<u32>>>()?;
        let len = reader.u32()?;
        let rest = bytes::Bytes::copy_from_slice(reader.bytes(len as usize)?);
        let mut rpc = wire::decode(rest, &LIMITS).ok()?;
        for id in ids {
            rpc.publish.push(Arc::clone(self.0.messages.get(id as usize)?));
        }
        Some(RpcFrame::new(rpc))
    }
}
