//! The limit over all links: what a node has under way on real connections.
//!
//! A connection whose transport has a [`Meter`] takes a copy if it would leave at once, by the
//! congestion window of the connection and by the limit of the node. Copies of the most urgent
//! lanes may exceed it by a quarter. Other connections are bounded by
//! [`Options::in_flight_bytes`](crate::Options::in_flight_bytes) alone, and the limit does not know
//! what they have under way. The outbox gets the round trips of all links with a meter, with the limit
//! or without.

use std::collections::BTreeSet;
use std::sync::Weak;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures_timer::Delay;
use libp2p::PeerId;
use samara_engine::outbox::{Room, Weight};
use samara_engine::uplink::{Limit, LimitConfig, Load, Report, TCP_ACK_DELAY};
use samara_engine::{Frame, Outbox, PeerId as Handle, Time};
use samara_gossipsub::WithGossipSub;
use samara_gossipsub::rpc::Topic;

use super::Behaviour;
use super::links::{Connection, Peer};
use crate::event::{LinkEvent, ScheduleError, Uplink as Status};
use crate::transport::{Meter, Reading, SINGLE_BYTES};

/// Time between two readings while bytes are under way: the longer one, or where copies wait for
/// the limit a quarter of the least round trip, within these bounds. A reading takes a microsecond
/// for each connection, and the timer some more.
const READ_EVERY_MIN: Duration = Duration::from_millis(2);
const READ_EVERY_MAX: Duration = Duration::from_millis(5);

/// Bytes that were handed over and have not reached the transport for this long do not leave at
/// once: the peer does not read its stream.
const STALLED_AFTER: Duration = Duration::from_millis(50);

/// Time between two readings of a link without the limit, when frames leave: its round trip, which grows
/// with the queues, is all that counts then.
const REFRESH: Duration = Duration::from_millis(100);

/// A round trip or a rate that differs from the weight of the link by this share is news.
const WEIGHT_SHARE: f64 = 0.1;

/// The limit, and the links that are read.
pub(super) struct Uplink {
    pub(super) limit: Limit,
    /// Links with something under way.
    loaded: Vec<Handle>,
    timer: Delay,
    read_at: Option<Instant>,
}

impl Uplink {
    pub(super) fn new(config: LimitConfig) -> Self {
        Self {
            limit: Limit::new(config),
            loaded: Vec::new(),
            timer: Delay::new(Duration::ZERO),
            read_at: None,
        }
    }

    /// Notes that bytes are handed to the connection that carries a link.
    pub(super) fn note_handed(
        &mut self,
        now: Time,
        handle: Handle,
        connection: &mut Connection,
        bytes: usize,
    ) {
        let Some(gauge) = &mut connection.gauge else { return };
        if !gauge.is_loaded {
            // Reports from before the link was idle say little about its windows.
            gauge.read(now, connection.in_flight_bytes);
            gauge.moved = now;
            gauge.is_loaded = true;
            self.loaded.push(handle);
        }
        gauge.handed += bytes as u64;
        self.limit.set_load(now, handle, gauge.load());
    }

    /// Returns true if urgent copies may leave.
    pub(super) fn passes_urgent(&self) -> bool {
        self.limit.urgent_room() > 0
    }

    /// Returns true if no copy may leave but urgent ones.
    pub(super) fn is_full(&mut self, now: Time) -> bool {
        self.limit.room(now) == 0
    }
}

/// The state of a connection with a meter.
pub(super) struct Gauge {
    meter: Weak<dyn Meter>,
    reading: Reading,
    /// Bytes that the connection has taken, with those that were handed over and have not reached
    /// it. Encryption and other protocols add bytes, so each reading can only raise it.
    handed: u64,
    /// The time at which bytes last moved, and that of the last reading.
    moved: Time,
    read_at: Time,
    is_stalled: bool,
    is_loaded: bool,
    /// The round trip in seconds and the rate in bytes per second that the weights of the link have.
    weighed: [f64; 2],
}

impl Gauge {
    pub(super) fn new(meter: Weak<dyn Meter>) -> Self {
        Self {
            meter,
            reading: Reading::default(),
            handed: 0,
            moved: Time::ZERO,
            read_at: Time::ZERO,
            is_stalled: false,
            is_loaded: false,
            weighed: [0.0; 2],
        }
    }

    /// Reads the meter. Returns false if the connection is closed.
    fn read(&mut self, now: Time, in_flight_bytes: usize) -> bool {
        let Some(reading) = self.meter.upgrade().and_then(|meter| meter.read()) else { return false };
        self.read_at = now;
        let last = std::mem::replace(&mut self.reading, reading);
        if (last.written, last.acknowledged) != (reading.written, reading.acknowledged) {
            self.moved = now;
        }
        self.handed = self.handed.max(reading.written);
        self.is_stalled = self.pending() > 0 && now.since(self.moved) > STALLED_AFTER;
        let is_idle = in_flight_bytes == 0 && reading.unsent == 0 && reading.under_way == 0;
        if self.is_stalled && is_idle {
            // The bytes went down with their stream.
            self.handed = reading.written;
            self.is_stalled = false;
        }
        true
    }

    fn pending(&self) -> u64 {
        self.handed.saturating_sub(self.reading.written)
    }

    /// Returns the bytes that were handed over and have not left.
    fn waiting(&self) -> u64 {
        self.pending() + self.reading.unsent
    }

    /// Returns the bytes that the windows of the connection let out at once.
    fn free(&self) -> u64 {
        self.reading.window.saturating_sub(self.reading.under_way)
    }

    /// Returns the bytes that are under way or about to be.
    pub(super) fn load(&self) -> Load {
        let waiting = if self.is_stalled { self.reading.unsent } else { self.waiting() };
        Load { in_flight: self.reading.under_way, waiting: waiting.min(self.free()) }
    }

    /// Returns the bytes that would leave at once.
    pub(super) fn room(&self) -> Room {
        if self.waiting() == 0 && self.reading.under_way == 0 {
            // Only bytes that wait make TCP probe a closed window.
            return Room(self.free().max(1));
        }
        Room(if self.is_stalled { 0 } else { self.free().saturating_sub(self.waiting()) })
    }
}

impl<A: WithGossipSub, T: From<LinkEvent>> Behaviour<A, T> {
    /// Begins to measure a link, which this connection carries from now on, and to count it if there
    /// is a limit.
    pub(super) fn meter_up(&mut self, peer_id: PeerId, handle: Handle) {
        let now = self.driver.now();
        let connection = self.peers.get_mut(&peer_id).and_then(Peer::active);
        let Some(connection) = connection else { return };
        if connection.gauge.is_none() {
            // Those of an earlier connection, which had a meter.
            self.driver.outbox().forget_weights(handle);
        }
        let Some(uplink) = &mut self.uplink else {
            if let Some(gauge) = &mut connection.gauge {
                gauge.refresh(now, connection.in_flight_bytes, self.driver.outbox(), handle);
            }
            return;
        };
        let Some(gauge) = &mut connection.gauge else {
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!(
                    peer = %peer_id,
                    "the transport of a connection reports neither round trips nor acknowledgements: \
                     {} bytes are handed to each such link, and the limit over all links does not \
                     cover it; the transports of samara_libp2p::transport report both",
                    self.options.in_flight_bytes
                );
            }
            uplink.limit.link_down(handle);
            return;
        };
        if !gauge.read(now, connection.in_flight_bytes) {
            return;
        }
        let least = gauge.reading.round_trip_min;
        uplink.limit.link_up(now, handle, (least > Duration::ZERO).then_some(least));
        gauge.weigh(self.driver.outbox(), handle);
        gauge.moved = now;
        gauge.is_loaded = true;
        if !uplink.loaded.contains(&handle) {
            uplink.loaded.push(handle);
        }
        uplink.limit.set_load(now, handle, gauge.load());
    }

    pub(super) fn meter_down(&mut self, handle: Handle) {
        if let Some(uplink) = &mut self.uplink {
            uplink.limit.link_down(handle);
            uplink.loaded.retain(|loaded| *loaded != handle);
        }
    }

    /// Reads the links that have something under way, if it is time.
    pub(super) fn read_meters(&mut self) {
        let Some(uplink) = &mut self.uplink else { return };
        if uplink.read_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        uplink.read_at = None;
        let now = self.driver.now();
        let mut loaded = std::mem::take(&mut uplink.loaded);
        loaded.retain(|handle| self.read_meter(now, *handle));
        if let Some(uplink) = &mut self.uplink {
            uplink.loaded = loaded;
        }
    }

    /// Reads a link. Returns true if it has something under way.
    fn read_meter(&mut self, now: Time, handle: Handle) -> bool {
        let (Some(uplink), Some(Some(peer))) = (&mut self.uplink, self.handles.get(handle.index())) else {
            return false;
        };
        let Some(peer) = self.peers.get_mut(peer) else { return false };
        let Some(connection) = peer.active() else {
            uplink.limit.set_load(now, handle, Load::default());
            return false;
        };
        let Some(gauge) = &mut connection.gauge else { return false };
        let before = gauge.reading.acknowledged;
        if !gauge.read(now, connection.in_flight_bytes) {
            gauge.is_loaded = false;
            uplink.limit.set_load(now, handle, Load::default());
            return false;
        }
        let arrived = gauge.reading.acknowledged.saturating_sub(before);
        let ack_delay = if arrived <= SINGLE_BYTES { TCP_ACK_DELAY } else { Duration::ZERO };
        let Reading { round_trip, lost, .. } = gauge.reading;
        let report = Report { arrived, round_trip, ack_delay, lost, load: gauge.load() };
        uplink.limit.report(now, handle, report);
        if arrived > 0 {
            gauge.weigh(self.driver.outbox(), handle);
        }
        self.ready.push(handle);
        gauge.is_loaded = gauge.waiting() > 0 || gauge.reading.under_way > 0;
        gauge.is_loaded
    }

    /// Waits for the next reading while something is under way.
    pub(super) fn poll_meters(&mut self, cx: &mut Context<'_>) {
        let now = self.driver.now();
        let Some(uplink) = &mut self.uplink else { return };
        let is_full = uplink.is_full(now);
        let held_until = if is_full { uplink.limit.next_at() } else { None };
        if uplink.loaded.is_empty() && held_until.is_none() {
            uplink.read_at = None;
            return;
        }
        if uplink.read_at.is_none() {
            let gauges = uplink.loaded.iter().filter_map(|handle| {
                let peer = self.handles.get(handle.index()).copied().flatten()?;
                let connections = &self.peers.get(&peer)?.connections;
                connections.iter().find(|connection| connection.writable)?.gauge.as_ref()
            });
            let least = gauges.map(|gauge| gauge.reading.round_trip_min).min().unwrap_or_default();
            let every = match is_full {
                true => (least / 4).clamp(READ_EVERY_MIN, READ_EVERY_MAX),
                false => READ_EVERY_MAX,
            };
            // The pacer lets bytes out without news from a link.
            let held = held_until.map_or(every, |at| at.since(now));
            let every = every.min(held).max(Duration::from_millis(1));
            uplink.read_at = Some(Instant::now() + every);
            uplink.timer.reset(every);
        }
        if let Poll::Ready(()) = uplink.timer.poll_unpin(cx) {
            cx.waker().wake_by_ref();
        }
    }

    /// Reads the weights that the peers of these topics have now. Links with something under way are
    /// read all the time.
    ///
    /// # Errors
    /// The transport of a peer has no meter.
    pub(super) fn measure(&mut self, weight: Weight, topics: &[Topic]) -> Result<(), ScheduleError> {
        let now = self.driver.now();
        let peers = self.gossip(|engine, _| {
            let peers = topics.iter().flat_map(|topic| engine.topic_peers(topic));
            peers.copied().collect::<BTreeSet<Handle>>()
        });
        for handle in peers {
            let Some(peer) = self.handles.get(handle.index()).copied().flatten() else { continue };
            let Some(connection) = self.peers.get_mut(&peer).and_then(Peer::active) else { continue };
            match &mut connection.gauge {
                Some(gauge) if gauge.is_loaded => {}
                Some(gauge) => {
                    gauge.refresh(now, connection.in_flight_bytes, self.driver.outbox(), handle);
                }
                None => {
                    let address = connection.remote.clone();
                    return Err(ScheduleError::NotMeasured { weight, peer, address });
                }
            }
        }
        Ok(())
    }

    /// Returns the weight of a peer in weighted orders; 1 until it is set.
    pub fn weight(&mut self, peer: Handle, weight: Weight) -> f64 {
        self.driver.outbox().weight(peer, weight)
    }

    /// Returns the state of the limit over all links; `None` if it is off.
    pub fn uplink(&self) -> Option<Status> {
        let limit = &self.uplink.as_ref()?.limit;
        let active = self.peers.values().filter_map(|peer| peer.connections.iter().find(|c| c.writable));
        let metered = active.clone().filter(|connection| connection.gauge.is_some()).count();
        Some(Status {
            limit_bytes: limit.bytes(),
            under_way_bytes: limit.under_way(),
            delay: limit.delay(),
            bytes_per_second: limit.rate(),
            metered_links: metered,
            other_links: active.count() - metered,
        })
    }
}

impl Gauge {
    /// Reads the meter for the weights of the link alone, unless it has done so lately.
    pub(super) fn refresh<F: Frame>(
        &mut self,
        now: Time,
        in_flight_bytes: usize,
        outbox: &mut Outbox<F>,
        handle: Handle,
    ) {
        let is_due = self.weighed == [0.0; 2] || now.since(self.read_at) >= REFRESH;
        if is_due && self.read(now, in_flight_bytes) {
            self.weigh(outbox, handle);
        }
    }

    /// Sets the round trip and the weights of the link if they have changed.
    fn weigh<F: Frame>(&mut self, outbox: &mut Outbox<F>, handle: Handle) {
        let seconds = self.reading.round_trip_mean.as_secs_f64();
        if seconds == 0.0 {
            return;
        }
        let found = [seconds, self.reading.window as f64 / seconds];
        let is_news = |(found, known): (f64, f64)| (found - known).abs() > WEIGHT_SHARE * known;
        if found.into_iter().zip(self.weighed).any(is_news) {
            self.weighed = found;
            outbox.set_round_trip(handle, Some(self.reading.round_trip_mean));
            outbox.set_weight(handle, Weight::Bandwidth, found[1]);
        }
    }
}

#[cfg(test)]
mod tests;
