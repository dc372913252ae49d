//! A group in virtual time whose applications broadcast numbered messages.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::hostile::{Hostile, Misconduct};
use samara_engine::testing::{Network, Path, World, host_of, identity_of};
use samara_engine::{NodeRng, Outbox, PeerId, Purpose, Time};
use samara_ring::{Config, Event, Ring, RingFrame};

pub(crate) use samara_engine::testing::Crash;

use crate::message;
use crate::record::Record;

/// The latency and the rate of links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) latency: (Duration, Duration),
    /// Bits per second of each host's uplink; 0 for no limit.
    pub(crate) bps: u64,
}

impl Link {
    pub(crate) const fn micros(min: u64, max: u64) -> Self {
        Self { latency: (Duration::from_micros(min), Duration::from_micros(max)), bps: 0 }
    }
}

pub(crate) struct Lan {
    pub(crate) record: Record,
    /// Number of frames that are not heartbeats.
    pub(crate) others: u64,
    seed: u64,
    link: Link,
    configs: Vec<Config>,
    hostile: BTreeMap<u32, Hostile<RingFrame>>,
}

impl World<Ring> for Lan {
    fn path(&self, from: u32, to: u32) -> Path {
        let (min, max) = self.link.latency;
        let latency = Path::spread(self.seed, from, to, min, max);
        Path { latency, bps: self.link.bps, pipe: (from, from), ..Path::default() }
    }

    fn event(&mut self, now: Time, host: u32, event: Event) -> Option<(Time, samara_ring::Command)> {
        self.record.take(now, host, event);
        None
    }

    fn frame(&mut self, from: u32, to: u32, _: &Ring, frame: RingFrame) -> Option<RingFrame> {
        self.others += u64::from(!matches!(frame, RingFrame::Heartbeat(_)));
        let frame = match self.hostile.get_mut(&from) {
            Some(hostile) => hostile.twist(PeerId(to), frame)?,
            None => frame,
        };
        if let Some(hostile) = self.hostile.get_mut(&to) {
            // It only remembers the frame: it floods nobody.
            hostile.received(Time::ZERO, &frame, &mut Outbox::new(Config::default().outbox()));
        }
        Some(frame)
    }
}

/// A group of members.
pub(crate) struct Net(Network<Ring, Lan>);

samara_engine::deref_to!(Net => 0: Network<Ring, Lan>);

fn made(config: &Config, host: u32) -> (Ring, Outbox<RingFrame>) {
    (Ring::new(config.clone(), identity_of(host)).unwrap(), Outbox::new(config.outbox()))
}

impl Net {
    pub(crate) fn new(seed: u64, link: Link) -> Self {
        let lan = Lan {
            record: Record::default(),
            others: 0,
            seed,
            link,
            configs: Vec::new(),
            hostile: BTreeMap::new(),
        };
        Self(Network::new(seed, lan))
    }

    /// Creates a group of `count` members that has its first view.
    pub(crate) fn group(seed: u64, link: Link, count: u32, config: &Config) -> Self {
        let mut net = Self::new(seed, link);
        (0..count).for_each(|_| _ = net.join(config, 0..count));
        net.run_for(Duration::from_secs(2));
        let all: Vec<u32> = (0..count).collect();
        net.assert_together(&all);
        net
    }

    /// Adds a host with these seeds.
    pub(crate) fn join(&mut self, config: &Config, seeds: impl IntoIterator<Item = u32>) -> u32 {
        let config = Config { seeds: seeds.into_iter().map(identity_of).collect(), ..config.clone() };
        let (engine, outbox) = made(&config, self.len());
        self.configs.push(config);
        self.add(engine, outbox)
    }

    pub(crate) fn crash(&mut self, host: u32, how: Crash) {
        self.record.crashed.insert(host);
        self.0.crash(host, how);
    }

    /// Restarts a host without any state.
    pub(crate) fn restart(&mut self, host: u32) {
        self.record.restarted(host);
        let (engine, outbox) = made(&self.configs[host as usize], host);
        self.0.restart(host, engine, outbox);
    }

    /// Makes a host break the rules from now on, with this share of its frames.
    pub(crate) fn misbehave(&mut self, host: u32, what: Misconduct, share: f64) {
        let rng = NodeRng::new(self.seed, u64::from(host), Purpose::Hostile);
        let mut hostile = Hostile::new(rng, Vec::new(), None);
        hostile.set(what, share);
        self.hostile.insert(host, hostile);
    }

    /// The application of a host broadcasts `count` messages, one every `gap`, or as fast as the
    /// engine accepts them.
    pub(crate) fn send(&mut self, host: u32, count: u64, len: usize, gap: Duration) {
        let now = self.now;
        self.at(now, move |net| send(net, host, count, len, gap));
    }

    /// Measures the gaps between deliveries from now on.
    pub(crate) fn reset_gaps(&mut self) {
        let now = self.now;
        self.record.reset_gaps(now);
    }

    /// Asserts that these hosts have the same view, and that it contains no others.
    pub(crate) fn assert_together(&self, hosts: &[u32]) {
        let first = self.engine(hosts[0]).view().expect("a view").clone();
        let mut members: Vec<u32> = first.members.iter().map(|member| host_of(&member.identity)).collect();
        members.sort_unstable();
        assert_eq!(members, hosts, "at {:?}", self.now);
        for host in hosts {
            assert_eq!(self.engine(*host).view(), Some(&first), "host {host} at {:?}", self.now);
        }
    }
}

fn send(net: &mut Network<Ring, Lan>, host: u32, left: u64, len: usize, gap: Duration) {
    if left == 0 || !net.is_alive(host) || net.record.has_left(host) {
        return;
    }
    let number = net.record.next_number(host);
    let taken = net.with(host, |ring, cx| ring.broadcast(message(host, number, len), cx).is_ok());
    if taken {
        net.record.broadcast(host, number);
    }
    let wait = if taken { gap } else { gap.max(Duration::from_millis(1)) };
    let at = net.now + wait;
    net.at(at, move |net| send(net, host, left - u64::from(taken), len, gap));
}
