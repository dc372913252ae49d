//! Columns in cells: the node has most blobs of a block from its mempool, and exchanges the cells of
//! the others.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use bytes::Bytes;
use samara_gossipsub::Acceptance;
use samara_gossipsub::partial::ethereum;
use samara_gossipsub::partial::{Bits, Content};
use samara_gossipsub::rpc::Topic;

use super::Node;
use super::schedule::Block;
use crate::blocks::{column_of, group_of, parts, sidecar};
use crate::config::CheckedCells;
use crate::part::unix_ns;

/// Counts of cells, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellCounts {
    /// Cells that the node lacked after it had looked up its mempool.
    pub(crate) missing: u64,
    /// Columns that the node completed from its mempool alone.
    pub(crate) local: u64,
}

#[derive(Debug)]
enum Due {
    Verified { ticket: u64, topic: Topic, group: Bytes, has_header: bool },
    LookedUp(Bytes),
}

/// What the node knows about the cells of blocks.
#[derive(Debug)]
pub(crate) struct Cells {
    config: CheckedCells,
    /// The end of all verifications so far: one follows the other.
    busy_until: Instant,
    /// What is due at a time, in order: at most as much as the engine lets await a verdict, and a
    /// look-up for each block.
    due: BTreeMap<(Instant, u64), Due>,
    next: u64,
    /// The blocks whose blobs are looked up.
    looked_up: HashSet<Bytes>,
    complete: HashSet<(Topic, Bytes)>,
    pub(crate) counts: CellCounts,
}

impl Cells {
    pub(crate) fn new(config: CheckedCells) -> Self {
        Self {
            config,
            busy_until: Instant::now(),
            due: BTreeMap::new(),
            next: 0,
            looked_up: HashSet::new(),
            complete: HashSet::new(),
            counts: CellCounts::default(),
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn add(&mut self, at: Instant, due: Due) {
        self.due.insert((at, self.next), due);
        self.next += 1;
    }

    /// Takes parts to verify after the others. Returns false if there are too many.
    fn verify(&mut self, parts: usize, due: Due, pending_max: usize) -> bool {
        if self.due.len() >= pending_max + self.looked_up.len() {
            return false;
        }
        self.busy_until = self.busy_until.max(Instant::now()) + self.config.cell_time * parts as u32;
        self.add(self.busy_until, due);
        true
    }

    fn look_up(&mut self, group: Bytes) {
        if self.looked_up.insert(group.clone()) {
            self.add(Instant::now() + self.config.lookup_time, Due::LookedUp(group));
        }
    }
}

impl Node {
    /// Takes parts of a column, which are verified after the others.
    pub(super) fn take_parts(
        &mut self,
        ticket: u64,
        (topic, group): (Topic, Bytes),
        has_header: bool,
        parts: usize,
    ) {
        let pending_max = self.config.engine.partial.as_ref().map_or(0, |partial| partial.limits.pending);
        let cells = self.cells.as_mut().filter(|cells| cells.config.blocks.contains_key(&group));
        let due = Due::Verified { ticket, topic, group, has_header };
        if !cells.is_some_and(|cells| cells.verify(parts, due, pending_max)) {
            self.swarm.behaviour_mut().gossip.report_parts(ticket, Acceptance::Ignore);
        }
    }

    /// Handles the ends of verifications and look-ups.
    pub(super) fn cells_due(&mut self) {
        let now = Instant::now();
        while let Some(cells) = self.cells.as_mut()
            && let Some(first) = cells.due.first_entry().filter(|first| first.key().0 <= now)
        {
            match first.remove() {
                Due::Verified { ticket, topic, group, has_header } => {
                    if has_header {
                        cells.look_up(group.clone());
                    }
                    self.swarm.behaviour_mut().gossip.report_parts(ticket, Acceptance::Accept);
                    self.complete(&topic, &group);
                }
                Due::LookedUp(group) => self.looked_up(&group),
            }
        }
    }

    /// Adds the cells of the mempool to the joined columns of a block.
    fn looked_up(&mut self, group: &Bytes) {
        let topics = self.config.topics.clone();
        for topic in &topics {
            let Some(cells) = &mut self.cells else { return };
            let Some((_, mempool)) = cells.config.blocks.get(group) else { return };
            if column_of(topic).is_none() || cells.complete.contains(&(topic.clone(), group.clone())) {
                continue;
            }
            let gossip = &mut self.swarm.behaviour_mut().gossip;
            let had = gossip.engine().parts(topic, group).map_or(0, |parts| parts.iter().flatten().count());
            let content = Content { parts: parts(group, mempool.iter()), ..Content::default() };
            match gossip.provide(topic, group, content) {
                Ok(missing) => {
                    cells.counts.missing += u64::from(missing) + had as u64;
                    cells.counts.local += u64::from(missing == 0);
                }
                Err(error) => tracing::warn!(topic = topic.as_str(), %error, "cannot add cells"),
            }
            self.complete(topic, group);
        }
    }

    /// Takes the cells of a whole column, which a peer without partial messages has sent.
    pub(super) fn take_column(&mut self, topic: &Topic, data: &[u8]) {
        let (Some(cells), Some(column)) = (&mut self.cells, column_of(topic)) else { return };
        let block = group_of(data).and_then(|group| cells.config.blocks.get_key_value(group));
        let Some((group, (blobs, _))) = block else { return };
        let key = (topic.clone(), group.clone());
        // A short message must not make the node write all cells to compare them.
        if data.len() < *blobs as usize * ethereum::PART_BYTES || cells.complete.contains(&key) {
            return;
        }
        let (group, header, parts) = (group.clone(), ethereum::header(*blobs), parts(group, 0..*blobs));
        let whole: Vec<Bytes> = parts.iter().map(|(_, part)| part.clone()).collect();
        if *data != sidecar(column, &header, &whole) {
            return;
        }
        cells.complete.insert(key);
        cells.look_up(group.clone());
        let content = Content { header: Some(header), parts, ..Content::default() };
        if let Err(error) = self.swarm.behaviour_mut().gossip.provide(topic, &group, content) {
            tracing::warn!(topic = topic.as_str(), %error, "cannot add the cells of a column");
        }
    }

    /// Publishes a column whose cells are all there, to peers that want whole columns.
    fn complete(&mut self, topic: &Topic, group: &Bytes) {
        let (Some(cells), Some(column)) = (&mut self.cells, column_of(topic)) else { return };
        let Some((blobs, _)) = cells.config.blocks.get(group) else { return };
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let parts = gossip.engine().parts(topic, group).unwrap_or_default();
        let Some(parts) = parts.iter().cloned().collect::<Option<Vec<Bytes>>>() else { return };
        if parts.is_empty() || !cells.complete.insert((topic.clone(), group.clone())) {
            return;
        }
        let receipt = gossip.publish(topic, sidecar(column, &ethereum::header(*blobs), &parts));
        if let (Some(tracer), Ok(receipt)) = (&self.tracer, receipt) {
            tracer.published(&receipt.id, &receipt.topic);
        }
    }

    /// Returns the key and the error of a block that the node cannot publish.
    pub(super) fn wrong_block(&self, block: &Block) -> Option<String> {
        let blocks = self.cells.as_ref().map(|cells| &cells.config.blocks);
        let Some((blobs, _)) = blocks.and_then(|blocks| blocks.get(&block.group)) else {
            return Some(".group: expected a block of cells.blocks".to_owned());
        };
        if let Some(beyond) = block.push.iter().find(|blob| *blob >= blobs) {
            return Some(format!(".push: found blob {beyond}; expected numbers below {blobs}"));
        }
        let at = block.topics.iter().position(|topic| column_of(topic).is_none())?;
        let found = block.topics[at].as_str();
        Some(format!(".topics[{at}]: found {found:?}; expected the topic of a column"))
    }

    /// Publishes the cells of a block, and its columns for peers that want whole ones. Returns the time
    /// and its duration in nanoseconds.
    pub(super) fn publish_block(&mut self, block: &Block) -> (u64, u64) {
        let at_unix_ns = unix_ns();
        let known =
            self.cells.as_mut().and_then(|cells| Some((cells.config.blocks.get(&block.group)?.0, cells)));
        // Others are refused when they are planned.
        let Some((blobs, cells)) = known else { return (at_unix_ns, 0) };
        cells.looked_up.insert(block.group.clone());
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        let (header, cell) = (ethereum::header(blobs), parts(&block.group, 0..blobs));
        let push: Bits = block.push.iter().copied().collect();
        for topic in &block.topics {
            cells.complete.insert((topic.clone(), block.group.clone()));
            let content = Content { header: Some(header.clone()), parts: cell.clone(), push: push.clone() };
            if let Err(error) = gossip.provide(topic, &block.group, content) {
                tracing::warn!(topic = topic.as_str(), %error, "cannot publish cells");
            }
        }
        let cell: Vec<Bytes> = cell.into_iter().map(|(_, cell)| cell).collect();
        let columns = block
            .topics
            .iter()
            .filter_map(|topic| Some((topic.clone(), sidecar(column_of(topic)?, &header, &cell))));
        let schedule = &self.config.engine.schedule_publish;
        let receipt = gossip.publish_batch(columns.collect::<Vec<_>>(), schedule);
        if let Some(tracer) = &self.tracer {
            // Cells may have left, and other nodes may have completed columns.
            let published = receipt.published();
            published.for_each(|receipt| tracer.published_at(at_unix_ns, &receipt.id, &receipt.topic));
        }
        (at_unix_ns, unix_ns().saturating_sub(at_unix_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn parts_that_wait_are_limited() {
        let config = CheckedCells {
            lookup_time: Duration::ZERO,
            cell_time: Duration::from_secs(3_600),
            blocks: BTreeMap::new(),
        };
        let mut cells = Cells::new(config);
        let group = Bytes::from(vec![0; 33]);
        let due = |ticket| Due::Verified {
            ticket,
            topic: Topic::new("t"),
            group: group.clone(),
            has_header: false,
        };
        let taken = (0..100).filter(|ticket| cells.verify(1, due(*ticket), 10)).count();
        assert_eq!((taken, cells.due.len()), (10, 10));
        // A look-up is one for each block, and keeps none of the room.
        cells.look_up(group.clone());
        cells.look_up(group.clone());
        assert_eq!(cells.due.len(), 11);
        assert!(!cells.verify(1, due(100), 10));
    }
}
