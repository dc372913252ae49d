//! The payload of a message: given, or random.

use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;
use samara_engine::{NodeRng, Purpose};

/// Maximum number of messages of one request.
pub(crate) const BATCH_MESSAGES_MAX: usize = 4096;
/// Maximum payload of one request in bytes, random bytes included: they are held in memory until
/// they have left.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 20;

/// A given payload, or random bytes to make when they are needed.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Data(Bytes),
    Random(usize),
}

impl Payload {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Random(len) => *len,
        }
    }

    pub(crate) fn make(self) -> Bytes {
        match self {
            Self::Data(data) => data,
            Self::Random(len) => random(len),
        }
    }
}

/// Returns bytes that no other message has: ids are often computed from payloads. Not for secrets.
fn random(len: usize) -> Bytes {
    // The hasher of the standard library is seeded by the operating system.
    let mut rng = NodeRng::new(RandomState::new().build_hasher().finish(), 0, Purpose::Workload);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_payloads_differ_and_have_the_requested_length() {
        for len in [0, 1, 7, 8, 9, 4096] {
            assert_eq!(Payload::Random(len).make().len(), len);
        }
        assert_ne!(Payload::Random(32).make(), Payload::Random(32).make());
    }
}
