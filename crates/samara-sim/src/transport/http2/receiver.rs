//! Segments in, messages out, and credit back.

use samara_engine::Frame;

use super::sender::{Item, Load, Sender};
use super::{ESTIMATED_MAX, INITIAL_WINDOW, Window};
use crate::transport::{Ack, AckNeed, Transport, tcp};

/// What came of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) need: AckNeed,
    /// Frames that this end has written because of it.
    pub(crate) written: u64,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct Receiver<F> {
    tcp: tcp::Receiver<Load<F>>,
    credit: Credit,
    estimator: Option<Estimator>,
    /// What arrived in order and was not looked at yet.
    arrived: Vec<Load<F>>,
}

impl<F: Frame> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        let config = transport.connection.http2();
        Self {
            tcp: tcp::Receiver::new(transport),
            credit: Credit::new(config.window.at_first()),
            estimator: match config.window {
                Window::Estimated => Some(Estimator::new()),
                Window::Fixed { .. } => None,
            },
            arrived: Vec::new(),
        }
    }

    /// Takes a segment; messages that are complete now go to `deliver`, and what they make this end write to `sender`, with ranks after
    /// `writes`.
    pub(crate) fn segment(
        &mut self,
        now: u64,
        stamp: u32,
        (seq, load): (u32, Option<Load<F>>),
        transport: &Transport,
        (sender, writes): (&mut Sender<F>, u64),
        deliver: &mut Vec<F>,
    ) -> Heard {
        let need = self.tcp.segment(stamp, (seq, load), transport, &mut self.arrived);
        let mut rank = writes;
        let mut arrived = std::mem::take(&mut self.arrived);
        for item in arrived.iter().flat_map(|load| load.iter()) {
            self.take(now, item, sender, &mut rank, deliver);
        }
        arrived.clear();
        self.arrived = arrived;
        Heard { need, written: rank - writes }
    }

    fn take(
        &mut self,
        now: u64,
        item: &Item<F>,
        sender: &mut Sender<F>,
        rank: &mut u64,
        deliver: &mut Vec<F>,
    ) {
        let mut next = || {
            *rank += 1;
            *rank
        };
        match item {
            Item::Data { bytes, message } => {
                let ping = self.estimator.as_mut().is_some_and(|estimator| estimator.add(now, *bytes));
                if let Some(given) = self.credit.take_in(*bytes) {
                    sender.give_credit(given, next());
                }
                if ping {
                    // With all credit before it: grpc-go's way not to be taken for a flood of pings.
                    if let Some(given) = self.credit.give_back() {
                        sender.give_credit(given, next());
                    }
                    sender.ping(next());
                }
                deliver.extend(message.clone());
            }
            Item::Update(bytes) => sender.add_credit(*bytes),
            Item::Ping => sender.pong(next()),
            Item::Pong => {
                let window = self.estimator.as_mut().and_then(|estimator| estimator.answered(now));
                if let Some(more) = window.and_then(|window| self.credit.widen(window)) {
                    sender.give_credit(more, next());
                }
            }
        }
    }

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        self.tcp.acknowledge(now, transport)
    }
}

/// The credit of a connection at its receiver: `trInFlow` in `internal/transport/flowcontrol.go` of grpc-go. Bytes count as taken in
/// when they arrive, whether they are read or not.
#[derive(Debug)]
pub(super) struct Credit {
    limit: u32,
    /// Taken in and not given back.
    owed: u32,
}

impl Credit {
    pub(super) const fn new(limit: u32) -> Self {
        Self { limit, owed: 0 }
    }

    /// Bytes arrive. Returns what is given back now: all that is owed, once it is a quarter of the window.
    pub(super) fn take_in(&mut self, bytes: u32) -> Option<u32> {
        self.owed += bytes;
        if self.owed < self.limit / 4 { None } else { self.give_back() }
    }

    /// Gives back all that is owed, if anything is.
    pub(super) fn give_back(&mut self) -> Option<u32> {
        let owed = std::mem::take(&mut self.owed);
        (owed > 0).then_some(owed)
    }

    /// Widens the window. Returns by how much.
    pub(super) fn widen(&mut self, limit: u32) -> Option<u32> {
        let more = limit.saturating_sub(self.limit);
        self.limit += more;
        (more > 0).then_some(more)
    }
}

/// The weight of the past in the mean round trip, once there are enough samples (`alpha`).
const PAST: f64 = 0.9;
/// How many samples count alike before that.
const ALIKE: f64 = 10.0;
/// A sample that fills this part of the window shows that the window may be what limits (`beta`).
const FULL: f64 = 0.66;
/// How much wider than the sample the window then becomes (`gamma`).
const WIDER: f64 = 2.0;
/// The round trip is taken to be so much longer than measured.
const SLACK: f64 = 1.5;

/// `bdpEstimator` of `internal/transport/bdp_estimator.go` in grpc-go: the first data after a pause sends a `PING`; what arrives until it is
/// answered is a sample. Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Estimator {
    window: u32,
    /// When the `PING` was sent that is not answered yet, and what has arrived since, itself included.
    sample: Option<(u64, u32)>,
    samples: f64,
    /// The mean round trip in seconds.
    round_trip: f64,
    /// The largest bandwidth so far, in bytes per second.
    bandwidth_max: f64,
}

impl Estimator {
    pub(super) const fn new() -> Self {
        Self { window: INITIAL_WINDOW, sample: None, samples: 0.0, round_trip: 0.0, bandwidth_max: 0.0 }
    }

    /// Data arrive. Whether a `PING` is to be sent.
    pub(super) fn add(&mut self, now: u64, bytes: u32) -> bool {
        if self.window == ESTIMATED_MAX {
            return false;
        }
        match &mut self.sample {
            Some((_, sample)) => {
                *sample += bytes;
                false
            }
            None => {
                self.sample = Some((now, bytes));
                self.samples += 1.0;
                true
            }
        }
    }

    /// The `PING` is answered. Returns how wide the window is now, if it has become wider.
    pub(super) fn answered(&mut self, now: u64) -> Option<u32> {
        let (sent_at, sample) = self.sample.take()?;
        let round_trip = (now - sent_at) as f64 / 1e9;
        let weight = if self.samples < ALIKE { 1.0 / self.samples } else { PAST };
        self.round_trip += (round_trip - self.round_trip) * weight;
        let bandwidth = f64::from(sample) / (self.round_trip * SLACK);
        if bandwidth < self.bandwidth_max {
            return None;
        }
        self.bandwidth_max = bandwidth;
        if f64::from(sample) < FULL * f64::from(self.window) {
            return None;
        }
        self.window = ((WIDER * f64::from(sample)) as u32).min(ESTIMATED_MAX);
        Some(self.window)
    }
}
