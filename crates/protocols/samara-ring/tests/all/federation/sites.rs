//! Hosts in sites. All hosts of one site share one link to each other site, with a rate and a
//! latency.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::testing::{Network, Path, World, identity_of};
use samara_engine::{NodeRng, Outbox, Purpose, Time};
use samara_ring::wire::Data;
use samara_ring::{Command, Federation, FederationConfig, FederationEvent as Event, Member, Ring, RingFrame};

use crate::{message, parse};

/// The latency and the rate of links between sites.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wan {
    pub(crate) latency: Duration,
    /// Bits per second of the link from one site to another.
    pub(crate) bps: u64,
}

pub(crate) const WAN: Wan = Wan { latency: Duration::from_millis(20), bps: 20_000_000 };
const LAN: Duration = Duration::from_micros(200);
/// Time by which a socket to another site accepts frames ahead of the link.
const AHEAD: Duration = Duration::from_millis(20);

/// Returns a replacement for the content of a message of a hostile host, given its engine and the
/// senders it has seen.
pub(crate) type Tamper = Box<dyn FnMut(&Federation, &[(u16, Member)], &mut NodeRng) -> Option<Bytes>>;

pub(crate) struct Sites {
    wan: Wan,
    /// Number of hosts in each site.
    size: u32,
    /// Bytes of content that went from one site to another.
    pub(crate) crossed: BTreeMap<(u16, u16), u64>,
    /// Delivered messages in order, by host.
    pub(crate) delivered: Vec<Vec<(u32, u64)>>,
    pub(crate) last_at: Vec<Time>,
    /// Number of messages that each host has broadcast, by host.
    pub(crate) sent: Vec<u64>,
    pub(crate) left: BTreeSet<u32>,
    /// Maximum number of bytes that an engine has kept.
    pub(crate) kept_max: u64,
    /// A host that changes its own messages. Messages that it invents are ignored on delivery.
    pub(crate) hostile: Option<(u32, Tamper)>,
    /// Senders whose messages the hostile host has seen, with their sites.
    heard: Vec<(u16, Member)>,
    faults: NodeRng,
}

impl Sites {
    pub(crate) fn site(&self, host: u32) -> u16 {
        (host / self.size) as u16
    }

    fn is_hostile(&self, host: u32) -> bool {
        self.hostile.as_ref().is_some_and(|(hostile, _)| *hostile == host)
    }

    fn deliver(&mut self, now: Time, host: u32, site: u16, origin: &Member, content: &[u8]) {
        if self.is_hostile(host) && !self.heard.contains(&(site, origin.clone())) {
            self.heard.push((site, origin.clone()));
        }
        let (by, number) = parse(content);
        let exists = (by as usize) < self.sent.len();
        if exists && origin.identity == identity_of(by) && site == self.site(by) {
            self.delivered[host as usize].push((by, number));
            self.last_at[host as usize] = now;
        } else {
            assert!(self.hostile.is_some(), "{origin:?} of site {site} did not broadcast this");
        }
    }
}

impl World<Federation> for Sites {
    fn path(&self, from: u32, to: u32) -> Path {
        let (from, to) = (self.site(from), self.site(to));
        if from == to {
            return Path { latency: LAN, ..Path::default() };
        }
        let Wan { latency, bps } = self.wan;
        Path { latency, bps, pipe: (from.into(), to.into()), ahead: AHEAD, ..Path::default() }
    }

    fn event(&mut self, now: Time, host: u32, event: Event) -> Option<(Time, Command)> {
        match event {
            Event::Delivered { content, .. } if self.hostile.is_some() && content.len() < 12 => {}
            Event::Delivered { origin, content, site, .. } => {
                self.deliver(now, host, site, &origin, &content);
            }
            Event::Left => _ = self.left.insert(host),
            _ => {}
        }
        None
    }

    fn frame(&mut self, from: u32, to: u32, sender: &Federation, mut frame: RingFrame) -> Option<RingFrame> {
        if self.is_hostile(from)
            && let Some((_, tamper)) = &mut self.hostile
        {
            falsify(&mut frame, sender, &self.heard, tamper, &mut self.faults);
        }
        let way = (self.site(from), self.site(to));
        if way.0 != way.1 {
            use samara_engine::Frame as _;
            *self.crossed.entry(way).or_default() += frame.payload_len() as u64;
        }
        Some(frame)
    }

    fn handled(&mut self, _: u32, engine: &Federation) {
        self.kept_max = self.kept_max.max(engine.kept_bytes());
    }
}

/// A federation in virtual time.
pub(crate) struct Net(Network<Federation, Sites>);

samara_engine::deref_to!(Net => 0: Network<Federation, Sites>);

impl Net {
    /// Creates `sites` sites of `size` hosts each. The hosts of a site have consecutive numbers.
    pub(crate) fn new(
        seed: u64,
        wan: Wan,
        sites: u16,
        size: u32,
        adapt: impl Fn(&mut FederationConfig),
    ) -> Self {
        let hosts = u32::from(sites) * size;
        let world = Sites {
            wan,
            size,
            crossed: BTreeMap::new(),
            delivered: vec![Vec::new(); hosts as usize],
            last_at: vec![Time::ZERO; hosts as usize],
            sent: vec![0; hosts as usize],
            left: BTreeSet::new(),
            kept_max: 0,
            hostile: None,
            heard: Vec::new(),
            faults: NodeRng::new(seed, 0, Purpose::Faults),
        };
        let mut network = Network::new(seed, world);
        let of =
            |site: u16| (u32::from(site) * size..(u32::from(site) + 1) * size).map(identity_of).collect();
        for host in 0..hosts {
            let site = (host / size) as u16;
            let others = (0..sites).filter(|other| *other != site).map(|other| (other, of(other)));
            let mut config = FederationConfig::new(site, others.collect());
            config.local.seeds = of(site);
            adapt(&mut config);
            let outbox = Outbox::new(config.outbox());
            network.add(Federation::new(config, identity_of(host)).unwrap(), outbox);
        }
        Self(network)
    }

    /// Creates a federation whose leaders have found one another.
    pub(crate) fn formed(seed: u64, sites: u16, size: u32, adapt: impl Fn(&mut FederationConfig)) -> Self {
        let mut net = Self::new(seed, WAN, sites, size, adapt);
        net.run_for(Duration::from_secs(4));
        let all: Vec<u16> = (0..sites).collect();
        assert!(net.is_bridged(&all), "seed {seed}: no bridge of {sites} sites of {size}");
        net
    }

    pub(crate) fn hosts(&self) -> Vec<u32> {
        (0..self.len()).collect()
    }

    /// Returns the hosts that are alive and have not left.
    pub(crate) fn living(&self) -> Vec<u32> {
        (0..self.len()).filter(|host| self.is_alive(*host) && !self.left.contains(host)).collect()
    }

    /// Returns the host that leads a site.
    pub(crate) fn leader(&self, site: u16) -> Option<u32> {
        let leads = |host: &u32| self.site(*host) == site && self.engine(*host).bridge().is_some();
        self.living().into_iter().find(leads)
    }

    /// Returns true if the leaders of all these sites are on one bridge.
    pub(crate) fn is_bridged(&self, sites: &[u16]) -> bool {
        sites.iter().all(|site| {
            let view = self.leader(*site).and_then(|host| self.engine(host).bridge()?.view().cloned());
            view.is_some_and(|view| view.len() == sites.len())
        })
    }

    /// Cuts the links between two sites.
    pub(crate) fn cut(&mut self, a: u16, b: u16) {
        for host in (0..self.len()).filter(|host| self.site(*host) == a).collect::<Vec<_>>() {
            for other in (0..self.len()).filter(|other| self.site(*other) == b).collect::<Vec<_>>() {
                self.0.cut(host, other);
            }
        }
    }

    /// The application of a host broadcasts `count` messages, one every `gap`, or as fast as the
    /// engine accepts them.
    pub(crate) fn send(&mut self, host: u32, count: u64, len: usize, gap: Duration) {
        let now = self.now;
        self.at(now, move |net| send(net, host, count, len, gap));
    }

    pub(crate) fn delivered_of(&self, host: u32, origin: u32) -> Vec<u64> {
        let all = self.delivered[host as usize].iter();
        all.filter(|(by, _)| *by == origin).map(|(_, number)| *number).collect()
    }

    /// Asserts that each of `hosts` has all messages of each of `origins`, once and in order.
    pub(crate) fn assert_complete(&self, hosts: &[u32], origins: &[u32], label: &str) {
        for origin in origins {
            let sent: Vec<u64> = (1..=self.sent[*origin as usize]).collect();
            for host in hosts {
                let got = self.delivered_of(*host, *origin);
                let first = got.iter().zip(&sent).position(|(got, sent)| got != sent);
                assert!(
                    got == sent,
                    "{label}: host {host} has {} of {} of {origin}, first difference at {first:?}",
                    got.len(),
                    sent.len()
                );
            }
        }
    }

    /// Asserts that no host has duplicates, gaps or reordered messages of any origin.
    pub(crate) fn assert_order(&self, label: &str) {
        for origin in 0..self.len() {
            for host in 0..self.len() {
                let got = self.delivered_of(host, origin);
                let expected: Vec<u64> = (1..=got.len() as u64).collect();
                assert!(
                    got == expected,
                    "{label}: host {host}, of {origin}: reordered, duplicate or missing messages"
                );
            }
        }
    }

    /// Asserts the order, and that living hosts have the same messages of every origin.
    pub(crate) fn assert_promises(&self, label: &str) {
        self.assert_order(label);
        let living = self.living();
        for origin in 0..self.len() {
            let counts: BTreeSet<usize> =
                living.iter().map(|host| self.delivered_of(*host, origin).len()).collect();
            assert!(
                counts.len() <= 1,
                "{label}: living hosts have different messages of {origin}: {counts:?}"
            );
        }
    }
}

fn send(net: &mut Network<Federation, Sites>, host: u32, left: u64, len: usize, gap: Duration) {
    if left == 0 || !net.is_alive(host) || net.left.contains(&host) {
        return;
    }
    let number = net.sent[host as usize] + 1;
    let taken = net.with(host, |engine, cx| engine.broadcast(message(host, number, len), cx).is_ok());
    net.sent[host as usize] += u64::from(taken);
    let wait = if taken { gap } else { gap.max(Duration::from_millis(2)) };
    let at = net.now + wait;
    net.at(at, move |net| send(net, host, left - u64::from(taken), len, gap));
}

/// Falsifies whole messages of this host in the ring of its site, or in the ring of leaders.
fn falsify(
    frame: &mut RingFrame,
    engine: &Federation,
    heard: &[(u16, Member)],
    tamper: &mut Tamper,
    rng: &mut NodeRng,
) {
    let (ring, data) = match frame {
        RingFrame::Bridge(inner) => {
            let mut inside = (**inner).clone();
            let RingFrame::Data(data) = &mut inside else { return };
            if let Some(ring) = engine.bridge() {
                falsify_units(data, ring, &mut |rng| tamper(engine, heard, rng), rng);
            }
            *inner = inside.into();
            return;
        }
        RingFrame::Data(data) => (engine.local(), data),
        _ => return,
    };
    falsify_units(data, ring, &mut |rng| tamper(engine, heard, rng), rng);
}

fn falsify_units(
    data: &mut Arc<Data>,
    ring: &Ring,
    tamper: &mut dyn FnMut(&mut NodeRng) -> Option<Bytes>,
    rng: &mut NodeRng,
) {
    let own = ring.view().and_then(|view| view.rank_of(ring.member()));
    let mut units = data.units().to_vec();
    for unit in units.iter_mut().filter(|unit| Some(unit.origin) == own && unit.first && unit.last) {
        if let Some(content) = tamper(rng) {
            unit.bytes = content;
        }
    }
    *data = Data::new(data.view(), units, data.acks().to_vec()).into();
}
