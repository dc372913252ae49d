//! A single node. The test plays all its peers, and inspects the frames owed to them.

use std::time::Duration;

use samara_cat::wire::{KeyList, Kind, SeenKeys};
use samara_cat::{Cat, CatFrame, Command, Config, Metrics, Transaction, TxKey};
use samara_engine::testing::Single;
use samara_engine::{Outbox, PeerId};

use crate::{App, identity};

/// A node whose peers the test plays. Peers are identified by numbers.
pub(crate) struct Node(Single<Cat<App>>);

/// Returns an announcement of transactions.
pub(crate) fn seen(keys: &[TxKey]) -> CatFrame {
    let keys = KeyList::new(keys.to_vec());
    SeenKeys { keys, kind: Kind::Transaction, pushed_by: None }.into()
}

samara_engine::deref_to!(Node => 0: Single<Cat<App>>);

impl Node {
    pub(crate) fn new(config: Config) -> Self {
        Self::with(config, App::default())
    }

    pub(crate) fn with(config: Config, app: App) -> Self {
        let outbox = Outbox::new(config.outbox());
        Self(Single::start(Cat::new(config, &identity(0), app).unwrap(), outbox, 1))
    }

    /// Returns a node with `peers` peers that have agreed on this protocol.
    pub(crate) fn among(peers: u32, protocol: &str, config: Config) -> Self {
        let mut node = Self::new(config);
        (0..peers).for_each(|peer| node.connect(peer, protocol));
        node
    }

    /// Connects a peer that has agreed on this protocol.
    pub(crate) fn connect(&mut self, peer: u32, protocol: &str) {
        self.0.connect(PeerId(peer), identity(peer + 1), protocol, true);
    }

    pub(crate) fn disconnect(&mut self, peer: u32) {
        self.0.disconnect(PeerId(peer));
    }

    pub(crate) fn frame(&mut self, peer: u32, frame: CatFrame) {
        self.0.frame(PeerId(peer), frame);
    }

    /// Takes all frames owed to a peer, in order.
    pub(crate) fn take(&mut self, peer: u32) -> Vec<CatFrame> {
        self.0.take(PeerId(peer))
    }

    pub(crate) fn submit(&mut self, tx: &Transaction) {
        self.command(Command::Submit(tx.clone()));
    }

    pub(crate) fn commit(&mut self, height: u64, keys: &[TxKey]) {
        self.command(Command::Commit { height, keys: keys.into() });
    }

    pub(crate) fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// Takes the frames owed to a peer, and returns the keys that they request.
    pub(crate) fn wants(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame| match frame {
            CatFrame::WantTx(key) => vec![*key],
            CatFrame::WantKeys(keys) => keys.iter().copied().collect(),
            _ => Vec::new(),
        };
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    /// Takes the frames owed to a peer, and returns the keys that they announce.
    pub(crate) fn announced(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame| match frame {
            CatFrame::SeenTx(seen) => vec![seen.key],
            CatFrame::SeenKeys(seen) => seen.keys.iter().copied().collect(),
            _ => Vec::new(),
        };
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    /// Takes the frames owed to a peer, and returns the keys of their transactions.
    pub(crate) fn bodies(&mut self, peer: u32) -> Vec<TxKey> {
        let keys = |frame: CatFrame| frame.bodies().iter().map(Transaction::key).collect::<Vec<_>>();
        self.take(peer).into_iter().flat_map(keys).collect()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    pub(crate) fn has(&self, tx: &Transaction) -> bool {
        self.engine.pool().contains(&tx.key())
    }
}
