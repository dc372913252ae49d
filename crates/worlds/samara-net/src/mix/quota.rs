//! Limits on what senders can take, in all and by address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use samara_engine::places::{Amounts, Refusal, Shares};
use samara_mix::SenderId;

/// Bytes that senders share by the prefixes of their addresses. Each loopback address is a host, as
/// strangers share a machine.
#[derive(Debug)]
pub(super) struct Quota(Mutex<Amounts>);

/// A part of a quota. Dropping it returns the part.
#[derive(Debug)]
pub(super) struct Part {
    quota: Arc<Quota>,
    address: IpAddr,
    count: usize,
}

impl Quota {
    pub(super) fn new(max: usize, per_address_max: usize) -> Arc<Self> {
        let amounts = Amounts::new(max, Shares::per_host(per_address_max));
        Arc::new(Self(Mutex::new(amounts.with_loopback_shares())))
    }

    fn used(&self) -> MutexGuard<'_, Amounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn part(self: &Arc<Self>, address: IpAddr) -> Part {
        Part { quota: Arc::clone(self), address, count: 0 }
    }
}

impl Part {
    /// Adds to this part.
    ///
    /// # Errors
    /// The quota is exhausted; the part stays as it was.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), Refusal> {
        self.quota.used().take(Some(self.address), count)?;
        self.count += count;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.quota.used().free(Some(self.address), self.count);
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Maximum registrations that the counts of a minute hold: more than handshakes of a minute on one
/// core.
const COUNTED_MAX: usize = 1 << 16;

/// Counts registrations within the current minute.
#[derive(Debug)]
pub(super) struct Registrations {
    per_sender_max: u32,
    per_address_max: u32,
    minute: Mutex<Minute>,
}

#[derive(Debug)]
struct Minute {
    begun: Instant,
    by_sender: BTreeMap<SenderId, u32>,
    by_address: Amounts,
}

impl Minute {
    fn new(begun: Instant, per_address_max: u32) -> Self {
        let shares = Shares::per_host(per_address_max as usize);
        let by_address = Amounts::new(COUNTED_MAX, shares).with_loopback_shares();
        Self { begun, by_sender: BTreeMap::new(), by_address }
    }
}

impl Registrations {
    pub(super) fn new(per_sender_max: u32, per_address_max: u32, now: Instant) -> Self {
        let minute = Mutex::new(Minute::new(now, per_address_max));
        Self { per_sender_max, per_address_max, minute }
    }

    /// Counts a registration. Returns false if the sender or a prefix of its address has had too
    /// many.
    pub(super) fn take(&self, sender: SenderId, address: IpAddr, now: Instant) -> bool {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(minute.begun) >= MINUTE {
            *minute = Minute::new(now, self.per_address_max);
        }
        let of_sender = minute.by_sender.get(&sender).copied().unwrap_or_default();
        let is_taken = of_sender < self.per_sender_max && minute.by_address.take(Some(address), 1).is_ok();
        if is_taken {
            minute.by_sender.insert(sender, of_sender + 1);
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn parts_of_a_quota_are_bounded_and_come_back() {
        let quota = Quota::new(10, 4);
        let (mut one, mut two) = (quota.part(ip("127.0.0.1")), quota.part(ip("127.0.0.1")));
        assert_eq!((one.grow(3), one.grow(2)), (Ok(()), Err(Refusal::Prefix)));
        assert_eq!((two.grow(2), two.grow(1)), (Err(Refusal::Prefix), Ok(())));
        let others: Vec<Part> = (2..8)
            .map(|network| {
                let mut part = quota.part(ip(&format!("2001:db8:{network}::1")));
                assert_eq!(part.grow(1), Ok(()));
                part
            })
            .collect();
        assert_eq!(quota.part(ip("2001:db8:9::1")).grow(1), Err(Refusal::All));
        drop((one, others));
        assert_eq!((two.grow(3), two.grow(1)), (Ok(()), Err(Refusal::Prefix)));
        drop(two);
        let used = quota.used();
        assert_eq!((used.taken(), used.prefixes()), (0, 0));
    }

    #[test]
    fn registrations_of_a_minute_are_bounded() {
        let start = Instant::now();
        let registrations = Registrations::new(2, 5, start);
        let take = |sender: u8, address: &str, at: Duration| {
            registrations.take(SenderId([sender; 32]), ip(address), start + at)
        };
        let now = Duration::ZERO;
        // The same sender from several addresses, and several senders from one.
        let hosts = ["127.0.0.1", "2001:db8:2::1", "2001:db8:3::1"];
        assert_eq!(hosts.map(|host| take(1, host, now)), [true, true, false]);
        let senders = [2, 3, 4, 5, 6].map(|sender| take(sender, "127.0.0.1", now));
        assert_eq!(senders, [true, true, true, true, false]);
        // A host has as many addresses as it likes, and a site twice as many registrations.
        let of_host = (0..9).filter(|n| take(10 + n, &format!("2001:db8:9:1::{n}"), now)).count();
        let of_site = (0..99).filter(|n| take(20 + n, &format!("2001:db8:9:{n}::1"), now)).count();
        assert_eq!((of_host, of_host + of_site), (5, 10));
        assert!(!take(1, "2001:db8:8::1", Duration::from_secs(59)));
        assert!(take(1, "2001:db8:8::1", MINUTE) && take(6, "127.0.0.1", MINUTE));
    }

    #[test]
    fn counts_of_a_minute_take_bounded_memory() {
        let start = Instant::now();
        let registrations = Registrations::new(1, u32::MAX, start);
        let taken = (0..COUNTED_MAX as u32 + 100).filter(|index| {
            let mut sender = [1; 32];
            sender[..4].copy_from_slice(&index.to_be_bytes());
            registrations.take(SenderId(sender), std::net::Ipv4Addr::from_bits(*index).into(), start)
        });
        assert_eq!(taken.count(), COUNTED_MAX);
    }
}
