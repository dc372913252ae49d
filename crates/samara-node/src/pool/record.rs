//! What happened to a pool: in the log, and what arrived when.

use std::collections::{BTreeMap, VecDeque};

use samara_cat::{Event as PoolEvent, TxKey};
use samara_engine::PeerId;
use samara_net::mconn::{Event, NodeId};

use crate::clock::unix_ns;
use crate::model::{Arrival, Arrivals};

/// Arrivals that are kept at most: the last ones.
const KEPT_MAX: usize = 200_000;
/// Arrivals in one answer.
const ANSWER_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct Kept {
    key: TxKey,
    at_unix_ns: u64,
    from: Option<NodeId>,
}

/// What was noted.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The number of the first one that is kept.
    first: u64,
    kept: VecDeque<Kept>,
    peers: BTreeMap<PeerId, NodeId>,
}

impl Record {
    pub(super) fn note(&mut self, event: Event<PoolEvent>) {
        match event {
            Event::Engine(PoolEvent::Added { key, from }) => self.added(key, from),
            Event::Engine(PoolEvent::Misbehaved { peer, why }) => {
                let peer = self.peers.get(&peer).map(ToString::to_string);
                tracing::warn!(peer, why = why.name(), "a peer of the pool broke the rules");
            }
            Event::Engine(_) => {}
            Event::LinkUp { peer, handle, protocol, outbound, info } => {
                tracing::info!(%peer, %protocol, outbound, moniker = info.moniker, "a link of the pool is up");
                self.peers.insert(handle, peer);
            }
            Event::LinkDown { peer, handle, why, lost_copies } => {
                tracing::info!(%peer, %why, lost_copies, "a link of the pool is down");
                self.peers.remove(&handle);
            }
            Event::DialFailed { peer, why } => tracing::info!(%peer, %why, "cannot connect"),
            Event::Refused { remote, why } => tracing::debug!(%remote, %why, "an incoming connection failed"),
        }
    }

    fn added(&mut self, key: TxKey, from: Option<PeerId>) {
        let from = from.and_then(|peer| self.peers.get(&peer).copied());
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(Kept { key, at_unix_ns: unix_ns(), from });
    }

    /// Arrivals from a number on, those that are known still.
    pub(super) fn arrivals(&self, from: u64) -> Arrivals {
        let skip = from.saturating_sub(self.first);
        let start = self.first + skip.min(self.kept.len() as u64);
        let arrivals = self.kept.iter().skip((start - self.first) as usize).take(ANSWER_MAX);
        let arrivals: Vec<_> = arrivals
            .map(|kept| Arrival {
                key: kept.key.to_string(),
                at_unix_ns: kept.at_unix_ns,
                from: kept.from.map(|peer| peer.to_string()),
            })
            .collect();
        Arrivals { first: start, next: start + arrivals.len() as u64, arrivals }
    }
}
