//! Missing messages that neighbours have announced, and kept messages that neighbours can request.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::{MessageKey, PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use crate::app::Ignored;
use crate::config::PlumtreeConfig;
use crate::message::{Message, MessageId};

/// The peers that announced a message, in order, each with its round.
pub(super) type Announcers = SmallVec<[(PeerId, u32); 4]>;

/// The missing messages (`missing` and the timers of the paper).
///
/// Instead of a timer for each message there are two queues of deadlines, one for each timeout.
/// Each queue is sorted because its timeout has a constant length.
#[derive(Debug)]
pub(super) struct Missing {
    first_wait: Duration,
    retry_wait: Duration,
    ids_max: usize,
    per_peer_max: u32,
    pub(super) entries: HashMap<MessageId, Entry, PeerKeyed>,
    /// Number of announcements in the table, by peer.
    counts: Vec<u32>,
    first: VecDeque<Deadline>,
    retry: VecDeque<Deadline>,
    next_serial: u32,
}

#[derive(Debug)]
pub(super) struct Entry {
    announcers: Announcers,
    /// The serial of the one valid deadline.
    serial: u32,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Time,
    id: MessageId,
    serial: u32,
}

impl Missing {
    pub(super) fn new(config: &PlumtreeConfig) -> Self {
        Self {
            first_wait: config.graft_timeout,
            retry_wait: config.graft_retry,
            ids_max: config.missing_max,
            per_peer_max: u32::try_from(config.missing_per_peer_max).unwrap_or(u32::MAX),
            entries: HashMap::default(),
            counts: Vec::new(),
            first: VecDeque::new(),
            retry: VecDeque::new(),
            next_serial: 0,
        }
    }

    /// Records an announcement of a message that has not arrived.
    pub(super) fn announce(
        &mut self,
        now: Time,
        id: MessageId,
        from: PeerId,
        round: u32,
    ) -> Result<(), Ignored> {
        if self.counts.get(from.index()).is_some_and(|count| *count >= self.per_peer_max) {
            return Err(Ignored::IHavePeerFull);
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            if entry.announcers.iter().any(|(peer, _)| *peer == from) {
                return Err(Ignored::IHaveRepeated);
            }
            entry.announcers.push((from, round));
        } else {
            if self.entries.len() >= self.ids_max {
                return Err(Ignored::IHaveTableFull);
            }
            let serial = self.take_serial();
            self.first.push_back(Deadline { at: now + self.first_wait, id, serial });
            self.entries.insert(id, Entry { announcers: SmallVec::from_slice(&[(from, round)]), serial });
            self.tidy();
        }
        if self.counts.len() <= from.index() {
            self.counts.resize(from.index() + 1, 0);
        }
        self.counts[from.index()] += 1;
        Ok(())
    }

    /// Removes a message that has arrived or is given up. Returns the announcers that were not
    /// asked.
    pub(super) fn remove(&mut self, id: MessageId) -> Announcers {
        let Some(entry) = self.entries.remove(&id) else { return Announcers::new() };
        for (peer, _) in &entry.announcers {
            self.counts[peer.index()] -= 1;
        }
        entry.announcers
    }

    /// Forgets the announcements of a peer.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        let Some(count) = self.counts.get_mut(peer.index()).filter(|count| **count > 0) else { return };
        *count = 0;
        // The order of iteration has no visible effect. Entries without announcers expire at their
        // deadline.
        self.entries.values_mut().for_each(|entry| entry.announcers.retain(|(known, _)| *known != peer));
    }

    /// Returns the next time at which to call [`next_due`](Self::next_due).
    pub(super) fn wake_at(&self) -> Option<Time> {
        let fronts = [self.first.front(), self.retry.front()];
        fronts.into_iter().flatten().map(|deadline| deadline.at).min()
    }

    /// Returns the next overdue message.
    pub(super) fn next_due(&mut self, now: Time) -> Option<MessageId> {
        loop {
            let due =
                |queue: &VecDeque<Deadline>| queue.front().map(|front| front.at).filter(|at| *at <= now);
            let queue = match (due(&self.first), due(&self.retry)) {
                (Some(first), Some(retry)) if retry < first => &mut self.retry,
                (Some(_), _) => &mut self.first,
                (None, Some(_)) => &mut self.retry,
                (None, None) => return None,
            };
            let deadline = queue.pop_front()?;
            if self.holds(&deadline) {
                return Some(deadline.id);
            }
        }
    }

    /// Returns the peer to ask for a message now, and removes it so that it is asked once.
    pub(super) fn take_announcer(&mut self, id: MessageId) -> Option<(PeerId, u32)> {
        let entry = self.entries.get_mut(&id).filter(|entry| !entry.announcers.is_empty())?;
        let (peer, round) = entry.announcers.remove(0);
        self.counts[peer.index()] -= 1;
        Some((peer, round))
    }

    /// Puts back a peer that could not be asked, behind the others.
    pub(super) fn put_back(&mut self, id: MessageId, peer: PeerId, round: u32) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.announcers.push((peer, round));
            self.counts[peer.index()] += 1;
        }
    }

    /// Sets the deadline for asking the next peer.
    pub(super) fn wait_for_retry(&mut self, now: Time, id: MessageId) {
        let serial = self.take_serial();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.serial = serial;
            self.retry.push_back(Deadline { at: now + self.retry_wait, id, serial });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of queued deadlines, including obsolete ones.
    pub(super) fn deadlines(&self) -> usize {
        self.first.len() + self.retry.len()
    }

    fn take_serial(&mut self) -> u32 {
        self.next_serial = self.next_serial.wrapping_add(1);
        self.next_serial
    }

    fn holds(&self, deadline: &Deadline) -> bool {
        self.entries.get(&deadline.id).is_some_and(|entry| entry.serial == deadline.serial)
    }

    /// Removes obsolete deadlines once there are many. Otherwise announcements of messages that
    /// arrive soon would fill the queues.
    fn tidy(&mut self) {
        if self.deadlines() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            let holds = |deadline: &Deadline| {
                entries.get(&deadline.id).is_some_and(|entry| entry.serial == deadline.serial)
            };
            self.first.retain(holds);
            self.retry.retain(holds);
        }
    }
}

/// Recent messages, by number. A node numbers messages in order of arrival, so this is a queue
/// without an index.
#[derive(Debug)]
pub(super) struct Cache {
    ttl: Duration,
    messages_max: usize,
    bytes_max: usize,
    bytes: usize,
    /// The number of the oldest message.
    first: u64,
    queue: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    until: Time,
    message: Arc<Message>,
    round: u32,
}

impl Cache {
    pub(super) fn new(ttl: Duration, messages_max: usize, bytes_max: usize) -> Self {
        Self { ttl, messages_max, bytes_max, bytes: 0, first: 0, queue: VecDeque::new() }
    }

    /// Stores a message with the round of its copies. Numbers must be consecutive.
    pub(super) fn put(&mut self, now: Time, key: MessageKey, message: Arc<Message>, round: u32) {
        self.expire(now);
        if self.queue.is_empty() {
            self.first = key.0;
        }
        debug_assert_eq!(key.0, self.first + self.queue.len() as u64, "message numbers must be consecutive");
        self.bytes += message.data().len();
        self.queue.push_back(Kept { until: now + self.ttl, message, round });
        while self.queue.len() > self.messages_max || self.bytes > self.bytes_max {
            self.forget_oldest();
        }
    }

    /// Returns a message and its round if it is still stored.
    pub(super) fn get(&mut self, now: Time, key: MessageKey) -> Option<(&Arc<Message>, u32)> {
        self.expire(now);
        let place = key.0.checked_sub(self.first)?;
        self.queue.get(usize::try_from(place).ok()?).map(|kept| (&kept.message, kept.round))
    }

    fn expire(&mut self, now: Time) {
        while self.queue.front().is_some_and(|oldest| oldest.until <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.queue.pop_front() {
            self.first += 1;
            self.bytes -= oldest.message.data().len();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}
