//! What the scheduler decides for a round.

use samara_engine::Shape;

/// How slots travel between the nodes of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "config",
    derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Transfer {
    /// Each piece leaves as soon as it is worked on (`StreamPostPhase` of the original, since October 2019).
    Streamed,
    /// All slots of a phase in one frame, once the last one is worked on (`PostPhase`).
    Unary,
}

impl Transfer {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Streamed, Self::Unary];

    /// What options and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streamed => "streamed",
            Self::Unary => "unary",
        }
    }
}

/// A round as the scheduler makes it. All nodes of the team know the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its number: larger than those of all earlier ones.
    pub round: u64,
    /// The nodes, in order, by their numbers in the pool.
    pub team: Vec<u32>,
    /// How many slots it has.
    pub batch: u32,
    /// Slots that are worked on, and sent, together: in the precomputation.
    pub precomputation_slots: u32,
    /// The same in real time.
    pub realtime_slots: u32,
    /// How slots travel.
    pub transfer: Transfer,
    /// How results get from the last node to all the others.
    pub shape: Shape,
}

impl Plan {
    /// The seat of a node, if it is in the team.
    pub fn seat_of(&self, node: u32) -> Option<u16> {
        self.team.iter().position(|member| *member == node).map(|seat| seat as u16)
    }

    /// The seats that a seat passes a piece of the result on to.
    pub(crate) fn children(&self, seat: u16, first: u32) -> impl Iterator<Item = u16> {
        let members = self.team.len();
        let piece = u64::from(first / self.realtime_slots);
        self.shape.children(members, (members - 1) as u16, seat, piece).into_iter()
    }
}
