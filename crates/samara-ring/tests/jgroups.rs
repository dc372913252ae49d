//! DAISYCHAIN of JGroups as modelled shows what was measured of the real one.
#![allow(missing_docs)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{
    Context, Effects, Engine, Frame, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken,
};
use samara_ring::jgroups::{DaisyCommand, DaisyConfig, DaisyEvent, DaisyFrame, Daisychain};

fn identity(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_be_bytes())
}

struct Host {
    engine: Daisychain,
    outbox: Outbox<DaisyFrame>,
    rng: NodeRng,
    effects: Effects<DaisyEvent>,
    busy_until: Time,
    is_alive: bool,
    has_left: bool,
    /// By origin: what came, in order.
    delivered: BTreeMap<u32, Vec<u64>>,
    last: Time,
    gap: Duration,
}

/// Every host knows every other one by its number. Uplinks of 100 Mbit/s, latencies of their own.
struct Net {
    now: Time,
    hosts: Vec<Host>,
    heap: BinaryHeap<Reverse<(Time, u64)>>,
    what: BTreeMap<u64, (u32, What)>,
    serial: u64,
    rng: NodeRng,
    down: BTreeSet<(u32, u32)>,
}

enum What {
    Timer(TimerToken),
    Frame(u32, DaisyFrame),
    Free,
}

impl Net {
    fn new(seed: u64, count: u32) -> Self {
        let mut net = Self {
            now: Time::ZERO,
            hosts: Vec::new(),
            heap: BinaryHeap::new(),
            what: BTreeMap::new(),
            serial: 0,
            rng: NodeRng::new(seed, 0, Purpose::Network),
            down: BTreeSet::new(),
        };
        (0..count).for_each(|_| net.add(count));
        net
    }

    fn add(&mut self, members: u32) {
        let number = self.hosts.len() as u32;
        let config = DaisyConfig::new((0..members).map(identity).collect());
        self.hosts.push(Host {
            outbox: Outbox::new(config.outbox()),
            engine: Daisychain::new(config, identity(number)),
            rng: NodeRng::new(self.rng.next_u64(), number.into(), Purpose::Engine),
            effects: Effects::default(),
            busy_until: Time::ZERO,
            is_alive: true,
            has_left: false,
            delivered: BTreeMap::new(),
            last: self.now,
            gap: Duration::ZERO,
        });
        self.handle(number, Input::Start);
        for other in 0..number {
            for (host, peer) in [(number, other), (other, number)] {
                self.hosts[host as usize].outbox.link_up(PeerId(peer));
                let info = PeerInfo {
                    identity: identity(peer),
                    outbound: host == number,
                    address: None,
                    protocol: "".into(),
                };
                self.handle(host, Input::LinkUp { peer: PeerId(peer), info });
            }
        }
    }

    /// The process ends; its connections close.
    fn end(&mut self, host: u32) {
        self.hosts[host as usize].is_alive = false;
        for other in (0..self.hosts.len() as u32).filter(|other| *other != host) {
            self.down.extend([(host, other), (other, host)]);
            self.hosts[other as usize].outbox.link_down(PeerId(host));
            self.handle(other, Input::LinkDown { peer: PeerId(host) });
        }
    }

    fn broadcast(&mut self, host: u32, count: u64) {
        for _ in 0..count {
            let own = self.hosts[host as usize].delivered.get(&host).map_or(0, Vec::len) as u64;
            let mut message = vec![0; 8_192];
            message[..8].copy_from_slice(&own.to_be_bytes());
            self.handle(host, Input::Command(DaisyCommand::Broadcast(Bytes::from(message))));
        }
    }

    fn schedule(&mut self, at: Time, host: u32, what: What) {
        self.serial += 1;
        self.heap.push(Reverse((at.max(self.now), self.serial)));
        self.what.insert(self.serial, (host, what));
    }

    fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(Reverse((at, serial))) = self.heap.peek().copied().filter(|entry| entry.0.0 <= until) {
            self.heap.pop();
            self.now = at;
            let Some((host, what)) = self.what.remove(&serial) else { continue };
            match what {
                What::Timer(token) => self.handle(host, Input::Timer(token)),
                What::Free => self.transmit(host),
                What::Frame(from, frame) if !self.down.contains(&(from, host)) => {
                    self.handle(host, Input::Frame { peer: PeerId(from), frame });
                }
                What::Frame(..) => {}
            }
        }
        self.now = until;
    }

    fn handle(&mut self, number: u32, input: Input<DaisyFrame, DaisyCommand>) {
        let now = self.now;
        let host = &mut self.hosts[number as usize];
        if !host.is_alive {
            return;
        }
        let mut cx = Context::new(now, &mut host.rng, &mut host.outbox, &mut host.effects);
        host.engine.handle(input, &mut cx);
        let effects = std::mem::take(&mut host.effects);
        for event in effects.events {
            host.has_left |= event == DaisyEvent::Left;
            if let DaisyEvent::Delivered { origin, message } = event {
                let origin = u32::from_be_bytes(origin.as_bytes().try_into().unwrap());
                let message = u64::from_be_bytes(message[..8].try_into().unwrap());
                host.delivered.entry(origin).or_default().push(message);
                host.gap = host.gap.max(now.since(host.last));
                host.last = now;
            }
        }
        for timer in effects.timers {
            self.schedule(timer.at, number, What::Timer(timer.token));
        }
        self.transmit(number);
    }

    fn transmit(&mut self, number: u32) {
        let now = self.now;
        let host = &mut self.hosts[number as usize];
        if host.busy_until > now || !host.is_alive {
            return;
        }
        let Some(copy) = host.outbox.pop(now, |_| true) else { return };
        let sent = now.plus_nanos(copy.frame.encoded_len() as u64 * 80);
        host.busy_until = sent;
        self.schedule(sent, number, What::Free);
        // Every link has a latency of its own, 50 to 250 µs, and keeps the order.
        let latency = 50_000 + (u64::from(number) * 7 + u64::from(copy.peer.0) * 3) % 5 * 50_000;
        self.schedule(sent.plus_nanos(latency), copy.peer.0, What::Frame(number, copy.frame));
    }

    fn forwarded(&self) -> u64 {
        self.hosts.iter().filter(|host| host.is_alive).map(|host| host.engine.metrics().forwarded).sum()
    }
}

#[test]
fn everything_comes_in_order() {
    let mut net = Net::new(1, 4);
    for _ in 0..20 {
        (0..4).for_each(|host| net.broadcast(host, 20));
        net.run_for(Duration::from_millis(200));
    }
    net.run_for(Duration::from_secs(3));
    for host in &net.hosts {
        for origin in 0..4 {
            assert_eq!(host.delivered[&origin], (0..400).collect::<Vec<u64>>());
        }
        // Each member passes on what is not its own and not its successor's.
        let heartbeats = 2 * 8;
        let forwarded = host.engine.metrics().forwarded;
        assert!((800..=800 + heartbeats).contains(&forwarded), "{forwarded}");
    }
}

/// Longest time without delivery at a survivor.
fn gap_after_a_crash(victim: u32) -> Duration {
    let mut net = Net::new(1, 4);
    net.run_for(Duration::from_secs(1));
    let step = |net: &mut Net| {
        (0..4)
            .filter(|host| net.hosts[*host as usize].is_alive)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|host| net.broadcast(host, 5));
        net.run_for(Duration::from_millis(50));
    };
    (0..20).for_each(|_| step(&mut net));
    net.hosts.iter_mut().for_each(|host| host.gap = Duration::ZERO);
    net.end(victim);
    (0..1_200).for_each(|_| step(&mut net));
    let survivors = (0..4u32).filter(|host| *host != victim);
    survivors
        .map(|host| net.hosts[host as usize].gap.max(net.now.since(net.hosts[host as usize].last)))
        .max()
        .unwrap()
}

/// Measured: 4.3 to 4.8 s behind the coordinator, 42 to 48 s elsewhere.
#[test]
fn a_crash_stops_the_group_until_the_coordinator_hears_of_it() {
    let behind_the_coordinator = gap_after_a_crash(1);
    assert!((1.0..6.0).contains(&behind_the_coordinator.as_secs_f64()), "{behind_the_coordinator:?}");
    for victim in [2, 3] {
        let gap = gap_after_a_crash(victim).as_secs_f64();
        assert!((38.0..52.0).contains(&gap), "victim {victim}: {gap}");
    }
}

/// Measured: in 2 of 5 runs messages of the leaver circulate for ever, and some are never delivered at some survivors.
#[test]
fn a_leaver_leaves_messages_that_circulate_or_are_lost() {
    let (mut circulating, mut lost) = (0, 0);
    for leaver in 1..4u32 {
        for millis in [20, 40, 60, 80, 100] {
            let mut net = Net::new(millis, 4);
            net.run_for(Duration::from_secs(1));
            (0..4).for_each(|host| net.broadcast(host, 200));
            net.run_for(Duration::from_millis(millis));
            net.handle(leaver, Input::Command(DaisyCommand::Leave));
            while !net.hosts[leaver as usize].has_left && net.now < Time::from_secs(5) {
                net.run_for(Duration::from_millis(1));
            }
            assert!(net.hosts[leaver as usize].has_left);
            net.end(leaver);
            net.run_for(Duration::from_secs(5));
            let before = net.forwarded();
            net.run_for(Duration::from_secs(1));
            circulating += u32::from(net.forwarded() - before > 100);
            let sent = net.hosts[leaver as usize].delivered[&leaver].len();
            let rest = net.hosts.iter().filter(|host| host.is_alive);
            let came = |host: &Host| host.delivered.get(&leaver).map_or(0, Vec::len);
            lost += u32::from(rest.into_iter().any(|host| came(host) < sent));
        }
    }
    assert!(circulating > 0 && lost > 0, "{circulating} of 15 circulate, {lost} of 15 lose");
    println!("{circulating} of 15 circulate, {lost} of 15 lose");
}

#[test]
fn a_joiner_gets_the_view_and_then_everything() {
    let mut net = Net::new(3, 3);
    net.run_for(Duration::from_secs(1));
    (0..3).for_each(|host| net.broadcast(host, 50));
    net.run_for(Duration::from_millis(20));
    net.add(3);
    net.run_for(Duration::from_secs(3));
    assert_eq!(net.hosts[3].engine.view().map(|view| view.members.len()), Some(4));
    (0..4).for_each(|host| net.broadcast(host, 50));
    net.run_for(Duration::from_secs(3));
    for host in &net.hosts {
        for origin in 0..4 {
            let came = &host.delivered[&origin];
            assert!(came.is_sorted() && came.len() >= 50);
        }
    }
}
