//! What is spoken on a link.

/// A wire format and its rules, as two nodes agree on them.
///
/// CometBFT has no such names: its nodes tell each other which channels they have. These stand for what the channels amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// `txs/1`: transactions only (channel 0x30). What the flooding pools understand.
    Flood,
    /// `cat/1`: announcements and requests besides, as merged in 2023 (channel 0x31).
    Cat,
    /// `cat/2`: our extensions besides.
    Extended,
    /// `cat/3`: as in 2026: announcements must have a signer and a sequence number, bodies that were not asked for are dropped.
    Sequenced,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Flood, Self::Cat, Self::Extended, Self::Sequenced];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flood => "txs/1",
            Self::Cat => "cat/1",
            Self::Extended => "cat/2",
            Self::Sequenced => "cat/3",
        }
    }

    /// The protocol of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Whether peers understand announcements and requests.
    pub(crate) const fn has_state(self) -> bool {
        !matches!(self, Self::Flood)
    }

    /// Whether peers take bodies that they did not ask for.
    pub(crate) const fn takes_pushes(self) -> bool {
        !matches!(self, Self::Sequenced)
    }

    pub(crate) const fn is_extended(self) -> bool {
        matches!(self, Self::Extended)
    }
}
