//! Which shape is best for a workload, by closed forms, and the rounds of a broadcast played out.

use std::collections::VecDeque;

use super::{Shape, formula};

/// What is to be broadcast, over what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Members of the group.
    pub members: usize,
    /// How many of them broadcast at the same time.
    pub senders: usize,
    /// Payload of a message, without framing.
    pub message_bytes: u64,
    /// Bytes of the chunks that larger messages travel in.
    pub chunk_bytes: u64,
    /// Bytes/s of each member's link, in each direction.
    pub link_bytes_per_s: f64,
    /// Seconds that it costs to hand a unit on, latency included.
    pub hop_s: f64,
}

/// What a shape would achieve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// What was estimated.
    pub shape: Shape,
    /// Seconds until everybody has one message of every sender, if all begin together.
    pub seconds: f64,
    /// Bytes/s that each sender can broadcast for ever.
    pub rate: f64,
    /// What no shape exceeds ([`formula::rate_max`]).
    pub rate_max: f64,
}

impl Estimate {
    /// The share of the bound, 1 at best.
    pub fn share(&self) -> f64 {
        self.rate / self.rate_max
    }
}

/// What a shape would achieve: the busiest link sends or receives so many copies of each unit, one a round, and the last one
/// has to come down to the last member.
///
/// For a single sender it is X(N-1) rounds directly and X+N-2 along the chain.
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
        rate_max: formula::rate_max(members as u64, senders as u64, link_bytes_per_s),
    }
}

/// Rounds that a level adds: where a place has two children, the second one waits.
fn level_rounds(shape: Shape) -> f64 {
    match shape {
        Shape::Ring | Shape::Direct => 1.0,
        Shape::BinaryTree | Shape::DoubleTree => 2.0,
    }
}

/// The most copies that any member sends or receives if the first `senders` members send one unit each.
fn busiest(shape: Shape, members: usize, senders: usize) -> f64 {
    let (mut sent, mut received) = (vec![0.0; members], vec![0.0; members]);
    // What goes two ways counts half for each.
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

/// By how much another shape must be faster than the ring to be chosen: what the estimate does not know, that many senders are in
/// each other's way at a receiver, cost JGroups 2 % to 10 % of the ring's throughput where all send (4 members, 100 Mbit/s).
const MARGIN: f64 = 1.05;

/// The shape that has everybody served first; the ring unless another one is faster by a margin of 5 %.
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

// ---- the rounds of the post, played out: in each round a member sends one unit and receives one ----

/// A unit that crosses a link in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The unit, from 1.
    pub unit: u64,
    /// The rank of the member that sends it.
    pub from: u16,
    /// The rank of the member that receives it.
    pub to: u16,
}

/// What crosses the links in each round until everybody has `units` units of member 0: the transfers of a round by rank of the
/// sender. Members send in the order in which they received; one whose receiver is taken in a round waits for the next.
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
