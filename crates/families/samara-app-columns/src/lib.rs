//! Data availability sampling: a publisher's columns, and nodes that each custody some of them.

mod cells;
mod numbers;
mod spoof;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use samara_baselines::{Baseline, Event as BaselineEvent, Forest, PubSub};
use samara_engine::hostile::Misconduct;
use samara_engine::outbox::Schedule;
use samara_engine::{
    Context, Engine, Input, MessageKey, NodeRng, Outbox, PeerId, PeerIdentity, Purpose, TimerToken, Topic,
};
use samara_gossipsub::rpc::{Message, MessageId};
use samara_gossipsub::{GossipSub, Piece};
use samara_hosts::Worlds;
use samara_sim::{Contents, Items, Neighbours};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use samara_pubsub::frames::{Carries, payload};
use samara_pubsub::host::{AppCx, EngineCx, Host, Processor, VALIDATED, Workload};

pub use cells::{CellPlan, CellSettings, PushedCells, cell_format, cell_item, header_item};
pub use numbers::Numbers;

/// The number of a segment in its run: the slot times the number of segments of a block, plus the
/// segment. Columns are the first segments of a block; rows follow them.
pub type SegmentId = u32;

fn random_bytes(count: u64, rng: &mut NodeRng) -> Vec<u8> {
    let mut data = vec![0; count as usize];
    for word in data.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes()[..word.len()]);
    }
    data
}

/// The topics of pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PieceTopics {
    /// One for all.
    #[default]
    Shared,
    /// One for each.
    Each,
}

/// What the blocks of a run consist of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Number of columns of a block, or of the pieces that a node needs.
    pub columns: u32,
    /// Number of rows of a block that travel as segments.
    pub rows: u32,
    /// The topics of pieces; `None` for columns and rows.
    pub pieces: Option<PieceTopics>,
    /// Bytes of each segment of a block.
    pub segment_bytes: Vec<u64>,
    /// Number of the first segments of a block, which the publisher sends.
    pub sent: u32,
    /// Number of blocks.
    pub slots: u32,
}

/// The blocks that all nodes of a run share, with messages in the form of an engine.
#[derive(Debug)]
pub struct Blocks<M = Message> {
    pub topics: Vec<Topic>,
    /// The segment of each topic; empty if all segments share one.
    index: FxHashMap<Topic, u32>,
    /// The messages, slot by slot and segment by segment.
    pub messages: Vec<Arc<M>>,
    /// Number of the first segments of a block, which the publisher sends.
    sent: u32,
}

/// A segment of a block in the form of an engine.
pub trait Segment: Sized {
    fn new(topic: &Topic, number: SegmentId, data: Bytes) -> Self;

    fn topic(&self) -> Option<&Topic>;

    fn data(&self) -> &Bytes;
}

impl Segment for Message {
    /// Messages of Ethereum have no author.
    fn new(topic: &Topic, _number: SegmentId, data: Bytes) -> Self {
        Self::new(topic.clone(), data)
    }

    fn topic(&self) -> Option<&Topic> {
        self.topic.as_ref()
    }

    fn data(&self) -> &Bytes {
        &self.data
    }
}

impl Segment for samara_baselines::Message {
    fn new(topic: &Topic, number: SegmentId, data: Bytes) -> Self {
        // Only the publisher of blocks is an author.
        Self::new(PeerIdentity::new(b"publisher"), u64::from(number), topic.clone(), data)
    }

    fn topic(&self) -> Option<&Topic> {
        Some(self.topic())
    }

    fn data(&self) -> &Bytes {
        self.data()
    }
}

impl<M: Segment> Blocks<M> {
    /// Creates the topics, and the slots' blocks of segments with random payloads of this seed; without
    /// one, payloads are the numbers of segments, which programs of others can make, too.
    pub fn new(layout: &Layout, seed: Option<u64>) -> Self {
        // Real topic names of Ethereum (consensus-specs fulu/p2p-interface.md): their length is on
        // the wire. Rows have no name there; theirs has the same form.
        let topic = |kind: &str, number: u32| {
            Topic::new(&format!("/eth2/00000000/data_{kind}_sidecar_{number}/ssz_snappy"))
        };
        let columns = (0..layout.columns).map(|column| topic("column", column));
        let topics: Vec<Topic> = match layout.pieces {
            None => columns.chain((0..layout.rows).map(|row| topic("row", row))).collect(),
            Some(topics) => {
                let shared = topics == PieceTopics::Shared;
                let all = 0..layout.segment_bytes.len() as u32;
                all.map(|at| topic("piece", if shared { 0 } else { at })).collect()
            }
        };
        let index = if topics.iter().skip(1).any(|topic| *topic == topics[0]) {
            FxHashMap::default()
        } else {
            topics.iter().cloned().zip(0..).collect()
        };
        let mut rng = seed.map(|seed| NodeRng::new(seed, u64::MAX, Purpose::Workload));
        let bytes = &layout.segment_bytes;
        let segments = (0..layout.slots).flat_map(|_| topics.iter().zip(bytes)).zip(0..);
        let messages = segments
            .map(|((topic, bytes), number)| {
                let mut data = match &mut rng {
                    Some(rng) => random_bytes(*bytes, rng),
                    None => payload(number, *bytes),
                };
                if layout.pieces.is_some() {
                    let (slot, at) = (number / topics.len() as u32, number % topics.len() as u32);
                    let piece = Piece {
                        payload: u64::from(slot),
                        needed: layout.columns as u16,
                        total: topics.len() as u16,
                    };
                    data[..Piece::HEADER_BYTES].copy_from_slice(&piece.header(at as u16));
                }
                Arc::new(M::new(topic, number, data.into()))
            })
            .collect();
        Self { topics, index, messages, sent: layout.sent }
    }
}

impl<M: Segment> Blocks<M> {
    /// Returns the segment with the topic and the data of a message.
    pub(crate) fn known(&self, message: &M) -> Option<Arc<M>> {
        let topic = message.topic()?;
        // All segments may share a topic.
        let first = self.index.get(topic).copied().unwrap_or(0) as usize;
        let step = if self.index.is_empty() { 1 } else { self.topics.len() };
        let is_same = |known: &&Arc<M>| known.topic() == Some(topic) && known.data() == message.data();
        self.messages.iter().skip(first).step_by(step).find(is_same).cloned()
    }
}

impl<M> Blocks<M> {
    /// Returns the number of a message, which is recognised by its address in memory.
    pub fn id_of(&self, topic: &Topic, message: &Arc<M>) -> Option<SegmentId> {
        if self.index.is_empty() {
            // All segments share a topic.
            let number = self.messages.iter().position(|known| Arc::ptr_eq(known, message))?;
            return Some(number as SegmentId);
        }
        let segment = *self.index.get(topic)?;
        let slots = self.messages.iter().skip(segment as usize).step_by(self.topics.len());
        let slot = slots.zip(0..).find(|(known, _)| Arc::ptr_eq(known, message)).map(|(_, slot)| slot)?;
        Some(slot * self.count() + segment)
    }

    /// Returns the number of segments of a block.
    pub fn count(&self) -> u32 {
        self.topics.len() as u32
    }

    /// Returns the numbers of a slot's segments.
    pub fn of_slot(&self, slot: u32) -> Range<SegmentId> {
        slot * self.count()..(slot + 1) * self.count()
    }

    /// Returns the numbers of the segments of a slot that the publisher sends.
    fn sent_of(&self, slot: u32) -> Range<SegmentId> {
        let first = slot * self.count();
        first..first + self.sent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Publish the segments of a slot one by one.
    PublishEach { slot: u32 },
    /// Publish the segments of a slot as a batch, in the order of [`Node::schedule`].
    PublishBatch { slot: u32 },
}

/// An event from a node to the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Copy {
        segment: SegmentId,
        /// The host that sent the copy.
        from: u32,
        first: bool,
    },
    /// The node has rebuilt a segment that it keeps.
    Rebuilt { segment: SegmentId },
    /// The node has rebuilt a block, and published this many of its segments.
    Repaired { published: u32 },
    /// A copy that did not fit into a queue.
    Lost,
}

/// The counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Joined topics, and the peers that messages on them go to.
    pub joined: u64,
    pub targets: u64,
    /// As [`Spreading::cell_counts`].
    pub cells: [u64; 5],
    /// As [`Spreading::offences`].
    pub kept_unwanted_copies: u64,
    pub misbehaviours: u64,
}

/// The meaning of an engine's event for a node.
#[derive(Debug)]
pub enum Arrival<M> {
    /// A message that the node published itself.
    Own { key: MessageKey, topic: Topic, message: Arc<M> },
    /// The first copy of a message. With an id, the node must validate it.
    First { key: MessageKey, topic: Topic, message: Arc<M>, from: PeerId, validate: Option<MessageId> },
    /// A further copy.
    Again { key: MessageKey, from: PeerId },
    /// A copy that did not fit into a queue.
    Lost,
    /// Nothing that concerns segments.
    Other,
}

type Cx<'a, E> = Context<'a, <E as Engine>::Frame, <E as Engine>::Event>;

/// An engine over which segments spread.
pub trait Spreading:
    Engine<Frame: Carries<<Self as Spreading>::Message> + Send, Event: Send> + Send + Sized + 'static
{
    type Message: Segment + Send + Sync + std::fmt::Debug;

    fn join(&mut self, topic: &Topic, cx: &mut Cx<'_, Self>);

    /// Publishes a message. The results show a topic without peers.
    fn publish_one(&mut self, message: Arc<Self::Message>, cx: &mut Cx<'_, Self>);

    fn publish_all(&mut self, messages: Vec<Arc<Self::Message>>, schedule: &Schedule, cx: &mut Cx<'_, Self>);

    /// Returns the number of peers that messages on this topic go to.
    fn targets(&self, topic: &Topic) -> usize;

    /// Handles the end of a validation.
    fn validated(node: &mut Node<Self>, cx: &mut Cx<'_, Self>);

    /// Returns what a hostile node sends in place of a frame, where that depends on the protocol.
    fn forge(_: Misconduct, frame: &Self::Frame, _: &mut NodeRng) -> Option<Self::Frame> {
        Some(frame.clone())
    }

    /// Claims to have what a frame announces, and returns the frame without the announcements.
    fn spoof(_: &Node<Self>, frame: Self::Frame, _: &mut Cx<'_, Self>) -> Self::Frame {
        frame
    }

    /// Returns the names by which requests ask for the segments in a frame, and those for which the
    /// frame asks.
    fn names(_: &Self::Frame) -> [Items; 2] {
        Default::default()
    }

    /// Returns the numbers of the cells and of the header in a frame, and of the cells for which it
    /// asks.
    fn cell_items(_: &Self::Frame, _: &Blocks<Self::Message>, _: &CellPlan) -> [Items; 2] {
        Default::default()
    }

    fn exchange_cells(_: &mut Node<Self>, _: &Arc<CellPlan>, _host: u32) {}

    /// Publishes the cells of a slot. Returns false if the node publishes whole columns only.
    fn publish_cells(_: &mut Node<Self>, _slot: u32, _: &Schedule, _: &mut Cx<'_, Self>) -> bool {
        false
    }

    /// Handles an event that concerns cells. Returns others.
    fn take_cells(
        _: &mut Node<Self>,
        event: Self::Event,
        _: &mut AppCx<'_, Node<Self>>,
    ) -> Option<Self::Event> {
        Some(event)
    }

    /// Notes a whole column that has arrived, with its sender.
    fn whole_column(_: &mut Node<Self>, _: SegmentId, _: PeerId, _: &mut AppCx<'_, Node<Self>>) {}

    /// Handles a timer. Returns false if it does not concern cells.
    fn cell_timer(_: &mut Node<Self>, _: TimerToken, _: &mut Cx<'_, Self>) -> bool {
        false
    }

    /// Emits the events of columns that cells have completed.
    fn report_cells(_: &mut Node<Self>, _: &Neighbours, _: &mut AppCx<'_, Node<Self>>) {}

    /// Returns the counters of cells: missing after the look-up, columns completed by the look-up, cells
    /// received, headers received, and bodies of metadata.
    fn cell_counts(_: &Node<Self>) -> [u64; 5] {
        [0; 5]
    }

    /// Returns the counters that stay 0 among nodes without a fault: copies owed to peers that do not
    /// want them, and misbehaviours of peers.
    fn offences(&self) -> [u64; 2] {
        [0; 2]
    }

    fn arrival(event: Self::Event, is_instant: bool) -> Arrival<Self::Message>;

    /// Returns the worlds of hosts with this protocol.
    fn worlds() -> Worlds<Host<Node<Self>>>;
}

/// Returns a function that returns the segments in a frame, and the cells with a plan.
pub fn contents<E: Spreading>(
    blocks: Arc<Blocks<E::Message>>,
    plan: Option<Arc<CellPlan>>,
) -> impl Fn(&E::Frame, Option<MessageKey>) -> Contents + Send + Sync + 'static {
    move |frame, _| {
        let number = |message: &Arc<E::Message>| blocks.id_of(Segment::topic(&**message)?, message);
        let mut items: Items = frame.messages().iter().filter_map(number).map(u64::from).collect();
        let [mut names, mut asked] = E::names(frame);
        if let Some(plan) = &plan {
            let [cells, wanted] = E::cell_items(frame, &blocks, plan);
            // Requests name cells by their numbers.
            names.extend(cells.iter().copied());
            items.extend(cells);
            asked.extend(wanted);
        }
        // The low half of every item is the number of a segment.
        let batch = items.first().map(|first| u64::from(*first as u32 / blocks.count()));
        Contents { items, names, asked, batch }
    }
}

/// Implements [`Spreading`] for engines of `samara-baselines`.
macro_rules! baselines {
    ($($engine:ty),*) => {$(
        impl Spreading for $engine {
            type Message = samara_baselines::Message;

            fn join(&mut self, topic: &Topic, cx: &mut Cx<'_, Self>) {
                if let Err(error) = self.subscribe(topic, cx) {
                    unreachable!("names of columns are short: {error}");
                }
            }

            fn publish_one(&mut self, message: Arc<Self::Message>, cx: &mut Cx<'_, Self>) {
                let _ = self.publish_message(message, cx);
            }

            fn publish_all(&mut self, messages: Vec<Arc<Self::Message>>, schedule: &Schedule, cx: &mut Cx<'_, Self>) {
                Baseline::publish_all(self, messages, Some(schedule), cx);
            }

            fn targets(&self, topic: &Topic) -> usize {
                Baseline::targets(self, topic)
            }

            fn validated(_: &mut Node<Self>, _: &mut Cx<'_, Self>) {}

            fn arrival(event: BaselineEvent, _: bool) -> Arrival<Self::Message> {
                match event {
                    BaselineEvent::Message { key, message, from, .. } => {
                        let topic = message.topic().clone();
                        match from {
                            None => Arrival::Own { key, topic, message },
                            Some(from) => Arrival::First { key, topic, message, from, validate: None },
                        }
                    }
                    BaselineEvent::Duplicate { key, from } => Arrival::Again { key, from },
                    BaselineEvent::Lost(_) => Arrival::Lost,
                    BaselineEvent::Published(_) | BaselineEvent::Refused(_) => Arrival::Other,
                }
            }

            fn worlds() -> Worlds<Host<Node<Self>>> {
                Worlds::framed()
            }
        }
    )*};
}

baselines!(PubSub, Forest);

/// How nodes rebuild blocks.
#[derive(Clone, Debug)]
pub struct Repairing {
    /// Number of columns of a block from which all segments can be rebuilt.
    pub needed: u32,
    /// Number of columns of a block; the segments beyond are rows.
    pub columns: u32,
    /// Processing time from `needed` columns to the whole block.
    pub time: Duration,
    /// The order in which copies of the rebuilt segments leave; `None` if they are not published.
    pub publish: Option<Schedule>,
}

/// The segments of a block at a node that can rebuild it.
#[derive(Debug, Default)]
struct Held {
    segments: Vec<bool>,
    columns: u32,
}

/// A node with custody columns: an engine and a processor that validates one message at a time.
///
/// It also executes the publisher's commands.
#[derive(Debug)]
pub struct Node<E: Spreading = GossipSub> {
    pub engine: E,
    shared: Arc<Blocks<E::Message>>,
    /// The segments whose topics it joins at the start.
    joins: Vec<u32>,
    processor: Processor,
    segments: FxHashMap<MessageKey, SegmentId>,
    /// The segments of the current slot that are still to be published one by one.
    publishing: Range<SegmentId>,
    /// Set if the node keeps enough columns to rebuild blocks.
    repair: Option<Arc<Repairing>>,
    /// The segments of each slot, if the node can rebuild blocks.
    held: FxHashMap<u32, Held>,
    /// Whether the node claims to have every announced piece, and requests none.
    pub spoofs: bool,
    /// The order in which the copies of a batch leave the publisher.
    pub schedule: Schedule,
    /// Set if the node exchanges cells.
    cells: Option<Box<cells::CellNode>>,
    /// Events that wait for the application's context.
    reports: Vec<Event>,
}

/// Fires when the next segment of a slot is due.
const PUBLISH_NEXT: TimerToken = TimerToken(TimerToken::WRAPPER + 1);
/// Fires when a block is rebuilt: the token of slot 0, before those of the others.
const REPAIRED: u64 = TimerToken::WRAPPER + 2;

impl<E: Spreading> Node<E> {
    /// Creates a node. It rebuilds blocks if it keeps as many columns as that takes.
    pub fn new(
        engine: E,
        shared: Arc<Blocks<E::Message>>,
        joins: Vec<u32>,
        processor: Processor,
        repair: Option<&Arc<Repairing>>,
    ) -> Self {
        let kept = |repair: &Repairing| joins.iter().filter(|segment| **segment < repair.columns).count();
        let repair = repair.filter(|repair| kept(repair) as u32 >= repair.needed).cloned();
        Self {
            engine,
            shared,
            joins,
            processor,
            segments: FxHashMap::default(),
            publishing: 0..0,
            repair,
            held: FxHashMap::default(),
            spoofs: false,
            schedule: Schedule::Sequential,
            cells: None,
            reports: Vec::new(),
        }
    }

    /// Publishes one segment.
    ///
    /// The next one follows at the same time but as a separate event. The transport thus takes the
    /// copies of this segment first, as with a loop over `publish` in the implementations.
    fn publish_next(&mut self, cx: &mut EngineCx<'_, Self>) {
        if let Some(segment) = self.publishing.next() {
            self.engine.publish_one(Arc::clone(&self.shared.messages[segment as usize]), cx);
            let now = cx.now();
            cx.set_timer(now, PUBLISH_NEXT);
        }
    }

    /// Notes a segment, and starts to rebuild the block if there are enough of them. Returns false
    /// if the node has rebuilt it before.
    fn hold(&mut self, id: SegmentId, cx: &mut AppCx<'_, Self>) -> bool {
        let Some(repair) = &self.repair else { return true };
        let (slot, segment) = (id / self.shared.count(), id % self.shared.count());
        let held = self.held.entry(slot).or_default();
        held.segments.resize(self.shared.topics.len(), false);
        if std::mem::replace(&mut held.segments[segment as usize], true) {
            return false;
        }
        if segment < repair.columns {
            held.columns += 1;
            if held.columns == repair.needed {
                let done = cx.now() + repair.time;
                cx.set_timer(done, TimerToken(REPAIRED + u64::from(slot)));
            }
        }
        true
    }

    /// Adds the missing segments of a block that the node has rebuilt.
    fn rebuild(&mut self, slot: u32, cx: &mut EngineCx<'_, Self>) {
        let (Some(repair), Some(held)) = (self.repair.clone(), self.held.get_mut(&slot)) else { return };
        let first = self.shared.of_slot(slot).start;
        let is_missing = |segment: &&u32| !std::mem::replace(&mut held.segments[**segment as usize], true);
        let missing: Vec<SegmentId> =
            self.joins.iter().filter(is_missing).map(|segment| first + segment).collect();
        self.reports.extend(missing.iter().map(|segment| Event::Rebuilt { segment: *segment }));
        let published = if repair.publish.is_some() { missing.len() as u32 } else { 0 };
        self.reports.push(Event::Repaired { published });
        if let Some(schedule) = &repair.publish {
            let message = |segment: &SegmentId| Arc::clone(&self.shared.messages[*segment as usize]);
            self.engine.publish_all(missing.iter().map(message).collect(), schedule, cx);
        }
    }
}

impl<E: Spreading> Workload for Node<E> {
    type Engine = E;
    type Command = Command;
    type Event = Event;
    type Counters = Counts;

    fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    fn assert_invariants(&self, outbox: &Outbox<E::Frame>) {
        self.engine.assert_invariants(outbox);
    }

    fn counters(&self) -> Counts {
        let targets = |segment: &u32| self.engine.targets(&self.shared.topics[*segment as usize]) as u64;
        let [kept_unwanted_copies, misbehaviours] = self.engine.offences();
        Counts {
            joined: self.joins.len() as u64,
            targets: self.joins.iter().map(targets).sum(),
            cells: E::cell_counts(self),
            kept_unwanted_copies,
            misbehaviours,
        }
    }

    fn start(&mut self, cx: &mut EngineCx<'_, Self>) {
        let mut before = None;
        for segment in &self.joins {
            let topic = &self.shared.topics[*segment as usize];
            if before != Some(topic) {
                self.engine.join(topic, cx);
            }
            before = Some(topic);
        }
    }

    fn command(&mut self, command: Command, cx: &mut EngineCx<'_, Self>) {
        match command {
            Command::PublishEach { slot } => {
                if E::publish_cells(self, slot, &Schedule::Sequential, cx) {
                    return;
                }
                self.publishing = self.shared.sent_of(slot);
                self.publish_next(cx);
            }
            Command::PublishBatch { slot } => {
                let schedule = self.schedule.clone();
                if E::publish_cells(self, slot, &schedule, cx) {
                    return;
                }
                let message = |segment: SegmentId| Arc::clone(&self.shared.messages[segment as usize]);
                self.engine.publish_all(self.shared.sent_of(slot).map(message).collect(), &schedule, cx);
            }
        }
    }

    fn timer(&mut self, token: TimerToken, cx: &mut EngineCx<'_, Self>) {
        match token {
            VALIDATED => E::validated(self, cx),
            PUBLISH_NEXT => self.publish_next(cx),
            token if E::cell_timer(self, token, cx) => {}
            TimerToken(REPAIRED..) => self.rebuild((token.0 - REPAIRED) as u32, cx),
            token => self.engine.handle(Input::Timer(token), cx),
        }
    }

    fn frame(&mut self, peer: PeerId, frame: E::Frame, cx: &mut EngineCx<'_, Self>) {
        let frame = if self.spoofs { E::spoof(self, frame, cx) } else { frame };
        self.engine.handle(Input::Frame { peer, frame }, cx);
    }

    fn observe(&mut self, event: E::Event, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        let Some(event) = E::take_cells(self, event, cx) else { return };
        match E::arrival(event, self.processor.is_instant()) {
            Arrival::Own { key, topic, message } => {
                if let Some(segment) = self.shared.id_of(&topic, &message) {
                    self.segments.insert(key, segment);
                }
            }
            Arrival::First { key, topic, message, from, validate } => {
                if let Some(segment) = self.shared.id_of(&topic, &message) {
                    self.segments.insert(key, segment);
                    let first = self.hold(segment, cx);
                    cx.emit(Event::Copy { segment, from: neighbours.host(from), first });
                    E::whole_column(self, segment, from, cx);
                }
                if let Some(id) = validate {
                    self.processor.take(id, cx);
                }
            }
            Arrival::Again { key, from } => {
                if let Some(segment) = self.segments.get(&key) {
                    cx.emit(Event::Copy { segment: *segment, from: neighbours.host(from), first: false });
                }
            }
            Arrival::Lost => cx.emit(Event::Lost),
            Arrival::Other => {}
        }
    }

    fn report(&mut self, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        E::report_cells(self, neighbours, cx);
        self.reports.drain(..).for_each(|event| cx.emit(event));
    }
}
