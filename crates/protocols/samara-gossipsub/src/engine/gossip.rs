//! Lazy gossip and IDONTWANT in both directions (specification v1.0 "Gossip piggybacking", v1.1
//! "Spam protection measures", v1.2).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use samara_engine::outbox::{LossCause, Lost};
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{Frame, MessageKey, PeerId, PeerKeyed, Time};
use smallvec::SmallVec;

use super::mesh::draw;
use super::tables::TopicIdx;
use super::{Cx, Event, GossipSub, Ignored, deadline};
use crate::config::Answers;
use crate::rpc::{Control, IHave, Message, MessageId, PartialMode, Rpc, RpcFrame};

impl GossipSub {
    /// Announces the recent messages of a topic to some peers outside the mesh or the fanout.
    pub(super) fn emit_gossip(&mut self, topic: TopicIdx, cx: &mut Cx<'_>) {
        let mut ids: Vec<MessageId> = self.mcache.gossip_ids(topic).map(|(_, id)| id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let params = self.mesh_params(topic);
        let threshold = self.config.thresholds.gossip;
        let pruned = self.pruned.of(topic, cx.now());
        let state = self.topics.get(topic);
        let pushed_to = if state.joined { &state.mesh } else { &state.fanout };
        let fit = |peer: &PeerId| {
            !self.peers.is_direct(*peer)
                && self.peers.has_mesh(*peer)
                && self.scores.score(*peer) >= threshold
                && !self.takes_parts(topic, *peer)
        };
        // A peer that is back in the mesh still lacks the messages sent while it was outside.
        let mut rejected = pruned;
        rejected.retain(|peer| state.subscribers.contains(*peer) && fit(peer));
        let of_all = self.config.gossip_draws_from_all;
        let eligible = |peer: &PeerId| {
            (of_all || !pushed_to.contains(*peer)) && rejected.binary_search(peer).is_err() && fit(peer)
        };
        let mut peers: Vec<PeerId> = state.subscribers.iter().copied().filter(eligible).collect();
        let share = (params.gossip_factor * peers.len() as f64) as usize;
        draw(&mut peers, params.d_lazy.max(share), cx.rng());
        peers.retain(|peer| !pushed_to.contains(*peer));
        peers.append(&mut rejected);
        if peers.is_empty() {
            return;
        }
        let name = state.name.clone();
        let ids_max = self.config.gossip.ihave_ids_max;
        cx.rng().shuffle(&mut ids);
        for peer in peers {
            // If the list is cut, each peer receives a different part, so that together they cover
            // all of it.
            if ids.len() > ids_max {
                cx.rng().shuffle(&mut ids);
            }
            let ids = ids[..ids.len().min(ids_max)].to_vec();
            let ihave = IHave { topic: name.clone(), ids };
            if self.config.gossip_waits {
                self.waiting_gossip.entry(peer).or_default().push(ihave);
            } else {
                self.outgoing.entry(peer).or_default().ihave.push(ihave);
            }
        }
    }

    /// Sends all announcements that no other RPC has carried since the last heartbeat.
    pub(super) fn send_waiting_gossip(&mut self, cx: &mut Cx<'_>) {
        while let Some((peer, ihave)) = self.waiting_gossip.pop_first() {
            self.send_control(peer, Control { ihave, ..Control::default() }, cx);
        }
    }

    /// Sends the announcements that wait for the next RPC to one of these peers.
    pub(super) fn send_waiting_gossip_to(&mut self, peers: &[PeerId], cx: &mut Cx<'_>) {
        if self.waiting_gossip.is_empty() {
            return;
        }
        for peer in peers {
            if let Some(ihave) = self.waiting_gossip.remove(peer) {
                self.send_control(*peer, Control { ihave, ..Control::default() }, cx);
            }
        }
    }

    /// Handles received IHAVEs. Returns the ids to request from the peer.
    pub(super) fn receive_ihaves(
        &mut self,
        from: PeerId,
        ihaves: &[IHave],
        cx: &mut Cx<'_>,
    ) -> Vec<MessageId> {
        let ids_received: u64 = ihaves.iter().map(|ihave| ihave.ids.len() as u64).sum();
        self.metrics.ihave_ids_received += ids_received;
        if self.scores.score(from) < self.config.thresholds.gossip {
            self.metrics.ignore(Ignored::IHaveScore, ids_received);
            return Vec::new();
        }
        let limits = &self.config.gossip;
        let ids_max = limits.ihave_ids_max;
        let Some(peer) = self.peers.get_mut(from) else { return Vec::new() };
        peer.counts.ihaves = peer.counts.ihaves.saturating_add(1);
        if peer.counts.ihaves > limits.ihave_messages_max {
            self.metrics.ignore(Ignored::IHaveMessagesOverLimit, ids_received);
            return Vec::new();
        }
        let room = ids_max.saturating_sub(peer.counts.asked);
        if room == 0 {
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, ids_received);
            return Vec::new();
        }
        let mut missing = Vec::new();
        for IHave { topic, ids } in ihaves {
            let joined = self.topics.find(topic).is_some_and(|topic| self.topics.get(topic).joined);
            if !joined {
                self.metrics.ignore(Ignored::IHaveNotSubscribed, ids.len() as u64);
                continue;
            }
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, ids.len().saturating_sub(ids_max) as u64);
            for id in ids.iter().take(ids_max) {
                match self.seen.get(cx.now(), id) {
                    None => missing.push(id.clone()),
                    Some(key) => {
                        let now = cx.now();
                        cx.outbox().note_has(now, from, key);
                        if self.config.withdraw.on_ihave {
                            self.withdraw(from, key, cx);
                        }
                    }
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        self.choose_ids(from, missing, room, cx)
    }

    /// Chooses the ids to request from a peer, and tracks its promise to send them.
    fn choose_ids(
        &mut self,
        of: PeerId,
        mut ids: Vec<MessageId>,
        room: usize,
        cx: &mut Cx<'_>,
    ) -> Vec<MessageId> {
        cx.rng().shuffle(&mut ids);
        if ids.len() > room {
            self.metrics.ignore(Ignored::IHaveIdsOverLimit, (ids.len() - room) as u64);
            ids.truncate(room);
        }
        let ids = self.take_offers(of, ids, cx);
        if ids.is_empty() {
            return ids;
        }
        if let Some(peer) = self.peers.get_mut(of) {
            peer.counts.asked += ids.len();
        }
        self.promises.add(cx.now(), of, &ids, cx.rng());
        ids
    }

    /// Handles the ids that a peer requests.
    pub(super) fn receive_iwant(&mut self, from: PeerId, ids: &[MessageId], cx: &mut Cx<'_>) {
        self.metrics.iwant_ids_received += ids.len() as u64;
        if self.scores.score(from) < self.config.thresholds.gossip {
            self.metrics.ignore(Ignored::IWantScore, ids.len() as u64);
            return;
        }
        let ids_max = self.config.gossip.iwant_ids_max;
        let Some(peer) = self.peers.get_mut(from) else { return };
        if peer.observer || is_planted(Bug::GossipsubIwant) {
            self.metrics.ignore(Ignored::IWantUnwanted, ids.len() as u64);
            return;
        }
        let taken = ids.len().min(ids_max.saturating_sub(peer.counts.iwanted));
        peer.counts.iwanted += taken;
        self.metrics.ignore(Ignored::IWantIdsOverLimit, (ids.len() - taken) as u64);
        let mut answer: Vec<(MessageKey, Arc<Message>)> = Vec::new();
        for id in &ids[..taken] {
            match self.requested(from, id, cx) {
                Ok(None) => {}
                Ok(Some(message)) if self.config.answers == Answers::FramePerMessage => {
                    self.send_answer(from, &[message], cx);
                }
                Ok(Some(message)) => answer.push(message),
                Err(cause) => self.metrics.ignore(cause, 1),
            }
        }
        if let Answers::OneFrame { bytes_max } = self.config.answers {
            answer.sort_by_key(|(key, _)| *key);
            answer.dedup_by_key(|(key, _)| *key);
            let mut rest = &answer[..];
            while !rest.is_empty() {
                let (frame, others) = rest.split_at(fitting(rest, bytes_max));
                self.send_answer(from, frame, cx);
                rest = others;
            }
        }
    }

    /// Owes messages to a peer in one frame.
    fn send_answer(&mut self, to: PeerId, messages: &[(MessageKey, Arc<Message>)], cx: &mut Cx<'_>) {
        self.send_waiting_gossip_to(&[to], cx);
        // Several messages in a frame have no common key: they cannot be withdrawn.
        let key = if let [(key, _)] = messages { Some(*key) } else { None };
        let publish = messages.iter().map(|(_, message)| Arc::clone(message)).collect();
        let frame = RpcFrame::new(Rpc { publish, ..Rpc::default() });
        let deadline = deadline(cx.now(), self.config.forward_deadline);
        if self.owe(to, self.lanes.answer, frame, key, deadline, cx) {
            self.metrics.answered_copies += messages.len() as u64;
        } else if key.is_none() {
            // The loss of the frame counts once; the application learns of every message.
            for (key, _) in messages {
                let cause = LossCause::DroppedNewest;
                cx.emit(Event::Lost(Lost { peer: to, message: Some(*key), cause }));
            }
        }
    }

    /// Returns a requested message, unless a copy is already owed.
    fn requested(
        &mut self,
        to: PeerId,
        id: &MessageId,
        cx: &mut Cx<'_>,
    ) -> Result<Option<(MessageKey, Arc<Message>)>, Ignored> {
        if self.unwanted.contains(to, id) {
            return Err(Ignored::IWantUnwanted);
        }
        let now = cx.now();
        let key = self.seen.get(now, id).ok_or(Ignored::IWantUnknown)?;
        let (message, count) = self.mcache.get_for_peer(key, to).ok_or(Ignored::IWantUnknown)?;
        if count > self.config.gossip.retransmissions_max {
            return Err(Ignored::IWantRetransmissions);
        }
        // A copy that is already owed will arrive. Moving it ahead would put second copies before
        // first ones, because a peer that waits for a burst requests much of it.
        if self.config.withdraw.on_iwant && cx.outbox().owes(to, key) {
            return Ok(None);
        }
        Ok(Some((key, Arc::clone(message))))
    }
}

/// Returns the number of messages at the head of an answer, at least one, that fit into a frame.
fn fitting(answer: &[(MessageKey, Arc<Message>)], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |(_, message): &&(MessageKey, Arc<Message>)| {
        bytes += RpcFrame::message(message).encoded_len();
        bytes <= bytes_max
    };
    answer.iter().take_while(fits).count().max(1)
}

/// One peer's IDONTWANT of one message. Times are in heartbeats of this node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) peer: PeerId,
    /// The heartbeat that forgets it.
    until: u64,
    /// The heartbeat up to which it is kept while the message has not arrived.
    arrival_until: u64,
}

/// The messages that peers do not want, by message: forwarding looks up a message once, not once for
/// each peer.
#[derive(Debug, Default)]
pub(super) struct Unwanted {
    pub(super) by_id: HashMap<MessageId, SmallVec<[Refusal; 2]>, PeerKeyed>,
    /// The next heartbeat at which to check each entry. An entry that was prolonged is put back.
    queue: VecDeque<(u64, PeerId, MessageId)>,
    /// Bytes of all entries.
    pub(super) bytes: usize,
}

/// Bytes that a remembered id takes beside its own: its entries in the table and the queue.
const REFUSAL_BYTES: usize = 208;

/// The share of one peer in the bytes of all refusals.
const REFUSAL_SHARES: usize = 16;

fn bytes_of(id: &MessageId) -> usize {
    REFUSAL_BYTES + id.as_bytes().len()
}

impl Unwanted {
    /// Adds a refusal, or prolongs the known one. Returns false if it was known.
    fn add(&mut self, id: &MessageId, refusal: Refusal) -> bool {
        let refusals = self.by_id.entry_ref(id).or_default();
        if let Some(known) = refusals.iter_mut().find(|known| known.peer == refusal.peer) {
            *known = Refusal { until: refusal.until.max(known.until), ..refusal };
            return false;
        }
        refusals.push(refusal);
        self.bytes += bytes_of(id);
        self.queue.push_back((refusal.until, refusal.peer, id.clone()));
        true
    }

    pub(super) fn contains(&self, peer: PeerId, id: &MessageId) -> bool {
        self.refusals(id).iter().any(|known| known.peer == peer)
    }

    /// The refusals of a message.
    pub(super) fn refusals(&self, id: &MessageId) -> &[Refusal] {
        if self.by_id.is_empty() {
            return &[];
        }
        self.by_id.get(id).map_or(&[], SmallVec::as_slice)
    }

    /// Forgets the refusals that end at this heartbeat, and returns their peers and bytes. A refusal of a message
    /// that `has_arrived` denies is kept for `ttl` heartbeats more.
    fn expire(
        &mut self,
        tick: u64,
        ttl: u64,
        has_arrived: impl Fn(&MessageId) -> bool,
    ) -> Vec<(PeerId, usize)> {
        let mut expired = Vec::new();
        while self.queue.front().is_some_and(|(until, ..)| *until <= tick) {
            let Some((_, peer, id)) = self.queue.pop_front() else { break };
            let EntryRef::Occupied(mut entry) = self.by_id.entry_ref(&id) else { continue };
            let refusals = entry.get_mut();
            let Some(at) = refusals.iter().position(|known| known.peer == peer) else { continue };
            let refusal = &mut refusals[at];
            if refusal.until <= tick && tick < refusal.arrival_until && !has_arrived(&id) {
                refusal.until = refusal.arrival_until.min(tick + ttl);
            }
            if refusal.until > tick {
                self.queue.push_back((refusal.until, peer, id));
                continue;
            }
            refusals.swap_remove(at);
            if refusals.is_empty() {
                entry.remove();
            }
            self.bytes -= bytes_of(&id);
            expired.push((peer, bytes_of(&id)));
        }
        expired
    }

    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        let (by_id, bytes) = (&mut self.by_id, &mut self.bytes);
        self.queue.retain(|(_, known, id)| {
            if *known == peer
                && let Some(refusals) = by_id.get_mut(id)
            {
                *bytes -= bytes_of(id);
                refusals.retain(|known| known.peer != peer);
                if refusals.is_empty() {
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

/// A received message that IDONTWANT may announce: its topic, its id and the length of its payload.
pub(super) type Incoming<'a> = (TopicIdx, &'a MessageId, usize);

impl GossipSub {
    /// Sends IDONTWANT for these messages, so that no peer sends them again. The targets are all
    /// mesh peers except the sender, and the peers of
    /// [`Config::report_to`](crate::Config::report_to).
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
                let frame = idontwant(vec![(*id).clone()]);
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
            // Receivers process only a limited number of ids of one RPC.
            for ids in ids.chunks(self.config.idontwant.ids_per_rpc_max) {
                self.send_urgent(peer, idontwant(ids.to_vec()), cx);
            }
        }
    }

    fn idontwant_targets(&self, topic: TopicIdx, from: Option<PeerId>) -> impl Iterator<Item = PeerId> {
        let state = self.topics.get(topic);
        // A peer that sends parts sends no full message to a node that requests parts.
        let in_parts = self.partial_mode(topic) == PartialMode::Requests;
        let mesh = state.mesh.iter().copied();
        let mesh = mesh.filter(move |peer| !in_parts || !state.parts_supported_by.contains(*peer));
        mesh.filter(move |peer| {
            Some(*peer) != from && self.peers.has_idontwant(*peer) && !self.peers.reported_to.contains(*peer)
        })
    }

    fn reported_to(&self, from: Option<PeerId>) -> impl Iterator<Item = PeerId> {
        let peers = self.peers.reported_to.iter().copied();
        peers.filter(move |peer| Some(*peer) != from)
    }

    /// Handles the ids of messages that a peer does not want.
    pub(super) fn receive_idontwant(&mut self, from: PeerId, ids: &[MessageId], cx: &mut Cx<'_>) {
        if ids.is_empty() {
            return;
        }
        self.metrics.idontwant_ids_received += ids.len() as u64;
        let limits = &self.config.idontwant;
        let Some(peer) = self.peers.get_mut(from) else { return };
        let observer = peer.observer;
        // Observers are trusted, and none of their ids is remembered.
        if !observer && peer.counts.idontwants >= limits.rpcs_per_heartbeat_max {
            self.metrics.ignore(Ignored::IDontWantMessagesOverLimit, ids.len() as u64);
            return;
        }
        peer.counts.idontwants = peer.counts.idontwants.saturating_add(1);
        let taken = if observer { ids.len() } else { ids.len().min(limits.ids_per_rpc_max) };
        self.metrics.ignore(Ignored::IDontWantIdsOverLimit, (ids.len() - taken) as u64);
        let until = self.ticks + limits.ttl_heartbeats;
        // An id that nobody repeats for this long is forgotten everywhere.
        let seen_heartbeats =
            self.config.seen_ttl.as_nanos().div_ceil(self.config.heartbeat_interval.as_nanos().max(1)) as u64;
        let arrival_until = if limits.until_arrival { self.ticks + seen_heartbeats } else { until };
        let refusal = Refusal { peer: from, until, arrival_until };
        let (room_max, bytes_max) = (limits.ids_per_peer_max, limits.bytes_max);
        let now = cx.now();
        for id in &ids[..taken] {
            if let Some(key) = self.seen.get(now, id) {
                cx.outbox().note_has(now, from, key);
                if self.config.withdraw.on_idontwant {
                    self.withdraw(from, key, cx);
                    self.metrics.kept_unwanted_copies += u64::from(cx.outbox().owes(from, key));
                }
            }
            let Some(peer) = self.peers.get_mut(from).filter(|peer| !peer.observer) else { continue };
            let bytes = bytes_of(id);
            let is_peer_full =
                peer.unwanted >= room_max || peer.unwanted_bytes + bytes > bytes_max / REFUSAL_SHARES;
            let is_full = is_peer_full || self.unwanted.bytes + bytes > bytes_max;
            if is_full && !self.unwanted.contains(from, id) {
                let cause =
                    if is_peer_full { Ignored::IDontWantPeerFull } else { Ignored::IDontWantTableFull };
                self.metrics.ignore(cause, 1);
            } else if self.unwanted.add(id, refusal) {
                peer.unwanted += 1;
                peer.unwanted_bytes += bytes;
            }
        }
    }

    /// Forgets the refusals that end at this heartbeat.
    pub(super) fn expire_idontwants(&mut self, now: Time) {
        let has_arrived = |id: &MessageId| self.seen.get(now, id).is_some();
        let expired = self.unwanted.expire(self.ticks, self.config.idontwant.ttl_heartbeats, has_arrived);
        for (peer, bytes) in expired {
            if let Some(peer) = self.peers.get_mut(peer) {
                peer.unwanted = peer.unwanted.saturating_sub(1);
                peer.unwanted_bytes = peer.unwanted_bytes.saturating_sub(bytes);
            }
        }
    }
}

fn idontwant(ids: Vec<MessageId>) -> RpcFrame {
    RpcFrame::control(Control { idontwant: ids, ..Control::default() })
}
