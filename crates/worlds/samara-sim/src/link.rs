//! One host's end of a link, and the uplink that the links of a host share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use samara_engine::Frame;

use crate::config::NicDiscipline;
use crate::explain::Carried;
use crate::packet::UNKNOWN_SLOT;
use crate::transport::{AnyEnd, Transport};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// The link does not exist.
    Down,
    /// This host has dialled.
    Dialling(Greeting),
    /// The other host has dialled and this one has answered.
    Answering(Greeting),
    /// The link carries frames.
    Up,
}

/// The last step of a handshake that a host has sent, which it repeats until the other one answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Its number; even from the dialler.
    pub(crate) step: u32,
    /// How often it was sent.
    pub(crate) tries: u32,
    /// The wait after the first time, in nanoseconds; doubled each time.
    pub(crate) wait: u64,
    /// The time at which it was sent first.
    pub(crate) since: u64,
}

/// One host's end of a link. Its index at the host is the engine's
/// [`PeerId`](samara_engine::PeerId).
#[derive(Debug)]
pub(crate) struct Link<F> {
    pub(crate) peer: u32,
    /// The slot of the link at the other host.
    pub(crate) peer_slot: u32,
    /// Counts the incarnations of the link.
    pub(crate) epoch: u32,
    pub(crate) state: LinkState,
    /// True if this host dialled the current incarnation.
    pub(crate) outbound: bool,
    /// The time at which this host last sent a step of the handshake.
    pub(crate) hello_at: u64,
    /// One-way latency to the peer in nanoseconds.
    pub(crate) latency: u64,
    /// The latest arrival so far at the peer; keeps packets in order under jitter.
    pub(crate) last_arrival: u64,
    pub(crate) end: AnyEnd<Carried<F>>,
    pub(crate) nic: NicState,
    /// Number of packets with only an acknowledgement that should leave.
    pub(crate) acks_due: u32,
    /// The deadline of an acknowledgement that waits for data to carry it; 0 if none waits.
    pub(crate) ack_by: u64,
    /// True while a timer for `ack_by` is running.
    pub(crate) ack_timer: bool,
    /// The time of the earliest running timer for lost packets; `u64::MAX` if none is running.
    pub(crate) loss_timer: u64,
    /// True if the link has data that the window lets out now.
    pub(crate) data_ready: bool,
    /// The time until which everything that this end sends is lost.
    pub(crate) cut_until: u64,
}

impl<F: Frame> Link<F> {
    pub(crate) fn new(peer: u32, latency: u64, transport: &Transport) -> Self {
        Self {
            peer,
            peer_slot: UNKNOWN_SLOT,
            epoch: 0,
            state: LinkState::Down,
            outbound: false,
            hello_at: 0,
            latency,
            last_arrival: 0,
            end: AnyEnd::new(transport),
            nic: NicState::Idle,
            acks_due: 0,
            ack_by: 0,
            ack_timer: false,
            loss_timer: u64::MAX,
            data_ready: false,
            cut_until: 0,
        }
    }

    pub(crate) fn reset(&mut self, epoch: u32, transport: &Transport) {
        self.epoch = epoch;
        self.end = AnyEnd::new(transport);
        self.acks_due = 0;
        self.ack_by = 0;
        self.data_ready = false;
    }

    /// Requests an acknowledgement at the next turn of the link.
    pub(crate) fn ack_is_due(&mut self, separate: bool) {
        self.acks_due = if separate { self.acks_due + 1 } else { 1 };
    }
}

/// The links with something to send, in the order of the discipline.
#[derive(Debug)]
pub(crate) enum Nic {
    RoundRobin { turn: VecDeque<u32> },
    Fifo { by_rank: BinaryHeap<Reverse<(u64, u32)>> },
}

/// The interface's state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum NicState {
    /// The link has nothing to send now.
    #[default]
    Idle,
    /// The link waits for its turn with a packet of this rank.
    Waiting { rank: u64 },
}

impl Nic {
    pub(crate) fn new(discipline: NicDiscipline) -> Self {
        match discipline {
            // The other queues are behind the connections.
            NicDiscipline::RoundRobin | NicDiscipline::FqCoDel(_) | NicDiscipline::DropTail(_) => {
                Self::RoundRobin { turn: VecDeque::new() }
            }
            NicDiscipline::Fifo => Self::Fifo { by_rank: BinaryHeap::new() },
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::RoundRobin { turn } => turn.clear(),
            Self::Fifo { by_rank } => by_rank.clear(),
        }
    }

    /// Queues a link whose first packet has this rank.
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

    /// Returns true if links currently take turns, packet by packet.
    pub(crate) fn shares(&self) -> bool {
        matches!(self, Self::RoundRobin { turn } if !turn.is_empty())
    }

    /// Returns the link whose turn it is. The caller sets its state to idle and queues it again if
    /// it has more to send. Skips entries of links that are idle or whose rank has changed.
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
