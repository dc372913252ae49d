//! Tests of a sender and a receiver across a lossy path.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use samara_engine::Frame;

use super::backlog::{cut, segment_len};
use super::quic::{QuicConfig, QuicSendBuffer, StreamOrder};
use super::tcp::{Recovery, SendBuffer, TcpConfig, timestamp};
use super::{Ack, AnyEnd, Around, Control, EndCounts, FRAME_BYTES_MAX, Framing, Outgoing, Taken, Transport};
use crate::packet::Body;

pub(super) const MILLI: u64 = 1_000_000;
const LATENCY: u64 = 20 * MILLI;

/// A frame: its number and its length in bytes.
#[derive(Clone, Debug)]
pub(super) struct Blob(pub(super) u32, pub(super) u32);

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        self.1 as usize
    }

    fn payload_len(&self) -> usize {
        self.1 as usize
    }
}

/// TCP with packets of 1,000 bytes and an unlimited send buffer.
fn tcp() -> Transport {
    let delayed_ack = Duration::from_millis(10);
    let send_buffer = SendBuffer::Fixed { bytes: u64::MAX };
    let control = Control::Tcp(TcpConfig { delayed_ack, send_buffer, ..TcpConfig::default() });
    Transport { mss: 1000, framing: Framing::PLAIN, control, ..Transport::tcp() }
}

/// QUIC with the same values, without pacing.
pub(super) fn quic(streams: StreamOrder) -> Transport {
    let send_buffer = QuicSendBuffer::Unacked { bytes: u64::MAX };
    let config = QuicConfig { streams, send_buffer, pacing: false, ..QuicConfig::default() };
    Transport { mss: 1000, header: 28, control: Control::Quic(config), ..Transport::quic() }
}

struct Path {
    sender: AnyEnd<Blob>,
    receiver: AnyEnd<Blob>,
    transport: Transport,
    /// Packets on their way, by arrival: their stamps and segments.
    packets: VecDeque<(u64, u32, (u32, Option<Blob>))>,
    acks: VecDeque<(u64, Ack)>,
    now: u64,
    delivered: Vec<Blob>,
    sent: u32,
    sent_again: u32,
}

impl Path {
    fn new(frames: &[u32], transport: Transport) -> Self {
        let mut sender = AnyEnd::new(&transport);
        for (id, len) in (0..).zip(frames) {
            sender.write(Blob(id, *len), *len, u64::from(id), &transport);
        }
        Self {
            sender,
            receiver: AnyEnd::new(&transport),
            transport,
            packets: VecDeque::new(),
            acks: VecDeque::new(),
            now: MILLI,
            delivered: Vec::new(),
            sent: 0,
            sent_again: 0,
        }
    }

    /// Sends all packets that can leave; `lost` decides the loss of each packet.
    fn send(&mut self, lost: &mut impl FnMut() -> bool) {
        while let Some(outgoing) = self.sender.pop(self.now, 1, &self.transport) {
            let Outgoing { body: Body::Data { seq, frame }, again, mut stamp, .. } = outgoing else {
                panic!("{outgoing:?}")
            };
            self.sent += 1;
            self.sent_again += u32::from(again);
            // A microsecond for each packet, so that packets stay in order.
            self.now += 1000;
            if matches!(self.transport.control, Control::Tcp(_)) {
                stamp = timestamp(self.now);
            }
            if !lost() {
                self.packets.push_back((self.now + LATENCY, stamp, (seq, frame)));
            }
        }
    }

    /// Executes the next event. Returns false if there is none.
    fn step(&mut self, lost: &mut impl FnMut() -> bool) -> bool {
        let timer = self.sender.timer_at();
        let packet = self.packets.front().map_or(u64::MAX, |packet| packet.0);
        let ack = self.acks.front().map_or(u64::MAX, |ack| ack.0);
        let next = timer.min(packet).min(ack);
        if next == u64::MAX {
            return false;
        }
        self.now = self.now.max(next);
        let (now, transport) = (self.now, &self.transport);
        if next == packet {
            let (_, stamp, (seq, frame)) = self.packets.pop_front().unwrap();
            let (counts, delivered) = (&mut EndCounts::default(), &mut self.delivered);
            let mut around = Around { now, transport, counts, delivered };
            // Every packet is acknowledged: other tests cover delayed acknowledgements.
            let _: Taken = self.receiver.take(stamp, Body::Data { seq, frame }, &mut around);
            let ack = self.receiver.acknowledge(now, transport);
            if !lost() {
                self.acks.push_back((now + LATENCY, ack));
            }
        } else if next == ack {
            let (_, ack) = self.acks.pop_front().unwrap();
            self.sender.take_ack(&ack, now, transport);
        } else {
            self.sender.timer_expired(now, transport);
        }
        self.send(lost);
        true
    }
}

fn transports() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(tcp()), Just(quic(StreamOrder::Single)), Just(quic(StreamOrder::PerFrame))]
}

proptest! {
    /// With any losses, every frame arrives exactly once (and in order on a single stream), and
    /// the sender becomes idle.
    #[test]
    fn every_frame_arrives_once(
        frames in prop::collection::vec(1u32..40_000, 1..30),
        losses in prop::collection::vec(prop::bool::weighted(0.25), 1..400),
        transport in transports(),
    ) {
        let has_order = transport.control.quic().streams == StreamOrder::Single;
        let mut path = Path::new(&frames, transport);
        // The pattern of losses ends, so that the transfer can end.
        let mut losses = losses.into_iter();
        let mut lost = move || losses.next().unwrap_or(false);
        path.send(&mut lost);
        let mut steps = 0;
        while path.step(&mut lost) {
            steps += 1;
            prop_assert!(steps < 1_000_000, "the transfer does not end");
        }
        let mut ids: Vec<u32> = path.delivered.iter().map(|blob| blob.0).collect();
        if !has_order {
            ids.sort_unstable();
        }
        let all: Vec<u32> = (0..frames.len() as u32).collect();
        prop_assert_eq!(&ids, &all);
        prop_assert_eq!(path.sender.timer_at(), u64::MAX);
        prop_assert!(!path.sender.can_send());
    }

    /// Without loss nothing is sent twice.
    #[test]
    fn nothing_is_sent_twice_without_loss(
        frames in prop::collection::vec(1u32..40_000, 1..30),
        transport in transports(),
    ) {
        let mut path = Path::new(&frames, transport);
        path.send(&mut || false);
        while path.step(&mut || false) {}
        let segments: u32 = frames.iter().map(|len| cut(*len, 1000, Framing::PLAIN).1).sum();
        prop_assert_eq!((path.sent, path.sent_again), (segments, 0));
        prop_assert_eq!(path.delivered.len(), frames.len());
    }

    /// Cutting keeps every byte, and only the lead and the last segment are short.
    #[test]
    fn cutting_keeps_all_bytes(len in 1u32..200_000, mss in 100u32..9000, noise in any::<bool>()) {
        let framing = if noise { Framing::NOISE_YAMUX } else { Framing::PLAIN };
        let (bytes, segments) = cut(len, mss, framing);
        let lens: Vec<u32> =
            (0..segments).map(|i| segment_len(bytes, i, segments, mss, framing)).collect();
        prop_assert_eq!(lens.iter().sum::<u32>(), bytes);
        prop_assert!(lens.iter().all(|len| *len > 0 && *len <= mss));
        prop_assert!(bytes >= len);
    }
}

#[test]
fn column_is_cut_as_in_the_capture() {
    // 57 + 11 x 1,460 + 414 bytes: a column of 16,442 bytes from go-libp2p.
    let (bytes, segments) = cut(16_442, 1460, Framing::NOISE_YAMUX);
    assert_eq!((bytes, segments), (57 + 11 * 1460 + 414, 13));
    let len = |i| segment_len(bytes, i, segments, 1460, Framing::NOISE_YAMUX);
    assert_eq!((len(0), len(1), len(11), len(12)), (57, 1460, 1460, 414));
}

/// Loses the second packet of the first flight, and continues until it is sent again.
fn until_sent_again(bytes: u32) -> Path {
    let mut path = Path::new(&[bytes], tcp());
    let mut packet = 0;
    path.send(&mut || {
        packet += 1;
        packet == 2
    });
    assert_eq!(path.sent, 10);
    while path.sent_again == 0 {
        assert!(path.step(&mut || false));
    }
    path
}

#[test]
fn three_segments_above_a_hole_trigger_a_fast_retransmission() {
    let mut path = until_sent_again(10_000);
    assert!(path.now < 3 * LATENCY, "before any timer: {} ms", path.now / MILLI);
    while path.step(&mut || false) {}
    assert_eq!((path.sent_again, path.delivered.len()), (1, 1));
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    let mut path = until_sent_again(100_000);
    // It is lost again.
    path.packets.retain(|(.., (seq, _))| *seq != 1);
    while path.sent_again == 1 {
        assert!(path.step(&mut || false));
    }
    assert!(path.now < 5 * LATENCY, "before any timer: {} ms", path.now / MILLI);
    while path.step(&mut || false) {}
    assert_eq!((path.sent_again, path.delivered.len()), (2, 1));
}

/// Sends one frame to know the round trip, then ten packets without those of these numbers. Returns the
/// path, the time since then, and the time of the last arrival.
fn without(lost: &[u32], recovery: Recovery) -> (Path, u64) {
    let mut transport = tcp();
    let Control::Tcp(config) = &mut transport.control else { panic!("TCP") };
    config.recovery = recovery;
    let mut path = Path::new(&[10_000], transport);
    path.send(&mut || false);
    while path.step(&mut || false) {}
    path.sender.write(Blob(1, 10_000), 10_000, 1, &path.transport);
    let (start, mut number) = (path.now, 0);
    path.send(&mut || {
        number += 1;
        lost.contains(&number)
    });
    assert_eq!(number, 10);
    while path.delivered.len() < 2 {
        assert!(path.step(&mut || false));
    }
    let took = path.now - start;
    while path.step(&mut || false) {}
    (path, took)
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    let window = without(&[], Recovery::Linux).0.sender.cwnd();
    // The others are acknowledged after a round trip. The answer of the probe proves the loss of those
    // before it.
    let (path, took) = without(&[8, 9, 10], Recovery::Linux);
    let repaired = (2 + 4 + 3) * LATENCY + 2 * MILLI;
    assert!((repaired..repaired + MILLI).contains(&took), "{} ms", took / MILLI);
    assert_eq!(path.sent_again, 3);
    assert!(path.sender.cwnd() >= window / 2.0 - 1.0, "{} of {window} packets", path.sender.cwnd());
    // The acknowledgement of a single segment may be delayed by 200 ms. The probe repairs its loss, which
    // halves the window.
    let (path, took) = without(&[10], Recovery::Linux);
    assert!(took > 200 * MILLI + LATENCY, "{} ms", took / MILLI);
    assert_eq!(path.sent_again, 1);
    assert!(path.sender.cwnd() >= window / 2.0 - 1.0, "{} of {window} packets", path.sender.cwnd());
    // Without probes, the timer of a round trip and at least 200 ms does it.
    let (path, took) = without(&[10], Recovery::Rfc6675);
    assert!(took > 200 * MILLI + LATENCY, "{} ms", took / MILLI);
    assert!(path.sender.cwnd() < 4.0);
}

#[test]
fn a_single_later_arrival_proves_a_loss_after_a_quarter_of_the_round_trip() {
    let (path, took) = without(&[9], Recovery::Linux);
    // The bound is an eighth of the smoothed round trip.
    let repaired = 3 * LATENCY + LATENCY / 4;
    assert!((repaired..repaired + MILLI).contains(&took), "{} ms", took / MILLI);
    assert_eq!(path.sent_again, 1);
    let (_, took) = without(&[9], Recovery::Rfc6675);
    assert!(took > 200 * MILLI + LATENCY, "{} ms", took / MILLI);
}

#[test]
fn a_probe_sends_new_data_beyond_a_full_window() {
    let mut path = Path::new(&[10_000], tcp());
    path.send(&mut || false);
    while path.step(&mut || false) {}
    path.sender.write(Blob(1, 100_000), 100_000, 1, &path.transport);
    path.send(&mut || true);
    let sent = path.sent;
    while path.sent == sent {
        assert!(path.step(&mut || false));
    }
    assert_eq!((path.sent, path.sent_again), (sent + 1, 0));
    while path.step(&mut || false) {}
    assert_eq!(path.delivered.len(), 2);
}

#[test]
fn a_timeout_that_was_too_early_is_undone() {
    let mut path = Path::new(&[10_000], tcp());
    path.send(&mut || false);
    while path.step(&mut || false) {}
    path.sender.write(Blob(1, 20_000), 20_000, 1, &path.transport);
    path.send(&mut || false);
    assert!(path.packets.len() > 10);
    // They wait before a link, longer than the timer of about 240 ms.
    path.packets.iter_mut().for_each(|(arrival, ..)| *arrival += 500 * MILLI);
    while path.step(&mut || false) {}
    assert_eq!((path.sent_again, path.delivered.len()), (1, 2));
}

#[test]
fn a_timeout_after_the_loss_of_all_packets_is_not_undone() {
    let mut path = Path::new(&[10_000], tcp());
    path.send(&mut || true);
    while path.step(&mut || false) {}
    assert_eq!((path.sent_again, path.delivered.len()), (10, 1));
    assert_eq!(path.sent, 20);
}

#[test]
fn largest_frame_is_cut_without_overflow() {
    for framing in [Framing::PLAIN, Framing::NOISE_YAMUX] {
        let (bytes, segments) = cut(FRAME_BYTES_MAX, 1460, framing);
        let last = segment_len(bytes, segments - 1, segments, 1460, framing);
        assert!(bytes >= FRAME_BYTES_MAX && (1..=1460).contains(&last), "{bytes} bytes, {last} at the end");
    }
}
