//! Telling peers what is here.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use samara_engine::{PeerId, Time};
use smallvec::SmallVec;

use super::agenda::Task;
use super::items::ItemId;
use super::{Cat, Cx};
use crate::TxKey;
use crate::config::{Announce, Hint, Jitter, Protocol, Recipients};
use crate::pool::Application;
use crate::wire::{CatFrame, KeyList, Kind, PushedBy, SeenDetails, SeenKeys, SeenTx};

/// After what time a peer whose queue was full is told of everything that it may have missed.
const RESYNC: Duration = Duration::from_secs(1);

/// What is to be announced when the window is over.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    items: Vec<(ItemId, Option<PeerId>)>,
    /// Whether a [`Task::Announce`] is on the agenda.
    is_due: bool,
    /// When the last frames were sent.
    last: Option<Time>,
}

/// Something that is announced.
pub(super) type Member = (ItemId, TxKey);

/// Announcements that share a frame: the same kind, pushed by the same peer.
type Group = (Kind, Option<PushedBy>, Vec<Member>);

impl<A: Application> Cat<A> {
    /// Announces an item, when the configuration says so. `pushed_by` is the peer that sent it unasked.
    pub(super) fn announce(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.announce == Announce::Nobody || self.config.listen_only {
            return;
        }
        let now = cx.now();
        if let Jitter::Timer { max } = self.config.jitter {
            let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX).max(1);
            let at = now.plus_nanos(cx.rng().below(nanos));
            self.agenda.push(at, Task::AnnounceItem { item: id });
        } else if self.config.coalesce.is_zero() {
            self.tell_all(id, pushed_by, cx);
        } else {
            self.add_fresh(id, pushed_by, now);
        }
    }

    /// Announces what cannot wait for the end of a window: a block, which the next one has to be built on.
    pub(super) fn announce_at_once(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.config.announce != Announce::Nobody && !self.config.listen_only {
            self.tell_all(id, None, cx);
        }
    }

    fn add_fresh(&mut self, id: ItemId, pushed_by: Option<PeerId>, now: Time) {
        self.fresh.items.push((id, pushed_by));
        if !std::mem::replace(&mut self.fresh.is_due, true) {
            let window_end = self.fresh.last.map_or(now, |last| last + self.config.coalesce);
            self.agenda.push(window_end.max(now), Task::Announce);
        }
    }

    /// The jitter of one announcement is over.
    pub(super) fn announce_now(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.config.coalesce.is_zero() {
            self.tell_all(id, None, cx);
        } else {
            self.add_fresh(id, None, cx.now());
        }
    }

    // ---- one by one ----

    /// Tells all peers that the configuration names of one item, at once.
    fn tell_all(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if let Announce::Sticky { peers, persistent } = self.config.announce {
            if let Some(frames) = self.frames_for(id, pushed_by) {
                self.tell_sticky(id, &frames, peers, persistent, cx);
            }
            return;
        }
        // Often nobody is left to be told.
        let mut frames = None;
        for place in 0..self.peers.len() {
            let Some(peer) = self.peers.nth(place) else { continue };
            if !self.is_to_be_told(id, peer) {
                continue;
            }
            if frames.is_none() {
                frames = self.frames_for(id, pushed_by);
            }
            let Some(frames) = &frames else { return };
            self.tell(id, peer, frames, cx);
        }
    }

    fn is_to_be_told(&self, id: ItemId, peer: PeerId) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        self.config.announce == Announce::All || !item.seen.contains(peer)
    }

    /// The top peers for the signer, and some persistent ones beyond these (`broadcastSeenTxWithHeight`).
    fn tell_sticky(
        &mut self,
        id: ItemId,
        frames: &Frames,
        most: usize,
        persistent_most: usize,
        cx: &mut Cx<'_>,
    ) {
        let order = self.sticky.order(frames.details.signer.as_ref(), &self.peers);
        let (mut sent, mut persistent_sent) = (0, 0);
        for peer in order.iter().copied() {
            let is_persistent = self.peers.get(peer).is_some_and(|peer| peer.persistent);
            let may = sent < most || (is_persistent && persistent_sent < persistent_most);
            if may && self.is_to_be_told(id, peer) && self.tell(id, peer, frames, cx) {
                sent += 1;
                persistent_sent += usize::from(is_persistent);
            }
        }
    }

    /// Tells one peer of one item. Whether it was told.
    fn tell(&mut self, id: ItemId, peer: PeerId, frames: &Frames, cx: &mut Cx<'_>) -> bool {
        let Some(protocol) = self.speaks(peer) else { return false };
        let Some(frame) = frames.of(protocol) else { return false };
        if !self.owe(peer, self.config.sending.map.announcements, frame, None, cx) {
            self.resync_later(peer, cx);
            return false;
        }
        self.metrics.announced_keys += 1;
        if self.config.announced_is_seen {
            self.note_seen(id, peer);
        }
        true
    }

    /// Tells one peer of one item, unless it has it.
    pub(super) fn tell_one(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.is_to_be_told(id, peer)
            && let Some(frames) = self.frames_for(id, None)
        {
            self.tell(id, peer, &frames, cx);
        }
    }

    fn frames_for(&self, id: ItemId, pushed_by: Option<PeerId>) -> Option<Frames> {
        let item = self.items.get(id)?;
        let entry = self.pool.entry(&item.key);
        let pusher = pushed_by.and_then(|peer| self.peers.get(peer));
        let from: Option<Arc<str>> = matches!(self.config.hint, Hint::From { .. })
            .then(|| pusher.map_or_else(|| "".into(), |peer| peer.address.hex().into()));
        let details = SeenDetails {
            from,
            sequence: entry.map_or(0, crate::pool::Entry::sequence),
            signer: entry.and_then(|entry| entry.sender().cloned()),
        };
        let short = match self.config.hint {
            Hint::Short { .. } => pusher.map(|peer| peer.address.short()),
            _ => None,
        };
        Some(Frames { key: item.key, kind: item.kind(), short, details, made: Default::default() })
    }

    // ---- several at a time ----

    /// The window is over: every peer is told in one frame of everything that it is not known to have.
    pub(super) fn announce_fresh(&mut self, cx: &mut Cx<'_>) {
        self.fresh.is_due = false;
        self.fresh.last = Some(cx.now());
        let items = std::mem::take(&mut self.fresh.items);
        if matches!(self.config.announce, Announce::Sticky { .. }) {
            items.iter().for_each(|(id, pushed_by)| self.tell_all(*id, *pushed_by, cx));
            return;
        }
        for (kind, pushed_by, members) in self.groups(&items) {
            for chunk in members.chunks(KeyList::MAX) {
                self.tell_keys(kind, pushed_by, chunk, cx);
            }
        }
    }

    fn groups(&self, items: &[(ItemId, Option<PeerId>)]) -> SmallVec<[Group; 2]> {
        let mut groups: SmallVec<[Group; 2]> = SmallVec::new();
        for (id, pushed_by) in items {
            let Some(item) = self.items.get(*id).filter(|item| item.have) else { continue };
            let short = match self.config.hint {
                Hint::Short { .. } => {
                    pushed_by.and_then(|peer| self.peers.get(peer)).map(|peer| peer.address.short())
                }
                _ => None,
            };
            let member = (*id, item.key);
            match groups.iter_mut().find(|(kind, by, _)| (*kind, *by) == (item.kind(), short)) {
                Some((.., members)) => members.push(member),
                None => groups.push((item.kind(), short, vec![member])),
            }
        }
        groups
    }

    /// Tells all peers of at most [`KeyList::MAX`] items; all frames share one list.
    fn tell_keys(&mut self, kind: Kind, pushed_by: Option<PushedBy>, chunk: &[Member], cx: &mut Cx<'_>) {
        let keys: KeyList = chunk.iter().map(|(_, key)| *key).collect();
        let inline = self.inline_mask(kind, chunk);
        for place in 0..self.peers.len() {
            let Some(peer) = self.peers.nth(place) else { continue };
            let Some(protocol) = self.speaks(peer) else { continue };
            let mut mask = 0u64;
            for (bit, (id, _)) in chunk.iter().enumerate() {
                mask |= u64::from(self.is_to_be_told(*id, peer)) << bit;
            }
            if protocol.is_extended() {
                let bodies = mask & inline;
                if bodies != 0 && self.tell_bodies(peer, chunk, bodies, cx) {
                    mask &= !bodies;
                }
            }
            if mask == 0 {
                continue;
            }
            if protocol.is_extended() {
                self.tell_list(peer, SeenKeys { keys: keys.only(mask), kind, pushed_by }, chunk, mask, cx);
            } else {
                for (bit, (id, _)) in chunk.iter().enumerate() {
                    if mask >> bit & 1 == 1
                        && let Some(frames) = self.frames_for(*id, None)
                    {
                        self.tell(*id, peer, &frames, cx);
                    }
                }
            }
        }
    }

    fn tell_list(&mut self, peer: PeerId, seen: SeenKeys, chunk: &[Member], mask: u64, cx: &mut Cx<'_>) {
        let count = seen.keys.len();
        if !self.owe(peer, self.config.sending.map.announcements, seen.into(), None, cx) {
            self.resync_later(peer, cx);
            return;
        }
        self.metrics.announced_keys += count as u64;
        if self.config.announced_is_seen {
            for (bit, (id, _)) in chunk.iter().enumerate() {
                if mask >> bit & 1 == 1 {
                    self.note_seen(*id, peer);
                }
            }
        }
    }

    // ---- everything ----

    /// A peer has missed something.
    pub(super) fn resync_later(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if self.config.sync && !std::mem::replace(&mut state.resyncing, true) {
            self.agenda.push(cx.now() + RESYNC, Task::Resync { peer });
        }
    }

    /// Tells a peer of all of the pool that it is not known to have; one that knows no announcements is sent it, if the configuration
    /// sends such peers anything of others.
    pub(super) fn resync(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.resyncing = false;
        let Some(protocol) = self.speaks(peer) else { return };
        if protocol == Protocol::Flood || self.config.forward == Recipients::All {
            if self.config.bridge || self.config.forward == Recipients::All {
                self.send_pool(peer, cx);
            }
            return;
        }
        if self.config.announce == Announce::Nobody {
            return;
        }
        let find = |entry: &crate::pool::Entry| {
            let key = entry.transaction().key();
            Some((self.items.find(&key)?, key))
        };
        let mut missed: Vec<Member> = self.pool.iter().filter_map(find).collect();
        missed.retain(|(id, _)| self.is_to_be_told(*id, peer));
        for chunk in missed.chunks(KeyList::MAX) {
            if self.peers.get(peer).is_none_or(|state| state.resyncing) {
                return;
            }
            if protocol.is_extended() {
                let keys: KeyList = chunk.iter().map(|(_, key)| *key).collect();
                let seen = SeenKeys { keys, kind: Kind::Transaction, pushed_by: None };
                self.tell_list(peer, seen, chunk, u64::MAX, cx);
            } else {
                for (id, _) in chunk {
                    if let Some(frames) = self.frames_for(*id, None) {
                        self.tell(*id, peer, &frames, cx);
                    }
                }
            }
        }
    }
}

/// An announcement in all the forms that peers may want; each is made once and shared by the peers that want it.
struct Frames {
    key: TxKey,
    kind: Kind,
    short: Option<PushedBy>,
    details: SeenDetails,
    made: [OnceCell<Option<CatFrame>>; 3],
}

impl Frames {
    fn of(&self, protocol: Protocol) -> Option<CatFrame> {
        let place = match protocol {
            Protocol::Flood => return None,
            Protocol::Cat => 0,
            Protocol::Sequenced => 1,
            Protocol::Extended => 2,
        };
        self.made[place].get_or_init(|| self.make(protocol)).clone()
    }

    fn make(&self, protocol: Protocol) -> Option<CatFrame> {
        let key = self.key;
        match protocol {
            Protocol::Flood => None,
            Protocol::Extended => {
                let keys = KeyList::one(key);
                Some(SeenKeys { keys, kind: self.kind, pushed_by: self.short }.into())
            }
            _ if self.kind != Kind::Transaction => None,
            // The merged wire has neither signer nor sequence, but what was benchmarked may have `From`.
            Protocol::Cat => {
                let from = self.details.from.clone();
                let details = from.map(|from| SeenDetails { from: Some(from), ..SeenDetails::default() });
                Some(SeenTx { key, details }.into())
            }
            // Without signer it would be misbehaviour.
            Protocol::Sequenced => {
                let details = Some(self.details.clone()).filter(|details| details.signer.is_some())?;
                Some(SeenTx { key, details: Some(details) }.into())
            }
        }
    }
}
