//! What slots go through in a round, in this order.

/// A phase of a round. In each, slots pass all nodes of the team, from the first to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Precomputation: each node multiplies its `R` and `U` into encrypted keys.
    PrecomputeDecrypt,
    /// Precomputation: each node permutes, and multiplies its `S` and `V` into them.
    PrecomputePermute,
    /// Precomputation: each node takes its share of the key off; the last one strips the keys and keeps what is left.
    Reveal,
    /// Real time: each node replaces its key with a sender by its `R` and `U`.
    Decrypt,
    /// Real time: each node permutes, and multiplies by its `S` and `V`; the last one identifies the payloads.
    Permute,
    /// The last node sends all payloads to everybody.
    Result,
}

/// When slots of a phase may leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Each as soon as it is ready.
    SlotWise,
    /// None before all have come: a permutation that begins earlier tells what it permutes.
    Barrier,
}

/// The half of a round that a phase belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// Work that somebody waits for: goes first, on the CPU and on the wire.
    RealTime,
    /// Work ahead of time.
    Precomputation,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 6] = [
        Self::PrecomputeDecrypt,
        Self::PrecomputePermute,
        Self::Reveal,
        Self::Decrypt,
        Self::Permute,
        Self::Result,
    ];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrecomputeDecrypt => "precompute_decrypt",
            Self::PrecomputePermute => "precompute_permute",
            Self::Reveal => "reveal",
            Self::Decrypt => "decrypt",
            Self::Permute => "permute",
            Self::Result => "result",
        }
    }

    /// When its slots may leave a node.
    pub const fn gate(self) -> Gate {
        match self {
            Self::PrecomputePermute | Self::Permute => Gate::Barrier,
            Self::PrecomputeDecrypt | Self::Reveal | Self::Decrypt | Self::Result => Gate::SlotWise,
        }
    }

    /// The half of the round it belongs to.
    pub const fn half(self) -> Half {
        match self {
            Self::PrecomputeDecrypt | Self::PrecomputePermute | Self::Reveal => Half::Precomputation,
            Self::Decrypt | Self::Permute | Self::Result => Half::RealTime,
        }
    }

    /// What slots go through after it: at the first node again, but for results. `None` ends the precomputation, or the round.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::PrecomputeDecrypt => Some(Self::PrecomputePermute),
            Self::PrecomputePermute => Some(Self::Reveal),
            Self::Decrypt => Some(Self::Permute),
            Self::Permute => Some(Self::Result),
            Self::Reveal | Self::Result => None,
        }
    }

    /// Elements of a slot as it comes to a node.
    pub const fn elements(self) -> usize {
        match self {
            // Keys and ciphertexts of both payloads.
            Self::PrecomputeDecrypt | Self::PrecomputePermute => 4,
            Self::Reveal | Self::Decrypt | Self::Permute | Self::Result => 2,
        }
    }

    /// Its number on the wire.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.number() == number)
    }
}
