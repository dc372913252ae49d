//! Publication of a block's columns over GossipSub: one publisher, and nodes that each keep some of the columns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use samara_engine::{
    Context, Engine, Input, MessageKey, NodeRng, PeerId, PeerIdentity, Purpose, Time, TimerToken,
};
use samara_gossipsub::message_id::MessageIdFn;
use samara_gossipsub::rpc::{Message, MessageId, RpcFrame, Topic};
use samara_gossipsub::{Acceptance, Event, GossipSub};

use crate::run::schedule;
use crate::scenario::Schedule;

/// The end of a validation; tokens of wrappers are out of the engine's range.
const VALIDATED: TimerToken = TimerToken(TimerToken::WRAPPER);

/// Which column of which slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRef {
    /// The publication, counted from 0.
    pub slot: u16,
    /// The column.
    pub column: u16,
}

/// The topics and the messages of all slots, shared by all nodes.
#[derive(Debug)]
pub struct Blocks {
    topics: Vec<Topic>,
    /// By slot and column.
    messages: Vec<Vec<Arc<Message>>>,
    by_id: FxHashMap<MessageId, ColumnRef>,
}

impl Blocks {
    /// Blocks of random bytes from the seed.
    pub fn new(seed: u64, columns: u16, column_bytes: usize, slots: u16, id: &MessageIdFn) -> Self {
        let topics: Vec<Topic> = (0..columns)
            .map(|column| Topic::new(&format!("/eth2/00000000/data_column_sidecar_{column}/ssz_snappy")))
            .collect();
        let mut by_id = FxHashMap::default();
        let mut messages = Vec::new();
        for slot in 0..slots {
            let mut rng = NodeRng::new(seed, u64::from(slot), Purpose::Workload);
            let mut block = Vec::new();
            for column in 0..columns {
                let message =
                    Message::new(topics[usize::from(column)].clone(), random(&mut rng, column_bytes));
                by_id.insert(id.id(&message), ColumnRef { slot, column });
                block.push(Arc::new(message));
            }
            messages.push(block);
        }
        Self { topics, messages, by_id }
    }

    /// One message, for its size.
    pub fn sample(&self) -> Option<&Arc<Message>> {
        self.messages.first()?.first()
    }
}

fn random(rng: &mut NodeRng, len: usize) -> Bytes {
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    data.truncate(len);
    data.into()
}

/// What a node does.
#[derive(Clone, Debug)]
pub struct Role {
    /// The columns that it joins the topics of.
    pub joins: Vec<u16>,
    /// Time that a validation takes, one at a time; 0 validates at once.
    pub validation: Duration,
    /// Publishing nodes: in which order copies leave; `None` publishes the columns one after the other, by the
    /// engine's own order.
    pub batch: Option<Schedule>,
    /// Publishing nodes: the trusted observer, if there is one.
    pub observer: Option<PeerIdentity>,
}

/// The moment at which topics are joined: just after the start, when links that are there from the start are up. All of
/// them are then told by one frame, instead of by one each.
const JOIN: TimerToken = TimerToken(TimerToken::WRAPPER + 1);
const JOIN_AFTER: Duration = Duration::from_micros(1);

/// What the lab asks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnsCommand {
    /// Publish all columns of this slot.
    Publish {
        /// The slot, counted from 0.
        slot: u16,
    },
}

/// What a node tells the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnsEvent {
    /// It has a column now.
    Delivered {
        /// Which.
        column: ColumnRef,
        /// The host that sent the first copy; `None` for one's own.
        from: Option<u32>,
    },
    /// It received a copy of a column, the first one or another.
    Copy {
        /// Which.
        column: ColumnRef,
    },
    /// A column could not be published.
    NotPublished {
        /// Which.
        column: ColumnRef,
    },
}

/// A node of the job: a [`GossipSub`] router and the application on top of it.
#[derive(Debug)]
pub struct ColumnsNode {
    router: GossipSub,
    blocks: Arc<Blocks>,
    role: Role,
    /// By peer: its host.
    hosts: Vec<u32>,
    /// The columns behind the router's numbers, as long as copies may come.
    known: FxHashMap<MessageKey, ColumnRef>,
    /// Messages that wait for the end of their validation, first come, first served.
    validating: VecDeque<MessageId>,
    /// When the last of them will be done.
    busy_until: Time,
    events: Vec<Event>,
}

impl ColumnsNode {
    /// A node with this router.
    pub fn new(router: GossipSub, blocks: Arc<Blocks>, role: Role) -> Self {
        Self {
            router,
            blocks,
            role,
            hosts: Vec::new(),
            known: FxHashMap::default(),
            validating: VecDeque::new(),
            busy_until: Time::ZERO,
            events: Vec::new(),
        }
    }

    /// The router.
    pub fn router(&self) -> &GossipSub {
        &self.router
    }

    fn publish(&mut self, slot: u16, cx: &mut Context<'_, RpcFrame, Event>) -> Vec<u16> {
        let messages = self.blocks.messages[usize::from(slot)].iter().cloned();
        let results = match &self.role.batch {
            Some(batch) => {
                let observer = self.role.observer.as_ref().and_then(|name| self.router.peer_of(name));
                self.router.publish_message_batch(messages, &schedule(batch, observer), cx).messages
            }
            None => messages.map(|message| self.router.publish_message(message, cx)).collect(),
        };
        let failed = results.iter().enumerate().filter(|(_, result)| result.is_err());
        failed.map(|(column, _)| column as u16).collect()
    }

    fn note_peer(&mut self, peer: PeerId, identity: &PeerIdentity) {
        if self.hosts.len() <= peer.index() {
            self.hosts.resize(peer.index() + 1, u32::MAX);
        }
        self.hosts[peer.index()] = samara_sim::host_of(identity).unwrap_or(u32::MAX);
    }

    /// Puts a message at the end of the line for validation.
    fn validate(&mut self, id: MessageId, cx: &mut Context<'_, RpcFrame, ColumnsEvent>) {
        self.busy_until = self.busy_until.max(cx.now()) + self.role.validation;
        self.validating.push_back(id);
        cx.set_timer(self.busy_until, VALIDATED);
    }

    /// Tells the lab what the router said, and lets messages be validated.
    fn digest_events(&mut self, cx: &mut Context<'_, RpcFrame, ColumnsEvent>) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Message { id, key, from, .. } => {
                    let Some(column) = self.blocks.by_id.get(&id).copied() else { continue };
                    // What was validated has been noted on arrival.
                    if self.known.insert(key, column).is_none() && from.is_some() {
                        cx.emit(ColumnsEvent::Copy { column });
                    }
                    let from = from.map(|peer| self.hosts[peer.index()]);
                    cx.emit(ColumnsEvent::Delivered { column, from });
                }
                Event::NeedsValidation { id, key, .. } => {
                    if let Some(column) = self.blocks.by_id.get(&id).copied() {
                        self.known.insert(key, column);
                        cx.emit(ColumnsEvent::Copy { column });
                    }
                    self.validate(id, cx);
                }
                Event::Duplicate { key, .. } => {
                    if let Some(column) = self.known.get(&key).copied() {
                        cx.emit(ColumnsEvent::Copy { column });
                    }
                }
                _ => {}
            }
        }
        self.events = events;
    }
}

impl Engine for ColumnsNode {
    type Frame = RpcFrame;
    type Command = ColumnsCommand;
    type Event = ColumnsEvent;

    fn handle(
        &mut self,
        input: Input<RpcFrame, ColumnsCommand>,
        cx: &mut Context<'_, RpcFrame, ColumnsEvent>,
    ) {
        let mut events = std::mem::take(&mut self.events);
        let mut failed = None;
        {
            let cx = &mut cx.nested(&mut events);
            match input {
                Input::Start => {
                    self.router.handle(Input::Start, cx);
                    cx.set_timer(cx.now() + JOIN_AFTER, JOIN);
                }
                Input::Timer(JOIN) => {
                    let name = |column: &u16| self.blocks.topics[usize::from(*column)].clone();
                    let topics: Vec<Topic> = self.role.joins.iter().map(name).collect();
                    self.router.subscribe_all(&topics, cx);
                }
                Input::Timer(VALIDATED) => {
                    if let Some(id) = self.validating.pop_front() {
                        self.router.report_validation(&id, Acceptance::Accept, cx);
                    }
                }
                Input::Command(ColumnsCommand::Publish { slot }) => {
                    failed = Some((slot, self.publish(slot, cx)));
                }
                Input::LinkUp { peer, info } => {
                    self.note_peer(peer, &info.identity);
                    self.router.handle(Input::LinkUp { peer, info }, cx);
                }
                Input::LinkDown { peer } => self.router.handle(Input::LinkDown { peer }, cx),
                Input::DialFailed { identity } => self.router.handle(Input::DialFailed { identity }, cx),
                Input::Frame { peer, frame } => self.router.handle(Input::Frame { peer, frame }, cx),
                Input::Timer(token) => self.router.handle(Input::Timer(token), cx),
            }
        }
        self.events = events;
        self.digest_events(cx);
        if let Some((slot, columns)) = failed {
            columns.into_iter().for_each(|column| {
                cx.emit(ColumnsEvent::NotPublished { column: ColumnRef { slot, column } });
            });
        }
    }
}
