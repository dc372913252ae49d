//! Links: peers that connect and leave, the topics that both sides announce, and the path of frames
//! into the outbox.

use samara_engine::outbox::{Lane, LossCause, Lost, Schedule, Weight};
use samara_engine::planted::{Bug, is_planted};
use samara_engine::{Frame, MessageKey, PeerId, PeerInfo, Time};
use thin_vec::ThinVec;

use super::tables::{Counts, Peer, Protocol, TopicIdx};
use super::{Cx, Event, GossipSub, Ignored, Trace};
use crate::config::LaneLayout;
use crate::rpc::{Control, IHave, PartialMode, Rpc, RpcFrame, SubOpts, Topic};

impl GossipSub {
    /// Joins a topic: announces it to all peers, and forms a mesh. Returns false if it was already
    /// joined.
    pub fn subscribe(&mut self, topic: &Topic, cx: &mut Cx<'_>) -> bool {
        self.subscribe_all(std::slice::from_ref(topic), cx) > 0
    }

    /// Joins several topics at once, with one announcement and one GRAFT to each peer. Returns the
    /// number of newly joined topics.
    pub fn subscribe_all(&mut self, topics: &[Topic], cx: &mut Cx<'_>) -> usize {
        let mut fresh = Vec::new();
        for name in topics {
            let topic = self.use_topic(name);
            if !self.topics.get(topic).joined {
                self.set_joined(topic, true);
                fresh.push(topic);
            }
        }
        if fresh.is_empty() {
            return 0;
        }
        self.announce_to_all(&fresh, cx);
        for topic in &fresh {
            self.join(*topic, cx);
        }
        self.flush(cx);
        fresh.len()
    }

    /// Leaves a topic: announces it to all peers, and dissolves the mesh. Returns false if it was
    /// not joined.
    pub fn unsubscribe(&mut self, topic: &Topic, cx: &mut Cx<'_>) -> bool {
        let Some(topic) = self.topics.find(topic) else { return false };
        if !self.topics.get(topic).joined {
            return false;
        }
        self.set_joined(topic, false);
        self.announce_to_all(&[topic], cx);
        self.leave(topic, cx);
        true
    }

    /// Returns the number of a topic that this node uses itself.
    pub(super) fn use_topic(&mut self, name: &Topic) -> TopicIdx {
        let topic = self.intern(name);
        let state = self.topics.get_mut(topic);
        if !state.local {
            state.local = true;
            if let Some(params) = self.topic_params(name).cloned() {
                self.scores.set_topic_params(topic, params);
            }
        }
        topic
    }

    fn set_joined(&mut self, topic: TopicIdx, joined: bool) {
        self.topics.set_joined(topic, joined);
        self.greeting = None;
    }

    fn intern(&mut self, name: &Topic) -> TopicIdx {
        let config = &self.config;
        self.topics.intern(name, || config.topics.contains_key(name))
    }

    fn announce_to_all(&mut self, topics: &[TopicIdx], cx: &mut Cx<'_>) {
        let frames = self.announcement(topics);
        for peer in self.peers.connected().to_vec() {
            self.announce(peer, topics, &frames, cx);
        }
    }

    pub(super) fn link_up(&mut self, id: PeerId, info: PeerInfo, cx: &mut Cx<'_>) {
        self.dialling.remove(&info.identity);
        if self.peers.get(id).is_some() {
            // A driver that reports a link twice must not double the state of the link.
            self.link_down(id, cx);
        }
        let mut peer = Peer {
            protocol: Protocol::of(&info.protocol),
            direct: self.direct.contains(&info.identity),
            observer: self.observers.contains(&info.identity),
            topics: Vec::new(),
            topic_bytes: 0,
            extensions: None,
            signed_record: None,
            retry: None,
            unannounced: ThinVec::new(),
            unwanted: 0,
            unwanted_bytes: 0,
            streams: Default::default(),
            responses: Default::default(),
            parked_until: Time::ZERO,
            offers: 0,
            counts: Counts::default(),
            info,
        };
        // A PRUNE of the last link may not have arrived.
        if self.topics.joined().iter().any(|topic| self.backoffs.is_pending(cx.now(), id, *topic)) {
            peer.streams.restarted_at = Some(cx.now());
        }
        let extended = peer.protocol.has_extensions();
        let is_greeted_by_driver = self.greets_by_stream;
        let reported_to = self.report_to.contains(&peer.info.identity);
        self.scores.add_peer(id, peer.info.address);
        cx.outbox().set_observer(id, peer.observer);
        self.peers.insert(id, peer);
        if reported_to {
            self.peers.reported_to.insert(id);
        }
        if is_greeted_by_driver {
            return;
        }
        if extended {
            let joined = self.topics.joined().to_vec();
            self.announce_extensions(id, &joined, cx);
        } else if !self.topics.joined().is_empty() {
            let joined = self.topics.joined().to_vec();
            // All links share these frames: with many links and topics, they would take more memory
            // than anything else in a node.
            let frames = self.greeting.take().unwrap_or_else(|| self.announcement(&joined));
            self.announce(id, &joined, &frames, cx);
            self.greeting = Some(frames);
        }
    }

    pub(super) fn link_down(&mut self, id: PeerId, cx: &mut Cx<'_>) {
        self.pruned.forget_peer(id);
        let Some(peer) = self.peers.remove(id) else { return };
        for topic in &peer.topics {
            let state = self.topics.get_mut(*topic);
            state.subscribers.remove(id);
            state.always.remove(id);
            state.parts_supported_by.remove(id);
            state.parts_requested_by.remove(id);
            self.topics.release(*topic);
        }
        // A peer can be in a mesh without a subscription.
        for topic in self.topics.joined().to_vec() {
            if self.topics.get_mut(topic).mesh.remove(id) {
                let name = self.topics.get(topic).name.clone();
                self.trace(cx, || Trace::Pruned { peer: id, topic: name, by_peer: true });
            }
        }
        for topic in self.topics.fanouts().to_vec() {
            self.topics.get_mut(topic).fanout.remove(id);
        }
        if peer.unwanted > 0 {
            self.unwanted.forget_peer(id);
        }
        self.outgoing.remove(&id);
        self.waiting_gossip.remove(&id);
        // Requests and answers that were in flight are lost.
        if !is_planted(Bug::GossipsubForgive) {
            self.promises.forgive(id);
        }
        self.forget_partials_of(id, cx);
        self.forget_spread_of(id, cx);
        self.scores.remove_peer(cx.now(), id);
    }

    /// Counts `count` misbehaviours of a peer (P7).
    pub(super) fn penalise(&mut self, peer: PeerId, count: u32) {
        self.metrics.misbehaviours += u64::from(count);
        self.scores.add_penalty(peer, f64::from(count));
    }

    /// Forgets the state that outlives a link: score, backoffs and promises. Call it in drivers
    /// that reuse the number of a departed peer, so that the new peer does not inherit it. Does
    /// nothing while there is a link.
    pub fn forget_peer(&mut self, peer: PeerId) {
        if self.peers.get(peer).is_none() {
            self.scores.forget_peer(peer);
            self.backoffs.forget_peer(peer);
            self.promises.forget_peer(peer);
        }
    }

    /// Handles the topics that a peer joins and leaves.
    pub(super) fn receive_subscriptions(&mut self, from: PeerId, changes: &[SubOpts], cx: &mut Cx<'_>) {
        let is_over_limit = changes.len() > self.config.subscriptions.per_rpc_max;
        if is_over_limit {
            self.metrics.ignore(Ignored::SubscriptionsOverLimit, changes.len() as u64);
        }
        for change in changes {
            if !change.subscribe {
                // Leaving costs nothing, and a peer that left must get no more messages.
                self.peer_unsubscribed(from, &change.topic, cx);
            } else if !is_over_limit {
                self.peer_subscribed(from, &change.topic, change.partial, cx);
            }
        }
    }

    fn peer_subscribed(&mut self, from: PeerId, name: &Topic, partial: PartialMode, cx: &mut Cx<'_>) {
        let limits = &self.config.subscriptions;
        if !limits.filter.allows(name) {
            self.metrics.ignore(Ignored::SubscriptionFiltered, 1);
            return;
        }
        let Some(peer) = self.peers.get(from) else { return };
        let known = self.topics.find(name);
        if let Some(topic) = known.filter(|topic| peer.topics.binary_search(topic).is_ok()) {
            self.topics.get_mut(topic).set_partial(from, partial);
            self.repeated_subscription(from, topic, cx);
            return;
        }
        let bytes = peer.topic_bytes + name.as_str().len();
        if peer.topics.len() >= limits.per_peer_max || bytes > limits.bytes_per_peer_max {
            self.metrics.ignore(Ignored::SubscriptionPeerFull, 1);
            return;
        }
        if known.is_none() && self.topics.bytes_with(name) > limits.bytes_max {
            self.metrics.ignore(Ignored::SubscriptionTableFull, 1);
            return;
        }
        let always = peer.direct || !peer.protocol.has_mesh();
        let topic = known.unwrap_or_else(|| self.intern(name));
        let state = self.topics.get_mut(topic);
        state.subscribers.insert(from);
        state.set_partial(from, partial);
        if always {
            state.always.insert(from);
        }
        if let Some(peer) = self.peers.get_mut(from)
            && let Err(at) = peer.topics.binary_search(&topic)
        {
            peer.topics.insert(at, topic);
            peer.topic_bytes = bytes;
        }
        if self.config.report_subscriptions {
            cx.emit(Event::Subscription { peer: from, topic: name.clone(), joined: true });
        }
        if self.config.graft_on_subscribe {
            self.graft_newcomer(from, topic, cx);
        }
    }

    pub(super) fn peer_unsubscribed(&mut self, from: PeerId, name: &Topic, cx: &mut Cx<'_>) {
        let Some(topic) = self.topics.find(name) else { return };
        // A GRAFT needs no recorded subscription: this node may have ignored that of an honest peer.
        if self.topics.get(topic).mesh.contains(from) {
            self.remove_from_mesh(from, topic, true, cx);
        }
        let Some(peer) = self.peers.get_mut(from) else { return };
        peer.streams.unconfirmed.retain(|known| *known != topic);
        let Ok(at) = peer.topics.binary_search(&topic) else { return };
        peer.topics.remove(at);
        peer.topic_bytes -= name.as_str().len();
        let state = self.topics.get_mut(topic);
        state.subscribers.remove(from);
        state.always.remove(from);
        state.set_partial(from, PartialMode::None);
        state.fanout.remove(from);
        self.topics.release(topic);
        if self.config.report_subscriptions {
            cx.emit(Event::Subscription { peer: from, topic: name.clone(), joined: false });
        }
    }
}

/// Additional bytes of an extensions announcement in the first frame of a link: a field of at most two
/// bytes inside control, and lengths that may take one more byte.
const EXTENSIONS_OVERHEAD_BYTES: usize = 8;

impl GossipSub {
    /// Puts control messages for a peer into the outbox. GRAFT and PRUNE that do not fit are
    /// retried at the next heartbeat. Gossip is not, since the next gossip repeats it.
    pub(super) fn send_control(&mut self, peer: PeerId, mut control: Control, cx: &mut Cx<'_>) {
        control.ihave.extend(self.waiting_gossip.remove(&peer).into_iter().flatten());
        self.metrics.grafts_sent += control.graft.len() as u64;
        self.metrics.prunes_sent += control.prune.len() as u64;
        self.metrics.iwant_ids_sent += control.iwant.len() as u64;
        self.metrics.ihave_ids_sent += control.ihave.iter().map(|ihave| ihave.ids.len() as u64).sum::<u64>();
        for frame in frames(control, self.config.max_control_bytes) {
            if !self.owe(peer, self.lanes.control, frame.clone(), None, None, cx)
                && let Some(control) = &frame.rpc().control
            {
                self.keep_for_retry(peer, control);
            }
        }
    }

    /// Builds the subscription changes of these topics for [`announce`](Self::announce): one frame,
    /// or several if one would be too long.
    pub(super) fn announcement(&self, topics: &[TopicIdx]) -> Vec<RpcFrame> {
        let change = |topic: &TopicIdx| {
            let state = self.topics.get(*topic);
            let partial = if state.joined { self.partial_mode(*topic) } else { PartialMode::None };
            SubOpts {
                subscribe: state.joined,
                topic: state.name.clone(),
                partial,
                unknown: Default::default(),
            }
        };
        let subscriptions = topics.iter().map(change).collect();
        let frame = RpcFrame::new(Rpc { subscriptions, ..Rpc::default() });
        if frame.encoded_len() + EXTENSIONS_OVERHEAD_BYTES <= self.config.max_control_bytes
            || topics.len() < 2
        {
            return vec![frame];
        }
        let (left, right) = topics.split_at(topics.len() / 2);
        [self.announcement(left), self.announcement(right)].concat()
    }

    /// Announces joined and left topics to a peer. If a frame does not fit, all are retried at the
    /// next heartbeat.
    pub(super) fn announce(
        &mut self,
        peer: PeerId,
        topics: &[TopicIdx],
        frames: &[RpcFrame],
        cx: &mut Cx<'_>,
    ) {
        let mut taken = true;
        for frame in frames {
            taken &= self.owe(peer, self.lanes.control, frame.clone(), None, None, cx);
        }
        if !taken && let Some(peer) = self.peers.get_mut(peer) {
            peer.unannounced.extend_from_slice(topics);
            peer.unannounced.sort_unstable();
            peer.unannounced.dedup();
        }
    }

    /// Puts an IDONTWANT into the outbox ahead of all other frames.
    pub(super) fn send_urgent(&mut self, peer: PeerId, frame: RpcFrame, cx: &mut Cx<'_>) {
        let room = self.config.sending.control.copies;
        // In go-libp2p-pubsub, urgent frames overtake others but need space in the same queue.
        if self.config.sending.layout == LaneLayout::Shared && cx.outbox().pending_to(peer) >= room {
            let lost = Lost { peer, message: None, cause: LossCause::DroppedNewest };
            self.note_lost(lost, Some(&frame), cx);
            return;
        }
        self.owe(peer, self.lanes.urgent, frame, None, None, cx);
    }

    /// Puts one frame into the outbox, and handles losses. Returns true if the outbox accepted the
    /// frame.
    pub(super) fn owe(
        &mut self,
        peer: PeerId,
        lane: Lane,
        frame: RpcFrame,
        message: Option<MessageKey>,
        deadline: Option<Time>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let now = cx.now();
        let traced = self.config.trace.then(|| frame.clone());
        let taken = cx.outbox().owe_into(now, peer, lane, frame, message, deadline, &mut self.lost);
        // The lost frame is this one if it was rejected, and otherwise an older one.
        self.note_all_lost(traced.as_ref().filter(|_| !taken), cx);
        taken
    }

    /// Counts a loss, reports it to the application, and penalises a peer that is too slow for its
    /// messages. `frame` is the lost frame, if the caller has it.
    fn note_lost(&mut self, lost: Lost, frame: Option<&RpcFrame>, cx: &mut Cx<'_>) {
        self.metrics.queue_drops[lost.cause] += 1;
        if lost.message.is_some() && lost.cause != LossCause::NotConnected {
            self.scores.slow_peer(lost.peer);
        }
        cx.emit(Event::Lost(lost));
        self.trace(cx, || {
            let cached = || lost.message.and_then(|key| self.mcache.get(key)).map(RpcFrame::message);
            Trace::Lost { peer: lost.peer, cause: lost.cause, frame: frame.cloned().or_else(cached) }
        });
    }

    /// Handles all losses of one call of the outbox.
    pub(super) fn note_all_lost(&mut self, frame: Option<&RpcFrame>, cx: &mut Cx<'_>) {
        let mut lost = std::mem::take(&mut self.lost);
        for lost in lost.drain(..) {
            self.note_lost(lost, frame, cx);
        }
        self.lost = lost;
    }

    /// Updates the weights by which a schedule draws the peers of a message, and counts what nobody
    /// knows: weights that the driver has not set, and the view of an observer without a link.
    pub(super) fn weigh(&mut self, peers: &[PeerId], schedule: &Schedule, cx: &mut Cx<'_>) {
        let outbox = cx.outbox();
        match schedule.weight() {
            Some(Weight::Score) => {
                for peer in peers {
                    outbox.set_weight(*peer, Weight::Score, self.scores.score(*peer));
                }
            }
            Some(weight) => {
                let unknown = peers.iter().filter(|peer| !outbox.has_weight(**peer, weight)).count();
                self.metrics.unweighed_copies += unknown as u64;
            }
            None => {}
        }
        if schedule.is_observed() && outbox.observers() == 0 {
            self.metrics.unobserved_messages += 1;
        }
    }

    /// Withdraws the owed copies of a message to a peer. Returns their number.
    pub(super) fn withdraw(&mut self, peer: PeerId, message: MessageKey, cx: &mut Cx<'_>) -> usize {
        if is_planted(Bug::GossipsubWithdraw) {
            return 0;
        }
        let copies = cx.outbox().withdraw(peer, message);
        self.metrics.withdrawn_copies += copies as u64;
        copies
    }

    pub(super) fn keep_for_retry(&mut self, peer: PeerId, control: &Control) {
        if control.graft.is_empty() && control.prune.is_empty() {
            return;
        }
        let Some(peer) = self.peers.get_mut(peer) else { return };
        let retry = peer.retry.get_or_insert_default();
        for graft in &control.graft {
            if !retry.graft.contains(graft) {
                retry.graft.push(graft.clone());
            }
        }
        for prune in &control.prune {
            if retry.prune.iter().all(|known| known.topic != prune.topic) {
                retry.prune.push(prune.clone());
            }
        }
    }

    /// Adds the messages that did not fit earlier to those that leave now, unless they are
    /// outdated.
    pub(super) fn retry(&mut self, peer: PeerId, cx: &mut Cx<'_>) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        if state.retry.is_none() && state.unannounced.is_empty() {
            return;
        }
        let unannounced = std::mem::take(&mut state.unannounced);
        let retry = state.retry.take();
        if !unannounced.is_empty() {
            let frames = self.announcement(&unannounced);
            self.announce(peer, &unannounced, &frames, cx);
        }
        let Some(mut retry) = retry else { return };
        let topics = &self.topics;
        let in_mesh =
            |name: &Topic| topics.find(name).is_some_and(|topic| topics.get(topic).mesh.contains(peer));
        retry.graft.retain(&in_mesh);
        retry.prune.retain(|prune| !in_mesh(&prune.topic));
        let outgoing = self.outgoing.entry(peer).or_default();
        let known = |topic: &Topic, control: &Control| {
            control.graft.contains(topic) || control.prune.iter().any(|prune| prune.topic == *topic)
        };
        for graft in retry.graft {
            if !known(&graft, outgoing) {
                outgoing.graft.push(graft);
            }
        }
        for prune in retry.prune {
            if !known(&prune.topic, outgoing) {
                outgoing.prune.push(prune);
            }
        }
    }

    /// Sends the control messages that a heartbeat collected, one RPC to each peer.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) {
        for (peer, control) in std::mem::take(&mut self.outgoing) {
            if control != Control::default() {
                self.send_control(peer, control, cx);
            }
        }
    }
}

/// Builds one frame, or several if one would be too long.
pub(super) fn frames(control: Control, bytes_max: usize) -> Vec<RpcFrame> {
    let frame = RpcFrame::control(control);
    if frame.encoded_len() <= bytes_max {
        return vec![frame];
    }
    match halve(frame.rpc().control.as_deref().cloned().unwrap_or_default()) {
        // A single entry that is too long cannot be split. The transport rejects it.
        None => vec![frame],
        Some((left, right)) => [frames(left, bytes_max), frames(right, bytes_max)].concat(),
    }
}

/// Splits control messages in two: first by kind, then by list, then by the ids of a list.
fn halve(mut control: Control) -> Option<(Control, Control)> {
    let mesh = !control.graft.is_empty() || !control.prune.is_empty();
    let gossip = !control.ihave.is_empty() || !control.iwant.is_empty() || !control.idontwant.is_empty();
    if mesh && gossip {
        let graft = std::mem::take(&mut control.graft);
        let prune = std::mem::take(&mut control.prune);
        return Some((Control { graft, prune, ..Control::default() }, control));
    }
    let rest = if let Some(prune) = upper_half(&mut control.prune) {
        Control { prune, ..Control::default() }
    } else if let Some(graft) = upper_half(&mut control.graft) {
        Control { graft, ..Control::default() }
    } else if let Some(ihave) = upper_half(&mut control.ihave) {
        Control { ihave, ..Control::default() }
    } else if let Some(iwant) = upper_half(&mut control.iwant) {
        Control { iwant, ..Control::default() }
    } else {
        let IHave { topic, ids } = control.ihave.first_mut()?;
        let ihave = vec![IHave { topic: topic.clone(), ids: upper_half(ids)? }];
        Control { ihave, ..Control::default() }
    };
    Some((control, rest))
}

/// Takes the second half of a list with more than one entry.
fn upper_half<T>(list: &mut Vec<T>) -> Option<Vec<T>> {
    (list.len() > 1).then(|| list.split_off(list.len() / 2))
}
