//! Shapes of broadcasts: the members that pass a message on, and the members they pass it to.

mod choose;
pub mod formula;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

pub use choose::{Estimate, Transfer, Workload, choose, estimate, rounds};

/// The ranks that a member passes a unit on to.
pub type Children = SmallVec<[u16; 2]>;

crate::names! {
    /// The paths of messages from their origins.
    #[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
    #[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
    pub enum Shape {
        /// From each member to its successor, until the next one would be the origin: DAISYCHAIN.
        /// For a single origin it is a chain that starts there.
        Ring = "ring",
        /// From the origin to everybody, as a group does over plain TCP.
        Direct = "direct",
        /// A binary tree with the origin at its root, pipelined by units.
        BinaryTree = "binary-tree",
        /// Two binary trees that take turns. A member that passes units on in one of them has no
        /// children in the other (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
        /// broadcast, reduction and scan", 2009; NCCL since 2.4). Every uplink is used, at a depth
        /// that grows with the logarithm of the members.
        DoubleTree = "double-tree",
    }
}

impl Shape {
    /// Returns the shape's number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the shape with this number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if units of one origin can take different ways and overtake each other.
    const fn has_two_ways(self) -> bool {
        matches!(self, Self::DoubleTree)
    }

    /// Returns the maximum number of links that a unit crosses in a group of `members`: its hop
    /// budget.
    pub fn hops(self, members: usize) -> u16 {
        let others = members.saturating_sub(1);
        let hops = match self {
            Self::Ring => others,
            Self::Direct => others.min(1),
            Self::BinaryTree => members.max(1).ilog2() as usize,
            Self::DoubleTree => double_tree_depth(others),
        };
        hops as u16
    }

    /// Returns the members that `me` passes a unit of `origin` on to. If `me` is the origin, these
    /// are its first receivers. Ranks are below `members`. In shapes with two ways, odd and even
    /// sequence numbers take different ways.
    pub fn children(self, members: usize, origin: u16, me: u16, sequence: u64) -> Children {
        let count = members;
        // A place is the distance from the origin in the order of ranks.
        let place = (usize::from(me) + count - usize::from(origin)) % count;
        let rank = |place: usize| ((usize::from(origin) + place) % count) as u16;
        match self {
            Self::Ring if place + 1 < count => Children::from_iter([rank(place + 1)]),
            Self::Direct if place == 0 => (1..count).map(rank).collect(),
            Self::Ring | Self::Direct => Children::new(),
            Self::BinaryTree => {
                [2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < count).map(rank).collect()
            }
            Self::DoubleTree => {
                double_tree_children(count - 1, place, sequence.is_multiple_of(2)).map(rank).collect()
            }
        }
    }
}

// ---- two binary trees over the places 1 to `others`, fed by the origin at place 0 ----
//
// The first tree is the in-order tree of NCCL (`ncclGetBtree` in `src/graph/trees.cc`): the height
// of a place is the number of trailing zeros of its number, so that odd places are leaves. The
// second tree is the first one with all places moved by one, so that even places are leaves.

/// Returns the children of a place in the first or the second tree. Place 0 has one child, the
/// root.
fn double_tree_children(others: usize, place: usize, second: bool) -> impl Iterator<Item = usize> {
    let places: SmallVec<[usize; 2]> = match (others, place) {
        (0, _) => SmallVec::new(),
        (_, 0) => SmallVec::from_iter([1 << others.ilog2()]),
        _ => below(others, if second { place % others + 1 } else { place }),
    };
    let moved =
        move |label: usize| if !second || label == 0 { label } else { (label + others - 2) % others + 1 };
    places.into_iter().map(moved)
}

fn below(others: usize, label: usize) -> SmallVec<[usize; 2]> {
    let height = label & label.wrapping_neg();
    let mut found = SmallVec::new();
    let mut step = height / 2;
    if step > 0 {
        found.push(label - step);
    }
    // The tree may be cut off at the right: the next lower existing place takes over.
    while step > 0 && label + step > others {
        step /= 2;
    }
    if step > 0 {
        found.push(label + step);
    }
    found
}

/// Returns the maximum number of links from the origin to a place.
fn double_tree_depth(others: usize) -> usize {
    if others == 0 { 0 } else { others.ilog2() as usize + 1 }
}

/// The setting for the paths of messages.
#[cfg(feature = "config")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeSetting {
    /// From each member to its successor.
    Ring,
    /// From the origin to everybody.
    #[default]
    Direct,
    /// A pipelined binary tree below each origin.
    BinaryTree,
    /// Two such trees in turn, in which no member passes units on in both.
    DoubleTree,
    /// The best shape by formula for the number of members and senders, the size of messages and
    /// chunks, rate and latency.
    ByFormula,
}

#[cfg(feature = "config")]
impl ShapeSetting {
    /// Returns the shape, or `None` if it is chosen by formula.
    pub fn fixed(self) -> Option<Shape> {
        match self {
            Self::Ring => Some(Shape::Ring),
            Self::Direct => Some(Shape::Direct),
            Self::BinaryTree => Some(Shape::BinaryTree),
            Self::DoubleTree => Some(Shape::DoubleTree),
            Self::ByFormula => None,
        }
    }
}

#[cfg(feature = "config")]
impl From<Shape> for ShapeSetting {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Ring => Self::Ring,
            Shape::Direct => Self::Direct,
            Shape::BinaryTree => Self::BinaryTree,
            Shape::DoubleTree => Self::DoubleTree,
        }
    }
}
