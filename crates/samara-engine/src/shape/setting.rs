//! Shapes as a configuration file states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Shape;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeSetting {
    /// Each member to its successor.
    Ring,
    /// The origin to everybody.
    Direct,
    /// A pipelined binary tree below each origin.
    BinaryTree,
    /// Two such trees in turn, in which nobody passes units on twice.
    DoubleTree,
    /// As is best by formula for the number of members and senders, the size of messages and chunks, rate and latency.
    ByFormula,
}

impl ShapeSetting {
    /// The shape; `None` if it is chosen by formula.
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
