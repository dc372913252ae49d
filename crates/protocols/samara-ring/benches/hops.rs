//! CPU time for each hop of a message of 8 KB, in hops per second, in rings in memory without
//! latency.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use samara_engine::{
    Context, Effects, Engine, Input, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo, Purpose, Time,
    TimerToken,
};
use samara_ring::{Command, Config, Event, Preset, Ring, RingFrame};

struct Host {
    engine: Ring,
    outbox: Outbox<RingFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
}

/// A group whose frames arrive at once. Time advances when none are in flight. Peers have the
/// number of their host.
struct Group {
    now: Time,
    hosts: Vec<Host>,
    inputs: VecDeque<(usize, Input<RingFrame, Command>)>,
    timers: BinaryHeap<Reverse<(Time, usize, TimerToken)>>,
    delivered: u64,
}

impl Group {
    fn form(count: usize, preset: Preset) -> Self {
        let identity = |host: usize| PeerIdentity::new(&(host as u32).to_be_bytes());
        let config = Config { own_queue_bytes: 64 << 20, ..preset.config().unwrap() };
        let host = |index| Host {
            engine: Ring::new(config.clone(), identity(index)).unwrap(),
            outbox: Outbox::new(config.outbox()),
            rng: NodeRng::new(1, index as u64, Purpose::Engine),
            effects: Effects::default(),
        };
        let hosts: Vec<Host> = (0..count).map(host).collect();
        let mut group =
            Self { now: Time::ZERO, hosts, inputs: VecDeque::new(), timers: BinaryHeap::new(), delivered: 0 };
        (0..count).for_each(|host| group.inputs.push_back((host, Input::Start)));
        for (host, other) in (0..count).flat_map(|host| (0..count).map(move |other| (host, other))) {
            if host != other {
                let peer = PeerId(other as u32);
                group.hosts[host].outbox.link_up(peer);
                let info = PeerInfo {
                    identity: identity(other),
                    outbound: host < other,
                    address: None,
                    protocol: "ring/1".into(),
                };
                group.inputs.push_back((host, Input::LinkUp { peer, info }));
            }
        }
        while group.hosts.iter().any(|host| host.engine.view().is_none_or(|view| view.len() < count)) {
            group.step();
        }
        group
    }

    /// Every host broadcasts `messages` messages. Returns once every host has received all of them.
    fn broadcast(&mut self, messages: u64, content: &Bytes) {
        let goal = self.delivered + messages * (self.hosts.len() * self.hosts.len()) as u64;
        for host in 0..self.hosts.len() {
            for _ in 0..messages {
                self.inputs.push_back((host, Input::Command(Command::Broadcast(content.clone()))));
            }
        }
        while self.delivered < goal {
            self.step();
        }
    }

    fn step(&mut self) {
        let (host, input) = match self.inputs.pop_front() {
            Some(input) => input,
            None => {
                let Reverse((at, host, token)) = self.timers.pop().unwrap();
                self.now = self.now.max(at);
                (host, Input::Timer(token))
            }
        };
        let Host { engine, outbox, rng, effects } = &mut self.hosts[host];
        engine.handle(input, &mut Context::new(self.now, rng, outbox, effects));
        while let Some(copy) = outbox.pop(self.now, |_| true) {
            let input = Input::Frame { peer: PeerId(host as u32), frame: copy.frame };
            self.inputs.push_back((copy.peer.index(), input));
        }
        for event in effects.events.drain(..) {
            assert!(!matches!(event, Event::Refused(_)), "{event:?}");
            self.delivered += u64::from(matches!(event, Event::Delivered { .. }));
        }
        effects.links.clear();
        self.timers.extend(effects.timers.drain(..).map(|timer| Reverse((timer.at, host, timer.token))));
    }
}

fn hops(c: &mut Criterion) {
    let content = Bytes::from(vec![7; 8_192]);
    for (preset, members, messages) in
        [(Preset::Ring, 4, 1_000), (Preset::Ring, 64, 20), (Preset::RingTotal, 4, 1_000)]
    {
        let mut ring = Group::form(members, preset);
        let mut group = c.benchmark_group(preset.name());
        let crossed = messages * (members * (members - 1)) as u64;
        group.throughput(Throughput::Elements(crossed)).sample_size(20);
        group.bench_function(format!("{members} members"), |b| b.iter(|| ring.broadcast(messages, &content)));
        group.finish();
    }
}

criterion_group!(benches, hops);
criterion_main!(benches);
