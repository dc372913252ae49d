//! What a sender knows of each segment in flight while something is missing (RFC 6675).

use std::collections::VecDeque;

/// Segments above a hole that must have arrived before it counts as lost (DupThresh, RFC 6675 section 2).
const DUP_THRESHOLD: u32 = 3;

const SACKED: u8 = 1;
const LOST: u8 = 2;
const SENT_AGAIN: u8 = 4;

/// The state of the segments from the first unacknowledged one on.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    first: u32,
    states: VecDeque<u8>,
    /// Segments that arrived beyond a hole.
    sacked: u32,
    /// Segments that count as lost and were not sent again yet.
    lost: u32,
    /// No segment before this one is waiting to be sent again.
    hint: u32,
}

impl Scoreboard {
    pub(crate) fn new(una: u32) -> Self {
        Self { first: una, hint: una, ..Self::default() }
    }

    /// Segments that are not in the network: arrived or lost.
    pub(crate) fn absent(&self) -> u32 {
        self.sacked + self.lost
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Everything before `una` has arrived. Returns how many of these segments were not known to have arrived before.
    pub(crate) fn advance(&mut self, una: u32) -> u32 {
        let mut news = 0;
        while self.first < una {
            let state = self.states.pop_front().unwrap_or(0);
            self.first += 1;
            if state & SACKED != 0 {
                self.sacked -= 1;
            } else {
                news += 1;
                if state & (LOST | SENT_AGAIN) == LOST {
                    self.lost -= 1;
                }
            }
        }
        self.hint = self.hint.max(una);
        news
    }

    /// The segments `from..to` have arrived. Returns how many of them are news.
    pub(crate) fn sack(&mut self, from: u32, to: u32) -> u32 {
        let mut news = 0;
        for seq in from.max(self.first)..to {
            let state = self.state_mut(seq);
            if *state & SACKED == 0 {
                let was_waiting = *state & (LOST | SENT_AGAIN) == LOST;
                *state |= SACKED;
                self.sacked += 1;
                news += 1;
                if was_waiting {
                    self.lost -= 1;
                }
            }
        }
        news
    }

    /// Marks as lost what has enough arrivals above it. Returns whether there is anything to send again.
    pub(crate) fn find_lost(&mut self) -> bool {
        let mut above = self.sacked;
        for state in &mut self.states {
            if above < DUP_THRESHOLD {
                break;
            }
            if *state & SACKED != 0 {
                above -= 1;
            } else if *state & LOST == 0 {
                *state |= LOST;
                self.lost += 1;
            }
        }
        self.hint = self.first;
        self.lost > 0
    }

    /// After a timeout everything up to `nxt` that has not arrived counts as lost (RFC 5681 section 3.1; what was
    /// sent again before, once more).
    pub(crate) fn all_lost(&mut self, nxt: u32) {
        if nxt > self.first {
            self.state_mut(nxt - 1);
        }
        self.lost = 0;
        for state in &mut self.states {
            if *state & SACKED == 0 {
                *state = LOST;
                self.lost += 1;
            }
        }
        self.hint = self.first;
    }

    /// Takes the first segment that is to be sent again.
    pub(crate) fn take_lost(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let start = (self.hint - self.first) as usize;
        for (i, state) in self.states.iter_mut().enumerate().skip(start) {
            if *state & (LOST | SACKED | SENT_AGAIN) == LOST {
                *state |= SENT_AGAIN;
                self.lost -= 1;
                let seq = self.first + i as u32;
                self.hint = seq + 1;
                return Some(seq);
            }
        }
        debug_assert!(false, "the count of lost segments is wrong");
        None
    }

    fn state_mut(&mut self, seq: u32) -> &mut u8 {
        let index = (seq - self.first) as usize;
        if self.states.len() <= index {
            self.states.resize(index + 1, 0);
        }
        &mut self.states[index]
    }
}
