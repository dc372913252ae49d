//! What a receiver gives back.

/// The credit of a connection at its receiver: `trInFlow` in `internal/transport/flowcontrol.go` of grpc-go. Bytes count as taken in
/// when they arrive, whether they are read or not.
#[derive(Debug)]
pub(super) struct Credit {
    limit: u32,
    /// Taken in and not given back.
    owed: u32,
}

impl Credit {
    pub(super) const fn new(limit: u32) -> Self {
        Self { limit, owed: 0 }
    }

    /// Bytes arrive. Returns what is given back now: all that is owed, once it is a quarter of the window.
    pub(super) fn take_in(&mut self, bytes: u32) -> Option<u32> {
        self.owed += bytes;
        if self.owed < self.limit / 4 { None } else { self.give_back() }
    }

    /// Gives back all that is owed, if anything is.
    pub(super) fn give_back(&mut self) -> Option<u32> {
        let owed = std::mem::take(&mut self.owed);
        (owed > 0).then_some(owed)
    }

    /// Widens the window. Returns by how much.
    pub(super) fn widen(&mut self, limit: u32) -> Option<u32> {
        let more = limit.saturating_sub(self.limit);
        self.limit += more;
        (more > 0).then_some(more)
    }
}
