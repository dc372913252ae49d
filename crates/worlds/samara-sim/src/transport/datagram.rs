//! Datagrams, as over UDP: no connection, no acknowledgement, no congestion window.
//!
//! A frame is cut into fragments, one for each datagram. Fragments leave one after the other as
//! fast as the uplink takes them. Nothing is sent again: a lost datagram loses its frame, and only
//! the protocol above can repair that. The path keeps the datagrams of a link in order, as in the
//! other models, so that a gap in their numbers is a loss.

use samara_engine::Frame;
use samara_engine::outbox::Room;

use super::backlog::{Backlog, cut};
use super::config::{Control, Framing, Transport};
use super::quic::{IP_UDP_HEADER, UDP_PAYLOAD};
pub(crate) use super::tcp::{hello_bytes, wire_bytes, wire_bytes_each};
use super::{Ack, Around, Flow, LossRecovery, Outgoing, ReceiveHalf, SendHalf, Taken};
use crate::error::{ConfigError, ensure};
use crate::packet::Body;

/// Bytes before the fragment in a datagram: the number of the frame (4), the fragment's index and
/// the number of fragments (2 each), and an authentication tag (16, as in QUIC).
pub const DATAGRAM_HEADER: u32 = 4 + 2 + 2 + 16;

impl Transport {
    /// Returns datagrams with the UDP payload that fits in a packet of Ethernet by QUIC's
    /// [`UDP_PAYLOAD`].
    pub fn udp() -> Self {
        Self::udp_with(UDP_PAYLOAD, DATAGRAM_HEADER)
    }

    /// Returns datagrams with UDP payloads of up to this many bytes, of which `header` precede the
    /// fragment. A dial takes one round trip: a challenge and its answer.
    pub fn udp_with(udp_payload: u32, header: u32) -> Self {
        Self {
            mss: udp_payload.saturating_sub(header),
            header: IP_UDP_HEADER + header,
            handshake_round_trips: 1,
            control: Control::Datagram,
            ..Self::quic_with(udp_payload)
        }
    }
}

pub(crate) fn check(transport: &Transport) -> Result<(), ConfigError> {
    let is_plain = transport.framing == Framing::PLAIN;
    ensure!(is_plain, "fragments have a header of their own; the framing of datagrams must be plain");
    Ok(())
}

/// The sender of one direction.
#[derive(Debug)]
pub(crate) struct Sender<F> {
    backlog: Backlog<F>,
    /// The number of the frame whose fragment leaves next.
    frame: u32,
    recovery: NoRecovery,
}

impl<F: Clone> Sender<F> {
    pub(crate) const fn new(_transport: &Transport) -> Self {
        Self { backlog: Backlog::new(), frame: 0, recovery: NoRecovery }
    }
}

impl<F: Clone> SendHalf<F> for Sender<F> {
    fn recovery(&self) -> &impl LossRecovery {
        &self.recovery
    }

    fn recovery_mut(&mut self) -> &mut impl LossRecovery {
        &mut self.recovery
    }

    fn write(&mut self, frame: F, len: u32, rank: u64, transport: &Transport) {
        self.backlog.write(frame, len, rank, transport);
    }

    /// The application keeps its copies, and passes the next one when the last one has left; small
    /// frames in a few datagrams.
    fn has_buffer(&self, transport: &Transport) -> bool {
        self.backlog.buffered < u64::from(4 * transport.mss)
    }

    fn room(&self, _transport: &Transport) -> Room {
        if self.backlog.has_new() { Room::NONE } else { Room(u64::MAX) }
    }

    fn can_send(&self) -> bool {
        self.backlog.has_new()
    }

    fn next_rank(&self) -> u64 {
        self.backlog.new_rank()
    }

    fn pop(&mut self, _now: u64, _burst_max: u32, transport: &Transport) -> Option<Outgoing<F>> {
        let mut segment = self.backlog.take_and_forget(transport)?;
        segment.stamp = self.frame;
        self.frame = self.frame.wrapping_add(u32::from(segment.frame.is_some()));
        Some(segment.into())
    }
}

/// No loss recovery: the window is unlimited, and no timer runs.
#[derive(Debug)]
pub(crate) struct NoRecovery;

impl LossRecovery for NoRecovery {
    fn flow(&self) -> Flow {
        Flow::default()
    }

    fn srtt(&self) -> u64 {
        0
    }

    fn cwnd(&self) -> f64 {
        f64::INFINITY
    }

    fn timer_at(&self) -> u64 {
        u64::MAX
    }

    fn stalled_for(&self, _now: u64) -> u64 {
        0
    }

    fn acknowledged(&mut self, _ack: &Ack, _now: u64, _transport: &Transport) -> bool {
        false
    }

    fn timed_out(&mut self, _now: u64, _transport: &Transport) -> bool {
        false
    }
}

/// The receiver of one direction: puts fragments together.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The fragment after the last one that arrived.
    next: u32,
    /// All fragments from this one up to `next` have arrived.
    intact_from: u32,
    /// The frame after the last one that was delivered or is known to be lost.
    frame: u32,
}

impl Receiver {
    pub(crate) const fn new(_transport: &Transport) -> Self {
        Self { next: 0, intact_from: 0, frame: 0 }
    }
}

impl<F: Frame> ReceiveHalf<F> for Receiver {
    type Sender = Sender<F>;

    /// Takes a fragment of the frame with the number `stamp`. The last fragment brings the frame, which
    /// is delivered if no fragment is missing.
    fn take(
        &mut self,
        _sender: &mut Sender<F>,
        stamp: u32,
        body: Body<F>,
        around: &mut Around<'_, F>,
    ) -> Taken {
        let Body::Data { seq, frame } = body else { return Taken::mismatch() };
        debug_assert!(seq >= self.next, "the path keeps datagrams in order");
        if seq > self.next {
            self.intact_from = seq;
        }
        self.next = seq + 1;
        // Frames that were passed over.
        let mut lost = stamp.wrapping_sub(self.frame);
        self.frame = stamp;
        if let Some(frame) = frame {
            self.frame = stamp.wrapping_add(1);
            let fragments = cut(frame.encoded_len() as u32, around.transport.mss, around.transport.framing).1;
            if self.next - self.intact_from >= fragments {
                around.delivered.push(frame);
            } else {
                lost += 1;
            }
        }
        Taken { lost, ..Taken::default() }
    }

    fn acknowledge(&mut self, _now: u64, _transport: &Transport) -> Ack {
        Ack::default()
    }
}
