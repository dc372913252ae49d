//! IDONTWANT, both ways (specification v1.2).

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use samara_engine::{PeerId, PeerKeyed};
use smallvec::SmallVec;

use super::{Cx, GossipSub, Ignored};
use crate::ids::TopicIdx;
use crate::rpc::{Control, MessageId, Rpc, RpcFrame};

/// Which messages peers do not want, by message: forwarding looks a message up once, not once per peer.
#[derive(Debug)]
pub(super) struct Unwanted {
    by_id: HashMap<MessageId, SmallVec<[(PeerId, u64); 2]>, PeerKeyed>,
    /// When (in heartbeats) to look at an entry next; entries that were prolonged are put back.
    queue: VecDeque<(u64, PeerId, MessageId)>,
}

impl Unwanted {
    pub(super) fn new(hasher: PeerKeyed) -> Self {
        Self { by_id: HashMap::with_hasher(hasher), queue: VecDeque::new() }
    }

    /// `peer` does not want `id` until the heartbeat `until`. `false` if that was known, and is only prolonged.
    fn add(&mut self, peer: PeerId, id: &MessageId, until: u64) -> bool {
        let peers = self.by_id.entry_ref(id).or_default();
        if let Some((_, known)) = peers.iter_mut().find(|(known, _)| *known == peer) {
            *known = until.max(*known);
            return false;
        }
        peers.push((peer, until));
        self.queue.push_back((until, peer, id.clone()));
        true
    }

    pub(super) fn contains(&self, peer: PeerId, id: &MessageId) -> bool {
        self.peers(id).iter().any(|(known, _)| *known == peer)
    }

    /// Who does not want this message (and until when).
    pub(super) fn peers(&self, id: &MessageId) -> &[(PeerId, u64)] {
        if self.by_id.is_empty() {
            return &[];
        }
        self.by_id.get(id).map_or(&[], SmallVec::as_slice)
    }

    /// Forgets what is over at this heartbeat; whose entries these were.
    fn expire(&mut self, tick: u64) -> Vec<PeerId> {
        let mut expired = Vec::new();
        while self.queue.front().is_some_and(|(until, ..)| *until <= tick) {
            let Some((_, peer, id)) = self.queue.pop_front() else { break };
            let EntryRef::Occupied(mut entry) = self.by_id.entry_ref(&id) else { continue };
            let peers = entry.get_mut();
            let Some(at) = peers.iter().position(|(known, _)| *known == peer) else { continue };
            let until = peers[at].1;
            if until > tick {
                self.queue.push_back((until, peer, id));
                continue;
            }
            peers.swap_remove(at);
            if peers.is_empty() {
                entry.remove();
            }
            expired.push(peer);
        }
        expired
    }

    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        let by_id = &mut self.by_id;
        self.queue.retain(|(_, known, id)| {
            if *known == peer
                && let Some(peers) = by_id.get_mut(id)
            {
                peers.retain(|(known, _)| *known != peer);
                if peers.is_empty() {
                    by_id.remove(id);
                }
            }
            *known != peer
        });
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// A message about to be announced: its topic, its id and the length of its payload.
pub(super) type Incoming<'a> = (TopicIdx, &'a MessageId, usize);

impl GossipSub {
    /// Tells the meshes that these messages are here, so that nobody sends them any more: all mesh peers but the one
    /// that sent them, and whoever is to be told of everything.
    pub(super) fn send_idontwants(
        &mut self,
        from: Option<PeerId>,
        messages: &[Incoming<'_>],
        cx: &mut Cx<'_>,
    ) {
        let threshold = self.config.idontwant.threshold_bytes;
        let enabled = self.config.idontwant.send;
        if let [(topic, id, len)] = messages {
            let mut targets: SmallVec<[PeerId; 16]> = SmallVec::new();
            if enabled && *len >= threshold {
                targets.extend(self.idontwant_targets(*topic, from));
            }
            targets.extend(self.reported_to(from));
            if !targets.is_empty() {
                let frame = seal(vec![(*id).clone()]);
                self.metrics.idontwant_ids_sent += targets.len() as u64;
                for peer in targets {
                    self.send_urgent(peer, frame.clone(), cx);
                }
            }
            return;
        }
        let mut ids_by_peer: BTreeMap<PeerId, Vec<MessageId>> = BTreeMap::new();
        for (topic, id, len) in messages {
            if enabled && *len >= threshold {
                for peer in self.idontwant_targets(*topic, from) {
                    ids_by_peer.entry(peer).or_default().push((*id).clone());
                }
            }
            for peer in self.reported_to(from) {
                ids_by_peer.entry(peer).or_default().push((*id).clone());
            }
        }
        for (peer, ids) in ids_by_peer {
            self.metrics.idontwant_ids_sent += ids.len() as u64;
            // Receivers look at so many ids of an RPC only.
            for ids in ids.chunks(self.config.idontwant.ids_per_rpc_max) {
                self.send_urgent(peer, seal(ids.to_vec()), cx);
            }
        }
    }

    fn idontwant_targets(&self, topic: TopicIdx, from: Option<PeerId>) -> impl Iterator<Item = PeerId> {
        let mesh = self.topics.get(topic).mesh.as_slice().iter().copied();
        mesh.filter(move |peer| {
            Some(*peer) != from && self.peers.has_idontwant(*peer) && !self.peers.reported_to.contains(*peer)
        })
    }

    fn reported_to(&self, from: Option<PeerId>) -> impl Iterator<Item = PeerId> {
        let peers = self.peers.reported_to.as_slice().iter().copied();
        peers.filter(move |peer| Some(*peer) != from)
    }

    /// Messages that a peer does not want.
    pub(super) fn receive_idontwant(&mut self, from: PeerId, ids: &[MessageId], cx: &mut Cx<'_>) {
        if ids.is_empty() {
            return;
        }
        self.metrics.idontwant_ids_received += ids.len() as u64;
        let limits = &self.config.idontwant;
        let Some(peer) = self.peers.get_mut(from) else { return };
        let observer = peer.observer;
        // Observers are trusted, and nothing of what they say is remembered.
        if !observer && peer.counts.idontwants >= limits.rpcs_per_heartbeat_max {
            self.metrics.ignore(Ignored::IDontWantMessagesOverLimit, ids.len() as u64);
            return;
        }
        peer.counts.idontwants = peer.counts.idontwants.saturating_add(1);
        let taken = if observer { ids.len() } else { ids.len().min(limits.ids_per_rpc_max) };
        self.metrics.ignore(Ignored::IDontWantIdsOverLimit, (ids.len() - taken) as u64);
        let until = self.ticks + limits.ttl_heartbeats;
        let room_max = limits.ids_per_peer_max;
        let now = cx.now();
        for id in &ids[..taken] {
            if let Some(key) = self.seen.get(now, id) {
                cx.outbox().note_has(now, from, key);
                if self.config.withdraw.on_idontwant {
                    self.withdraw(from, key, cx);
                }
            }
            let Some(peer) = self.peers.get_mut(from).filter(|peer| !peer.observer) else { continue };
            if peer.unwanted >= room_max && !self.unwanted.contains(from, id) {
                self.metrics.ignore(Ignored::IDontWantPeerFull, 1);
            } else if self.unwanted.add(from, id, until) {
                peer.unwanted += 1;
            }
        }
    }

    /// Forgets what peers did not want some heartbeats ago.
    pub(super) fn expire_idontwants(&mut self) {
        for peer in self.unwanted.expire(self.ticks) {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.unwanted = peer.unwanted.saturating_sub(1);
            }
        }
    }
}

fn seal(ids: Vec<MessageId>) -> RpcFrame {
    let control = Control { idontwant: ids, ..Control::default() };
    RpcFrame::new(Rpc { control: Some(Box::new(control)), ..Rpc::default() })
}
