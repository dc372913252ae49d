//! Transports: how frames become packets, when packets leave, and how losses are repaired.
//!
//! A transport is a folder and one line in the table of `transports!`. The folder has `Sender` and
//! `Receiver`, the two halves of a direction of a link; `check` for its configuration; `wire_bytes`
//! of a frame; and `hello_bytes` of a step of the handshake.

mod backlog;
mod config;
mod congestion;
pub(crate) mod datagram;
pub(crate) mod http2;
pub(crate) mod mconn;
pub(crate) mod quic;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;

use std::time::Duration;

use samara_engine::Frame;
use samara_engine::outbox::Room;
use samara_engine::uplink::{Load, Report, TCP_ACK_DELAY};

pub use config::{Connection, Control, Framing, Transport};

use crate::error::ConfigError;
use crate::explain::Cause;
use crate::packet::{Body, Sack};
use backlog::Segment;

/// Maximum bytes of a frame that a simulation carries. Lengths of frames with their framing fit into
/// 32 bits.
pub const FRAME_BYTES_MAX: u32 = 1 << 31;

/// Combines the halves of all transports in one type, so that hosts need not know the transport of
/// a link.
macro_rules! transports {
    ($($(#[$doc:meta])* $connection:pat, $control:pat => $name:ident: $module:ident ($sender:ty, $receiver:ty);)*) => {
        /// One direction of a link, at its sender.
        #[derive(Debug)]
        pub(crate) enum Sender<F> { $($(#[$doc])* $name($sender),)* }

        /// One direction of a link, at its receiver.
        #[derive(Debug)]
        pub(crate) enum Receiver<F> { $($(#[$doc])* $name($receiver),)* }

        impl<F: Frame> Sender<F> {
            pub(crate) fn new(transport: &Transport) -> Self {
                match (&transport.connection, &transport.control) {
                    $(($connection, $control) => Self::$name($module::Sender::new(transport).into()),)*
                }
            }
        }

        impl<F: Frame> Receiver<F> {
            pub(crate) fn new(transport: &Transport) -> Self {
                match (&transport.connection, &transport.control) {
                    $(($connection, $control) => Self::$name($module::Receiver::new(transport).into()),)*
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

            /// Returns the payload of a step of the handshake, by its number (even from the
            /// dialler).
            pub(crate) fn hello_bytes(&self, step: u32) -> u32 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::hello_bytes(step, self),)*
                }
            }
        }

        /// Evaluates an expression for the half of the actual transport.
        macro_rules! each {
            ($half:ident, $value:expr, $inner:ident => $call:expr) => {
                match $value { $($half::$name($inner) => $call,)* }
            };
        }
    };
}

transports! {
    /// TCP, and the ideal transport, which has no control.
    Connection::Direct, Control::Tcp(_) | Control::Ideal => Tcp: tcp (tcp::Sender<F>, tcp::Receiver<F>);
    Connection::Direct, Control::Quic(_) => Quic: quic (Box<quic::Sender<F>>, Box<quic::Receiver<F>>);
    Connection::Direct, Control::Datagram => Datagram: datagram (datagram::Sender<F>, datagram::Receiver);
    /// A connection with channels, over TCP or the ideal transport.
    Connection::MConnection(_), _ => MConnection: mconn (Box<mconn::Sender<F>>, Box<mconn::Receiver<F>>);
    /// HTTP/2, over TCP or the ideal transport.
    Connection::Http2(_), _ => Http2: http2 (Box<http2::Sender<F>>, Box<http2::Receiver<F>>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckNeed {
    /// No acknowledgement: the transport has none.
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

/// What a sender knows about its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// What was written and has neither arrived nor is lost.
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

pub(crate) trait SendHalf<F> {
    /// The loss recovery of this direction.
    type Recovery: LossRecovery;

    /// Returns the loss recovery of this direction.
    fn recovery(&self) -> &Self::Recovery;

    fn recovery_mut(&mut self) -> &mut Self::Recovery;

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

    /// Returns the segment that leaves at `now`, if one can; on a connection with channels, up to
    /// `burst_max` segments.
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
}

/// Forwards calls to the half of the actual transport, or to its loss recovery.
macro_rules! hand_on {
    ($($(.$part:ident)? $name:ident($own:ident: $kind:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {
        $(pub(crate) fn $name($own: $kind $(, $arg: $type)*) -> $out {
            each!(Sender, $own, half => half$(.$part())?.$name($($arg),*))
        })*
    };
}

/// Forwards [`SendHalf`] and [`LossRecovery`].
impl<F: Frame> Sender<F> {
    hand_on! {
        write(self: &mut Self, frame: F, len: u32, rank: u64, transport: &Transport) -> ();
        has_buffer(self: &Self, transport: &Transport) -> bool;
        has_room_again(self: &Self, transport: &Transport) -> bool;
        room(self: &Self, transport: &Transport) -> Room;
        can_send(self: &Self) -> bool;
        next_rank(self: &Self) -> u64;
        pop(self: &mut Self, now: u64, burst_max: u32, transport: &Transport) -> Option<Outgoing<F>>;
        take_ack(self: &mut Self, ack: &Ack, now: u64, transport: &Transport) -> bool;
        timer_expired(self: &mut Self, now: u64, transport: &Transport) -> bool;
        held(self: &Self, now: u64) -> Option<Cause>;
        .recovery window_cause(self: &Self) -> Cause;
        .recovery srtt(self: &Self) -> u64;
        .recovery flow(self: &Self) -> Flow;
        .recovery cwnd(self: &Self) -> f64;
        .recovery is_held(self: &Self) -> bool;
        .recovery timer_at(self: &Self) -> u64;
        .recovery stalled_for(self: &Self, now: u64) -> u64;
    }
}

impl<F: Frame> Receiver<F> {
    /// Takes the body and the stamp of a packet. Complete frames go to `deliver`, unless they are
    /// read later. Writes of this end in response go to `sender`, counted by `writes`.
    pub(crate) fn take(
        &mut self,
        now: u64,
        stamp: u32,
        body: Body<F>,
        transport: &Transport,
        (sender, writes): (&mut Sender<F>, &mut u64),
        deliver: &mut Vec<F>,
    ) -> AckNeed {
        match (self, body, sender) {
            (Self::Tcp(half), Body::Data { seq, frame }, _) => {
                half.segment(stamp, (seq, frame), transport, deliver)
            }
            (Self::Quic(half), Body::Data { seq, frame }, sender) => {
                half.packet((now, sender.srtt()), stamp, (seq, frame), transport, deliver)
            }
            (Self::Datagram(half), Body::Data { seq, frame }, _) => {
                half.fragment(stamp, (seq, frame), transport, deliver)
            }
            (Self::MConnection(half), Body::Stream { seq, count, load }, _) => {
                half.segments(stamp, (seq, count, load), transport)
            }
            (Self::Http2(half), Body::Http2 { seq, load }, Sender::Http2(sender)) => {
                half.segment(now, stamp, (seq, load), transport, (sender, writes), deliver)
            }
            _ => {
                debug_assert!(false, "both ends of a link have the same connection");
                AckNeed::None
            }
        }
    }

    /// Returns the acknowledgement that a departing packet carries.
    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        each!(Receiver, self, half => half.acknowledge(now, transport))
    }
}
