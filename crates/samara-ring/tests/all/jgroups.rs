//! Tests of the model of DAISYCHAIN with the protocols of `tcp.xml`.

use std::time::Duration;

use bytes::Bytes;
use samara_engine::testing::{Crash, Network, Path as Way, Uniform, World, identity_of};
use samara_engine::{Outbox, Time};
use samara_ring::jgroups::{
    Jgroups, JgroupsCommand, JgroupsConfig, JgroupsEvent, JgroupsFrame, JgroupsMetrics, Multicast, Path,
    Requests, VERIFY,
};

use crate::{message, parse};

/// A network that loses one frame: that of a sender's message on one link.
struct Lossy {
    uniform: Uniform<JgroupsEvent>,
    /// The link, and the origin and number of the message that it loses the first time.
    loses: Option<(u32, u32, u16, u64)>,
    /// Copies of messages that left, by the host.
    copies: Vec<u32>,
}

impl World<Jgroups> for Lossy {
    fn path(&self, from: u32, _: u32) -> Way {
        Way { pipe: (from, from), ..self.uniform.path }
    }

    fn event(&mut self, now: Time, host: u32, event: JgroupsEvent) -> Option<(Time, JgroupsCommand)> {
        self.uniform.events.push((now, host, event));
        None
    }

    fn frame(&mut self, from: u32, to: u32, _: &Jgroups, frame: JgroupsFrame) -> Option<JgroupsFrame> {
        let (JgroupsFrame::Chained { origin, multicast, .. } | JgroupsFrame::Direct { origin, multicast }) =
            &frame
        else {
            return Some(frame);
        };
        let Multicast::Message(number, _) = **multicast else { return Some(frame) };
        self.copies[from as usize] += 1;
        if self.loses == Some((from, to, origin.place, number)) {
            self.loses = None;
            return None;
        }
        Some(frame)
    }
}

type Net = Network<Jgroups, Lossy>;

fn node(config: &JgroupsConfig, host: u32) -> (Jgroups, Outbox<JgroupsFrame>) {
    let engine = Jgroups::new(config.clone(), &identity_of(host)).expect("a member");
    (engine, Outbox::new(JgroupsConfig::outbox()))
}

fn config(members: u32, path: Path, requests: Requests) -> JgroupsConfig {
    JgroupsConfig { members: (0..members).map(identity_of).collect(), path, requests }
}

/// Creates a group whose links have a latency of 100 us and whose uplinks have 100 Mbit/s.
fn group(config: &JgroupsConfig) -> Net {
    let members = config.members.len() as u32;
    let uniform = Uniform::new(Duration::from_micros(100), 100_000_000);
    let mut net = Network::new(1, Lossy { uniform, loses: None, copies: vec![0; members as usize] });
    for host in 0..members {
        let (engine, outbox) = node(config, host);
        net.add(engine, outbox);
    }
    net.run_for(Duration::from_millis(10));
    net
}

fn broadcast(net: &mut Net, host: u32, numbers: std::ops::Range<u64>) {
    numbers.for_each(|number| net.command(host, JgroupsCommand::Broadcast(message(host, number, 8_192))));
}

/// Returns the numbers of the messages of a member that a host has delivered, in order.
fn delivered(net: &Net, host: u32, origin: u32) -> Vec<u64> {
    let of_host = net.uniform.events.iter().filter(|(_, at, _)| *at == host);
    let messages = of_host.filter_map(|(_, _, event)| match event {
        JgroupsEvent::Delivered { message, .. } => Some(parse(message)),
        _ => None,
    });
    messages.filter(|(by, _)| *by == origin).map(|(_, number)| number).collect()
}

fn sum(net: &Net, value: fn(&JgroupsMetrics) -> u64) -> u64 {
    (0..net.len()).map(|host| value(net.engine(host).metrics())).sum()
}

fn forwarded(net: &Net) -> u64 {
    sum(net, |metrics| metrics.forwarded)
}

#[test]
fn chain_and_n_minus_1_send_equally_many_copies_when_all_members_send() {
    for path in Path::ALL {
        for members in [2, 3, 5] {
            let mut net = group(&config(members, path, Requests::Origin));
            (0..members).for_each(|host| broadcast(&mut net, host, 0..100));
            net.run_for(Duration::from_millis(600));
            for host in 0..members {
                for origin in 0..members {
                    assert_eq!(delivered(&net, host, origin), (0..100).collect::<Vec<_>>(), "{path:?}");
                }
                // N-1 copies of its own messages, or one of each message but those of its successor.
                assert_eq!(net.copies[host as usize], 100 * (members - 1), "{path:?}");
            }
            assert_eq!(sum(&net, |metrics| metrics.resent + metrics.requests), 0, "{path:?}");
        }
    }
}

#[test]
fn messages_of_a_leaver_stop_after_their_hops_but_circulate_without_a_time_to_live() {
    for (path, stops) in [(Path::TimeToLive, true), (Path::UntilOrigin, false)] {
        let mut net = group(&config(4, path, Requests::Origin));
        broadcast(&mut net, 1, 0..100);
        net.run_for(Duration::from_millis(20));
        net.command(1, JgroupsCommand::Leave);
        net.run_for(Duration::from_secs(3));
        assert!([0, 2, 3].iter().all(|host| net.engine(*host).view().unwrap().members.len() == 3));
        let before = forwarded(&net);
        // Each message was forwarded by two members at most.
        assert_eq!(before <= 200, stops, "{path:?}: {before}");
        net.run_for(Duration::from_secs(1));
        let more = forwarded(&net) - before;
        assert_eq!(more == 0, stops, "{path:?}: {more} in an idle second");
        assert_eq!(more > 500, !stops, "{path:?}: {more} in an idle second");
    }
}

#[test]
fn next_view_repairs_a_broken_chain() {
    let mut net = group(&config(4, Path::TimeToLive, Requests::Origin));
    net.crash(2, Crash::Closes);
    broadcast(&mut net, 0, 0..10);
    net.run_for(VERIFY - Duration::from_millis(100));
    assert_eq!((delivered(&net, 1, 0).len(), delivered(&net, 3, 0).len()), (10, 0), "the chain is broken");
    net.run_for(Duration::from_secs(3));
    assert_eq!(delivered(&net, 3, 0), (0..10).collect::<Vec<_>>());
    broadcast(&mut net, 1, 0..10);
    net.run_for(Duration::from_millis(50));
    assert_eq!(delivered(&net, 3, 1), (0..10).collect::<Vec<_>>(), "the new chain leads past the victim");
    assert_eq!(net.engine(0).metrics().views, 2);
}

#[test]
fn joiner_bypasses_the_chain_until_it_has_a_view() {
    let config = config(4, Path::TimeToLive, Requests::Origin);
    let mut net = group(&config);
    net.crash(3, Crash::Closes);
    net.run_for(2 * VERIFY);
    let (engine, outbox) = node(&config, 3);
    net.restart(3, engine, outbox);
    net.run_for(Duration::from_millis(5));
    assert!(net.engine(3).view().is_none());
    net.copies.fill(0);
    broadcast(&mut net, 3, 0..10);
    net.run_for(Duration::from_millis(50));
    assert_eq!((&net.copies[..], forwarded(&net)), (&[0, 0, 0, 30][..], 0));
    (0..4).for_each(|host| assert_eq!(delivered(&net, host, 3).len(), 10, "host {host}"));
    net.run_for(Duration::from_secs(2));
    net.copies.fill(0);
    broadcast(&mut net, 3, 10..20);
    net.run_for(Duration::from_millis(50));
    assert_eq!(&net.copies[..], &[10, 10, 0, 10], "the new member uses the chain");
    (0..4).for_each(|host| assert_eq!(delivered(&net, host, 3).len(), 20, "host {host}"));
}

/// A message that a link loses is missing at all members after it. The original sender sends each of
/// them a copy, as without the chain. Around the ring, each holder answers each requester. The
/// predecessor sends one copy, which the chain carries on.
#[test]
fn requests_cost_copies_by_the_member_they_go_to() {
    let cost = |requests, loses| {
        let mut net = group(&config(9, Path::TimeToLive, requests));
        net.loses = Some(loses);
        broadcast(&mut net, 0, 0..20);
        net.run_for(Duration::from_secs(3));
        (0..9).for_each(|host| {
            assert_eq!(delivered(&net, host, 0), (0..20).collect::<Vec<_>>(), "{requests:?}, host {host}");
        });
        assert!(net.loses.is_none());
        // Answers, copies that the original sender sent besides the 20 of the chain, and copies of
        // all members besides those of the chain.
        let all = net.copies.iter().sum::<u32>() - 20 * 8;
        (sum(&net, |metrics| metrics.resent), net.copies[0] - 20, all)
    };
    // Lost on the first link: eight members lack it, one has it.
    assert_eq!(cost(Requests::Origin, (0, 1, 0, 10)), (8, 8, 1));
    assert_eq!(cost(Requests::Predecessor, (0, 1, 0, 10)), (1, 1, 1));
    // Lost in the middle: the last four lack it, five have it.
    assert_eq!(cost(Requests::Origin, (4, 5, 0, 10)), (4, 4, 1));
    assert_eq!(cost(Requests::Predecessor, (4, 5, 0, 10)), (1, 0, 1));
    let (resent, _, all) = cost(Requests::Ring, (4, 5, 0, 10));
    assert!(resent >= 4 * 5 && all >= 16, "{resent}, {all}: each of five holders answers four requests");
}

#[test]
fn sender_waits_for_credits_and_continues() {
    let mut net = group(&config(4, Path::TimeToLive, Requests::Origin));
    broadcast(&mut net, 0, 0..1_000);
    let refused = net.uniform.events.iter().filter(|(.., event)| *event == JgroupsEvent::Refused).count();
    // 2 MB are 244 messages of 8 KiB.
    assert_eq!(refused, 1_000 - 244);
    net.run_for(Duration::from_secs(1));
    assert!(net.uniform.events.iter().any(|(.., event)| *event == JgroupsEvent::Room));
    broadcast(&mut net, 0, 244..300);
    net.run_for(Duration::from_secs(1));
    assert_eq!(delivered(&net, 3, 0), (0..300).collect::<Vec<_>>());
}

#[test]
fn empty_content_is_a_message() {
    let mut net = group(&config(2, Path::TimeToLive, Requests::Origin));
    net.command(0, JgroupsCommand::Broadcast(Bytes::new()));
    net.run_for(Duration::from_millis(10));
    let count = net
        .uniform
        .events
        .iter()
        .filter(|(.., event)| matches!(event, JgroupsEvent::Delivered { .. }))
        .count();
    assert_eq!(count, 2);
}
