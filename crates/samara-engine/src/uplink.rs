//! A limit of what a node has under way over all its links, so that the queue before its uplink
//! stays short.
//!
//! The queue before an uplink is seldom in the node's own machine: it is in the router behind it,
//! and nobody can look into it. What has left a socket waits there, and can be neither ordered nor
//! withdrawn. Each link has a congestion window of its own, and together they let out many times
//! what the uplink passes. [`Limit`] bounds what all links together have under way. It follows the
//! delay that the queue adds to round trips, since rates and losses mislead: most routers buffer
//! before they drop.
//!
//! # The law
//!
//! A sample is the round trip of some bytes. Its *delay* is what exceeds the least round trip of its
//! link, and its *load* is what the node had under way when these bytes left. With the means of the
//! last samples, weighted by their bytes:
//!
//! - If the delay is below the target, the uplink bears more than the load. The limit moves towards
//!   the load times `target / delay`, at most twice the load; up to eight times until the delay
//!   first reaches half of the target, so that all links together start no slower than their own
//!   slow start.
//! - Beyond the target, the uplink passes the load in the least round trip and the delay together.
//!   The limit moves towards what it passes in the least round trip and the target (the fixed point
//!   of FAST TCP, Jin, Wei and Low 2004).
//! - A load below 70 % of the limit of its time says nothing about the uplink.
//!
//! Both follow the load, and not the present limit: a limit that grew since then has not been
//! answered yet. In a queue that never idles, the mean delay is the queue's length over its rate, in
//! whatever order it serves its flows (Little's law).
//!
//! Bytes leave at a pace somewhat above the rate that the limit stands for. After a pause, the
//! limit therefore does not enter an empty network as one burst.
//!
//! ```
//! use std::time::Duration;
//!
//! use samara_engine::uplink::{Limit, LimitConfig, Report};
//! use samara_engine::{PeerId, Time};
//!
//! let mut limit = Limit::new(LimitConfig::default());
//! limit.link_up(Time::ZERO, PeerId(0), Some(Duration::from_millis(20)));
//! assert!(limit.room(Time::ZERO) > 0);
//! limit.set_under_way(Time::ZERO, PeerId(0), 200_000);
//! assert_eq!(limit.room(Time::ZERO), 0);
//!
//! // The first half arrives after a round trip.
//! let now = Time::from_nanos(25_000_000);
//! let round_trip = Duration::from_millis(25);
//! limit.report(now, PeerId(0), Report { arrived: 100_000, round_trip, under_way: 100_000 });
//! assert_eq!(limit.delay(), Duration::from_millis(5));
//! ```

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::{PeerId, PeerMap, Time};

/// The constants of a [`Limit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitConfig {
    /// The delay that the queue before the uplink may add to a round trip; positive.
    pub target: Duration,
    /// The limit at the start, in bytes.
    pub first: u64,
    /// The least limit, in bytes.
    pub least: u64,
}

impl Default for LimitConfig {
    /// Fifteen milliseconds: a fifth of what a call bears in one direction (150 ms: ITU-T G.114), for
    /// each of the nodes that may share a router, and several packets at 2 Mbit/s. At first three
    /// initial windows of TCP (RFC 6928), at least four packets.
    fn default() -> Self {
        Self { target: Duration::from_millis(15), first: 128 << 10, least: 6_000 }
    }
}

/// What a transport tells about one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that have arrived since the last report.
    pub arrived: u64,
    /// The round trip of the last of these bytes; zero if there is no new one.
    pub round_trip: Duration,
    /// Bytes that were handed to the link and have neither arrived nor are lost.
    pub under_way: u64,
}

/// A limit over all links of a node. See the [module](self).
#[derive(Debug)]
pub struct Limit {
    config: LimitConfig,
    limit: f64,
    links: PeerMap<Link>,
    /// Bytes under way on links that do not stall.
    under_way: u64,
    mean: Mean,
    /// True until the delay first reaches half of the target.
    is_starting: bool,
    past: Past,
    pacer: Pacer,
    /// The times of the last sample and of the last search for links that stall, in nanoseconds.
    sampled: u64,
    searched: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    under_way: u64,
    /// The least round trips of the current and of the last period, and the start of the current one.
    least: [u64; 2],
    since: u64,
    /// The time since which nothing has arrived although bytes are under way.
    waits_since: u64,
    is_stalled: bool,
}

/// The bytes of a pacer, and the time at which it had them.
#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    bytes: f64,
    at: u64,
}

/// Means of the last samples, in nanoseconds and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    weight: f64,
    delay: f64,
    least: f64,
    load: f64,
}

/// A least round trip counts for one to two of these periods, in nanoseconds: routes change. Ten
/// minutes in LEDBAT (RFC 6817 section 3.2.1), 10 s in BBR.
const PERIOD: u64 = 60_000_000_000;

/// After this time without samples, in nanoseconds, the node starts again.
const IDLE: u64 = 1_000_000_000;

/// The largest limit in relation to the load of a sample, at the start and later.
const START: f64 = 8.0;
const GROWTH: f64 = 2.0;

/// The smallest limit in relation to the load of a sample.
const SHRINKAGE: f64 = 0.5;

/// A link on which nothing arrives for this time stalls: its peer is gone or reads no more, and its
/// bytes are in no queue before the uplink. In nanoseconds, with the time between searches.
const STALL: u64 = 1_000_000_000;
const SEARCH: u64 = 250_000_000;

/// The target is at least the time of these bytes: four packets, of which two are acknowledged together.
const TARGET_BYTES: f64 = 6_000.0;

/// A load of this part of its limit used it.
const USED: f64 = 0.7;

/// The part of a limit whose samples make a mean.
const MEMORY: f64 = 0.25;

/// How much of the way to the wanted limit the samples of one round trip move it.
const SPEED: f64 = 1.5;

/// A sample counts up to this multiple of the mean delay and the target: a few slow peers are no
/// slow uplink.
const OUTLIER: f64 = 8.0;

/// The pace in relation to the limit in a round trip, the part of the target that
/// may leave at once, and the bytes that always may: an initial window (RFC 6928).
const PACE: f64 = 1.25;
const BURST: f64 = 0.5;
const BURST_BYTES: f64 = 14_600.0;

/// A single packet, in bytes, and the longest that its acknowledgement waits for a second one
/// (`TCP_DELACK_MIN` in Linux), in nanoseconds.
const SINGLE: f64 = 1_500.0;
const ACK_DELAY: f64 = 40e6;

impl Link {
    fn least(&self) -> u64 {
        self.least[0].min(self.least[1])
    }

    fn sample(&mut self, now: u64, round_trip: u64) {
        if now.saturating_sub(self.since) > PERIOD {
            self.since = now;
            self.least = [round_trip, self.least[0]];
        }
        self.least[0] = self.least[0].min(round_trip);
    }
}

/// What was under way in the last seconds.
#[derive(Debug, Default)]
struct Past {
    /// Times in nanoseconds, and the most bytes since, with the limit.
    steps: VecDeque<(u64, u64, f64)>,
}

impl Past {
    /// Length of a step in nanoseconds, and number of steps: about a second, and as much again for
    /// each pause between bytes that leave.
    const STEP: u64 = 4_000_000;
    const STEPS: usize = 256;

    fn note(&mut self, now: u64, bytes: u64, limit: f64) {
        match self.steps.back_mut() {
            Some((at, most, then)) if (*at..*at + Self::STEP).contains(&now) => {
                if bytes > *most {
                    (*most, *then) = (bytes, limit);
                }
            }
            last => {
                if last.is_some_and(|(at, ..)| *at > now) {
                    // The clock was set back.
                    self.steps.clear();
                }
                if self.steps.len() == Self::STEPS {
                    self.steps.pop_front();
                }
                self.steps.push_back((now, bytes, limit));
            }
        }
    }

    /// Returns the bytes under way at a time, and the limit; the oldest ones for earlier times.
    fn at(&self, time: u64) -> (f64, f64) {
        let after = self.steps.partition_point(|(at, ..)| *at <= time);
        let step = self.steps.get(after.saturating_sub(1));
        step.map_or((0.0, f64::INFINITY), |(_, bytes, limit)| (*bytes as f64, *limit))
    }
}

impl Limit {
    /// Creates a limit for a node without links.
    pub fn new(config: LimitConfig) -> Self {
        Self {
            config,
            limit: config.first as f64,
            links: PeerMap::default(),
            under_way: 0,
            mean: Mean::default(),
            is_starting: true,
            past: Past::default(),
            pacer: Pacer::default(),
            sampled: 0,
            searched: 0,
        }
    }

    /// Adds a link, with the round trip of its handshake if that is known.
    pub fn link_up(&mut self, now: Time, peer: PeerId, round_trip: Option<Duration>) {
        self.link_down(peer);
        let least = round_trip.map_or(u64::MAX, |trip| trip.as_nanos() as u64);
        let since = now.as_nanos();
        self.links.insert(peer, Link { least: [least, u64::MAX], since, ..Link::default() });
    }

    /// Removes a link with everything that it has under way.
    pub fn link_down(&mut self, peer: PeerId) {
        if let Some(link) = self.links.remove(peer)
            && !link.is_stalled
        {
            self.under_way -= link.under_way;
        }
    }

    /// Sets what a link has under way: bytes that were handed to it and have neither arrived nor are
    /// lost. Ignores links that are not up.
    pub fn set_under_way(&mut self, now: Time, peer: PeerId, bytes: u64) {
        self.pace(now.as_nanos());
        let Some(link) = self.links.get_mut(peer) else { return };
        self.pacer.bytes -= bytes.saturating_sub(link.under_way) as f64;
        if link.under_way == 0 {
            link.waits_since = now.as_nanos();
        }
        let before = std::mem::replace(&mut link.under_way, bytes);
        if !link.is_stalled {
            self.under_way = self.under_way - before + bytes;
        }
        self.past.note(now.as_nanos(), self.under_way, self.limit);
    }

    /// Takes a report of a link. Ignores links that are not up.
    pub fn report(&mut self, now: Time, peer: PeerId, report: Report) {
        let trip = report.round_trip.as_nanos() as u64;
        if report.arrived > 0
            && let Some(link) = self.links.get_mut(peer)
        {
            link.waits_since = now.as_nanos();
            if std::mem::take(&mut link.is_stalled) {
                self.under_way += link.under_way;
            }
        }
        if trip > 0
            && let Some(link) = self.links.get_mut(peer)
        {
            link.sample(now.as_nanos(), trip);
            let least = link.least();
            if report.arrived > 0 {
                self.sample(now.as_nanos(), &report, trip, least);
            }
        }
        self.set_under_way(now, peer, report.under_way);
    }

    fn sample(&mut self, now: u64, report: &Report, trip: u64, least: u64) {
        if now.saturating_sub(self.sampled) > IDLE {
            // What a small limit of long ago followed is over.
            self.limit = self.limit.max(self.config.first as f64);
            self.is_starting = true;
            (self.mean.weight, self.mean.delay) = (0.0, 0.0);
        }
        self.sampled = now;
        let (bytes, target) = (report.arrived as f64, self.config.target.as_nanos() as f64);
        let is_last = bytes <= SINGLE && report.under_way == 0;
        let delay = self.delay_of((trip - least) as f64, is_last);
        let (load, limit_then) = self.past.at(now.saturating_sub(trip));
        let mean = &mut self.mean;
        mean.weight = (mean.weight + bytes).min((self.limit * MEMORY).max(bytes));
        let share = bytes / mean.weight;
        mean.delay += share * (delay.min(OUTLIER * (mean.delay + target)) - mean.delay);
        mean.least += share * (least as f64 - mean.least);
        mean.load += share * (load - mean.load);
        self.is_starting &= mean.delay < target / 2.0;
        if load < USED * limit_then || mean.load <= 0.0 {
            return;
        }
        // Packets wait for themselves, too.
        let trip = mean.least + mean.delay;
        let target = target.max(TARGET_BYTES * trip / mean.load);
        let ratio = if mean.delay < target {
            (target / mean.delay).min(if self.is_starting { START } else { GROWTH })
        } else {
            ((mean.least + target) / trip).max(SHRINKAGE)
        };
        let step = (SPEED * bytes / mean.load).min(1.0);
        self.limit += step * (mean.load * ratio - self.limit);
        self.limit = self.limit.max(self.config.least as f64);
    }

    /// Returns a delay as far as it is certain. The acknowledgement of a single packet, after which
    /// nothing is under way, may have waited for a second one (RFC 1122 section 4.2.3.2): it changes
    /// the mean only if it does so with and without the longest wait.
    fn delay_of(&self, delay: f64, is_last: bool) -> f64 {
        if is_last { self.mean.delay.clamp((delay - ACK_DELAY).max(0.0), delay) } else { delay }
    }

    /// Returns the pace in bytes per nanosecond and the bytes that may leave at once; `None` while
    /// no round trip is known.
    fn bucket(&self) -> Option<(f64, f64)> {
        if self.mean.least == 0.0 {
            return None;
        }
        let target = self.config.target.as_nanos() as f64;
        // Without delay, the uplink passes the limit in less time than the target would take.
        let rate = PACE * self.limit / (self.mean.least + self.mean.delay.min(target));
        Some((rate, (rate * target * BURST).max(BURST_BYTES)))
    }

    fn pace(&mut self, now: u64) {
        let passed = now.saturating_sub(self.pacer.at) as f64;
        self.pacer.at = now;
        self.pacer.bytes = match self.bucket() {
            Some((rate, burst)) => (self.pacer.bytes + passed * rate).min(burst),
            None => f64::INFINITY,
        };
    }

    /// Returns the bytes that may still leave; 0 also while the pacer holds them back. What leaves
    /// although there is no room, such as urgent frames, counts like all other bytes.
    pub fn room(&mut self, now: Time) -> u64 {
        self.pace(now.as_nanos());
        if self.under_way >= self.limit as u64 {
            self.find_stalled(now.as_nanos());
        }
        if self.pacer.bytes <= 0.0 { 0 } else { (self.limit as u64).saturating_sub(self.under_way) }
    }

    fn find_stalled(&mut self, now: u64) {
        if now.abs_diff(self.searched) < SEARCH {
            return;
        }
        self.searched = now;
        for peer in self.links.connected().to_vec() {
            if let Some(link) = self.links.get_mut(peer)
                && link.under_way > 0
                && !link.is_stalled
                && now.saturating_sub(link.waits_since) > STALL
            {
                link.is_stalled = true;
                self.under_way -= link.under_way;
            }
        }
    }

    /// Returns the time at which there may be room again without a report.
    pub fn next_at(&self) -> Option<Time> {
        if self.under_way >= self.limit as u64 {
            return Some(Time::from_nanos(self.searched.saturating_add(SEARCH)));
        }
        let (rate, _) = self.bucket()?;
        let wait = ((1.0 - self.pacer.bytes) / rate) as u64;
        let at = Time::from_nanos(self.pacer.at.saturating_add(wait).saturating_add(1));
        (self.pacer.bytes <= 0.0).then_some(at)
    }

    /// Returns the bytes that all links have under way, without those that stall.
    pub const fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Returns the limit in bytes.
    pub const fn bytes(&self) -> u64 {
        self.limit as u64
    }

    /// Returns the mean delay of the last samples: about what the queue before the uplink adds.
    pub fn delay(&self) -> Duration {
        Duration::from_nanos(self.mean.delay as u64)
    }

    /// Returns the rate at which the bytes of the last samples arrived, in bytes per second; 0 if
    /// it is unknown. While the limit is used, this is the node's share of the uplink.
    pub fn rate(&self) -> f64 {
        let trip = self.mean.least + self.mean.delay;
        if trip > 0.0 { self.mean.load / trip * 1e9 } else { 0.0 }
    }

    /// Returns the least round trip of a link in the last one to two minutes, if one is known.
    pub fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        let least = self.links.get(peer)?.least();
        (least != u64::MAX).then(|| Duration::from_nanos(least))
    }
}
