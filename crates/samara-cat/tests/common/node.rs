//! One node; the test plays all its peers, and looks at what it owes them.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_cat::{Cat, CatFrame, Command, Config, Event, Metrics, Transaction, TxKey};
use samara_engine::{
    Context, Effects, Engine, Input, LinkRequest, NodeRng, Outbox, PeerId, PeerInfo, Purpose, Time,
    TimerToken,
};

use super::{App, identity};

/// A node, its outbox, and what has happened to it.
pub struct Node {
    pub engine: Cat<App>,
    pub outbox: Outbox<CatFrame>,
    pub now: Time,
    pub events: Vec<Event>,
    pub links: Vec<LinkRequest>,
    rng: NodeRng,
    effects: Effects<Event>,
    timers: BTreeMap<(Time, u64), TimerToken>,
    serial: u64,
}

impl Node {
    pub fn new(config: Config) -> Self {
        Self::with(config, App::default())
    }

    pub fn with(config: Config, app: App) -> Self {
        let outbox = Outbox::new(config.outbox());
        let mut node = Self {
            engine: Cat::new(config, &identity(0), app).unwrap(),
            outbox,
            now: Time::ZERO,
            events: Vec::new(),
            links: Vec::new(),
            rng: NodeRng::new(1, 0, Purpose::Engine),
            effects: Effects::default(),
            timers: BTreeMap::new(),
            serial: 0,
        };
        node.handle(Input::Start);
        node
    }

    pub fn handle(&mut self, input: Input<CatFrame, Command>) {
        let mut cx = Context::new(self.now, &mut self.rng, &mut self.outbox, &mut self.effects);
        self.engine.handle(input, &mut cx);
        self.events.append(&mut self.effects.events);
        self.links.append(&mut self.effects.links);
        for timer in self.effects.timers.drain(..) {
            self.serial += 1;
            self.timers.insert((timer.at.max(self.now), self.serial), timer.token);
        }
    }

    /// A peer comes, with this protocol agreed on.
    pub fn connect(&mut self, peer: u32, protocol: &str) {
        self.outbox.link_up(PeerId(peer));
        let info = PeerInfo {
            identity: identity(peer + 1),
            outbound: true,
            address: None,
            protocol: protocol.into(),
        };
        self.handle(Input::LinkUp { peer: PeerId(peer), info });
    }

    pub fn disconnect(&mut self, peer: u32) {
        self.outbox.link_down(PeerId(peer));
        self.handle(Input::LinkDown { peer: PeerId(peer) });
    }

    pub fn frame(&mut self, peer: u32, frame: CatFrame) {
        self.handle(Input::Frame { peer: PeerId(peer), frame });
    }

    pub fn submit(&mut self, tx: &Transaction) {
        self.handle(Input::Command(Command::Submit(tx.clone())));
    }

    pub fn commit(&mut self, height: u64, keys: &[TxKey]) {
        self.handle(Input::Command(Command::Commit { height, keys: keys.into() }));
    }

    /// Lets time pass; timers fire.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), token) = entry.remove_entry();
            self.now = at;
            self.handle(Input::Timer(token));
        }
        self.now = until;
    }

    pub fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// All that is owed to a peer leaves, in its order.
    pub fn take(&mut self, peer: u32) -> Vec<CatFrame> {
        std::iter::from_fn(|| self.outbox.pop_for(self.now, PeerId(peer))).map(|copy| copy.frame).collect()
    }

    /// The keys that a peer is asked for by what is owed to it.
    pub fn wants(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame| match frame {
            CatFrame::WantTx(key) => vec![*key],
            CatFrame::WantKeys(keys) => keys.iter().copied().collect(),
            _ => Vec::new(),
        };
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    /// The keys that a peer is told of by what is owed to it.
    pub fn told(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame| match frame {
            CatFrame::SeenTx(seen) => vec![seen.key],
            CatFrame::SeenKeys(seen) => seen.keys.iter().copied().collect(),
            _ => Vec::new(),
        };
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    /// The keys of the transactions that are owed to a peer.
    pub fn bodies(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame: CatFrame| frame.bodies().iter().map(Transaction::key).collect::<Vec<_>>();
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    pub fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    pub fn has(&self, tx: &Transaction) -> bool {
        self.engine.pool().contains(&tx.key())
    }
}
