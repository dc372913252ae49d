//! The transaction pool of a node, and a task that records arrivals.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use samara_cat::pool::{Admission, Application, Cause, CheckKind, Signer, Verdict};
use samara_cat::{Cat, Cx, Event, Transaction, TxKey};
use samara_engine::{Gauge, Outbox, PeerId};
use samara_net::mconn::{self, CatCodec, NodeId, NodeKey};
use tokio::sync::mpsc;

use crate::config::CheckedPool;
use crate::metrics::{PoolSnapshot, PoolState};
use crate::model::{Arrival, Arrivals, PoolPeer, PoolReady, PoolStatus, PoolStopped, Submitted};
use crate::part::{Record, Refusal, Request, Stopping, ask, requests};
use samara_trace::unix_ns;

/// Bytes of the signer of a transaction: as many as an address has.
const SIGNER_BYTES: usize = 20;

/// The application behind the pool: it accepts every transaction, as `CheckTx` of CometBFT's
/// kvstore does.
#[derive(Debug)]
pub(crate) struct AcceptsAll {
    /// Whether each transaction gets a new signer, with itself as the first transaction: some
    /// generations request only transactions with a signer.
    signers: bool,
    /// Whether the application knows the signers of transactions that it has not seen, as the
    /// generation of 2026 needs. Otherwise the pool requests them in any order.
    knows_all: bool,
}

impl Application for AcceptsAll {
    fn check(&mut self, tx: &Transaction, _: CheckKind) -> Verdict {
        let sender = self.signers.then(|| Signer::new(&tx.key().as_bytes()[..SIGNER_BYTES]));
        let sequence = self.signers.then_some(0);
        Verdict::Accept(Admission { gas: 1, sender, sequence, ..Admission::default() })
    }

    fn expected_sequence(&mut self, _: &Signer) -> Option<u64> {
        self.knows_all.then_some(0)
    }
}

type Node = mconn::Node<Cat<AcceptsAll>>;

/// A running pool. It ends when all clones are gone.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    node: Node,
    requests: mpsc::Sender<Request<Task>>,
    stopping: Stopping,
}

impl Pool {
    pub(crate) async fn start(secret: [u8; 32], config: CheckedPool) -> Result<Self, String> {
        let key = NodeKey::from_secret(secret);
        let identity = key.id().identity();
        let CheckedPool { engine: config, options } = config;
        let config = Arc::new(config);
        let application = AcceptsAll {
            signers: config.sequences.is_some(),
            knows_all: config.sequences.is_some_and(|rules| rules.strict),
        };
        let engine = Cat::new(Arc::clone(&config), &identity, application);
        let engine = engine.map_err(|error| format!("pool: {error}"))?;
        let codec = CatCodec::new(&config);
        let started = Node::start(key, options, codec, engine, Outbox::new(config.outbox())).await;
        let (node, events) = started.map_err(|error| match error {
            mconn::StartError::Listen { .. } => {
                format!("pool.listen: {error}")
            }
            _ => format!("pool: {error}"),
        })?;
        let (requests, inbox) = requests();
        let task = Task { events, requests: inbox, arrivals: Record::new(), peers: BTreeMap::new() };
        tokio::spawn(task.run());
        Ok(Self { node, requests, stopping: Stopping::default() })
    }

    /// Returns the pool's part of the first line on standard output.
    pub(crate) fn ready(&self) -> PoolReady {
        PoolReady {
            id: self.node.id().to_string(),
            listen: self.node.listen(),
            address: self.node.address().map(|address| address.to_string()),
        }
    }

    pub(crate) async fn submit(&self, tx: Transaction) -> Result<Submitted, Refusal> {
        self.stopping.check()?;
        Ok(self.node.call(move |engine, cx| submit(engine, tx, cx)).await?)
    }

    pub(crate) async fn commit(&self, height: u64, keys: Vec<TxKey>) -> Result<(), Refusal> {
        Ok(self.node.call(move |engine, cx| engine.commit(height, &keys, cx)).await?)
    }

    pub(crate) async fn dial(&self, peer: mconn::PeerAddress) -> Result<(), Refusal> {
        self.stopping.check()?;
        Ok(self.node.dial(peer).await?)
    }

    /// Returns the keys of the first transactions, in the order of the pool.
    pub(crate) async fn keys(&self, most: usize) -> Result<Vec<String>, Refusal> {
        let keys = move |engine: &mut Cat<AcceptsAll>, _: &mut Cx<'_>| {
            let entries = engine.pool().iter().take(most);
            entries.map(|entry| entry.transaction.key().to_string()).collect()
        };
        Ok(self.node.call(keys).await?)
    }

    pub(crate) async fn status(&self) -> Result<PoolStatus, Refusal> {
        let snapshot = self.snapshot().await?;
        let status = &snapshot.status;
        let peers = status.peers.iter().map(|peer| PoolPeer {
            id: peer.id.to_string(),
            moniker: peer.moniker.clone(),
            protocol: peer.protocol.to_string(),
            outbound: peer.outbound,
            owed_copies: peer.owed_copies,
        });
        let ready = self.ready();
        Ok(PoolStatus {
            id: ready.id,
            address: ready.address,
            height: snapshot.height,
            txs: snapshot.state.size,
            bytes: *snapshot.state.size_bytes,
            peers: peers.collect(),
            owed_copies: status.owed_copies,
            in_flight_bytes: status.in_flight_bytes,
        })
    }

    pub(crate) async fn snapshot(&self) -> Result<PoolSnapshot, Refusal> {
        let status = self.node.status().await?;
        let look = move |engine: &mut Cat<AcceptsAll>, cx: &mut Cx<'_>| {
            let pool = engine.pool();
            PoolSnapshot {
                engine: engine.metrics().clone(),
                pool: pool.metrics().clone(),
                height: pool.height(),
                state: PoolState {
                    size: pool.len(),
                    size_bytes: Gauge(pool.bytes()),
                    known_keys: engine.keys(),
                    known_requests: engine.outstanding(),
                },
                lanes: cx.outbox().by_lane(),
                status,
            }
        };
        Ok(self.node.call(look).await?)
    }

    pub(crate) async fn arrivals(&self, from: u64) -> Result<Arrivals, Refusal> {
        ask(&self.requests, move |task| task.arrivals(from)).await
    }

    /// Lets owed frames leave until there are none, the time is over, or `hurried` completes. Then
    /// stops the pool.
    pub(crate) async fn stop(self, drain: Duration, hurried: impl Future<Output = ()>) -> PoolStopped {
        self.stopping.begin();
        let stopped = tokio::select! {
            stopped = self.node.stop(drain) => stopped.unwrap_or_default(),
            () = hurried => self.node.stop(Duration::ZERO).await.unwrap_or_default(),
        };
        PoolStopped {
            left_copies: stopped.left_copies,
            left: stopped.left.into_iter().map(|(peer, copies)| (peer.to_string(), copies)).collect(),
        }
    }
}

/// Submits a transaction, and determines the result.
fn submit(engine: &mut Cat<AcceptsAll>, tx: Transaction, cx: &mut Cx<'_>) -> Submitted {
    let (key, at_unix_ns) = (tx.key().to_string(), unix_ns());
    // The engine reports that a duplicate is in the pool, which is true.
    let known = engine.pool().contains(&tx.key()).then_some(Cause::InPool.name());
    let mut events = Vec::new();
    let added = engine.submit(tx, &mut cx.nested(&mut events));
    let refused = events.iter().find_map(|event| match event {
        Event::Refused { cause, .. } => Some(cause.name()),
        _ => None,
    });
    let took_ns = unix_ns().saturating_sub(at_unix_ns);
    events.into_iter().for_each(|event| cx.emit(event));
    let refused = known.or(refused);
    Submitted {
        key,
        added: added && refused.is_none(),
        refused: refused.map(Into::into),
        at_unix_ns,
        took_ns,
    }
}

struct Task {
    events: mpsc::Receiver<mconn::Event<Event>>,
    requests: mpsc::Receiver<Request<Task>>,
    arrivals: Record<Arrived>,
    peers: BTreeMap<PeerId, NodeId>,
}

struct Arrived {
    key: TxKey,
    at_unix_ns: u64,
    from: Option<NodeId>,
}

/// Maximum number of arrivals in one answer.
const ANSWER_MAX: usize = 10_000;

impl Task {
    async fn run(mut self) {
        loop {
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => request(&mut self),
                    // No handle remains to send requests: the node ends with its last handle.
                    None => return,
                },
                Some(event) = self.events.recv() => self.note(event),
            }
        }
    }

    /// Logs an event, and records it if it is an arrival.
    fn note(&mut self, event: mconn::Event<Event>) {
        match event {
            mconn::Event::Engine(Event::Added { key, from }) => {
                let from = from.and_then(|peer| self.peers.get(&peer).copied());
                self.arrivals.push(Arrived { key, at_unix_ns: unix_ns(), from });
            }
            mconn::Event::Engine(Event::Misbehaved { peer, why }) => {
                let peer = self.peers.get(&peer).map(ToString::to_string);
                tracing::warn!(peer, why = why.name(), "a peer of the pool broke the rules");
            }
            mconn::Event::Engine(_) => {}
            mconn::Event::LinkUp { peer, handle, protocol, outbound, info } => {
                tracing::info!(%peer, %protocol, outbound, moniker = info.moniker, "a link of the pool is up");
                self.peers.insert(handle, peer);
            }
            mconn::Event::LinkDown { peer, handle, why, lost_copies } => {
                tracing::info!(%peer, %why, lost_copies, "a link of the pool is down");
                self.peers.remove(&handle);
            }
            mconn::Event::DialFailed { peer, why } => tracing::info!(%peer, %why, "cannot connect"),
            mconn::Event::Refused { remote, why } => {
                tracing::debug!(%remote, %why, "an incoming connection failed")
            }
        }
    }

    fn arrivals(&self, from: u64) -> Arrivals {
        let (first, next, arrivals) = self.arrivals.page(from, ANSWER_MAX, |arrived| Arrival {
            key: arrived.key.to_string(),
            at_unix_ns: arrived.at_unix_ns,
            from: arrived.from.map(|peer| peer.to_string()),
        });
        Arrivals { first, next, arrivals }
    }
}
