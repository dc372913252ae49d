//! What the control API asks of the pool's task.

use tokio::sync::oneshot::Sender;

use crate::model::{Arrivals, PlannedReport};
use crate::node::schedule::{Late, Planned};

#[derive(Debug)]
pub(crate) enum PoolCommand {
    Plan(Vec<Planned>, Late, Sender<Result<Vec<u64>, String>>),
    Planned(Sender<Vec<PlannedReport>>),
    /// The answer is how many submissions will not be made.
    Cancel(Sender<usize>),
    /// Those from a number on.
    Arrivals(u64, Sender<Arrivals>),
}
