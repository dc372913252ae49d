//! Tests of the parts of QUIC.

use std::collections::BTreeSet;

use proptest::prelude::*;
use smallvec::smallvec;

use super::congestion::Congestion;
use super::receiver::Ranges;
use super::recovery::Rtt;
use super::{PING, QuicBehaviour, Receiver, Sender, StreamOrder};
use crate::packet::Sack;
use crate::transport::tests::{Blob, MILLI, quic};
use crate::transport::{Ack, AckNeed, LossRecovery, ReceiveHalf, SendHalf, Transport};

fn sender(packets: u32) -> (Sender<Blob>, Transport) {
    let transport = quic(StreamOrder::Single);
    let mut sender = Sender::new(&transport);
    sender.write(Blob(0, packets * 1000), packets * 1000, 0, &transport);
    (sender, transport)
}

/// Returns the packets that leave at a time: number and segment.
fn leave(sender: &mut Sender<Blob>, now: u64, transport: &Transport) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| sender.pop_segment(now, transport))
        .map(|segment| (segment.stamp, segment.seq))
        .collect()
}

/// Returns an acknowledgement of some ranges, or of all packets before a number.
fn ack(ack: u32, ranges: &[(u32, u32)]) -> Ack {
    let sack = Sack { ranges: ranges.iter().copied().collect() };
    Ack { ack, sack: (!ranges.is_empty()).then(|| Box::new(sack)), ..Ack::default() }
}

#[test]
fn packet_is_lost_after_three_later_ones_arrived() {
    let (mut sender, transport) = sender(20);
    assert_eq!(leave(&mut sender, MILLI, &transport).len(), 10);
    assert!(sender.acknowledged(&ack(4, &[(2, 4), (0, 1)]), 101 * MILLI, &transport));
    let new: Vec<u32> = leave(&mut sender, 101 * MILLI, &transport).iter().map(|(_, seq)| *seq).collect();
    assert_eq!(new, (10..16).collect::<Vec<_>>(), "three acknowledged in slow start make room for six");
    assert!(sender.acknowledged(&ack(5, &[(2, 5), (0, 1)]), 102 * MILLI, &transport));
    // The window is halved: 13 packets become 6, and 11 are in flight.
    assert!((sender.cwnd() - 7.0).abs() < 0.51, "{}", sender.cwnd());
    assert!(leave(&mut sender, 102 * MILLI, &transport).is_empty());
    assert!(sender.acknowledged(&ack(11, &[(2, 11), (0, 1)]), 103 * MILLI, &transport));
    assert_eq!(
        leave(&mut sender, 103 * MILLI, &transport)[0],
        (16, 1),
        "the lost segment goes first, under a new number"
    );
}

#[test]
fn each_timeout_sends_two_probes_and_doubles() {
    let (mut sender, transport) = sender(1);
    let sent = 5 * MILLI;
    assert_eq!(leave(&mut sender, sent, &transport), [(0, 0)]);
    // 333 ms and four times half of it, and the delay of acknowledgements.
    let timeout = 999 * MILLI + 25 * MILLI;
    let mut at = sent;
    for i in 0..4 {
        assert_eq!(sender.timer_at(), at + (timeout << i));
        at = sender.timer_at();
        assert!(sender.timed_out(at, &transport));
        let packets = leave(&mut sender, at, &transport);
        assert_eq!(packets.len(), 2, "{packets:?}");
        // Each probe takes the segment over from the packet before.
        assert_eq!(packets.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(), [0, 0]);
    }
    assert_eq!(sender.stalled_for(at), at - (sent + timeout));
    assert!(sender.acknowledged(&ack(9, &[]), at + 40 * MILLI, &transport));
    assert_eq!((sender.timer_at(), sender.stalled_for(at)), (u64::MAX, 0));
}

#[test]
fn probe_without_data_is_a_ping() {
    let (mut sender, transport) = sender(1);
    leave(&mut sender, 0, &transport);
    let at = sender.timer_at();
    sender.timed_out(at, &transport);
    assert_eq!(leave(&mut sender, at, &transport).len(), 2);
    // The first packet was only late; the probes, which carry the same segment, are lost.
    assert!(sender.acknowledged(&ack(1, &[]), at + MILLI, &transport));
    let at = sender.timer_at();
    assert!(sender.timed_out(at, &transport));
    assert_eq!(leave(&mut sender, at, &transport), [(3, PING), (4, PING)]);
    assert!(sender.acknowledged(&ack(5, &[(3, 5), (0, 1)]), at + MILLI, &transport));
    assert!(!sender.can_send());
}

#[test]
fn three_probe_timeouts_without_arrivals_are_persistent_congestion() {
    // Half of ten packets; or two, and one for the packet that arrives.
    for (gap, packets) in [(17, 5.0), (340, 3.0)] {
        let (mut sender, transport) = sender(10);
        // One sample of 100 ms: the probe timeout is at most 100 + 4 * 50 + 25 ms.
        sender.pop_segment(0, &transport);
        sender.acknowledged(&ack(1, &[]), 100 * MILLI, &transport);
        let mut at = 101 * MILLI;
        for _ in 0..4 {
            sender.pop_segment(at, &transport);
            at += gap * MILLI;
        }
        leave(&mut sender, at, &transport);
        // The next one arrives, so that the four are lost: they were sent within
        // 51 or 1,020 ms; 3 * 325 is 975.
        sender.acknowledged(&ack(6, &[(5, 6), (0, 1)]), at + 100 * MILLI, &transport);
        assert_eq!(sender.cwnd().to_bits(), f64::to_bits(packets), "{gap} ms: {} packets", sender.cwnd());
    }
}

#[test]
fn round_trips_are_smoothed_as_in_the_rfc() {
    let mut rtt = Rtt::new(333 * MILLI);
    assert_eq!(rtt.smoothed(), 0);
    assert_eq!(rtt.probe_timeout(25 * MILLI), 1024 * MILLI);
    rtt.sample(100 * MILLI, 25 * MILLI, MILLI);
    assert_eq!(rtt.smoothed(), 100 * MILLI, "the first sample is taken unchanged");
    assert_eq!(rtt.probe_timeout(25 * MILLI), (100 + 200 + 25) * MILLI);
    // 20 ms of 140 are the peer's delay; the variation is (3 * 50 + 20) / 4.
    rtt.sample(140 * MILLI, 20 * MILLI, 2 * MILLI);
    assert_eq!(rtt.smoothed(), (7 * 100 + 120) * MILLI / 8);
    assert_eq!(rtt.probe_timeout(0), (102 * MILLI + MILLI / 2) + 170 * MILLI);
    assert_eq!(rtt.loss_delay(), 140 * MILLI * 9 / 8, "the latest sample is used if it is larger");
    // A delay that would go below the minimum round trip is ignored.
    rtt.sample(110 * MILLI, 20 * MILLI, 3 * MILLI);
    assert_eq!(rtt.smoothed(), (7 * (102 * MILLI + MILLI / 2) + 110 * MILLI) / 8);
}

#[test]
fn window_is_halved_once_for_all_losses_of_a_round_trip() {
    let mut window = Congestion::new(10, 1000, 1000, QuicBehaviour::Rfc);
    assert!(window.admits(9_000) && !window.admits(9_001));
    window.acknowledged(1000, 5, 6, true);
    assert_eq!(window.window.bytes(), 11_000);
    window.acknowledged(1000, 5, 6, false);
    assert_eq!(window.window.bytes(), 11_000, "an unused window does not grow");
    window.lost(6, 20);
    assert_eq!(window.window.bytes(), 5_500);
    window.lost(20, 30);
    window.acknowledged(1000, 20, 31, true);
    assert_eq!(window.window.bytes(), 5_500, "sent before the window was reduced");
    window.acknowledged(1000, 21, 32, true);
    assert_eq!(window.window.bytes(), 5_500 + 1000 * 1000 / 5_500, "congestion avoidance");
    for at in 0..10 {
        window.lost(100 * at + 50, 100 * at + 60);
    }
    assert_eq!(window.window.bytes(), 2_000, "not below two packets");
    assert!(window.limits(0), "all but three packets");
}

#[test]
fn only_a_used_window_grows() {
    let mut window = Congestion::new(20, 1000, 1000, QuicBehaviour::Rfc);
    assert!(!window.limits(10_000) && window.limits(10_001), "half of it in slow start");
    window.lost(1, 2);
    assert!(!window.limits(6_999) && window.limits(7_000), "all but three packets afterwards");
}

#[test]
fn acknowledgements_remember_sixty_four_ranges() {
    let transport = quic(StreamOrder::Single);
    let mut receiver: Receiver<Blob> = Receiver::new(&transport);
    let mut deliver = Vec::new();
    for number in 0..100 {
        let need = receiver.packet((0, 0), 2 * number, (PING, None), &transport, &mut deliver);
        assert_eq!(need, if number == 0 { AckNeed::Later } else { AckNeed::Now });
    }
    let Ack { ack, sack, .. } = receiver.acknowledge(0, &transport);
    let ranges: Vec<_> = sack.unwrap().iter().collect();
    assert_eq!((ack, ranges.len()), (199, 64));
    assert_eq!((ranges[0], ranges[63]), ((198, 199), (72, 73)));
    assert_eq!(receiver.acknowledge(0, &transport).ack, 0, "nothing is acknowledged twice");
}

#[test]
fn late_packet_is_acknowledged_at_once_with_the_delay_of_the_largest() {
    let transport = quic(StreamOrder::Single);
    let mut receiver: Receiver<Blob> = Receiver::new(&transport);
    let mut packet = |now: u64, number| {
        let need = receiver.packet((now * MILLI, 0), number, (PING, None), &transport, &mut Vec::new());
        let ack = (need == AckNeed::Now).then(|| receiver.acknowledge(now * MILLI, &transport));
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

proptest! {
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
        prop_assert_eq!(ranges.len(), gaps, "adjacent ranges are merged");
    }
}
