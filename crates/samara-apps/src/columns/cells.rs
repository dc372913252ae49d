//! Nodes that exchange cells of columns: they have most blobs of a block from their mempools.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use samara_engine::outbox::Schedule;
use samara_engine::{Context, NodeRng, PeerId, Purpose, TimerToken, Topic, derive_seed};
use samara_gossipsub::partial::ethereum::{self, PART_BYTES, PartialColumns};
use samara_gossipsub::partial::{Bits, Content};
use samara_gossipsub::rpc::RpcFrame;
use samara_gossipsub::{Event as GossipEvent, GossipSub};
use samara_spec::columns::{Cells, Columns, PushedCells};

use super::{ColumnId, Event};
use crate::host::{AppCx, Neighbours, Work};

/// Fires when a node has looked up the blobs of a slot, whose number is added.
const LOOKED_UP: u64 = TimerToken::WRAPPER + (1 << 32);
/// Fires when whole columns have arrived that other nodes may want in cells.
const WHOLE: TimerToken = TimerToken(LOOKED_UP + (1 << 32));

/// The blobs and groups of a run, which all nodes share.
#[derive(Debug)]
pub struct CellPlan {
    cells: Cells,
    blobs: u32,
    seed: u64,
    /// The id of each slot's groups, and the blobs of the slot that no mempool has.
    slots: Vec<(Bytes, Bits)>,
    by_group: FxHashMap<Bytes, u32>,
    header: Bytes,
    /// Contents do not matter here: all cells share one.
    cell: Bytes,
}

impl CellPlan {
    /// Draws the blobs that no mempool has.
    pub fn new(workload: &Columns, seed: u64) -> Option<Self> {
        let cells = workload.cells.clone()?;
        let blobs = workload.blobs;
        let slot = |slot: u32| {
            let mut rng = NodeRng::new(seed, u64::MAX - 3 - u64::from(slot), Purpose::Workload);
            let mut root = [0; 32];
            root[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            let mut numbers: Vec<u32> = (0..blobs).collect();
            rng.shuffle(&mut numbers);
            let mut private = Bits::new(blobs);
            let count = cells.private_blobs(blobs) as usize;
            numbers.iter().take(count).for_each(|blob| private.insert(*blob));
            (PartialColumns::FULU.group(u64::from(slot), &root), private)
        };
        let slots: Vec<(Bytes, Bits)> = (0..workload.slots).map(slot).collect();
        let by_group = slots.iter().map(|(group, _)| group.clone()).zip(0..).collect();
        let (header, cell) = (ethereum::header(blobs), Bytes::from(vec![0; PART_BYTES]));
        Some(Self { cells, blobs, seed, slots, by_group, header, cell })
    }

    /// Returns the blobs of a slot that a host has in its mempool.
    fn mempool(&self, host: u32, slot: u32) -> Bits {
        let (_, private) = &self.slots[slot as usize];
        let chance = self.cells.chance_of_miss(self.blobs);
        let seed = derive_seed(self.seed, u64::from(host) << 32 | u64::from(slot), Purpose::Workload);
        let mut rng = NodeRng::new(seed, 0, Purpose::Workload);
        (0..self.blobs).filter(|blob| !rng.chance(chance) && !private.contains(*blob)).collect()
    }

    fn parts(&self, blobs: impl Iterator<Item = u32>) -> Vec<(u32, Bytes)> {
        blobs.map(|blob| (blob, self.cell.clone())).collect()
    }

    /// Returns the content of a column of which a node has these cells.
    fn content(&self, blobs: impl Iterator<Item = u32>, header: bool, push: Bits) -> Content {
        Content { header: header.then(|| self.header.clone()), parts: self.parts(blobs), push }
    }
}

/// Counts of cells, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Cells that the node lacked after it had looked up its mempool.
    pub missing: u64,
    /// Columns that the node completed from its mempool alone.
    pub local: u64,
}

/// A whole column that has arrived and of which the engine must be told, once its event is handled.
#[derive(Clone, Copy, Debug)]
struct Whole {
    column: ColumnId,
    from: PeerId,
}

/// What a node knows about the cells of blocks.
#[derive(Debug)]
pub(super) struct CellNode {
    plan: Arc<CellPlan>,
    host: u32,
    /// Arrived parts by ticket: their column, their sender, and whether a header came with them.
    arrived: FxHashMap<u64, (ColumnId, PeerId, bool)>,
    /// The slots whose blobs are looked up, with the sender of the header.
    headers: FxHashMap<u32, PeerId>,
    complete: FxHashSet<ColumnId>,
    whole: Vec<Whole>,
    /// Completed columns with the sender of the last cell, for the application's context.
    reports: Vec<(ColumnId, PeerId)>,
    counts: CellCounts,
}

type Node = super::Node<GossipSub>;
type EngineCx<'a> = Context<'a, RpcFrame, GossipEvent>;

impl Node {
    /// Lets the node exchange cells.
    pub fn exchange_cells(&mut self, plan: &Arc<CellPlan>, host: u32) {
        self.cells = Some(Box::new(CellNode {
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

    /// Publishes a slot: all cells to peers that want cells, and whole columns to the others. Returns
    /// false if the node does not exchange cells.
    pub(super) fn publish_cells(&mut self, slot: u32, schedule: &Schedule, cx: &mut EngineCx<'_>) -> bool {
        let Some(cells) = &mut self.cells else { return false };
        let plan = Arc::clone(&cells.plan);
        let (group, private) = &plan.slots[slot as usize];
        let push = match plan.cells.push {
            PushedCells::None => Bits::new(plan.blobs),
            PushedCells::Private => private.clone(),
            PushedCells::All => Bits::all(plan.blobs),
        };
        cells.headers.insert(slot, PeerId(0));
        cells.complete.extend(self.shared.of_slot(slot));
        for topic in &self.shared.topics {
            let content = plan.content(0..plan.blobs, true, push.clone());
            provide(&mut self.engine, topic, group, content, cx);
        }
        let message = |column: ColumnId| Arc::clone(&self.shared.messages[column as usize]);
        let columns = self.shared.of_slot(slot).map(message);
        self.engine.publish_message_batch(columns, schedule, cx);
        true
    }

    /// Handles the events of cells. Returns others.
    pub(super) fn take_cells(&mut self, event: GossipEvent, cx: &mut AppCx<'_, Self>) -> Option<GossipEvent> {
        let Some(cells) = &mut self.cells else { return Some(event) };
        match event {
            GossipEvent::Parts { ticket, topic, group, from, header, parts } => {
                let column = self.shared.index.get(&topic);
                if let (Some(slot), Some(column)) = (cells.plan.by_group.get(&group), column) {
                    let id = slot * self.shared.count() + column;
                    cells.arrived.insert(ticket, (id, from, header.is_some()));
                }
                let time = cells.plan.cells.cell_time.duration() * parts.len() as u32;
                self.processor.work(Work::Parts(ticket), time, cx);
                None
            }
            // The header tells which groups there are.
            GossipEvent::Group { .. } => None,
            event => Some(event),
        }
    }

    /// Acts on cells that have been verified.
    pub(super) fn verified_cells(&mut self, ticket: u64, cx: &mut EngineCx<'_>) {
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

    /// Notes a whole column that has arrived.
    pub(super) fn whole_column(&mut self, column: ColumnId, from: PeerId, cx: &mut AppCx<'_, Self>) {
        let Some(cells) = &mut self.cells else { return };
        cells.complete.insert(column);
        cells.whole.push(Whole { column, from });
        let now = cx.now();
        cx.set_timer(now, WHOLE);
    }

    /// Handles a timer. Returns false if it does not concern cells.
    pub(super) fn cell_timer(&mut self, token: TimerToken, cx: &mut EngineCx<'_>) -> bool {
        let Some(cells) = &mut self.cells else { return false };
        let plan = Arc::clone(&cells.plan);
        if token == WHOLE {
            for Whole { column, from } in std::mem::take(&mut cells.whole) {
                let (slot, segment) = (column / self.shared.count(), column % self.shared.count());
                let topic = &self.shared.topics[segment as usize];
                let content = plan.content(0..plan.blobs, true, Bits::default());
                provide(&mut self.engine, topic, &plan.slots[slot as usize].0, content, cx);
                self.look_up(slot, from, cx);
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
        for segment in self.joins.clone() {
            let column = slot * self.shared.count() + segment;
            let Some(cells) = self.cells.as_mut().filter(|cells| !cells.complete.contains(&column)) else {
                continue;
            };
            let (topic, group) = (&self.shared.topics[segment as usize], &plan.slots[slot as usize].0);
            let have = self.engine.parts(topic, group).unwrap_or_default();
            let had = have.iter().flatten().count();
            let content = plan.content(mempool.iter(), false, Bits::default());
            let missing = provide(&mut self.engine, topic, group, content, cx);
            cells.counts.missing += u64::from(missing) + had as u64;
            cells.counts.local += u64::from(missing == 0);
            self.complete(column, from, cx);
        }
        true
    }

    /// Reports a column whose cells are all there, and publishes it to peers that want whole columns.
    fn complete(&mut self, column: ColumnId, from: PeerId, cx: &mut EngineCx<'_>) {
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

    /// Emits the events of completed columns.
    pub(super) fn report_cells(&mut self, neighbours: &Neighbours, cx: &mut AppCx<'_, Self>) {
        let Some(cells) = &mut self.cells else { return };
        for (column, from) in cells.reports.drain(..) {
            cx.emit(Event::Copy { column, from: neighbours.host(from), first: true });
        }
    }

    /// Returns the counts of cells; zeros if the node does not exchange them.
    pub fn cell_counts(&self) -> CellCounts {
        self.cells.as_ref().map_or_else(CellCounts::default, |cells| cells.counts)
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
