//! Sequence numbers (NAKACK2): what came of each sender, delivered in order; what was sent, for those who ask for gaps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::frame::Multicast;

/// The messages of one sender.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// All up to this one were delivered.
    delivered: u64,
    waiting: BTreeMap<u64, Arc<Multicast>>,
    /// The highest that was heard of.
    highest: u64,
    /// Bytes that were consumed since the last credit was returned (MFC).
    pub(super) consumed: u64,
}

impl Window {
    /// Begins behind this one: earlier ones are none of this member's business.
    pub(super) fn from(delivered: u64) -> Self {
        Self { delivered, highest: delivered, ..Self::default() }
    }

    /// Takes one, unless it was here. The next one in order, and those behind it, come out of [`next`](Self::next).
    pub(super) fn insert(&mut self, sequence: u64, multicast: &Arc<Multicast>) {
        self.hear_of(sequence);
        if sequence > self.delivered {
            self.waiting.entry(sequence).or_insert_with(|| multicast.clone());
        }
    }

    pub(super) fn next(&mut self) -> Option<Arc<Multicast>> {
        let next = self.waiting.remove(&(self.delivered + 1))?;
        self.delivered += 1;
        Some(next)
    }

    pub(super) fn hear_of(&mut self, sequence: u64) {
        self.highest = self.highest.max(sequence);
    }

    /// The first gap: what to ask for.
    pub(super) fn missing(&self) -> Option<(u64, u64)> {
        let end = self.waiting.first_key_value().map_or(self.highest, |(first, _)| first - 1);
        (end > self.delivered).then_some((self.delivered + 1, end))
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
}

/// What a member has multicast: the first one has number 1.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// How many are not kept any more.
    gone: u64,
    kept: VecDeque<Arc<Multicast>>,
    bytes: u64,
}

impl Sent {
    /// Keeps one more, and no more than so many bytes.
    pub(super) fn push(&mut self, multicast: Arc<Multicast>, bytes_max: u64) {
        self.bytes += multicast.content() as u64;
        self.kept.push_back(multicast);
        while self.bytes > bytes_max
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.content() as u64;
            self.gone += 1;
        }
    }

    /// The last number.
    pub(super) fn last(&self) -> u64 {
        self.gone + self.kept.len() as u64
    }

    /// Those with these numbers that are kept, the last one included.
    pub(super) fn range(&self, first: u64, last: u64) -> Vec<Arc<Multicast>> {
        let index = |number: u64| number.clamp(self.gone, self.last()) - self.gone;
        let (start, end) = (index(first.saturating_sub(1)) as usize, index(last) as usize);
        self.kept.range(start..end.max(start)).cloned().collect()
    }
}
