//! Limits on what senders can take, in all and by address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use samara_mix::SenderId;

/// Something that senders share, such as connections or bytes.
#[derive(Debug)]
pub(super) struct Quota {
    max: usize,
    per_address_max: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// A part of a quota. Dropping it returns the part.
#[derive(Debug)]
pub(super) struct Part {
    quota: Arc<Quota>,
    address: IpAddr,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    All,
    Address,
}

impl Quota {
    pub(super) fn new(max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { max, per_address_max, used: Mutex::default() })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn grow(&mut self, count: usize) -> Result<(), Exhausted> {
        let mut used = self.quota.used();
        if used.all + count > self.quota.max {
            return Err(Exhausted::All);
        }
        let of_address = used.by_address.get(&self.address).copied().unwrap_or_default() + count;
        if of_address > self.quota.per_address_max {
            return Err(Exhausted::Address);
        }
        used.by_address.insert(self.address, of_address);
        used.all += count;
        self.count += count;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut used = self.quota.used();
        used.all -= self.count;
        if let Some(of_address) = used.by_address.get_mut(&self.address) {
            *of_address -= self.count;
            if *of_address == 0 {
                used.by_address.remove(&self.address);
            }
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Maximum senders, and hosts, that the counts of a minute hold: more than handshakes of a minute
/// on one core.
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
    by_address: BTreeMap<IpAddr, u32>,
}

impl Registrations {
    pub(super) fn new(per_sender_max: u32, per_address_max: u32, now: Instant) -> Self {
        let minute = Minute { begun: now, by_sender: BTreeMap::new(), by_address: BTreeMap::new() };
        Self { per_sender_max, per_address_max, minute: Mutex::new(minute) }
    }

    /// Counts a registration. Returns false if the sender or its host has had too many.
    pub(super) fn take(&self, sender: SenderId, address: IpAddr, now: Instant) -> bool {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(minute.begun) >= MINUTE {
            *minute = Minute { begun: now, by_sender: BTreeMap::new(), by_address: BTreeMap::new() };
        }
        let of_sender = minute.by_sender.get(&sender).copied().unwrap_or_default();
        let of_address = minute.by_address.get(&address).copied().unwrap_or_default();
        if of_sender >= self.per_sender_max
            || of_address >= self.per_address_max
            || minute.by_sender.len().max(minute.by_address.len()) >= COUNTED_MAX
        {
            return false;
        }
        minute.by_sender.insert(sender, of_sender + 1);
        minute.by_address.insert(address, of_address + 1);
        true
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
        let (mut one, mut two) = (quota.part(ip("::1")), quota.part(ip("::1")));
        assert_eq!((one.grow(3), one.grow(2)), (Ok(()), Err(Exhausted::Address)));
        assert_eq!((two.grow(2), two.grow(1)), (Err(Exhausted::Address), Ok(())));
        let others: Vec<Part> = (2..8)
            .map(|last| {
                let mut part = quota.part(ip(&format!("::{last}")));
                assert_eq!(part.grow(1), Ok(()));
                part
            })
            .collect();
        assert_eq!(quota.part(ip("::9")).grow(1), Err(Exhausted::All));
        drop((one, others));
        assert_eq!((two.grow(3), two.grow(1)), (Ok(()), Err(Exhausted::Address)));
        drop(two);
        let used = quota.used();
        assert_eq!((used.all, used.by_address.len()), (0, 0));
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
        assert_eq!([1, 2, 3].map(|host| take(1, &format!("::{host}"), now)), [true, true, false]);
        let senders = [2, 3, 4, 5, 6].map(|sender| take(sender, "::1", now));
        assert_eq!(senders, [true, true, true, true, false]);
        assert!(!take(1, "::9", Duration::from_secs(59)));
        assert!(take(1, "::9", MINUTE) && take(6, "::1", MINUTE));
    }

    #[test]
    fn counts_of_a_minute_take_bounded_memory() {
        let start = Instant::now();
        let registrations = Registrations::new(1, 1, start);
        let taken = (0..COUNTED_MAX as u32 + 100).filter(|index| {
            let mut sender = [1; 32];
            sender[..4].copy_from_slice(&index.to_be_bytes());
            registrations.take(SenderId(sender), std::net::Ipv4Addr::from_bits(*index).into(), start)
        });
        assert_eq!(taken.count(), COUNTED_MAX);
    }
}
