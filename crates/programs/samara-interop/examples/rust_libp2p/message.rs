//! The application format of test-plans: messages of eight parts.

use libp2p::PeerId;
use libp2p::gossipsub::partial_messages::{Metadata, Partial, PartialAction, PartialError};

const PARTS: usize = 8;
const PART_BYTES: usize = 1024;
const GROUP_BYTES: usize = 8;

/// The bitmap of a complete message. Bit i is part i.
pub(crate) const ALL: u8 = u8::MAX;

/// The known parts of a group.
#[derive(Clone)]
pub(crate) struct Message {
    group: u64,
    parts: [Option<Vec<u8>>; PARTS],
}

impl Message {
    /// Creates a message without parts.
    pub(crate) fn new(group: u64) -> Self {
        Self { group, parts: Default::default() }
    }

    /// Creates the content of parts. The whole message consists of big-endian counters of 64 bits,
    /// which start at the number of the group.
    pub(crate) fn fill(&mut self, parts: u8) {
        let counters = (PART_BYTES / size_of::<u64>()) as u64;
        for index in (0..PARTS).filter(|index| parts & 1 << index != 0) {
            let first = self.group.wrapping_add(index as u64 * counters);
            let part = (0..counters).flat_map(|counter| first.wrapping_add(counter).to_be_bytes());
            self.parts[index].get_or_insert_with(|| part.collect());
        }
    }

    pub(crate) fn has(&self) -> u8 {
        let known = self.parts.iter().enumerate().filter(|(_, part)| part.is_some());
        known.fold(0, |has, (index, _)| has | 1 << index)
    }

    /// Returns the known parts in `wanted`, or `None` if there are none: their bitmap, the parts in
    /// ascending order, and the group.
    fn encode(&self, wanted: u8) -> Option<Vec<u8>> {
        let send = self.has() & wanted;
        if send == 0 {
            return None;
        }
        let mut body = vec![send];
        for (index, part) in self.parts.iter().enumerate() {
            if send & 1 << index != 0 {
                body.extend(part.as_deref().unwrap_or_default());
            }
        }
        body.extend(self.group.to_be_bytes());
        Some(body)
    }

    /// Adds the parts of an encoded message.
    pub(crate) fn extend(&mut self, body: &[u8]) -> Result<(), String> {
        let wrong = || format!("found {} bytes, expected a bitmap, its parts and a group", body.len());
        let (&brings, rest) = body.split_first().ok_or_else(wrong)?;
        let (parts, group) = rest.split_last_chunk::<GROUP_BYTES>().ok_or_else(wrong)?;
        if u64::from_be_bytes(*group) != self.group {
            return Err(format!("found parts of group {group:?}, expected group {}", self.group));
        }
        if parts.len() != brings.count_ones() as usize * PART_BYTES {
            return Err(wrong());
        }
        let indices = (0..PARTS).filter(|index| brings & 1 << index != 0);
        for (index, part) in indices.zip(parts.chunks_exact(PART_BYTES)) {
            self.parts[index].get_or_insert_with(|| part.to_vec());
        }
        Ok(())
    }
}

impl Partial for Message {
    fn group_id(&self) -> Vec<u8> {
        self.group.to_be_bytes().to_vec()
    }

    fn metadata(&self) -> Box<dyn Metadata> {
        Box::new(Has(self.has()))
    }

    fn partial_action_from_metadata(
        &self,
        _: PeerId,
        metadata: Option<&[u8]>,
    ) -> Result<PartialAction, PartialError> {
        // A peer without metadata has nothing: it gets all parts at once.
        let theirs = metadata.map(bitmap).transpose()?.unwrap_or(0);
        let then = |body| (body, Box::new(Has(theirs | self.has())) as Box<dyn Metadata>);
        Ok(PartialAction { need: theirs & !self.has() != 0, send: self.encode(!theirs).map(then) })
    }
}

/// The parts that a node has.
#[derive(Debug)]
struct Has(u8);

impl Metadata for Has {
    fn as_slice(&self) -> &[u8] {
        std::slice::from_ref(&self.0)
    }

    fn update(&mut self, data: &[u8]) -> Result<bool, PartialError> {
        let before = self.0;
        self.0 |= bitmap(data)?;
        Ok(self.0 != before)
    }

    fn update_from_data(&mut self, body: &[u8]) -> Result<(), PartialError> {
        self.0 |= body.first().ok_or(PartialError::InvalidFormat)?;
        Ok(())
    }
}

fn bitmap(metadata: &[u8]) -> Result<u8, PartialError> {
    match metadata {
        [bitmap] => Ok(*bitmap),
        _ => Err(PartialError::InvalidFormat),
    }
}
