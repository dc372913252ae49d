//! Messages that neighbours can ask for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{MessageKey, Time};

use crate::message::Message;

/// The messages of the last while, by number. Since a node numbers messages in the order in which they come, this is a
/// queue without an index.
#[derive(Debug)]
pub(super) struct Cache {
    ttl: Duration,
    messages_max: usize,
    bytes_max: usize,
    bytes: usize,
    /// The number of the oldest.
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

    /// Keeps a message, with the round that copies of it have. Numbers must come one after another.
    pub(super) fn put(&mut self, now: Time, key: MessageKey, message: Arc<Message>, round: u32) {
        self.expire(now);
        if self.queue.is_empty() {
            self.first = key.0;
        }
        debug_assert_eq!(key.0, self.first + self.queue.len() as u64, "a number was left out");
        self.bytes += message.data().len();
        self.queue.push_back(Kept { until: now + self.ttl, message, round });
        while self.queue.len() > self.messages_max || self.bytes > self.bytes_max {
            self.forget_oldest();
        }
    }

    /// A message and its round, if it is still kept.
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
