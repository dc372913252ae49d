//! The lower bound of every order statistic of completion times: the k-th node that has its data,
//! for each k, with different rates and latencies.
//!
//! Each bound of the k-th completion time is the largest of these; `docs/bounds.md` derives them.
//!
//! 1. *Each node.* All bytes that a node waits for must have left the publisher, and the last of
//!    them needs the shortest path to the node. They must also pass the node's downlink.
//! 2. *All uplinks together.* k complete nodes hold the bytes that they waited for, and every byte
//!    came over some uplink. A node can relay nothing before anything can have reached it.
//! 3. *Pieces without a code.* The piece whose first copy leaves last must then multiply, which takes
//!    as long as in the postal model (Bar-Noy and Kipnis 1994). If nodes wait for different pieces,
//!    the pieces that have left limit the number of complete nodes.
//!
//! Loss, handshakes, windows, acknowledgements, control traffic and validation cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::nanos;
use crate::paths::{Links, Ordered, paths};

/// A network and the data that its nodes wait for. Hosts are numbered from 0.
#[derive(Clone)]
pub struct PayloadLimits<'a> {
    /// The host that has all data at time 0.
    pub publisher: u32,
    /// The rates of each host in bits per second.
    pub uplink_bps: Vec<u64>,
    pub downlink_bps: Vec<u64>,
    /// Minimum bytes on links that each host waits for, with the overhead of their packets; 0 for
    /// hosts that wait for nothing. That of the publisher is ignored.
    pub needed_bytes: Vec<u64>,
    /// Bytes that an idle link passes in no time: the token bucket of an uplink, and that of a
    /// downlink, or a packet that a downlink receives while it arrives.
    pub uplink_burst_bytes: u64,
    pub downlink_burst_bytes: u64,
    /// One-way latency from one host to another in nanoseconds.
    pub latency_nanos: &'a dyn Fn(u32, u32) -> u64,
    /// The ways that data can take.
    pub ways: Ways<'a>,
    /// The pieces, if no code makes others of them: data travel in whole pieces.
    pub pieces: Option<Pieces<'a>>,
}

/// The ways that data can take between hosts.
#[derive(Clone, Copy, Debug)]
pub enum Ways<'a> {
    /// Over these links only.
    Links(&'a [(u32, u32)]),
    /// Between all hosts. Weaker; takes time in proportion to the square of the number of hosts.
    Pairs,
    /// Between all hosts, no two of which are closer than this, in nanoseconds. Weaker again, for
    /// networks with too many links to visit.
    AtLeast(u64),
}

/// Pieces that nodes wait for.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// Minimum bytes of a piece on links.
    pub bytes: u64,
    /// The numbers of the pieces that each host waits for, all of them; those of the publisher are
    /// ignored.
    pub of: Vec<&'a [u32]>,
}

/// Lower bounds of the sorted completion times of the waiting nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Bounds in nanoseconds, ascending: one for each waiting node.
    times: Vec<f64>,
}

impl Curve {
    /// Returns the number of nodes that wait.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns true if no node waits.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns the bound of a quantile in milliseconds: of the ⌈q R⌉-th of R nodes. 0 if no node
    /// waits.
    pub fn quantile(&self, q: f64) -> f64 {
        let at = (q * self.times.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        self.times.get(at.min(self.times.len()).wrapping_sub(1)).map_or(0.0, |nanos| nanos / 1e6)
    }

    /// Returns the bound of the mean in milliseconds: each completion time has its bound. 0 if no
    /// node waits.
    pub fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64 / 1e6
    }

    /// Returns the bound of the last completion in milliseconds.
    pub fn last(&self) -> f64 {
        self.quantile(1.0)
    }

    /// Returns points of the curve: milliseconds, and the share of nodes that can be complete by
    /// then, ascending.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let all = self.times.len() as f64;
        self.times.iter().zip(1..).map(move |(nanos, count)| (nanos / 1e6, f64::from(count) / all))
    }
}

/// Returns the lower bound of every completion time, over all ways to spread the data.
///
/// # Panics
/// If the vectors of the limits have different lengths, or the publisher is not among the hosts.
pub fn payload(limits: &PayloadLimits<'_>) -> Curve {
    let hosts = limits.uplink_bps.len();
    assert!(
        limits.downlink_bps.len() == hosts && limits.needed_bytes.len() == hosts,
        "every host has rates and needs"
    );
    let publisher = limits.publisher as usize;
    let waits = |host: usize| host != publisher && limits.needed_bytes[host] > 0;
    let waiting: Vec<usize> = (0..hosts).filter(|host| waits(*host)).collect();
    if waiting.is_empty() {
        return Curve::default();
    }
    let distances = Distances::of(limits);
    let mut times = each_node(limits, &waiting, &distances);
    raise(&mut times, &all_uplinks(limits, &waiting, &distances));
    if let Some(pieces) = &limits.pieces {
        let common = pieces.of[waiting[0]];
        if waiting.iter().all(|host| pieces.of[*host] == common) {
            raise(&mut times, &last_piece(limits, waiting.len(), common.len(), pieces.bytes, &distances));
        } else {
            raise(&mut times, &subsets(limits, &waiting, pieces, &distances));
        }
    }
    // A later completion is no earlier than one before it.
    let mut most = 0.0;
    for time in &mut times {
        most = f64::max(most, *time);
        *time = most;
    }
    Curve { times }
}

fn raise(times: &mut [f64], bounds: &[f64]) {
    times.iter_mut().zip(bounds).for_each(|(time, bound)| *time = time.max(*bound));
}

/// Nanoseconds that bytes take on a link.
fn time(bytes: u64, bps: u64) -> f64 {
    nanos(bytes, bps) as f64
}

/// The term of each node, sorted.
fn each_node(limits: &PayloadLimits<'_>, waiting: &[usize], distances: &Distances) -> Vec<f64> {
    let up = limits.uplink_bps[limits.publisher as usize];
    let mut times: Vec<f64> = waiting
        .iter()
        .map(|host| {
            let bytes = limits.needed_bytes[*host];
            let sent = time(bytes.saturating_sub(limits.uplink_burst_bytes), up);
            let down = limits.downlink_bps[*host];
            let received = time(bytes.saturating_sub(limits.downlink_burst_bytes), down);
            sent.max(received) + distances.path[*host]
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// The term of all uplinks: the k nodes with the fewest bytes have received them all.
fn all_uplinks(limits: &PayloadLimits<'_>, waiting: &[usize], distances: &Distances) -> Vec<f64> {
    let mut needs: Vec<u64> = waiting.iter().map(|host| limits.needed_bytes[*host]).collect();
    needs.sort_unstable();
    // Each sender with the time from which its bytes count, and its bytes in a nanosecond.
    let rate = |host: usize| limits.uplink_bps[host] as f64 / 8e9;
    let mut senders: Vec<(f64, f64)> = (0..limits.uplink_bps.len())
        .map(|host| (distances.path[host] + distances.nearest[host], rate(host)))
        .filter(|(from, _)| from.is_finite())
        .collect();
    senders.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut senders = senders.into_iter().peekable();
    let (mut now, mut delivered, mut rates, mut needed) = (0.0, 0.0, 0.0, 0.0);
    let mut times = Vec::with_capacity(needs.len());
    for need in needs {
        needed += need as f64;
        while delivered < needed {
            let next = senders.peek().map_or(f64::INFINITY, |(from, _)| *from);
            let missing: f64 = needed - delivered;
            let end = if rates > 0.0 { now + missing / rates } else { f64::INFINITY };
            if end <= next {
                if end.is_infinite() {
                    // No link leads to anybody.
                    break;
                }
                (now, delivered) = (end, needed);
                break;
            }
            delivered += rates * (next - now);
            now = next;
            if let Some((_, rate)) = senders.next() {
                rates += rate;
                delivered += limits.uplink_burst_bytes as f64;
            }
        }
        times.push(now);
    }
    times
}

/// The term of the piece whose first copy leaves last, if all nodes wait for the same `count` pieces.
fn last_piece(
    limits: &PayloadLimits<'_>,
    nodes: usize,
    count: usize,
    bytes: u64,
    distances: &Distances,
) -> Vec<f64> {
    let publisher = limits.publisher as usize;
    let relays = limits.uplink_bps.iter().enumerate().filter(|(host, _)| *host != publisher);
    let fastest = relays.map(|(_, bps)| *bps).max().unwrap_or(1);
    let burst = limits.uplink_burst_bytes;
    let own = time(bytes, limits.uplink_bps[publisher]);
    let relayed = time(bytes.saturating_sub(burst), fastest);
    // Negative while the burst lasts.
    let sent = own * count as f64 - time(burst, limits.uplink_bps[publisher]);
    // Completed copies of the piece: those of the publisher, one after the other, and those of
    // all nodes that have it.
    let mut leaving = BinaryHeap::from([Reverse((Ordered(sent), Ordered(own)))]);
    let mut times = Vec::with_capacity(nodes);
    while times.len() < nodes
        && let Some(Reverse((Ordered(at), Ordered(every)))) = leaving.pop()
    {
        let arrival = at.max(0.0) + distances.least;
        times.push(arrival);
        leaving.push(Reverse((Ordered(at + every), Ordered(every))));
        leaving.push(Reverse((Ordered(arrival + relayed), Ordered(relayed))));
    }
    times
}

/// The term of pieces for nodes that wait for different ones: how many nodes can have all of theirs
/// among the pieces that have left.
///
/// A complete node has a weight of one, spread evenly over its pieces. The weights of any m pieces
/// are at most those of the m heaviest ones, so that no more nodes can be complete with m pieces.
fn subsets(
    limits: &PayloadLimits<'_>,
    waiting: &[usize],
    pieces: &Pieces<'_>,
    distances: &Distances,
) -> Vec<f64> {
    let all = waiting.iter().flat_map(|host| pieces.of[*host]).copied().max().map_or(0, |last| last + 1);
    let mut weights = vec![0.0; all as usize];
    for own in waiting.iter().map(|host| pieces.of[*host]) {
        own.iter().for_each(|piece| weights[*piece as usize] += 1.0 / own.len() as f64);
    }
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    let up = limits.uplink_bps[limits.publisher as usize];
    let nearest = waiting.iter().map(|host| distances.path[*host]).fold(f64::INFINITY, f64::min);
    let (mut left, mut covered) = (0_u64, 0.0);
    (1..=waiting.len())
        .map(|complete| {
            // Sums of shares come out just below a whole number.
            while covered + 1e-6 < complete as f64 && left < weights.len() as u64 {
                covered += weights[left as usize];
                left += 1;
            }
            time((left * pieces.bytes).saturating_sub(limits.uplink_burst_bytes), up) + nearest
        })
        .collect()
}

/// Latencies of the network, in nanoseconds.
struct Distances {
    /// The shortest path from the publisher to each host.
    path: Vec<f64>,
    /// The latency from each host to the nearest other host.
    nearest: Vec<f64>,
    /// The lowest latency of all.
    least: f64,
}

impl Distances {
    fn of(limits: &PayloadLimits<'_>) -> Self {
        let hosts = limits.uplink_bps.len();
        let (path, nearest) = match limits.ways {
            Ways::Links(links) => over_links(limits, hosts, links),
            Ways::Pairs => over_pairs(limits, hosts),
            Ways::AtLeast(least) => {
                let mut path = vec![least as f64; hosts];
                path[limits.publisher as usize] = 0.0;
                (path, vec![least as f64; hosts])
            }
        };
        let least = nearest.iter().copied().fold(f64::INFINITY, f64::min);
        Self { path, nearest, least }
    }
}

fn over_links(limits: &PayloadLimits<'_>, hosts: usize, links: &[(u32, u32)]) -> (Vec<f64>, Vec<f64>) {
    let mut neighbours: Links = vec![Vec::new(); hosts];
    let mut nearest = vec![f64::INFINITY; hosts];
    for (a, b) in links.iter().copied() {
        for (from, to) in [(a, b), (b, a)] {
            let latency = (limits.latency_nanos)(from, to) as f64;
            neighbours[from as usize].push((to, latency));
            nearest[from as usize] = nearest[from as usize].min(latency);
        }
    }
    (paths(&neighbours, limits.publisher), nearest)
}

fn over_pairs(limits: &PayloadLimits<'_>, hosts: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut path, mut nearest) = (vec![f64::INFINITY; hosts], vec![f64::INFINITY; hosts]);
    path[limits.publisher as usize] = 0.0;
    let mut open: Vec<usize> = (0..hosts).collect();
    // The nearest open host next, as there is a link between all pairs.
    while let Some(place) = (0..open.len()).min_by(|a, b| path[open[*a]].total_cmp(&path[open[*b]])) {
        let host = open.swap_remove(place);
        for to in (0..hosts).filter(|to| *to != host) {
            let latency = (limits.latency_nanos)(host as u32, to as u32) as f64;
            nearest[host] = nearest[host].min(latency);
            path[to] = path[to].min(path[host] + latency);
        }
    }
    (path, nearest)
}

#[cfg(test)]
mod tests;
