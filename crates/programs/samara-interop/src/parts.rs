//! The parts of groups in the format of test-plans.
//!
//! Parts that arrive are not verified: the fillers of other runners differ (go's keeps only the last
//! counter of each part).

use std::collections::BTreeMap;

use bytes::Bytes;
use samara_gossipsub::partial::Content;

/// Number of parts of a group: bit i of a bitmap is part i.
pub(crate) const PARTS: u32 = 8;
pub(crate) const PART_BYTES: usize = 1024;
pub(crate) const GROUP_BYTES: usize = 8;

/// The known parts of a group, by number.
#[derive(Debug, Default)]
pub(crate) struct Parts(BTreeMap<u32, Bytes>);

impl Parts {
    /// Adds parts to those that are known already. Returns true if this completes the group.
    pub(crate) fn add(&mut self, parts: impl IntoIterator<Item = (u32, Bytes)>) -> bool {
        let was_complete = self.is_complete();
        parts.into_iter().for_each(|(part, data)| _ = self.0.entry(part).or_insert(data));
        !was_complete && self.is_complete()
    }

    fn is_complete(&self) -> bool {
        self.0.len() == PARTS as usize
    }

    pub(crate) fn content(&self) -> Content {
        let parts = self.0.iter().map(|(part, data)| (*part, data.clone())).collect();
        Content { parts, ..Content::default() }
    }
}

/// Creates the content of parts. A whole message consists of big-endian counters of 64 bits, which
/// start at the number of the group.
pub(crate) fn fill(group: u64, bitmap: u8) -> impl Iterator<Item = (u32, Bytes)> {
    let counters = (PART_BYTES / size_of::<u64>()) as u64;
    (0..PARTS).filter(move |part| bitmap >> part & 1 == 1).map(move |part| {
        let first = group.wrapping_add(u64::from(part) * counters);
        let data: Vec<u8> =
            (0..counters).flat_map(|counter| first.wrapping_add(counter).to_be_bytes()).collect();
        (part, data.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_completed_once() {
        let mut parts = Parts::default();
        assert!(!parts.add(fill(7, 0b1111_0000)));
        assert!(parts.add(fill(7, 0b0011_1111)));
        assert!(!parts.add(fill(7, u8::MAX)));
        let content = parts.content().parts;
        let whole: Vec<u8> = content.iter().flat_map(|(_, data)| data.to_vec()).collect();
        let expected: Vec<u8> = (7..7 + 1024_u64).flat_map(u64::to_be_bytes).collect();
        assert_eq!(whole, expected);
    }
}
