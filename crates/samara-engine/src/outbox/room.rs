//! What a link can take.

/// How many bytes of a copy would leave at once if a link were given it now: what a window has left, for example.
///
/// A link with any room can be given a copy. `bool` stands for a driver that knows no more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Room(pub u64);

impl Room {
    /// The link can take nothing.
    pub const NONE: Self = Self(0);
    /// Any copy would leave at once, as far as the driver knows.
    pub const WHOLE: Self = Self(u64::MAX);

    /// Whether the link can be given a copy.
    pub const fn is_some(self) -> bool {
        self.0 > 0
    }

    /// Whether a copy of `len` bytes would leave at once.
    pub const fn takes(self, len: u32) -> bool {
        self.0 >= len as u64
    }
}

impl From<bool> for Room {
    fn from(has_room: bool) -> Self {
        if has_room { Self::WHOLE } else { Self::NONE }
    }
}
