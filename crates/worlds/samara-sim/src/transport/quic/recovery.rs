//! Packets in flight: acknowledgements, losses and probes (RFC 9002 section 6 and appendix A).

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::{GRANULARITY, QuicConfig};
use crate::transport::Ack;

/// A packet is lost once a packet this much later is acknowledged (kPacketThreshold, RFC 9002
/// section 6.1.1).
const PACKET_THRESHOLD: u32 = 3;
/// This many probe timeouts without any arrival indicate that the path has collapsed
/// (kPersistentCongestionThreshold, RFC 9002 section 7.6.1).
const PERSISTENT_THRESHOLD: u64 = 3;
/// The upper limit of the probe timeout in nanoseconds (60 s in quic-go: `maxPTODuration` in
/// `internal/ackhandler/sent_packet_handler.go`).
const MAX_PROBE_TIMEOUT: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Acknowledged,
    Lost,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The segment that the packet carried, or `PING`.
    pub(super) segment: u32,
    /// Size in bytes, including the overhead of QUIC.
    pub(super) bytes: u32,
    pub(super) at: u64,
    /// True if a probe has taken over the segment, so that the loss of this packet needs no repair.
    pub(super) taken_over: bool,
    state: State,
}

/// The packets that an acknowledgement, or the passing of time, decided about.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) acknowledged: SmallVec<[Sent; 4]>,
    pub(super) lost: SmallVec<[Sent; 4]>,
    /// The largest number of a packet that was acknowledged.
    pub(super) largest: Option<u32>,
    /// The round trip that was measured, if one was.
    pub(super) sample: Option<u64>,
    /// True if nothing that was sent over a long time arrived (RFC 9002 section 7.6).
    pub(super) persistent: bool,
}

/// The packets of one direction, at their sender. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Recovery {
    /// The number of the first packet in `packets`.
    first: u32,
    packets: VecDeque<Sent>,
    /// Bytes that are neither acknowledged nor lost; the next field counts their packets.
    pub(super) in_flight: u64,
    in_flight_packets: u32,
    /// Bytes that were acknowledged, ever, and bytes that were lost.
    pub(super) acknowledged: u64,
    pub(super) lost: u64,
    /// One more than the largest packet that was acknowledged.
    acknowledged_to: u32,
    /// The time at which the next overtaken packet counts as lost; `u64::MAX` if there is none.
    loss_at: u64,
    last_sent: u64,
    /// Number of probe timeouts since the last new acknowledgement.
    expired: u32,
    max_ack_delay: u64,
    pub(super) rtt: Rtt,
}

impl Recovery {
    pub(super) fn new(config: &QuicConfig) -> Self {
        Self {
            first: 0,
            packets: VecDeque::new(),
            in_flight: 0,
            in_flight_packets: 0,
            acknowledged: 0,
            lost: 0,
            acknowledged_to: 0,
            loss_at: u64::MAX,
            last_sent: 0,
            expired: 0,
            max_ack_delay: config.max_ack_delay.as_nanos() as u64,
            rtt: Rtt::new(config.initial_rtt.as_nanos() as u64),
        }
    }

    pub(super) fn next_number(&self) -> u32 {
        self.first + self.packets.len() as u32
    }

    pub(super) fn acknowledged_to(&self) -> u32 {
        self.acknowledged_to
    }

    pub(super) fn sent(&mut self, segment: u32, bytes: u32, now: u64) {
        self.packets.push_back(Sent { segment, bytes, at: now, taken_over: false, state: State::InFlight });
        self.in_flight += u64::from(bytes);
        self.in_flight_packets += 1;
        self.last_sent = now;
    }

    /// Returns the time of the next action if no acknowledgement arrives before; `u64::MAX` if
    /// there is none.
    pub(super) fn timer_at(&self) -> u64 {
        if self.loss_at != u64::MAX {
            self.loss_at
        } else if self.in_flight_packets > 0 {
            let timeout = self.rtt.probe_timeout(self.max_ack_delay) << self.expired.min(16);
            self.last_sent + timeout.min(MAX_PROBE_TIMEOUT)
        } else {
            u64::MAX
        }
    }

    /// Doubles the timeout of the next probe, because acknowledgements are overdue.
    pub(super) fn probe(&mut self) {
        self.expired += 1;
    }

    /// Returns true if the timer waits for a packet to be lost and not for an acknowledgement.
    pub(super) const fn waits_for_loss(&self) -> bool {
        self.loss_at != u64::MAX
    }

    /// Returns the oldest packets in flight whose segments no probe has taken over.
    pub(super) fn oldest(&mut self) -> impl Iterator<Item = &mut Sent> {
        self.packets.iter_mut().filter(|sent| sent.state == State::InFlight && !sent.taken_over)
    }

    /// Handles an acknowledgement of everything before `ack` or, if given, of some ranges
    /// (`OnAckReceived`). Returns `None` if nothing in it is new.
    pub(super) fn acknowledged(&mut self, ack: &Ack, now: u64) -> Option<News> {
        // The delay of the acknowledgement: `echo` is in microseconds.
        let (sack, delay) = (ack.sack.as_deref(), u64::from(ack.echo) * 1000);
        let mut news = News::default();
        let mut largest_at = None;
        let ack = ack.ack.min(self.next_number());
        match sack {
            None => self.take_range(0, ack, &mut news, &mut largest_at),
            Some(sack) => {
                let first = self.first;
                for (from, to) in sack.iter().take_while(|(_, to)| *to > first) {
                    self.take_range(from, to, &mut news, &mut largest_at);
                }
            }
        }
        if news.acknowledged.is_empty() {
            return None;
        }
        self.acknowledged_to = self.acknowledged_to.max(ack);
        if let Some((number, at)) = largest_at
            && number + 1 == ack
        {
            news.sample = Some(self.rtt.sample(now - at, delay.min(self.max_ack_delay), now));
        }
        news.largest = largest_at.map(|(number, _)| number);
        self.expired = 0;
        self.find_lost(now, &mut news);
        Some(news)
    }

    /// Marks the packets `from..to` as arrived. Keeps the largest number among the new ones in
    /// `largest`.
    fn take_range(&mut self, from: u32, to: u32, news: &mut News, largest: &mut Option<(u32, u64)>) {
        let start = (from.max(self.first) - self.first) as usize;
        let end = (to.min(self.next_number()).max(self.first) - self.first) as usize;
        for index in start..end {
            let sent = &mut self.packets[index];
            if sent.state == State::InFlight {
                sent.state = State::Acknowledged;
                self.acknowledged += u64::from(sent.bytes);
                self.in_flight -= u64::from(sent.bytes);
                self.in_flight_packets -= 1;
                let number = self.first + index as u32;
                if largest.is_none_or(|(largest, _)| largest < number) {
                    *largest = Some((number, sent.at));
                }
                news.acknowledged.push(*sent);
            }
        }
    }

    /// Checks for losses at the time at which overtaken packets are lost.
    pub(super) fn time_passed(&mut self, now: u64) -> News {
        let mut news = News::default();
        self.find_lost(now, &mut news);
        news
    }

    /// Finds packets that are lost by number or by time (`DetectAndRemoveLostPackets`).
    fn find_lost(&mut self, now: u64, news: &mut News) {
        self.loss_at = u64::MAX;
        let delay = self.rtt.loss_delay();
        let measured = self.rtt.first_sample_at;
        let long = self.rtt.probe_timeout(self.max_ack_delay) * PERSISTENT_THRESHOLD;
        // The time at which the first packet of the current row of losses was sent.
        let mut row_since = None;
        for (number, sent) in (self.first..self.acknowledged_to).zip(&mut self.packets) {
            match sent.state {
                State::Acknowledged => row_since = None,
                State::Lost => {}
                State::InFlight => {
                    let overtaken = self.acknowledged_to > number + PACKET_THRESHOLD;
                    if !overtaken && sent.at + delay > now {
                        self.loss_at = self.loss_at.min(sent.at + delay);
                        row_since = None;
                        continue;
                    }
                    sent.state = State::Lost;
                    self.in_flight -= u64::from(sent.bytes);
                    self.in_flight_packets -= 1;
                    self.lost += u64::from(sent.bytes);
                    news.lost.push(*sent);
                    if measured.is_some_and(|measured| sent.at > measured) {
                        let since = *row_since.get_or_insert(sent.at);
                        news.persistent |= sent.at - since > long;
                    }
                }
            }
        }
        while self.packets.front().is_some_and(|sent| sent.state != State::InFlight) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

/// The round-trip estimator of one direction. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    latest: u64,
    /// The latest round trip without the delay of the acknowledgement.
    adjusted: u64,
    smoothed: u64,
    variation: u64,
    least: u64,
    first_sample_at: Option<u64>,
}

impl Rtt {
    /// Creates an estimator without samples (RFC 9002 section 5.3).
    pub(super) const fn new(initial: u64) -> Self {
        Self {
            latest: 0,
            adjusted: 0,
            smoothed: initial,
            variation: initial / 2,
            least: 0,
            first_sample_at: None,
        }
    }

    /// Returns the last round trip without the delay of its acknowledgement, 0 before the first sample.
    pub(super) const fn last(&self) -> u64 {
        self.adjusted
    }

    /// Adds a sample. `ack_delay` is the peer's reported delay of the acknowledgement, at most the
    /// maximum that it announced. Returns the round trip without that delay.
    pub(super) fn sample(&mut self, latest: u64, ack_delay: u64, now: u64) -> u64 {
        (self.latest, self.adjusted) = (latest, latest);
        if self.first_sample_at.is_none() {
            self.first_sample_at = Some(now);
            (self.least, self.smoothed, self.variation) = (latest, latest, latest / 2);
            return latest;
        }
        self.least = self.least.min(latest);
        // Ignores a delay that would make the round trip shorter than the shortest one so far.
        let adjusted = if latest >= self.least + ack_delay { latest - ack_delay } else { latest };
        self.variation = (3 * self.variation + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
        self.adjusted = adjusted;
        adjusted
    }

    /// Returns the shortest round trip so far, 0 before the first sample.
    pub(super) const fn least(&self) -> u64 {
        self.least
    }

    /// Returns the smoothed round-trip time, 0 before the first sample.
    pub(super) const fn smoothed(&self) -> u64 {
        if self.first_sample_at.is_some() { self.smoothed } else { 0 }
    }

    /// Returns the probe timeout (section 6.2.1).
    pub(super) fn probe_timeout(&self, max_ack_delay: u64) -> u64 {
        self.smoothed + (4 * self.variation).max(GRANULARITY) + max_ack_delay
    }

    /// Returns the time after which an overtaken packet is lost, counted from its sending: 9/8 of
    /// the round trip (kTimeThreshold, section 6.1.2).
    pub(super) fn loss_delay(&self) -> u64 {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY)
    }
}
