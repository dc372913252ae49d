//! Data availability sampling: a publisher's columns, and nodes that each custody some of them.

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

use crate::host::{App, AppCx, EngineCx, Host, Neighbours, Processor, Stalls, VALIDATED};
use crate::messages::random_bytes;

/// The number of a column in its run: the slot times the number of columns, plus the column.
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
    /// Creates the topics, and `slots` blocks of random columns of `bytes` bytes each.
    pub fn new(columns: u32, slots: u32, bytes: u64, seed: u64) -> Self {
        // Real topic names of Ethereum (consensus-specs fulu/p2p-interface.md): their length is on
        // the wire.
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

    /// Returns the column of a message. Published messages are recognised by their address in
    /// memory.
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
        /// The order in which the copies leave.
        schedule: Schedule,
    },
}

/// An event from a node to the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Copy {
        column: ColumnId,
        /// The host that sent the copy.
        from: u32,
        first: bool,
    },
    /// A copy that did not fit into a queue.
    Lost,
}

/// A node with custody columns: GossipSub and a processor that validates one message at a time.
///
/// It also executes the publisher's commands.
#[derive(Debug)]
pub struct Node {
    pub gossip: GossipSub,
    shared: Arc<Blocks>,
    /// The columns whose topics it joins at the start.
    joins: Vec<u32>,
    processor: Processor,
    columns: FxHashMap<MessageKey, ColumnId>,
    /// The columns of the current slot that are still to be published one by one.
    publishing: Range<ColumnId>,
}

/// Fires when the next column of a slot is due.
const PUBLISH_NEXT: TimerToken = TimerToken(TimerToken::WRAPPER + 1);

impl Node {
    /// Creates a node that needs `validation_time` for each message, except while it stalls.
    pub fn new(
        gossip: GossipSub,
        shared: Arc<Blocks>,
        joins: Vec<u32>,
        validation_time: Duration,
        stalls: Option<Stalls>,
    ) -> Self {
        let (processor, columns) = (Processor::new(validation_time, stalls), FxHashMap::default());
        Self { gossip, shared, joins, processor, columns, publishing: 0..0 }
    }

    /// Publishes one column.
    ///
    /// The next one follows at the same time but as a separate event. The transport thus takes the
    /// copies of this column first, as with a loop over `publish` in the implementations.
    fn publish_next(&mut self, cx: &mut EngineCx<'_, Self>) {
        if let Some(column) = self.publishing.next() {
            let message = Arc::clone(&self.shared.messages[column as usize]);
            // The results show a topic without peers.
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

/// Marks a first copy: the highest bit of the word that holds the sending host.
const FIRST: u32 = 1 << 31;
/// Stands for a lost copy, in the place of the column.
const LOST: u32 = u32::MAX;

/// Encodes columns as their numbers, since all processes have them; all else as on the wire.
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

/// Frames come from the same program, so no limit ever applies.
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
