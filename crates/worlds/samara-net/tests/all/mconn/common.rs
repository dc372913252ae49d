//! Nodes with transaction pools on loopback.

use std::collections::BTreeSet;
use std::time::Duration;

use samara_cat::config::{Config, Preset};
use samara_cat::pool::{Admission, CheckKind, Verdict};
use samara_cat::{Cat, Event as CatEvent, Metrics, Transaction, TxKey};
use samara_engine::Outbox;
use samara_net::mconn::{CatCodec, Closed, Event, Node, NodeId, NodeKey, Options, PeerAddress, Status};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Timeout for everything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The network of all nodes.
pub(crate) const NETWORK: &str = "samara-test";

/// Accepts every transaction that does not begin with `bad`.
pub(crate) fn application(tx: &Transaction, _: CheckKind) -> Verdict {
    if tx.bytes().starts_with(b"bad") {
        return Verdict::Reject { code: 1, reason: "bad transaction".to_owned() };
    }
    Verdict::Accept(Admission { priority: 1, gas: 1, ..Admission::default() })
}

pub(crate) type App = fn(&Transaction, CheckKind) -> Verdict;

/// A node of this crate.
pub(crate) struct Ours {
    pub(crate) node: Node<Cat<App>>,
    pub(crate) events: Receiver<Event<CatEvent>>,
}

/// Options of nodes on loopback that redial quickly.
pub(crate) fn options() -> Options {
    Options {
        listen: Some(([127, 0, 0, 1], 0).into()),
        redial_first: Duration::from_millis(50),
        redial_max: Duration::from_millis(500),
        max_inbound_per_ip: 64,
        ..Options::new(NETWORK)
    }
}

pub(crate) fn key(seed: u8) -> NodeKey {
    NodeKey::from_secret([seed; 32])
}

pub(crate) async fn start(seed: u8, config: Config, options: Options) -> Ours {
    let key = key(seed);
    let engine = Cat::new(config.clone(), &key.id().identity(), application as App).expect("a configuration");
    let codec = CatCodec::new(&config);
    let started = Node::start(key, options, codec, engine, Outbox::new(config.outbox())).await;
    let (node, events) = started.expect("it starts");
    Ours { node, events }
}

/// Starts a node with our defaults that dials these peers.
pub(crate) async fn ours(seed: u8, peers: &[PeerAddress]) -> Ours {
    start(seed, Preset::Cat.config(), Options { peers: peers.to_vec(), ..options() }).await
}

impl Ours {
    pub(crate) fn address(&self) -> PeerAddress {
        self.node.address().expect("it listens")
    }

    pub(crate) async fn status(&self) -> Status {
        self.node.status().await.expect("it runs")
    }

    pub(crate) async fn metrics(&self) -> Metrics {
        self.node.call(|engine, _| engine.metrics().clone()).await.expect("it runs")
    }

    pub(crate) async fn submit(&self, tx: impl Into<bytes::Bytes>) -> TxKey {
        let tx = Transaction::new(tx);
        let key = tx.key();
        let added = self.node.call(move |engine, cx| engine.submit(tx, cx)).await.expect("it runs");
        assert!(added, "{key} was not added");
        key
    }

    pub(crate) async fn pool(&self) -> BTreeSet<TxKey> {
        let keys = |engine: &mut Cat<App>, _: &mut samara_cat::Cx<'_>| {
            engine.pool().iter().map(|entry| entry.transaction.key()).collect::<BTreeSet<_>>()
        };
        self.node.call(keys).await.expect("it runs")
    }

    /// Waits until the number of links is `links`.
    pub(crate) async fn linked(&self, links: usize) {
        self.wait("links", async || self.status().await.peers.len() == links).await;
    }

    /// Waits until the pool has all of these transactions.
    pub(crate) async fn has(&self, keys: &BTreeSet<TxKey>) {
        self.wait("transactions", async || self.pool().await.is_superset(keys)).await;
    }

    async fn wait(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let until = async {
            while !is_so().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(PATIENCE, until).await.is_err() {
            panic!("{}: timeout waiting for {what}: {:?}", self.node.id(), self.status().await);
        }
    }

    /// Returns the first picked event.
    pub(crate) async fn event<T>(&mut self, mut pick: impl FnMut(Event<CatEvent>) -> Option<T>) -> T {
        let next = async {
            loop {
                if let Some(picked) = pick(self.events.recv().await.expect("it runs")) {
                    return picked;
                }
            }
        };
        timeout(PATIENCE, next).await.expect("the event comes")
    }

    /// Returns why a link went down or a dialling peer was refused, with the peer's id if it is
    /// known.
    pub(crate) async fn closed(&mut self) -> (Option<NodeId>, Closed) {
        self.event(|event| match event {
            Event::LinkDown { peer, why, .. } => Some((Some(peer), why)),
            Event::Refused { why, .. } => Some((None, why)),
            _ => None,
        })
        .await
    }
}
