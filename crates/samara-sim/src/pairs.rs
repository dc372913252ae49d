//! Latencies of all pairs of hosts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One-way latencies between all pairs of hosts, in four bytes each: 64 MB for 4,000 hosts. Copies share them.
#[derive(Clone, PartialEq, Eq)]
pub struct PairLatencies {
    hosts: usize,
    /// Nanoseconds: rows of senders, columns of receivers.
    nanos: Arc<[u32]>,
    least: u32,
}

impl PairLatencies {
    /// The largest latency that there can be: some 4.29 s.
    pub const MAX: Duration = Duration::from_nanos(u32::MAX as u64);

    /// Latencies in nanoseconds, a row for each sender; those from a host to itself are not looked at. `None` if it is no square, or of
    /// less than two hosts.
    pub fn new(hosts: usize, nanos: impl Into<Arc<[u32]>>) -> Option<Self> {
        let nanos = nanos.into();
        if hosts < 2 || Some(nanos.len()) != hosts.checked_mul(hosts) {
            return None;
        }
        let rows = nanos.chunks_exact(hosts).enumerate();
        let others = rows.flat_map(|(host, row)| row[..host].iter().chain(&row[host + 1..]));
        let least = others.min().copied()?;
        Some(Self { hosts, nanos, least })
    }

    /// How many hosts there are.
    pub const fn hosts(&self) -> usize {
        self.hosts
    }

    /// The latency from a host to another one.
    ///
    /// # Panics
    /// There is no such host.
    pub fn get(&self, from: u32, to: u32) -> Duration {
        Duration::from_nanos(self.nanos(from, to))
    }

    /// The least latency between two different hosts.
    pub const fn least(&self) -> Duration {
        Duration::from_nanos(self.least as u64)
    }

    /// The mean latency between two different hosts.
    pub fn mean(&self) -> Duration {
        let rows = self.nanos.chunks_exact(self.hosts).enumerate();
        let others = rows.flat_map(|(host, row)| row[..host].iter().chain(&row[host + 1..]));
        let sum: u64 = others.map(|nanos| u64::from(*nanos)).sum();
        Duration::from_nanos(sum / (self.hosts * (self.hosts - 1)) as u64)
    }

    pub(crate) fn nanos(&self, from: u32, to: u32) -> u64 {
        let row = &self.nanos[from as usize * self.hosts..][..self.hosts];
        u64::from(row[to as usize])
    }
}

impl fmt::Debug for PairLatencies {
    /// Without the latencies, which may be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PairLatencies").field("hosts", &self.hosts).field("least", &self.least()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_that_of_different_hosts() {
        let pairs = PairLatencies::new(3, vec![0, 7, 9, 8, 0, 5, 9, 6, 0]).expect("a square");
        assert_eq!(pairs.least(), Duration::from_nanos(5));
        assert_eq!(pairs.get(1, 0), Duration::from_nanos(8));
        assert_eq!(pairs.mean(), Duration::from_nanos(44 / 6));
        assert_eq!(pairs.get(0, 1), Duration::from_nanos(7), "each direction has its own");
    }

    #[test]
    fn what_is_no_square_is_refused() {
        assert_eq!(PairLatencies::new(3, vec![1; 8]), None);
        assert_eq!(PairLatencies::new(1, vec![1]), None);
        assert_eq!(PairLatencies::new(usize::MAX, vec![1; 8]), None);
    }
}
