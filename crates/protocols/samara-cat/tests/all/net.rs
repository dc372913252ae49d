//! A network of pools in virtual time, which may contain attackers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samara_cat::{Cat, CatFrame, Command, Config, Event, Metrics, Transaction, TxKey};
use samara_engine::testing::{ContextOf, Network, Path, World};
use samara_engine::{Engine, Input, Outbox, PeerIdentity, Time};

use crate::attackers::{Attack, Attacker};
use crate::{App, identity, tx};

/// Transmission delays of frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
    /// A flush throttle: frames leave this long after the first of them was written. Zero for none.
    pub(crate) flush: Duration,
    /// Bits per second of each link; 0 for no limit.
    pub(crate) bps: u64,
}

impl Delay {
    pub(crate) const fn millis(min: u64, max: u64) -> Self {
        Self {
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
            flush: Duration::ZERO,
            bps: 0,
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "attackers are few")]
pub(crate) enum Host {
    Honest(Box<Cat<App>>),
    Attacker(Attacker),
}

impl Engine for Host {
    type Frame = CatFrame;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: Input<CatFrame, Command>, cx: &mut ContextOf<'_, Self>) {
        match self {
            Self::Honest(engine) => engine.handle(input, cx),
            Self::Attacker(attacker) => attacker.handle(input, cx),
        }
    }
}

pub(crate) struct Pools {
    seed: u64,
    delay: Delay,
    configs: Vec<Config>,
    /// The time of addition to the pool, by transaction and host.
    pub(crate) added: BTreeMap<TxKey, BTreeMap<u32, Time>>,
    pub(crate) submitted: BTreeMap<TxKey, Time>,
    pub(crate) events: Vec<(Time, u32, Event)>,
    pub(crate) keep_events: bool,
    /// The maximum numbers of keys, requests and tasks of any honest node.
    pub(crate) peak: (usize, usize, usize),
}

impl World<Host> for Pools {
    fn path(&self, from: u32, to: u32) -> Path {
        let Delay { min, max, flush, bps } = self.delay;
        let latency = Path::spread(self.seed, from, to, min, max);
        Path { latency, bps, pipe: (from, to), ahead: Duration::MAX, flush }
    }

    fn event(&mut self, now: Time, host: u32, event: Event) -> Option<(Time, Command)> {
        if let Event::Added { key, .. } = event {
            let first = self.added.entry(key).or_default().insert(host, now);
            assert!(first.is_none(), "host {host} added {key} twice");
        }
        if self.keep_events {
            self.events.push((now, host, event));
        }
        None
    }

    fn handled(&mut self, _: u32, engine: &Host) {
        if let Host::Honest(engine) = engine {
            let (keys, requests, tasks) = self.peak;
            let (outstanding, scheduled) = (engine.outstanding(), engine.scheduled());
            self.peak = (keys.max(engine.keys()), requests.max(outstanding), tasks.max(scheduled));
        }
    }

    fn identity(&self, host: u32) -> PeerIdentity {
        identity(host)
    }

    fn protocol(&self, dialler: u32, listener: u32) -> Option<Arc<str>> {
        let protocol = self.configs[dialler as usize].agree(&self.configs[listener as usize])?;
        Some(protocol.name().into())
    }
}

pub(crate) struct Net(Network<Host, Pools>);

samara_engine::deref_to!(Net => 0: Network<Host, Pools>);

impl Net {
    pub(crate) fn new(seed: u64, delay: Delay) -> Self {
        let pools = Pools {
            seed,
            delay,
            configs: Vec::new(),
            added: BTreeMap::new(),
            submitted: BTreeMap::new(),
            events: Vec::new(),
            keep_events: false,
            peak: (0, 0, 0),
        };
        Self(Network::new(seed, pools))
    }

    /// Returns a network of `count` nodes with one configuration.
    pub(crate) fn uniform(seed: u64, delay: Delay, count: u32, config: &Config) -> Self {
        let mut net = Self::new(seed, delay);
        (0..count).for_each(|_| _ = net.honest(config.clone(), App::default()));
        net
    }

    pub(crate) fn honest(&mut self, config: Config, app: App) -> u32 {
        let engine = Cat::new(config.clone(), &identity(self.len()), app).unwrap();
        self.push(Host::Honest(Box::new(engine)), config)
    }

    pub(crate) fn attacker(&mut self, config: Config, attack: Attack) -> u32 {
        let attacker = Attacker::new(attack, config.clone(), self.len());
        self.push(Host::Attacker(attacker), config)
    }

    fn push(&mut self, host: Host, config: Config) -> u32 {
        let outbox = Outbox::new(config.outbox());
        self.configs.push(config);
        self.add(host, outbox)
    }

    /// Connects a random graph: a ring in which each node dials `dials` hosts in total.
    pub(crate) fn connect_randomly(&mut self, dials: u32) {
        let count = self.len();
        for node in 0..count {
            self.connect(node, (node + 1) % count);
            for _ in 1..dials {
                let other = self.rng.below(u64::from(count)) as u32;
                self.connect(node, other);
            }
        }
    }

    pub(crate) fn submit(&mut self, at: Time, host: u32, tx: &Transaction) {
        self.submitted.insert(tx.key(), at);
        self.command(at, host, Command::Submit(tx.clone()));
    }

    /// Submits `count` transactions of this length at random honest hosts, at random times within
    /// `within` seconds.
    pub(crate) fn submit_randomly(&mut self, count: u64, len: usize, within: u64) {
        let (hosts, within) = (self.all_honest(), within * 1_000_000_000);
        for number in 0..count {
            let at = Time::from_nanos(self.rng.below(within + 1));
            let host = hosts[self.rng.index(hosts.len())];
            self.submit(at, host, &tx(number, len));
        }
    }

    /// Each node dials `dials` hosts. Transactions are [submitted](Self::submit_randomly), and must
    /// reach all nodes by second `until`.
    pub(crate) fn deliver(&mut self, dials: u32, (count, len, within): (u64, usize, u64), until: u64) {
        self.connect_randomly(dials);
        self.submit_randomly(count, len, within);
        self.run_until(Time::from_secs(until));
        self.assert_all_delivered();
    }

    pub(crate) fn command(&mut self, at: Time, host: u32, command: Command) {
        self.at(at, move |net| net.command(host, command));
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        let span = until - self.now;
        self.run_for(span);
    }

    // ---- results ----

    pub(crate) fn engine(&self, host: u32) -> &Cat<App> {
        match self.0.engine(host) {
            Host::Honest(engine) => engine,
            Host::Attacker(attacker) => panic!("host {host} attacks ({:?})", attacker.attack),
        }
    }

    pub(crate) fn all_honest(&self) -> Vec<u32> {
        let is_honest = |host: &u32| matches!(self.0.engine(*host), Host::Honest(_));
        (0..self.len()).filter(is_honest).collect()
    }

    /// Returns the sum of a counter over all honest nodes.
    pub(crate) fn sum(&self, of: impl Fn(&Metrics) -> u64) -> u64 {
        self.all_honest().into_iter().map(|host| of(self.engine(host).metrics())).sum()
    }

    /// Returns the copies of bodies received per node and transaction.
    pub(crate) fn copies(&self) -> f64 {
        let pairs = self.all_honest().len() * self.submitted.len();
        self.sum(|metrics| metrics.bodies_received) as f64 / pairs as f64
    }

    /// Returns the milliseconds from submission to each delivery, sorted, without the origins.
    pub(crate) fn delays_ms(&self) -> Vec<f64> {
        let mut delays: Vec<f64> = Vec::new();
        for (key, at) in &self.submitted {
            let got = self.added.get(key).into_iter().flatten();
            delays.extend(
                got.map(|(_, added)| (*added - *at).as_secs_f64() * 1e3).filter(|delay| *delay > 0.0),
            );
        }
        delays.sort_by(f64::total_cmp);
        delays
    }

    pub(crate) fn median_ms(&self) -> f64 {
        let delays = self.delays_ms();
        delays[delays.len() / 2]
    }

    /// Returns the submitted transactions that have not reached some of these hosts.
    pub(crate) fn missing(&self, hosts: &[u32]) -> Vec<(TxKey, Vec<u32>)> {
        let lacks = |key: &TxKey| -> Vec<u32> {
            let got = self.added.get(key);
            hosts.iter().copied().filter(|host| got.is_none_or(|got| !got.contains_key(host))).collect()
        };
        self.submitted
            .keys()
            .map(|key| (*key, lacks(key)))
            .filter(|(_, lacking)| !lacking.is_empty())
            .collect()
    }

    pub(crate) fn assert_all_delivered(&self) {
        let missing = self.missing(&self.all_honest());
        assert!(
            missing.is_empty(),
            "{} of {} did not reach all: {:?}",
            missing.len(),
            self.submitted.len(),
            missing.first()
        );
    }
}
