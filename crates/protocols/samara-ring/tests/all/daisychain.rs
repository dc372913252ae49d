//! Tests of the plain daisy chain.

use std::time::Duration;

use bytes::Bytes;
use samara_engine::testing::{Crash, Network, Path, Single, Uniform, World, identity_of};
use samara_engine::{Outbox, PeerId, Time};
use samara_ring::daisychain::{DaisyConfig, DaisyEvent, DaisyFrame, Daisychain};

use crate::{message, parse};

/// A network that notes the hops of messages.
struct Noted {
    uniform: Uniform<DaisyEvent>,
    /// Sender, receiver, and the hops left.
    hops: Vec<(u32, u32, u16)>,
}

impl World<Daisychain> for Noted {
    fn path(&self, from: u32, _: u32) -> Path {
        Path { pipe: (from, from), ..self.uniform.path }
    }

    fn event(&mut self, now: Time, host: u32, event: DaisyEvent) -> Option<(Time, Bytes)> {
        self.uniform.events.push((now, host, event));
        None
    }

    fn frame(&mut self, from: u32, to: u32, _: &Daisychain, frame: DaisyFrame) -> Option<DaisyFrame> {
        if let DaisyFrame::Message { ttl, .. } = &frame {
            self.hops.push((from, to, *ttl));
        }
        Some(frame)
    }
}

type Net = Network<Daisychain, Noted>;

fn config(members: u32) -> DaisyConfig {
    DaisyConfig::new((0..members).map(identity_of).collect())
}

/// Creates a chain whose links have a latency of 100 us and whose uplinks have 100 Mbit/s.
fn chain(members: u32) -> Net {
    let uniform = Uniform::new(Duration::from_micros(100), 100_000_000);
    let mut net = Network::new(1, Noted { uniform, hops: Vec::new() });
    for host in 0..members {
        let engine = Daisychain::new(config(members), &identity_of(host)).unwrap();
        net.add(engine, Outbox::new(config(members).outbox()));
    }
    net.run_for(Duration::from_millis(10));
    net
}

fn broadcast(net: &mut Net, host: u32, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| net.command(host, message(host, number, 8_192)));
}

/// Returns the numbers of the messages of a member that a host has delivered, in order.
fn delivered(net: &Net, host: u32, origin: u32) -> Vec<u64> {
    let of_host = net.uniform.events.iter().filter(|(_, at, _)| *at == host);
    let messages = of_host.filter_map(|(_, _, event)| match event {
        DaisyEvent::Delivered { message, .. } => Some(parse(message)),
        _ => None,
    });
    messages.filter(|(by, _)| *by == origin).map(|(_, number)| number).collect()
}

#[test]
fn members_deliver_all_messages_in_order_and_links_carry_them_once() {
    for members in [1, 2, 3, 5] {
        let mut net = chain(members);
        (0..members).for_each(|host| broadcast(&mut net, host, 0..100));
        net.run_for(Duration::from_secs(2));
        for host in 0..members {
            for origin in 0..members {
                assert_eq!(delivered(&net, host, origin), (0..100).collect::<Vec<_>>(), "{members} members");
            }
            // A member forwards the messages of all members except itself and its successor.
            let forwarded = net.engine(host).metrics().forwarded;
            assert_eq!(forwarded, 100 * u64::from(members.saturating_sub(2)));
        }
    }
}

/// As many as with direct sending: one of each message except those of its successor.
#[test]
fn a_member_sends_n_minus_1_copies_for_each_own_message_when_all_members_send() {
    for members in [2, 3, 5] {
        let mut net = chain(members);
        (0..members).for_each(|host| broadcast(&mut net, host, 0..100));
        net.run_for(Duration::from_secs(2));
        for host in 0..members {
            let copies = net.hops.iter().filter(|(from, ..)| *from == host).count();
            assert_eq!(copies, 100 * (members as usize - 1), "host {host} of {members}");
        }
    }
}

/// Nobody needs the sender to discard a message: it ends even if the sender is gone.
#[test]
fn a_message_ends_after_n_minus_1_hops() {
    let hops = [(3, 4, 4), (4, 0, 3), (0, 1, 2), (1, 2, 1)];
    for is_gone in [false, true] {
        let mut net = chain(5);
        broadcast(&mut net, 3, 0..1);
        // 8 KiB take 0.66 ms on a link.
        net.run_for(Duration::from_millis(1));
        if is_gone {
            net.crash(3, Crash::Closes);
        }
        net.run_for(Duration::from_secs(10));
        assert_eq!(net.hops, hops, "the sender is gone: {is_gone}");
        assert_eq!(delivered(&net, 2, 3), [0]);
    }
}

#[test]
fn sender_waits_for_its_window_and_continues() {
    let mut net = chain(4);
    broadcast(&mut net, 0, 0..1_000);
    let refused =
        net.uniform.events.iter().filter(|(.., event)| *event == DaisyEvent::Refused).count() as u64;
    // 2 MB are 245 messages of 8 KiB.
    assert_eq!(refused, 1_000 - 245);
    net.run_for(Duration::from_secs(1));
    assert!(net.uniform.events.iter().any(|(.., event)| *event == DaisyEvent::Room));
    broadcast(&mut net, 0, 245..300);
    net.run_for(Duration::from_secs(1));
    assert_eq!(delivered(&net, 3, 0), (0..300).collect::<Vec<_>>());
}

#[test]
fn own_and_forwarded_messages_alternate() {
    let mut net = chain(3);
    broadcast(&mut net, 0, 0..100);
    net.run_for(Duration::from_millis(20));
    broadcast(&mut net, 1, 0..100);
    net.run_for(Duration::from_millis(40));
    let (own, forwarded) = (delivered(&net, 2, 1).len(), delivered(&net, 2, 0).len());
    assert!(own > 20 && own < 40 && forwarded > own, "{own} own messages, {forwarded} forwarded ones");
}

#[test]
fn chain_with_a_missing_member_stops() {
    let mut net = chain(4);
    net.crash(2, Crash::Closes);
    broadcast(&mut net, 0, 0..10);
    net.run_for(Duration::from_secs(10));
    assert_eq!(delivered(&net, 1, 0).len(), 10);
    assert_eq!(delivered(&net, 3, 0).len(), 0);
}

#[test]
fn queue_stays_bounded_and_invalid_frames_are_ignored() {
    let config = DaisyConfig { window_bytes: 10_000, ..config(4) };
    let outbox = Outbox::new(config.outbox());
    let mut node = Single::start(Daisychain::new(config, &identity_of(1)).unwrap(), outbox, 1);
    let (predecessor, successor) = (PeerId(0), PeerId(1));
    node.connect(predecessor, identity_of(0), "", false);
    node.connect(successor, identity_of(2), "", true);
    let frame = |origin, ttl| DaisyFrame::Message { origin, ttl, content: Bytes::from(vec![0; 1_000]) };
    // Too many or too few hops, an unknown origin, the node itself, and a frame from the wrong
    // side.
    let nonsense = [frame(0, 4), frame(0, 2), frame(0, 0), frame(4, 1), frame(1, 0)];
    nonsense.into_iter().for_each(|frame| node.frame(predecessor, frame));
    node.frame(successor, frame(0, 3));
    assert_eq!((node.engine.metrics().ignored, node.events.len()), (6, 0));
    (0..1_000).for_each(|_| node.frame(predecessor, frame(0, 3)));
    assert!(node.outbox.pending_bytes_to(successor) <= 80_000);
    assert!(node.engine.metrics().queue_drops > 900);
}
