//! The planned order of the copies of one batch.

use super::order::position;
use super::{MessageOrder, PeerOrder, Schedule, Weight, balance};
use crate::{NodeRng, PeerId};

/// One planned copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The message's place in the batch.
    pub(super) index: u32,
    pub(super) peer: PeerId,
    /// The peer's place among all peers of a balanced batch, otherwise 0.
    pub(super) column: u32,
}

/// All copies of a batch in the order in which they leave if nothing is in their way.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// What shuffled rounds are derived from.
    pub(super) seed: u64,
    /// The number of peers of a balanced batch, otherwise 0.
    pub(super) columns: usize,
}

impl Plan {
    /// Plans copies for the peers of each message.
    pub(super) fn new(
        mut targets: Vec<Vec<PeerId>>,
        schedule: &Schedule,
        weight_of: impl Fn(PeerId, Weight) -> f64,
        rng: &mut NodeRng,
    ) -> Self {
        let (messages, peers) = match *schedule {
            Schedule::Sequential | Schedule::Staggered { .. } => return Self::in_a_loop(&targets),
            Schedule::Interleaved { messages, peers } | Schedule::Feedback { messages, peers, .. } => {
                (messages, peers)
            }
            // What a queue without room for all keeps, and nothing else.
            Schedule::Custom(_) => (MessageOrder::AsGiven, PeerOrder::AsGiven),
        };
        let seed = match messages {
            MessageOrder::AsGiven => 0,
            MessageOrder::Shuffled => rng.next_u64(),
        };
        match peers {
            PeerOrder::AsGiven => {}
            PeerOrder::Random => targets.iter_mut().for_each(|peers| rng.shuffle(peers)),
            PeerOrder::Weighted(weight) => {
                targets.iter_mut().for_each(|peers| by_weight(peers, |peer| weight_of(peer, weight), rng));
            }
            PeerOrder::Balanced => {
                let (steps, columns) = balance::plan(&targets, messages, seed);
                return Self { steps, seed, columns };
            }
        }
        let mut steps = Vec::with_capacity(targets.iter().map(Vec::len).sum());
        for (round, indices) in rounds(&targets, messages, seed) {
            steps.extend(indices.into_iter().map(|index| Step {
                index,
                peer: targets[index as usize][round as usize],
                column: 0,
            }));
        }
        Self { steps, seed, columns: 0 }
    }

    fn in_a_loop(targets: &[Vec<PeerId>]) -> Self {
        let of_message = |(index, peers): (usize, &Vec<PeerId>)| -> Vec<Step> {
            peers.iter().map(|peer| Step { index: index as u32, peer: *peer, column: 0 }).collect()
        };
        Self { steps: targets.iter().enumerate().flat_map(of_message).collect(), seed: 0, columns: 0 }
    }
}

/// The messages that have a copy in each round, in the order of the round.
pub(super) fn rounds(
    targets: &[Vec<PeerId>],
    order: MessageOrder,
    seed: u64,
) -> impl Iterator<Item = (u32, Vec<u32>)> + '_ {
    let last = targets.iter().map(Vec::len).max().unwrap_or(0) as u32;
    (0..last).map(move |round| {
        let mut indices: Vec<u32> = (0..targets.len() as u32)
            .filter(|index| targets[*index as usize].len() > round as usize)
            .collect();
        indices.sort_by_key(|index| (position(order, seed, round, *index), *index));
        (round, indices)
    })
}

/// Orders peers at random so that each place goes to one of the remaining peers with a probability in proportion to its
/// weight: sorted by an exponential variate with the weight as its rate, which is the order of the keys `u^(1/w)` of
/// Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97 (2006).
fn by_weight(peers: &mut [PeerId], weight_of: impl Fn(PeerId) -> f64, rng: &mut NodeRng) {
    let mut keyed: Vec<(f64, PeerId)> =
        peers.iter().map(|peer| (rng.exponential(1.0) / weight_of(*peer), *peer)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, (_, peer)) in peers.iter_mut().zip(keyed) {
        *place = peer;
    }
}
