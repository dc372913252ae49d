//! Nodes that break the rules of the protocol.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use samara_cat::config::{Config, Protocol};
use samara_cat::wire::{Kind, SeenDetails, SeenTx};
use samara_cat::{CatFrame, Transaction, TxKey};
use samara_engine::outbox::Lane;
use samara_engine::{Context, Input, PeerId, TimerToken};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Act, Header, NodeEvent, signer};

/// Behaviours of hostile nodes. They submit and forward nothing, and metrics exclude them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Announce every transaction that they learn of immediately, and never deliver it.
    Silent,
    /// As `silent`, but answer requests with garbage.
    Garbage,
    /// Send unrequested bodies: garbage, and known transactions.
    Pusher,
    /// Request everything from all peers repeatedly.
    Greedy,
    /// Announce transactions that do not exist.
    Announcer,
}

/// Maximum number of announcements, and of bodies, that a hostile node remembers.
const REMEMBERED: usize = 4_096;
const GARBAGE_BYTES: usize = 4_800;
const TICK: TimerToken = TimerToken(0);

/// A node that breaks the rules of the protocol.
///
/// All its frames are well-formed: malformed ones never reach an engine.
#[derive(Debug)]
pub struct Hostile {
    kind: Adversary,
    /// The time between two attacks.
    interval: Duration,
    /// The configuration of the node that it pretends to be.
    config: Arc<Config>,
    peers: Vec<(PeerId, Protocol)>,
    /// Announcements that it has received or could make.
    heard: VecDeque<SeenTx>,
    bodies: VecDeque<Transaction>,
}

type Cx<'a> = Context<'a, CatFrame, NodeEvent>;

impl Hostile {
    pub fn new(kind: Adversary, interval: Duration, config: Arc<Config>) -> Self {
        Self { kind, interval, config, peers: Vec::new(), heard: VecDeque::new(), bodies: VecDeque::new() }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn handle(&mut self, input: Input<CatFrame, Act>, cx: &mut Cx<'_>) {
        match input {
            Input::Start => self.rest(cx),
            Input::LinkUp { peer, info } => {
                // Without a negotiated protocol, assume the peer understands only the simplest one.
                let protocol = Protocol::from_name(&info.protocol).unwrap_or(Protocol::Flood);
                self.peers.push((peer, protocol));
            }
            Input::LinkDown { peer } => self.peers.retain(|(other, _)| *other != peer),
            Input::Frame { peer, frame } => self.receive(peer, &frame, cx),
            Input::Timer(_) => {
                self.act(cx);
                self.rest(cx);
            }
            Input::Command(_) | Input::DialFailed { .. } => {}
        }
    }

    fn rest(&self, cx: &mut Cx<'_>) {
        let at = cx.now() + self.interval;
        cx.set_timer(at, TICK);
    }

    fn receive(&mut self, from: PeerId, frame: &CatFrame, cx: &mut Cx<'_>) {
        match frame {
            CatFrame::Tx(_) | CatFrame::Txs(_) => {
                for tx in frame.bodies() {
                    keep(&mut self.bodies, tx.clone());
                    let details = Header::of(tx).map(|header| SeenDetails {
                        from: None,
                        sequence: u64::from(header.sequence),
                        signer: Some(signer(header.signer)),
                    });
                    self.hear(SeenTx { key: tx.key(), details }, cx);
                }
            }
            CatFrame::SeenTx(seen) => self.hear(SeenTx::clone(seen), cx),
            CatFrame::SeenKeys(seen) if seen.kind == Kind::Transaction => {
                seen.keys.iter().for_each(|key| self.hear(SeenTx::from(*key), cx));
            }
            CatFrame::WantTx(_) => self.answer(from, 1, cx),
            CatFrame::WantKeys(keys) => self.answer(from, keys.len(), cx),
            CatFrame::SeenKeys(_)
            | CatFrame::NotFound(_)
            | CatFrame::Bundle(_)
            | CatFrame::CompactBlock(_) => {}
        }
    }

    /// Handles the news that a transaction exists.
    fn hear(&mut self, seen: SeenTx, cx: &mut Cx<'_>) {
        if self.heard.iter().rev().take(64).any(|other| other.key == seen.key) {
            return;
        }
        if matches!(self.kind, Adversary::Silent | Adversary::Garbage) {
            for (peer, protocol) in self.peers.clone() {
                self.announce(peer, protocol, &seen, cx);
            }
        }
        keep(&mut self.heard, seen);
    }

    fn announce(&self, peer: PeerId, protocol: Protocol, seen: &SeenTx, cx: &mut Cx<'_>) {
        let seen = match protocol {
            Protocol::Flood => return,
            // Without a signer the announcement would break the rules openly.
            Protocol::Sequenced if seen.details.as_ref().is_none_or(|details| details.signer.is_none()) => {
                return;
            }
            Protocol::Sequenced => seen.clone(),
            Protocol::Cat | Protocol::Extended => SeenTx::from(seen.key),
        };
        owe(peer, self.config.sending.map.announcements, seen.into(), cx);
    }

    fn answer(&self, to: PeerId, keys: usize, cx: &mut Cx<'_>) {
        if self.kind == Adversary::Garbage {
            for _ in 0..keys {
                let garbage = garbage(cx);
                owe(to, self.config.sending.map.bodies, CatFrame::tx(garbage), cx);
            }
        }
    }

    fn act(&mut self, cx: &mut Cx<'_>) {
        let Some((peer, protocol)) = cx.rng().choose(&self.peers).copied() else { return };
        match self.kind {
            Adversary::Silent | Adversary::Garbage => {}
            Adversary::Pusher => {
                let known = cx.rng().chance(0.5).then(|| cx.rng().index(self.bodies.len().max(1)));
                let known = known.and_then(|at| self.bodies.get(at).cloned());
                let body = known.unwrap_or_else(|| garbage(cx));
                owe(peer, self.config.sending.map.bodies, CatFrame::tx(body), cx);
            }
            Adversary::Greedy => {
                let at = cx.rng().index(self.heard.len().max(1));
                if let Some(seen) = self.heard.get(at).filter(|_| protocol != Protocol::Flood) {
                    owe(peer, self.config.sending.map.requests, CatFrame::want(seen.key), cx);
                }
            }
            Adversary::Announcer => {
                let mut name = [0; TxKey::LEN];
                for word in name.chunks_exact_mut(8) {
                    word.copy_from_slice(&cx.rng().next_u64().to_le_bytes());
                }
                let details = SeenDetails {
                    from: None,
                    sequence: 0,
                    signer: Some(signer(cx.rng().below(1 << 32) as u32)),
                };
                let seen = SeenTx { key: TxKey::new(name), details: Some(details) };
                self.announce(peer, protocol, &seen, cx);
            }
        }
    }
}

fn keep<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= REMEMBERED {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn garbage(cx: &mut Cx<'_>) -> Transaction {
    let mut data = vec![0xff; GARBAGE_BYTES];
    data[4..12].copy_from_slice(&cx.rng().next_u64().to_le_bytes());
    Transaction::new(data)
}

/// Queues a frame. A frame that does not fit is dropped: an attack needs no delivery guarantee.
fn owe(peer: PeerId, lane: Lane, frame: CatFrame, cx: &mut Cx<'_>) {
    let now = cx.now();
    let _ = cx.outbox().owe(now, peer, lane, frame, None, None);
}
