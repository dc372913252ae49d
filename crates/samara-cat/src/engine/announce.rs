//! Telling peers what is here.
//!
//! # Transactions in the place of their announcements
//!
//! An announcement costs 32 bytes for each peer that is told, and then somebody asks and is answered once. A body in its place costs its
//! own length for each peer, and is never asked for. With `e` announcements sent for each node and transaction, an announced transaction of
//! `B` bytes costs `32 e + 36 + (B + 4)`, one that goes inline `(B + 2) e`, where 36 and 4 are the bytes of a request and of the frame
//! around the answer, and 2 those around each body in a shared frame. Inline wins below
//!
//! ```text
//! B* = (30 e + 40) / (e - 1)
//! ```
//!
//! which is 100 bytes for a node with 3 peers, 36 with 18, and never less than 30: a body that is shorter than its key is not announced by it.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use samara_engine::{PeerId, PeerKeyed, Time};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::items::ItemId;
use super::peers::{Address, Peers};
use super::{Cat, Cx, Task};
use crate::config::{Announce, Hint, Inline, Jitter, Protocol, Recipients};
use crate::pool::{Application, Signer};
use crate::wire::{CatFrame, KeyList, Kind, PushedBy, SeenDetails, SeenKeys, SeenTx};
use crate::{Transaction, TxKey};

/// After what time a peer whose queue was full is told of everything that it may have missed.
const RESYNC: Duration = Duration::from_secs(1);

/// What is to be announced when the window is over.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    items: Vec<(ItemId, Option<PeerId>)>,
    /// Whether a [`Task::Announce`] is on the agenda.
    is_due: bool,
    last: Option<Time>,
}

pub(super) type Member = (ItemId, TxKey);

/// Announcements that share a frame: the same kind, pushed by the same peer.
type Group = (Kind, Option<PushedBy>, Vec<Member>);

impl<A: Application> Cat<A> {
    /// Announces an item, when the configuration says so. `pushed_by` is the peer that sent it unasked.
    pub(super) fn announce(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.announce == Announce::Nobody {
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
        if self.config.announce != Announce::Nobody {
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
        if self.config.announce == Announce::Sticky {
            if let Some(frames) = self.frames_for(id, pushed_by) {
                self.tell_sticky(id, &frames, cx);
            }
            return;
        }
        // Often nobody is left to be told.
        let mut frames = None;
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
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
    fn tell_sticky(&mut self, id: ItemId, frames: &Frames, cx: &mut Cx<'_>) {
        let most = self.config.sticky;
        let order = self.sticky.order(frames.details.signer.as_ref(), &self.peers);
        let (mut sent, mut persistent_sent) = (0, 0);
        for peer in order.iter().copied() {
            let is_persistent = self.peers.get(peer).is_some_and(|peer| peer.persistent);
            let may = sent < most.peers || (is_persistent && persistent_sent < most.persistent);
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
            sequence: entry.map_or(0, |entry| entry.sequence),
            signer: entry.and_then(|entry| entry.sender.clone()),
        };
        let short = self.short_hint(pushed_by);
        Some(Frames { key: item.key, kind: item.kind(), short, details, made: Default::default() })
    }

    /// The name of the peer that pushed a transaction, where announcements say that by eight bytes.
    fn short_hint(&self, pushed_by: Option<PeerId>) -> Option<PushedBy> {
        let pusher = pushed_by.and_then(|peer| self.peers.get(peer));
        pusher.filter(|_| matches!(self.config.hint, Hint::Short { .. })).map(|peer| peer.address.short())
    }

    // ---- several at a time ----

    /// The window is over: every peer is told in one frame of everything that it is not known to have.
    pub(super) fn announce_fresh(&mut self, cx: &mut Cx<'_>) {
        self.fresh.is_due = false;
        self.fresh.last = Some(cx.now());
        let items = std::mem::take(&mut self.fresh.items);
        if self.config.announce == Announce::Sticky {
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
            let short = self.short_hint(*pushed_by);
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
            let peer = self.peers.all()[place];
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
            let key = entry.transaction.key();
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

// ---- bodies in the place of announcements ----

/// Bytes of a body beyond which it is never sent in the place of its announcement, however few peers there are: it would be a push.
const INLINE_MAX: u64 = 1_024;

/// The length of bodies below which sending them to all peers costs less than announcing them: see above. Of the peers of a node two
/// in three are told of a transaction (the others have told it before, or have it from the same neighbour).
pub(super) fn crossover(peers: usize) -> usize {
    let told = 2 * peers as u64;
    // With e = told / 3, all multiplied by three.
    let limit = (30 * told + 120).checked_div(told.saturating_sub(3)).unwrap_or(INLINE_MAX);
    limit.min(INLINE_MAX) as usize
}

impl<A: Application> Cat<A> {
    /// The length of the longest body that is sent in the place of its announcement; 0 for none.
    pub(super) fn inline_max(&self) -> usize {
        match self.config.inline {
            Inline::Never => 0,
            Inline::UpTo(most) => most,
            Inline::WhereItWins => crossover(self.peers.len()),
        }
    }

    /// Which of these transactions go inline, by a bit for each.
    pub(super) fn inline_mask(&self, kind: Kind, members: &[Member]) -> u64 {
        let most = self.inline_max();
        if most == 0 || kind != Kind::Transaction {
            return 0;
        }
        let is_short = |key| self.pool.get(key).is_some_and(|tx| tx.len() <= most);
        members.iter().enumerate().fold(0, |mask, (bit, (_, key))| mask | u64::from(is_short(key)) << bit)
    }

    /// Sends a peer the bodies of these transactions in one frame. Whether there was room.
    pub(super) fn tell_bodies(
        &mut self,
        peer: PeerId,
        members: &[Member],
        mask: u64,
        cx: &mut Cx<'_>,
    ) -> bool {
        let chosen = || members.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        let txs: Vec<Transaction> =
            chosen().filter_map(|(_, (_, key))| self.pool.get(key).cloned()).collect();
        let ids: SmallVec<[_; 8]> = chosen().map(|(_, (id, _))| *id).collect();
        let count = txs.len() as u64;
        let frame = CatFrame::txs(txs);
        if !self.owe(peer, self.config.sending.map.bodies, frame, None, cx) {
            self.resync_later(peer, cx);
            return false;
        }
        self.metrics.inline_txs += count;
        for id in ids {
            self.note_seen(id, peer);
        }
        true
    }
}

// ---- the same peers for all transactions of a signer ----

/// `stickyHashNamespace` in `mempool/cat/sticky_peers.go`.
const NAMESPACE: &[u8] = b"cat/sticky/v1";

/// Orders of so many signers are remembered; beyond, all are forgotten.
const SIGNERS_MAX: usize = 4_096;

/// The order of peers for each signer, by rendezvous hashing (`selectStickyPeers`).
#[derive(Debug)]
pub(super) struct Sticky {
    salt: String,
    version: u64,
    names: Vec<(String, PeerId)>,
    orders: HashMap<Option<Signer>, Arc<[PeerId]>, PeerKeyed>,
}

impl Sticky {
    pub(super) fn new(address: &Address, hasher: PeerKeyed) -> Self {
        let orders = HashMap::with_hasher(hasher);
        Self { salt: address.hex(), version: 0, names: Vec::new(), orders }
    }

    /// All peers, the stickiest first.
    pub(super) fn order(&mut self, signer: Option<&Signer>, peers: &Peers) -> Arc<[PeerId]> {
        if self.version != peers.version {
            self.version = peers.version;
            self.orders.clear();
            let named = |id: &PeerId| Some((peers.get(*id)?.address.hex(), *id));
            self.names = peers.all().iter().filter_map(named).collect();
        }
        if self.orders.len() >= SIGNERS_MAX {
            self.orders.clear();
        }
        if let Some(order) = self.orders.get(&signer.cloned()) {
            return Arc::clone(order);
        }
        let salted = self.salted(signer);
        let mut scored: Vec<(u64, &str, PeerId)> =
            self.names.iter().map(|(name, peer)| (score(&salted, name), name.as_str(), *peer)).collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let order: Arc<[PeerId]> = scored.into_iter().map(|(.., peer)| peer).collect();
        self.orders.insert(signer.cloned(), Arc::clone(&order));
        order
    }

    /// What the scores of all peers have in common.
    fn salted(&self, signer: Option<&Signer>) -> Sha256 {
        Sha256::new()
            .chain_update(NAMESPACE)
            .chain_update(&self.salt)
            .chain_update(signer.map_or(&[][..], Signer::as_bytes))
            .chain_update([0])
    }
}

/// `stickyScore64`.
fn score(salted: &Sha256, peer: &str) -> u64 {
    let digest = salted.clone().chain_update(peer).finalize();
    digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula in whole numbers, and what it says.
    #[test]
    fn the_crossover_falls_with_the_number_of_peers() {
        assert_eq!([0, 1, 2, 3, 5, 10, 18, 50].map(crossover), [1_024, 1_024, 240, 100, 60, 42, 36, 32]);
        for peers in 2..200usize {
            let e = peers as f64 * 2.0 / 3.0;
            let exact = (30.0 * e + 40.0) / (e - 1.0);
            let found = crossover(peers) as f64;
            assert!(found <= exact + 1e-9 && exact < found + 1.0, "{peers} peers: {found}, {exact}");
        }
        assert!(crossover(10_000) >= 30);
    }
}
