//! Transports: how frames become packets, when packets leave, and how losses are repaired.
//!
//! A transport is a folder and one line in the table of `transports!`. The folder has `Sender` and
//! `Receiver`, the two halves of a host's end of a link; `check` for its configuration; `wire_bytes`
//! of a frame; and `hello_bytes` of a step of the handshake. A layer over TCP is a transport whose
//! sender writes to a [`Socket`](socket::Socket).

mod backlog;
mod config;
mod congestion;
pub(crate) mod datagram;
pub(crate) mod http2;
pub(crate) mod mconn;
pub(crate) mod quic;
mod socket;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;

use std::time::Duration;

use samara_engine::Frame;
use samara_engine::outbox::{Lane, Room};
use samara_engine::uplink::{Load, Report, TCP_ACK_DELAY};

pub use config::{Connection, Control, Framing, Transport, Writers};
pub(crate) use mconn::ConnectionStats;
pub(crate) use socket::Load as StreamLoad;

use crate::config::SimConfig;
use crate::error::ConfigError;
use crate::explain::Cause;
use crate::packet::{Body, Sack};
use backlog::Segment;

/// Maximum bytes of a frame that a simulation carries. Lengths of frames with their framing fit into
/// 32 bits.
pub const FRAME_BYTES_MAX: u32 = 1 << 31;

/// Combines the ends of all transports in one type, so that hosts need not know the transport of a
/// link.
macro_rules! transports {
    ($($(#[$doc:meta])* $connection:pat, $control:pat => $name:ident: $module:ident $end:ty;)*) => {
        /// One host's end of a link, over any transport.
        #[derive(Debug)]
        pub(crate) enum AnyEnd<F> { $($(#[$doc])* $name($end),)* }

        impl<F: Frame> AnyEnd<F> {
            pub(crate) fn new(transport: &Transport) -> Self {
                match (&transport.connection, &transport.control) {
                    $(($connection, $control) => {
                        let (sender, receiver) = ($module::Sender::new(transport), $module::Receiver::new(transport));
                        Self::$name(End { sender, receiver }.into())
                    })*
                }
            }
        }

        impl Transport {
            /// Checks that the transport can carry its connection.
            pub(crate) fn check(&self) -> Result<(), ConfigError> {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::check(self),)*
                }
            }

            /// Returns the bytes on the wire of a frame of `encoded_len` bytes: framing, and the
            /// headers of its packets. On a connection with channels, the frame is alone in its
            /// flush and finds the window open.
            pub fn wire_bytes(&self, encoded_len: u32) -> u64 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::wire_bytes(encoded_len, self),)*
                }
            }

            /// Returns the least bytes on the wire of each of `count` frames that are written one
            /// after the other, rounded down: on a connection with a stream of bytes, they share
            /// packets.
            pub fn wire_bytes_each(&self, encoded_len: u32, count: u32) -> u64 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::wire_bytes_each(encoded_len, count, self),)*
                }
            }

            /// Returns the payload of a step of the handshake, by its number (even from the
            /// dialler).
            pub(crate) fn hello_bytes(&self, step: u32) -> u32 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::hello_bytes(step, self),)*
                }
            }
        }

        /// Evaluates an expression for the end of the actual transport.
        macro_rules! each {
            ($value:expr, $inner:ident => $call:expr) => {
                match $value { $(AnyEnd::$name($inner) => $call,)* }
            };
        }
    };
}

transports! {
    /// TCP, and the ideal transport, which has no control.
    Connection::Direct, Control::Tcp(_) | Control::Ideal => Tcp: tcp End<tcp::Sender<F>, tcp::Receiver<F>>;
    Connection::Direct, Control::Quic(_) => Quic: quic Box<End<quic::Sender<F>, quic::Receiver<F>>>;
    Connection::Direct, Control::Datagram => Datagram: datagram End<datagram::Sender<F>, datagram::Receiver>;
    /// A connection with channels, over TCP or the ideal transport.
    Connection::MConnection(_), _ => MConnection: mconn Box<End<mconn::Sender<F>, mconn::Receiver<F>>>;
    /// HTTP/2, over TCP or the ideal transport.
    Connection::Http2(_), _ => Http2: http2 Box<End<http2::Sender<F>, http2::Receiver<F>>>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckNeed {
    /// No acknowledgement: the transport has none.
    #[default]
    None,
    /// An acknowledgement no later than the configured delay.
    Later,
    /// An acknowledgement at once.
    Now,
}

/// The acknowledgement that an outgoing packet carries. Numbers are of segments (TCP) or packets
/// (QUIC).
#[derive(Debug, Default)]
pub(crate) struct Ack {
    /// TCP: the next segment that is expected. QUIC: one more than the largest packet that arrived,
    /// 0 for none.
    pub(crate) ack: u32,
    /// TCP: the timestamp of the acknowledged packet. QUIC: how long the acknowledgement was
    /// delayed, in microseconds.
    pub(crate) echo: u32,
    /// TCP: number of packets beyond `ack` that the receiver has room for. QUIC: number of segments
    /// since the start that the receiver has room for. 0 where that never changes.
    pub(crate) window: u32,
    /// TCP: the segments that arrived beyond `ack`. QUIC: the packets that arrived, if there is a
    /// gap.
    pub(crate) sack: Option<Box<Sack>>,
}

#[derive(Debug)]
pub(crate) struct Outgoing<F> {
    pub(crate) body: Body<F>,
    /// Payload length in bytes.
    pub(crate) len: u32,
    pub(crate) again: bool,
    /// The packet's identification: see [`Packet`](crate::packet::Packet).
    pub(crate) stamp: u32,
    /// Without acknowledgements: true if the packet frees a part of the send buffer.
    pub(crate) frees: bool,
}

impl<F> From<Segment<F>> for Outgoing<F> {
    fn from(segment: Segment<F>) -> Self {
        let Segment { seq, count: _, len, frame, again, stamp } = segment;
        let frees = frame.is_some();
        Self { body: Body::Data { seq, frame }, len, again, stamp, frees }
    }
}

/// A sender's account of its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Bytes that were written and have neither arrived nor are lost.
    pub(crate) load: Load,
    /// Bytes that have arrived, ever.
    pub(crate) arrived: u64,
    /// Bytes that were lost, ever, or sent again.
    pub(crate) lost: u64,
    /// The last round trip in nanoseconds; 0 before the first one.
    pub(crate) trip: u64,
}

impl Flow {
    /// Returns what a node's limit gets to know of an acknowledgement, before which so many bytes had
    /// arrived.
    pub(crate) fn report(&self, before: u64, transport: &Transport) -> Report {
        let arrived = self.arrived.saturating_sub(before);
        let is_single = arrived <= u64::from(transport.mss) && matches!(transport.control, Control::Tcp(_));
        let ack_delay = if is_single { TCP_ACK_DELAY } else { Duration::ZERO };
        let round_trip = Duration::from_nanos(self.trip);
        Report { arrived, round_trip, ack_delay, lost: self.lost, load: self.load }
    }
}

/// Limits the data in flight, and repairs losses. Times in nanoseconds.
pub(crate) trait LossRecovery {
    /// Returns the smoothed round-trip time, 0 if unknown.
    fn srtt(&self) -> u64;

    /// Returns the congestion window in packets.
    fn cwnd(&self) -> f64;

    /// Returns what the sender knows about its bytes; zeros without acknowledgements.
    fn flow(&self) -> Flow;

    /// Returns true if the next packet waits for its time and not for the window: QUIC's pacing.
    fn is_held(&self) -> bool {
        false
    }

    /// Returns the limit of the congestion window, if the window is full now.
    fn window_cause(&self) -> Cause {
        Cause::Timer
    }

    /// Returns the time at which the loss timer or the pacer's timer expires; `u64::MAX` if neither
    /// runs.
    fn timer_at(&self) -> u64;

    /// Returns the time without new acknowledgements since a first timeout.
    fn stalled_for(&self, now: u64) -> u64;

    /// Handles an acknowledgement. Returns true if it was new, so that there may be room now.
    fn acknowledged(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool;

    /// Handles the expired timer. Returns true if acknowledgements are overdue.
    fn timed_out(&mut self, now: u64, transport: &Transport) -> bool;
}

/// One host's end of a link: all layers between the outbox and packets, in both directions.
#[derive(Debug)]
pub(crate) struct End<S, R> {
    sender: S,
    receiver: R,
}

/// The half of an end that sends.
///
/// A link that comes up calls `start`. With an outbox per link, copies come by `offer`; with one order
/// over all links, the host writes each copy to a link whose `room` is large enough for it.
pub(crate) trait SendHalf<F> {
    /// Returns the loss recovery of this direction.
    fn recovery(&self) -> &impl LossRecovery;

    fn recovery_mut(&mut self) -> &mut impl LossRecovery;

    fn start(&mut self, _now: u64, _transport: &Transport) {}

    /// Takes copies while it has room for them. Returns false if it has no use for such an offer.
    fn offer(&mut self, offer: Offer, copies: &mut dyn Copies<F>, around: &mut Around<'_, F>) -> bool {
        let which = if offer == Offer::Urgent { Which::Urgent } else { Which::Next };
        while self.has_buffer(around.transport)
            && let Some((frame, len)) = copies.next(which, around.counts.writes + 1)
        {
            around.counts.writes += 1;
            self.write(frame, len, around.counts.writes, around.transport);
        }
        true
    }

    /// Takes a frame of `len` encoded bytes.
    fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport);

    /// Returns true if a per-link queue may pass another frame.
    fn has_buffer(&self, transport: &Transport) -> bool;

    /// Returns true if the segment that left has made room for frames.
    fn has_room_again(&self, _transport: &Transport) -> bool {
        false
    }

    /// Returns the bytes of a frame written now that would leave as soon as the uplink is free.
    fn room(&self, transport: &Transport) -> Room;

    /// Returns true if a packet with data can leave now.
    fn can_send(&self) -> bool;

    /// Returns the write rank of the next segment to leave.
    fn next_rank(&self) -> u64;

    /// Returns how many segments may leave as one step of an uplink that serves no other link now, at
    /// this rate.
    fn burst_max(&self, _uplink_nanos_per_byte: f64, _config: &SimConfig) -> u32 {
        1
    }

    /// Returns the segment that leaves at `now`, if one can; up to `burst_max` segments.
    fn pop(&mut self, now: u64, burst_max: u32, transport: &Transport) -> Option<Outgoing<F>>;

    /// Returns why data that wait in this half cannot leave, unless they can; `None` if none wait.
    fn held(&self, _now: u64) -> Option<Cause> {
        None
    }

    fn take_ack(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        self.recovery_mut().acknowledged(ack, now, transport)
    }

    fn timer_expired(&mut self, now: u64, transport: &Transport) -> bool {
        self.recovery_mut().timed_out(now, transport)
    }

    /// Returns the time of a timer that the host must set now, unless a running one fires no later.
    fn due(&mut self, _timer: EndTimer, _now: u64) -> Option<u64> {
        None
    }
}

/// The half of an end that receives. It may write answers to the other half.
pub(crate) trait ReceiveHalf<F> {
    type Sender: SendHalf<F>;

    /// Takes the body and the stamp of a packet.
    fn take(
        &mut self,
        sender: &mut Self::Sender,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken;

    /// Handles a timer that fires; `None` if another one has taken its place.
    fn fired(
        &mut self,
        _sender: &mut Self::Sender,
        _timer: EndTimer,
        _around: &mut Around<'_, F>,
    ) -> Option<Taken> {
        None
    }

    /// Returns the acknowledgement that a departing packet carries.
    fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack;
}

/// Why an outbox offers copies to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// There are new copies. Urgent ones go first on all links.
    Urgent,
    /// There are new copies, or the end has asked for a turn.
    Copies,
    /// The link may have room again.
    Room,
}

/// The copies of an outbox for a link.
pub(crate) trait Copies<F> {
    fn is_empty(&self) -> bool;

    fn has_any(&self, lanes: &[Lane]) -> bool;

    /// Takes a copy out of the outbox, with its encoded bytes. `rank` is its write rank; 0 where ranks
    /// do not belong to frames.
    fn next(&mut self, which: Which<'_>, rank: u64) -> Option<(F, u32)>;
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    /// The next copy in the outbox's order.
    Next,
    Urgent,
    /// The next one on any of these lanes.
    Lanes(&'a [Lane]),
}

/// The host around an end.
pub(crate) struct Around<'a, F> {
    pub(crate) now: u64,
    pub(crate) transport: &'a Transport,
    pub(crate) counts: &'a mut EndCounts,
    /// The frames that are complete and read.
    pub(crate) delivered: &'a mut Vec<F>,
}

/// The common counters of the ends of a host.
#[derive(Debug, Default)]
pub(crate) struct EndCounts {
    /// The writes of the host, which are the ranks of its data.
    pub(crate) writes: u64,
    /// Those of connections with channels.
    pub(crate) connections: ConnectionStats,
}

/// The effects of a packet or a timer, besides frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) ack: AckNeed,
    /// True if the peer knows a much smaller window and should get an update.
    pub(crate) window_opened: bool,
    /// True if a limit of the receive rate had held data back.
    pub(crate) was_held: bool,
    /// True if the end has something to send, once the frames are delivered.
    pub(crate) wants_turn: bool,
    /// True if the peer has not answered in time: the link is closed.
    pub(crate) is_overdue: bool,
    /// Number of frames whose loss has become known.
    pub(crate) lost: u32,
}

impl Taken {
    /// Returns the consequence of a body of another transport, which no link carries.
    fn mismatch() -> Self {
        debug_assert!(false, "both ends of a link have the same transport");
        Self::default()
    }
}

impl From<AckNeed> for Taken {
    fn from(ack: AckNeed) -> Self {
        Self { ack, ..Self::default() }
    }
}

/// A timer of an end besides those for losses and acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndTimer {
    /// Flushes, probes of a closed window, and rate limits.
    Work,
    /// Pings, which are rare: a shared timer would be set again with every flush.
    Ping,
}

impl EndTimer {
    pub(crate) const ALL: [Self; 2] = [Self::Work, Self::Ping];
}

/// Forwards calls to a part of the end of the actual transport.
macro_rules! hand_on {
    ($([$($part:tt)*] $name:ident($own:ident: $kind:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {
        $(pub(crate) fn $name($own: $kind $(, $arg: $type)*) -> $out {
            each!($own, end => end.$($part)*.$name($($arg),*))
        })*
    };
}

/// Forwards [`SendHalf`], [`LossRecovery`] and [`ReceiveHalf`].
impl<F: Frame> AnyEnd<F> {
    hand_on! {
        [sender] start(self: &mut Self, now: u64, transport: &Transport) -> ();
        [sender] offer(self: &mut Self, what: Offer, from: &mut dyn Copies<F>, at: &mut Around<'_, F>) -> bool;
        [sender] write(self: &mut Self, frame: F, len: u32, rank: u64, transport: &Transport) -> ();
        [sender] has_buffer(self: &Self, transport: &Transport) -> bool;
        [sender] has_room_again(self: &Self, transport: &Transport) -> bool;
        [sender] room(self: &Self, transport: &Transport) -> Room;
        [sender] can_send(self: &Self) -> bool;
        [sender] next_rank(self: &Self) -> u64;
        [sender] burst_max(self: &Self, uplink_nanos_per_byte: f64, config: &SimConfig) -> u32;
        [sender] pop(self: &mut Self, now: u64, burst_max: u32, transport: &Transport) -> Option<Outgoing<F>>;
        [sender] held(self: &Self, now: u64) -> Option<Cause>;
        [sender] take_ack(self: &mut Self, ack: &Ack, now: u64, transport: &Transport) -> bool;
        [sender] timer_expired(self: &mut Self, now: u64, transport: &Transport) -> bool;
        [sender] due(self: &mut Self, timer: EndTimer, now: u64) -> Option<u64>;
        [sender.recovery()] window_cause(self: &Self) -> Cause;
        [sender.recovery()] srtt(self: &Self) -> u64;
        [sender.recovery()] flow(self: &Self) -> Flow;
        [sender.recovery()] cwnd(self: &Self) -> f64;
        [sender.recovery()] is_held(self: &Self) -> bool;
        [sender.recovery()] timer_at(self: &Self) -> u64;
        [sender.recovery()] stalled_for(self: &Self, now: u64) -> u64;
    }

    pub(crate) fn take(&mut self, stamp: u32, body: Body<F>, around: &mut Around<'_, F>) -> Taken {
        each!(self, end => end.receiver.take(&mut end.sender, stamp, body, around))
    }

    pub(crate) fn fired(&mut self, timer: EndTimer, around: &mut Around<'_, F>) -> Option<Taken> {
        each!(self, end => end.receiver.fired(&mut end.sender, timer, around))
    }

    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        each!(self, end => ReceiveHalf::<F>::acknowledge(&mut end.receiver, now, transport))
    }
}
