//! The best shape for a workload, by closed forms, and a simulation of a broadcast in rounds.

use std::collections::VecDeque;

use super::{Shape, formula};

/// The input of an estimate: the messages and the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Number of members of the group.
    pub members: usize,
    /// Number of members that broadcast at the same time.
    pub senders: usize,
    /// Payload of a message in bytes, without framing.
    pub message_bytes: u64,
    /// Size of the chunks of larger messages, in bytes.
    pub chunk_bytes: u64,
    /// Rate of each member's link in each direction, in bytes per second.
    pub link_bytes_per_s: f64,
    /// Time for passing a unit on, including latency, in seconds.
    pub hop_s: f64,
}

/// The estimated performance of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The shape that was estimated.
    pub shape: Shape,
    /// Seconds until everybody has one message of every sender, if all start together.
    pub seconds: f64,
    /// Bytes per second that each sender can broadcast permanently.
    pub rate: f64,
    /// The upper bound of `rate` in any shape ([`formula::rate_max`]).
    pub rate_max: f64,
}

impl Estimate {
    /// Returns `rate` as a share of the bound, at most 1.
    pub fn share(&self) -> f64 {
        self.rate / self.rate_max
    }
}

/// Estimates the performance of a shape. The busiest link sends or receives a number of copies of
/// each unit, one in each round, and the last copy travels down to the last member.
///
/// For a single sender this is X(N-1) rounds with direct sending and X+N-2 along the chain.
pub fn estimate(shape: Shape, workload: &Workload) -> Estimate {
    let Workload { members, senders, message_bytes, chunk_bytes, link_bytes_per_s, hop_s } = *workload;
    let senders = senders.clamp(1, members.max(1));
    let units = message_bytes.div_ceil(chunk_bytes.max(1)).max(1) as f64;
    let round = hop_s + message_bytes as f64 / units / link_bytes_per_s;
    let copies = busiest(shape, members, senders);
    let below_first = f64::from(shape.hops(members).saturating_sub(1)) * level_rounds(shape);
    Estimate {
        shape,
        seconds: (units * copies + below_first) * round,
        rate: link_bytes_per_s / copies.max(f64::MIN_POSITIVE),
        rate_max: formula::rate_max(members as u64, senders as u64, link_bytes_per_s, link_bytes_per_s),
    }
}

/// Returns the rounds that a level adds. If a place has two children, the second one waits.
fn level_rounds(shape: Shape) -> f64 {
    match shape {
        Shape::Ring | Shape::Direct => 1.0,
        Shape::BinaryTree | Shape::DoubleTree => 2.0,
    }
}

/// Returns the maximum number of copies that any member sends or receives if the first `senders`
/// members send one unit each.
fn busiest(shape: Shape, members: usize, senders: usize) -> f64 {
    let (mut sent, mut received) = (vec![0.0; members], vec![0.0; members]);
    // Each of two ways carries half of the units.
    let (ways, share) = if shape.has_two_ways() { (2, 0.5) } else { (1, 1.0) };
    for (origin, me, way) in (0..senders)
        .flat_map(|origin| (0..members).map(move |me| (origin, me)))
        .flat_map(|(origin, me)| (0..ways).map(move |way| (origin, me, way)))
    {
        for child in shape.children(members, origin as u16, me as u16, way) {
            sent[me] += share;
            received[usize::from(child)] += share;
        }
    }
    sent.into_iter().chain(received).fold(0.0, f64::max)
}

/// The factor by which another shape must be faster than the ring to be chosen. The estimate
/// ignores that many senders delay each other at a receiver. This cost JGroups 2 % to 10 % of the
/// ring's throughput with all members sending (4 members, 100 Mbit/s).
const MARGIN: f64 = 1.05;

/// Returns the shape that serves everybody first, or the ring unless another shape is faster by a
/// margin of 5 %.
pub fn choose(workload: &Workload) -> Estimate {
    let mut best = estimate(Shape::Ring, workload);
    for shape in [Shape::DoubleTree, Shape::BinaryTree, Shape::Direct] {
        let other = estimate(shape, workload);
        let margin = if best.shape == Shape::Ring { MARGIN } else { 1.0 };
        if other.seconds * margin < best.seconds {
            best = other;
        }
    }
    best
}

// ---- simulated rounds of the post: in each, a member sends one unit and receives one ----

/// The transfer of a unit over a link in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The number of the unit, from 1.
    pub unit: u64,
    /// The rank of the member that sends it.
    pub from: u16,
    /// The rank of the member that receives it.
    pub to: u16,
}

/// Returns the transfers of each round until everybody has `units` units of member 0, ordered by
/// rank of the sender. Members send in the order in which they received. A sender whose receiver is
/// busy in a round waits for the next one.
pub fn rounds(shape: Shape, units: u64, members: u16) -> Vec<Vec<Transfer>> {
    let count = usize::from(members);
    let mut queues: Vec<VecDeque<Transfer>> = vec![VecDeque::new(); count];
    let enqueue = |queues: &mut Vec<VecDeque<Transfer>>, me: u16, unit: u64| {
        let children = shape.children(count, 0, me, unit);
        queues[usize::from(me)].extend(children.into_iter().map(|to| Transfer { unit, from: me, to }));
    };
    if members > 0 {
        (1..=units).for_each(|unit| enqueue(&mut queues, 0, unit));
    }
    let mut rounds = Vec::new();
    loop {
        let mut is_taken = vec![false; count];
        let mut transfers = Vec::new();
        for queue in &mut queues {
            let Some(transfer) = queue.front().copied() else { continue };
            if !std::mem::replace(&mut is_taken[usize::from(transfer.to)], true) {
                queue.pop_front();
                transfers.push(transfer);
            }
        }
        if transfers.is_empty() {
            return rounds;
        }
        transfers.iter().for_each(|transfer| enqueue(&mut queues, transfer.to, transfer.unit));
        rounds.push(transfers);
    }
}
