//! Whether a peer answers.

use samara_engine::Time;

use crate::config::Standing as Rules;

/// How far a peer can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It answers more requests than it lets time out, lately.
    Good,
    /// It was never asked, or has not had the time to answer.
    Unproven,
    /// It lets more requests time out than it answers, or sends garbage.
    Bad,
}

/// The share of requests that a peer has answered: an exponential average over the last ones, in which a request that timed out weighs as
/// much as two that were answered, and a denial a quarter of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Of [`WHOLE`]; `None` while nothing is known.
    share: Option<u16>,
    /// Answers in a row.
    streak: u8,
    /// How often the time between two probes has doubled.
    backoff: u8,
    /// When it can be probed next.
    probe_at: Time,
}

const WHOLE: u16 = 1_024;
/// Below it a standing is bad.
const HALF: u16 = WHOLE / 2;
/// A share does not fall below this: four answers end a bad standing, however old that is.
const FLOOR: u16 = WHOLE / 4;
/// What the first answer makes of an unknown share: two timeouts in a row end a good standing, or three of a long one.
const FIRST: u16 = WHOLE / 4 * 3;
/// Probes of a peer that never answers are up to 2^6 times as far apart as the first ones.
const BACKOFF_MAX: u8 = 6;
/// So many answers in a row halve the time between probes again.
const STREAK: u8 = 16;

impl Record {
    pub(super) fn standing(&self) -> Standing {
        match self.share {
            None => Standing::Unproven,
            Some(share) if share >= HALF => Standing::Good,
            Some(_) => Standing::Bad,
        }
    }

    /// It answered.
    pub(super) fn answered(&mut self, now: Time) {
        self.share = Some(self.share.map_or(FIRST, |share| share + (WHOLE - share).div_ceil(8)));
        self.streak += 1;
        if self.streak == STREAK {
            self.streak = 0;
            self.backoff = self.backoff.saturating_sub(1);
        }
        // An answer to a probe: the next one can follow at once.
        self.probe_at = now;
    }

    /// It did not answer in time, or with garbage.
    pub(super) fn failed(&mut self, now: Time, rules: Option<&Rules>) {
        let share = self.share.unwrap_or(HALF);
        self.share = Some((share - share / 4).max(FLOOR));
        self.streak = 0;
        // Of several requests that time out together only the first one counts.
        if self.can_be_probed(now)
            && let Some(rules) = rules
        {
            self.probe_at = now + rules.probe * (1 << self.backoff);
            self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
        }
    }

    /// It says that it does not have what it announced: blocks and evictions make that happen to everybody now and then.
    pub(super) fn denied(&mut self) {
        self.share = self.share.map(|share| (share - share / 16).max(FLOOR));
    }

    /// Whether it can be tried with a request for what is here anyway.
    pub(super) fn can_be_probed(&self, now: Time) -> bool {
        self.standing() == Standing::Bad && self.probe_at <= now
    }

    /// What a failure costs by its probability, if a timeout takes so long (nanoseconds).
    pub(super) fn risk(&self, timeout: u64) -> u64 {
        let share = u64::from(self.share.unwrap_or(HALF));
        (timeout / share).saturating_mul(u64::from(WHOLE) - share)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RULES: Rules = Rules { patience: Duration::from_millis(500), probe: Duration::from_secs(1) };

    fn fail(record: &mut Record, at_s: u64) {
        record.failed(Time::from_secs(at_s), Some(&RULES));
    }

    #[test]
    fn the_first_request_decides_and_a_long_record_forgives() {
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

    /// One that answers every second request is not relied on; one that answers nine of ten is.
    #[test]
    fn the_share_decides_in_the_long_run() {
        for (period, expected) in [(2, Standing::Bad), (10, Standing::Good)] {
            let mut record = Record::default();
            for request in 1..=100 {
                if request % period == 0 {
                    fail(&mut record, request);
                } else {
                    record.answered(Time::from_secs(request));
                }
            }
            assert_eq!(record.standing(), expected, "every {period}th fails");
        }
    }

    #[test]
    fn probes_get_rarer_and_four_answers_end_a_bad_standing() {
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
