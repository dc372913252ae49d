//! Peers to stay connected to, and when to dial them again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::key::{NodeId, PeerAddress};
use super::options::Options;

#[derive(Debug)]
struct Persistent {
    host: String,
    /// When to dial; `None` while that is under way, or while there is a link.
    dial_at: Option<Instant>,
    /// How long to wait after the next failure.
    wait: Duration,
}

/// Peers to stay connected to.
#[derive(Debug)]
pub(super) struct Peers {
    persistent: BTreeMap<NodeId, Persistent>,
    first: Duration,
    longest: Duration,
}

impl Peers {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let first = options.redial_first;
        let mut peers = Self { persistent: BTreeMap::new(), first, longest: options.redial_max.max(first) };
        options.peers.iter().for_each(|peer| peers.add(peer, now));
        peers
    }

    /// Another one, or another place for one.
    pub(super) fn add(&mut self, peer: &PeerAddress, now: Instant) {
        let known = self.persistent.entry(peer.id).or_insert_with(|| Persistent {
            host: String::new(),
            dial_at: Some(now),
            wait: self.first,
        });
        known.host.clone_from(&peer.host);
    }

    /// No longer.
    pub(super) fn remove(&mut self, peer: &NodeId) {
        self.persistent.remove(peer);
    }

    /// Whether a peer is one of them.
    pub(super) fn contains(&self, peer: &NodeId) -> bool {
        self.persistent.contains_key(peer)
    }

    /// Takes one whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<PeerAddress> {
        let is_due = |peer: &Persistent| peer.dial_at.is_some_and(|at| at <= now);
        let (id, peer) = self.persistent.iter_mut().find(|(_, peer)| is_due(peer))?;
        peer.dial_at = None;
        Some(PeerAddress { id: *id, host: peer.host.clone() })
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.persistent.values().filter_map(|peer| peer.dial_at).min()
    }

    /// There is a link, whoever dialled.
    pub(super) fn is_up(&mut self, peer: &NodeId) {
        if let Some(peer) = self.persistent.get_mut(peer) {
            peer.dial_at = None;
            peer.wait = self.first;
        }
    }

    /// There is no link any more, or none came about. Two nodes that dial each other must not do so in step for ever, so
    /// that up to half of the wait is left out at random.
    pub(super) fn is_down(&mut self, peer: &NodeId, now: Instant) {
        if let Some(peer) = self.persistent.get_mut(peer) {
            // Without random numbers the waits are as long as they can be.
            let random = getrandom::u32().unwrap_or(0);
            let less = peer.wait / 2 * (random >> 16) / (1 << 16);
            peer.dial_at = Some(now + peer.wait - less);
            peer.wait = (peer.wait * 2).min(self.longest);
        }
    }
}
