//! The parts of QUIC one by one, and a sender and a receiver across a path that loses what it likes.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use samara_engine::Frame;
use smallvec::smallvec;

use super::congestion::NewReno;
use super::ranges::Ranges;
use super::rtt::Rtt;
use super::{PING, QuicConfig, QuicSendBuffer, Receiver, Sender, StreamOrder};
use crate::config::{Control, Framing, Transport};
use crate::half::{Ack, AckNeed};
use crate::packet::Sack;

const MILLI: u64 = 1_000_000;
const LATENCY: u64 = 20 * MILLI;

#[derive(Clone, Debug)]
struct Blob(u32, u32);

impl Frame for Blob {
    fn encoded_len(&self) -> usize {
        self.1 as usize
    }

    fn payload_len(&self) -> usize {
        self.1 as usize
    }
}

fn transport(streams: StreamOrder) -> (QuicConfig, Transport) {
    let send_buffer = QuicSendBuffer::Unacked { bytes: u64::MAX };
    let config = QuicConfig { streams, send_buffer, pacing: false, ..QuicConfig::default() };
    let control = Control::Quic(config);
    (config, Transport { mss: 1000, header: 28, framing: Framing::PLAIN, control, ..Transport::quic() })
}

fn sender(packets: u32) -> (Sender<Blob>, Transport) {
    let (config, transport) = transport(StreamOrder::Single);
    let mut sender = Sender::new(config, &transport);
    sender.write(Blob(0, packets * 1000), packets * 1000, 0, &transport);
    (sender, transport)
}

/// The packets that leave at a time: number and segment.
fn leave(sender: &mut Sender<Blob>, now: u64, transport: &Transport) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| sender.pop(now, transport)).map(|segment| (segment.stamp, segment.seq)).collect()
}

fn sack(ranges: &[(u32, u32)]) -> Option<Box<Sack>> {
    Some(Box::new(Sack { ranges: ranges.iter().copied().collect() }))
}

#[test]
fn two_later_packets_are_no_loss_and_three_are() {
    let (mut sender, transport) = sender(20);
    assert_eq!(leave(&mut sender, MILLI, &transport).len(), 10);
    assert!(sender.acknowledged(4, sack(&[(2, 4), (0, 1)]).as_deref(), 0, 101 * MILLI));
    let new: Vec<u32> = leave(&mut sender, 101 * MILLI, &transport).iter().map(|(_, seq)| *seq).collect();
    assert_eq!(new, (10..16).collect::<Vec<_>>(), "three acknowledged in slow start make room for six");
    assert!(sender.acknowledged(5, sack(&[(2, 5), (0, 1)]).as_deref(), 0, 102 * MILLI));
    // The window is halved: 13 packets become 6, and 11 are in flight.
    assert!((sender.cwnd() - 7.0).abs() < 0.51, "{}", sender.cwnd());
    assert!(leave(&mut sender, 102 * MILLI, &transport).is_empty());
    assert!(sender.acknowledged(11, sack(&[(2, 11), (0, 1)]).as_deref(), 0, 103 * MILLI));
    assert_eq!(
        leave(&mut sender, 103 * MILLI, &transport)[0],
        (16, 1),
        "what was lost goes first, under a new number"
    );
}

#[test]
fn probes_are_two_and_their_time_doubles() {
    let (mut sender, transport) = sender(1);
    let sent = 5 * MILLI;
    assert_eq!(leave(&mut sender, sent, &transport), [(0, 0)]);
    // 333 ms and four times half of it, and the delay of acknowledgements.
    let timeout = 999 * MILLI + 25 * MILLI;
    let mut at = sent;
    for i in 0..4 {
        assert_eq!(sender.timer_at(), at + (timeout << i));
        at = sender.timer_at();
        assert!(sender.timed_out(at));
        let packets = leave(&mut sender, at, &transport);
        assert_eq!(packets.len(), 2, "{packets:?}");
        // Each probe takes the segment over from the packet before.
        assert_eq!(packets.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(), [0, 0]);
    }
    assert_eq!(sender.stalled_for(at), at - (sent + timeout));
    assert!(sender.acknowledged(9, None, 0, at + 40 * MILLI));
    assert_eq!((sender.timer_at(), sender.stalled_for(at)), (u64::MAX, 0));
}

#[test]
fn a_probe_without_anything_to_say_is_a_ping() {
    let (mut sender, transport) = sender(1);
    leave(&mut sender, 0, &transport);
    let at = sender.timer_at();
    sender.timed_out(at);
    assert_eq!(leave(&mut sender, at, &transport).len(), 2);
    // The first packet was only late; the probes, which carry the same segment, are lost.
    assert!(sender.acknowledged(1, None, 0, at + MILLI));
    let at = sender.timer_at();
    assert!(sender.timed_out(at));
    assert_eq!(leave(&mut sender, at, &transport), [(3, PING), (4, PING)]);
    assert!(sender.acknowledged(5, sack(&[(3, 5), (0, 1)]).as_deref(), 0, at + MILLI));
    assert!(!sender.can_send());
}

#[test]
fn nothing_for_three_probe_timeouts_is_persistent_congestion() {
    // Half of ten packets; or two, and one for the packet that arrives.
    for (gap, packets) in [(17, 5.0), (340, 3.0)] {
        let (mut sender, transport) = sender(10);
        // One sample of 100 ms: the probe timeout is at most 100 + 4 * 50 + 25 ms.
        sender.pop(0, &transport);
        sender.acknowledged(1, None, 0, 100 * MILLI);
        let mut at = 101 * MILLI;
        for _ in 0..4 {
            sender.pop(at, &transport);
            at += gap * MILLI;
        }
        leave(&mut sender, at, &transport);
        // The next one arrives, so that the four are lost: they were sent within 51 or 1,020 ms; 3 * 325 is 975.
        sender.acknowledged(6, sack(&[(5, 6), (0, 1)]).as_deref(), 0, at + 100 * MILLI);
        assert_eq!(sender.cwnd().to_bits(), f64::to_bits(packets), "{gap} ms: {} packets", sender.cwnd());
    }
}

#[test]
fn round_trips_are_averaged_as_in_the_rfc() {
    let mut rtt = Rtt::new(333 * MILLI);
    assert_eq!(rtt.smoothed(), 0);
    assert_eq!(rtt.probe_timeout(25 * MILLI), 1024 * MILLI);
    rtt.sample(100 * MILLI, 25 * MILLI, MILLI);
    assert_eq!(rtt.smoothed(), 100 * MILLI, "the first sample is taken as it is");
    assert_eq!(rtt.probe_timeout(25 * MILLI), (100 + 200 + 25) * MILLI);
    // 20 ms of 140 are the peer's; the variation is (3 * 50 + 20) / 4.
    rtt.sample(140 * MILLI, 20 * MILLI, 2 * MILLI);
    assert_eq!(rtt.smoothed(), (7 * 100 + 120) * MILLI / 8);
    assert_eq!(rtt.probe_timeout(0), (102 * MILLI + MILLI / 2) + 170 * MILLI);
    assert_eq!(rtt.loss_delay(), 140 * MILLI * 9 / 8, "the latest counts if it is larger");
    // A delay that would go below the least round trip is not believed.
    rtt.sample(110 * MILLI, 20 * MILLI, 3 * MILLI);
    assert_eq!(rtt.smoothed(), (7 * (102 * MILLI + MILLI / 2) + 110 * MILLI) / 8);
}

#[test]
fn a_window_is_halved_once_for_all_losses_of_a_round_trip() {
    let mut window = NewReno::new(10, 1000, 1_000_000);
    assert!(window.admits(9_000) && !window.admits(9_001));
    window.acknowledged(1000, 5, true);
    assert_eq!(window.window(), 11_000);
    window.acknowledged(1000, 5, false);
    assert_eq!(window.window(), 11_000, "what is not used does not grow");
    window.lost(6, 20);
    assert_eq!(window.window(), 5_500);
    window.lost(20, 30);
    window.acknowledged(1000, 20, true);
    assert_eq!(window.window(), 5_500, "sent before the window was reduced");
    window.acknowledged(1000, 21, true);
    assert_eq!(window.window(), 5_500 + 1000 * 1000 / 5_500, "congestion avoidance");
    for at in 0..10 {
        window.lost(100 * at + 50, 100 * at + 60);
    }
    assert_eq!(window.window(), 2_000, "not below two packets");
    assert!(window.limits(0), "all but three packets");
}

#[test]
fn only_what_uses_the_window_makes_it_grow() {
    let window = NewReno::new(20, 1000, 1_000_000);
    assert!(!window.limits(10_000) && window.limits(10_001), "half of it in slow start");
    let mut reduced = window;
    reduced.lost(1, 2);
    assert!(!reduced.limits(6_999) && reduced.limits(7_000), "all but three packets afterwards");
}

#[test]
fn acknowledgements_remember_sixty_four_ranges() {
    let (config, transport) = transport(StreamOrder::Single);
    let mut receiver: Receiver<Blob> = Receiver::new(config);
    let mut deliver = Vec::new();
    for number in 0..100 {
        let need = receiver.packet(0, 2 * number, (PING, None), &transport, &mut deliver);
        assert_eq!(need, if number == 0 { AckNeed::Later } else { AckNeed::Now });
    }
    let Ack { ack, sack, .. } = receiver.acknowledge(0);
    let ranges: Vec<_> = sack.unwrap().iter().collect();
    assert_eq!((ack, ranges.len()), (199, 64));
    assert_eq!((ranges[0], ranges[63]), ((198, 199), (72, 73)));
    assert_eq!(receiver.acknowledge(0).ack, 0, "nothing is acknowledged twice");
}

#[test]
fn a_late_packet_is_acknowledged_at_once_and_its_delay_is_that_of_the_largest() {
    let (config, transport) = transport(StreamOrder::Single);
    let mut receiver: Receiver<Blob> = Receiver::new(config);
    let mut packet = |now: u64, number| {
        let need = receiver.packet(now * MILLI, number, (PING, None), &transport, &mut Vec::new());
        let ack = (need == AckNeed::Now).then(|| receiver.acknowledge(now * MILLI));
        (need, ack)
    };
    assert_eq!(packet(0, 0).0, AckNeed::Later);
    assert_eq!(packet(1, 1).0, AckNeed::Now);
    let (need, ack) = packet(10, 3);
    let expected = smallvec![(3, 4), (0, 2)];
    assert_eq!((need, ack.unwrap().sack.unwrap().ranges), (AckNeed::Now, expected));
    let (need, ack) = packet(13, 2);
    let ack = ack.unwrap();
    assert_eq!((need, ack.ack, ack.echo, ack.sack), (AckNeed::Now, 4, 3000, None));
}

struct Path {
    sender: Sender<Blob>,
    receiver: Receiver<Blob>,
    transport: Transport,
    /// On their way, by arrival.
    packets: VecDeque<(u64, u32, u32, Option<Blob>)>,
    acks: VecDeque<(u64, Ack)>,
    now: u64,
    delivered: Vec<Blob>,
    sent: u32,
    sent_again: u32,
}

impl Path {
    fn new(frames: &[u32], streams: StreamOrder) -> Self {
        let (config, transport) = transport(streams);
        let mut sender = Sender::new(config, &transport);
        for (id, len) in (0..).zip(frames) {
            sender.write(Blob(id, *len), *len, u64::from(id), &transport);
        }
        Self {
            sender,
            receiver: Receiver::new(config),
            transport,
            packets: VecDeque::new(),
            acks: VecDeque::new(),
            now: MILLI,
            delivered: Vec::new(),
            sent: 0,
            sent_again: 0,
        }
    }

    /// Sends what can be sent; `lost` decides over each packet.
    fn send(&mut self, lost: &mut impl FnMut() -> bool) {
        while let Some(segment) = self.sender.pop(self.now, &self.transport) {
            self.sent += 1;
            self.sent_again += u32::from(segment.again);
            self.now += 1000;
            if !lost() {
                self.packets.push_back((self.now + LATENCY, segment.stamp, segment.seq, segment.frame));
            }
        }
    }

    /// The next thing happens. Returns whether there was one.
    fn step(&mut self, lost: &mut impl FnMut() -> bool) -> bool {
        let timer = self.sender.timer_at();
        let packet = self.packets.front().map_or(u64::MAX, |packet| packet.0);
        let ack = self.acks.front().map_or(u64::MAX, |ack| ack.0);
        let next = timer.min(packet).min(ack);
        if next == u64::MAX {
            return false;
        }
        self.now = self.now.max(next);
        if next == packet {
            let (_, number, seq, frame) = self.packets.pop_front().unwrap();
            // Every packet is acknowledged: the delay has tests of its own.
            let _: AckNeed =
                self.receiver.packet(self.now, number, (seq, frame), &self.transport, &mut self.delivered);
            let ack = self.receiver.acknowledge(self.now);
            if !lost() {
                self.acks.push_back((self.now + LATENCY, ack));
            }
        } else if next == ack {
            let (_, Ack { ack, echo, sack, .. }) = self.acks.pop_front().unwrap();
            self.sender.acknowledged(ack, sack.as_deref(), echo, self.now);
        } else {
            self.sender.timed_out(self.now);
        }
        self.send(lost);
        true
    }
}

fn order() -> impl Strategy<Value = StreamOrder> {
    prop_oneof![Just(StreamOrder::Single), Just(StreamOrder::PerFrame)]
}

proptest! {
    /// Whatever is lost, everything arrives exactly once (and in order on a single stream), and the sender comes to rest.
    #[test]
    fn every_frame_arrives_once(
        frames in prop::collection::vec(1u32..40_000, 1..30),
        losses in prop::collection::vec(prop::bool::weighted(0.25), 1..400),
        streams in order(),
    ) {
        let mut path = Path::new(&frames, streams);
        // The pattern ends, so that the transfer can.
        let mut losses = losses.into_iter();
        let mut lost = move || losses.next().unwrap_or(false);
        path.send(&mut lost);
        let mut steps = 0;
        while path.step(&mut lost) {
            steps += 1;
            prop_assert!(steps < 1_000_000, "the transfer does not end");
        }
        let mut ids: Vec<u32> = path.delivered.iter().map(|blob| blob.0).collect();
        if streams == StreamOrder::PerFrame {
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
        streams in order(),
    ) {
        let mut path = Path::new(&frames, streams);
        path.send(&mut || false);
        while path.step(&mut || false) {}
        let segments: u32 = frames.iter().map(|len| len.div_ceil(1000)).sum();
        prop_assert_eq!((path.sent, path.sent_again), (segments, 0));
        prop_assert_eq!(path.delivered.len(), frames.len());
    }

    #[test]
    fn ranges_are_sets(numbers in prop::collection::vec(0u32..60, 0..80), from in 0u32..60, len in 1u32..10) {
        let mut ranges = Ranges::default();
        let mut set = BTreeSet::new();
        for number in numbers {
            prop_assert_eq!(ranges.insert(number), set.insert(number));
        }
        for number in 0..61 {
            prop_assert_eq!(ranges.contains(number), set.contains(&number));
        }
        prop_assert_eq!(ranges.covers(from, from + len), (from..from + len).all(|n| set.contains(&n)));
        prop_assert_eq!(ranges.first_gap(), (0..).find(|n| !set.contains(n)).unwrap());
        prop_assert_eq!(ranges.end(), set.last().map_or(0, |n| n + 1));
        let all: Vec<u32> = ranges.descending().flat_map(|(from, to)| (from..to).rev()).collect();
        prop_assert_eq!(all, set.iter().rev().copied().collect::<Vec<_>>());
        let gaps = set.iter().filter(|n| !set.contains(&(*n + 1))).count();
        prop_assert_eq!(ranges.len(), gaps, "ranges that touch are one");
    }
}
