//! The account that a QUIC connection gives of itself through its congestion controller.
//!
//! quinn reports neither the bytes in flight nor single round trips. Its congestion controller knows
//! both, so [`Watch`] wraps the controller of each connection and notes what passes through it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::transport::{Meter, Reading, SINGLE_BYTES};

/// Bytes of a packet that carries stream data without the data: the short header with a connection id
/// of 8 bytes and a packet number of 2 (RFC 9000 section 17.3.1), the tag (RFC 9001 section 5.3), and
/// the header of a STREAM frame with an offset of 4 bytes (RFC 9000 section 19.8). A packet with
/// acknowledgements only is seldom longer.
const HEADER_BYTES: u64 = 1 + 8 + 2 + 16 + 7;

/// The counters of one connection. Its streams add what they write, its controller what is sent and
/// acknowledged, and the behaviour reads them.
#[derive(Debug)]
pub(super) struct Flow {
    /// Stream bytes that quinn has taken.
    written: AtomicU64,
    /// The same with those that quinn is about to take. quinn sends bytes from another task, and may
    /// do so before the writer knows how many it took.
    offered: AtomicU64,
    /// The bytes that quinn may hold unacknowledged, as they were set last.
    send_window: AtomicU64,
    /// Taken by the controller while quinn holds the lock of the connection. Nobody who holds it may
    /// call quinn.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Stream bytes that left for the first time. An estimate between two acknowledgements of a
    /// connection that has nothing more to send.
    sent: u64,
    /// Stream bytes that are lost and have not left again.
    lost: u64,
    /// Bytes of packets that were lost, ever.
    lost_ever: u64,
    acknowledged: u64,
    under_way: u64,
    window: u64,
    /// Round trips since the last reading.
    trips: Trips,
    round_trip_mean: Duration,
    round_trip_min: Duration,
}

/// A mean of round trips by their acknowledged bytes.
#[derive(Debug, Default)]
struct Trips {
    bytes: f64,
    seconds: f64,
    /// The only one is that of a last packet, whose acknowledgement may have waited.
    is_last: bool,
}

impl Trips {
    fn add(&mut self, trip: Duration, bytes: u64, is_last: bool) {
        if is_last && self.bytes > 0.0 {
            // The others are more certain.
            return;
        }
        if self.is_last {
            *self = Self::default();
        }
        self.is_last = is_last;
        self.bytes += bytes as f64;
        self.seconds += trip.as_secs_f64() * bytes as f64;
    }

    fn take(&mut self) -> Duration {
        let taken = std::mem::take(self);
        if taken.bytes == 0.0 { Duration::ZERO } else { Duration::from_secs_f64(taken.seconds / taken.bytes) }
    }
}

impl Flow {
    /// Creates the counters of a connection that does not exist yet.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            written: AtomicU64::new(0),
            offered: AtomicU64::new(0),
            send_window: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code in this module panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the round trips of the handshake. Before it ends, quinn reports its initial estimate.
    pub(super) fn established(&self, mean: Duration, min: Duration) {
        let mut state = self.lock();
        (state.round_trip_mean, state.round_trip_min) = (mean, min);
    }

    /// Notes that so many bytes are offered to quinn, and calls `write`, which returns the number
    /// that it takes.
    pub(super) fn write(&self, offered: usize, write: impl FnOnce() -> usize) {
        let offered = offered as u64;
        self.offered.fetch_add(offered, Ordering::Relaxed);
        let taken = write() as u64;
        self.written.fetch_add(taken, Ordering::Relaxed);
        self.offered.fetch_sub(offered - taken, Ordering::Relaxed);
    }

    /// Returns the bytes that quinn may hold unacknowledged, if that has changed by a quarter of
    /// `unsent` or more: the congestion window, and `unsent` beyond it.
    pub(super) fn new_send_window(&self, unsent: u64) -> Option<u64> {
        let wanted = self.lock().window + unsent;
        let last = self.send_window.load(Ordering::Relaxed);
        if wanted.abs_diff(last) < unsent / 4 {
            return None;
        }
        self.send_window.store(wanted, Ordering::Relaxed);
        Some(wanted)
    }
}

impl Meter for Flow {
    fn read(&self) -> Option<Reading> {
        let mut state = self.lock();
        let written = self.written.load(Ordering::Relaxed);
        Some(Reading {
            written,
            acknowledged: state.acknowledged,
            unsent: written.saturating_sub(state.sent),
            under_way: state.under_way,
            lost: state.lost_ever,
            window: state.window,
            round_trip: state.trips.take(),
            round_trip_mean: state.round_trip_mean,
            round_trip_min: state.round_trip_min,
        })
    }
}

/// Wraps the controller of one connection.
pub(super) struct Watched {
    pub(super) flow: Arc<Flow>,
    pub(super) inner: Arc<dyn ControllerFactory + Send + Sync>,
}

impl ControllerFactory for Watched {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        let mut state = self.flow.lock();
        (state.window, state.under_way) = (inner.window(), 0);
        drop(state);
        Box::new(Watch {
            inner,
            flow: Arc::clone(&self.flow),
            mtu: current_mtu.into(),
            offered: 0,
            peak: Peak { before: 0, now: 0, since: now },
            batch: None,
        })
    }
}

/// A congestion controller that notes what passes through it.
struct Watch {
    inner: Box<dyn Controller>,
    flow: Arc<Flow>,
    mtu: u64,
    /// The bytes that the streams had offered when packets last left.
    offered: u64,
    peak: Peak,
    /// The bytes that an ACK frame has acknowledged so far.
    batch: Option<Batch>,
}

struct Batch {
    /// The time at which the last of these packets left. Its round trip is that of the frame; the
    /// acknowledgements of the others may have waited.
    sent: Instant,
    bytes: u64,
    round_trip_mean: Duration,
    round_trip_min: Duration,
}

/// The most bytes under way in this round trip and in the last one.
#[derive(Clone, Copy)]
struct Peak {
    before: u64,
    now: u64,
    since: Instant,
}

impl Peak {
    fn note(&mut self, under_way: u64, now: Instant, round_trip: Duration) {
        if now.saturating_duration_since(self.since) > round_trip {
            *self = Self { before: self.now, now: 0, since: now };
        }
        self.now = self.now.max(under_way);
    }

    fn get(self) -> u64 {
        self.before.max(self.now)
    }
}

impl Watch {
    /// Returns the stream bytes in so many bytes of packets.
    fn payload(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(bytes.div_ceil(self.mtu) * HEADER_BYTES)
    }
}

impl Controller for Watch {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
        self.offered = self.flow.offered.load(Ordering::Relaxed);
        let mut state = self.flow.lock();
        let unsent = self.offered.saturating_sub(state.sent);
        let data = self.payload(bytes).min(unsent + state.lost);
        if data == 0 {
            // Acknowledgements are not acknowledged.
            return;
        }
        let again = data.min(state.lost);
        state.lost -= again;
        state.sent += data - again;
        state.under_way += bytes;
        self.peak.note(state.under_way, now, state.round_trip_mean);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        // quinn calls a connection limited by its application whenever it has sent everything, even
        // if the last bytes filled the window. A node with a limit hands a link what its window lets
        // out, so no window would ever grow. A window of which more than half is used counts as used
        // (RFC 7661 section 4.3; RFC 9002 section 7.8 leaves the rule open).
        let is_used = self.peak.get() > self.inner.window() / 2;
        self.inner.on_ack(now, sent, bytes, app_limited && !is_used, rtt);
        let (round_trip_mean, round_trip_min) = (rtt.get(), rtt.min());
        let batch = self.batch.get_or_insert(Batch { sent, bytes: 0, round_trip_mean, round_trip_min });
        batch.sent = batch.sent.max(sent);
        batch.bytes += bytes;
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        let mut state = self.flow.lock();
        state.under_way = in_flight;
        state.window = self.inner.window();
        if app_limited {
            // All that was offered had left, and what was lost, too.
            (state.sent, state.lost) = (self.offered, 0);
        }
        if let Some(batch) = self.batch.take() {
            state.acknowledged += batch.bytes;
            let is_last = batch.bytes <= SINGLE_BYTES && in_flight == 0;
            state.trips.add(now.saturating_duration_since(batch.sent), batch.bytes, is_last);
            state.round_trip_mean = batch.round_trip_mean;
            state.round_trip_min = batch.round_trip_min;
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
        let mut state = self.flow.lock();
        state.under_way = state.under_way.saturating_sub(lost_bytes);
        state.lost += self.payload(lost_bytes);
        state.lost_ever += lost_bytes;
        state.window = self.inner.window();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
        self.mtu = new_mtu.into();
        self.flow.lock().window = self.inner.window();
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        // quinn clones the controller of a connection that moves to another path, which is off here.
        self.inner.clone_box()
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

#[cfg(test)]
mod tests {
    use quinn::congestion::CubicConfig;

    use super::*;

    const MTU: u64 = 1_200;
    const PAYLOAD: usize = (MTU - HEADER_BYTES) as usize;

    fn watched() -> (Arc<Flow>, Box<dyn Controller>) {
        let flow = Flow::new();
        let factory = Watched { flow: Arc::clone(&flow), inner: Arc::new(CubicConfig::default()) };
        let controller = Arc::new(factory).build(Instant::now(), MTU as u16);
        (flow, controller)
    }

    /// Returns what is written, unsent and under way.
    fn bytes(flow: &Flow) -> (u64, u64, u64) {
        let reading = flow.read().unwrap();
        (reading.written, reading.unsent, reading.under_way)
    }

    #[test]
    fn bytes_are_unsent_until_they_leave_and_under_way_until_they_arrive() {
        let (flow, mut controller) = watched();
        let now = Instant::now();
        flow.write(10 * PAYLOAD, || 4 * PAYLOAD);
        let written = 4 * PAYLOAD as u64;
        assert_eq!(bytes(&flow), (written, written, 0));
        controller.on_sent(now, 3 * MTU, 2);
        assert_eq!(bytes(&flow), (written, PAYLOAD as u64, 3 * MTU));
        controller.on_sent(now, MTU, 3);
        assert_eq!(bytes(&flow), (written, 0, 4 * MTU));
        // Acknowledgements of what the peer sends.
        controller.on_sent(now, 33, 4);
        controller.on_sent(now, MTU, 5);
        assert_eq!(bytes(&flow), (written, 0, 4 * MTU));
        controller.on_end_acks(now, MTU, true, Some(2));
        assert_eq!(bytes(&flow), (written, 0, MTU));
        controller.on_end_acks(now, 0, true, Some(3));
        assert_eq!(bytes(&flow), (written, 0, 0));
    }

    #[test]
    fn lost_bytes_are_under_way_again_when_they_leave_again() {
        let (flow, mut controller) = watched();
        let now = Instant::now();
        flow.write(5 * PAYLOAD, || 5 * PAYLOAD);
        controller.on_sent(now, 4 * MTU, 3);
        let window = flow.read().unwrap().window;
        controller.on_end_acks(now, 3 * MTU, false, Some(3));
        controller.on_congestion_event(now, now, false, 2 * MTU);
        let written = 5 * PAYLOAD as u64;
        assert_eq!(bytes(&flow), (written, PAYLOAD as u64, MTU));
        assert!(flow.read().unwrap().window < window);
        controller.on_sent(now, 2 * MTU, 5);
        assert_eq!(bytes(&flow), (written, PAYLOAD as u64, 3 * MTU));
        controller.on_sent(now, MTU, 6);
        assert_eq!(bytes(&flow), (written, 0, 4 * MTU));
    }

    /// Bytes written since the last packets left have not left, although nothing was left to send
    /// then.
    #[test]
    fn an_idle_connection_does_not_hide_new_bytes() {
        let (flow, mut controller) = watched();
        let now = Instant::now();
        flow.write(PAYLOAD, || PAYLOAD);
        controller.on_sent(now, MTU, 0);
        flow.write(2 * PAYLOAD, || 2 * PAYLOAD);
        controller.on_end_acks(now, 0, true, Some(0));
        assert_eq!(bytes(&flow), (3 * PAYLOAD as u64, 2 * PAYLOAD as u64, 0));
    }

    #[test]
    fn the_wait_of_a_last_packet_counts_only_alone() {
        let ms = Duration::from_millis;
        let mut trips = Trips::default();
        trips.add(ms(75), 100, true);
        assert_eq!(trips.take(), ms(75));
        trips.add(ms(75), 100, true);
        trips.add(ms(50), 2_400, false);
        trips.add(ms(75), 100, true);
        assert_eq!(trips.take(), ms(50));
        assert_eq!(trips.take(), Duration::ZERO);
    }

    #[test]
    fn quinn_may_hold_the_window_and_what_waits_for_it() {
        let (flow, _controller) = watched();
        let window = flow.read().unwrap().window;
        assert_eq!(flow.new_send_window(1_000), Some(window + 1_000));
        assert_eq!(flow.new_send_window(1_000), None);
        flow.lock().window += 200;
        assert_eq!(flow.new_send_window(1_000), None);
        flow.lock().window += 50;
        assert_eq!(flow.new_send_window(1_000), Some(window + 1_250));
    }
}
