//! The cells of columns: their verification, the mempool, and complete columns.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use libp2p::PeerId;
use libp2p::gossipsub::TopicHash;
use samara_gossipsub::partial::ethereum::{self, PartialColumns};
use samara_gossipsub::partial::{Bits, Format};
use samara_gossipsub::rpc::Topic;
use samara_node::blocks::{column_of, parts, sidecar};
use samara_node::config::CheckedCells;

use crate::metadata::{Shared, Snapshot};

/// Maximum number of bodies that await their verification, as in samara's own node.
const DUE_MAX: usize = 4_096;

/// A column of a block: the topic, and the id of the group.
pub(crate) type Key = (TopicHash, Bytes);

/// Counts for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) parts: u64,
    pub(crate) headers: u64,
    pub(crate) metadata: u64,
    pub(crate) missing: u64,
    pub(crate) local: u64,
    /// Bytes of received bodies.
    pub(crate) received_bytes: u64,
    /// Bodies without effect: malformed, before their header, or without room for them.
    pub(crate) ignored: u64,
}

/// A block, in all columns.
struct Block {
    blobs: u32,
    mempool: Bits,
    header: Bytes,
    /// Whether the header awaits its verification or has passed it.
    has_header: bool,
    is_known: bool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Column {
    parts: BTreeMap<u32, Bytes>,
    checking: Bits,
    /// Whether the mempool was looked up, after which the node wants all other cells.
    is_wanted: bool,
    is_published: bool,
}

enum Due {
    Verified { key: Key, has_header: bool, parts: Vec<(u32, Bytes)> },
    LookedUp(Bytes),
}

/// What must follow a change.
#[derive(Default)]
pub(crate) struct Changes {
    /// Columns whose cells or requests have changed.
    pub(crate) columns: Vec<Key>,
    /// The block whose header was verified: peers may lack it.
    pub(crate) header: Option<Bytes>,
}

pub(crate) struct Cells {
    lookup_time: Duration,
    cell_time: Duration,
    /// The subscribed topics of columns.
    pub(crate) topics: Vec<TopicHash>,
    blocks: HashMap<Bytes, Block>,
    columns: HashMap<Key, Column>,
    /// The end of all verifications so far: one follows the other.
    busy_until: Instant,
    due: BTreeMap<(Instant, u64), Due>,
    next: u64,
    pub(crate) counts: Counts,
}

impl Cells {
    pub(crate) fn new(config: &CheckedCells, topics: &[Topic]) -> Self {
        let block = |(group, (blobs, mempool)): (&Bytes, &(u32, Bits))| {
            let (blobs, mempool, header) = (*blobs, mempool.clone(), ethereum::header(*blobs));
            let shared = Arc::default();
            (group.clone(), Block { blobs, mempool, header, has_header: false, is_known: false, shared })
        };
        let columns = topics.iter().filter(|topic| column_of(topic).is_some());
        Self {
            lookup_time: config.lookup_time,
            cell_time: config.cell_time,
            topics: columns.map(|topic| TopicHash::from_raw(topic.as_str())).collect(),
            blocks: config.blocks.iter().map(block).collect(),
            columns: HashMap::new(),
            busy_until: Instant::now(),
            due: BTreeMap::new(),
            next: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn add(&mut self, at: Instant, due: Due) {
        self.due.insert((at, self.next), due);
        self.next += 1;
    }

    /// Bytes of all bodies that were sent.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.blocks.values().map(|block| block.shared.sent_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Takes a frame. Returns an error if the peer sent something invalid.
    pub(crate) fn receive(
        &mut self,
        from: PeerId,
        (topic, group): Key,
        body: Option<Vec<u8>>,
        has_metadata: bool,
    ) -> Result<(), String> {
        self.counts.metadata += u64::from(has_metadata);
        let Some(block) = self.blocks.get_mut(&group).filter(|_| self.topics.contains(&topic)) else {
            self.counts.ignored += 1;
            return Ok(());
        };
        block.shared.note(from);
        let Some(body) = body.map(Bytes::from) else { return Ok(()) };
        self.counts.received_bytes += body.len() as u64;
        let body = PartialColumns::FULU.read_body(&group, &body).map_err(|error| error.to_string())?;
        self.counts.parts += body.parts.len() as u64;
        self.counts.headers += u64::from(body.header.is_some());
        if body.len != Some(block.blobs) || body.header.as_ref().is_some_and(|header| *header != block.header)
        {
            return Err("found another header or length, expected those of the block".to_owned());
        }
        let numbers = body.parts.iter().map(|(part, _)| *part);
        if parts(&group, numbers) != body.parts {
            return Err("found cells with other contents, expected those of the block".to_owned());
        }
        let has_header = body.header.is_some() && !block.has_header;
        // Deployed clients drop cells without commitments, which nobody can verify.
        if !block.has_header && !has_header || self.due.len() >= DUE_MAX {
            self.counts.ignored += 1;
            return Ok(());
        }
        block.has_header = true;
        let column = self.columns.entry((topic.clone(), group.clone())).or_default();
        let mut parts = body.parts;
        parts.retain(|(part, _)| !column.parts.contains_key(part) && !column.checking.contains(*part));
        column.checking.add(&parts.iter().map(|(part, _)| *part).collect());
        if has_header || !parts.is_empty() {
            self.busy_until = self.busy_until.max(Instant::now()) + self.cell_time * parts.len() as u32;
            self.add(self.busy_until, Due::Verified { key: (topic, group), has_header, parts });
        }
        Ok(())
    }

    /// Handles the next end of a verification or a look-up, if its time has come.
    pub(crate) fn due(&mut self) -> Option<Changes> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= Instant::now())?;
        match first.remove() {
            Due::Verified { key, has_header, parts } => {
                let group = key.1.clone();
                let block = self.blocks.get_mut(&group)?;
                block.is_known = true;
                let column = self.columns.entry(key.clone()).or_default();
                for (part, data) in parts {
                    column.checking.remove(part);
                    column.parts.insert(part, data);
                }
                if has_header {
                    self.add(Instant::now() + self.lookup_time, Due::LookedUp(group.clone()));
                }
                Some(Changes { columns: vec![key], header: has_header.then_some(group) })
            }
            Due::LookedUp(group) => Some(Changes { columns: self.looked_up(&group), header: None }),
        }
    }

    /// Adds the cells of the mempool to all columns of a block.
    fn looked_up(&mut self, group: &Bytes) -> Vec<Key> {
        let Some(block) = self.blocks.get(group) else { return Vec::new() };
        let mempool = parts(group, block.mempool.iter());
        for topic in &self.topics {
            let column = self.columns.entry((topic.clone(), group.clone())).or_default();
            if column.is_published {
                continue;
            }
            let had = column.parts.len() as u64;
            column.is_wanted = true;
            column.parts.extend(mempool.iter().cloned());
            let missing = u64::from(block.blobs) - column.parts.len() as u64;
            self.counts.missing += missing + had;
            self.counts.local += u64::from(missing == 0);
        }
        self.topics.iter().map(|topic| (topic.clone(), group.clone())).collect()
    }

    /// Returns true unless all of these peers have the header of a block.
    pub(crate) fn lacks_header<'a>(
        &self,
        group: &Bytes,
        mut peers: impl Iterator<Item = &'a PeerId>,
    ) -> bool {
        self.blocks.get(group).is_some_and(|block| peers.any(|peer| !block.shared.is_holder(peer)))
    }

    /// Returns a column as the library sends it, if its header is known.
    pub(crate) fn snapshot(&self, key: &Key) -> Option<Snapshot> {
        let block = self.blocks.get(&key.1).filter(|block| block.is_known)?;
        let column = self.columns.get(key);
        let parts: Vec<(u32, Bytes)> = column
            .into_iter()
            .flat_map(|column| column.parts.iter().map(|(part, data)| (*part, data.clone())))
            .collect();
        let have: Bits = parts.iter().map(|(part, _)| *part).collect();
        let is_wanted = column.is_some_and(|column| column.is_wanted);
        let requests = if is_wanted { Bits::all(block.blobs).without(&have) } else { Bits::new(block.blobs) };
        let (group, header) = (key.1.clone(), block.header.clone());
        Some(Snapshot {
            group,
            blobs: block.blobs,
            header,
            parts,
            requests,
            shared: Arc::clone(&block.shared),
        })
    }

    /// Returns the bytes of a column once, as soon as all cells are there.
    pub(crate) fn complete(&mut self, key: &Key) -> Option<Bytes> {
        let block = self.blocks.get(&key.1)?;
        let column = self.columns.get_mut(key)?;
        if column.is_published || column.parts.len() < block.blobs as usize {
            return None;
        }
        column.is_published = true;
        let parts: Vec<Bytes> = column.parts.values().cloned().collect();
        Some(sidecar(column_of(&Topic::new(key.0.as_str()))?, &block.header, &parts))
    }
}
