//! Controlled delay (RFC 8289).

/// RFC 8289 section 5.1: a backlog of one packet of the largest size is never a standing queue.
const MAX_PACKET: u64 = 1_500;

/// RFC 8289 section 5.4 (the pseudocode of `dequeue`): dropping that resumes within so many intervals goes on where it
/// had stopped.
const RECENT_INTERVALS: u64 = 16;

/// The control law for one queue. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct CoDel {
    target: u64,
    interval: u64,
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<u64>,
    dropping: bool,
    drop_next: u64,
    count: u32,
    last_count: u32,
}

impl CoDel {
    pub(crate) fn new(target: u64, interval: u64) -> Self {
        Self { target, interval, first_above: None, dropping: false, drop_next: 0, count: 0, last_count: 0 }
    }

    /// Whether the packet that leaves the queue now, after `sojourn`, is dropped; `backlog` bytes stay behind. The
    /// pseudocode loops over packets; here the caller asks again for the next one.
    pub(crate) fn drops(&mut self, now: u64, sojourn: u64, backlog: u64) -> bool {
        let above = self.above_for_an_interval(now, sojourn, backlog);
        if self.dropping {
            self.dropping = above;
            if !above || now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next += self.spacing();
            return true;
        }
        if !above {
            return false;
        }
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < RECENT_INTERVALS * self.interval;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = now + self.spacing();
        true
    }

    fn above_for_an_interval(&mut self, now: u64, sojourn: u64, backlog: u64) -> bool {
        if sojourn < self.target || backlog <= MAX_PACKET {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + self.interval);
        now >= since
    }

    fn spacing(&self) -> u64 {
        (self.interval as f64 / f64::from(self.count).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times at which packets are dropped, one packet a millisecond with this delay.
    fn drop_times(millis: std::ops::Range<u64>, sojourn: u64, codel: &mut CoDel) -> Vec<u64> {
        millis.filter(|ms| codel.drops(ms * MS, sojourn, 100_000)).collect()
    }

    #[test]
    fn a_delay_below_the_target_is_tolerated_for_ever() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        assert!(drop_times(0..10_000, 5 * MS - 1, &mut codel).is_empty());
    }

    #[test]
    fn drops_are_spaced_by_the_square_root_law() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        // First after one interval, then 100/sqrt(1), 100/sqrt(2), 100/sqrt(3), ... later.
        let mut expected = vec![100.0];
        for n in 1..8 {
            expected.push(expected[n - 1] + 100.0 / (n as f64).sqrt());
        }
        let expected: Vec<u64> = expected.iter().map(|ms| ms.ceil() as u64).collect();
        assert_eq!(drop_times(0..expected[7] + 1, 6 * MS, &mut codel), expected);
    }

    #[test]
    fn a_last_packet_is_never_dropped() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        assert!((0..1000).all(|ms| !codel.drops(ms * MS, 50 * MS, MAX_PACKET)));
    }

    #[test]
    fn dropping_resumes_at_the_rate_that_had_worked() {
        let mut codel = CoDel::new(5 * MS, 100 * MS);
        let first = drop_times(0..1_000, 6 * MS, &mut codel).len();
        assert!(!codel.drops(1_000 * MS, 0, 100_000));
        let again = drop_times(1_001..1_301, 6 * MS, &mut codel);
        let fresh = drop_times(1_001..1_301, 6 * MS, &mut CoDel::new(5 * MS, 100 * MS)).len();
        assert!(first > 8 && again.len() > fresh, "{again:?}, {fresh}");
    }
}
