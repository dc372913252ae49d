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
//! Loss, slow start, acknowledgements, busy uplinks of relays, queues and control traffic are all taken as free, and every
//! choice is taken in favour of the bound.

pub mod order;
pub mod postal;
mod spread;

use postal::{Model, Tree};
use spread::Blind;

/// What the bound depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits<'a> {
    /// The columns that each node (but the publisher) waits for.
    pub custody: Vec<&'a [u32]>,
    /// The downlink of each of these nodes in bits per second.
    pub downlink_bps: Vec<u64>,
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

impl Limits<'_> {
    /// Nanoseconds that a copy takes on a link of this rate, rounded down.
    fn serialisation_nanos(&self, bps: u64) -> u64 {
        (u128::from(self.copy_bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1))) as u64
    }
}

/// The lower bound of the mean time to custody in milliseconds, over the nodes that wait for anything; 0 if there are none.
///
/// The largest of three: that for every order of the columns whatever; that for orders that do not depend on who keeps what (which
/// is tighter, and holds where all nodes keep equally many: see `docs/bounds.md`); that of the nodes' own downlinks.
pub fn mean_custody_ms(limits: &Limits<'_>) -> f64 {
    let waiting = limits.custody.iter().zip(&limits.downlink_bps).filter(|(own, _)| !own.is_empty());
    let (custody, downlinks): (Vec<&[u32]>, Vec<u64>) = waiting.map(|(own, bps)| (*own, *bps)).unzip();
    if custody.is_empty() {
        return 0.0;
    }
    let model = Model {
        latency: limits.latency_nanos,
        relay_delay: limits.validation_nanos,
        serialisation: limits.serialisation_nanos(limits.relay_uplink_bps),
    };
    let columns = order::kept_columns(&custody);
    let first_copy = limits.serialisation_nanos(limits.publisher_uplink_bps) as f64;
    let own_downlink = custody
        .iter()
        .zip(&downlinks)
        .map(|(own, bps)| own.len() as f64 * limits.serialisation_nanos(*bps) as f64)
        .sum::<f64>()
        / custody.len() as f64
        + limits.latency_nanos as f64;
    let mut nanos = own_downlink.max(any_order(&custody, &columns, first_copy, &model));
    if custody.iter().all(|own| own.len() == custody[0].len()) {
        nanos = nanos.max(blind_order(&custody, &columns, first_copy, &model));
    }
    nanos / 1e6
}

/// Whatever the order: the least mean position of the nodes' last columns, and from there a spread in which the publisher
/// goes on with copies of every column as if they cost nothing.
fn any_order(custody: &[&[u32]], columns: &[u32], first_copy: f64, model: &Model) -> f64 {
    // The waiting nodes of a column, evenly distributed: the sum over the fastest of them is convex in their number.
    let most = custody.len().div_ceil(columns.len());
    let tree = model.tree(most);
    let last = tree.last().map_or(0.0, |last| *last as f64);
    // The publisher as one more sender: the trees of its copies, one after the other, merged.
    let copies = (0..most).map(|copy| copy as f64 * first_copy).take_while(|sent| *sent <= last);
    let mut arrivals: Vec<f64> =
        copies.flat_map(|sent| tree.iter().map(move |arrival| sent + *arrival as f64)).collect();
    arrivals.sort_unstable_by(f64::total_cmp);
    let floor = custody.len() / columns.len();
    let (fuller, all) = (custody.len() % columns.len(), columns.len());
    let sum = |count: usize| arrivals.iter().take(count).sum::<f64>();
    let spread = sum(floor) * (all - fuller) as f64 + sum(most) * fuller as f64;
    first_copy * order::least_mean_position(custody, columns) + spread / custody.len() as f64
}

/// Orders that do not depend on who keeps what: the expectation, less [`CONFIDENCE`] deviations of its mean over nodes.
/// All nodes keep equally many columns.
fn blind_order(custody: &[&[u32]], columns: &[u32], first_copy: f64, model: &Model) -> f64 {
    let subscribers = order::keepers(custody, columns);
    let (all, kept, nodes) = (columns.len(), custody[0].len() as u32, custody.len() as f64);
    let position = order::expected_last_position(kept, all as u32);
    let margin = CONFIDENCE * order::deviation_of_mean_position(custody, columns);

    let done: Vec<f64> =
        (1..=all).map(|position| order::done_by(kept, all as u32, position as u32)).collect();
    let later: Vec<f64> = done.iter().map(|done| 1.0 - done).collect();
    // Over all columns equally likely at a position, so many nodes have it last as are done there and not before.
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
    let mut by_count = std::collections::BTreeMap::<usize, f64>::new();
    subscribers.iter().for_each(|count| *by_count.entry(*count).or_default() += 1.0 / all as f64);
    let waiting: f64 = (0..all)
        .filter(|at| last_given_kept[*at] > 0.0)
        .flat_map(|at| by_count.iter().map(move |(count, share)| (at, *count, *share)))
        .map(|(at, count, share)| share * blind.waiting(at, count))
        .sum();
    first_copy * (position - margin).max(0.0) + waiting / nodes
}

/// A single order can suit the nodes of a single network better than it does on average. Four standard deviations are
/// exceeded once in 30,000 networks.
const CONFIDENCE: f64 = 4.0;

#[cfg(test)]
mod tests {
    use samara_engine::{NodeRng, Purpose};

    use super::*;

    fn drawn(nodes: usize, columns: u32, kept: usize, seed: u64) -> Vec<Vec<u32>> {
        let mut rng = NodeRng::new(seed, 0, Purpose::Topology);
        let mut all: Vec<u32> = (0..columns).collect();
        (0..nodes)
            .map(|_| {
                rng.shuffle(&mut all);
                all[..kept].to_vec()
            })
            .collect()
    }

    fn limits(custody: &[Vec<u32>], mbps: u64) -> Limits<'_> {
        Limits {
            custody: custody.iter().map(Vec::as_slice).collect(),
            downlink_bps: vec![mbps * 1_000_000; custody.len()],
            copy_bytes: 17_051,
            publisher_uplink_bps: mbps * 1_000_000,
            relay_uplink_bps: mbps * 1_000_000,
            latency_nanos: 50_000_000,
            validation_nanos: 0,
        }
    }

    #[test]
    fn the_post_s_case_is_bounded_by_about_a_second() {
        let custody = drawn(999, 128, 16, 1);
        let bounds = [10, 20, 50, 100].map(|mbps| mean_custody_ms(&limits(&custody, mbps)).round());
        // The publisher's uplink alone: 128 copies of 6.82 ms at 20 Mbit/s, and 50 ms of latency.
        assert!((950.0..1030.0).contains(&bounds[1]), "{bounds:?}");
        assert!(bounds.is_sorted_by(|slower, faster| slower > faster), "{bounds:?}");
    }

    #[test]
    fn a_single_node_waits_for_its_own_columns_only() {
        // 16 columns through one uplink: 16 * 6.8204 + 50 ms, whatever the order.
        for seed in 0..20 {
            let bound = mean_custody_ms(&limits(&drawn(1, 128, 16, seed), 20));
            assert!((bound - 159.13).abs() < 0.01, "{bound}");
        }
    }

    #[test]
    fn one_column_for_everybody_is_the_postal_model() {
        // Nobody else has it: 7 receivers, one unit of time for a copy and next to no latency. The publisher and whoever has it send:
        // 1, 2, 4, 8 holders after 1, 2, 3 units.
        let custody = vec![vec![0]; 7];
        let mut limits = limits(&custody, 20);
        limits.latency_nanos = 0;
        let unit = limits.serialisation_nanos(20_000_000) as f64 / 1e6;
        let bound = mean_custody_ms(&limits);
        let optimum = (1.0 + 2.0 * 2.0 + 4.0 * 3.0) / 7.0 * unit;
        assert!((bound - optimum).abs() < 1e-3, "{bound}, {optimum}");
    }

    #[test]
    fn a_slow_downlink_is_a_bound_of_its_own() {
        let custody = vec![vec![0, 1, 2, 3]; 2];
        let mut limits = limits(&custody, 20);
        limits.downlink_bps[1] = 1_000_000;
        // The mean of 4 copies at 20 and at 1 Mbit/s.
        let expected = 50.0 + (4.0 * 6.8204 + 4.0 * 136.408) / 2.0;
        assert!((mean_custody_ms(&limits) - expected).abs() < 0.01);
    }

    #[test]
    fn nodes_that_keep_different_numbers_are_bounded_whatever_the_order() {
        // Whoever keeps little is best served first, and the bound knows that.
        let custody = vec![vec![0], (1..64).collect::<Vec<u32>>()];
        let bound = mean_custody_ms(&limits(&custody, 20));
        let best = 50.0 + (1.0 + 64.0) / 2.0 * 6.8204;
        assert!((bound - best).abs() < 1e-3, "{bound}, {best}");
    }
}
