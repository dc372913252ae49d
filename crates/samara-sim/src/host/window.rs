//! A limit of the bytes in flight over all links of a host, so that queues before its uplink stay
//! short.
//!
//! With one order over all links, every link has a congestion window of its own. Together they let out
//! much more than the uplink passes, and what waits before it can no longer be withdrawn or
//! overtaken. The limit follows the delay of this queue: the round trip of an acknowledgement beyond
//! the least one of its link. It grows by the acknowledged bytes while the delay is below the target,
//! and shrinks by them beyond (the controller of LEDBAT, RFC 6817 section 2.4.2, with a gain that
//! doubles the window in a round trip).

use crate::config::NodeWindow;

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    config: NodeWindow,
    limit: f64,
}

impl Window {
    pub(super) fn new(config: NodeWindow) -> Self {
        Self { config, limit: config.first as f64 }
    }

    /// Handles an acknowledgement of some bytes after a round trip, with the least round trip of its
    /// link. `in_flight` are the bytes of all links before it.
    pub(super) fn acknowledged(&mut self, bytes: u64, (trip, least): (u64, u64), in_flight: u64) {
        let target = self.config.target.as_nanos() as f64;
        let off = ((target - trip.saturating_sub(least) as f64) / target).clamp(-1.0, 1.0);
        // A limit that nothing reaches says nothing about the uplink.
        if off < 0.0 || in_flight as f64 > self.limit / 2.0 {
            self.limit = (self.limit + off * bytes as f64).max(self.config.least as f64);
        }
    }

    pub(super) fn admits(&self, in_flight: u64) -> bool {
        (in_flight as f64) < self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    fn window() -> Window {
        Window::new(NodeWindow { first: 100_000, least: 10_000, target: Duration::from_millis(20) })
    }

    #[test]
    fn without_delay_the_limit_doubles_in_a_round_trip() {
        let mut window = window();
        (0..100).for_each(|_| window.acknowledged(1_000, (80 * MS, 80 * MS), 100_000));
        assert!(window.admits(199_999) && !window.admits(200_000));
    }

    #[test]
    fn at_twice_the_target_it_shrinks_to_the_least_limit() {
        let mut window = window();
        (0..50).for_each(|_| window.acknowledged(1_000, (120 * MS, 80 * MS), 100_000));
        assert!(window.admits(49_999) && !window.admits(50_000));
        (0..500).for_each(|_| window.acknowledged(1_000, (900 * MS, 80 * MS), 100_000));
        assert!(window.admits(9_999) && !window.admits(10_000));
    }

    #[test]
    fn at_the_target_it_stays_and_so_does_one_that_nothing_reaches() {
        for (trip, in_flight) in [(100, 100_000), (80, 40_000)] {
            let mut window = window();
            (0..100).for_each(|_| window.acknowledged(1_000, (trip * MS, 80 * MS), in_flight));
            assert!(window.admits(99_999) && !window.admits(100_000));
        }
    }
}
