//! Connected and departed peers, and the keys that each has.

use std::collections::{BTreeSet, VecDeque};

use samara_engine::{PeerId, PeerInfo, Time};

use super::items::{Item, ItemId};
use super::peers::{Address, Peer, rank};
use super::{Cat, Cx, Event, Ignored, Task};
use crate::TxKey;
use crate::config::Protocol;
use crate::pool::Application;
use crate::wire::Kind;

impl<A: Application> Cat<A> {
    pub(super) fn link_up(&mut self, id: PeerId, info: &PeerInfo, cx: &mut Cx<'_>) {
        let Some(protocol) = self.config.protocol(&info.protocol) else {
            self.metrics.ignore(Ignored::NotNegotiated);
            cx.close(id);
            return;
        };
        if !self.config.forget_on_disconnect {
            self.forget_peer(id);
        }
        let address = Address::of(&info.identity);
        let rank = rank(&self.address, &address);
        let persistent = self.config.persistent.contains(&info.identity);
        let repeats_left = self.config.limits.repeated_answers;
        self.peers.insert(id, Peer { address, protocol, rank, persistent, repeats_left, ..Peer::default() });
        if self.config.sync {
            self.resync(id, cx);
        }
    }

    pub(super) fn link_down(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        let Some(peer) = self.peers.remove(id) else { return };
        if self.config.forget_on_disconnect {
            self.forget_peer(id);
        }
        self.sequences.forget_peer(id);
        self.move_requests(id, peer.requests, cx);
        self.move_waiting(peer.waiting, cx);
    }

    fn forget_peer(&mut self, peer: PeerId) {
        let seen: Vec<ItemId> =
            self.items.iter().filter(|(_, item)| item.seen.contains(peer)).map(|(id, _)| id).collect();
        for id in seen {
            if let Some(item) = self.items.get_mut(id) {
                item.seen.remove(peer);
            }
        }
    }

    /// Requests the keys that waited for a departed or unreliable peer from other peers.
    pub(super) fn move_waiting(&mut self, waiting: VecDeque<ItemId>, cx: &mut Cx<'_>) {
        for id in waiting {
            if self.items.get(id).is_some_and(Item::is_wanted) {
                self.request_elsewhere(id, cx);
            }
        }
    }

    /// Returns the state of a key, creating it if necessary.
    pub(super) fn item_of(&mut self, key: &TxKey, kind: Kind, now: Time) -> ItemId {
        if let Some(id) = self.items.find(key) {
            return id;
        }
        if !self.prunes {
            self.prunes = true;
            self.agenda.push(now + self.config.limits.seen_ttl, Task::Prune);
        }
        self.items.insert(*key, kind, now)
    }

    /// Records that a peer has an item. Returns `false` if a limit prevents it.
    pub(super) fn note_seen(&mut self, id: ItemId, peer: PeerId) -> bool {
        let (Some(item), Some(state)) = (self.items.get_mut(id), self.peers.get_mut(peer)) else {
            return false;
        };
        if item.seen.contains(peer) {
            return true;
        }
        let limits = &self.config.limits;
        if state.keys >= limits.keys_per_peer || (!item.have && state.unknown >= limits.unknown_per_peer) {
            self.metrics.ignore(Ignored::SeenPeerFull);
            return false;
        }
        item.seen.insert(peer);
        state.keys += 1;
        state.unknown += usize::from(!item.have);
        true
    }

    /// Records that a peer does not have an item after all.
    pub(super) fn forget_seen(&mut self, id: ItemId, peer: PeerId) {
        if let Some(item) = self.items.get_mut(id)
            && item.seen.remove(peer)
            && let Some(state) = self.peers.get_mut(peer)
        {
            state.keys -= 1;
            state.unknown -= usize::from(!item.have);
        }
    }

    pub(super) fn set_have(&mut self, id: ItemId, have: bool) {
        let Some(item) = self.items.get_mut(id).filter(|item| item.have != have) else { return };
        item.have = have;
        for peer in item.seen.iter() {
            if let Some(state) = self.peers.get_mut(peer) {
                if have {
                    state.unknown -= 1;
                } else {
                    state.unknown += 1;
                }
            }
        }
    }

    pub(super) fn forget_item(&mut self, id: ItemId) {
        self.drop_requests(id);
        self.sequences.forget_item(id);
        self.bundles.forget(id);
        self.checks.remove(&id);
        let Some(item) = self.items.remove(id) else { return };
        for peer in item.seen.iter() {
            if let Some(state) = self.peers.get_mut(peer) {
                state.keys -= 1;
                state.unknown -= usize::from(!item.have);
            }
        }
    }

    /// Forgets old records of who has items that this node lacks.
    pub(super) fn prune(&mut self, cx: &mut Cx<'_>) {
        self.prunes = false;
        let now = cx.now();
        self.forget_stale(now);
        let ttl = self.config.limits.seen_ttl;
        let is_transient = |item: &Item| item.kind() != Kind::Transaction || !item.is_here();
        let is_old = |item: &Item| item.since() + ttl <= now && item.live().is_none();
        let mut old = Vec::new();
        let mut oldest = None;
        for (id, item) in self.items.iter().filter(|(_, item)| is_transient(item)) {
            if is_old(item) && !self.blocks.has(id) {
                old.push(id);
            } else {
                let since = item.since();
                oldest = Some(oldest.map_or(since, |oldest: Time| oldest.min(since)));
            }
        }
        self.report_forgotten(&old, cx);
        old.into_iter().for_each(|id| self.forget_item(id));
        self.forget_buffered();
        if let Some(oldest) = oldest {
            self.prunes = true;
            // A minimum interval is needed because an item that is old but still requested stays
            // old.
            let soonest = now + ttl / 4;
            self.agenda.push((oldest + ttl).max(soonest), Task::Prune);
        }
    }

    /// Reports announced keys that are about to be forgotten although no peer was asked for them, or
    /// although they wait for one that can be asked.
    fn report_forgotten(&mut self, old: &[ItemId], cx: &mut Cx<'_>) {
        let peers = self.peers.all().iter().filter_map(|peer| self.peers.get(*peer));
        let waiting: BTreeSet<ItemId> = peers.flat_map(|peer| peer.waiting.iter().copied()).collect();
        for id in old {
            let Some(item) = self.items.get(*id) else { continue };
            let is_lacking = !item.is_here() && !self.is_settled(&item.key);
            if is_lacking && (!item.was_requested() || waiting.contains(id)) {
                self.metrics.ignore(Ignored::SeenForgotten);
                cx.emit(Event::GivenUp(item.key));
            }
        }
    }

    /// Returns true if a peer is up to date enough to get announcements and bodies.
    pub(super) fn keeps_up(&self, peer: &Peer) -> bool {
        match (self.config.height_lag_max, peer.height) {
            (Some(lag), Some(height)) => height.saturating_add(lag) >= self.pool.height(),
            _ => true,
        }
    }

    /// Returns the protocol of a peer, if it may get announcements and bodies.
    pub(super) fn speaks(&self, peer: PeerId) -> Option<Protocol> {
        self.peers.get(peer).filter(|peer| self.keeps_up(peer)).map(|peer| peer.protocol)
    }
}
