//! The state of each peer, its response time, and its reliability.

use std::collections::VecDeque;
use std::time::Duration;

use samara_engine::{PeerId, PeerIdentity, PeerMap, Time};
use sha2::{Digest, Sha256};

use super::items::ItemId;
use super::windows::Windows;
use crate::config::{Protocol, Standing as Rules};
use crate::wire::{CatFrame, PushedBy};

/// The address of a node: 20 bytes. The address of a CometBFT node is its identity; other
/// identities are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address([u8; Self::LEN]);

impl Address {
    const LEN: usize = 20;

    pub(super) fn of(identity: &PeerIdentity) -> Self {
        let bytes = identity.as_bytes();
        if let Ok(address) = bytes.try_into() {
            return Self(address);
        }
        let mut address = [0; Self::LEN];
        address.copy_from_slice(&Sha256::digest(bytes)[..Self::LEN]);
        Self(address)
    }

    pub(super) fn hex(&self) -> String {
        self.digits().collect()
    }

    fn digits(&self) -> impl Iterator<Item = char> {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16))
    }

    pub(super) fn short(&self) -> PushedBy {
        let (first, _) = self.0.split_at(8);
        PushedBy(first.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A request in the queue of its peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) item: ItemId,
    pub(super) serial: u32,
}

#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) address: Address,
    pub(super) protocol: Protocol,
    pub(super) persistent: bool,
    pub(super) height: Option<u64>,
    /// Its position among the neighbours: a hash that both ends of the link compute alike.
    pub(super) rank: u64,

    // ---- requests ----
    pub(super) response: ResponseTime,
    pub(super) record: Record,
    pub(super) live: usize,
    /// Requests in flight, plus those that timed out and are still remembered. They are limited.
    pub(super) slots: usize,
    /// These, plus remembered ones whose items have arrived from elsewhere.
    pub(super) asked: usize,
    /// Requests in the order in which they were sent. Some may already be answered or forgotten.
    pub(super) requests: VecDeque<Asked>,
    pub(super) answered: Option<(u32, Time)>,
    /// Keys that it announced, and that are not requested yet because it has too many requests.
    pub(super) waiting: VecDeque<ItemId>,
    /// Whether it is among the peers that may have got a free slot.
    pub(super) freed: bool,

    // ---- limits ----
    /// Number of keys that it is known to have.
    pub(super) keys: usize,
    /// Number of these keys that this node lacks.
    pub(super) unknown: usize,
    /// Number of times that it still gets transactions it already has.
    pub(super) repeats_left: u32,
    /// Number of its transactions that the application rejected.
    pub(super) invalid: u32,
    /// Number of its bodies that wait for earlier ones, and their bytes.
    pub(super) buffered: usize,
    pub(super) buffered_bytes: usize,

    // ---- sending ----
    /// Bodies that found no room in its queue.
    pub(super) backlog: VecDeque<ItemId>,
    /// Whether a [`Task::Retry`](super::Task::Retry) is on the agenda.
    pub(super) retrying: bool,
    /// Whether a [`Task::Resync`](super::Task::Resync) is on the agenda.
    pub(super) resyncing: bool,
    /// What was announced to it of each signer, ahead of what it is known to have.
    pub(super) windows: Windows,

    // ---- a sleeping receive loop ----
    pub(super) asleep: bool,
    /// The end of its last sleep.
    pub(super) wake_at: Time,
    pub(super) inbox: VecDeque<CatFrame>,
    /// Bytes of its waiting frames, here or in the queue of all peers.
    pub(super) waiting_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: PeerMap<Peer>,
    /// The connected peers by rank.
    ranked: Vec<PeerId>,
    /// Counts the changes of the set.
    pub(super) version: u64,
}

impl Peers {
    pub(super) fn insert(&mut self, id: PeerId, peer: Peer) {
        self.peers.insert(id, peer);
        self.rebuild();
    }

    pub(super) fn remove(&mut self, id: PeerId) -> Option<Box<Peer>> {
        let peer = self.peers.remove(id)?;
        self.rebuild();
        Some(peer)
    }

    fn rebuild(&mut self) {
        self.version += 1;
        let Self { peers, ranked, .. } = self;
        *ranked = peers.connected().to_vec();
        ranked.sort_by_key(|peer| peers.get(*peer).map(|peer| peer.rank));
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(id)
    }

    pub(super) fn len(&self) -> usize {
        self.all().len()
    }

    /// Returns the connected peers, in the order of their numbers.
    pub(super) fn all(&self) -> &[PeerId] {
        self.peers.connected()
    }

    /// Returns the connected peers, in the order of their ranks.
    pub(super) fn ranked(&self) -> &[PeerId] {
        &self.ranked
    }

    pub(super) fn find_short(&self, name: PushedBy) -> Option<PeerId> {
        self.find(|address| address.short() == name)
    }

    /// Returns the peer with this address, in the notation of a CometBFT node.
    pub(super) fn find_hex(&self, hex: &str) -> Option<PeerId> {
        self.find(|address| address.digits().eq(hex.chars().map(|digit| digit.to_ascii_lowercase())))
    }

    fn find(&self, is_it: impl Fn(&Address) -> bool) -> Option<PeerId> {
        let is_it = |peer: &PeerId| self.get(*peer).is_some_and(|peer| is_it(&peer.address));
        self.all().iter().copied().find(is_it)
    }
}

/// Returns the rank of a link, which is the same for both ends.
pub(super) fn rank(a: &Address, b: &Address) -> u64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    let digest = Sha256::new().chain_update(low.as_bytes()).chain_update(high.as_bytes()).finalize();
    digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

// ---- the response time of a peer ----

/// The estimator of RFC 6298, applied to the times from a request to its answer. These include the
/// transfer of the body and the delays of queues, flushes and checks on both sides.
///
/// An answer belongs to exactly one request, so late answers count as well, and Karn's algorithm is
/// not needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseTime {
    /// The smoothed time and its variation, in nanoseconds.
    smoothed: Option<(u64, u64)>,
    /// Number of times that the timeout has doubled since the last answer.
    timeouts: u32,
    doubled_at: Time,
}

impl ResponseTime {
    /// Records the response time of an answer. RFC 6298, (2.2) and (2.3).
    pub(super) fn sample(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX >> 3);
        self.timeouts = 0;
        self.smoothed = Some(match self.smoothed {
            None => (took, took / 2),
            Some((mean, variation)) => {
                let variation = variation - variation / 4 + mean.abs_diff(took) / 4;
                (mean - mean / 8 + took / 8, variation)
            }
        });
    }

    /// Records a timeout, so that later requests wait longer. RFC 6298, (5.5). Simultaneous
    /// requests are one round, of which only the first timeout counts.
    pub(super) fn timed_out(&mut self, sent_at: Time, now: Time) {
        if self.timeouts == 0 || sent_at >= self.doubled_at {
            self.timeouts = self.timeouts.saturating_add(1);
            self.doubled_at = now;
        }
    }

    pub(super) fn mean(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| Duration::from_nanos(mean))
    }

    /// Returns the time within which a request is usually answered: RFC 6298, (2.3), with `slack`
    /// instead of the clock granularity (as in Linux). `None` before the first sample.
    pub(super) fn usual(&self, slack: Duration) -> Option<Duration> {
        let (mean, variation) = self.smoothed?;
        Some(Duration::from_nanos(mean) + slack.max(Duration::from_nanos(variation.saturating_mul(4))))
    }

    /// Returns the time within which a request sent at `sent_at` should be answered: the usual
    /// time, doubled by each earlier round of timeouts. RFC 6298, (5.5). `None` before the first
    /// sample.
    pub(super) fn expected(&self, sent_at: Time, slack: Duration) -> Option<Duration> {
        let is_before = self.timeouts > 0 && sent_at < self.doubled_at;
        let doublings = self.timeouts - u32::from(is_before);
        Some(self.usual(slack)?.saturating_mul(1 << doublings.min(6)))
    }
}

// ---- the reliability of a peer ----

/// The reliability of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// The peer has lately answered more requests than it let time out.
    Good,
    /// The peer was never asked, or had no time to answer yet.
    Unproven,
    /// The peer lets more requests time out than it answers, or sends garbage.
    Bad,
}

/// The share of requests that a peer has answered, as an exponential average over the most recent
/// ones. A timeout weighs as much as two answers, and a denial a quarter of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// In units of 1/[`WHOLE`]; `None` before the first answer or timeout.
    share: Option<u16>,
    streak: u8,
    /// Number of times that the interval between probes has doubled.
    backoff: u8,
    probe_at: Time,
}

const WHOLE: u16 = 1_024;
/// A standing below this share is bad.
const HALF: u16 = WHOLE / 2;
/// Lower bound of a share, so that four answers end any bad standing.
const FLOOR: u16 = WHOLE / 4;
/// The share after the first answer: two timeouts in a row end a new good standing, and three an
/// old one.
const FIRST: u16 = WHOLE / 4 * 3;
/// Maximum number of doublings: the probes of a peer that never answers are up to 2^6 times as far
/// apart as the first ones.
const BACKOFF_MAX: u8 = 6;
/// Number of answers in a row that halve the interval between probes.
const STREAK: u8 = 16;

impl Record {
    pub(super) fn standing(&self) -> Standing {
        match self.share {
            None => Standing::Unproven,
            Some(share) if share >= HALF => Standing::Good,
            Some(_) => Standing::Bad,
        }
    }

    pub(super) fn answered(&mut self, now: Time) {
        self.share = Some(self.share.map_or(FIRST, |share| share + (WHOLE - share).div_ceil(8)));
        self.streak += 1;
        if self.streak == STREAK {
            self.streak = 0;
            self.backoff = self.backoff.saturating_sub(1);
        }
        // After an answer to a probe, the next probe may follow at once.
        self.probe_at = now;
    }

    /// Records that the peer did not answer in time, or sent garbage.
    pub(super) fn failed(&mut self, now: Time, rules: Option<&Rules>) {
        let share = self.share.unwrap_or(HALF);
        self.share = Some((share - share / 4).max(FLOOR));
        self.streak = 0;
        // Of several simultaneous timeouts, only the first one counts.
        if self.can_be_probed(now)
            && let Some(rules) = rules
        {
            self.probe_at = now + rules.probe * (1 << self.backoff);
            self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
        }
    }

    /// Records that the peer denied having an announced key. Blocks and evictions make this happen
    /// to every peer now and then.
    pub(super) fn denied(&mut self) {
        self.share = self.share.map(|share| (share - share / 16).max(FLOOR));
    }

    /// Returns true if the peer can be tested with a request for a transaction that this node
    /// already has.
    pub(super) fn can_be_probed(&self, now: Time) -> bool {
        self.standing() == Standing::Bad && self.probe_at <= now
    }

    /// Returns the expected cost of a failure, in nanoseconds, given the cost of a timeout.
    pub(super) fn risk(&self, timeout: u64) -> u64 {
        let share = u64::from(self.share.unwrap_or(HALF));
        (timeout / share).saturating_mul(u64::from(WHOLE) - share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK: Duration = Duration::from_millis(200);

    #[test]
    fn follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut time = ResponseTime::default();
        assert_eq!((time.mean(), time.usual(SLACK)), (None, None));
        time.sample(ms(400));
        assert_eq!((time.mean(), time.usual(SLACK)), (Some(ms(400)), Some(ms(1_200))));
        time.sample(ms(480));
        // 7/8 * 400 + 1/8 * 480 = 410; 3/4 * 200 + 1/4 * 80 = 170.
        assert_eq!((time.mean(), time.usual(SLACK)), (Some(ms(410)), Some(ms(410 + 4 * 170))));
        (0..100).for_each(|_| time.sample(ms(400)));
        let mean = time.mean().unwrap();
        assert!(mean.abs_diff(ms(400)) < ms(1));
        assert_eq!(time.usual(SLACK), Some(mean + SLACK));
    }

    #[test]
    fn rounds_of_timeouts_double_the_timeout_until_the_next_answer() {
        let at = Time::from_secs;
        let mut time = ResponseTime::default();
        time.timed_out(at(0), at(1));
        assert_eq!(time.expected(at(2), SLACK), None, "no sample yet");
        (0..100).for_each(|_| time.sample(Duration::from_millis(100)));
        let usual = time.usual(SLACK).unwrap();
        assert_eq!(time.expected(at(2), SLACK), Some(usual));
        // Three requests of one round.
        (0..3).for_each(|_| time.timed_out(at(2), at(3)));
        assert_eq!(time.expected(at(2), SLACK), Some(usual), "sent before the timeout doubled");
        assert_eq!(time.expected(at(3), SLACK), Some(2 * usual));
        (3..100).for_each(|second| time.timed_out(at(second), at(second + 1)));
        assert_eq!(time.expected(at(200), SLACK), Some(64 * usual));
        time.sample(Duration::from_millis(100));
        assert_eq!(time.expected(at(200), SLACK), time.usual(SLACK));
    }

    const RULES: Rules = Rules { patience: Duration::from_millis(500), probe: Duration::from_secs(1) };

    fn fail(record: &mut Record, at_s: u64) {
        record.failed(Time::from_secs(at_s), Some(&RULES));
    }

    #[test]
    fn first_request_decides_and_a_long_record_forgives() {
        let mut silent = Record::default();
        assert_eq!(silent.standing(), Standing::Unproven);
        fail(&mut silent, 0);
        assert_eq!(silent.standing(), Standing::Bad);
        let mut new = Record::default();
        new.answered(Time::ZERO);
        fail(&mut new, 1);
        assert_eq!(new.standing(), Standing::Good);
        fail(&mut new, 1);
        assert_eq!(new.standing(), Standing::Bad);
        let mut old = Record::default();
        (0..200).for_each(|_| old.answered(Time::ZERO));
        assert_eq!(old.share, Some(WHOLE));
        (0..2).for_each(|_| fail(&mut old, 1));
        assert_eq!(old.standing(), Standing::Good);
        fail(&mut old, 1);
        assert_eq!(old.standing(), Standing::Bad);
    }

    /// A peer that answers every second request is unreliable; a peer that answers nine of ten is
    /// reliable.
    #[test]
    fn standing_follows_the_share_of_answered_requests() {
        for (period, expected) in [(2, Standing::Bad), (10, Standing::Good)] {
            let mut record = Record::default();
            for request in 1..=100 {
                if request % period == 0 {
                    fail(&mut record, request);
                } else {
                    record.answered(Time::from_secs(request));
                }
            }
            assert_eq!(record.standing(), expected, "every {period}th request fails");
        }
    }

    #[test]
    fn probes_become_rarer_and_four_answers_end_a_bad_standing() {
        let mut record = Record::default();
        let mut times = Vec::new();
        for second in 0..400 {
            if second == 0 || record.can_be_probed(Time::from_secs(second)) {
                fail(&mut record, second);
                times.push(second);
            }
        }
        assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]);
        for answer in 0..4 {
            assert_eq!(record.standing(), Standing::Bad, "{answer}");
            record.answered(Time::from_secs(1_000));
            assert!(answer == 3 || record.can_be_probed(Time::from_secs(1_000)));
        }
        assert_eq!(record.standing(), Standing::Good);
    }

    #[test]
    fn denials_weigh_little() {
        let mut record = Record::default();
        record.denied();
        assert_eq!(record.standing(), Standing::Unproven);
        record.answered(Time::ZERO);
        (0..6).for_each(|_| record.denied());
        assert_eq!(record.standing(), Standing::Good);
        (0..6).for_each(|_| record.denied());
        assert_eq!(record.standing(), Standing::Bad);
    }

    #[test]
    fn risk_is_the_expected_loss() {
        let mut record = Record::default();
        assert_eq!(record.risk(1_024_000), 1_024_000);
        (0..200).for_each(|_| record.answered(Time::ZERO));
        assert_eq!(record.risk(1_024_000), 0);
    }
}
