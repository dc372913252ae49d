//! The parts that all engines of this crate share: sequence numbers, peers, owed copies, losses.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashTable;
use samara_engine::outbox::{Lane, Lost, Owe, Schedule};
use samara_engine::{Engine, Frame, MessageKey, PeerId, PeerIdentity, PeerKeyed, Time, Topic};

use crate::app::{Command, Cx, Event, Ignored, Metrics, Receipt, RequestError};
use crate::config::{Common, FORWARDED, OWN};
use crate::message::{Message, MessageId};

#[derive(Debug)]
pub struct Core {
    pub(crate) common: Common,
    pub(crate) identity: PeerIdentity,
    pub(crate) seen: SeenCache,
    pub(crate) metrics: Metrics,
    next_seqno: u64,
    lost: Vec<Lost>,
}

/// Bits of a message's key below the number of its engine: more messages than any engine sees.
const KEY_BITS: u32 = 40;

impl Core {
    pub(crate) fn new(common: &Common, identity: PeerIdentity) -> Self {
        Self::numbered(common, identity, 0)
    }

    /// Returns the core of one of several engines that share an outbox. Engines with different
    /// numbers give messages different keys.
    pub(crate) fn numbered(common: &Common, identity: PeerIdentity, number: u32) -> Self {
        let first = u64::from(number) << KEY_BITS;
        Self {
            seen: SeenCache { first, ..SeenCache::new(common.seen_ttl, common.seen_capacity) },
            common: common.clone(),
            identity,
            metrics: Metrics::default(),
            next_seqno: 0,
            lost: Vec::new(),
        }
    }

    pub(crate) fn start<F: Frame>(&mut self, cx: &mut Cx<'_, F>) {
        self.seen.hasher = cx.rng().table_hasher();
        // A restarted node must not reuse sequence numbers of its former life. Half of the range
        // remains for counting.
        self.next_seqno = cx.rng().next_u64() >> 1;
    }

    /// Counts a frame and returns true if it should be processed.
    pub(crate) fn admits<F: Frame>(&mut self, has_link: bool, frame: &F) -> bool {
        self.metrics.frames_received += 1;
        if !has_link {
            self.metrics.ignore(Ignored::FrameUnknownPeer, 1);
            return false;
        }
        if frame.encoded_len() > self.common.max_frame_bytes {
            self.metrics.ignore(Ignored::FrameTooLong, 1);
            return false;
        }
        true
    }

    /// Returns a new own message with the next sequence number.
    pub(crate) fn compose(&mut self, topic: &Topic, data: Bytes) -> Arc<Message> {
        let seqno = self.next_seqno;
        self.next_seqno = self.next_seqno.wrapping_add(1);
        Arc::new(Message::new(self.identity.clone(), seqno, topic.clone(), data))
    }

    /// Marks an own message as seen. `frame_len` is the length of its frame.
    pub(crate) fn take_own<F: Frame>(
        &mut self,
        message: &Message,
        frame_len: usize,
        cx: &Cx<'_, F>,
    ) -> Result<MessageKey, RequestError> {
        let allowed = self.common.max_frame_bytes;
        if frame_len > allowed {
            return Err(RequestError::TooLong { topic: message.topic().clone(), found: frame_len, allowed });
        }
        if self.seen.get(cx.now(), message.id()).is_some() {
            return Err(RequestError::Duplicate(message.id()));
        }
        self.metrics.messages_published += 1;
        Ok(self.seen.insert(cx.now(), message.id()))
    }

    /// Owes copies of own messages in the order of a schedule; `None` for the configured one.
    pub(crate) fn owe_own<F: Frame>(
        &mut self,
        owed: Vec<Owe<F>>,
        schedule: Option<&Schedule>,
        receipts: &mut [Result<Receipt, RequestError>],
        cx: &mut Cx<'_, F>,
    ) {
        let wanted: usize = owed.iter().map(|owe| owe.peers.len()).sum();
        self.metrics.published_copies += wanted as u64;
        if wanted == 0 {
            return;
        }
        let now = cx.now();
        let schedule = schedule.unwrap_or(&self.common.schedule_own);
        let (outbox, rng) = cx.outbox_and_rng();
        outbox.owe_batch(now, OWN, owed, schedule, rng, &mut self.lost);
        for lost in &self.lost {
            let of = |receipt: &&mut Receipt| Some(receipt.key) == lost.message;
            if let Some(receipt) = receipts.iter_mut().flatten().find(of) {
                receipt.copies -= 1;
                receipt.lost += 1;
            }
        }
        self.note_lost(cx);
    }

    /// Owes copies of another node's message to `peers`.
    pub(crate) fn owe_forwarded<F: Frame>(
        &mut self,
        key: MessageKey,
        frame: F,
        peers: Vec<PeerId>,
        cx: &mut Cx<'_, F>,
    ) {
        self.metrics.forwarded_copies += peers.len() as u64;
        if peers.is_empty() {
            return;
        }
        let now = cx.now();
        let owe = Owe { message: key, frame, peers, deadline: None };
        let (outbox, rng) = cx.outbox_and_rng();
        outbox.owe_batch(now, FORWARDED, [owe], &self.common.schedule_forwarded, rng, &mut self.lost);
        self.note_lost(cx);
    }

    /// Owes one frame. Returns true if the outbox accepted it.
    pub(crate) fn owe<F: Frame>(
        &mut self,
        peer: PeerId,
        lane: Lane,
        frame: F,
        message: Option<MessageKey>,
        cx: &mut Cx<'_, F>,
    ) -> bool {
        let now = cx.now();
        let taken = cx.outbox().owe_into(now, peer, lane, frame, message, None, &mut self.lost);
        self.note_lost(cx);
        taken
    }

    fn note_lost<F: Frame>(&mut self, cx: &mut Cx<'_, F>) {
        for lost in self.lost.drain(..) {
            self.metrics.queue_drops[lost.cause] += 1;
            cx.emit(Event::Lost(lost));
        }
    }

    /// Records a copy of a known message.
    pub(crate) fn duplicate<F: Frame>(&mut self, from: PeerId, key: MessageKey, cx: &mut Cx<'_, F>) {
        self.metrics.duplicates_received += 1;
        if self.common.report_duplicates {
            cx.emit(Event::Duplicate { key, from });
        }
        self.peer_has(from, key, cx);
    }

    /// Records that a peer has a message, so that copies owed to it are useless.
    pub(crate) fn peer_has<F: Frame>(&mut self, peer: PeerId, key: MessageKey, cx: &mut Cx<'_, F>) {
        let now = cx.now();
        let outbox = cx.outbox();
        outbox.note_has(now, peer, key);
        if self.common.withdraw {
            self.metrics.withdrawn_copies += outbox.withdraw(peer, key) as u64;
        }
    }
}

/// The parts of an engine that [`Baseline`](crate::Baseline) needs to publish own messages.
pub trait Publisher: Engine<Command = Command, Event = Event> {
    fn core(&mut self) -> &mut Core;

    /// Takes a message as published, and returns the copies to owe and the event for the
    /// application, if it has joined the topic.
    fn prepare(
        &mut self,
        message: &Arc<Message>,
        cx: &mut Cx<'_, Self::Frame>,
    ) -> Result<(Owe<Self::Frame>, Option<Event>), RequestError>;
}

/// The ids seen within the time to live, at most `capacity` of them. Each has a number that is
/// never reused.
///
/// The time to live counts from the first arrival (`Strategy_FirstSeen` of go-libp2p-pubsub's
/// `timecache`, its default). Ids are therefore forgotten in order of arrival, and a number is a
/// place in a queue. This takes about 32 bytes per id, which matters with 10,000 nodes in a
/// process.
///
/// Frames carry ids, which peers can invent, so the table needs a [`PeerKeyed`] hasher.
#[derive(Debug)]
pub(crate) struct SeenCache {
    ttl: Duration,
    capacity: usize,
    pub(crate) hasher: PeerKeyed,
    /// Oldest first. The first entry has the number `first`.
    queue: VecDeque<Entry>,
    first: u64,
    /// The low 32 bits of the numbers, by id. They are unique because at most `u32::MAX` ids are
    /// kept.
    table: HashTable<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: MessageId,
    until: Time,
}

impl SeenCache {
    /// Maximum number of ids in a cache.
    pub(crate) const CAPACITY_MAX: usize = u32::MAX as usize;

    /// # Panics
    /// If `capacity` is zero or more than [`CAPACITY_MAX`](Self::CAPACITY_MAX).
    pub(crate) fn new(ttl: Duration, capacity: usize) -> Self {
        assert!(
            (1..=Self::CAPACITY_MAX).contains(&capacity),
            "the capacity of a seen cache must be 1 to {}",
            u32::MAX
        );
        let (hasher, queue, table) = Default::default();
        Self { ttl, capacity, hasher, queue, first: 0, table }
    }

    /// Returns the number of an id if it was seen.
    pub(crate) fn get(&mut self, now: Time, id: MessageId) -> Option<MessageKey> {
        self.expire(now);
        let (queue, first) = (&self.queue, self.first);
        let low = self.table.find(self.hasher.hash_one(id), |low| id_at(queue, first, *low) == id)?;
        Some(MessageKey(first + place(first, *low) as u64))
    }

    /// Marks an id as seen and assigns it a number. [`get`](Self::get) must not have found it.
    pub(crate) fn insert(&mut self, now: Time, id: MessageId) -> MessageKey {
        debug_assert!(self.get(now, id).is_none(), "duplicate id in the seen cache");
        if self.queue.len() >= self.capacity {
            self.forget_oldest();
        }
        let key = self.first + self.queue.len() as u64;
        self.queue.push_back(Entry { id, until: now + self.ttl });
        let (queue, first, hasher) = (&self.queue, self.first, &self.hasher);
        let rehash = |low: &u32| hasher.hash_one(id_at(queue, first, *low));
        self.table.insert_unique(hasher.hash_one(id), key as u32, rehash);
        MessageKey(key)
    }

    fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|oldest| oldest.until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.queue.front() else { return };
        let low = self.first as u32;
        if let Ok(entry) = self.table.find_entry(self.hasher.hash_one(oldest.id), |known| *known == low) {
            entry.remove();
        }
        self.queue.pop_front();
        self.first += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// Returns the place in the queue of a number, given its low bits.
fn place(first: u64, low: u32) -> usize {
    low.wrapping_sub(first as u32) as usize
}

fn id_at(queue: &VecDeque<Entry>, first: u64, low: u32) -> MessageId {
    queue[place(first, low)].id
}
