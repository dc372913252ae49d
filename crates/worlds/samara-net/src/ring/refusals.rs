//! The hosts whose nodes a member refused, for its owner.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::status::Closed;

/// Maximum number of hosts and causes that a member remembers.
const REFUSALS_MAX: usize = 64;

/// Refused nodes of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub host: IpAddr,
    /// The name of the reason in [`Counters::links_closed`](crate::status::Counters).
    pub cause: &'static str,
    pub count: u64,
}

/// The last refusals, those of a host for one reason together.
#[derive(Debug, Default)]
pub(crate) struct Refusals(VecDeque<Refusal>);

impl Refusals {
    pub(crate) fn note(&mut self, from: SocketAddr, why: &Closed) {
        let (host, cause) = (from.ip().to_canonical(), why.name());
        let known = self.0.iter().position(|known| (known.host, known.cause) == (host, cause));
        let known = known.and_then(|at| self.0.remove(at));
        let count = known.map_or(0, |known| known.count) + 1;
        self.0.push_back(Refusal { host, cause, count });
        if self.0.len() > REFUSALS_MAX {
            self.0.pop_front();
        }
    }

    pub(crate) fn all(&self) -> Vec<Refusal> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_host_and_bounded() {
        let mut refusals = Refusals::default();
        let from = |host: u8, port| SocketAddr::from(([192, 0, 2, host], port));
        refusals.note(from(1, 1), &Closed::Unauthenticated);
        refusals.note(from(2, 1), &Closed::Unauthenticated);
        refusals.note(from(1, 2), &Closed::Unauthenticated);
        refusals.note(from(1, 3), &Closed::OtherGroup);
        let counts: Vec<_> = refusals.all().into_iter().map(|one| (one.cause, one.count)).collect();
        assert_eq!(counts, [("unauthenticated", 1), ("unauthenticated", 2), ("other_group", 1)]);
        (0..200).for_each(|host| refusals.note(from(host, 1), &Closed::OtherGroup));
        assert_eq!(refusals.all().len(), REFUSALS_MAX);
        assert_eq!(refusals.all().last().unwrap().host, from(199, 1).ip(), "the last ones stay");
    }
}
