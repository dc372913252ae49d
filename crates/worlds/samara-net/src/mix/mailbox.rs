//! The results of finished rounds, which a node keeps for receivers that come later.
//!
//! Receivers fetch rounds whole. The node learns from them who asks, when, and for which rounds; it
//! cannot tell which payload of a round somebody reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samara_mix::Outcome;

use super::gateway::Ended;
use super::options::GatewayOptions;
use super::proto::{KeptRound, KeptRounds};

/// Maximum number of rounds in an answer: some 20 KiB.
pub(super) const LISTED_MAX: usize = 1024;
/// Bytes of a kept round beside its outcomes: places in two tables.
const ROUND_BYTES: usize = 256;

struct Kept {
    position: u64,
    round: u64,
    bytes: usize,
    at: Instant,
    ended: Arc<Ended>,
}

/// Results by the order of their ends, within bounds of number, bytes and time. The oldest leave first.
pub(super) struct Mailbox {
    rounds_max: usize,
    bytes_max: usize,
    keep: Duration,
    kept: VecDeque<Kept>,
    /// The position of each kept round.
    by_round: BTreeMap<u64, u64>,
    bytes: usize,
    /// The position of the next result. Those of a later process are larger than those of this one, so
    /// that receivers go on after a restart.
    next: u64,
    /// The highest round that has left.
    gone: Option<u64>,
    left: u64,
    /// All results since then are here.
    complete_since: Instant,
}

impl Mailbox {
    /// Creates an empty mailbox, whose first position is a time.
    pub(super) fn new(options: &GatewayOptions, first: u64, now: Instant) -> Self {
        Self {
            rounds_max: options.results_max,
            bytes_max: (options.results_kib as usize).saturating_mul(1024),
            keep: options.results_kept,
            kept: VecDeque::new(),
            by_round: BTreeMap::new(),
            bytes: 0,
            next: first,
            gone: None,
            left: 0,
            complete_since: now,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of results that have left.
    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    pub(super) const fn gone(&self) -> Option<u64> {
        self.gone
    }

    pub(super) fn contains(&self, round: u64) -> bool {
        self.by_round.contains_key(&round)
    }

    pub(super) fn get(&self, round: u64) -> Option<&Arc<Ended>> {
        let position = *self.by_round.get(&round)?;
        let at = self.kept.binary_search_by_key(&position, |kept| kept.position).ok()?;
        Some(&self.kept[at].ended)
    }

    /// Keeps the result of a round that is not here.
    pub(super) fn push(&mut self, round: u64, ended: Arc<Ended>, now: Instant) {
        self.expire(now);
        let bytes = bytes_of(&ended);
        let position = self.next;
        self.next += 1;
        self.by_round.insert(round, position);
        self.bytes += bytes;
        self.kept.push_back(Kept { position, round, bytes, at: now, ended });
        // The last one stays, whatever its size: its senders wait for it.
        while self.kept.len() > 1 && (self.kept.len() > self.rounds_max || self.bytes > self.bytes_max) {
            self.drop_oldest();
        }
    }

    /// Drops the results whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.due().is_some_and(|due| due <= now) {
            self.drop_oldest();
        }
    }

    /// Returns the time at which the oldest result leaves.
    pub(super) fn due(&self) -> Option<Instant> {
        self.kept.front().and_then(|oldest| oldest.at.checked_add(self.keep))
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.kept.pop_front() else { return };
        self.by_round.remove(&oldest.round);
        self.bytes -= oldest.bytes;
        self.gone = self.gone.max(Some(oldest.round));
        self.left += 1;
        self.complete_since = oldest.at;
    }

    /// Lists rounds that ended after a position, from a round number on.
    pub(super) fn list(&mut self, from: u64, after: u64, now: Instant) -> KeptRounds {
        self.expire(now);
        // A position of the future is that of a clock that was set back.
        let after = if after < self.next { after } else { 0 };
        let begin = self.kept.partition_point(|kept| kept.position <= after);
        let mut listed = KeptRounds {
            rounds: Vec::new(),
            after,
            gone: self.gone.map_or(0, |round| round.saturating_add(1)),
            reach_s: now.duration_since(self.complete_since).as_secs(),
        };
        for kept in self.kept.iter().skip(begin) {
            if listed.rounds.len() >= LISTED_MAX {
                break;
            }
            listed.after = kept.position;
            if kept.round >= from {
                let slots = match &*kept.ended {
                    Ended::Delivered(outcomes) => outcomes.len() as u32,
                    Ended::Failed { .. } => 0,
                };
                listed.rounds.push(KeptRound { round: kept.round, slots });
            }
        }
        listed
    }
}

fn bytes_of(ended: &Ended) -> usize {
    let outcomes = match ended {
        Ended::Delivered(outcomes) => outcomes.iter().map(|outcome| match outcome {
            Outcome::Content(content) => size_of::<Outcome>() + content.len(),
            Outcome::Void | Outcome::Unreadable => size_of::<Outcome>(),
        }),
        Ended::Failed { cause, .. } => return ROUND_BYTES + cause.len(),
    };
    ROUND_BYTES + outcomes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn mailbox(change: impl FnOnce(&mut GatewayOptions)) -> (Mailbox, Instant) {
        let mut options = GatewayOptions::new(([127, 0, 0, 1], 0).into());
        change(&mut options);
        let now = Instant::now();
        (Mailbox::new(&options, 1000, now), now)
    }

    fn delivered(bytes: usize) -> Arc<Ended> {
        Arc::new(Ended::Delivered(vec![Outcome::Content(Bytes::from(vec![1; bytes])), Outcome::Void]))
    }

    fn numbers(listed: &KeptRounds) -> Vec<(u64, u32)> {
        listed.rounds.iter().map(|kept| (kept.round, kept.slots)).collect()
    }

    #[test]
    fn results_leave_after_their_time() {
        let (mut mailbox, start) = mailbox(|options| options.results_kept = Duration::from_secs(10));
        let after = |seconds| start + Duration::from_secs(seconds);
        mailbox.push(7, delivered(1), after(1));
        mailbox.push(8, delivered(1), after(4));
        assert_eq!((mailbox.due(), mailbox.list(0, 0, after(10)).reach_s), (Some(after(11)), 10));
        let listed = mailbox.list(0, 0, after(11));
        assert_eq!((numbers(&listed), listed.gone, listed.reach_s), (vec![(8, 2)], 8, 10));
        assert!(mailbox.get(7).is_none() && mailbox.get(8).is_some());
        mailbox.expire(after(14));
        assert_eq!((mailbox.len(), mailbox.bytes(), mailbox.left(), mailbox.gone()), (0, 0, 2, Some(8)));
    }

    #[test]
    fn results_take_bounded_bytes() {
        let (mut mailbox, now) = mailbox(|options| options.results_kib = 16);
        for round in 1..=100 {
            mailbox.push(round, delivered(4096), now);
            assert!(mailbox.bytes() <= 16 << 10);
        }
        assert_eq!((mailbox.len(), mailbox.left()), (3, 97));
        // Failed rounds and void slots count as well.
        for round in 101..=10_000 {
            mailbox.push(round, Arc::new(Ended::Failed { cause: "x".repeat(100), culprit: None }), now);
            assert!(mailbox.bytes() <= 16 << 10);
        }
        assert!(mailbox.len() < 50 && mailbox.by_round.len() == mailbox.len());
        // A result that is larger than all of the mailbox is there until the next one.
        mailbox.push(20_000, delivered(1 << 20), now);
        assert!(mailbox.len() == 1 && mailbox.contains(20_000));
        mailbox.push(20_001, delivered(1), now);
        assert!(mailbox.len() == 1 && mailbox.contains(20_001));
    }

    #[test]
    fn results_are_bounded_in_number() {
        let (mut mailbox, now) = mailbox(|options| options.results_max = 5);
        (1..=9).for_each(|round| mailbox.push(round, delivered(1), now));
        let listed = mailbox.list(0, 0, now);
        let expected: Vec<(u64, u32)> = (5..=9).map(|round| (round, 2)).collect();
        assert_eq!((numbers(&listed), listed.gone), (expected, 5));
    }

    /// Rounds end in another order than that of their numbers, and a receiver gets each once.
    #[test]
    fn a_receiver_goes_on_where_it_was() {
        let (mut mailbox, now) = mailbox(|_| {});
        mailbox.push(12, delivered(1), now);
        mailbox.push(10, Arc::new(Ended::Failed { cause: "timeout".to_owned(), culprit: None }), now);
        let first = mailbox.list(0, 0, now);
        assert_eq!((numbers(&first), first.gone), (vec![(12, 2), (10, 0)], 0));
        mailbox.push(11, delivered(1), now);
        let second = mailbox.list(0, first.after, now);
        assert_eq!(numbers(&second), [(11, 2)]);
        let third = mailbox.list(0, second.after, now);
        assert_eq!((numbers(&third), third.after), (vec![], second.after));
        assert_eq!(numbers(&mailbox.list(11, 0, now)), [(12, 2), (11, 2)]);
        // Another process had larger positions.
        assert_eq!(numbers(&mailbox.list(0, u64::MAX, now)).len(), 3);
    }

    #[test]
    fn an_answer_has_bounded_length() {
        use prost::Message;
        let (mut mailbox, now) = mailbox(|_| {});
        let rounds = 2 * LISTED_MAX as u64 + 1;
        (0..rounds).for_each(|round| mailbox.push(u64::MAX - round, delivered(0), now));
        let (mut after, mut all, mut answers) = (0, 0, 0);
        loop {
            let listed = mailbox.list(0, after, now);
            assert!(listed.encoded_len() <= 20 << 10);
            if listed.rounds.is_empty() {
                break;
            }
            (after, all, answers) = (listed.after, all + listed.rounds.len() as u64, answers + 1);
        }
        assert_eq!((all, answers), (rounds, 3));
    }
}
