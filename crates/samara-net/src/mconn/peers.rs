//! Persistent peers, and when to dial them again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::identity::{NodeId, PeerAddress};
use super::options::Options;

#[derive(Debug)]
struct Persistent {
    host: String,
    /// When to dial; `None` during a dial and while there is a link.
    dial_at: Option<Instant>,
    /// How long to wait after the next failure.
    wait: Duration,
}

/// The persistent peers.
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

    /// Adds a peer, or changes its address.
    pub(super) fn add(&mut self, peer: &PeerAddress, now: Instant) {
        let known = self.persistent.entry(peer.id).or_insert_with(|| Persistent {
            host: String::new(),
            dial_at: Some(now),
            wait: self.first,
        });
        known.host.clone_from(&peer.host);
    }

    /// Removes a peer.
    pub(super) fn remove(&mut self, peer: &NodeId) {
        self.persistent.remove(peer);
    }

    /// Returns true if the peer is persistent.
    pub(super) fn contains(&self, peer: &NodeId) -> bool {
        self.persistent.contains_key(peer)
    }

    /// Returns the address of a peer; nothing if it is not persistent.
    pub(super) fn host(&self, peer: &NodeId) -> String {
        self.persistent.get(peer).map(|peer| peer.host.clone()).unwrap_or_default()
    }

    /// Takes a peer that is due to be dialled.
    pub(super) fn due(&mut self, now: Instant) -> Option<NodeId> {
        let is_due = |peer: &Persistent| peer.dial_at.is_some_and(|at| at <= now);
        let (id, peer) = self.persistent.iter_mut().find(|(_, peer)| is_due(peer))?;
        peer.dial_at = None;
        Some(*id)
    }

    /// Returns the time of the next dial.
    pub(super) fn next(&self) -> Option<Instant> {
        self.persistent.values().filter_map(|peer| peer.dial_at).min()
    }

    /// Notes that a link is up, whoever dialled.
    pub(super) fn is_up(&mut self, peer: &NodeId) {
        if let Some(peer) = self.persistent.get_mut(peer) {
            peer.dial_at = None;
            peer.wait = self.first;
        }
    }

    /// Notes that a link is down or a dial failed. Up to half of the wait is left out at random: two nodes that dial each
    /// other must not do so in step for ever.
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
