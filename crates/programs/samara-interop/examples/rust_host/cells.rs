//! The cells of columns: their verification, the mempool, and complete columns.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use libp2p::PeerId;
use libp2p::gossipsub::TopicHash;
use samara_gossipsub::partial::ethereum::{self, BLOBS_MAX, PartialColumns};
use samara_gossipsub::partial::{Bits, Format};
use samara_gossipsub::rpc::Topic;

use crate::contents::Contents;
use crate::metadata::{CELL, Shared, Snapshot};
use crate::orders::{BlockBrief, CellsBrief};

/// Maximum number of bodies that await their verification, as in Samara's own hosts.
const DUE_MAX: usize = 4_096;

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Cells that the mempools lacked, and columns that they completed.
    pub(crate) missing: u64,
    pub(crate) local: u64,
    /// The received cells.
    pub(crate) parts: u64,
    pub(crate) headers: u64,
    pub(crate) metadata: u64,
    /// Bytes of bodies.
    pub(crate) received_bytes: u64,
}

/// A block, in all columns.
struct Block {
    group: Bytes,
    mempool: Bits,
    push: Bits,
    /// Whether the header awaits its verification or has passed it.
    has_header: bool,
    is_known: bool,
    shared: Arc<Shared>,
}

impl Block {
    fn new(brief: &BlockBrief, blobs: u32) -> Result<Self, String> {
        let group = STANDARD.decode(&brief.group).map_err(|error| format!("group: {error}"))?;
        // The topic is no matter.
        let checked = PartialColumns::FULU.check_group(&Topic::new(""), &group);
        checked.map_err(|error| format!("group: {error}"))?;
        if let Some(blob) = brief.mempool.iter().chain(&brief.push).find(|blob| **blob >= blobs) {
            return Err(format!("found blob {blob}, expected numbers below {blobs}"));
        }
        Ok(Self {
            group: group.into(),
            mempool: brief.mempool.iter().copied().collect(),
            push: brief.push.iter().copied().collect(),
            has_header: false,
            is_known: false,
            shared: Arc::default(),
        })
    }
}

struct Column {
    have: Bits,
    checking: Bits,
    /// Whether the mempool was looked up, after which the host wants all other cells.
    is_wanted: bool,
    is_complete: bool,
}

enum Due {
    Verified { column: u32, from: PeerId, has_header: bool, cells: Bits },
    LookedUp { slot: u32, from: PeerId },
}

/// The work that must follow a change.
pub(crate) struct Changes {
    /// Columns whose cells or requests have changed.
    pub(crate) columns: Vec<u32>,
    /// The sender of what has changed them.
    pub(crate) from: PeerId,
    /// The slot whose header was verified: peers may lack it.
    pub(crate) header: Option<u32>,
}

pub(crate) struct Cells {
    contents: Rc<Contents>,
    blobs: u32,
    /// The header of all blocks.
    header: Bytes,
    format: PartialColumns,
    lookup_time: Duration,
    cell_time: Duration,
    segments: HashMap<TopicHash, u32>,
    slots: HashMap<Bytes, u32>,
    blocks: Vec<Block>,
    columns: HashMap<u32, Column>,
    /// The end of all verifications so far: one follows the other.
    busy_until: Instant,
    due: BTreeMap<(Instant, u64), Due>,
    next: u64,
    pub(crate) counts: Counts,
}

impl Cells {
    pub(crate) fn new(brief: &CellsBrief, contents: &Rc<Contents>) -> Result<Self, String> {
        let blobs = brief.blobs;
        if !(1..=BLOBS_MAX).contains(&blobs) {
            return Err(format!("cells.blobs: found {blobs}, expected 1 to {BLOBS_MAX}"));
        }
        if brief.blocks.len() != contents.slots as usize {
            let (found, slots) = (brief.blocks.len(), contents.slots);
            return Err(format!("cells.blocks: found {found}, expected those of {slots} slots"));
        }
        let block =
            |(slot, block)| Block::new(block, blobs).map_err(|error| format!("cells.blocks.{slot}: {error}"));
        let blocks = (0_u32..).zip(&brief.blocks).map(block).collect::<Result<Vec<Block>, String>>()?;
        Ok(Self {
            contents: Rc::clone(contents),
            blobs,
            header: ethereum::header(blobs),
            format: PartialColumns { shared: Some(Bytes::from_static(&CELL)), ..PartialColumns::FULU },
            lookup_time: brief.lookup_time.duration(),
            cell_time: brief.cell_time.duration(),
            segments: contents.topics.iter().cloned().zip(0..).collect(),
            slots: blocks.iter().map(|block| block.group.clone()).zip(0..).collect(),
            blocks,
            columns: HashMap::new(),
            busy_until: Instant::now(),
            due: BTreeMap::new(),
            next: 0,
            counts: Counts::default(),
        })
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn add(&mut self, at: Instant, due: Due) {
        self.due.insert((at, self.next), due);
        self.next += 1;
    }

    /// Returns the columns of a slot whose topics the host joins.
    fn joined(&self, slot: u32) -> Vec<u32> {
        self.contents.joins.iter().map(|segment| slot * self.contents.count() + segment).collect()
    }

    fn block(&mut self, column: u32) -> &mut Block {
        &mut self.blocks[(column / self.contents.count()) as usize]
    }

    fn column(&mut self, column: u32) -> &mut Column {
        let new = || Column {
            have: Bits::new(self.blobs),
            checking: Bits::new(self.blobs),
            is_wanted: false,
            is_complete: false,
        };
        self.columns.entry(column).or_insert_with(new)
    }

    /// Returns the column of a topic and a group, if the host exchanges its cells.
    fn known(&self, topic: &TopicHash, group: &Bytes) -> Option<u32> {
        let (segment, slot) = (*self.segments.get(topic)?, *self.slots.get(group)?);
        let column = slot * self.contents.count() + segment;
        // A publisher need not have joined.
        (self.contents.joins.contains(&segment) || self.columns.contains_key(&column)).then_some(column)
    }

    /// Takes a frame. Returns an error if the peer sent something invalid.
    pub(crate) fn receive(
        &mut self,
        from: PeerId,
        (topic, group): (&TopicHash, Bytes),
        body: Option<Vec<u8>>,
        has_metadata: bool,
    ) -> Result<(), String> {
        self.counts.metadata += u64::from(has_metadata);
        let Some(column) = self.known(topic, &group) else { return Ok(()) };
        self.block(column).shared.note(from);
        let Some(body) = body.map(Bytes::from) else { return Ok(()) };
        self.counts.received_bytes += body.len() as u64;
        let body = self.format.read_body(&group, &body).map_err(|error| error.to_string())?;
        self.counts.parts += body.parts.len() as u64;
        self.counts.headers += u64::from(body.header.is_some());
        if body.len != Some(self.blobs) || body.header.as_ref().is_some_and(|header| *header != self.header) {
            return Err("found another header or length, expected those of the block".to_owned());
        }
        if body.parts.iter().any(|(_, cell)| *cell != CELL[..]) {
            return Err("found cells with other contents, expected those of the block".to_owned());
        }
        let is_full = self.due.len() >= DUE_MAX;
        let block = self.block(column);
        let has_header = body.header.is_some() && !block.has_header;
        // Deployed clients drop cells without commitments, which nobody can verify.
        if !block.has_header && !has_header || is_full {
            return Ok(());
        }
        block.has_header = true;
        let state = self.column(column);
        let arrived: Bits = body.parts.iter().map(|(part, _)| *part).collect();
        let cells = arrived.without(&state.have).without(&state.checking);
        state.checking.add(&cells);
        if has_header || !cells.is_empty() {
            self.busy_until = self.busy_until.max(Instant::now()) + self.cell_time * cells.count();
            self.add(self.busy_until, Due::Verified { column, from, has_header, cells });
        }
        Ok(())
    }

    /// Takes a whole column that has arrived as a message.
    pub(crate) fn whole(&mut self, column: u32, from: PeerId) -> Changes {
        let block = self.block(column);
        block.is_known = true;
        let is_first = !std::mem::replace(&mut block.has_header, true);
        self.fill(column);
        let slot = column / self.contents.count();
        if is_first {
            self.add(Instant::now() + self.lookup_time, Due::LookedUp { slot, from });
        }
        Changes { columns: vec![column], from, header: is_first.then_some(slot) }
    }

    /// Takes the block that the host publishes. Returns its columns.
    pub(crate) fn publish(&mut self, slot: u32) -> Vec<u32> {
        let count = self.contents.count();
        let block = &mut self.blocks[slot as usize];
        (block.has_header, block.is_known) = (true, true);
        let columns: Vec<u32> = (slot * count..(slot + 1) * count).collect();
        columns.iter().for_each(|column| self.fill(*column));
        columns
    }

    /// Says that the cells which leave now are those of a publisher.
    pub(crate) fn set_publishing(&self, slot: u32, is_publishing: bool) {
        self.blocks[slot as usize].shared.set_publishing(is_publishing);
    }

    fn fill(&mut self, column: u32) {
        let all = Bits::all(self.blobs);
        let column = self.column(column);
        (column.have, column.is_wanted, column.is_complete) = (all, true, true);
    }

    /// Handles the next end of a verification or a look-up, if its time has come.
    pub(crate) fn due(&mut self) -> Option<Changes> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= Instant::now())?;
        match first.remove() {
            Due::Verified { column, from, has_header, cells } => {
                self.block(column).is_known = true;
                let state = self.column(column);
                state.checking = state.checking.without(&cells);
                state.have.add(&cells);
                let slot = column / self.contents.count();
                if has_header {
                    self.add(Instant::now() + self.lookup_time, Due::LookedUp { slot, from });
                }
                Some(Changes { columns: vec![column], from, header: has_header.then_some(slot) })
            }
            Due::LookedUp { slot, from } => {
                self.look_up(slot);
                Some(Changes { columns: self.joined(slot), from, header: None })
            }
        }
    }

    /// Adds the cells of the mempool to all columns of a block.
    fn look_up(&mut self, slot: u32) {
        let mempool = self.blocks[slot as usize].mempool.clone();
        for number in self.joined(slot) {
            let blobs = self.blobs;
            let column = self.column(number);
            if column.is_complete {
                continue;
            }
            let had = column.have.count();
            column.is_wanted = true;
            column.have.add(&mempool);
            let missing = blobs - column.have.count();
            self.counts.missing += u64::from(missing + had);
            self.counts.local += u64::from(missing == 0);
        }
    }

    /// Returns true unless all of these peers have the header of a block.
    pub(crate) fn lacks_header<'a>(&self, slot: u32, mut peers: impl Iterator<Item = &'a PeerId>) -> bool {
        peers.any(|peer| !self.blocks[slot as usize].shared.is_holder(peer))
    }

    /// Returns a column as the library sends it, if its header is known.
    pub(crate) fn snapshot(&mut self, column: u32) -> Option<Snapshot> {
        let (blobs, header) = (self.blobs, self.header.clone());
        let state = self.column(column);
        let available = state.have.clone();
        let requests = if state.is_wanted { Bits::all(blobs).without(&available) } else { Bits::new(blobs) };
        let block = self.block(column);
        let (group, push, shared) = (block.group.clone(), block.push.clone(), Arc::clone(&block.shared));
        block.is_known.then_some(Snapshot { group, header, available, requests, push, shared })
    }

    /// Returns true once, as soon as all cells of a column are there.
    pub(crate) fn complete(&mut self, column: u32) -> bool {
        let blobs = self.blobs;
        let column = self.column(column);
        let is_complete = column.have.count() == blobs;
        is_complete && !std::mem::replace(&mut column.is_complete, true)
    }
}
