//! A limit of what a node has under way over all its links, so that the queue before its uplink
//! stays short.
//!
//! The queue before an uplink is seldom in the node's own machine: it is in the router behind it,
//! and nobody can look into it. Bytes that have left a socket wait there, and can be neither ordered
//! nor withdrawn. Each link has a congestion window of its own, and together they let out many times
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
//! - The *rate* of the uplink is the least one at which a queue that serves whatever left would give
//!   these bytes their delay. It follows from the times at which bytes left, so links with different
//!   latencies, bursts and pauses do not mislead it.
//! - Beyond the target, the limit moves towards what the uplink passes in the least round trip and
//!   the target, and what waits in sockets besides.
//! - If the delay is below the target, the uplink bears more than the load. The limit moves towards
//!   the load times `target / delay`, at most 1.5 times the load; up to eight times until the delay
//!   first reaches half of the target, so that all links together start no slower than their own
//!   slow start.
//! - A load below 70 % of the limit of its time says nothing about the uplink. No delay beyond the
//!   target raises the limit: a load may exceed the limit.
//!
//! All of this follows the load, and not the present limit: a limit that grew since then has not been
//! answered yet. In a queue that never idles, the mean delay is the queue's length over its rate, in
//! whatever order it serves its flows (Little's law).
//!
//! # Rivals
//!
//! Two nodes that follow their delays share a queue behind one router: the one that has less bears
//! more delay. Each also leaves a queue that was never short in 30 s for a round trip, since the one
//! that came later may have taken the other's queue for its own least round trips.
//!
//! A connection that follows losses, such as an upload in the same house, fills the queue. Whoever
//! follows the delay alone then leaves it the uplink (the known fault of LEDBAT). If the delay stays
//! beyond three times the target for some round trips, although the limit falls, the queue may be that
//! of others. The node then leaves it for a round trip, as it does every 10 to 30 s from then on. If
//! the queue goes with it, there is no rival. Otherwise all its links together behave as one
//! connection of CUBIC (RFC 9438): what they have in flight grows by half in each round trip until
//! bytes are lost, then follows CUBIC's curve, and falls at losses. It does not grow while the node has
//! half of the uplink, and grows faster than CUBIC while it has less. Its part follows from the
//! rate that the uplink passed before the rival came; without that from the delay, as half of the
//! queue is half of the uplink.
//!
//! Bytes leave at a pace somewhat above the rate that the limit stands for. After a pause, the
//! limit therefore does not enter an empty network as one burst, and it is no larger than what has
//! arrived in a round trip before.
//!
//! ```
//! use std::time::Duration;
//!
//! use samara_engine::uplink::{Limit, LimitConfig, Load, Report};
//! use samara_engine::{PeerId, Time};
//!
//! let mut limit = Limit::new(LimitConfig::default());
//! limit.link_up(Time::ZERO, PeerId(0), Some(Duration::from_millis(20)));
//! assert!(limit.room(Time::ZERO) > 0);
//! limit.set_load(Time::ZERO, PeerId(0), Load { in_flight: 300_000, waiting: 0 });
//! assert_eq!(limit.room(Time::ZERO), 0);
//!
//! // The first half arrives after a round trip.
//! let now = Time::from_nanos(25_000_000);
//! let round_trip = Duration::from_millis(25);
//! let load = Load { in_flight: 200_000, waiting: 0 };
//! limit.report(now, PeerId(0), Report { arrived: 100_000, round_trip, load, ..Report::default() });
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
    /// Ten milliseconds: a fifteenth of what a call bears in one direction (150 ms: ITU-T G.114), for
    /// each of the nodes that may share a router, and twice the target of CoDel (RFC 8289 section
    /// 4.2). At first what 20 Mbit/s pass in 100 ms, at least four packets.
    fn default() -> Self {
        Self { target: Duration::from_millis(10), first: 256 << 10, least: 6_000 }
    }
}

/// Bytes that were handed to a link and have neither arrived nor are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that have left the node.
    pub in_flight: u64,
    /// Bytes that wait for the windows of the link, such as in its socket.
    pub waiting: u64,
}

impl Load {
    const fn total(self) -> u64 {
        self.in_flight + self.waiting
    }
}

/// A transport's report on one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that have arrived since the last report.
    pub arrived: u64,
    /// The round trip of the last of these bytes; zero if there is no new one.
    pub round_trip: Duration,
    /// The longest time that this acknowledgement may have waited at the peer, as far as the round
    /// trip contains it. TCP acknowledges a single packet after up to [`TCP_ACK_DELAY`].
    pub ack_delay: Duration,
    /// Bytes that were lost since the link came up.
    pub lost: u64,
    /// The bytes that the link has under way now.
    pub load: Load,
}

/// A limit over all links of a node. See the [module](self).
#[derive(Debug)]
pub struct Limit {
    config: LimitConfig,
    limit: f64,
    links: PeerMap<Link>,
    /// Bytes under way on links that do not stall, and those of them that wait there.
    under_way: u64,
    waiting: u64,
    /// Bytes in flight on all links, and bytes that have arrived since the node began.
    in_flight: u64,
    arrived: u64,
    mean: Mean,
    /// True until the delay first reaches half of the target.
    is_starting: bool,
    handed: Handed,
    /// The estimated rate of the uplink, and the largest rate at which bytes arrived in a round trip,
    /// halved by each pause, in bytes per nanosecond.
    rate: f64,
    proven: f64,
    /// Since when the delay is far beyond the target, and the rival that it shows.
    beyond: Option<Beyond>,
    rival: Option<Rival>,
    /// The last time at which the queue was short or the limit not used, in nanoseconds.
    emptied: u64,
    /// The time of the last loss that the limit has not followed.
    lost_at: Option<u64>,
    past: Past,
    pacer: Pacer,
    /// The times of the last sample and of the last search for links that stall, in nanoseconds.
    sampled: u64,
    searched: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    load: Load,
    /// Bytes that were lost.
    lost: u64,
    /// The least round trips of the current and of the last period, and the start of the current one.
    least: [u64; 2],
    since: u64,
    /// The time since which nothing has arrived although bytes are under way.
    waits_since: u64,
    is_stalled: bool,
}

/// A time in which the delay was far beyond the target.
#[derive(Clone, Copy, Debug)]
struct Beyond {
    since: u64,
    /// The longest round trip since then, in nanoseconds, and the bytes that arrived.
    longest: f64,
    bytes: f64,
}

/// How the node shares the queue with others that fill it.
#[derive(Clone, Copy, Debug)]
struct Rival {
    /// The bytes that all links may have in flight, besides those that wait in sockets.
    window: f64,
    /// The delay when the node had left the queue, in nanoseconds: that of the others alone.
    others: f64,
    phase: Phase,
}

/// Times in nanoseconds, windows in bytes.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The window grows by half in each round trip, until the node has half of the queue or uplink.
    Enters,
    /// The window follows CUBIC's curve since a time: to the plateau, and beyond. With the time of the
    /// last look.
    Shares { since: u64, from: f64, plateau: f64, looked: u64 },
    /// The node leaves the queue, until bytes arrive that left after a time. If the queue stays, it
    /// returns to this window, or enters.
    Looks { after: u64, back_to: Option<f64> },
}

impl Rival {
    /// Follows CUBIC from a window on.
    const fn shares(self, now: u64, window: f64, plateau: f64, looked: u64) -> Self {
        Self { window, phase: Phase::Shares { since: now, from: window, plateau, looked }, ..self }
    }
}

/// The bytes of a pacer, and the time at which it had them.
#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    bytes: f64,
    at: u64,
}

/// The mean least round trip of the links of the last bytes that were handed over.
#[derive(Clone, Copy, Debug, Default)]
struct Handed {
    weight: f64,
    least: f64,
}

/// Means of the last samples, in nanoseconds and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    weight: f64,
    delay: f64,
    load: f64,
    waiting: f64,
}

/// A least round trip counts for one to two of these periods, in nanoseconds: routes change. Ten
/// minutes in LEDBAT (RFC 6817 section 3.2.1), 10 s in BBR.
const PERIOD: u64 = 60_000_000_000;

/// After this time without samples, in nanoseconds, the node starts again.
const IDLE: u64 = 1_000_000_000;

/// The largest limit in relation to the load of a sample, at the start and later.
const START: f64 = 8.0;
const GROWTH: f64 = 1.5;

/// The smallest limit in relation to the load of a sample.
const SHRINKAGE: f64 = 0.5;

/// A link on which nothing arrives for this time stalls: its peer is gone or reads no more, and its
/// bytes are in no queue before the uplink. In nanoseconds, with the time between searches.
const STALL: u64 = 1_000_000_000;
const SEARCH: u64 = 25_000_000;

/// A link also stalls if nothing arrived in this multiple of its round trip before the last sample of
/// any link: its last packets are lost.
const LATE: f64 = 1.5;

/// The target grows with the time of these bytes: links send up to ten packets at once (an initial
/// window of 14,600 bytes, RFC 6928), which wait for each other. Chosen by measurement, between that
/// and four packets: docs/notes/2026-11-29-limit.md. Of two nodes behind one router, the one with less
/// bears more delay, and so gets its part.
const TARGET_BYTES: f64 = 10_000.0;

/// A load of this part of its limit used it.
const USED: f64 = 0.7;

/// The part of a limit whose samples make a mean.
const MEMORY: f64 = 0.25;

/// How much of the way to the wanted limit the samples of one round trip move it.
const SPEED: f64 = 1.5;

/// A delay beyond this multiple of the target may be a rival's, if it stays for so many round trips and
/// loads, and at least this time in nanoseconds. A queue of the node's own mostly ends in two, and
/// leaving it for nothing costs a round trip (docs/notes/2026-11-29-limit.md).
const RIVAL_DELAY: f64 = 3.0;
const RIVAL_TRIPS: f64 = 8.0;
const RIVAL_TIME: f64 = 500e6;

/// The time between two looks whether a rival is still there, in nanoseconds: each costs a round trip
/// of the long queue. A look is less urgent while the node has less than a part of the rate that the
/// uplink has passed before, as somebody else then has the rest. This and what follows was chosen by
/// measurement: docs/notes/2026-11-29-limit.md.
const LOOK_EVERY: u64 = 10_000_000_000;
const LOOK_SELDOM: u64 = 30_000_000_000;
const CERTAIN: f64 = 0.7;

/// While it looks, the node has this part of what the uplink passes in the least round trip.
const LOOK_PART: f64 = 0.25;

/// A delay below this part of the target is that of a short queue. If there was none in the time of
/// [`LOOK_SELDOM`], the least round trips may contain the queue of another node that began before.
const EMPTY: f64 = 0.25;

/// The share of the uplink that the node competes for, and where only its rate tells: the uplink may
/// pass more than it ever did.
const HALF: f64 = 0.5;
const ABOVE_HALF: f64 = 0.55;

/// Below its share, the node grows by this part in each round trip, and keeps this part of its window
/// after a loss. CUBIC alone needs minutes to an equal share in a queue of half a second.
const REGAIN: f64 = 0.125;
const REGAIN_LEFT: f64 = 0.85;

/// CUBIC's growth in packets per second cubed, its packets in bytes, and what is left of its window
/// after a loss (RFC 9438 section 5 and 4.6; 1,448 bytes are the payload of a packet on an Ethernet).
const CUBIC: f64 = 0.4;
const CUBIC_PACKET: f64 = 1_448.0;
const CUBIC_LEFT: f64 = 0.7;

/// A sample counts up to this multiple of the mean delay and the target: a few slow peers are no
/// slow uplink.
const OUTLIER: f64 = 4.0;

/// The pace in relation to the limit in a round trip, at the start and later (as `tcp_pacing_ss_ratio`
/// and `tcp_pacing_ca_ratio` in Linux), the part of the target that may leave at once, and the bytes
/// that always may: an initial window (RFC 6928).
const START_PACE: f64 = 2.0;
const PACE: f64 = 1.2;
const BURST: f64 = 0.5;
const BURST_BYTES: f64 = 14_600.0;

/// Urgent frames pass the limit up to this multiple.
const URGENT: f64 = 1.25;

/// The longest time that TCP waits for a second packet before it acknowledges a single one, in Linux
/// (`TCP_DELACK_MIN`). RFC 1122 section 4.2.3.2 allows half a second.
pub const TCP_ACK_DELAY: Duration = Duration::from_millis(40);

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

/// The samples of the last seconds.
#[derive(Debug, Default)]
struct Past {
    steps: VecDeque<Step>,
    /// The bytes that had left before the first step.
    before: u64,
}

/// The samples from a time in nanoseconds on, until the next step.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    /// The most bytes that were under way, with the limit then.
    under_way: u64,
    waiting: u64,
    limit: f64,
    /// Bytes that had left and were not lost, and bytes that had arrived, at the end.
    left: u64,
    arrived: u64,
}

impl Past {
    /// Length of a step in nanoseconds, and number of steps: about a second, and as much again for
    /// each pause between bytes that leave.
    const STEP: u64 = 4_000_000;
    const STEPS: usize = 512;

    fn note(&mut self, step: Step) {
        match self.steps.back_mut() {
            Some(last) if (last.at..last.at + Self::STEP).contains(&step.at) => {
                (last.left, last.arrived) = (step.left, step.arrived);
                if step.under_way > last.under_way {
                    (last.under_way, last.waiting, last.limit) = (step.under_way, step.waiting, step.limit);
                }
            }
            last => {
                if last.is_some_and(|last| last.at > step.at) {
                    // The clock was set back.
                    self.steps.clear();
                    self.before = step.left;
                }
                if self.steps.len() == Self::STEPS
                    && let Some(first) = self.steps.pop_front()
                {
                    self.before = first.left;
                }
                self.steps.push_back(step);
            }
        }
    }

    /// Returns the number of steps until a time, at least one if there are any.
    fn until(&self, time: u64) -> usize {
        self.steps.partition_point(|step| step.at <= time).max(1).min(self.steps.len())
    }

    /// Returns the step of a time; the oldest one for earlier times.
    fn at(&self, time: u64) -> Option<&Step> {
        self.steps.get(self.until(time).saturating_sub(1))
    }

    /// Returns the time until which no more than so many bytes had left.
    fn left_at(&self, bytes: u64) -> u64 {
        let after = self.steps.partition_point(|step| step.left <= bytes);
        self.steps.get(after).map_or(u64::MAX, |step| step.at)
    }

    /// Returns the least rate, in bytes per nanosecond, of a queue in which bytes that left at a time
    /// waited for `delay` nanoseconds: for any earlier time, the queue has passed what left since then
    /// in the time since then and the delay. Spans count as `least_span` at least.
    fn rate(&self, time: u64, delay: f64, least_span: f64) -> f64 {
        let until = self.until(time);
        let left_before = |index: usize| match index {
            0 => self.before,
            _ => self.steps[index - 1].left,
        };
        let Some(own) = until.checked_sub(1) else { return 0.0 };
        // The bytes of a step leave one after another.
        let left = (left_before(own) as f64 + self.steps[own].left as f64) / 2.0;
        let (mut best, mut back, mut stride) = (0.0_f64, 0, 1);
        while back <= own {
            let start = own - back;
            let span = time.saturating_sub(self.steps[start].at) as f64 + delay;
            best = best.max((left - left_before(start) as f64) / span.max(least_span));
            // Long ago, a coarser search will do.
            back += stride;
            stride += usize::from(back >= 8) * (stride / 4 + 1);
        }
        best
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
            waiting: 0,
            in_flight: 0,
            arrived: 0,
            mean: Mean::default(),
            is_starting: true,
            handed: Handed::default(),
            rate: 0.0,
            proven: 0.0,
            beyond: None,
            rival: None,
            emptied: 0,
            lost_at: None,
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
        let Some(link) = self.links.remove(peer) else { return };
        self.in_flight -= link.load.in_flight;
        if !link.is_stalled {
            self.uncount(link.load);
        }
    }

    /// Sets what a link has under way. Ignores links that are not up.
    pub fn set_load(&mut self, now: Time, peer: PeerId, load: Load) {
        self.pace(now.as_nanos());
        let Some(link) = self.links.get_mut(peer) else { return };
        let before = std::mem::replace(&mut link.load, load);
        if before.total() == 0 {
            link.waits_since = now.as_nanos();
        }
        let (least, is_stalled) = (link.least(), link.is_stalled);
        if !is_stalled {
            self.uncount(before);
            self.count(load);
        }
        self.in_flight = self.in_flight - before.in_flight + load.in_flight;
        let handed = load.total().saturating_sub(before.total()) as f64;
        self.pacer.bytes -= handed;
        if handed > 0.0 && least != u64::MAX {
            self.handed.weight = (self.handed.weight + handed).min(self.limit.max(handed));
            self.handed.least += handed / self.handed.weight * (least as f64 - self.handed.least);
        }
        self.past.note(Step {
            at: now.as_nanos(),
            under_way: self.under_way,
            waiting: self.waiting,
            limit: self.limit,
            left: self.arrived + self.in_flight,
            arrived: self.arrived,
        });
    }

    /// Takes a report of a link. Ignores links that are not up.
    pub fn report(&mut self, now: Time, peer: PeerId, report: Report) {
        let trip = report.round_trip.as_nanos() as u64;
        if let Some(link) = self.links.get_mut(peer)
            && report.lost > std::mem::replace(&mut link.lost, report.lost)
        {
            self.lost_at = Some(now.as_nanos());
        }
        if report.arrived > 0
            && let Some(link) = self.links.get_mut(peer)
        {
            link.waits_since = now.as_nanos();
            let (load, was_stalled) = (link.load, std::mem::take(&mut link.is_stalled));
            if was_stalled {
                self.count(load);
            }
            self.arrived += report.arrived;
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
        self.set_load(now, peer, report.load);
    }

    const fn count(&mut self, load: Load) {
        self.under_way += load.total();
        self.waiting += load.waiting;
    }

    const fn uncount(&mut self, load: Load) {
        self.under_way -= load.total();
        self.waiting -= load.waiting;
    }

    fn sample(&mut self, now: u64, report: &Report, trip: u64, least: u64) {
        // Two packets in a long queue are no pause.
        let idle = IDLE.max(trip.saturating_mul(2));
        if now.saturating_sub(self.sampled) > idle {
            // The samples that the limit followed are long past. The first new one shows whether a rival is
            // still there.
            self.rival = self.rival.map(|rival| Rival {
                window: self.config.first as f64,
                phase: Phase::Looks { after: 0, back_to: Some(rival.window) },
                ..rival
            });
            let passed = self.proven * (self.handed.least + self.config.target.as_nanos() as f64);
            self.limit = self.limit.min(passed).max(self.config.first as f64);
            self.proven /= 2.0;
            self.is_starting = true;
            (self.mean.weight, self.mean.delay) = (0.0, 0.0);
            self.emptied = now;
        }
        self.sampled = now;
        let (bytes, target) = (report.arrived as f64, self.config.target.as_nanos() as f64);
        let delay = self.delay_of((trip - least) as f64, report.ack_delay.as_nanos() as f64);
        let sent_at = now.saturating_sub(trip);
        let Some(then) = self.past.at(sent_at).copied() else { return };
        // Acknowledgements that a shorter queue brings at once are no faster uplink.
        let left_in = sent_at.saturating_sub(self.past.left_at(then.arrived)).max(trip);
        let arrival = (self.arrived - then.arrived) as f64 / left_in as f64;
        self.proven = self.proven.max(arrival);
        let mean = &mut self.mean;
        mean.weight = (mean.weight + bytes).min((self.limit * MEMORY).max(bytes));
        let share = bytes / mean.weight;
        mean.delay += share * (delay.min(OUTLIER * (mean.delay + target)) - mean.delay);
        mean.load += share * (then.under_way as f64 - mean.load);
        mean.waiting += share * (then.waiting as f64 - mean.waiting);
        self.is_starting &= mean.delay < target / 2.0;
        if matches!(self.rival, Some(Rival { phase: Phase::Looks { after, .. }, .. }) if sent_at > after) {
            // The mean contains only samples from before.
            self.mean.delay = delay;
        }
        let is_used = then.under_way as f64 >= USED * then.limit;
        if self.share(now, sent_at, if is_used { bytes } else { 0.0 }, arrival) {
            return;
        }
        let mean = self.mean;
        if !is_used || mean.load <= 0.0 {
            return;
        }
        let least = self.handed.least;
        let packets = TARGET_BYTES * (least + mean.delay) / mean.load;
        let target = (target.powi(3) + packets.powi(3)).cbrt();
        let rate = self.past.rate(sent_at, mean.delay, target);
        self.rate += share * (rate - self.rate);
        let passed = self.rate * (least + target) + mean.waiting;
        let wanted = if mean.delay < target {
            let growth = if self.is_starting { START } else { GROWTH };
            passed.max(mean.load * (target / mean.delay).min(growth))
        } else {
            passed.max(mean.load * SHRINKAGE).min(self.limit)
        };
        let step = (SPEED * bytes / mean.load).min(1.0);
        self.limit += step * (wanted - self.limit);
        self.limit = self.limit.max(self.config.least as f64);
    }

    /// Follows a rival, if there is one. `bytes` arrived, 0 if the limit was not used. `rate` is that of
    /// arrivals in the last round trip, in bytes per nanosecond. Returns false if there is none.
    fn share(&mut self, now: u64, sent_at: u64, bytes: f64, rate: f64) -> bool {
        let (delay, target) = (self.mean.delay, self.config.target.as_nanos() as f64);
        let target = target.max(TARGET_BYTES / self.proven.max(f64::MIN_POSITIVE));
        let trip = self.handed.least + delay;
        let Some(rival) = self.rival else {
            return self.find_rival(now, bytes, (target, trip), rate);
        };
        let Rival { window, others, phase } = rival;
        let is_lost = self.lost_at.take().is_some();
        // A node with half of the queue has half of the uplink. The share of the others changes between two
        // looks, so a rate clearly below what the uplink has passed before tells it, too.
        let part = rate / self.proven;
        let is_half = if delay > 2.0 * others { part > HALF } else { part > ABOVE_HALF && part < CERTAIN };
        let every = if part < CERTAIN { LOOK_SELDOM } else { LOOK_EVERY };
        let next = match phase {
            Phase::Enters if is_lost => rival.shares(now, window * CUBIC_LEFT, window, now),
            Phase::Enters if is_half => {
                // It grew while the first of its bytes were on their way.
                let window = window * (trip - delay + delay.min(2.0 * others)) / trip;
                rival.shares(now, window, window, now)
            }
            Phase::Enters => Rival { window: window + bytes / 2.0, ..rival },
            Phase::Shares { looked, .. } if now > looked + every => {
                self.looks(now, rate, window, Some(window))
            }
            Phase::Shares { since, from, plateau, looked } => {
                let elapsed = now.saturating_sub(since) as f64 + trip;
                // One overflow counts once: its losses become known over a round trip.
                if is_lost && elapsed > 2.0 * trip {
                    let falls = window < plateau;
                    let next = if falls { window * (1.0 + CUBIC_LEFT) / 2.0 } else { window };
                    let left = if part < HALF { REGAIN_LEFT } else { CUBIC_LEFT };
                    rival.shares(now, window * left, next, looked)
                } else {
                    let steep = ((plateau - from).max(0.0) / CUBIC_PACKET / CUBIC).cbrt();
                    let curve = plateau + CUBIC * CUBIC_PACKET * (elapsed / 1e9 - steep).powi(3);
                    let most = if is_half || bytes == 0.0 { window } else { window + bytes / 2.0 };
                    let least = if part < HALF { window + bytes * REGAIN } else { window.min(from) };
                    Rival { window: curve.clamp(least.min(most), most), ..rival }
                }
            }
            Phase::Looks { after, .. } if sent_at <= after => rival,
            Phase::Looks { .. } if delay < RIVAL_DELAY * target => {
                (self.rival, self.emptied) = (None, now);
                return false;
            }
            Phase::Looks { back_to: None, .. } => Rival { others: delay, phase: Phase::Enters, ..rival },
            Phase::Looks { back_to: Some(back_to), .. } => {
                let seen = Rival { others: delay, ..rival };
                seen.shares(now, back_to, back_to, now)
            }
        };
        self.rival = Some(next);
        self.limit = (next.window + self.mean.waiting).max(self.config.least as f64);
        true
    }

    /// Leaves the queue for a round trip, in which its own bytes wait nowhere.
    fn looks(&self, now: u64, rate: f64, window: f64, back_to: Option<f64>) -> Rival {
        let phase = Phase::Looks { after: now + self.mean.delay as u64, back_to };
        Rival { window: (LOOK_PART * rate * self.handed.least).min(window), others: self.mean.delay, phase }
    }

    /// Looks for others: a delay far beyond the target that stays, or a queue that was never short, as
    /// others may have filled it before the first round trip.
    fn find_rival(&mut self, now: u64, bytes: f64, (target, trip): (f64, f64), rate: f64) -> bool {
        let delay = self.mean.delay;
        if bytes == 0.0 || delay < EMPTY * target {
            self.emptied = now;
        }
        if delay < RIVAL_DELAY * target {
            self.beyond = None;
            return now.saturating_sub(self.emptied) > LOOK_SELDOM && self.leave(now, rate);
        }
        let new = Beyond { since: now, longest: trip, bytes: 0.0 };
        let Beyond { since, longest, bytes: arrived } = self.beyond.get_or_insert(new);
        *longest = longest.max(trip);
        *arrived += bytes;
        let time = now.saturating_sub(*since) as f64;
        // A few bytes in a long time say nothing: the mean is of the past.
        let is_seen = *arrived > RIVAL_TRIPS * self.mean.load;
        is_seen && time > (RIVAL_TRIPS * *longest).max(RIVAL_TIME) && self.leave(now, rate)
    }

    fn leave(&mut self, now: u64, rate: f64) -> bool {
        let window = (self.limit - self.mean.waiting).max(self.config.least as f64);
        (self.rival, self.beyond) = (Some(self.looks(now, rate, window, None)), None);
        (self.emptied, self.lost_at) = (now, None);
        true
    }

    /// Returns a delay as far as it is certain. If its acknowledgement may have waited, it changes the
    /// mean only if it does so with and without the longest wait.
    fn delay_of(&self, delay: f64, ack_delay: f64) -> f64 {
        if ack_delay == 0.0 { delay } else { self.mean.delay.clamp((delay - ack_delay).max(0.0), delay) }
    }

    /// Returns the pace in bytes per nanosecond and the bytes that may leave at once; `None` while
    /// no round trip is known.
    fn bucket(&self) -> Option<(f64, f64)> {
        if self.handed.least == 0.0 {
            return None;
        }
        let target = self.config.target.as_nanos() as f64;
        // Without delay, the uplink passes the limit in less time than the target would take.
        let pace = if self.is_starting { START_PACE } else { PACE };
        let rate = pace * self.limit / (self.handed.least + self.mean.delay.min(target));
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
    /// although there is no room counts like all other bytes.
    pub fn room(&mut self, now: Time) -> u64 {
        self.pace(now.as_nanos());
        if self.under_way >= self.limit as u64 {
            self.find_stalled(now.as_nanos());
        }
        if self.pacer.bytes <= 0.0 { 0 } else { (self.limit as u64).saturating_sub(self.under_way) }
    }

    /// Returns the bytes of urgent frames that may leave although there is no room for others: they
    /// wait neither for the pacer nor for the limit, up to a quarter above it. The first frames to
    /// hundreds of peers would otherwise overflow the queue, and cost their links the windows.
    pub fn urgent_room(&self) -> u64 {
        ((URGENT * self.limit) as u64).saturating_sub(self.under_way)
    }

    fn find_stalled(&mut self, now: u64) {
        if now.abs_diff(self.searched) < SEARCH {
            return;
        }
        self.searched = now;
        let ack_delay = TCP_ACK_DELAY.as_nanos() as f64;
        for peer in self.links.connected().to_vec() {
            if let Some(link) = self.links.get_mut(peer)
                && link.load.total() > 0
                && !link.is_stalled
                && (now.saturating_sub(link.waits_since) > STALL
                    || self.sampled.saturating_sub(link.waits_since) as f64
                        > LATE * (link.least() as f64 + self.mean.delay) + ack_delay)
            {
                link.is_stalled = true;
                let load = link.load;
                self.uncount(load);
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

    /// Returns the estimated rate of the uplink in bytes per second, 0 if it is unknown: the node's
    /// share, if others use it, too. While the limit is not used, it is too small.
    pub fn rate(&self) -> f64 {
        self.rate * 1e9
    }

    /// Returns the least round trip of a link in the last one to two minutes, if one is known.
    pub fn round_trip(&self, peer: PeerId) -> Option<Duration> {
        let least = self.links.get(peer)?.least();
        (least != u64::MAX).then(|| Duration::from_nanos(least))
    }
}
