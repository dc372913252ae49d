//! Hosts in sites. All hosts of one site share one link to each other site: it has a rate and a latency, and keeps count.
#![allow(unreachable_pub, reason = "a module of one test program")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samara_engine::{
    Context, Effects, Engine, Frame, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerIdentity, PeerInfo,
    Purpose, Time, TimerToken,
};
use samara_ring::wire::Data;
use samara_ring::{
    Command, Federation, FederationConfig, FederationCx, FederationEvent as Event, Member, Ring, RingFrame,
};

/// The links between sites.
#[derive(Clone, Copy, Debug)]
pub struct Wan {
    pub latency: Duration,
    /// Bits per second of the link from one site to another.
    pub bps: u64,
}

const LAN: Duration = Duration::from_micros(200);
/// A socket towards another site takes so much ahead of time.
const AHEAD: Duration = Duration::from_millis(20);

struct Host {
    site: u16,
    engine: Box<Federation>,
    outbox: Outbox<RingFrame>,
    rng: NodeRng,
    effects: Effects<Event>,
    is_alive: bool,
    peers: Vec<u32>,
    numbers: BTreeMap<u32, PeerId>,
    up: BTreeSet<u32>,
    wakes: bool,
}

enum What {
    Timer(TimerToken),
    Frame { from: u32, frame: RingFrame, link: u64 },
    Dial(u32),
    DialFailed(PeerIdentity),
    Free,
    Send { left: u64, len: usize, gap: Duration },
}

type Entry = Reverse<(Time, u64, u32)>;

/// A federation.
pub struct Net {
    pub now: Time,
    wan: Wan,
    hosts: Vec<Host>,
    heap: BinaryHeap<Entry>,
    what: BTreeMap<u64, What>,
    serial: u64,
    pub rng: NodeRng,
    links: BTreeMap<(u32, u32), u64>,
    busy_until: BTreeMap<(u16, u16), Time>,
    /// Bytes of content from one site to another.
    pub crossed: BTreeMap<(u16, u16), u64>,
    /// Pairs of sites that cannot reach each other.
    pub cut: BTreeSet<(u16, u16)>,
    /// By host: what was delivered, in order.
    pub delivered: Vec<Vec<(u32, u64)>>,
    pub last_at: Vec<Time>,
    pub sent: Vec<u64>,
    pub left: BTreeSet<u32>,
    pub kept_max: u64,
    /// A host that puts into its own messages what this says. What comes of that is not looked at.
    pub hostile: Option<(u32, Tamper)>,
    /// Senders whose messages it has seen, with their sites.
    heard: Vec<(u16, Member)>,
}

/// Another content for a message of a hostile host.
pub type Tamper = Box<dyn FnMut(&Federation, &[(u16, Member)], &mut NodeRng) -> Option<Bytes>>;

pub fn identity(host: u32) -> PeerIdentity {
    PeerIdentity::new(&host.to_be_bytes())
}

fn host_of(identity: &PeerIdentity) -> u32 {
    u32::from_be_bytes(identity.as_bytes().try_into().unwrap())
}

/// Puts something else into whole messages of this host in the ring of its site, or of leaders.
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

fn pair(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

fn content(host: u32, number: u64, len: usize) -> Bytes {
    let mut bytes = vec![host as u8; len.max(12)];
    bytes[..4].copy_from_slice(&host.to_be_bytes());
    bytes[4..12].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

impl Net {
    /// So many sites of so many hosts; hosts of a site follow each other.
    pub fn new(seed: u64, wan: Wan, sites: u16, size: u32, adapt: impl Fn(&mut FederationConfig)) -> Self {
        let mut net = Self {
            now: Time::ZERO,
            wan,
            hosts: Vec::new(),
            heap: BinaryHeap::new(),
            what: BTreeMap::new(),
            serial: 0,
            rng: NodeRng::new(seed, 0, Purpose::Network),
            links: BTreeMap::new(),
            busy_until: BTreeMap::new(),
            crossed: BTreeMap::new(),
            cut: BTreeSet::new(),
            delivered: Vec::new(),
            last_at: Vec::new(),
            sent: Vec::new(),
            left: BTreeSet::new(),
            kept_max: 0,
            hostile: None,
            heard: Vec::new(),
        };
        let of = |site: u16| (u32::from(site) * size..(u32::from(site) + 1) * size).map(identity).collect();
        for host in 0..u32::from(sites) * size {
            let site = (host / size) as u16;
            let others = (0..sites).filter(|other| *other != site).map(|other| (other, of(other)));
            let mut config = FederationConfig::new(site, others.collect());
            config.local.seeds = of(site);
            adapt(&mut config);
            let outbox = Outbox::new(config.outbox());
            let seed = net.rng.next_u64();
            net.hosts.push(Host {
                site,
                engine: Box::new(Federation::new(config, identity(host)).unwrap()),
                outbox,
                rng: NodeRng::new(seed, host.into(), Purpose::Engine),
                effects: Effects::default(),
                is_alive: true,
                peers: Vec::new(),
                numbers: BTreeMap::new(),
                up: BTreeSet::new(),
                wakes: false,
            });
            net.delivered.push(Vec::new());
            net.last_at.push(Time::ZERO);
            net.sent.push(0);
        }
        (0..net.len()).for_each(|host| net.handle(host, Input::Start));
        net
    }

    pub fn len(&self) -> u32 {
        self.hosts.len() as u32
    }

    pub fn site(&self, host: u32) -> u16 {
        self.hosts[host as usize].site
    }

    pub fn engine(&self, host: u32) -> &Federation {
        &self.hosts[host as usize].engine
    }

    pub fn is_alive(&self, host: u32) -> bool {
        self.hosts[host as usize].is_alive
    }

    /// The hosts that live and have not left.
    pub fn living(&self) -> Vec<u32> {
        (0..self.len()).filter(|host| self.is_alive(*host) && !self.left.contains(host)).collect()
    }

    /// The host of a site that leads it.
    pub fn leader(&self, site: u16) -> Option<u32> {
        let leads = |host: &u32| self.site(*host) == site && self.engine(*host).bridge().is_some();
        self.living().into_iter().find(leads)
    }

    /// Whether the leaders of all these sites are on one bridge.
    pub fn is_bridged(&self, sites: &[u16]) -> bool {
        sites.iter().all(|site| {
            let view = self.leader(*site).and_then(|host| self.engine(host).bridge()?.view().cloned());
            view.is_some_and(|view| view.len() == sites.len())
        })
    }

    /// The process is gone; its kernel closes its connections, or nothing comes any more.
    pub fn crash(&mut self, host: u32, closes: bool) {
        self.hosts[host as usize].is_alive = false;
        for other in self.hosts[host as usize].up.clone() {
            if closes {
                self.disconnect(host, other);
            } else {
                self.hosts[host as usize].up.remove(&other);
            }
        }
    }

    /// Cuts two sites off from each other.
    pub fn cut(&mut self, a: u16, b: u16) {
        self.cut.insert((a.min(b), a.max(b)));
        for host in 0..self.len() {
            for other in self.hosts[host as usize].up.clone() {
                if !self.can_reach(host, other) {
                    self.disconnect(host, other);
                }
            }
        }
    }

    fn can_reach(&self, a: u32, b: u32) -> bool {
        let (one, two) = (self.site(a), self.site(b));
        self.is_alive(a) && self.is_alive(b) && !self.cut.contains(&(one.min(two), one.max(two)))
    }

    fn is_up(&self, a: u32, b: u32) -> bool {
        self.hosts[a as usize].up.contains(&b)
    }

    fn connect(&mut self, a: u32, b: u32) {
        if a == b || self.is_up(a, b) && self.is_up(b, a) {
            return;
        }
        self.disconnect(a, b);
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            let next = PeerId(state.peers.len() as u32);
            let peer = *state.numbers.entry(other).or_insert(next);
            if peer == next {
                state.peers.push(other);
            }
            state.up.insert(other);
            state.outbox.link_up(peer);
            let info = PeerInfo {
                identity: identity(other),
                outbound: host == a,
                address: None,
                protocol: "ring/1".into(),
            };
            self.handle(host, Input::LinkUp { peer, info });
        }
    }

    pub fn disconnect(&mut self, a: u32, b: u32) {
        *self.links.entry(pair(a, b)).or_default() += 1;
        for (host, other) in [(a, b), (b, a)] {
            let state = &mut self.hosts[host as usize];
            if state.up.remove(&other) {
                let peer = state.numbers[&other];
                state.outbox.link_down(peer);
                self.handle(host, Input::LinkDown { peer });
            }
        }
    }

    pub fn command(&mut self, host: u32, command: Command) {
        self.handle(host, Input::Command(command));
    }

    /// The application of a host broadcasts so many messages, one every `gap`, or as fast as they are taken.
    pub fn send(&mut self, host: u32, count: u64, len: usize, gap: Duration) {
        self.schedule(self.now, host, What::Send { left: count, len, gap });
    }

    fn send_next(&mut self, host: u32, left: u64, len: usize, gap: Duration) {
        if left == 0 || !self.is_alive(host) || self.left.contains(&host) {
            return;
        }
        let number = self.sent[host as usize] + 1;
        let state = &mut self.hosts[host as usize];
        let mut cx: FederationCx<'_> =
            Context::new(self.now, &mut state.rng, &mut state.outbox, &mut state.effects);
        let taken = state.engine.broadcast(content(host, number, len), &mut cx).is_ok();
        self.sent[host as usize] += u64::from(taken);
        let wait = if taken { gap } else { gap.max(Duration::from_millis(2)) };
        self.drain(host);
        let next = What::Send { left: left - u64::from(taken), len, gap };
        self.schedule(self.now + wait, host, next);
    }

    fn schedule(&mut self, at: Time, host: u32, what: What) {
        self.serial += 1;
        self.what.insert(self.serial, what);
        self.heap.push(Reverse((at.max(self.now), self.serial, host)));
    }

    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.heap.peek().is_some_and(|entry| entry.0.0 <= until) {
            let Some(Reverse((at, serial, host))) = self.heap.pop() else { break };
            self.now = at;
            if let Some(what) = self.what.remove(&serial) {
                self.happen(host, what);
            }
        }
        self.now = until;
    }

    fn happen(&mut self, host: u32, what: What) {
        match what {
            What::Timer(token) => self.handle(host, Input::Timer(token)),
            What::Free => {
                self.hosts[host as usize].wakes = false;
                self.transmit(host);
            }
            What::Dial(other) if self.can_reach(host, other) => self.connect(host, other),
            What::Dial(other) => {
                let wait = if self.is_alive(other) { 1_000 } else { 1 };
                let failed = What::DialFailed(identity(other));
                self.schedule(self.now + Duration::from_millis(wait), host, failed);
            }
            What::DialFailed(identity) => self.handle(host, Input::DialFailed { identity }),
            What::Send { left, len, gap } => self.send_next(host, left, len, gap),
            What::Frame { from, frame, link } => {
                if self.links[&pair(from, host)] == link && self.is_up(host, from) {
                    let peer = self.hosts[host as usize].numbers[&from];
                    self.handle(host, Input::Frame { peer, frame });
                }
            }
        }
    }

    fn handle(&mut self, host: u32, input: Input<RingFrame, Command>) {
        let state = &mut self.hosts[host as usize];
        if !state.is_alive {
            return;
        }
        let mut cx = Context::new(self.now, &mut state.rng, &mut state.outbox, &mut state.effects);
        state.engine.handle(input, &mut cx);
        self.kept_max = self.kept_max.max(state.engine.kept_bytes());
        self.drain(host);
    }

    fn drain(&mut self, host: u32) {
        let now = self.now;
        let effects = std::mem::take(&mut self.hosts[host as usize].effects);
        for timer in effects.timers {
            self.schedule(timer.at, host, What::Timer(timer.token));
        }
        for event in effects.events {
            match event {
                Event::Delivered { content, .. } if self.hostile.is_some() && content.len() < 12 => {}
                Event::Delivered { origin, content, site, .. } => {
                    if self.hostile.as_ref().is_some_and(|(hostile, _)| *hostile == host) {
                        let known = (site, origin.clone());
                        if !self.heard.contains(&known) {
                            self.heard.push(known);
                        }
                    }
                    let by = u32::from_be_bytes(content[..4].try_into().unwrap());
                    let number = u64::from_be_bytes(content[4..12].try_into().unwrap());
                    let is_true = by < self.len() && origin.identity == identity(by) && site == self.site(by);
                    assert!(
                        is_true || self.hostile.is_some(),
                        "{origin:?} of site {site} did not broadcast this"
                    );
                    if !is_true {
                        continue;
                    }
                    self.delivered[host as usize].push((by, number));
                    self.last_at[host as usize] = now;
                }
                Event::Left => {
                    self.left.insert(host);
                }
                _ => {}
            }
        }
        for link in effects.links {
            if let LinkRequest::Dial(identity) = link {
                let other = host_of(&identity);
                let trip = if self.site(host) == self.site(other) { LAN } else { self.wan.latency };
                self.schedule(now + 2 * trip, host, What::Dial(other));
            }
        }
        self.transmit(host);
    }

    /// Frames to the own site leave at once; those to another site wait for the link that all of the site share.
    fn transmit(&mut self, host: u32) {
        loop {
            let now = self.now;
            let site = self.site(host);
            let sites: Vec<u16> =
                self.hosts[host as usize].peers.iter().map(|other| self.site(*other)).collect();
            let busy = &self.busy_until;
            let is_busy = |other: u16| {
                other != site && busy.get(&(site, other)).is_some_and(|until| *until > now + AHEAD)
            };
            let state = &mut self.hosts[host as usize];
            if !state.is_alive {
                return;
            }
            let Some(mut copy) = state.outbox.pop(now, |peer| !is_busy(sites[peer.index()])) else {
                if state.outbox.pending() > 0 && !std::mem::replace(&mut state.wakes, true) {
                    self.schedule(now + Duration::from_millis(5), host, What::Free);
                }
                return;
            };
            if let Some((_, tamper)) = self.hostile.as_mut().filter(|(hostile, _)| *hostile == host) {
                falsify(&mut copy.frame, &state.engine, &self.heard, tamper, &mut self.rng);
            }
            let state = &self.hosts[host as usize];
            let other = state.peers[copy.peer.index()];
            let way = (site, self.site(other));
            let arrives = if way.0 == way.1 {
                now + LAN
            } else {
                let bits = 8 * (copy.frame.encoded_len() as u64 + 60);
                let free = self.busy_until.get(&way).copied().unwrap_or_default().max(now);
                let sent = free.plus_nanos(bits * 1_000_000_000 / self.wan.bps);
                self.busy_until.insert(way, sent);
                *self.crossed.entry(way).or_default() += copy.frame.payload_len() as u64;
                sent + self.wan.latency
            };
            let link = self.links[&pair(host, other)];
            self.schedule(arrives, other, What::Frame { from: host, frame: copy.frame, link });
        }
    }

    // ---- what must hold ----

    pub fn delivered_of(&self, host: u32, origin: u32) -> Vec<u64> {
        let all = self.delivered[host as usize].iter();
        all.filter(|(by, _)| *by == origin).map(|(_, number)| *number).collect()
    }

    /// These have all that those broadcast, each once and in order.
    pub fn assert_complete(&self, hosts: &[u32], origins: &[u32], label: &str) {
        for origin in origins {
            let sent: Vec<u64> = (1..=self.sent[*origin as usize]).collect();
            for host in hosts {
                let got = self.delivered_of(*host, *origin);
                let first = got.iter().zip(&sent).position(|(got, sent)| got != sent);
                assert!(
                    got == sent,
                    "{label}: host {host} has {} of {} of {origin}, the first difference is at {first:?}",
                    got.len(),
                    sent.len()
                );
            }
        }
    }

    /// No duplicate, no hole and the order kept, at everybody, of everybody.
    pub fn assert_order(&self, label: &str) {
        for origin in 0..self.len() {
            for host in 0..self.len() {
                let got = self.delivered_of(host, origin);
                let expected: Vec<u64> = (1..=got.len() as u64).collect();
                assert!(got == expected, "{label}: host {host}, of {origin}: out of order, twice, or a hole");
            }
        }
    }

    /// Besides, those who live have the same of everybody.
    pub fn assert_promises(&self, label: &str) {
        self.assert_order(label);
        let living = self.living();
        for origin in 0..self.len() {
            let counts: BTreeSet<usize> =
                living.iter().map(|host| self.delivered_of(*host, origin).len()).collect();
            assert!(
                counts.len() <= 1,
                "{label}: living hosts differ in what they have of {origin}: {counts:?}"
            );
        }
    }
}
