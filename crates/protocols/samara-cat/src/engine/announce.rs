//! Announcements to peers.
//!
//! # Inline transactions
//!
//! An announcement costs 32 bytes for each peer that gets it, plus one request and one answer. An
//! inline body costs its own length for each peer, and is never requested. With `e` announcements
//! sent for each node and transaction, an announced transaction of `B` bytes costs
//! `32 e + 36 + (B + 4)`, and an inline one `(B + 2) e`. Here 36 and 4 are the bytes of a request and of the frame
//! around the answer, and 2 are those around each body in a shared frame. Inline wins below
//!
//! ```text
//! B* = (30 e + 40) / (e - 1)
//! ```
//!
//! which is 100 bytes for a node with 3 peers, 36 with 18, and never less than 30: a body shorter
//! than its key is never announced by key.

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

/// Delay before a peer whose queue was full gets announcements of everything that it may have
/// missed.
const RESYNC: Duration = Duration::from_secs(1);

/// Items to be announced at the end of the window.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    items: Vec<(ItemId, Option<PeerId>)>,
    /// Whether a [`Task::Announce`] is on the agenda.
    is_due: bool,
    last: Option<Time>,
}

pub(super) type Member = (ItemId, TxKey);

/// Announcements that share a frame: of the same kind, and pushed by the same peer.
type Group = (Kind, Option<PushedBy>, Vec<Member>);

impl<A: Application> Cat<A> {
    /// Announces an item, if the configuration says so. `pushed_by` is the peer that sent it
    /// unrequested.
    pub(super) fn announce(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.announce == Announce::Nobody {
            return;
        }
        if let Jitter::Timer { max } = self.config.jitter {
            let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX).max(1);
            let at = cx.now().plus_nanos(cx.rng().below(nanos));
            self.agenda.push(at, Task::AnnounceItem { item: id });
        } else {
            self.announce_unjittered(id, pushed_by, cx);
        }
    }

    /// Announces an item that cannot wait for the end of a window: a block, on which the next one
    /// builds.
    pub(super) fn announce_at_once(&mut self, id: ItemId, cx: &mut Cx<'_>) {
        if self.config.announce != Announce::Nobody {
            self.announce_to_all(id, None, cx);
        }
    }

    /// Announces an item without jitter, or at the end of its jitter.
    pub(super) fn announce_unjittered(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.coalesce.is_zero() {
            self.announce_to_all(id, pushed_by, cx);
            return;
        }
        let now = cx.now();
        self.fresh.items.push((id, pushed_by));
        if !std::mem::replace(&mut self.fresh.is_due, true) {
            let window_end = self.fresh.last.map_or(now, |last| last + self.config.coalesce);
            self.agenda.push(window_end.max(now), Task::Announce);
        }
    }

    // ---- one by one ----

    fn announce_to_all(&mut self, id: ItemId, pushed_by: Option<PeerId>, cx: &mut Cx<'_>) {
        if self.config.announce == Announce::Sticky {
            if let Some(frames) = self.frames_for(id, pushed_by) {
                self.announce_to_sticky(id, &frames, cx);
            }
            return;
        }
        // Created on demand, since often no peer needs the announcement.
        let mut frames = None;
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
            if !self.needs_announcement(id, peer) {
                continue;
            }
            if frames.is_none() {
                frames = self.frames_for(id, pushed_by);
            }
            let Some(frames) = &frames else { return };
            self.send_announcement(id, peer, frames, cx);
        }
    }

    pub(super) fn needs_announcement(&self, id: ItemId, peer: PeerId) -> bool {
        let Some(item) = self.items.get(id) else { return false };
        self.config.announce == Announce::All || !item.seen.contains(peer)
    }

    /// Announces an item to the top peers for its signer, and to some more persistent ones
    /// (`broadcastSeenTxWithHeight`).
    fn announce_to_sticky(&mut self, id: ItemId, frames: &Frames, cx: &mut Cx<'_>) {
        let most = self.config.sticky;
        let order = self.sticky.order(frames.details.signer.as_ref(), &self.peers);
        let (mut sent, mut persistent_sent) = (0, 0);
        for peer in order.iter().copied() {
            let is_persistent = self.peers.get(peer).is_some_and(|peer| peer.persistent);
            let may = sent < most.peers || (is_persistent && persistent_sent < most.persistent);
            if may && self.needs_announcement(id, peer) && self.send_announcement(id, peer, frames, cx) {
                sent += 1;
                persistent_sent += usize::from(is_persistent);
            }
        }
    }

    /// Sends one peer the announcement of one item. Returns true if there was room.
    fn send_announcement(&mut self, id: ItemId, peer: PeerId, frames: &Frames, cx: &mut Cx<'_>) -> bool {
        let Some(protocol) = self.speaks(peer) else { return false };
        let Some(frame) = frames.of(protocol) else {
            let lacks_signer = protocol == Protocol::Sequenced && frames.kind == Kind::Transaction;
            self.metrics.unsigned_keys += u64::from(lacks_signer);
            return false;
        };
        if !self.enters_window(id, peer, cx) {
            return false;
        }
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

    /// Announces one item to one peer, unless the peer has it.
    pub(super) fn announce_to_one(&mut self, id: ItemId, peer: PeerId, cx: &mut Cx<'_>) {
        if self.needs_announcement(id, peer)
            && let Some(frames) = self.frames_for(id, None)
        {
            self.send_announcement(id, peer, &frames, cx);
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

    /// Returns the short address of the peer that pushed a transaction, if announcements contain
    /// it.
    fn short_hint(&self, pushed_by: Option<PeerId>) -> Option<PushedBy> {
        let pusher = pushed_by.and_then(|peer| self.peers.get(peer));
        pusher.filter(|_| matches!(self.config.hint, Hint::Short { .. })).map(|peer| peer.address.short())
    }

    // ---- several items at a time ----

    /// Sends each peer, in one frame, the collected announcements that it needs.
    pub(super) fn announce_fresh(&mut self, cx: &mut Cx<'_>) {
        self.fresh.is_due = false;
        self.fresh.last = Some(cx.now());
        let items = std::mem::take(&mut self.fresh.items);
        if self.config.announce == Announce::Sticky {
            items.iter().for_each(|(id, pushed_by)| self.announce_to_all(*id, *pushed_by, cx));
            return;
        }
        for (kind, pushed_by, members) in self.groups(&items) {
            for chunk in members.chunks(KeyList::MAX) {
                self.announce_keys(kind, pushed_by, chunk, cx);
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

    /// Announces at most [`KeyList::MAX`] items to all peers. All frames share one list.
    fn announce_keys(&mut self, kind: Kind, pushed_by: Option<PushedBy>, chunk: &[Member], cx: &mut Cx<'_>) {
        let keys: KeyList = chunk.iter().map(|(_, key)| *key).collect();
        let inline = self.inline_mask(kind, chunk);
        for place in 0..self.peers.len() {
            let peer = self.peers.all()[place];
            let Some(protocol) = self.speaks(peer) else { continue };
            let mut mask = 0u64;
            for (bit, (id, _)) in chunk.iter().enumerate() {
                mask |= u64::from(self.needs_announcement(*id, peer)) << bit;
            }
            if protocol.is_extended() {
                let bodies = mask & inline;
                if bodies != 0 && self.send_inline(peer, chunk, bodies, cx) {
                    mask &= !bodies;
                }
            }
            if mask == 0 {
                continue;
            }
            if protocol.is_extended() {
                self.send_keys(peer, SeenKeys { keys: keys.only(mask), kind, pushed_by }, chunk, mask, cx);
            } else {
                for (bit, (id, _)) in chunk.iter().enumerate() {
                    if mask >> bit & 1 == 1
                        && let Some(frames) = self.frames_for(*id, None)
                    {
                        self.send_announcement(*id, peer, &frames, cx);
                    }
                }
            }
        }
    }

    fn send_keys(&mut self, peer: PeerId, seen: SeenKeys, chunk: &[Member], mask: u64, cx: &mut Cx<'_>) {
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

    // ---- the whole pool ----

    /// Schedules a resync with a peer that has missed an announcement.
    pub(super) fn resync_later(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if self.config.sync && !std::mem::replace(&mut state.resyncing, true) {
            self.agenda.push(cx.now() + RESYNC, Task::Resync { peer });
        }
    }

    /// Announces to a peer everything in the pool that it is not known to have. A peer that knows
    /// no announcements gets the transactions, if the configuration sends such peers any of other
    /// nodes.
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
        missed.retain(|(id, _)| self.needs_announcement(*id, peer));
        if protocol == Protocol::Sequenced {
            missed.sort_by_key(|(_, key)| self.pool.entry(key).map(|entry| entry.sequence));
        }
        for chunk in missed.chunks(KeyList::MAX) {
            if self.peers.get(peer).is_none_or(|state| state.resyncing) {
                return;
            }
            if protocol.is_extended() {
                let keys: KeyList = chunk.iter().map(|(_, key)| *key).collect();
                let seen = SeenKeys { keys, kind: Kind::Transaction, pushed_by: None };
                self.send_keys(peer, seen, chunk, u64::MAX, cx);
            } else {
                for (id, _) in chunk {
                    if let Some(frames) = self.frames_for(*id, None) {
                        self.send_announcement(*id, peer, &frames, cx);
                    }
                }
            }
        }
    }
}

/// An announcement in all the forms that peers may need. Each form is created once and shared by
/// its peers.
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
            // The merged wire format has neither signer nor sequence, but the benchmarked one may
            // have `From`.
            Protocol::Cat => {
                let from = self.details.from.clone();
                let details = from.map(|from| SeenDetails { from: Some(from), ..SeenDetails::default() });
                Some(SeenTx { key, details }.into())
            }
            // An announcement without signer would be misbehaviour.
            Protocol::Sequenced => {
                let details = Some(self.details.clone()).filter(|details| details.signer.is_some())?;
                Some(SeenTx { key, details: Some(details) }.into())
            }
        }
    }
}

// ---- inline bodies ----

/// Maximum length of an inline body in bytes, however few peers there are. A longer one would be a
/// push.
const INLINE_MAX: u64 = 1_024;

/// Returns the length of bodies below which sending them to all peers costs less than announcing
/// them; see above. A node announces a transaction to two of three peers, since the others have
/// announced it before, or have it from the same neighbour.
pub(super) fn crossover(peers: usize) -> usize {
    let announced = 2 * peers as u64;
    // With e = announced / 3, all multiplied by three.
    let limit = (30 * announced + 120).checked_div(announced.saturating_sub(3)).unwrap_or(INLINE_MAX);
    limit.min(INLINE_MAX) as usize
}

impl<A: Application> Cat<A> {
    /// Returns the maximum length of an inline body; 0 for none.
    pub(super) fn inline_max(&self) -> usize {
        match self.config.inline {
            Inline::Never => 0,
            Inline::UpTo(most) => most,
            Inline::WhereItWins => crossover(self.peers.len()),
        }
    }

    /// Returns the mask of the transactions to send inline.
    pub(super) fn inline_mask(&self, kind: Kind, members: &[Member]) -> u64 {
        let most = self.inline_max();
        if most == 0 || kind != Kind::Transaction {
            return 0;
        }
        let is_short = |key| self.pool.get(key).is_some_and(|tx| tx.len() <= most);
        members.iter().enumerate().fold(0, |mask, (bit, (_, key))| mask | u64::from(is_short(key)) << bit)
    }

    /// Sends a peer the bodies of these transactions in one frame. Returns true if there was room.
    pub(super) fn send_inline(
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

/// Maximum number of signers whose orders are remembered. Beyond it, all orders are forgotten.
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

    /// Returns all peers, the stickiest first.
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

    /// Returns the part of the score that all peers share.
    fn salted(&self, signer: Option<&Signer>) -> Sha256 {
        Sha256::new()
            .chain_update(NAMESPACE)
            .chain_update(&self.salt)
            .chain_update(signer.map_or(&[][..], Signer::as_bytes))
            .chain_update([0])
    }
}

/// `stickyScore64` of celestia-core.
fn score(salted: &Sha256, peer: &str) -> u64 {
    let digest = salted.clone().chain_update(peer).finalize();
    digest.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula in integers, compared with the exact one.
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
