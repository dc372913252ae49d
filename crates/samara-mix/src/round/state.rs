//! How far a round is: the states of the xx network's server and of its scheduling server.

/// How far a node is with a round.
///
/// The original's node is in one such state as a whole, because it works on one round at a time; here each round has its own. The
/// original's `NOT_STARTED` and `CRASH` are about the process, and have no round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// It knows of the round, and draws its secrets.
    Waiting,
    /// Keys are shared, and the precomputation is under way.
    Precomputing,
    /// Its part of the precomputation is done.
    Standby,
    /// Payloads pass.
    Realtime,
    /// It has all payloads.
    Completed,
    /// The round has failed.
    Error,
}

impl NodeState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Precomputing, Self::Standby, Self::Realtime, Self::Completed, Self::Error];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Precomputing => "precomputing",
            Self::Standby => "standby",
            Self::Realtime => "realtime",
            Self::Completed => "completed",
            Self::Error => "error",
        }
    }

    /// Whether one state can follow another: they come in order, none is left out, and all but the last can fail.
    pub const fn can_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Completed | Self::Error, _) => false,
            (_, Self::Error) => true,
            _ => next as u8 == self as u8 + 1,
        }
    }

    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

/// How far a round is, as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoundState {
    /// The team was told.
    Pending,
    /// All nodes of the team have begun.
    Precomputing,
    /// All nodes have finished the precomputation.
    Standby,
    /// The first node may take a batch.
    Queued,
    /// Payloads pass.
    Realtime,
    /// All nodes have all payloads; those that were lost meanwhile do not count.
    Completed,
    /// The round is dropped.
    Failed,
}

impl RoundState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Precomputing,
        Self::Standby,
        Self::Queued,
        Self::Realtime,
        Self::Completed,
        Self::Failed,
    ];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Precomputing => "precomputing",
            Self::Standby => "standby",
            Self::Queued => "queued",
            Self::Realtime => "realtime",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}
