//! Nodes that exchange cells of columns: they have most blobs of a block from their mempools.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use samara_engine::hostile::Misconduct;
use samara_engine::outbox::Schedule;
use samara_engine::units::Span;
use samara_engine::{Context, NodeRng, PeerId, Purpose, TimerToken, Topic, derive_seed};
use samara_gossipsub::partial::ethereum::{self, PART_BYTES, PartialColumns};
use samara_gossipsub::partial::{Bits, Content, Format};
use samara_gossipsub::rpc::{Message, Partial, Rpc, RpcFrame};
use samara_gossipsub::{Acceptance, Event as GossipEvent, GossipSub};
use samara_sim::{Items, Neighbours};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arrival, Blocks, Event, SegmentId, Spreading};
use samara_hosts::Worlds;
use samara_pubsub::frames::names;
use samara_pubsub::host::{AppCx, Host, Work};

/// Fires when a node has looked up the blobs of a slot, whose number is added.
const LOOKED_UP: u64 = TimerToken::WRAPPER + (1 << 32);
/// Fires when whole columns have arrived that other nodes may want in cells.
const WHOLE: TimerToken = TimerToken(LOOKED_UP + (1 << 32));

/// The cells that a publisher sends without being asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PushedCells {
    /// None: only the header.
    None,
    /// Those of blobs that no mempool has.
    #[default]
    Private,
    /// All cells.
    All,
}

/// How nodes exchange the cells of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellSettings {
    /// Number of blobs of a block.
    pub blobs: u32,
    /// Number of blocks.
    pub slots: u32,
    /// Number of blobs of a block that no mempool has.
    pub private_blobs: u32,
    /// The chance that a node lacks a blob that some mempools have.
    pub chance_of_miss: f64,
    /// The cells that a publisher sends unrequested.
    pub push: PushedCells,
    /// Time to look up the blobs of a block in the mempool.
    pub lookup_time: Span,
    /// Time to verify the proof of a cell.
    pub cell_time: Span,
}

/// The blobs and groups of a run, which all nodes share.
#[derive(Debug)]
pub struct CellPlan {
    cells: CellSettings,
    seed: u64,
    /// The id of each slot's groups, and the blobs of the slot that no mempool has.
    slots: Vec<(Bytes, Bits)>,
    by_group: FxHashMap<Bytes, u32>,
    header: Bytes,
    format: PartialColumns,
    /// The content of all cells.
    cell: Bytes,
}

/// Returns the format of groups. All genuine cells have one content.
pub fn cell_format() -> PartialColumns {
    PartialColumns { shared: Some(Bytes::from(vec![0; PART_BYTES])), ..PartialColumns::FULU }
}

impl CellPlan {
    /// Draws the blobs that no mempool has.
    pub fn new(cells: CellSettings, seed: u64) -> Option<Self> {
        let blobs = cells.blobs;
        let slot = |slot: u32| {
            let mut rng = NodeRng::new(seed, u64::MAX - 3 - u64::from(slot), Purpose::Workload);
            let mut root = [0; 32];
            root[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            let mut numbers: Vec<u32> = (0..blobs).collect();
            rng.shuffle(&mut numbers);
            let mut private = Bits::new(blobs);
            let count = cells.private_blobs as usize;
            numbers.iter().take(count).for_each(|blob| private.insert(*blob));
            (PartialColumns::FULU.group(u64::from(slot), &root), private)
        };
        let slots: Vec<(Bytes, Bits)> = (0..cells.slots).map(slot).collect();
        let by_group = slots.iter().map(|(group, _)| group.clone()).zip(0..).collect();
        let (header, format) = (ethereum::header(blobs), cell_format());
        let cell = format.shared.clone()?;
        Some(Self { cells, seed, slots, by_group, header, format, cell })
    }

    /// Returns the id of the groups of each slot.
    pub fn groups(&self) -> impl Iterator<Item = &Bytes> {
        self.slots.iter().map(|(group, _)| group)
    }

    /// Returns the blobs of a slot whose cells the publisher sends without being asked.
    pub fn pushed(&self, slot: u32) -> Bits {
        match self.cells.push {
            PushedCells::None => Bits::new(self.cells.blobs),
            PushedCells::Private => self.slots[slot as usize].1.clone(),
            PushedCells::All => Bits::all(self.cells.blobs),
        }
    }

    /// Returns the blobs of a slot that a host has in its mempool.
    pub fn mempool(&self, host: u32, slot: u32) -> Bits {
        let (_, private) = &self.slots[slot as usize];
        let chance = self.cells.chance_of_miss;
        let seed = derive_seed(self.seed, u64::from(host) << 32 | u64::from(slot), Purpose::Workload);
        let mut rng = NodeRng::new(seed, 0, Purpose::Workload);
        (0..self.cells.blobs).filter(|blob| !rng.chance(chance) && !private.contains(*blob)).collect()
    }

    /// Returns how nodes exchange the cells.
    pub const fn cells(&self) -> &CellSettings {
        &self.cells
    }

    /// Returns the number of blobs of a block.
    pub const fn blobs(&self) -> u32 {
        self.cells.blobs
    }

    fn parts(&self, blobs: impl Iterator<Item = u32>) -> Vec<(u32, Bytes)> {
        blobs.map(|blob| (blob, self.cell.clone())).collect()
    }

    /// Returns the content of a column of which a node has these cells.
    fn content(&self, blobs: impl Iterator<Item = u32>, header: bool, push: Bits) -> Content {
        Content { header: header.then(|| self.header.clone()), parts: self.parts(blobs), push }
    }
}

/// Returns the number of a cell among the items of frames. The low half is that of its column.
pub fn cell_item(column: SegmentId, blob: u32) -> u64 {
    u64::from(blob + 1) << 32 | u64::from(column)
}

/// Returns the number of a block's header among the items of frames. `first` is its first column.
pub fn header_item(first: SegmentId) -> u64 {
    1 << 63 | u64::from(first)
}

/// Counts of cells, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CellCounts {
    /// Cells that the node lacked after it had looked up its mempool.
    pub missing: u64,
    /// Columns that the node completed from its mempool alone.
    pub local: u64,
}

/// The state of a node about the cells of blocks.
#[derive(Debug)]
pub(super) struct CellNode {
    plan: Arc<CellPlan>,
    host: u32,
    /// Arrived parts by ticket: their column, their sender, and whether a header came with them.
    arrived: FxHashMap<u64, (SegmentId, PeerId, bool)>,
    /// The slots whose blobs are looked up, with the sender of the header.
    headers: FxHashMap<u32, PeerId>,
    complete: FxHashSet<SegmentId>,
    /// Whole columns that have arrived. The engine learns of them once their event is handled.
    whole: Vec<(SegmentId, PeerId)>,
    /// Completed columns with the sender of the last cell, for the application's context.
    reports: Vec<(SegmentId, PeerId)>,
    counts: CellCounts,
}

type Node = super::Node<GossipSub>;
type EngineCx<'a> = Context<'a, RpcFrame, GossipEvent>;

impl Spreading for GossipSub {
    type Message = Message;

    fn join(&mut self, topic: &Topic, cx: &mut EngineCx<'_>) {
        self.subscribe(topic, cx);
    }

    fn publish_one(&mut self, message: Arc<Message>, cx: &mut EngineCx<'_>) {
        let _ = self.publish_message(message, cx);
    }

    fn publish_all(&mut self, messages: Vec<Arc<Message>>, schedule: &Schedule, cx: &mut EngineCx<'_>) {
        self.publish_message_batch(messages, schedule, cx);
    }

    fn targets(&self, topic: &Topic) -> usize {
        self.mesh_peers(topic).len()
    }

    fn validated(node: &mut Node, cx: &mut EngineCx<'_>) {
        if let Some(ticket) = node.processor.done(&mut node.engine, cx) {
            node.verified_cells(ticket, cx);
        }
    }

    fn forge(what: Misconduct, frame: &RpcFrame, rng: &mut NodeRng) -> Option<RpcFrame> {
        // With `Claim`, the node claims to have all cells and sends none; with `Invent`, the block does
        // not exist.
        let Some(partial) = &frame.rpc().partial else {
            return (what == Misconduct::Claim).then(|| frame.clone());
        };
        let format = PartialColumns::FULU;
        let mut metadata = format.read_metadata(partial.metadata.as_ref()?).ok()?;
        metadata.available = Bits::all(metadata.available.len());
        let group = match what {
            Misconduct::Invent => {
                let mut root = [0; 32];
                root[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
                format.group(0, &root)
            }
            _ => partial.group.clone(),
        };
        let metadata = Some(format.write_metadata(&metadata));
        let forged = Partial { topic: partial.topic.clone(), group, body: None, metadata };
        Some(RpcFrame::new(Rpc { partial: Some(Box::new(forged)), ..Rpc::default() }))
    }

    fn spoof(node: &Node, frame: RpcFrame, cx: &mut EngineCx<'_>) -> RpcFrame {
        super::spoof::claim(&node.engine, frame, cx)
    }

    fn names(frame: &RpcFrame) -> [Items; 2] {
        names(frame)
    }

    fn cell_items(frame: &RpcFrame, blocks: &Blocks, plan: &CellPlan) -> [Items; 2] {
        let Some(partial) = frame.rpc().partial.as_ref() else { return Default::default() };
        let column = plan.by_group.get(&partial.group).zip(blocks.index.get(&partial.topic));
        let Some((slot, column)) = column else { return Default::default() };
        let (format, first) = (&plan.format, slot * blocks.count());
        let cell = |blob| cell_item(first + column, blob);
        let items = || {
            let body = format.read_body(&partial.group, partial.body.as_ref()?).ok()?;
            let header = body.header.map(|_| header_item(first));
            Some(header.into_iter().chain(body.parts.iter().map(|(blob, _)| cell(*blob))).collect())
        };
        let asked = || {
            let metadata = format.read_metadata(partial.metadata.as_ref()?).ok()?;
            Some(metadata.requests.iter().map(cell).collect())
        };
        [items().unwrap_or_default(), asked().unwrap_or_default()]
    }

    fn exchange_cells(node: &mut Node, plan: &Arc<CellPlan>, host: u32) {
        node.cells = Some(Box::new(CellNode {
            plan: Arc::clone(plan),
            host,
            arrived: FxHashMap::default(),
            headers: FxHashMap::default(),
            complete: FxHashSet::default(),
            whole: Vec::new(),
            reports: Vec::new(),
            counts: CellCounts::default(),
        }));
    }

    fn publish_cells(node: &mut Node, slot: u32, schedule: &Schedule, cx: &mut EngineCx<'_>) -> bool {
        let Some(cells) = &mut node.cells else { return false };
        let plan = Arc::clone(&cells.plan);
        let (group, _) = &plan.slots[slot as usize];
        let push = plan.pushed(slot);
        cells.headers.insert(slot, PeerId(0));
        cells.complete.extend(node.shared.of_slot(slot));
        for topic in &node.shared.topics {
            let content = plan.content(0..plan.cells.blobs, true, push.clone());
            provide(&mut node.engine, topic, group, content, cx);
        }
        let message = |column: SegmentId| Arc::clone(&node.shared.messages[column as usize]);
        let columns = node.shared.of_slot(slot).map(message);
        node.engine.publish_message_batch(columns, schedule, cx);
        true
    }

    fn take_cells(node: &mut Node, event: GossipEvent, cx: &mut AppCx<'_, Node>) -> Option<GossipEvent> {
        let Some(cells) = &mut node.cells else { return Some(event) };
        match event {
            GossipEvent::Parts { ticket, topic, group, from, header, parts } => {
                let (plan, column) = (&cells.plan, node.shared.index.get(&topic));
                let slot = plan.by_group.get(&group);
                let is_genuine = slot.is_some()
                    && header.as_ref().is_none_or(|header| *header == plan.header)
                    && parts.iter().all(|(_, cell)| *cell == plan.cell);
                if let (Some(slot), Some(column), true) = (slot, column, is_genuine) {
                    let id = slot * node.shared.count() + column;
                    cells.arrived.insert(ticket, (id, from, header.is_some()));
                }
                let time = plan.cells.cell_time.duration() * parts.len() as u32;
                let verdict = if is_genuine { Acceptance::Accept } else { Acceptance::Reject };
                node.processor.work(Work::Parts(ticket, verdict), time, cx);
                None
            }
            // The header tells which groups there are.
            GossipEvent::Group { .. } => None,
            event => Some(event),
        }
    }

    fn whole_column(node: &mut Node, column: SegmentId, from: PeerId, cx: &mut AppCx<'_, Node>) {
        let Some(cells) = &mut node.cells else { return };
        cells.complete.insert(column);
        cells.whole.push((column, from));
        let now = cx.now();
        cx.set_timer(now, WHOLE);
    }

    fn cell_timer(node: &mut Node, token: TimerToken, cx: &mut EngineCx<'_>) -> bool {
        let Some(cells) = &mut node.cells else { return false };
        let plan = Arc::clone(&cells.plan);
        if token == WHOLE {
            for (column, from) in std::mem::take(&mut cells.whole) {
                let (slot, segment) = (column / node.shared.count(), column % node.shared.count());
                let topic = &node.shared.topics[segment as usize];
                let content = plan.content(0..plan.cells.blobs, true, Bits::default());
                provide(&mut node.engine, topic, &plan.slots[slot as usize].0, content, cx);
                node.look_up(slot, from, cx);
            }
            return true;
        }
        let Some(slot) = token.0.checked_sub(LOOKED_UP).filter(|slot| (*slot as usize) < plan.slots.len())
        else {
            return false;
        };
        let slot = slot as u32;
        let mempool = plan.mempool(cells.host, slot);
        let from = cells.headers.get(&slot).copied().unwrap_or(PeerId(0));
        for segment in node.joins.clone() {
            let column = slot * node.shared.count() + segment;
            let Some(cells) = node.cells.as_mut().filter(|cells| !cells.complete.contains(&column)) else {
                continue;
            };
            let (topic, group) = (&node.shared.topics[segment as usize], &plan.slots[slot as usize].0);
            let have = node.engine.parts(topic, group).unwrap_or_default();
            let had = have.iter().flatten().count();
            let content = plan.content(mempool.iter(), false, Bits::default());
            let missing = provide(&mut node.engine, topic, group, content, cx);
            cells.counts.missing += u64::from(missing) + had as u64;
            cells.counts.local += u64::from(missing == 0);
            node.complete(column, from, cx);
        }
        true
    }

    fn report_cells(node: &mut Node, neighbours: &Neighbours, cx: &mut AppCx<'_, Node>) {
        let Some(cells) = &mut node.cells else { return };
        for (column, from) in cells.reports.drain(..) {
            cx.emit(Event::Copy { segment: column, from: neighbours.host(from), first: true });
        }
    }

    fn cell_counts(node: &Node) -> [u64; 5] {
        let counts = node.cells.as_ref().map_or_else(CellCounts::default, |cells| cells.counts);
        let engine = node.engine.metrics();
        [
            counts.missing,
            counts.local,
            engine.parts_received,
            engine.headers_received,
            engine.parts_metadata_received,
        ]
    }

    fn offences(&self) -> [u64; 2] {
        let metrics = self.metrics();
        [metrics.kept_unwanted_copies, metrics.misbehaviours]
    }

    fn arrival(event: GossipEvent, is_instant: bool) -> Arrival<Message> {
        match event {
            GossipEvent::Message { key, topic, message, from: None, .. } => {
                Arrival::Own { key, topic, message }
            }
            // Otherwise its validation was reported before.
            GossipEvent::Message { key, topic, message, from: Some(from), .. } if is_instant => {
                Arrival::First { key, topic, message, from, validate: None }
            }
            GossipEvent::NeedsValidation { id, key, topic, message, from } => {
                Arrival::First { key, topic, message, from, validate: Some(id) }
            }
            GossipEvent::Duplicate { key, from } => Arrival::Again { key, from },
            GossipEvent::Lost(_) => Arrival::Lost,
            _ => Arrival::Other,
        }
    }

    fn worlds() -> Worlds<Host<Node>> {
        Worlds::libp2p()
    }
}

impl Node {
    /// Acts on cells that have been verified.
    fn verified_cells(&mut self, ticket: u64, cx: &mut EngineCx<'_>) {
        let Some(cells) = &mut self.cells else { return };
        let Some((column, from, header)) = cells.arrived.remove(&ticket) else { return };
        if header {
            self.look_up(column / self.shared.count(), from, cx);
        }
        self.complete(column, from, cx);
    }

    /// Looks up the blobs of a slot in the mempool, once.
    fn look_up(&mut self, slot: u32, from: PeerId, cx: &mut EngineCx<'_>) {
        let Some(cells) = &mut self.cells else { return };
        if cells.headers.insert(slot, from).is_none() {
            let at = cx.now() + cells.plan.cells.lookup_time.duration();
            cx.set_timer(at, TimerToken(LOOKED_UP + u64::from(slot)));
        }
    }

    /// Reports a column whose cells are all there, and publishes it to peers that want whole columns.
    fn complete(&mut self, column: SegmentId, from: PeerId, cx: &mut EngineCx<'_>) {
        let Some(cells) = &mut self.cells else { return };
        let (slot, segment) = (column / self.shared.count(), column % self.shared.count());
        let topic = &self.shared.topics[segment as usize];
        let parts = self.engine.parts(topic, &cells.plan.slots[slot as usize].0).unwrap_or_default();
        let is_complete = !parts.is_empty() && parts.iter().all(Option::is_some);
        if is_complete && cells.complete.insert(column) {
            cells.reports.push((column, from));
            let message = Arc::clone(&self.shared.messages[column as usize]);
            let _ = self.engine.publish_message(message, cx);
        }
    }
}

/// Provides cells. Returns the number of missing ones.
fn provide(
    engine: &mut GossipSub,
    topic: &Topic,
    group: &Bytes,
    content: Content,
    cx: &mut EngineCx<'_>,
) -> u32 {
    match engine.provide(topic, group, content, cx) {
        Ok(missing) => missing,
        Err(error) => unreachable!("the plan has groups and parts of the format: {error}"),
    }
}
