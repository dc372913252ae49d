//! Announcements to peers that request the transactions of a signer in the order of their sequence
//! numbers.
//!
//! Such a peer remembers a limited number of announcements that are not next in sequence. A peer of
//! 2025 remembers 64 for each signer; one more makes it forget the first, which is the one that it
//! needs next, and it never requests that one again. A node therefore announces
//! [`announced_max`](crate::config::Sequences::announced_max) transactions of a signer, and the next
//! ones when the peer requests or announces one of these: then it has all that come before.
//!
//! A peer that gets the transactions elsewhere does neither, so a window that has not moved for a
//! while moves by itself. The peer may also have lost the announcements. So transactions that a block
//! does not take are announced again, less and less often, until the peer requests one: then it
//! lacks all that follow.

use std::collections::BTreeMap;
use std::time::Duration;

use samara_engine::PeerId;

use super::items::ItemId;
use super::{Cat, Cx, Task};
use crate::config::Protocol;
use crate::pool::{Application, Signer};

/// Time after which a window that has not moved moves by itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// The first wait before everything is announced again, in units of [`PATIENCE`]. It doubles each
/// time, up to 2^4 times.
const AGAIN: u32 = 4;
const DOUBLINGS: u32 = 4;

/// The windows of a peer, by signer. Their keys are those of transactions in the pool.
#[derive(Debug, Default)]
pub(super) struct Windows {
    by_signer: BTreeMap<Signer, Window>,
    /// Whether a [`Task::Unstick`] is on the agenda.
    is_watched: bool,
}

#[derive(Debug, Default)]
struct Window {
    /// Announced, and not known to be at the peer. By sequence number.
    open: BTreeMap<u64, ItemId>,
    /// Not announced yet, or to be announced again.
    later: BTreeMap<u64, ItemId>,
    /// Announced, and behind the window.
    passed: BTreeMap<u64, ItemId>,
    /// Whether the peer has taken one since the last check.
    has_moved: bool,
    /// Checks without movement since everything was announced.
    rested: u32,
    /// Number of times that everything was announced again.
    again: u32,
}

impl Window {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.later.is_empty() && self.passed.is_empty()
    }
}

impl<A: Application> Cat<A> {
    /// Returns true if an item can be announced to a peer now. Otherwise it is announced later.
    pub(super) fn enters_window(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) -> bool {
        let Some((signer, sequence, most)) = self.place_in_window(id, peer) else { return true };
        let Some(state) = self.peers.get_mut(peer) else { return false };
        let window = state.windows.by_signer.entry(signer).or_default();
        let is_next = window.later.keys().next().is_none_or(|first| sequence <= *first);
        let is_open = window.open.contains_key(&sequence) || (window.open.len() < most && is_next);
        window.passed.remove(&sequence);
        if is_open {
            window.later.remove(&sequence);
            window.open.insert(sequence, id);
        } else {
            window.later.insert(sequence, id);
        }
        self.watch(peer, cx);
        is_open
    }

    fn place_in_window(&self, id: ItemId, peer: PeerId) -> Option<(Signer, u64, usize)> {
        let most = self.config.sequences?.announced_max;
        if most == usize::MAX || self.peers.get(peer)?.protocol != Protocol::Sequenced {
            return None;
        }
        let entry = self.pool.entry(&self.items.get(id)?.key)?;
        Some((entry.sender.clone()?, entry.sequence, most))
    }

    /// Moves a window after its peer has requested or announced an item. A peer that requests it
    /// lacks the later ones.
    pub(super) fn acknowledged(&mut self, id: ItemId, peer: PeerId, is_request: bool, cx: &mut Cx<'_>) {
        if self.peers.get(peer).is_none_or(|peer| peer.windows.by_signer.is_empty()) {
            return;
        }
        let Some((signer, sequence, _)) = self.place_in_window(id, peer) else { return };
        let Some(state) = self.peers.get_mut(peer) else { return };
        let Some(window) = state.windows.by_signer.get_mut(&signer) else { return };
        window.has_moved = true;
        let next = sequence.saturating_add(1);
        for part in [&mut window.open, &mut window.later, &mut window.passed] {
            *part = part.split_off(&next);
        }
        if is_request {
            (window.rested, window.again) = (0, 0);
            window.later.append(&mut window.passed);
        }
        self.fill_window(peer, &signer, cx);
    }

    /// Announces as much as the window has room for.
    fn fill_window(&mut self, peer: PeerId, signer: &Signer, cx: &mut Cx<'_>) {
        let Some(most) = self.config.sequences.map(|rules| rules.announced_max) else { return };
        let mut due = Vec::new();
        if let Some(state) = self.peers.get_mut(peer)
            && let Some(window) = state.windows.by_signer.get_mut(signer)
        {
            let room = most.saturating_sub(window.open.len());
            due.extend(window.later.iter().map(|(sequence, id)| (*sequence, *id)).take(room));
            if window.is_empty() {
                state.windows.by_signer.remove(signer);
            }
        }
        for (sequence, id) in due {
            if self.needs_announcement(id, peer) {
                self.announce_to_one(id, peer, cx);
            } else if let Some(state) = self.peers.get_mut(peer)
                && let Some(window) = state.windows.by_signer.get_mut(signer)
            {
                window.later.remove(&sequence);
            }
        }
    }

    /// Moves the windows that have not moved.
    pub(super) fn unstick(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.windows.is_watched = false;
        let mut moved = Vec::new();
        for (signer, window) in &mut state.windows.by_signer {
            if std::mem::take(&mut window.has_moved) {
                continue;
            }
            window.passed.append(&mut window.open);
            if window.later.is_empty() {
                window.rested += 1;
                if window.rested < AGAIN << window.again.min(DOUBLINGS) {
                    continue;
                }
                window.rested = 0;
                window.again += 1;
                window.later.append(&mut window.passed);
            }
            moved.push(signer.clone());
        }
        moved.iter().for_each(|signer| self.fill_window(peer, signer, cx));
        self.watch(peer, cx);
    }

    fn watch(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if !state.windows.by_signer.is_empty() && !std::mem::replace(&mut state.windows.is_watched, true) {
            self.agenda.push(cx.now() + PATIENCE, Task::Unstick { peer });
        }
    }

    /// Forgets transactions that have left the pool, and announces what follows them.
    pub(super) fn refresh_windows(&mut self, cx: &mut Cx<'_>) {
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
            let Some(state) = self.peers.get_mut(peer) else { continue };
            let signers: Vec<Signer> = state.windows.by_signer.keys().cloned().collect();
            for signer in signers {
                let items = &self.items;
                let is_here = |_: &u64, id: &mut ItemId| items.get(*id).is_some_and(|item| item.have);
                if let Some(state) = self.peers.get_mut(peer)
                    && let Some(window) = state.windows.by_signer.get_mut(&signer)
                {
                    for part in [&mut window.open, &mut window.later, &mut window.passed] {
                        part.retain(is_here);
                    }
                }
                self.fill_window(peer, &signer, cx);
            }
        }
    }
}
