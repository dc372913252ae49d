//! Lower bounds over all schedules: of the mean time to custody, of every completion time, and of
//! every delivery of a message.
//!
//! The bound of the mean time to custody ([`mean_custody`]) is for equal latencies and many columns;
//! [`payload`](payload()) bounds every order statistic in networks with different rates and latencies,
//! and [`paths`](paths()) each delivery of a message.
//!
//! The bound of the mean adds two times that no way of publishing can avoid. `docs/bounds.md` derives it.
//!
//! 1. *One copy of every column must pass the publisher's uplink.* A copy has at least `S` bytes on
//!    the wire and the uplink passes `B` bits per second. The first copy of the `k`-th column in the
//!    order of complete transmission thus cannot be sent before `k * 8 S / B`. A node is complete
//!    only after the last of its columns in that order has been sent (`least_mean_position`).
//! 2. *From there the column must spread to its subscribers.* The fastest spread is that of the
//!    postal model: each holder of the column sends copies back to back on the fastest uplink in the
//!    network; the receiver has the whole copy after the least latency and forwards it at once
//!    (`Model`).
//!
//! Loss, slow start, acknowledgements, busy uplinks of relays, queues and control traffic cost
//! nothing in the model. Every choice favours the bound.

mod paths;
mod payload;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use samara_engine::{NodeRng, Purpose};

pub use paths::{Links, paths};
pub use payload::{Curve, PayloadLimits, Pieces, Ways, payload};

#[derive(Clone, Debug, PartialEq)]
pub struct Limits<'a> {
    /// The columns that each node except the publisher waits for.
    pub custody: Vec<&'a [u32]>,
    /// The downlink of each of these nodes, in bits per second.
    pub downlink_bps: Vec<u64>,
    /// Minimum bytes on the wire of one copy of a column, with framing and headers.
    pub copy_bytes: u64,
    /// Maximum bytes of a packet. An idle downlink receives a packet while it arrives, so that the
    /// first one takes no further time.
    pub packet_bytes: u64,
    /// Bytes that an idle uplink passes in no time: its token bucket, or 0.
    pub burst_bytes: u64,
    pub publisher_uplink_bps: u64,
    /// The fastest uplink of any other node, in bits per second.
    pub relay_uplink_bps: u64,
    /// Minimum one-way latency between two nodes, in nanoseconds.
    pub latency_nanos: u64,
    /// Minimum time that a node needs to validate a message, in nanoseconds.
    pub validation_nanos: u64,
    /// Whether each of these nodes may request columns from the publisher, so that the order of first
    /// copies may depend on its custody.
    pub asking: Vec<bool>,
}

impl Limits<'_> {
    /// Returns the nanoseconds that a copy takes on a link of this rate, rounded down.
    fn serialisation_nanos(&self, bps: u64) -> u64 {
        nanos(self.copy_bytes, bps)
    }

    /// Returns the nanoseconds that copies take on an idle downlink.
    fn receipt_nanos(&self, copies: usize, bps: u64) -> u64 {
        nanos((copies as u64 * self.copy_bytes).saturating_sub(self.packet_bytes), bps)
    }
}

fn nanos(bytes: u64, bps: u64) -> u64 {
    (u128::from(bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1))) as u64
}

/// Returns the lower bound of the mean time to custody in milliseconds, over all nodes that wait
/// for columns; 0 if there are none.
///
/// It is the largest of three bounds: for every order of the columns; for orders that are
/// independent of custody; and for the nodes' own downlinks. The second is tighter, and holds for
/// nodes that request nothing and have equally many columns: see `docs/bounds.md`.
pub fn mean_custody(limits: &Limits<'_>) -> Bound {
    let waiting = || {
        let nodes = limits.custody.iter().zip(&limits.downlink_bps).zip(&limits.asking);
        nodes.filter(|((own, _), _)| !own.is_empty())
    };
    let (custody, downlinks): (Vec<&[u32]>, Vec<u64>) = waiting().map(|((own, bps), _)| (*own, *bps)).unzip();
    if custody.is_empty() {
        return Bound::default();
    }
    let model = Model {
        latency: limits.latency_nanos,
        relay_delay: limits.validation_nanos,
        // A relay may begin each copy with a full bucket.
        serialisation: nanos(limits.copy_bytes.saturating_sub(limits.burst_bytes), limits.relay_uplink_bps),
    };
    let columns = kept_columns(&custody);
    let first_copy = limits.serialisation_nanos(limits.publisher_uplink_bps) as f64;
    let own_downlink = custody
        .iter()
        .zip(&downlinks)
        .map(|(own, bps)| limits.receipt_nanos(own.len(), *bps) as f64)
        .sum::<f64>()
        / custody.len() as f64
        + limits.latency_nanos as f64;
    // The bucket shifts all copies of the publisher: first ones, and those of which they are ahead.
    let burst = nanos(limits.burst_bytes, limits.publisher_uplink_bps) as f64;
    let without = |(first, rest): (f64, f64)| {
        let first_copies = (first - burst).max(0.0);
        Bound::of_nanos((first_copies, (rest - burst - (burst - first).max(0.0)).max(0.0)))
    };
    let any = without(any_order(&custody, &columns, first_copy, &model));
    let mut bound = Bound::of_nanos((0.0, own_downlink)).max(any);
    let others: Vec<&[u32]> = waiting().filter(|(_, asks)| !**asks).map(|((own, _), _)| *own).collect();
    if let Some(first) = others.first()
        && others.iter().all(|own| own.len() == first.len())
    {
        let columns = kept_columns(&others);
        let blind = without(blind_order(&others, &columns, first_copy, &model));
        // A node that asks is done after its latency at the earliest.
        let share = others.len() as f64 / custody.len() as f64;
        let asking_ms = (1.0 - share) * limits.latency_nanos as f64 / 1e6;
        bound = bound.max(Bound {
            total_ms: share * blind.total_ms + asking_ms,
            first_copies_ms: share * blind.first_copies_ms,
        });
    }
    bound
}

/// A lower bound of a mean time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    pub total_ms: f64,
    /// The part until the first copies have passed the publisher's uplink.
    pub first_copies_ms: f64,
}

impl Bound {
    fn of_nanos((first_copies, rest): (f64, f64)) -> Self {
        Self { total_ms: (first_copies + rest) / 1e6, first_copies_ms: first_copies / 1e6 }
    }

    fn max(self, other: Self) -> Self {
        if other.total_ms > self.total_ms { other } else { self }
    }

    /// Returns the parts of the bound in milliseconds: first copies, their spread, and latencies with
    /// validations. The last part is the difference to the same bound in a network without latency.
    pub fn parts_ms(self, limits: &Limits<'_>, bound: impl Fn(&Limits<'_>) -> Self) -> [f64; 3] {
        // The model needs positive times.
        let near = bound(&Limits { latency_nanos: 1, validation_nanos: 0, ..limits.clone() });
        let least = self.first_copies_ms.min(self.total_ms);
        let near = near.total_ms.clamp(least, self.total_ms);
        [least, near - least, self.total_ms - near]
    }
}

/// Returns a lower bound of the mean time in milliseconds until a node has any `needed` of its
/// columns, or all of them if it keeps fewer.
///
/// It is simpler, and lower, than [`mean_custody`]: that many columns pass the publisher's uplink
/// and the node's downlink, at the same time, and travel for the least latency.
pub fn mean_any(limits: &Limits<'_>, needed: usize) -> Bound {
    let waiting = limits.custody.iter().zip(&limits.downlink_bps).filter(|(own, _)| !own.is_empty());
    let times: Vec<(f64, f64)> = waiting
        .map(|(own, bps)| {
            let copies = own.len().min(needed);
            let bytes = (copies as u64 * limits.copy_bytes).saturating_sub(limits.burst_bytes);
            let sent = if limits.burst_bytes > 0 {
                nanos(bytes, limits.publisher_uplink_bps)
            } else {
                copies as u64 * limits.serialisation_nanos(limits.publisher_uplink_bps)
            };
            let all = sent.max(limits.receipt_nanos(copies, *bps)) + limits.latency_nanos;
            (sent as f64, (all - sent) as f64)
        })
        .collect();
    let mean = |part: fn(&(f64, f64)) -> f64| times.iter().map(part).sum::<f64>() / times.len().max(1) as f64;
    Bound::of_nanos((mean(|(sent, _)| *sent), mean(|(_, rest)| *rest)))
}

/// Returns the bound for every order of the columns, in nanoseconds: first copies, and the rest.
///
/// It is the least mean position of the nodes' last columns, plus a spread in which further copies
/// from the publisher cost nothing.
fn any_order(custody: &[&[u32]], columns: &[u32], first_copy: f64, model: &Model) -> (f64, f64) {
    // The waiting nodes are spread evenly over the columns: the sum over the fastest is convex in
    // their number.
    let most = custody.len().div_ceil(columns.len());
    let tree = model.tree(most);
    let last = tree.last().map_or(0.0, |last| *last as f64);
    // The publisher is one more sender: merge the trees of its successive copies.
    let copies = (0..most).map(|copy| copy as f64 * first_copy).take_while(|sent| *sent <= last);
    let mut arrivals: Vec<f64> =
        copies.flat_map(|sent| tree.iter().map(move |arrival| sent + *arrival as f64)).collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    let floor = custody.len() / columns.len();
    let (fuller, all) = (custody.len() % columns.len(), columns.len());
    let sum = |count: usize| arrivals.iter().take(count).sum::<f64>();
    let spread = sum(floor) * (all - fuller) as f64 + sum(most) * fuller as f64;
    (first_copy * least_mean_position(custody, columns), spread / custody.len() as f64)
}

/// Returns the bound for orders that are independent of custody, in nanoseconds: first copies, and the
/// rest.
///
/// It is the expectation less [`CONFIDENCE`] standard deviations of its mean over the nodes. All
/// nodes must have equally many columns.
fn blind_order(custody: &[&[u32]], columns: &[u32], first_copy: f64, model: &Model) -> (f64, f64) {
    let subscribers = keepers(custody, columns);
    let (all, kept, nodes) = (columns.len(), custody[0].len() as u32, custody.len() as f64);
    let position = expected_last_position(kept, all as u32);
    let margin = CONFIDENCE * deviation_of_mean_position(custody, columns);

    let done: Vec<f64> = (1..=all).map(|position| done_by(kept, all as u32, position as u32)).collect();
    let later: Vec<f64> = done.iter().map(|done| 1.0 - done).collect();
    // Averaged over the columns that can take a position, this many nodes have their last column
    // there.
    let keeping = subscribers.iter().sum::<usize>() as f64 / all as f64;
    let last_given_kept: Vec<f64> =
        (0..all).map(|at| (done[at] - if at > 0 { done[at - 1] } else { 0.0 }) * nodes / keeping).collect();
    let tree = Tree::new(model, subscribers.iter().copied().max().unwrap_or(0));
    let blind = Blind {
        copy: first_copy,
        positions: all,
        nodes,
        last_given_kept: &last_given_kept,
        later: &later,
        tree: &tree,
    };
    let mut by_count = BTreeMap::<usize, f64>::new();
    subscribers.iter().for_each(|count| *by_count.entry(*count).or_default() += 1.0 / all as f64);
    let waiting: f64 = (0..all)
        .filter(|at| last_given_kept[*at] > 0.0)
        .flat_map(|at| by_count.iter().map(move |(count, share)| (at, *count, *share)))
        .map(|(at, count, share)| share * blind.waiting(at, count))
        .sum();
    (first_copy * (position - margin).max(0.0), waiting / nodes)
}

/// Number of standard deviations between the expectation and the bound.
///
/// A single order can suit the nodes of a single network better than it does on average. One
/// network in 30,000 exceeds four standard deviations.
const CONFIDENCE: f64 = 4.0;

/// Number of random orders for estimating the spread of the mean position.
///
/// It gives the standard deviation to within a tenth.
const ORDERS: u32 = 64;

/// Returns the expected position, counted from 1, of the last of `kept` out of `all` columns.
///
/// The order is independent of custody, so this is the expected maximum of a random subset.
fn expected_last_position(kept: u32, all: u32) -> f64 {
    f64::from(kept) * f64::from(all + 1) / f64::from(kept + 1)
}

/// Estimates the standard deviation, over random orders, of the mean position over these nodes.
///
/// A formula of the numbers alone cannot give it: nodes with the same columns finish together.
fn deviation_of_mean_position(custody: &[&[u32]], columns: &[u32]) -> f64 {
    let mut rng = NodeRng::new(0, 0, Purpose::Engine);
    let mut order: Vec<u32> = (1..=columns.len() as u32).collect();
    let last = columns.iter().copied().max().map_or(0, |last| last as usize + 1);
    let mut position = vec![0; last];
    let means: Vec<f64> = (0..ORDERS)
        .map(|_| {
            rng.shuffle(&mut order);
            columns.iter().zip(&order).for_each(|(column, at)| position[*column as usize] = *at);
            let lasts = custody.iter().map(|own| own.iter().map(|column| position[*column as usize]).max());
            lasts.map(|last| f64::from(last.unwrap_or(0))).sum::<f64>() / custody.len() as f64
        })
        .collect();
    let mean = means.iter().sum::<f64>() / f64::from(ORDERS);
    (means.iter().map(|found| (found - mean).powi(2)).sum::<f64>() / f64::from(ORDERS - 1)).sqrt()
}

/// Returns the least mean position of the last column over all orders, even one made for these
/// nodes.
///
/// The last of `c` different positions is at least `(c - 1) / 2` behind their mean. The sum of all
/// these means is a weighted sum of the positions, where a column's weight is the sum of `1 / c`
/// over its custodians. It is least if heavy columns go first.
fn least_mean_position(custody: &[&[u32]], columns: &[u32]) -> f64 {
    let last = columns.iter().copied().max().map_or(0, |last| last as usize + 1);
    let mut weights = vec![0.0; last];
    let mut behind = 0.0;
    for own in custody {
        own.iter().for_each(|column| weights[*column as usize] += 1.0 / own.len() as f64);
        behind += (own.len() as f64 - 1.0) / 2.0;
    }
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    let means: f64 = (1..).map(f64::from).zip(&weights).map(|(position, weight)| position * weight).sum();
    (means + behind) / custody.len() as f64
}

/// Returns the columns that at least one node has in custody, sorted.
fn kept_columns(custody: &[&[u32]]) -> Vec<u32> {
    let mut columns: Vec<u32> = custody.iter().copied().flatten().copied().collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Returns the number of nodes with custody of each of these columns.
fn keepers(custody: &[&[u32]], columns: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; columns.last().map_or(0, |last| *last as usize + 1)];
    custody.iter().copied().flatten().for_each(|column| counts[*column as usize] += 1);
    columns.iter().map(|column| counts[*column as usize]).collect()
}

/// Returns the probability that all of `kept` out of `all` columns are among the first `position`
/// ones.
///
/// The order is independent of custody.
fn done_by(kept: u32, all: u32, position: u32) -> f64 {
    (0..kept).map(|drawn| f64::from(position.saturating_sub(drawn)) / f64::from(all - drawn)).product()
}

/// The fastest spread of a message in the postal model, with times in nanoseconds.
///
/// Bar-Noy and Kipnis, "Designing broadcasting algorithms in the postal model for message-passing
/// systems" (1992): a node that has the message sends a copy in every unit of time, and a copy
/// arrives after a fixed latency. The optimum for every number of nodes is to send at once and
/// always to a node without the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    /// Time from the end of sending a copy until the receiver has it whole.
    latency: u64,
    /// Minimum time from then until the receiver forwards it.
    relay_delay: u64,
    /// Time that any node except the source needs to send a copy.
    serialisation: u64,
}

impl Model {
    /// Returns the arrival times at the first `count` nodes that descend from a single copy of the
    /// source.
    ///
    /// The times are in ascending order and count from the moment at which the source has sent that
    /// copy.
    fn tree(&self, count: usize) -> Vec<u64> {
        // Times at which any node has sent a copy.
        let mut sent = BinaryHeap::from([(Reverse(0), true)]);
        let mut arrivals = Vec::with_capacity(count);
        while arrivals.len() < count {
            let Some((Reverse(at), by_source)) = sent.pop() else { break };
            let arrival = at + self.latency;
            arrivals.push(arrival);
            sent.push((Reverse(arrival + self.relay_delay + self.serialisation), false));
            if !by_source {
                sent.push((Reverse(at + self.serialisation), false));
            }
        }
        arrivals
    }
}

/// Cumulative arrivals at the nodes that descend from one copy of the source.
#[derive(Clone, Debug)]
struct Tree {
    arrivals: Vec<u64>,
    sums: Vec<f64>,
}

impl Tree {
    fn new(model: &Model, count: usize) -> Self {
        let arrivals = model.tree(count);
        let mut sums = Vec::with_capacity(count + 1);
        sums.push(0.0);
        arrivals.iter().for_each(|arrival| sums.push(sums[sums.len() - 1] + *arrival as f64));
        Self { arrivals, sums }
    }

    fn span(&self) -> f64 {
        self.arrivals.last().map_or(0.0, |last| *last as f64)
    }

    fn reached(&self, time: f64) -> usize {
        self.arrivals.partition_point(|arrival| *arrival as f64 <= time)
    }

    /// Returns the integral of [`reached`](Self::reached) from the start to a time: the total time
    /// for which nodes have had the message.
    fn held(&self, time: f64) -> f64 {
        let reached = self.reached(time);
        reached as f64 * time - self.sums[reached]
    }
}

/// Properties of orders that are independent of custody.
struct Blind<'a> {
    /// Nanoseconds that the publisher needs for a copy.
    copy: f64,
    positions: usize,
    nodes: f64,
    /// The probability, for each position (counted from 0), that a custodian of its column has all
    /// its other columns before it.
    last_given_kept: &'a [f64],
    /// The share of nodes whose last column is behind each position.
    later: &'a [f64],
    tree: &'a Tree,
}

impl Blind<'_> {
    /// Returns a lower bound of the total waiting time for the column at a position (counted from
    /// 0), in nanoseconds.
    ///
    /// A node waits from the first copy of the column until it has the column, if the column is its
    /// last one. The result is the sum over these of the `subscribers`, less the cost that further
    /// copies of the column cause to others.
    ///
    /// With `S(t)` subscribers reached at `t` after the first copy, they wait
    /// `integral of max(0, m - S(t))`. That is at least `integral from 0 to T of m - S(t)` for any
    /// `T`. `S` is a sum over the publisher's copies. A copy that leaves before all first copies have
    /// left delays every node that finishes later. `T` is so small that no such copy is worth its
    /// cost; the sum over them thus cannot be negative and can be left out.
    fn waiting(&self, position: usize, subscribers: usize) -> f64 {
        let weight = self.last_given_kept[position];
        let full = |time: f64| self.reached(position, time) >= subscribers as f64;
        let horizon = largest(|time| !full(time), self.horizon(position));
        weight * (subscribers as f64 * horizon - self.held(position, horizon))
    }

    /// Returns a time by which every spread is over: twice that of a single tree. Searches start
    /// there.
    fn upper(&self) -> f64 {
        2.0 * self.tree.span()
    }

    /// Returns the largest `T` at which no further copy of the column at this position is worth its
    /// cost.
    fn horizon(&self, position: usize) -> f64 {
        let weight = self.last_given_kept[position];
        // It is sent no earlier than one copy's time after the first copies up to its slot.
        let sent = |slot: usize| (slot - position + 1) as f64 * self.copy;
        let affordable = |time: f64| {
            (position..self.positions - 1).take_while(|slot| sent(*slot) < time).all(|slot| {
                weight * self.tree.held(time - sent(slot)) <= self.copy * self.nodes * self.later[slot]
            })
        };
        largest(affordable, self.upper())
    }

    /// Returns the departure times of the publisher's copies of the column that cost nothing.
    ///
    /// These are the first copy and all copies after the first copies of all columns.
    fn free_copies(&self, position: usize, until: f64) -> impl Iterator<Item = f64> {
        let (copy, rest) = (self.copy, self.positions - position);
        let after =
            (0..).map(move |further| (rest + further) as f64 * copy).take_while(move |at| *at < until);
        std::iter::once(0.0).chain(after)
    }

    fn reached(&self, position: usize, time: f64) -> f64 {
        self.free_copies(position, time).map(|sent| self.tree.reached(time - sent) as f64).sum()
    }

    fn held(&self, position: usize, time: f64) -> f64 {
        self.free_copies(position, time).map(|sent| self.tree.held(time - sent)).sum()
    }
}

/// Returns the largest time up to `upper` at which a monotonic predicate holds, or slightly less.
///
/// The predicate must hold early and fail late.
fn largest(holds: impl Fn(f64) -> bool, upper: f64) -> f64 {
    let (mut low, mut high) = (0.0, upper);
    if holds(high) {
        return high;
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests;
