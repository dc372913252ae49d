//! A sender and a receiver across a path that loses what it likes.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::{Receiver, Sender, timestamp};
use crate::backlog::{cut, segment_len};
use crate::config::{Control, Framing, SendBuffer, TcpConfig, Transport};
use crate::half::AckNeed;
use crate::packet::Sack;

const MILLI: u64 = 1_000_000;
const LATENCY: u64 = 20 * MILLI;

enum Event {
    Segment { seq: u32, stamp: u32, frame: Option<u32> },
    Ack { ack: u32, echo: u32, sack: Option<Box<Sack>> },
}

struct Path {
    sender: Sender<u32>,
    receiver: Receiver<u32>,
    config: TcpConfig,
    transport: Transport,
    /// In flight, by arrival.
    events: VecDeque<(u64, Event)>,
    now: u64,
    delivered: Vec<u32>,
    sent: u32,
    sent_again: u32,
}

impl Path {
    fn new(frames: &[u32]) -> Self {
        let config = TcpConfig {
            delayed_ack: Duration::from_millis(10),
            send_buffer: SendBuffer::Fixed { bytes: u64::MAX },
            ..TcpConfig::default()
        };
        let transport = Transport {
            mss: 1000,
            framing: Framing::PLAIN,
            control: Control::Tcp(config),
            ..Transport::tcp()
        };
        let mut sender = Sender::new(Some(&config));
        for (id, len) in (0..).zip(frames) {
            sender.write(id, *len, u64::from(id), &transport);
        }
        Self {
            sender,
            receiver: Receiver::new(),
            config,
            transport,
            events: VecDeque::new(),
            now: MILLI,
            delivered: Vec::new(),
            sent: 0,
            sent_again: 0,
        }
    }

    /// Sends what can be sent; `lost` decides over each packet.
    fn send(&mut self, lost: &mut impl FnMut() -> bool) {
        while let Some(segment) = self.sender.pop(self.now, Some(&self.config), &self.transport) {
            self.sent += 1;
            self.sent_again += u32::from(segment.again);
            // A microsecond each, so that packets stay in order.
            self.now += 1000;
            if !lost() {
                let event =
                    Event::Segment { seq: segment.seq, stamp: timestamp(self.now), frame: segment.frame };
                self.events.push_back((self.now + LATENCY, event));
            }
        }
    }

    /// The next thing happens. Returns whether there was one.
    fn step(&mut self, lost: &mut impl FnMut() -> bool) -> bool {
        let timer = self.sender.rto_at();
        let arrival = self.events.front().map_or(u64::MAX, |(at, _)| *at);
        if timer == u64::MAX && arrival == u64::MAX {
            return false;
        }
        if timer < arrival {
            self.now = self.now.max(timer);
            self.sender.timed_out(self.now, &self.config);
        } else if let Some((at, event)) = self.events.pop_front() {
            self.now = self.now.max(at);
            match event {
                Event::Segment { seq, stamp, frame } => {
                    // Every segment is acknowledged: the delay has tests of its own.
                    let _: AckNeed =
                        self.receiver.segment(seq, stamp, frame, &self.config, &mut self.delivered);
                    let (ack, echo) = (self.receiver.next(), self.receiver.echo());
                    let sack = self.receiver.acknowledge();
                    if !lost() {
                        let at = self.events.back().map_or(0, |(at, _)| *at).max(self.now + LATENCY);
                        self.events.push_back((at, Event::Ack { ack, echo, sack }));
                    }
                }
                Event::Ack { ack, echo, sack } => {
                    self.sender.acknowledged(ack, sack.as_deref(), echo, self.now, &self.config);
                }
            }
        }
        self.send(lost);
        true
    }
}

proptest! {
    /// Whatever is lost, everything arrives exactly once and in order, and the sender comes to rest.
    #[test]
    fn every_frame_arrives_once_and_in_order(
        frames in prop::collection::vec(1u32..40_000, 1..30),
        losses in prop::collection::vec(prop::bool::weighted(0.25), 1..400),
    ) {
        let mut path = Path::new(&frames);
        // The pattern ends, so that the transfer can.
        let mut losses = losses.into_iter();
        let mut lost = move || losses.next().unwrap_or(false);
        path.send(&mut lost);
        let mut steps = 0;
        while path.step(&mut lost) {
            steps += 1;
            prop_assert!(steps < 1_000_000, "the transfer does not end");
        }
        let all: Vec<u32> = (0..frames.len() as u32).collect();
        prop_assert_eq!(&path.delivered, &all);
        prop_assert_eq!(path.sender.rto_at(), u64::MAX);
        prop_assert!(!path.sender.can_send());
    }

    /// Without loss nothing is sent twice and no timer fires.
    #[test]
    fn nothing_is_sent_twice_without_loss(frames in prop::collection::vec(1u32..40_000, 1..30)) {
        let mut path = Path::new(&frames);
        path.send(&mut || false);
        while path.step(&mut || false) {}
        let segments: u32 = frames.iter().map(|len| cut(*len, 1000, Framing::PLAIN).1).sum();
        prop_assert_eq!((path.sent, path.sent_again), (segments, 0));
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
fn a_column_leaves_as_it_was_captured() {
    // 57 + 11 x 1,460 + 414 bytes: a column of 16,442 bytes from go-libp2p.
    let (bytes, segments) = cut(16_442, 1460, Framing::NOISE_YAMUX);
    assert_eq!((bytes, segments), (57 + 11 * 1460 + 414, 13));
    let len = |i| segment_len(bytes, i, segments, 1460, Framing::NOISE_YAMUX);
    assert_eq!((len(0), len(1), len(11), len(12)), (57, 1460, 1460, 414));
}

#[test]
fn three_arrivals_above_a_hole_bring_the_lost_segment_back_at_once() {
    let mut path = Path::new(&[10_000]);
    let mut packet = 0;
    // The second packet of the first flight is lost.
    path.send(&mut || {
        packet += 1;
        packet == 2
    });
    assert_eq!(path.sent, 10);
    while path.sent_again == 0 {
        assert!(path.step(&mut || false));
    }
    assert!(path.now < 3 * LATENCY, "before any timer: {} ms", path.now / MILLI);
    while path.step(&mut || false) {}
    assert_eq!((path.sent_again, path.delivered.len()), (1, 1));
}
