//! What no schedule can fall below: the lower bound of the mean time to custody.
//!
//! The bound adds two things that every way of publishing has to wait for. It is derived in `docs/bounds.md`.
//!
//! 1. *One copy of every column has to pass the publisher's uplink.* A copy has `S` bytes on the wire at least and the
//!    uplink lets `B` bits per second through, so that the first copy of the `k`-th column to be sent in full cannot be
//!    sent before `k * 8 S / B`. A node is not done before the last of its columns in that order was sent
//!    ([`order`]).
//! 2. *From there the column has to spread to its subscribers.* The fastest way is that of the postal model: whoever has
//!    the column sends copies back to back on the fastest uplink there is, every copy is received whole after the least
//!    latency, and is passed on at once ([`postal`]).
//!
//! Loss, slow start, acknowledgements, busy uplinks of relays, downlinks, queues and control traffic are all taken as
//! free, and every choice is taken in favour of the bound.

pub mod order;
pub mod postal;
mod spread;

use postal::{Model, Tree};
use spread::Blind;

/// What the bound depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Least bytes on the wire of one copy of a column, with framing and headers.
    pub copy_bytes: u64,
    /// The publisher's uplink in bits per second.
    pub publisher_uplink_bps: u64,
    /// The fastest uplink of any other node in bits per second.
    pub relay_uplink_bps: u64,
    /// The least one-way latency between two nodes in nanoseconds.
    pub latency_nanos: u64,
    /// The least time that a node takes to validate a message, in nanoseconds.
    pub validation_nanos: u64,
}

impl Limits {
    /// Nanoseconds that a copy takes on a link of this rate, rounded down.
    fn serialisation_nanos(&self, bps: u64) -> u64 {
        (u128::from(self.copy_bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1))) as u64
    }
}

/// The lower bound of the mean time to custody in milliseconds, over the nodes of `custody` other than the publisher that
/// keep anything. 0 if there are none.
///
/// The larger of two bounds: that for every order of the columns whatever, and that for orders that do not depend on who
/// keeps what (all that protocols use), which is tighter in large networks.
pub fn mean_time_to_custody_ms(custody: &[Vec<u16>], publisher: u32, limits: &Limits) -> f64 {
    let others: Vec<&[u16]> = custody
        .iter()
        .enumerate()
        .filter(|(node, own)| *node != publisher as usize && !own.is_empty())
        .map(|(_, own)| own.as_slice())
        .collect();
    if others.is_empty() {
        return 0.0;
    }
    let model = Model {
        latency: limits.latency_nanos,
        relay_delay: limits.validation_nanos,
        serialisation: limits.serialisation_nanos(limits.relay_uplink_bps),
    };
    let first_copy = limits.serialisation_nanos(limits.publisher_uplink_bps) as f64;
    let nanos = f64::max(any_order(&others, first_copy, &model), blind_order(&others, first_copy, &model));
    nanos / 1e6
}

/// Whatever the order: the greedy one for who keeps what, each column reaching those first who have been waiting for it
/// only, and the publisher going on with copies of every column as if they cost nothing.
fn any_order(others: &[&[u16]], first_copy: f64, model: &Model) -> f64 {
    let finished = order::finished_by_position(others);
    let most = finished.iter().copied().max().unwrap_or(0);
    // The publisher as one more sender: the trees of its copies, one after the other, merged.
    let tree = model.tree(most);
    let last = tree.last().map_or(0.0, |last| *last as f64);
    let copies = (0..most).map(|copy| copy as f64 * first_copy).take_while(|sent| *sent <= last);
    let mut arrivals: Vec<f64> =
        copies.flat_map(|sent| tree.iter().map(move |arrival| sent + *arrival as f64)).collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    let mut reached = vec![0.0];
    arrivals.iter().take(most).for_each(|arrival| reached.push(reached[reached.len() - 1] + arrival));
    let times = finished
        .iter()
        .enumerate()
        .map(|(at, nodes)| first_copy * (at + 1) as f64 * *nodes as f64 + reached[*nodes]);
    times.sum::<f64>() / others.len() as f64
}

/// Orders that do not depend on who keeps what: the expectation, less [`CONFIDENCE`] deviations of its mean over nodes.
fn blind_order(others: &[&[u16]], first_copy: f64, model: &Model) -> f64 {
    let subscribers = order::keepers(others);
    let columns = subscribers.len();
    let nodes = others.len() as f64;
    let kept: Vec<u32> = others.iter().map(|own| own.len() as u32).collect();
    let mean = |of: &dyn Fn(u32) -> f64| kept.iter().map(|kept| of(*kept)).sum::<f64>() / nodes;
    let position = mean(&|kept| order::expected_last_position(kept, columns as u32));
    let variance = mean(&|kept| order::variance_of_last_position(kept, columns as u32));
    let margin = CONFIDENCE * (variance / nodes).sqrt();

    let all: f64 = subscribers.iter().sum::<usize>() as f64;
    let done = |position: usize| mean(&|kept| order::done_by(kept, columns as u32, position as u32 + 1));
    let done: Vec<f64> = (0..columns).map(done).collect();
    let later: Vec<f64> = done.iter().map(|done| 1.0 - done).collect();
    // Over all columns equally likely at a position, so many nodes have it last as are done there and not before.
    let last_given_kept: Vec<f64> = (0..columns)
        .map(|at| (done[at] - if at > 0 { done[at - 1] } else { 0.0 }) * nodes * columns as f64 / all)
        .collect();
    let most = subscribers.iter().copied().max().unwrap_or(0);
    let tree = Tree::new(model, most);
    let last_given_kept = last_given_kept.as_slice();
    let blind =
        Blind { copy: first_copy, positions: columns, nodes, last_given_kept, later: &later, tree: &tree };
    let mut by_count = std::collections::BTreeMap::<usize, f64>::new();
    subscribers.iter().for_each(|count| *by_count.entry(*count).or_default() += 1.0 / columns as f64);
    let waiting: f64 = (0..columns)
        .filter(|at| last_given_kept[*at] > 0.0)
        .flat_map(|at| by_count.iter().map(move |(count, share)| (at, *count, *share)))
        .map(|(at, count, share)| share * blind.waiting(at, count))
        .sum();
    first_copy * (position - margin).max(0.0) + waiting / nodes
}

/// A single order can suit the nodes of a single network better than it does on average. Four standard deviations of the
/// mean over nodes are exceeded once in 30,000 networks.
const CONFIDENCE: f64 = 4.0;
