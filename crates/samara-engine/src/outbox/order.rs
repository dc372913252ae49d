//! The order of copies inside a lane.

use super::{FeedbackSource, MessageOrder};

/// By what copies of one lane are ordered, smallest first; ties go to the copy that was owed first.
///
/// While a copy is pending its key never decreases: rounds and loads only grow. Queues rely on that and bring a key up to
/// date only when it surfaces. Where a policy gives new keys, queues are made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Nanoseconds: since when it is owed, and the lane's patience for every round.
    pub(super) at: u64,
    pub(super) round: u32,
    /// The call that owed it.
    pub(super) origin: u64,
    /// 0 where a balanced plan is kept, otherwise one more than the copies that the peer got of the batch.
    pub(super) tier: u32,
    /// The place of the message in the round.
    pub(super) position: u64,
    /// The place of the peer in the message's order.
    pub(super) preference: u32,
}

impl Key {
    /// The same without the peer's place: equal for copies of one message that only the peer order tells apart.
    pub(super) const fn of_any_peer(self) -> Self {
        Self { preference: 0, ..self }
    }
}

/// How the round of a copy is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// By the copies of the message before it.
    Copies,
    /// By these and by what peers say.
    Feedback(FeedbackSource),
    /// By the copies of the message that left, and one at a time.
    Staggered,
    /// A policy orders the copies.
    Custom,
}

/// What the copies of one call with rounds have in common.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rounds: Rounds,
    pub(super) messages: MessageOrder,
    /// For shuffled rounds.
    pub(super) seed: u64,
    /// Copies that each peer got, by the column of the plan; empty unless the order is balanced.
    pub(super) loads: Vec<u32>,
    pub(super) live: u32,
}

/// The place of a message in a round. A shuffled round is ordered by a hash, so that any round can be asked for at any
/// time (the finaliser of SplitMix64: Steele, Lea, Flood 2014).
pub(super) fn position(order: MessageOrder, seed: u64, round: u32, message: u32) -> u64 {
    match order {
        MessageOrder::AsGiven => u64::from(message),
        MessageOrder::Shuffled => {
            let cell = (u64::from(round) << 32) | u64::from(message);
            let mut z = seed ^ cell.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }
}
