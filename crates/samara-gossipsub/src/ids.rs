//! Names that are local to one engine.

use std::fmt;

/// A topic as one engine names it: a small dense number that it gives out on first use, so that tables are indexed
/// instead of hashed by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicIdx(pub u32);

impl TopicIdx {
    /// The number as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for TopicIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic{}", self.0)
    }
}
