//! The two halves of a link's end, of whichever transport: one type, so that hosts need not ask.

use samara_engine::Frame;
use samara_engine::outbox::Room;

use crate::backlog::Segment;
use crate::config::{Control, Transport};
use crate::packet::{Body, Sack};
use crate::{http2, mconn, quic, tcp};

/// What a received packet demands.
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
#[derive(Debug)]
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

/// What leaves now.
#[derive(Debug)]
pub(crate) struct Outgoing<F> {
    pub(crate) body: Body<F>,
    /// Payload bytes.
    pub(crate) len: u32,
    /// Whether it has been sent before.
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

/// One direction, at its sender. Times in nanoseconds.
#[derive(Debug)]
pub(crate) enum Sender<F> {
    /// TCP, and the ideal transport, which has no control.
    Tcp(tcp::Sender<F>),
    /// QUIC.
    Quic(Box<quic::Sender<F>>),
    /// A connection with channels, over TCP or the ideal transport.
    MConnection(Box<mconn::Sender<F>>),
    /// HTTP/2, over TCP or the ideal transport.
    Http2(Box<http2::Sender<F>>),
}

impl<F: Frame> Sender<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        if let Some(config) = transport.connection.channels() {
            return Self::MConnection(Box::new(mconn::Sender::new(config, transport.control.tcp())));
        }
        if let Some(config) = transport.connection.http2() {
            return Self::Http2(Box::new(http2::Sender::new(config, transport)));
        }
        match transport.control {
            Control::Quic(config) => Self::Quic(Box::new(quic::Sender::new(config, transport))),
            Control::Tcp(_) | Control::Ideal => Self::Tcp(tcp::Sender::new(transport.control.tcp())),
        }
    }

    /// Takes a frame of `len` encoded bytes.
    pub(crate) fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport) {
        match self {
            Self::Tcp(sender) => sender.write(frame, len, rank, transport),
            Self::Quic(sender) => sender.write(frame, len, rank, transport),
            Self::MConnection(_) => debug_assert!(false, "channels take copies by lane"),
            Self::Http2(sender) => sender.write(frame, len, rank),
        }
    }

    /// Whether a per-link queue may hand over another frame.
    pub(crate) fn has_buffer(&self, transport: &Transport) -> bool {
        match self {
            Self::Tcp(sender) => sender.has_buffer(transport.control.tcp(), transport.mss),
            Self::Quic(sender) => sender.has_buffer(),
            // Its channels have room, or not, each for itself.
            Self::MConnection(_) => false,
            Self::Http2(sender) => sender.has_buffer(transport),
        }
    }

    /// Whether the segment that left has made room for frames.
    pub(crate) fn has_room_again(&self, transport: &Transport) -> bool {
        match (self, transport.control.tcp()) {
            (Self::Tcp(sender), Some(config)) => sender.has_room_again(config, transport.mss),
            _ => false,
        }
    }

    /// Bytes of a frame written now that would leave as soon as the uplink is free.
    pub(crate) fn room(&self, transport: &Transport) -> Room {
        match self {
            Self::Tcp(sender) => sender.room(transport.mss),
            Self::Quic(sender) => sender.room(transport),
            Self::MConnection(_) => Room::NONE,
            Self::Http2(sender) => sender.room(transport),
        }
    }

    /// Whether a packet with data can leave now.
    pub(crate) fn can_send(&self) -> bool {
        match self {
            Self::Tcp(sender) => sender.can_send(),
            Self::Quic(sender) => sender.can_send(),
            Self::MConnection(sender) => sender.can_send(),
            Self::Http2(sender) => sender.can_send(),
        }
    }

    /// The write rank of the segment that leaves next.
    pub(crate) fn next_rank(&self) -> u64 {
        match self {
            Self::Tcp(sender) => sender.next_rank(),
            Self::Quic(sender) => sender.next_rank(),
            Self::MConnection(sender) => sender.next_rank(),
            Self::Http2(sender) => sender.next_rank(),
        }
    }

    /// The smoothed round trip time in nanoseconds, 0 if unknown.
    pub(crate) fn srtt(&self) -> u64 {
        match self {
            Self::Tcp(sender) => sender.srtt(),
            Self::Quic(sender) => sender.srtt(),
            Self::MConnection(sender) => sender.tcp().srtt(),
            Self::Http2(sender) => sender.tcp().srtt(),
        }
    }

    /// The congestion window in packets.
    pub(crate) fn cwnd(&self) -> f64 {
        match self {
            Self::Tcp(sender) => sender.cwnd(),
            Self::Quic(sender) => sender.cwnd(),
            Self::MConnection(sender) => sender.tcp().cwnd(),
            Self::Http2(sender) => sender.tcp().cwnd(),
        }
    }

    /// Whether the next packet waits for its time, not for the window: QUIC's pacing.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::MConnection(_) | Self::Http2(_) => false,
            Self::Quic(sender) => sender.is_held(),
        }
    }

    /// When the timer for lost packets expires, or that of the pacer; `u64::MAX` if neither runs.
    pub(crate) fn timer_at(&self) -> u64 {
        match self {
            Self::Tcp(sender) => sender.rto_at(),
            Self::Quic(sender) => sender.timer_at(),
            Self::MConnection(sender) => sender.tcp().rto_at(),
            Self::Http2(sender) => sender.tcp().rto_at(),
        }
    }

    /// How long nothing new was acknowledged since a first timeout.
    pub(crate) fn stalled_for(&self, now: u64) -> u64 {
        match self {
            Self::Tcp(sender) => sender.stalled_for(now),
            Self::Quic(sender) => sender.stalled_for(now),
            Self::MConnection(sender) => sender.tcp().stalled_for(now),
            Self::Http2(sender) => sender.tcp().stalled_for(now),
        }
    }

    /// The segment that leaves at `now`, if one can; of a connection with channels up to `together` of them.
    pub(crate) fn pop(&mut self, now: u64, together: u32, transport: &Transport) -> Option<Outgoing<F>> {
        match self {
            Self::Tcp(sender) => sender.pop(now, transport.control.tcp(), transport).map(Outgoing::from),
            Self::Quic(sender) => sender.pop(now, transport).map(Outgoing::from),
            Self::MConnection(sender) => {
                let Segment { seq, count, len, frame: load, again, stamp } =
                    sender.pop(now, together, transport)?;
                Some(Outgoing { body: Body::Stream { seq, count, load }, len, again, stamp, frees: true })
            }
            Self::Http2(sender) => {
                let Segment { seq, count: _, len, frame: load, again, stamp } = sender.pop(now, transport)?;
                Some(Outgoing { body: Body::Http2 { seq, load }, len, again, stamp, frees: true })
            }
        }
    }

    /// Whether the timer may have to expire sooner after an acknowledgement. TCP's only ever moves on, and one that expires
    /// too soon is set again.
    pub(crate) const fn timer_moves_back(&self) -> bool {
        matches!(self, Self::Quic(_))
    }

    /// Takes an acknowledgement. Returns whether anything was news (there may be room now).
    pub(crate) fn acknowledged(&mut self, ack: &Ack, now: u64, transport: &Transport) -> bool {
        let sack = ack.sack.as_deref();
        match self {
            Self::Tcp(sender) => match transport.control.tcp() {
                Some(config) => sender.acknowledged(ack.ack, sack, ack.echo, now, config),
                None => false,
            },
            Self::Quic(sender) => sender.acknowledged(ack.ack, sack, ack.echo, now),
            Self::MConnection(sender) => match transport.control.tcp() {
                Some(config) => sender.acknowledged(ack, now, config),
                None => false,
            },
            Self::Http2(sender) => match transport.control.tcp() {
                Some(config) => sender.tcp_mut().acknowledged(ack.ack, sack, ack.echo, now, config),
                None => false,
            },
        }
    }

    /// The timer expired. Returns whether acknowledgements stayed out for too long.
    pub(crate) fn timed_out(&mut self, now: u64, transport: &Transport) -> bool {
        match self {
            Self::Tcp(sender) => {
                if let Some(config) = transport.control.tcp() {
                    sender.timed_out(now, config);
                }
                true
            }
            Self::Quic(sender) => sender.timed_out(now),
            Self::MConnection(sender) => {
                if let Some(config) = transport.control.tcp() {
                    sender.timed_out(now, config);
                }
                true
            }
            Self::Http2(sender) => {
                if let Some(config) = transport.control.tcp() {
                    sender.tcp_mut().timed_out(now, config);
                }
                true
            }
        }
    }
}

/// One direction, at its receiver. Times in nanoseconds.
#[derive(Debug)]
pub(crate) enum Receiver<F> {
    /// TCP, and the ideal transport, of which it learns nothing.
    Tcp(tcp::Receiver<F>),
    /// QUIC.
    Quic(Box<quic::Receiver<F>>),
    /// A connection with channels.
    MConnection(Box<mconn::Receiver<F>>),
    /// HTTP/2.
    Http2(Box<http2::Receiver<F>>),
}

impl<F: Frame> Receiver<F> {
    pub(crate) fn new(transport: &Transport) -> Self {
        if transport.connection.channels().is_some() {
            return Self::MConnection(Box::new(mconn::Receiver::new(transport.control.tcp())));
        }
        if let Some(config) = transport.connection.http2() {
            return Self::Http2(Box::new(http2::Receiver::new(config)));
        }
        match transport.control {
            Control::Quic(config) => Self::Quic(Box::new(quic::Receiver::new(config))),
            Control::Tcp(_) | Control::Ideal => Self::Tcp(tcp::Receiver::new()),
        }
    }

    /// Takes a segment and what its packet says of itself; frames that are complete now go to `deliver`.
    pub(crate) fn segment(
        &mut self,
        now: u64,
        stamp: u32,
        (seq, frame): (u32, Option<F>),
        transport: &Transport,
        deliver: &mut Vec<F>,
    ) -> AckNeed {
        match self {
            Self::Tcp(receiver) => match transport.control.tcp() {
                Some(config) => receiver.segment(seq, stamp, frame, config, deliver),
                None => {
                    deliver.extend(frame);
                    AckNeed::None
                }
            },
            Self::Quic(receiver) => receiver.packet(now, stamp, (seq, frame), transport, deliver),
            Self::MConnection(_) | Self::Http2(_) => {
                debug_assert!(false, "both ends of a link have the same connection");
                AckNeed::None
            }
        }
    }

    /// A packet leaves. Returns what it acknowledges.
    pub(crate) fn acknowledge(&mut self, now: u64, transport: &Transport) -> Ack {
        match self {
            Self::Tcp(receiver) => {
                let (ack, echo) = (receiver.next(), receiver.echo());
                Ack { ack, echo, window: 0, sack: receiver.acknowledge() }
            }
            Self::Quic(receiver) => receiver.acknowledge(now),
            Self::MConnection(receiver) => receiver.acknowledge(transport.control.tcp()),
            Self::Http2(receiver) => receiver.acknowledge(),
        }
    }
}
