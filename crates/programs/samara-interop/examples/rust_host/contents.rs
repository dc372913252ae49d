//! The messages of a run: the topic and the payload of each follow from its number.

use libp2p::gossipsub::TopicHash;

use crate::orders::Columns;

/// Bytes of a number, with which each payload begins.
const NUMBER_BYTES: usize = 4;

/// The lines and the counters of the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Messages,
    Columns,
}

/// The segments of all slots.
pub(crate) struct Contents {
    /// The topic of each segment of a slot, and the bytes of its payload.
    pub(crate) topics: Vec<TopicHash>,
    bytes: Vec<usize>,
    pub(crate) slots: u32,
    /// The segments whose topics the host joins.
    pub(crate) joins: Vec<u32>,
}

impl Contents {
    pub(crate) fn new(brief: &Columns) -> Result<Self, String> {
        let (topics, joins) = (brief.topics.iter().map(TopicHash::from_raw).collect(), brief.joins.clone());
        let contents = Self { topics, bytes: brief.bytes.clone(), slots: brief.slots, joins };
        let count = contents.topics.len();
        if contents.bytes.len() != count {
            return Err(format!("bytes: found {}, expected those of {count} topics", contents.bytes.len()));
        }
        if let Some(short) = contents.bytes.iter().find(|bytes| **bytes < NUMBER_BYTES) {
            return Err(format!("bytes: found {short}, expected at least {NUMBER_BYTES}"));
        }
        if let Some(segment) = contents.joins.iter().find(|segment| **segment as usize >= count) {
            return Err(format!("joins: found {segment}, expected numbers below {count}"));
        }
        Ok(contents)
    }

    /// Returns the number of segments of a slot.
    pub(crate) fn count(&self) -> u32 {
        self.topics.len() as u32
    }

    /// Returns the number of all messages.
    pub(crate) fn total(&self) -> u32 {
        self.slots.saturating_mul(self.count())
    }

    pub(crate) fn topic(&self, number: u32) -> &TopicHash {
        &self.topics[self.segment(number)]
    }

    pub(crate) fn payload(&self, number: u32) -> Vec<u8> {
        let bytes = self.bytes[self.segment(number)];
        let mut data = number.to_le_bytes().repeat(bytes.div_ceil(NUMBER_BYTES));
        data.truncate(bytes);
        data
    }

    /// Returns the number of a message, unless it is none of the run.
    pub(crate) fn number(&self, topic: &TopicHash, data: &[u8]) -> Option<u32> {
        let number = u32::from_le_bytes(*data.first_chunk()?);
        let is_known = number < self.total() && self.topic(number) == topic;
        (is_known && self.payload(number) == data).then_some(number)
    }

    fn segment(&self, number: u32) -> usize {
        (number % self.count()) as usize
    }
}
