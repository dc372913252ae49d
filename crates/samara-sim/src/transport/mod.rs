//! Transports: how frames become packets, when these leave, and how losses are repaired.
//!
//! A transport is a folder and one line in the table of `transports!`. The folder has `Sender` and `Receiver`, the two halves
//! of a direction of a link, `check` of its configuration, `wire_bytes` of a frame, and `hello_bytes` of a step of the
//! handshake.

mod backlog;
mod config;
pub(crate) mod http2;
pub(crate) mod mconn;
pub(crate) mod quic;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;

use samara_engine::Frame;
use samara_engine::outbox::Room;

pub use config::{Connection, Control, Framing, Transport};

use crate::error::ConfigError;
use crate::packet::{Body, Sack};
use backlog::Segment;

/// Makes one type of the halves of all transports, so that hosts need not ask which one a link has.
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

            /// Bytes on the wire of a frame of `encoded_len` bytes: framing, and the headers of its packets. On a connection
            /// with channels those of a frame that is alone in its flush and finds the window open.
            pub fn wire_bytes(&self, encoded_len: u32) -> u64 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::wire_bytes(encoded_len, self),)*
                }
            }

            /// Payload of a step of the handshake, by its number (even from the dialler).
            pub(crate) fn hello_bytes(&self, step: u32) -> u32 {
                match (&self.connection, &self.control) {
                    $(($connection, $control) => $module::hello_bytes(step, self),)*
                }
            }
        }

        /// Evaluates an expression for the half of whichever transport.
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
    /// A connection with channels, over TCP or the ideal transport.
    Connection::MConnection(_), _ => MConnection: mconn (Box<mconn::Sender<F>>, Box<mconn::Receiver<F>>);
    /// HTTP/2, over TCP or the ideal transport.
    Connection::Http2(_), _ => Http2: http2 (Box<http2::Sender<F>>, Box<http2::Receiver<F>>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AckNeed {
    /// Nothing: nothing is acknowledged.
    None,
    /// An acknowledgement no later than the delay of the configuration.
    Later,
    /// One at once.
    Now,
}

/// What an outgoing packet says about those that came in. Numbers are of segments (TCP) or packets (QUIC).
#[derive(Debug, Default)]
pub(crate) struct Ack {
    /// TCP: the next segment that is expected. QUIC: one more than the largest packet that arrived, 0 for none.
    pub(crate) ack: u32,
    /// TCP: the timestamp of the packet that it acknowledges. QUIC: how long it was kept, in microseconds.
    pub(crate) echo: u32,
    /// How many packets beyond `ack` there is room for; 0 where that never changes.
    pub(crate) window: u32,
    /// TCP: what arrived beyond `ack`. QUIC: what arrived, if there is a gap.
    pub(crate) sack: Option<Box<Sack>>,
}

#[derive(Debug)]
pub(crate) struct Outgoing<F> {
    pub(crate) body: Body<F>,
    /// Payload bytes.
    pub(crate) len: u32,
    pub(crate) again: bool,
    /// What the packet says of itself: see [`Packet`](crate::packet::Packet).
    pub(crate) stamp: u32,
    /// Whether it frees a part of the send buffer, if nothing is acknowledged.
    pub(crate) frees: bool,
}

impl<F> From<Segment<F>> for Outgoing<F> {
    fn from(segment: Segment<F>) -> Self {
        let Segment { seq, count: _, len, frame, again, stamp } = segment;
        let frees = frame.is_some();
        Self { body: Body::Data { seq, frame }, len, again, stamp, frees }
    }
}

/// Limits what is in flight, and repairs losses. Times in nanoseconds.
pub(crate) trait LossRecovery {
    /// The smoothed round trip time, 0 if unknown.
    fn srtt(&self) -> u64;

    /// The congestion window in packets.
    fn cwnd(&self) -> f64;

    /// Whether the next packet waits for its time, not for the window: QUIC's pacing.
    fn is_held(&self) -> bool {
        false
    }

    /// When the timer for lost packets expires, or that of the pacer; `u64::MAX` if neither runs.
    fn timer_at(&self) -> u64;

    /// Whether the timer may have to expire sooner after an acknowledgement. TCP's only ever moves on, and one that
    /// expires too soon is set again.
    fn timer_moves_back(&self) -> bool {
        false
    }

    /// How long nothing new was acknowledged since a first timeout.
    fn stalled_for(&self, now: u64) -> u64;

    /// Takes an acknowledgement. Returns whether anything was news (there may be room now).
    fn acknowledged(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool;

    /// The timer expired. Returns whether acknowledgements stayed out for too long.
    fn timed_out(&mut self, now: u64, transport: &Transport) -> bool;
}

pub(crate) trait SendHalf<F> {
    /// What limits the direction.
    type Recovery: LossRecovery;

    /// What limits the direction.
    fn recovery(&self) -> &Self::Recovery;

    fn recovery_mut(&mut self) -> &mut Self::Recovery;

    /// Takes a frame of `len` encoded bytes.
    fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport);

    /// Whether a per-link queue may hand over another frame.
    fn has_buffer(&self, transport: &Transport) -> bool;

    /// Whether the segment that left has made room for frames.
    fn has_room_again(&self, _transport: &Transport) -> bool {
        false
    }

    /// Bytes of a frame written now that would leave as soon as the uplink is free.
    fn room(&self, transport: &Transport) -> Room;

    /// Whether a packet with data can leave now.
    fn can_send(&self) -> bool;

    /// The write rank of the segment that leaves next.
    fn next_rank(&self) -> u64;

    /// The segment that leaves at `now`, if one can; of a connection with channels up to `burst_max` of them.
    fn pop(&mut self, now: u64, burst_max: u32, transport: &Transport) -> Option<Outgoing<F>>;

    fn take_ack(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        self.recovery_mut().acknowledged(ack, now, transport)
    }

    fn timer_expired(&mut self, now: u64, transport: &Transport) -> bool {
        self.recovery_mut().timed_out(now, transport)
    }
}

/// Hands calls on to the half of whichever transport, or to what limits it.
macro_rules! hand_on {
    ($($(.$part:ident)? $name:ident($own:ident: $kind:ty $(, $arg:ident: $type:ty)*) -> $out:ty;)*) => {
        $(pub(crate) fn $name($own: $kind $(, $arg: $type)*) -> $out {
            each!(Sender, $own, half => half$(.$part())?.$name($($arg),*))
        })*
    };
}

/// See [`SendHalf`] and [`LossRecovery`].
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
        .recovery srtt(self: &Self) -> u64;
        .recovery cwnd(self: &Self) -> f64;
        .recovery is_held(self: &Self) -> bool;
        .recovery timer_at(self: &Self) -> u64;
        .recovery timer_moves_back(self: &Self) -> bool;
        .recovery stalled_for(self: &Self, now: u64) -> u64;
    }
}

impl<F: Frame> Receiver<F> {
    /// Takes what a packet carries and what it says of itself. Frames that are complete now go to `deliver`, unless they are read later; what
    /// they make this end write goes to `sender`, counted by `writes`.
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
            (Self::Quic(half), Body::Data { seq, frame }, _) => {
                half.packet(now, stamp, (seq, frame), transport, deliver)
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

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        each!(Receiver, self, half => half.acknowledge(now, transport))
    }
}
