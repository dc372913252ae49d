//! What messages are made of.

use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;
use samara_engine::{NodeRng, Purpose};

/// A payload that is given, or random bytes that are made when they are needed.
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

    /// Bytes that it takes until it is made.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Random(_) => 0,
        }
    }

    pub(crate) fn make(self) -> Bytes {
        match self {
            Self::Data(data) => data,
            Self::Random(len) => random(len),
        }
    }
}

/// Bytes that no other message has: ids are often computed from payloads. Not for secrets.
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
    fn random_payloads_are_as_long_as_asked_for_and_differ() {
        for len in [0, 1, 7, 8, 9, 4096] {
            assert_eq!(Payload::Random(len).make().len(), len);
        }
        assert_ne!(Payload::Random(32).make(), Payload::Random(32).make());
    }
}
