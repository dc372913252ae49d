//! A host's uplink: which of its links sends the next packet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::NicDiscipline;

/// The links that have something to send, in the order of the discipline.
#[derive(Debug)]
pub(crate) enum Nic {
    RoundRobin { turn: VecDeque<u32> },
    Fifo { by_rank: BinaryHeap<Reverse<(u64, u32)>> },
}

/// What the interface remembers of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum NicState {
    /// The link has nothing that could be sent now.
    #[default]
    Idle,
    /// The link waits for its turn with a packet of this rank.
    Waiting { rank: u64 },
}

impl Nic {
    pub(crate) fn new(discipline: NicDiscipline) -> Self {
        match discipline {
            NicDiscipline::RoundRobin => Self::RoundRobin { turn: VecDeque::new() },
            NicDiscipline::Fifo => Self::Fifo { by_rank: BinaryHeap::new() },
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::RoundRobin { turn } => turn.clear(),
            Self::Fifo { by_rank } => by_rank.clear(),
        }
    }

    /// The link has something to send whose first packet has this rank.
    pub(crate) fn wait(&mut self, link: u32, state: &mut NicState, rank: u64) {
        match self {
            Self::RoundRobin { turn } => {
                if *state == NicState::Idle {
                    turn.push_back(link);
                }
            }
            Self::Fifo { by_rank } => {
                if *state != (NicState::Waiting { rank }) {
                    by_rank.push(Reverse((rank, link)));
                }
            }
        }
        *state = NicState::Waiting { rank };
    }

    /// Whether links take turns now, packet by packet.
    pub(crate) fn shares(&self) -> bool {
        matches!(self, Self::RoundRobin { turn } if !turn.is_empty())
    }

    /// The link whose turn it is; the caller makes its state idle and puts it back if it has more to send. Entries of
    /// links that are idle or whose rank has changed are skipped.
    pub(crate) fn next(&mut self, state_of: impl Fn(u32) -> NicState) -> Option<u32> {
        match self {
            Self::RoundRobin { turn } => loop {
                let link = turn.pop_front()?;
                if state_of(link) != NicState::Idle {
                    return Some(link);
                }
            },
            Self::Fifo { by_rank } => loop {
                let Reverse((rank, link)) = by_rank.pop()?;
                if state_of(link) == (NicState::Waiting { rank }) {
                    return Some(link);
                }
            },
        }
    }
}
