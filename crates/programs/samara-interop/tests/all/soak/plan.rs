//! The sequence of disturbances, which depends on the seed only.

use std::time::Duration;

use samara_engine::{NodeRng, Purpose};

/// An action on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// The process is killed, and starts again with its key.
    Restart,
    /// The process stops without closing its connections, and starts again with its key. The old
    /// connections close three seconds later.
    Overlap,
    /// The node resets all streams.
    Reset,
    /// The node closes all connections, and dials again.
    Reconnect,
    /// The node listens on another port, closes all connections, and dials again.
    Move,
}

impl Action {
    pub(super) const ALL: [Self; 5] =
        [Self::Restart, Self::Overlap, Self::Reset, Self::Reconnect, Self::Move];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Restart => "restarts",
            Self::Overlap => "restarts while its old connections are open",
            Self::Reset => "resets its streams",
            Self::Reconnect => "reconnects",
            Self::Move => "moves its address",
        }
    }
}

/// A disturbance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The time since the previous one.
    pub(super) after: Duration,
    pub(super) node: usize,
    pub(super) action: Action,
}

pub(super) struct Plan {
    rng: NodeRng,
    nodes: usize,
    /// The nodes whose turn has not come yet, and the actions that were not used yet.
    turns: Vec<usize>,
    actions: Vec<Action>,
}

/// Mean time between two disturbances of a node.
const INTERVAL: Duration = Duration::from_secs(6);

impl Plan {
    pub(super) fn new(seed: u64, nodes: usize) -> Self {
        let rng = NodeRng::new(seed, 0, Purpose::Workload);
        Self { rng, nodes, turns: Vec::new(), actions: Vec::new() }
    }

    /// Returns the next disturbance. All nodes take turns, in another order each time, and so do the
    /// actions.
    pub(super) fn next(&mut self) -> Step {
        if self.turns.is_empty() {
            self.turns.extend(0..self.nodes);
            self.rng.shuffle(&mut self.turns);
        }
        if self.actions.is_empty() {
            self.actions.extend(Action::ALL);
            self.rng.shuffle(&mut self.actions);
        }
        let after = INTERVAL.mul_f64(2.0 * self.rng.unit() / self.nodes as f64);
        let node = self.turns.pop().expect("a turn");
        let action = self.actions.pop().expect("an action");
        Step { after, node, action }
    }
}
